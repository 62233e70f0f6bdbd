"""Measure how often a metric prefers a faithful paraphrase to a near copy with one wrong fact, by kind of fact.

    python benchmarks/contrasts.py --metrics twmd textmover-general bertscore-f1

Paraphrases: correct translations with their post-edits (MLQE-PE dev), and equivalent pairs of STS-B dev; neither is
training data. Other notations of a number or date are also compared with wrong numbers. Columns starting with
"events", "stories" and "reports" use generated events that are not trained on: short ones, and longer ones of daily
life and of news whose paraphrases share few words; "written" uses free paraphrases and wrong copies written by hand.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import harness
import numpy as np

from textmover import Scorer
from textmover.data.generated.contrasts import WRONG_FACTS, RewordedFile, contrast_segments, reworded_pairs
from textmover.data.generated.events import BOOKS, EQUIVALENT, REWORDING, WRONG_EVENTS, event_segments
from textmover.readers.segments import Columns, read_segments
from textmover.types import Segment

FILES = (
    RewordedFile("data:mlqe-pe", least={"da_mean": 88, "hter": 0.12}, where={"part": ["dev"]}),
    RewordedFile("data:stsb", ("sentence1", "sentence2"), least={"score": 4.6}, where={"split": ["dev"]}),
)
WRITTEN = harness.ROOT / "examples" / "wrong_facts.tsv"


def triples(most: int, seed: int) -> dict[str, list[Segment]]:
    """Return segments by kind of wrong fact; each wrong copy follows its paraphrase."""
    pairs = [one for file in FILES for one in reworded_pairs(file)]
    segments = {kind: contrast_segments(pairs, {kind: 1.0}, seed)[: 3 * most] for kind in WRONG_FACTS}
    for book in BOOKS:
        events = event_segments(2 * most, seed, books=[book], trained=False)
        kinds = [kind for kind in WRONG_EVENTS if any(one.groups["contrast"] == kind for one in events)]
        for kind in kinds:
            contrasts = (REWORDING, EQUIVALENT, kind)
            segments[f"{book}, {kind}"] = [one for one in events if one.groups["contrast"] in contrasts]
    return segments | written()


def written() -> dict[str, list[Segment]]:
    """Return the hand-written segments that are not trained on, by kind of wrong fact."""
    columns = Columns("hypothesis", "reference", score=None, groups=("part", "contrast"))
    rows = [row for row in read_segments(str(WRITTEN), columns) if row.groups["part"] == "held-out"]
    kinds = {row.references: row.groups["contrast"] for row in rows if row.groups["contrast"] != REWORDING}
    by_kind: dict[str, list[Segment]] = defaultdict(list)
    for row in rows:
        by_kind[f"written, {kinds[row.references]}"].append(row)
    return by_kind


def accuracies(scorer: Scorer, segments: dict[str, list[Segment]]) -> dict[str, tuple[float, int]]:
    """Return the fraction of correctly ordered triples and their number, by kind."""
    flat = [item for group in segments.values() for item in group]
    scores = iter(scorer.score([item.hypothesis for item in flat], [item.references for item in flat]).scores)
    result: dict[str, tuple[float, int]] = {}
    for column, group in segments.items():
        kind = column.rpartition(", ")[2]
        by_text: dict[str, dict[str, float]] = defaultdict(dict)
        for item in group:
            by_text[item.references[0]][item.groups["contrast"]] = next(scores)
        complete = [by_kind for by_kind in by_text.values() if kind in by_kind]
        result[column] = preferred(complete, REWORDING, kind)
        if any(EQUIVALENT in by_kind for by_kind in complete) and kind == "number":
            result[f"{column}, {EQUIVALENT}"] = preferred(complete, EQUIVALENT, kind)
    return result


def preferred(texts: list[dict[str, float]], better: str, worse: str) -> tuple[float, int]:
    """Return the fraction of texts with both versions whose better version scores higher, and their number."""
    right = [one[better] > one[worse] for one in texts if better in one]
    return (sum(right) / len(right) if right else float("nan")), len(right)


def main() -> None:
    options = harness.parser(
        __doc__, metrics=["twmd", "bertscore-f1", "textmover-general"], most=200, seed=0, output=Path
    ).parse_args()
    segments = triples(options.most, options.seed)
    rows = []
    for name in options.metrics:
        result = accuracies(Scorer.from_pretrained(name), segments)
        mean = float(np.mean([value for key, (value, _) in result.items() if key in WRONG_FACTS]))
        if not rows:
            rows.append({"metric": "triples", "mean": ""} | {key: str(count) for key, (_, count) in result.items()})
        cells = {kind: f"{share:.3f}" for kind, (share, _) in result.items()}
        rows.append({"metric": Path(name).name, "mean": f"{mean:.3f}"} | cells)
        print(rows[-1], flush=True)
        if options.output is not None:
            harness.write_rows(options.output, rows)
    harness.print_rows(rows)


if __name__ == "__main__":
    main()
