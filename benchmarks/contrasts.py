"""How often a metric prefers a faithful rewording to a near copy with one wrong fact, by kind of fact.

    python benchmarks/contrasts.py --metrics twmd textmover-general bertscore-f1

The rewordings are translations that people found right in the development part of MLQE-PE (beside their post-edit) and
pairs of STS-B's development part that say the same, neither of which is trained on. Another notation of a number or
date stands beside a wrong number, too. The columns after "events", "stories" and "reports" are of generated events
that are not trained on: short ones, and longer ones of daily life and of news whose rewordings share few words.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import harness
import numpy as np

from textmover import Scorer
from textmover.data.generated.contrasts import WRONG_FACTS, RewordedFile, contrast_segments, reworded_pairs
from textmover.data.generated.events import BOOKS, EQUIVALENT, REWORDING, WRONG_EVENTS, event_segments
from textmover.types import Segment

FILES = (
    RewordedFile("data:mlqe-pe", least={"da_mean": 88, "hter": 0.12}, where={"part": ["dev"]}),
    RewordedFile("data:stsb", ("sentence1", "sentence2"), least={"score": 4.6}, where={"split": ["dev"]}),
)


def triples(most: int, seed: int) -> dict[str, list[Segment]]:
    """The segments of texts that a kind of wrong fact applies to, by kind, a rewording before each wrong copy."""
    pairs = [one for file in FILES for one in reworded_pairs(file)]
    found = {kind: contrast_segments(pairs, {kind: 1.0}, seed)[: 3 * most] for kind in WRONG_FACTS}
    for book in BOOKS:
        told = event_segments(2 * most, seed, books=[book], trained=False)
        kinds = [kind for kind in WRONG_EVENTS if any(one.groups["contrast"] == kind for one in told)]
        for kind in kinds:
            wanted = (REWORDING, EQUIVALENT, kind)
            found[f"{book}, {kind}"] = [one for one in told if one.groups["contrast"] in wanted]
    return found


def accuracies(scorer: Scorer, found: dict[str, list[Segment]]) -> dict[str, tuple[float, int]]:
    """Share of triples in the right order by kind, and their number."""
    flat = [one for part in found.values() for one in part]
    scores = iter(scorer.score([one.hypothesis for one in flat], [one.references for one in flat]).scores)
    result: dict[str, tuple[float, int]] = {}
    for column, part in found.items():
        kind = column.rpartition(", ")[2]
        by_text: dict[str, dict[str, float]] = defaultdict(dict)
        for one in part:
            by_text[one.references[0]][one.groups["contrast"]] = next(scores)
        whole = [one for one in by_text.values() if kind in one]
        result[column] = preferred(whole, REWORDING, kind)
        if kind == "number":
            result[f"{column}, {EQUIVALENT}"] = preferred(whole, EQUIVALENT, kind)
    return result


def preferred(texts: list[dict[str, float]], better: str, worse: str) -> tuple[float, int]:
    """Share of the texts that have both versions whose better one scores higher, and their number."""
    right = [one[better] > one[worse] for one in texts if better in one]
    return (sum(right) / len(right) if right else float("nan")), len(right)


def main() -> None:
    options = harness.parser(
        __doc__, metrics=["twmd", "bertscore-f1", "textmover-general"], most=200, seed=0, output=Path
    ).parse_args()
    found = triples(options.most, options.seed)
    rows = []
    for name in options.metrics:
        result = accuracies(Scorer.from_pretrained(name), found)
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
