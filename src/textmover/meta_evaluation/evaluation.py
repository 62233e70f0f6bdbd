"""Evaluation of several metrics: human agreement, confidence intervals and significance tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.preferences import preference_pairs
from textmover.meta_evaluation.agreement.resampled_agreement import (
    EQUAL,
    Agreement,
    CorrelationAgreement,
    Group,
    PairwiseAgreement,
    PreferenceAgreement,
    SoftSystemAgreement,
    SystemAgreement,
)
from textmover.meta_evaluation.results import Evaluation, Exclusion, MetricAgreement, MetricScores, Protocol
from textmover.meta_evaluation.significance.bootstrap import (
    MIN_CLUSTERS,
    few_to_draw,
    mean_of_draws,
    percentiles,
    too_few,
)
from textmover.meta_evaluation.significance.significance_tests import p_value_matrix, significance_clusters, swap_signs
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
from textmover.meta_evaluation.statistics.score_arrays import ROUNDING, Vector, group_positions, label_numbers, nan_mean
from textmover.types import InputError, Judgements, plural

POOLED = "all"  # name of the single group at level "pooled"


class Selection(NamedTuple):
    """Rows that have a rating and a score of every metric."""

    judgements: Judgements
    rows: NDArray[np.int64]  # row indices in the full set
    metrics: tuple[str, ...]
    scores: Vector  # scores of the metrics, higher is better, ``[K, n]``
    human: Vector  # ratings ``[n]``; NaN where preferences are used
    dimension: str | None
    missing: Mapping[str, int]  # number of rows without a value, by metric name or "rating"
    left_out: int  # number of excluded rows


def select_rows(
    judgements: Judgements, metrics: Sequence[MetricScores], protocol: Protocol, dimension: str | None
) -> Selection:
    """Exclude rows that lack a rating or any metric's score, for all metrics."""
    size = len(judgements)
    for metric in metrics:
        if len(metric.scores) != size:
            raise InputError(
                f"Expected {plural(size, 'score')} of {metric.name!r}, one for each text of {judgements.name}, but got "
                f"{len(metric.scores)}: score the same texts in the same order."
            )
    human = np.full(size, np.nan)
    nan_rows: dict[str, NDArray[np.bool_]] = {}
    if protocol.statistic == "darr":
        dimension = None
    else:
        dimension = choose_dimension(judgements, dimension)
        human = np.asarray(judgements.ratings[dimension], dtype=np.float64)
        if np.isinf(human).any():
            raise InputError(
                f"Expected finite ratings in {dimension!r} of {judgements.name}, but got infinity for "
                f"{int(np.isinf(human).sum())}: correct them, or write NaN for what is missing."
            )
        nan_rows["rating"] = np.isnan(human)
    nan_rows |= {metric.name: np.isnan(metric.scores) for metric in metrics}
    excluded = np.any(list(nan_rows.values()), axis=0) if size else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(~excluded)
    missing = {name: int(flags.sum()) for name, flags in nan_rows.items() if flags.any()}
    if not len(rows):
        listed = ", ".join(f"{name} for {count}" for name, count in missing.items())
        raise InputError(
            f"Expected a text of {judgements.name} that people and every metric have scored, but got none of {size} "
            f"(missing: {listed or 'nothing'}): leave out the metric that lacks them."
        )
    complete = judgements.select(rows)
    table = np.stack([metric.scores[rows] if metric.higher_is_better else -metric.scores[rows] for metric in metrics])
    names = tuple(metric.name for metric in metrics)
    return Selection(complete, rows, names, table, human[rows], dimension, missing, size - len(rows))


def split_groups(selection: Selection, protocol: Protocol) -> list[Group]:
    """Split a selection into groups, in order of first appearance."""
    judgements = selection.judgements
    labels = (POOLED,) * len(judgements) if protocol.level == "pooled" else judgements.groups
    cluster = label_numbers(draw_labels(judgements))
    if judgements.preferences is not None:
        checked = preference_pairs(judgements.preferences, len(judgements)) if protocol.statistic == "darr" else None
        judgements = replace(judgements, preferences=checked)
    return [
        Group(name, judgements.select(rows), selection.scores[:, rows], selection.human[rows], cluster[rows])
        for name, rows in group_positions(labels, len(judgements)).items()
    ]


def choose_dimension(judgements: Judgements, dimension: str | None) -> str:
    """Return the requested dimension of the ratings, or the only one if none is requested."""
    listed = ", ".join(judgements.ratings) or "none"
    if dimension is None:
        if len(judgements.ratings) != 1:
            raise InputError(f"Expected a dimension of the ratings of {judgements.name}, which has {listed}: name one.")
        return next(iter(judgements.ratings))
    if dimension not in judgements.ratings:
        raise InputError(f"Expected the dimension to be {listed}, but got {dimension!r}: choose one.")
    return dimension


def draw_labels(judgements: Judgements) -> tuple[str, ...]:
    """Return the bootstrap cluster of each text: its group and item, or its references, or its source."""
    if judgements.items is not None:
        return tuple(f"{group}\n{item}" for group, item in zip(judgements.groups, judgements.items, strict=True))
    sources = judgements.sources or ("",) * len(judgements)
    texts = [references or (source,) for references, source in zip(judgements.references, sources, strict=True)]
    return tuple(
        "\n".join(("references", group, *compared)) if any(compared) else f"alone\n{row}"
        for row, (group, compared) in enumerate(zip(judgements.groups, texts, strict=True))
    )


def evaluate(
    judgements: Judgements,
    metrics: Sequence[MetricScores],
    protocol: Protocol | None = None,
    *,
    dimension: str | None = None,
    baseline: str | None = None,
    samples: int = 1000,
    permutations: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Evaluation:
    """Evaluate metrics by their agreement with human judgements.

    A row that lacks a rating or any score is excluded for all metrics, so that comparisons stay paired. A metric's
    value is the mean over the groups in which every metric has a value. Metrics without any value are ignored here.

    Args:
        judgements: Human judgements of the texts.
        metrics: Scores of each metric.
        protocol: Statistic and level of agreement. Default: Pearson's r, mean over groups.
        dimension: Dimension of the ratings; may be ``None`` if there is only one, and for preferences.
        baseline: Name of the metric that the others are compared with.
        samples: Number of bootstrap samples; 0 disables intervals.
        permutations: Number of permutations of the tests; 0 disables tests, but soft accuracy always needs some.
        seed: Seed of bootstrap samples, permutations and sampled pairs.
        level: Confidence level of the intervals.

    Raises:
        InputError: If names, lengths or options are invalid, or no group has a value.

    Example:
        >>> ratings = np.arange(8.0)
        >>> judgements = Judgements("example", ("",) * 8, (("",),) * 8, {"score": ratings}, ("all",) * 8)
        >>> noise = np.array([3.0, -2, 0, 5, -3, 2, 0, -4])
        >>> metrics = [MetricScores("good", ratings), MetricScores("fair", ratings + noise)]
        >>> result = evaluate(judgements, metrics, baseline="fair", samples=0)
        >>> [(one.name, round(one.value, 3)) for one in result.ranked()], result.metric("good").better
        ([('good', 1.0), ('fair', 0.403)], True)
    """
    protocol = Protocol() if protocol is None else protocol
    _check_options(metrics, baseline, samples, permutations, level)
    protocol.check(judgements)
    selection = select_rows(judgements, metrics, protocol, dimension)
    parts = [_agreement(group, protocol, permutations, seed) for group in split_groups(selection, protocol)]
    active, used, excluded = _split_exclusions(parts, selection.metrics, len(selection.rows))
    notes: list[str] = []
    draws, undefined = _draws(used, active, samples, seed, notes)
    p_values = _p_values(used, active, len(metrics), permutations, seed, notes)
    values = np.where(active, np.mean([part.values for part in used], axis=0), np.nan)
    ranks: tuple[int | None, ...] = (None,) * len(metrics)
    if not np.isnan(p_values).all():
        ranks = significance_clusters(values, p_values)
    baseline_index = None if baseline is None else selection.metrics.index(baseline)
    lost = 0
    if protocol.statistic == "darr" and judgements.preferences is not None:
        lost = len(judgements.preferences) - int(sum(part.units[0] for part in parts))
    return Evaluation(
        name=judgements.name,
        protocol=protocol,
        dimension=selection.dimension,
        metrics=tuple(
            _metric(number, metric, values, draws, parts, used, ranks, p_values, baseline_index, level)
            for number, metric in enumerate(metrics)
        ),
        n=sum(len(part.group) for part in used),
        groups={part.group.name: len(part.group) for part in used},
        excluded=excluded,
        missing=selection.missing,
        left_out=selection.left_out,
        lost_preferences=lost,
        p_values=p_values,
        baseline=baseline,
        samples=samples,
        undefined_samples=undefined,
        permutations=permutations,
        seed=seed,
        level=level,
        notes=tuple(notes),
    )


def _check_options(
    metrics: Sequence[MetricScores], baseline: str | None, samples: int, permutations: int, level: float
) -> None:
    names = [one.name for one in metrics]
    if not names:
        raise InputError("Expected the scores of at least one metric, but got none: give one.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"Expected metrics of different names, but got {', '.join(twice)} twice: rename all but one.")
    if baseline is not None and baseline not in names:
        raise InputError(f"Expected the baseline to be {', '.join(names)}, but got {baseline!r}: choose one.")
    for option, value in (("samples", samples), ("permutations", permutations)):
        if value < 0:
            raise InputError(f"Expected `{option}` to be at least 0, but got {value}: 1000 is usual.")
    if not 0 < level < 1:
        raise InputError(f"Expected a confidence level between 0 and 1, but got {level}: 0.95 is usual.")


def _agreement(group: Group, protocol: Protocol, permutations: int, seed: int) -> Agreement:
    if protocol.statistic == "darr":
        return PreferenceAgreement(group)
    if protocol.statistic == "soft-accuracy":
        return SoftSystemAgreement(group, permutations, seed)
    if protocol.level == "systems":
        return SystemAgreement(group, protocol)
    if protocol.statistic in CORRELATIONS:
        return CorrelationAgreement(group, protocol)
    return PairwiseAgreement(group, protocol, seed)


def _split_exclusions(
    parts: Sequence[Agreement], names: Sequence[str], rows: int
) -> tuple[NDArray[np.bool_], list[Agreement], tuple[Exclusion, ...]]:
    """Return metrics with a value in any group, groups in which all of these have one, and the exclusions."""
    possible = [part for part in parts if part.reason is None]
    excluded = [Exclusion(part.group.name, part.reason or "", len(part.group)) for part in parts if part.reason]
    if not possible:
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in excluded[:5]).removeprefix(f"{POOLED}: ")
        way_out = "name the column of the ratings" if reasons == EQUAL else "give more data"
        raise InputError(f"Expected segments whose agreement can be computed, but got none ({reasons}): {way_out}.")
    active = np.array([any(not np.isnan(part.values[metric]) for part in possible) for metric in range(len(names))])
    excluded += [
        Exclusion(names[metric], possible[0].reasons.get(metric, "it has no value in any group"), rows)
        for metric in np.flatnonzero(~active).tolist()
    ]
    used = []
    for part in possible:
        undefined = [metric for metric in np.flatnonzero(active).tolist() if np.isnan(part.values[metric])]
        if undefined:
            reason = "; ".join(f"{names[metric]}: {part.reasons.get(metric, 'no value')}" for metric in undefined)
            excluded.append(Exclusion(part.group.name, reason, len(part.group)))
        else:
            used.append(part)
            excluded.extend(part.excluded)
    if not used:
        reasons = "; ".join(f"{one.name} ({one.reason})" for one in excluded[:5])
        raise InputError(
            f"Expected a group in which every metric has a value, but got none: {reasons}: leave the metric out."
        )
    return active, used, tuple(excluded)


def _draws(
    used: Sequence[Agreement], active: NDArray[np.bool_], samples: int, seed: int, notes: list[str]
) -> tuple[Vector | None, int]:
    """Return the mean over groups in each bootstrap sample, ``[K, samples]``, and the number of draws without it."""
    if not samples:
        return None, 0
    rng = np.random.default_rng(seed)
    draws = []
    for part in used:
        if part.draw_units().number < MIN_CLUSTERS:
            notes.append(f"No intervals: {part.without_draws.format(group=part.group.name)}.")
            return None, 0
        draws.append(part.draws(samples, rng))
    means, undefined = mean_of_draws(draws, (len(active), samples), active)
    units = {part.group.name: part.draw_units() for part in used}
    noun = min(units.values(), key=lambda unit: unit.number).noun
    if too_few(samples - undefined, samples):
        lacking = f"{undefined:,} of {plural(samples, 'bootstrap draw')} have no value in some group"
        notes.append(f"No intervals: {lacking}, since a system is absent or all scores are equal there.")
    elif note := few_to_draw({name: unit.number for name, unit in units.items()}, noun):
        notes.append(note)
    return means, undefined


def _p_values(
    used: Sequence[Agreement], active: NDArray[np.bool_], metrics: int, permutations: int, seed: int, notes: list[str]
) -> Vector:
    untested = np.full((metrics, metrics), np.nan)
    if not permutations or metrics < 2:
        return untested
    rng = np.random.default_rng((seed, 1))  # independent of the bootstrap's stream
    differences = []
    for part in used:
        difference = part.swapped(swap_signs(permutations, len(part.group), rng))
        if difference is None:
            notes.append(f"No tests: {part.without_test.format(group=part.group.name)}.")
            return untested
        differences.append(difference)
    p_values = p_value_matrix(nan_mean(np.stack(differences), axis=0), metrics)
    p_values[~active] = np.nan
    p_values[:, ~active] = np.nan
    return p_values


def _metric(
    index: int,
    metric: MetricScores,
    values: Vector,
    draws: Vector | None,
    parts: Sequence[Agreement],
    used: Sequence[Agreement],
    ranks: Sequence[int | None],
    p_values: Vector,
    baseline_index: int | None,
    level: float,
) -> MetricAgreement:
    value = float(values[index])
    low = high = gain = p_value = math.nan
    if draws is not None and not math.isnan(value):
        low, high = percentiles(draws[index], level)
    if baseline_index is not None and baseline_index != index:
        gains = np.array([part.gain(index, baseline_index) for part in used])
        gain = math.nan if math.isnan(value) else float(nan_mean(gains, axis=0))
        gain = 0.0 if abs(gain) <= ROUNDING else gain  # rounding errors must not decide which metric is better
        p_value = float(p_values[index, baseline_index] if gain > 0 else p_values[baseline_index, index])
    return MetricAgreement(
        name=metric.name,
        value=value,
        low=low,
        high=high,
        by_group={part.group.name: float(part.values[index]) for part in parts},
        rank=ranks[index],
        gain=gain,
        p_value=p_value,
        units=int(sum(part.units[index] for part in used)),
        undefined=tuple(f"{part.group.name} / {unit}" for part in used for unit in part.undefined[index]),
        undefined_segments=int(sum(part.undefined_segments[index] for part in used)),
        epsilons={part.group.name: float(part.epsilons[index]) for part in used if part.epsilons is not None},
        signature=metric.signature,
    )
