"""Generate unrated sentence pairs and label them with the mean score of several teacher metrics.

    python benchmarks/teacher_scores.py --output runs/teacher.csv
    python benchmarks/teacher_scores.py --translations 35000 --share 0 --teachers runs/base/metric --output FILE

Pairs are captions with human-written hypotheses (SNLI), and sentences with neighbours that share rare words, so that
word overlap and meaning differ; ``--share`` scales their number. ``--translations`` adds translations with post-edits
and sources (MLQE-PE, training part). Each teacher's scores are standardised over all pairs. Recipes read the table as
ratings, see `configs/fast.yaml`.
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
WORDS = (4, 60)  # minimum and maximum number of words of a sentence


def neighbours(texts: Sequence[str], most: int, generator: Generator) -> Iterator[tuple[str, str]]:
    """Yield sentences, each with one of its twenty nearest neighbours by idf-weighted word overlap."""
    words = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
    index = {word: i for i, word in enumerate(dict.fromkeys(word for counter in words for word in counter))}
    counts = sparse.csr_array(
        (
            [float(n) for counter in words for n in counter.values()],
            [index[word] for counter in words for word in counter],
            np.cumsum([0, *map(len, words)]),
        ),
        shape=(len(texts), len(index)),
    )
    weights = counts.multiply(np.log(len(texts) / (counts > 0).sum(axis=0))).tocsr()
    weights = sparse.diags_array(1 / (sparse_linalg.norm(weights, axis=1) + 1e-9)) @ weights
    for row in generator.permutation(len(texts))[:most]:
        near = (weights @ weights[[row]].T).toarray()[:, 0]
        near[row] = -1
        rank = min(int(generator.exponential(4)), 19, len(texts) - 2)  # the sentence itself is ranked last
        yield texts[row], texts[int(np.argsort(-near, kind="stable")[rank])]


def pool(generator: Generator, share: float, translations: int = 0) -> dict[str, list[tuple[str, str, str]]]:
    """Return pairs with their source, if any, by data set."""
    pairs_by_set: dict[str, list[tuple[str, str, str]]] = {}
    if translations:
        columns = Columns(hypothesis="hypothesis", references="reference", source="source", score=None, groups=["part"])
        rated = [row for row in read_segments(TRANSLATIONS, columns) if row.groups["part"] == "train"]
        sampled = generator.permutation(len(rated))[:translations]
        pairs_by_set[TRANSLATIONS] = [(rated[i].hypothesis, rated[i].references[0], rated[i].source) for i in sampled]
    for name, most in PAIRS.items() if share else ():
        rows = read_segments(name, Columns(hypothesis="hypothesis", references="premise", score=None))
        sampled = generator.permutation(len(rows))[: math.ceil(share * most)]
        pairs_by_set[name] = [(rows[i].hypothesis, rows[i].references[0], "") for i in sampled]
    for name, most in SENTENCES.items() if share else ():
        lines = dict.fromkeys(Path(located(name)).read_text(encoding="utf-8").splitlines())
        texts = [text for text in lines if WORDS[0] <= len(text.split()) <= WORDS[1]]
        pairs_by_set[name] = [(*pair, "") for pair in neighbours(texts, math.ceil(share * most), generator)]
    for name, pairs in pairs_by_set.items():
        pairs_by_set[name] = [pair for pair in pairs if compared_text(pair[0]) != compared_text(pair[1])]
    return pairs_by_set


def main() -> None:
    options = harness.parser(
        __doc__, output=Path("runs/teacher.csv"), seed=0, share=1.0, translations=0, teachers=[], precision="exact"
    ).parse_args()
    teachers = [(name, {}) for name in options.teachers] or TEACHERS
    pairs_by_set = pool(np.random.default_rng(options.seed), options.share, options.translations)
    pairs = [pair for part in pairs_by_set.values() for pair in part]
    texts = [hypothesis for hypothesis, _, _ in pairs], [reference for _, reference, _ in pairs]
    scorers = (Scorer.from_pretrained(name, precision=options.precision, **overrides) for name, overrides in teachers)
    scores = np.mean([zscore(scorer.score(*texts).scores) for scorer in scorers], axis=0)
    names = [name for name, part in pairs_by_set.items() for _ in part]
    rows = [
        {"set": name, "hypothesis": hypothesis, "reference": reference, "source": source, "score": f"{score:.5f}"}
        for name, (hypothesis, reference, source), score in zip(names, pairs, scores, strict=True)
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    harness.write_rows(options.output, rows)
    print(f"{len(rows)} pairs are written to {options.output}")


if __name__ == "__main__":
    main()
