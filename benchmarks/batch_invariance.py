"""How far a score moves with its batch mates: 500 pairs scored alone, together, in another order and padded.

    python benchmarks/batch_invariance.py            # prints the table of docs/reliability.md

The texts are drawn from words of several scripts, signs, spaces and code points that tokenizers treat oddly; a pair has
1 to 100 words, so that lengths differ as much as they can.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import harness
import numpy as np

from textmover import InputError, Scorer
from textmover.scoring.precision import CAN, Precision

BACKENDS = ("torch", "openvino", "onnxruntime")
PLAIN = "the a of and to in was he with they one word but not all were there".split()  # noqa: SIM905
ODD = "naïve Ærø Straße ﬁne e\u0301te\u0301 日本語 한국어 ไทย हिन्दी العربية עברית Ελλάδα Москва".split()  # noqa: SIM905
SIGNS = [
    "👩\u200d👩\u200d👧", "🇩🇪", "☕", "½", "％", "\u200b", "\u202eabc", "\ufeff", "\u00a0", "\u3000",
    "……", "!!!", "---", "<b>", "3.14",
]  # fmt: skip
WORDS = [*PLAIN, *PLAIN, *ODD, *SIGNS]


def pairs(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Pairs of texts that share some of their words."""
    draw = random.Random(seed)
    sides: tuple[list[str], list[str]] = ([], [])
    for _ in range(count):
        words = draw.choices(WORDS, k=round(100 ** draw.random()))
        sides[0].append(" ".join(words))
        other = " ".join(word if draw.random() < 0.7 else draw.choice(WORDS) for word in words[::-1])
        sides[1].append(other if other.strip() else PLAIN[0])  # a metric that reads sources takes a blank one for none
    return sides


def settings() -> Iterator[tuple[Precision, str]]:
    """Every precision on every back-end that has it."""
    precisions: tuple[Precision, ...] = ("exact", "fast", "int8")
    yield from ((precision, backend) for precision in precisions for backend in BACKENDS if backend in CAN[precision])


def moved(scorer: Scorer, hypotheses: list[str], references: list[str]) -> float:
    """Largest difference of a score in any company from the score of its pair alone."""
    alone = np.array(
        [scorer.score([one], [other]).scores[0] for one, other in zip(hypotheses, references, strict=True)]
    )
    order = np.random.default_rng(0).permutation(len(hypotheses))
    ways = [np.arange(len(hypotheses)), order]
    found = [float(np.abs(_scores(scorer, hypotheses, references, way) - alone[way]).max()) for way in ways]
    halves = [_scores(scorer, hypotheses, references, way) for way in np.array_split(order, 7)]
    return max(*found, float(np.abs(np.concatenate(halves) - alone[order]).max()))


def _scores(scorer: Scorer, hypotheses: list[str], references: list[str], way: np.ndarray) -> np.ndarray:
    return scorer.score([hypotheses[row] for row in way], [references[row] for row in way]).scores


def rows(model: str, count: int) -> Iterator[tuple[str, ...]]:
    """Precision, back-end, and the largest move of a score."""
    texts = pairs(count)
    for precision, backend in settings():
        try:
            chosen = {"precision": precision, "backend": backend, "device": "cpu", "cache": False}
            scorer = Scorer.from_pretrained(model, **chosen)
        except InputError as error:
            yield precision, backend, f"not here: {error}"
            continue
        yield f"{precision} ({scorer.signature.entries['precision']})", backend, f"{moved(scorer, *texts):.1e}"


def main() -> None:
    """Print the table."""
    options = harness.parser(__doc__, model="textmover-general", pairs=500).parse_args()
    headers = ("precision", "back-end", "largest move of a score")
    harness.print_table(headers, rows(options.model, options.pairs), texts=None)
    print(f"\n{harness.processor()}, {harness.versions('torch', 'openvino', 'onnxruntime')}.")


if __name__ == "__main__":
    main()
