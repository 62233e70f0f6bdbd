"""Sets of marked errors in ``textmover evaluate``: metrics mark the texts, and are judged by what people marked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from textmover.experiments.evaluation.metrics import Metrics
from textmover.experiments.evaluation.sets import SetFiles, set_files
from textmover.meta_evaluation import MetricScores, compare_errors, judge_errors
from textmover.readers.error_spans import MarkedDescription, read_marked
from textmover.report.evaluation.marked_errors import MarkedSet, format_marked, print_marked
from textmover.scoring.errors.marking import mark_fitted
from textmover.scoring.errors.spans import WORD_OVERLAP, word_overlap_errors
from textmover.scoring.metric_set import tell_unusual
from textmover.terminal import console, progress_bars
from textmover.types import InputError, Judgements, MarkedSegment, MarkedTexts

REFUSED = (
    "statistic", "level", "dimension", "preference_gap", "report", "output", "scores", "score_key", "metric_column",
    "lower_is_better", "baselines", "hypothesis_column", "reference_column", "source_column", "score_column",
    "item_column", "system_column", "missing_references", "missing_ratings", "duplicates",
)  # fmt: skip
"""Options that mean nothing where errors are judged."""

KIND = "kind"  # the group key of kinds of errors, which figures are not averaged over
GROUP = " / "  # the group key that joins all others


def evaluate_marked(options: argparse.Namespace, description: MarkedDescription) -> None:
    """Judge how well metrics, and exact word overlap, mark the errors that people marked; print the tables.

    Raises:
        InputError: If an option means nothing here, a row cannot be used, or a metric does not mark errors.
    """
    for name in REFUSED:
        if getattr(options, name, None) is not None:
            raise InputError(
                f"Expected no --{name.replace('_', '-')} for a set of marked errors, but got one: leave it out."
            )
    metrics = Metrics(options)
    keys = tuple(dict.fromkeys((*description.columns.groups, *(options.group or ()))))
    described = replace(description, columns=replace(description.columns, groups=keys))
    sets = [_read(one, described, options.split or "train") for one in set_files(options)]
    metrics.check([one.judgements for one in sets], [one.baseline for one in sets])
    metrics.load()
    found = []
    total, done = len(metrics.models) * sum(len(one.gold) for one in sets), 0
    with progress_bars(shown=not options.quiet) as advance:
        for one in sets:
            marked = {}
            for name, scorer in metrics.scorers.items():
                texts = one.judgements.hypotheses, one.judgements.references
                marked[name] = mark_fitted(scorer.for_call(*texts), *texts, warn=False)
                done += len(one.gold)
                advance("marking", done, total)
            tell_unusual(one.judgements.name, {name: errors.counts for name, errors in marked.items()})
            if one.baseline:
                marked[WORD_OVERLAP] = word_overlap_errors(one.judgements.hypotheses, one.judgements.references)
            found.append(_judged(one, marked, options))
    if options.format == "table":
        print_marked(console(), found, signatures=not options.quiet)
    else:
        sys.stdout.write(format_marked(found, options.format))


class _Set(NamedTuple):
    gold: list[MarkedSegment]
    judgements: Judgements  # the same texts, without ratings
    left_out: int

    @property
    def baseline(self) -> list[MetricScores]:
        """The baseline, where every text has a reference."""
        referenced = all(self.judgements.references)
        return [MetricScores(WORD_OVERLAP, np.zeros(len(self.gold)))] if referenced else []


def _read(files: SetFiles, described: MarkedDescription, split: str) -> _Set:
    path = files.paths["path"]
    left_out: list[InputError] = []
    strict = described.unusable == "error"
    gold = read_marked(
        path, described.columns, where=described.where, split=split, left_out=None if strict else left_out
    )
    if not gold:
        raise left_out[0] if left_out else InputError(f"Expected texts with marked errors in {path}, but got none.")
    references = tuple(one.compared for one in gold)
    groups = tuple(" / ".join(one.groups[key] for key in described.columns.groups if key != KIND) for one in gold)
    gold = [replace(one, groups={**one.groups, GROUP: group or "all"}) for one, group in zip(gold, groups, strict=True)]
    texts = tuple(one.hypothesis for one in gold)
    judgements = Judgements(described.name or files.stem, texts, references, {}, groups)
    return _Set(gold, judgements, len(left_out))


def _judged(one: _Set, marked: Mapping[str, MarkedTexts], options: argparse.Namespace) -> MarkedSet:
    drawn = {"samples": options.samples, "seed": options.seed}
    agreements = {name: judge_errors(one.gold, errors.texts, GROUP, **drawn) for name, errors in marked.items()}
    tests = {"permutations": options.permutations, "seed": options.seed}
    p_values = compare_errors(list(agreements.values()), **tests) if len(agreements) > 1 else {}
    return MarkedSet(
        name=one.judgements.name,
        agreements=agreements,
        signatures={name: str(errors.signature) for name, errors in marked.items()},
        p_values=p_values,
        baseline=options.against,
        permutations=options.permutations,
        left_out=one.left_out,
        main="mcc_words" if all(segment.words is not None for segment in one.gold) else "span_f1",
    )
