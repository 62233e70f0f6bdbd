"""Every preset on the same ratings with the same encoder: one table.

    python benchmarks/family_table.py --wmt newstest2017_da_toen.tsv --sts sts2012_2016.tsv --output docs/results/family

``--wmt`` is a table with the columns lp, reference, hypothesis, score; ``--sts`` one with year, split, sentence1,
sentence2, score, of which the rows of the split ``test`` are taken. All presets read the same hidden states: each text
is encoded once. Presets whose authors fit idf on the texts at hand do so here, per data set; ``twmd-b`` and ``trwmd-b``
use the mean that is shipped (or one fitted on the texts at hand for another encoder).
"""

from __future__ import annotations

import argparse
import csv
import logging
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from textmover import __version__
from textmover.meta_evaluation import bootstrap_interval, grouped_correlations, mean_correlation
from textmover.presets import PRESETS
from textmover.scoring import EncoderMemory, Scorer
from textmover.types import SegmentMetric


@dataclass(frozen=True)
class Ratings:
    """A data set: texts, human scores, and the groups that correlations are taken in."""

    name: str
    hypotheses: list[str]
    references: list[str]
    human: np.ndarray
    groups: list[str]


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)


def read_wmt(path: Path) -> Ratings:
    rows = list(read_rows(path))
    return Ratings(
        "WMT17",
        [row["hypothesis"] for row in rows],
        [row["reference"] for row in rows],
        np.array([float(row["score"]) for row in rows]),
        [row["lp"] for row in rows],
    )


def read_sts(path: Path) -> Ratings:
    rows = [row for row in read_rows(path) if row["split"] == "test"]
    return Ratings(
        "STS12-16",
        [row["sentence2"] for row in rows],
        [row["sentence1"] for row in rows],
        np.array([float(row["score"]) for row in rows]),
        [row["year"] for row in rows],
    )


def metric_on(memory: EncoderMemory, preset: str, encoder: str, texts: Sequence[str]) -> SegmentMetric:
    """A preset over the states that are kept, its corpus mean filled in."""
    scorer = Scorer.from_pretrained(preset, encoder=encoder, memory=memory, backend="torch")
    if scorer.metric.needs_fit and not scorer.metric.fits_on_call:
        scorer.fit(list(texts))
    return scorer.metric


def judged(metric: SegmentMetric, ratings: Ratings) -> tuple[dict[str, float], float, tuple[float, float], float]:
    """Pearson per group, mean Kendall, the interval of the mean Pearson, and seconds."""
    started = time.perf_counter()
    scores = Scorer(metric, cache=False).score(ratings.hypotheses, ratings.references).scores
    seconds = time.perf_counter() - started
    scores = scores if metric.higher_is_better else -scores
    groups = grouped_correlations(scores, ratings.human, ratings.groups)
    interval = bootstrap_interval(scores, ratings.human, ratings.groups, samples=200, seed=0)
    pearson = {name: one.pearson for name, one in sorted(groups.items())}
    return pearson, mean_correlation(groups).kendall, (interval.low, interval.high), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wmt", type=Path)
    parser.add_argument("--sts", type=Path)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--encoder", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--limit", type=int, help="rows of each data set, for a trial")
    parser.add_argument("--output", type=Path, required=True, help="beginning of the names of the .md and .csv")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    data = [read(path) for read, path in ((read_wmt, options.wmt), (read_sts, options.sts)) if path is not None]
    if options.limit:
        data = [
            Ratings(
                one.name,
                one.hypotheses[:: len(one.groups) // options.limit],
                one.references[:: len(one.groups) // options.limit],
                one.human[:: len(one.groups) // options.limit],
                one.groups[:: len(one.groups) // options.limit],
            )
            for one in data
        ]
    results: dict[str, dict[str, list[float]]] = {preset: {} for preset in options.presets}
    times: dict[str, list[str]] = {preset: [] for preset in options.presets}
    for ratings in data:
        memory = EncoderMemory(limit=1 << 34)
        texts = [*ratings.hypotheses, *ratings.references]
        metrics = {preset: metric_on(memory, preset, options.encoder, texts) for preset in options.presets}
        identity = next(iter(metrics.values())).signature.entries["encoder"]
        # The first preset would otherwise be charged with the encoder.
        Scorer(metrics[options.presets[0]], cache=False).score(ratings.hypotheses, ratings.references)
        for preset, metric in metrics.items():
            pearson, kendall, interval, seconds = judged(metric, ratings)
            mean = float(np.mean([*pearson.values()]))
            results[preset][ratings.name] = [*pearson.values(), mean, *interval, kendall]
            times[preset].append(f"{seconds:.1f}")
            print(f"{ratings.name} {preset} {mean:.4f} ({seconds:.1f} s)", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["preset", "data", "group", "pearson"])
        for preset, by_set in results.items():
            for ratings in data:
                groups = sorted(set(ratings.groups))
                values = by_set[ratings.name][: len(groups)]
                table.writerows([preset, ratings.name, *row] for row in zip(groups, values, strict=True))
    text = markdown(data, identity, results, times)
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    print(options.output.with_suffix(".md"), file=sys.stderr)


def markdown(
    data: Sequence[Ratings], encoder: str, results: dict[str, dict[str, list[float]]], times: dict[str, list[str]]
) -> str:
    """A table for each data set, and what they were made with."""
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads"
    lines = [
        "# The family on one encoder",
        "",
        f"Encoder {encoder}, untrained. textmover {__version__}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, {machine}. Pearson per group, their mean with its 95 % bootstrap interval, mean "
        "Kendall, and the seconds that matching took once all texts were encoded.",
    ]
    for place, ratings in enumerate(data):
        groups = sorted(set(ratings.groups))
        header = ["preset", *groups, "mean", "95 %", "Kendall", "s"]
        lines += ["", f"**{ratings.name}**, n = {len(ratings.groups):,}", "", "| " + " | ".join(header) + " |"]
        lines.append("|---" * len(header) + "|")
        for preset, by_set in results.items():
            *pearson, mean, low, high, kendall = (f"{value:.3f}" for value in by_set[ratings.name])
            cells = [preset, *pearson, mean, f"{low}-{high}", kendall, times[preset][place]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
