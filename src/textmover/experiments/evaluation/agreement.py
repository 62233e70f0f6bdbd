"""Agreement of metrics with ratings, preferences and marked errors for ``textmover evaluate``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from textmover.experiments.evaluation.metrics import Metrics
from textmover.experiments.evaluation.sets import SetFiles, refuse_options, set_files
from textmover.meta_evaluation import (
    STATISTICS,
    Evaluation,
    Exclusion,
    MetricAgreement,
    MetricScores,
    Protocol,
    compare_errors,
    evaluate,
    human_scores,
    judge_errors,
    preferences_from_ratings,
)
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.error_spans import MarkedDescription, read_marked
from textmover.readers.judgements import READERS, repeated_rows
from textmover.readers.segments import joined_groups
from textmover.report import file_remarks
from textmover.report.evaluation.marked_error_tables import MarkedSet, format_marked, print_marked
from textmover.scoring.error_spans.marking import mark_fitted
from textmover.scoring.error_spans.spans import WORD_OVERLAP, word_overlap_errors
from textmover.scoring.metric_set import warn_of_flags
from textmover.terminal import console, progress_bars
from textmover.types import InputError, Judgements, MarkedSegment, MarkedTexts, plural

FLAGS = {"pair_rate": "--pair-rate", "samples": "--samples", "permutations": "--permutations"}
"""Command-line flag of each argument of the evaluation."""


class Failure(NamedTuple):
    """Reason why agreement with a rating dimension or with preferences cannot be computed."""

    name: str  # name of the set
    dimension: str | None
    reason: str

    def __str__(self) -> str:
        title = self.name if self.dimension is None else f"{self.name} · {self.dimension}"
        return f"{title}: {self.reason}"


class Question(NamedTuple):
    """A judgement set and the rating dimension to compare metrics with; ``None`` stands for its preferences."""

    judgements: Judgements  # includes the preferences derived from the dimension, if requested
    dimension: str | None
    notes: tuple[str, ...] = ()


class AgreementResult(NamedTuple):
    """Agreement of the metrics with scores; ``shown`` also has NaN rows for the metrics without scores."""

    question: Question
    rows: tuple[MetricScores, ...]
    evaluation: Evaluation
    shown: Evaluation


class Judged(NamedTuple):
    """A judgement set with the scores of all metrics, the path of the score table and a result for each dimension."""

    judgements: Judgements
    rows: tuple[MetricScores, ...]
    results: tuple[AgreementResult | Failure, ...]
    path: Path

    @property
    def findings(self) -> list[AgreementResult]:
        """The successful results."""
        return [one for one in self.results if isinstance(one, AgreementResult)]

    def notes(self, finding: AgreementResult) -> list[str]:
        """Return notes on the set and the question that do not depend on the protocol."""
        notes = [*file_remarks(self.judgements), *finding.question.notes]
        if repeated := repeated_rows(self.judgements):
            rows = "1 row has" if repeated == 1 else f"{repeated:,} rows have"
            notes.append(f"Kept: {rows} the group, item and system of an earlier row (duplicates).")
        falling = [row.name for row in self.rows if not row.higher_is_better]
        if falling:
            notes.append(f"Lower scores are better for {', '.join(falling)}: agreement is that of the negated scores.")
        return notes


def chosen_protocol(options: argparse.Namespace) -> Protocol:
    """Return the evaluation protocol selected by the options."""
    statistic = options.statistic or ("darr" if options.set == "darr" else "pearson")
    of_systems = options.set == "coco-captions"
    if of_systems and options.level not in (None, "systems"):
        raise InputError(
            f"Expected `--level` to be systems for {options.set}, since people rated systems, but got "
            f"{options.level}: leave it out."
        )
    level = options.level or ("systems" if of_systems else STATISTICS[statistic][0])
    with errors_with_flag_names(FLAGS):
        protocol = Protocol(statistic, level, options.pair_rate)
    if options.preference_gap is not None and statistic != "darr":
        raise InputError(f"Expected `--preference-gap` with --statistic darr, but got {statistic}: remove one.")
    return protocol


def questions(
    sets: Sequence[Judgements], protocol: Protocol, options: argparse.Namespace
) -> list[list[Question | Failure]]:
    """Return the questions of each set; a question that its ratings cannot answer becomes a failure."""
    result = [[_checked(each, protocol, options) for each in _set_questions(one, protocol, options)] for one in sets]
    if not any(isinstance(entry, Question) for entries in result for entry in entries):
        listed = " ".join(str(entry) for entries in result for entry in entries)
        raise InputError(f"{listed.removesuffix('.')}; nothing was scored.")
    return result


def _set_questions(judgements: Judgements, protocol: Protocol, options: argparse.Namespace) -> list[Question]:
    if protocol.statistic == "darr":
        return _preference_questions(judgements, options)
    if not judgements.ratings:
        raise InputError(
            f"Expected {judgements.name} to have ratings for {protocol}, but got preferences alone: choose --statistic "
            "darr."
        )
    protocol.check(judgements)
    return [Question(judgements, dimension) for dimension in options.dimension or judgements.ratings]


def _preference_questions(judgements: Judgements, options: argparse.Namespace) -> list[Question]:
    """Return questions on the preferences of the set, or on preferences derived from each rating dimension."""
    gap = options.preference_gap
    if (judgements.preferences is None) == (gap is None):
        if gap is None:
            with_preferences = " or ".join(name for name, (_, files) in READERS.items() if "preferences" in files)
            raise InputError(
                f"Expected {judgements.name} to hold preferences for darr, but got ratings alone: derive them with "
                f"--preference-gap POINTS, or give a set of preferences (--set {with_preferences})."
            )
        raise InputError(
            f"Expected `--preference-gap` for a set of ratings, but got {judgements.name}, which has preferences: "
            "leave it out."
        )
    if gap is None:
        return [Question(judgements, None)]
    if not gap > 0 or not math.isfinite(gap):
        raise InputError(f"Expected `--preference-gap` to be above 0, but got {gap}: WMT takes 25 of 100 points.")
    if judgements.items is None:
        raise InputError(
            f"Expected {judgements.name} to name the item of each output, but got none: name their column "
            "with --item-column, or `item` in the description of the set."
        )
    items = [f"{group}\n{item}" for group, item in zip(judgements.groups, judgements.items, strict=True)]
    if len(set(items)) == len(items):
        raise InputError(
            f"Expected {judgements.name} to hold several outputs for an item, but got one for each of {len(items)}: "
            "choose another statistic."
        )
    result = []
    for dimension in options.dimension or judgements.ratings:
        pairs = preferences_from_ratings(judgements.ratings[dimension], items, least=gap)
        count = plural(len(pairs), "pair")
        note = f"Preferences: {count} of outputs for one item whose ratings differ by {gap:g} or more."
        result.append(Question(replace(judgements, preferences=pairs), dimension, (note,)))
    return result


def _checked(question: Question, protocol: Protocol, options: argparse.Namespace) -> Question | Failure:
    """Return the question, or a failure if even the human ratings, used as metric scores, give no result."""
    judgements, dimension = question.judgements, question.dimension
    if protocol.statistic == "darr" and judgements.preferences is not None and not len(judgements.preferences):
        reason = "Expected outputs of one item with different ratings, but got none"
        if dimension is not None:  # the preferences were derived from its ratings
            ratings = judgements.ratings[dimension]
            reason += (
                f" with ratings at least {options.preference_gap:g} apart among {np.nanmin(ratings):g} to "
                f"{np.nanmax(ratings):g}: lower --preference-gap"
            )
        return Failure(judgements.name, dimension, f"{reason}.")
    rows = (human_scores(judgements, dimension),)
    result = evaluated(question, rows, protocol, options, samples=0, permutations=1)
    return result if isinstance(result, Failure) else question


def judge(
    question: Question | Failure, rows: Sequence[MetricScores], protocol: Protocol, options: argparse.Namespace
) -> AgreementResult | Failure:
    """Compute the agreement of metrics with a question; return a known failure unchanged."""
    if isinstance(question, Failure):
        return question
    usable = tuple(row for row in rows if not np.isnan(row.scores).all())
    if not usable:
        name = ", ".join(row.name for row in rows)
        reason = f"Expected a score of {name} for some text, but got nan for all: correct the file of scores."
        return Failure(question.judgements.name, question.dimension, reason)
    resampling = {"samples": options.samples, "permutations": options.permutations, "baseline": options.against}
    result = evaluated(question, usable, protocol, options, **resampling)
    if isinstance(result, Failure):
        return result
    return AgreementResult(question, usable, result, _with_missing(result, rows))


def evaluated(
    question: Question, rows: Sequence[MetricScores], protocol: Protocol, options: argparse.Namespace, **drawn: Any
) -> Evaluation | Failure:
    """Return the agreement of metrics with a dimension, or the reason why it cannot be computed."""
    judgements, dimension, _ = question
    try:
        with errors_with_flag_names(FLAGS):
            evaluation = evaluate(judgements, rows, protocol, dimension=dimension, seed=options.seed, **drawn)
    except InputError as error:
        return Failure(judgements.name, dimension, str(error))
    # The evaluation of preferences has no dimension, but these may be derived from one.
    return replace(evaluation, dimension=dimension)


def _with_missing(evaluation: Evaluation, rows: Sequence[MetricScores]) -> Evaluation:
    """Add a row of NaN for each metric without scores."""
    agreements = {metric.name: metric for metric in evaluation.metrics}
    missing = [row for row in rows if row.name not in agreements]
    if not missing:
        return evaluation
    groups, nan = dict.fromkeys(evaluation.metrics[0].by_group, math.nan), math.nan
    agreements |= {
        row.name: MetricAgreement(row.name, nan, nan, nan, groups, None, nan, nan, 0, (), 0, {}, row.signature)
        for row in missing
    }
    places = [place for place, row in enumerate(rows) if row not in missing]
    p_values = np.full((len(rows), len(rows)), np.nan)
    p_values[np.ix_(places, places)] = evaluation.p_values
    excluded = (*evaluation.excluded, *(Exclusion(row.name, "it has no score for any text", 0) for row in missing))
    metrics = tuple(agreements[row.name] for row in rows)
    return replace(evaluation, metrics=metrics, p_values=p_values, excluded=excluded)


# --- marked errors ----------------------------------------------------------------------------------------------------

REFUSED = (
    "statistic", "level", "dimension", "preference_gap", "report", "output", "scores", "score_key", "metric_column",
    "lower_is_better", "baselines", "hypothesis_column", "reference_column", "source_column", "score_column",
    "item_column", "system_column", "missing_references", "missing_ratings", "duplicates",
)  # fmt: skip
"""Options that do not apply to sets of marked errors."""

KIND = "kind"  # group key of error kinds; excluded from averages over groups
GROUP = " / "  # group key that joins all other keys


def evaluate_marked(options: argparse.Namespace, description: MarkedDescription) -> None:
    """Compare the errors marked by metrics and by exact word overlap with human marks; print the tables."""
    refuse_options(options, REFUSED, "a set of marked errors")
    metrics = Metrics(options)
    keys = tuple(dict.fromkeys((*description.columns.groups, *(options.group or ()))))
    described = replace(description, columns=replace(description.columns, groups=keys))
    sets = [_read_set(data, described, options.split or "train") for data in set_files(options)]
    metrics.check([data.judgements for data in sets], [data.baseline for data in sets])
    metrics.load()
    results = []
    total = len(metrics.models) * sum(len(data.gold) for data in sets)
    with progress_bars(shown=not options.quiet) as advance:
        for data in sets:
            marked = {}
            for name, scorer in metrics.scorers.items():
                texts = data.judgements.hypotheses, data.judgements.references
                marked[name] = mark_fitted(scorer.for_call(*texts), *texts, warn=False)
                advance("marking", len(data.gold), total)
            warn_of_flags(data.judgements.name, {name: errors.counts for name, errors in marked.items()})
            if data.baseline:
                marked[WORD_OVERLAP] = word_overlap_errors(data.judgements.hypotheses, data.judgements.references)
            results.append(_marked_set(data, marked, options))
    if options.format == "table":
        print_marked(console(), results, signatures=not options.quiet)
    else:
        sys.stdout.write(format_marked(results, options.format))


class _GoldSet(NamedTuple):
    gold: list[MarkedSegment]
    judgements: Judgements  # same texts, without ratings
    left_out: int

    @property
    def baseline(self) -> list[MetricScores]:
        """The word-overlap baseline if every text has a reference, else an empty list."""
        referenced = all(self.judgements.references)
        return [MetricScores(WORD_OVERLAP, np.zeros(len(self.gold)))] if referenced else []


def _read_set(files: SetFiles, described: MarkedDescription, split: str) -> _GoldSet:
    path = files.paths["path"]
    left_out: list[InputError] = []
    strict = described.unusable == "error"
    gold = read_marked(
        path, described.columns, where=described.where, split=split, left_out=None if strict else left_out
    )
    if not gold:
        raise left_out[0] if left_out else InputError(f"Expected texts with marked errors in {path}, but got none.")
    references = tuple(one.compared for one in gold)
    groups = tuple(joined_groups([one.groups[key] for key in described.columns.groups if key != KIND]) for one in gold)
    gold = [replace(one, groups={**one.groups, GROUP: group or "all"}) for one, group in zip(gold, groups, strict=True)]
    texts = tuple(one.hypothesis for one in gold)
    judgements = Judgements(described.name or files.stem, texts, references, {}, groups)
    return _GoldSet(gold, judgements, len(left_out))


def _marked_set(one: _GoldSet, marked: Mapping[str, MarkedTexts], options: argparse.Namespace) -> MarkedSet:
    resampling = {"samples": options.samples, "seed": options.seed}
    agreements = {name: judge_errors(one.gold, errors.texts, GROUP, **resampling) for name, errors in marked.items()}
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
