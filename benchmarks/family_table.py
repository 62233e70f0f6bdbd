"""Every preset on the same ratings with the same encoder: one table.

    python benchmarks/family_table.py --wmt newstest2017_da_toen.tsv --sts sts2012_2016.tsv --output docs/results/family

``--wmt`` is a table with the columns lp, reference, hypothesis, score; ``--sts`` one with year, split, sentence1,
sentence2, score, of which the rows of the split ``test`` are taken. All presets read the same hidden states: each text
is encoded once. Presets whose authors fit idf on the texts at hand do so here, per data set; ``twmd-b`` and ``trwmd-b``
use the mean that is shipped (or one fitted on the texts at hand for another encoder).
"""

from __future__ import annotations

import csv
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import harness
import numpy as np

from textmover.meta_evaluation import bootstrap_interval, grouped_correlations, mean_correlation
from textmover.presets import PRESETS
from textmover.scoring import EncoderMemory, Scorer
from textmover.types import SegmentMetric


class Ratings(NamedTuple):
    """A data set: texts, human scores, and the groups that correlations are taken in."""

    name: str
    hypotheses: list[str]
    references: list[str]
    human: np.ndarray
    groups: list[str]


class Judged(NamedTuple):
    """Pearson per group, mean Kendall, the interval of the mean Pearson, and seconds."""

    pearson: dict[str, float]
    kendall: float
    interval: tuple[float, float]
    seconds: float

    @property
    def mean(self) -> float:
        return float(np.mean([*self.pearson.values()]))


def read(path: Path, name: str, columns: tuple[str, str, str], limit: int | None) -> Ratings:
    """Ratings of a table, of which only the rows of the split ``test`` count; every so many if limited."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if row.get("split", "test") == "test"]
    rows = rows[:: len(rows) // limit] if limit else rows
    texts = ([row[column] for row in rows] for column in columns[:2])
    return Ratings(name, *texts, np.array([float(row["score"]) for row in rows]), [row[columns[2]] for row in rows])


READERS = {
    "wmt": partial(read, name="WMT17", columns=("hypothesis", "reference", "lp")),
    "sts": partial(read, name="STS12-16", columns=("sentence2", "sentence1", "year")),
}


def metric_on(memory: EncoderMemory, preset: str, encoder: str, texts: Sequence[str]) -> SegmentMetric:
    """A preset over the states that are kept, its corpus mean filled in."""
    scorer = Scorer.from_pretrained(preset, encoder=encoder, memory=memory, backend="torch")
    if scorer.metric.needs_fit and not scorer.metric.fits_on_call:
        scorer.fit(list(texts))
    return scorer.metric


def judged(metric: SegmentMetric, ratings: Ratings) -> Judged:
    clock = harness.Clock()
    scores = Scorer(metric, cache=False).score(ratings.hypotheses, ratings.references).scores
    seconds, _ = clock.read()
    scores = scores if metric.higher_is_better else -scores
    groups = grouped_correlations(scores, ratings.human, ratings.groups)
    interval = bootstrap_interval(scores, ratings.human, ratings.groups, samples=200, seed=0)
    pearson = {name: one.pearson for name, one in sorted(groups.items())}
    return Judged(pearson, mean_correlation(groups).kendall, (interval.low, interval.high), seconds)


def main() -> None:
    parser = harness.parser(__doc__, wmt=Path, sts=Path, encoder="sentence-transformers/all-MiniLM-L6-v2", limit=int)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--output", type=Path, required=True, help="beginning of the names of the .md and .csv")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    results: list[tuple[Ratings, dict[str, Judged]]] = []
    for name, reader in READERS.items():
        if getattr(options, name) is None:
            continue
        ratings = reader(getattr(options, name), limit=options.limit)
        memory = EncoderMemory(limit=1 << 34)
        texts = [*ratings.hypotheses, *ratings.references]
        metrics = {preset: metric_on(memory, preset, options.encoder, texts) for preset in options.presets}
        identity = next(iter(metrics.values())).signature.entries["encoder"]
        # The first preset would otherwise be charged with the encoder.
        Scorer(metrics[options.presets[0]], cache=False).score(ratings.hypotheses, ratings.references)
        found = {}
        for preset, metric in metrics.items():
            one = found[preset] = judged(metric, ratings)
            print(f"{ratings.name} {preset} {one.mean:.4f} ({one.seconds:.1f} s)", flush=True)
        results.append((ratings, found))
    rows = [
        {"preset": preset, "data": ratings.name, "group": group, "pearson": str(value)}
        for preset in options.presets
        for ratings, found in results
        for group, value in found[preset].pearson.items()
    ]
    harness.write_rows(options.output.with_suffix(".csv"), ("preset", "data", "group", "pearson"), rows)
    options.output.with_suffix(".md").write_text(markdown(identity, results), encoding="utf-8")
    print(options.output.with_suffix(".md"), file=sys.stderr)


def markdown(encoder: str, results: Sequence[tuple[Ratings, dict[str, Judged]]]) -> str:
    """One table over all data sets, and what it was made with."""
    intro = (
        f"Encoder {encoder}, untrained. {harness.versions('textmover', 'torch', 'transformers')}, "
        f"{harness.processor()}. Mean Pearson over groups with its 95 % bootstrap interval, mean Kendall, and the "
        "seconds that matching took once all texts were encoded. Pearson of each group is in the CSV file of this name."
    )
    rows: dict[str, list[str]] = {}
    headers = ["preset"]
    for ratings, found in results:
        headers += [f"{ratings.name}, n = {len(ratings.groups):,}", "95 %", "Kendall", "s"]
        for preset, one in found.items():
            mean, low, high, kendall = (f"{value:.3f}" for value in (one.mean, *one.interval, one.kendall))
            rows.setdefault(preset, [preset]).extend([mean, f"{low}-{high}", kendall, f"{one.seconds:.1f}"])
    return f"# The family on one encoder\n\n{intro}\n\n{harness.table(headers, rows.values())}\n"


if __name__ == "__main__":
    main()
