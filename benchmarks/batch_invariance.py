"""Measure how much scores depend on the batch: 500 pairs scored alone, together, in another order and padded.

    python benchmarks/batch_invariance.py            # prints the table of docs/reliability.md

Texts are random mixtures of words of several scripts, symbols, spaces and unusual code points. Pairs have 1 to 100
words, so that lengths vary strongly.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import harness
import numpy as np

from textmover import InputError, Scorer
from textmover.scoring.precision_and_backend import CAN

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
        sides[1].append(other if other.strip() else PLAIN[0])  # metrics that read sources treat a blank one as missing
    return sides


def largest_change(scorer: Scorer, hypotheses: list[str], references: list[str]) -> float:
    """Return the largest difference between a batched score and the score of the pair alone."""
    pairs = list(zip(hypotheses, references, strict=True))
    alone = np.array([scorer.score([hypothesis], [reference]).scores[0] for hypothesis, reference in pairs])

    def scores(rows: np.ndarray) -> np.ndarray:
        return scorer.score([hypotheses[row] for row in rows], [references[row] for row in rows]).scores

    order = np.random.default_rng(0).permutation(len(pairs))
    orders = [np.arange(len(pairs)), order]
    changes = [float(np.abs(scores(rows) - alone[rows]).max()) for rows in orders]
    halves = [scores(rows) for rows in np.array_split(order, 7)]
    return max(*changes, float(np.abs(np.concatenate(halves) - alone[order]).max()))


def rows(model: str, count: int) -> Iterator[tuple[str, ...]]:
    texts = pairs(count)
    for precision, backend in itertools.product(("exact", "fast", "int8"), BACKENDS):
        if backend not in CAN[precision]:
            continue
        try:
            fields = {"precision": precision, "backend": backend, "device": "cpu", "cache": False}
            scorer = Scorer.from_pretrained(model, **fields)
        except InputError as error:
            yield precision, backend, f"not here: {error}"
            continue
        yield f"{precision} ({scorer.signature.entries['precision']})", backend, f"{largest_change(scorer, *texts):.1e}"


def main() -> None:
    options = harness.parser(__doc__, model="textmover-general", pairs=500).parse_args()
    headers = ("precision", "back-end", "largest move of a score")
    harness.print_table(headers, rows(options.model, options.pairs), texts=None)
    print(f"\n{harness.processor()}, {harness.versions('torch', 'openvino', 'onnxruntime')}.")


if __name__ == "__main__":
    main()
