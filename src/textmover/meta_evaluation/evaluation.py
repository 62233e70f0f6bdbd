"""Evaluation of several metrics: agreement with people, its uncertainty, and significant differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.group_agreement import (
    EQUAL,
    Agreement,
    CorrelationAgreement,
    Group,
    PairwiseAgreement,
    PreferenceAgreement,
    SoftSystemAgreement,
    SystemAgreement,
)
from textmover.meta_evaluation.agreement.preferences import preference_pairs
from textmover.meta_evaluation.results import Evaluation, Exclusion, MetricAgreement, MetricScores, Protocol
from textmover.meta_evaluation.significance.bootstrap import LEAST, few_to_draw, mean_of_draws, percentiles
from textmover.meta_evaluation.significance.permutation import p_value_matrix, significance_clusters, swap_signs
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
from textmover.meta_evaluation.statistics.scores import ROUNDING, Vector, group_positions, known_mean, label_numbers
from textmover.types import InputError, Judgements, plural

EVERYTHING = "all"  # name of the one group of pooled segments


class Selection(NamedTuple):
    """The rows that all metrics and people have scored."""

    judgements: Judgements  # what people thought of them
    rows: NDArray[np.int64]  # their numbers in the whole set
    metrics: tuple[str, ...]
    scores: Vector  # scores of the metrics, higher is better, ``[K, n]``
    human: Vector  # ratings ``[n]``; NaN where preferences are used
    dimension: str | None
    missing: Mapping[str, int]  # how many rows lack something, by what they lack
    left_out: int  # how many rows were left out for that


def select_rows(
    judgements: Judgements, metrics: Sequence[MetricScores], protocol: Protocol, dimension: str | None
) -> Selection:
    """Leave out the rows that lack a rating or one of the scores, for all metrics alike."""
    size = len(judgements)
    for one in metrics:
        if len(one.scores) != size:
            raise InputError(
                f"Expected {plural(size, 'score')} of {one.name!r}, one for each text of {judgements.name}, but got "
                f"{len(one.scores)}: score the same texts in the same order."
            )
    human = np.full(size, np.nan)
    lacking: dict[str, NDArray[np.bool_]] = {}
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
        lacking["rating"] = np.isnan(human)
    lacking |= {one.name: np.isnan(one.scores) for one in metrics}
    gone = np.any(list(lacking.values()), axis=0) if size else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(~gone)
    missing = {name: int(where.sum()) for name, where in lacking.items() if where.any()}
    if not len(rows):
        listed = ", ".join(f"{name} for {count}" for name, count in missing.items())
        raise InputError(
            f"Expected a text of {judgements.name} that people and every metric have scored, but got none of {size} "
            f"(missing: {listed or 'nothing'}): leave out the metric that lacks them."
        )
    kept = judgements.select(rows)
    table = np.stack([one.scores[rows] if one.higher_is_better else -one.scores[rows] for one in metrics])
    names = tuple(one.name for one in metrics)
    return Selection(kept, rows, names, table, human[rows], dimension, missing, size - len(rows))


def split_groups(selection: Selection, protocol: Protocol) -> list[Group]:
    """The groups of a selection, in the order in which they appear."""
    judgements = selection.judgements
    labels = (EVERYTHING,) * len(judgements) if protocol.level == "pooled" else judgements.groups
    cluster = label_numbers(draw_labels(judgements))
    preferences = np.zeros((0, 2), dtype=np.int64)
    if judgements.preferences is not None and protocol.statistic == "darr":
        preferences = preference_pairs(judgements.preferences, len(judgements))
    groups = []
    for name, members in group_positions(labels, len(judgements)).items():
        inside = replace(judgements, preferences=preferences).select(members)
        assert inside.preferences is not None
        groups.append(
            Group(
                name=name,
                scores=selection.scores[:, members],
                human=selection.human[members],
                clusters=cluster[members],
                items=inside.items,
                systems=inside.systems,
                preferences=inside.preferences,
            )
        )
    return groups


def choose_dimension(judgements: Judgements, dimension: str | None) -> str:
    """The dimension of the ratings: the one that was asked for, or the only one."""
    listed = ", ".join(judgements.ratings) or "none"
    if dimension is None:
        if len(judgements.ratings) != 1:
            raise InputError(f"Expected a dimension of the ratings of {judgements.name}, which has {listed}: name one.")
        return next(iter(judgements.ratings))
    if dimension not in judgements.ratings:
        raise InputError(f"Expected the dimension to be {listed}, but got {dimension!r}: choose one.")
    return dimension


def draw_labels(judgements: Judgements) -> tuple[str, ...]:
    """Bootstrap cluster of each text: its group and item, or its references if items are unknown."""
    if judgements.items is not None:
        return tuple(f"{group}\n{item}" for group, item in zip(judgements.groups, judgements.items, strict=True))
    return tuple(
        "\n".join(("references", group, *references)) if references else f"alone\n{row}"
        for row, (group, references) in enumerate(zip(judgements.groups, judgements.references, strict=True))
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
    """Judge metrics by their agreement with people.

    Every row that lacks a rating or one of the scores is left out for all metrics, so that comparisons stay paired.
    A metric's value is the mean over the groups in which every metric has one, apart from metrics without any.

    Args:
        judgements: What people thought.
        metrics: Scores of each metric.
        protocol: What agreement means; the mean over groups of Pearson's r if ``None``.
        dimension: Of the ratings; may be ``None`` where there is only one, and for preferences.
        baseline: Name of the metric that the others are compared with.
        samples: Number of bootstrap samples; 0 leaves the intervals out.
        permutations: Number of permutations of the tests; 0 leaves them out (soft accuracy needs some itself).
        seed: Seed of samples, permutations and sampled pairs.
        level: Confidence level of the intervals.

    Raises:
        InputError: If names, lengths or options do not fit, or no group is left.

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
    parts = [_agreement(one, protocol, permutations, seed) for one in split_groups(selection, protocol)]
    active, kept, excluded = _choose(parts, selection.metrics, len(selection.rows))
    notes: list[str] = []
    draws, undefined = _draws(kept, active, samples, seed, notes)
    p_values = _p_values(kept, active, len(metrics), permutations, seed, notes)
    values = np.where(active, np.mean([part.values for part in kept], axis=0), np.nan)
    ranks: tuple[int | None, ...] = (None,) * len(metrics)
    if not np.isnan(p_values).all():
        ranks = significance_clusters(values, p_values)
    reference = None if baseline is None else selection.metrics.index(baseline)
    given = len(judgements.preferences) if protocol.statistic == "darr" and judgements.preferences is not None else 0
    return Evaluation(
        name=judgements.name,
        protocol=protocol,
        dimension=selection.dimension,
        metrics=tuple(
            _metric(number, one, values, draws, parts, kept, ranks, p_values, reference, level)
            for number, one in enumerate(metrics)
        ),
        n=sum(len(part.group) for part in kept),
        groups={part.group.name: len(part.group) for part in kept},
        excluded=excluded,
        missing=selection.missing,
        left_out=selection.left_out,
        lost_preferences=given - sum(len(part.group.preferences) for part in parts),
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


def _choose(
    parts: Sequence[Agreement], names: Sequence[str], rows: int
) -> tuple[NDArray[np.bool_], list[Agreement], tuple[Exclusion, ...]]:
    """Metrics that have a value anywhere, groups in which all of these have one, and why the others do not count."""
    possible = [part for part in parts if part.reason is None]
    excluded = [Exclusion(part.group.name, part.reason or "", len(part.group)) for part in parts if part.reason]
    if not possible:
        listed = "; ".join(f"{one.name}: {one.reason}" for one in excluded[:5]).removeprefix(f"{EVERYTHING}: ")
        way_out = "name the column of the ratings" if listed == EQUAL else "give more data"
        raise InputError(f"Expected segments whose agreement can be computed, but got none ({listed}): {way_out}.")
    active = np.array([any(not np.isnan(part.values[metric]) for part in possible) for metric in range(len(names))])
    excluded += [
        Exclusion(names[metric], possible[0].reasons.get(metric, "it has no value in any group"), rows)
        for metric in np.flatnonzero(~active).tolist()
    ]
    kept = []
    for part in possible:
        lacking = [metric for metric in np.flatnonzero(active).tolist() if np.isnan(part.values[metric])]
        if lacking:
            reason = "; ".join(f"{names[metric]}: {part.reasons.get(metric, 'no value')}" for metric in lacking)
            excluded.append(Exclusion(part.group.name, reason, len(part.group)))
        else:
            kept.append(part)
            excluded.extend(part.excluded)
    if not kept:
        listed = "; ".join(f"{one.name} ({one.reason})" for one in excluded[:5])
        raise InputError(
            f"Expected a group in which every metric has a value, but got none: {listed}: leave the metric out."
        )
    return active, kept, tuple(excluded)


def _draws(
    kept: Sequence[Agreement], active: NDArray[np.bool_], samples: int, seed: int, notes: list[str]
) -> tuple[Vector | None, int]:
    """Mean over groups of each metric in each bootstrap sample, ``[K, samples]``, and how many had no value."""
    if not samples:
        return None, 0
    rng = np.random.default_rng(seed)
    found = []
    for part in kept:
        drawn = part.draws(samples, rng) if part.drawn().number >= LEAST else None
        if drawn is None:
            notes.append(f"No intervals: {part.without_draws.format(group=part.group.name)}.")
            return None, 0
        found.append(drawn)
    units = {part.group.name: part.drawn() for part in kept}
    noun = min(units.values(), key=lambda one: one.number).noun
    if note := few_to_draw({name: one.number for name, one in units.items()}, noun):
        notes.append(note)
    return mean_of_draws(found, (len(active), samples), active)


def _p_values(
    kept: Sequence[Agreement], active: NDArray[np.bool_], metrics: int, permutations: int, seed: int, notes: list[str]
) -> Vector:
    nothing = np.full((metrics, metrics), np.nan)
    if not permutations or metrics < 2:
        return nothing
    rng = np.random.default_rng((seed, 1))  # another stream than that of the bootstrap
    differences = []
    for part in kept:
        found = part.swapped(swap_signs(permutations, len(part.group), rng))
        if found is None:
            notes.append(f"No tests: {part.without_test.format(group=part.group.name)}.")
            return nothing
        differences.append(found)
    p_values = p_value_matrix(known_mean(np.stack(differences), axis=0), metrics)
    p_values[~active] = np.nan
    p_values[:, ~active] = np.nan
    return p_values


def _metric(
    number: int,
    metric: MetricScores,
    values: Vector,
    draws: Vector | None,
    parts: Sequence[Agreement],
    kept: Sequence[Agreement],
    ranks: Sequence[int | None],
    p_values: Vector,
    reference: int | None,
    level: float,
) -> MetricAgreement:
    value = float(values[number])
    low = high = gain = p_value = math.nan
    if draws is not None and not math.isnan(value):
        low, high = percentiles(draws[number], level)
    if reference is not None and reference != number:
        gains = np.array([part.gain(number, reference) for part in kept])
        gain = math.nan if math.isnan(value) else float(known_mean(gains, axis=0))
        gain = 0.0 if abs(gain) <= ROUNDING else gain  # which metric is better must not hang on the last digit
        p_value = float(p_values[number, reference] if gain > 0 else p_values[reference, number])
    return MetricAgreement(
        name=metric.name,
        value=value,
        low=low,
        high=high,
        by_group={part.group.name: float(part.values[number]) for part in parts},
        rank=ranks[number],
        gain=gain,
        p_value=p_value,
        units=int(sum(part.units[number] for part in kept)),
        undefined=tuple(f"{part.group.name} / {unit}" for part in kept for unit in part.undefined[number]),
        undefined_segments=int(sum(part.undefined_segments[number] for part in kept)),
        epsilons={part.group.name: float(part.epsilons[number]) for part in kept if part.epsilons is not None},
        signature=metric.signature,
    )
