"""How far a score moves with its batch mates: 500 pairs scored alone, together, in another order and padded.

    python benchmarks/batch_invariance.py            # prints the table of docs/reliability.md

The texts are drawn from words of several scripts, signs, spaces and code points that tokenizers treat oddly; a pair has
1 to 100 words, so that lengths differ as much as they can.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import harness
import numpy as np

from textmover import InputError, Scorer
from textmover.scoring.precision import CAN

BACKENDS = ("torch", "openvino", "onnxruntime")
PLAIN = "the a of and to in was he with they one word but not all were there".split()  # noqa: SIM905
ODD = "naïve Ærø Straße ﬁne e\u0301te\u0301 日本語 한국어 ไทย हिन्दी العربية עברית Ελλάδα Москва".split()  # noqa: SIM905
SIGNS = [
    "👩\u200d👩\u200d👧", "🇩🇪", "☕", "½", "％", "\u200b", "\u202eabc", "\ufeff", "\u00a0", "\u3000",
    "……", "!!!", "---", "<b>", "3.14",
]  # fmt: skip
WORDS = [*PLAIN, *PLAIN, *ODD, *SIGNS]


def pairs(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    sides: tuple[list[str], list[str]] = ([], [])
    for _ in range(count):
        words = draw.choices(WORDS, k=round(100 ** draw.random()))
        sides[0].append(" ".join(words))
        other = " ".join(word if draw.random() < 0.7 else draw.choice(WORDS) for word in words[::-1])
        sides[1].append(other if other.strip() else PLAIN[0])  # a metric that reads sources takes a blank one for none
    return sides


def moved(scorer: Scorer, hypotheses: list[str], references: list[str]) -> float:
    """Largest difference of a score in any company from the score of its pair alone."""
    pairs = list(zip(hypotheses, references, strict=True))
    alone = np.array([scorer.score([one], [other]).scores[0] for one, other in pairs])

    def scores(way: np.ndarray) -> np.ndarray:
        return scorer.score([hypotheses[row] for row in way], [references[row] for row in way]).scores

    order = np.random.default_rng(0).permutation(len(pairs))
    ways = [np.arange(len(pairs)), order]
    found = [float(np.abs(scores(way) - alone[way]).max()) for way in ways]
    halves = [scores(way) for way in np.array_split(order, 7)]
    return max(*found, float(np.abs(np.concatenate(halves) - alone[order]).max()))


def rows(model: str, count: int) -> Iterator[tuple[str, ...]]:
    texts = pairs(count)
    for precision, backend in itertools.product(("exact", "fast", "int8"), BACKENDS):
        if backend not in CAN[precision]:
            continue
        try:
            chosen = {"precision": precision, "backend": backend, "device": "cpu", "cache": False}
            scorer = Scorer.from_pretrained(model, **chosen)
        except InputError as error:
            yield precision, backend, f"not here: {error}"
            continue
        yield f"{precision} ({scorer.signature.entries['precision']})", backend, f"{moved(scorer, *texts):.1e}"


def main() -> None:
    options = harness.parser(__doc__, model="textmover-general", pairs=500).parse_args()
    headers = ("precision", "back-end", "largest move of a score")
    harness.print_table(headers, rows(options.model, options.pairs), texts=None)
    print(f"\n{harness.processor()}, {harness.versions('torch', 'openvino', 'onnxruntime')}.")


if __name__ == "__main__":
    main()
