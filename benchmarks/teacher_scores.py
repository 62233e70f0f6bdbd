"""Pairs of sentences that nobody has rated, and what several metrics, the teachers, give them on the mean.

    python benchmarks/teacher_scores.py --output runs/teacher.csv
    python benchmarks/teacher_scores.py --translations 35000 --share 0 --teachers runs/base/metric --output FILE

The pairs are captions with what people wrote about them (SNLI), and sentences beside those that share rare words with
them, near and less near, so that shared words and shared meaning part; ``--share`` makes them more or fewer.
``--translations`` adds translations beside their post-edits, and their sources (MLQE-PE, training part). Each teacher's
scores are standardised over all pairs. Recipes read the table as ratings, see `configs/fast.yaml`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from numpy.random import Generator
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg
from scipy.stats import zscore

from textmover import Scorer
from textmover.data.leakage import compared_text
from textmover.readers.public_sets import located
from textmover.readers.segments import Columns, read_segments

PAIRS = {"data:snli-dev": 5000}
TRANSLATIONS = "data:mlqe-pe"
SENTENCES = {"data:tatoeba": 4500, "data:ud-ewt-sentences": 3500}
MPNET = {"encoder": "sentence-transformers/all-mpnet-base-v2", "temperature": 0.1}
TEACHERS: tuple[tuple[str, dict[str, Any]], ...] = (("twmd", MPNET), ("textmover-general", {}))
WORDS = (4, 60)  # least and greatest number of words of a sentence


def neighbours(texts: Sequence[str], most: int, generator: Generator) -> Iterator[tuple[str, str]]:
    """Sentences, each beside one of its twenty nearest by the words that they share, rare words counting more."""
    words = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
    index = {word: i for i, word in enumerate(dict.fromkeys(word for one in words for word in one))}
    counts = sparse.csr_array(
        (
            [float(n) for one in words for n in one.values()],
            [index[word] for one in words for word in one],
            np.cumsum([0, *map(len, words)]),
        ),
        shape=(len(texts), len(index)),
    )
    weights = counts.multiply(np.log(len(texts) / (counts > 0).sum(axis=0))).tocsr()
    weights = sparse.diags_array(1 / (sparse_linalg.norm(weights, axis=1) + 1e-9)) @ weights
    for row in generator.permutation(len(texts))[:most]:
        near = (weights @ weights[[row]].T).toarray()[:, 0]
        near[row] = -1
        rank = min(int(generator.exponential(4)), 19, len(texts) - 2)  # itself is the farthest
        yield texts[row], texts[int(np.argsort(-near, kind="stable")[rank])]


def pool(generator: Generator, share: float, translations: int = 0) -> dict[str, list[tuple[str, str, str]]]:
    """Pairs and their source, if any, by the set that they come from, no text more than a few times."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    if translations:
        columns = Columns(hypothesis="hypothesis", references="reference", source="source", score=None, groups=["part"])
        rated = [row for row in read_segments(TRANSLATIONS, columns) if row.groups["part"] == "train"]
        chosen = generator.permutation(len(rated))[:translations]
        found[TRANSLATIONS] = [(rated[i].hypothesis, rated[i].references[0], rated[i].source) for i in chosen]
    for name, most in PAIRS.items() if share else ():
        rows = read_segments(name, Columns(hypothesis="hypothesis", references="premise", score=None))
        chosen = generator.permutation(len(rows))[: math.ceil(share * most)]
        found[name] = [(rows[i].hypothesis, rows[i].references[0], "") for i in chosen]
    for name, most in SENTENCES.items() if share else ():
        lines = dict.fromkeys(Path(located(name)).read_text(encoding="utf-8").splitlines())
        texts = [text for text in lines if WORDS[0] <= len(text.split()) <= WORDS[1]]
        found[name] = [(*pair, "") for pair in neighbours(texts, math.ceil(share * most), generator)]
    for name, pairs in found.items():
        found[name] = [pair for pair in pairs if compared_text(pair[0]) != compared_text(pair[1])]
    return found


def main() -> None:
    options = harness.parser(
        __doc__, output=Path("runs/teacher.csv"), seed=0, share=1.0, translations=0, teachers=[], precision="exact"
    ).parse_args()
    teachers = [(name, {}) for name in options.teachers] or TEACHERS
    found = pool(np.random.default_rng(options.seed), options.share, options.translations)
    pairs = [pair for part in found.values() for pair in part]
    texts = [one for one, _, _ in pairs], [other for _, other, _ in pairs]
    scorers = (Scorer.from_pretrained(name, precision=options.precision, **kept) for name, kept in teachers)
    scores = np.mean([zscore(one.score(*texts).scores) for one in scorers], axis=0)
    names = [name for name, part in found.items() for _ in part]
    rows = [
        {"set": name, "hypothesis": one, "reference": other, "source": source, "score": f"{score:.5f}"}
        for name, (one, other, source), score in zip(names, pairs, scores, strict=True)
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    harness.write_rows(options.output, rows)
    print(f"{len(rows)} pairs are written to {options.output}")


if __name__ == "__main__":
    main()
