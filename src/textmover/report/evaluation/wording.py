"""Sentences about an evaluation, shared by tables and the HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textmover.meta_evaluation import LEVELS, Evaluation, Exclusion, MetricAgreement
from textmover.meta_evaluation.significance.bootstrap import undefined_draws
from textmover.report.figures.scales import signed
from textmover.report.table_formats import DIGITS
from textmover.types import Judgements, plural

SIGNIFICANT = 0.05  # maximum p-value that counts as significant
MAX_NAMES = 3  # maximum number of names listed for one reason of exclusion
STATISTIC_NAMES = {
    "pearson": "Pearson's r",
    "spearman": "Spearman's ρ",
    "kendall": "Kendall's τ-b",
    "kendall-c": "Kendall's τ-c",
    "acc23": "acc23 (pairwise accuracy with calibrated ties)",
    "tau23": "τ23 (pairwise agreement with calibrated ties)",
    "darr": "Kendall-like τ of preferences (DARR)",
    "accuracy": "pairwise accuracy of systems",
    "soft-accuracy": "soft pairwise accuracy of systems",
}


def title_of(evaluation: Evaluation, among: Sequence[Evaluation] = ()) -> str:
    """Return the heading of a table, such as ``"SummEval · fluency"``, that no other one ``among`` those shown has."""
    parts = [evaluation.name]
    if evaluation.dimension not in (None, "score"):
        parts.append(str(evaluation.dimension))
    alike = [one for one in among if (one.name, one.dimension) == (evaluation.name, evaluation.dimension)]
    if len(alike) > 1:
        parts.append(str(evaluation.protocol))
    return " · ".join(parts)


def shown_groups(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the groups that get a column; none if there is only one group, since it equals the mean."""
    return tuple(evaluation.groups) if len(evaluation.groups) > 1 else ()


def mark(metric: MetricAgreement) -> str:
    """Return ``"↑"`` or ``"↓"`` for a metric significantly better or worse than the baseline, otherwise ``""``."""
    if metric.better is None or not metric.p_value <= SIGNIFICANT:
        return ""
    return "↑" if metric.better else "↓"


def overview_rows(evaluations: Sequence[Evaluation]) -> list[tuple[str, list[float]]]:
    """Return each metric's name and its values on all sets, in order of appearance."""
    by_name = [{metric.name: metric.value for metric in one.metrics} for one in evaluations]
    names = dict.fromkeys(name for values in by_name for name in values)
    return [(name, [values.get(name, math.nan) for values in by_name]) for name in names]


def headline(evaluation: Evaluation) -> str:
    """Name the best metric, such as ``"Best: twmd, 0.671, of 15 metrics on 3,920 segments"``, and its ties."""
    best = evaluation.ranked()[0]
    if math.isnan(best.value):
        return f"No metric has a value on {plural(evaluation.n, 'segment')}."
    interval = "" if math.isnan(best.low) else f" ({signed(best.low, DIGITS)} to {signed(best.high, DIGITS)})"
    tied = [one.name for one in evaluation.metrics if one.rank == best.rank is not None and one is not best]
    shared = f" Not significantly better than: {', '.join(tied)}." if tied else ""
    among = f", of {len(evaluation.metrics)} metrics" if len(evaluation.metrics) > 1 else ""
    name = f"Best: {best.name}, " if among else f"{best.name}: "
    return f"{name}{signed(best.value, DIGITS)}{interval}{among} on {plural(evaluation.n, 'segment')}.{shared}"


def remarks(evaluation: Evaluation, further: Sequence[str] = ()) -> list[str]:
    """Return independent sentences below a table: number of segments, protocol, bootstrap, tests, and exclusions.

    ``further`` are appended, such as those on rows that the file reader excluded (:func:`file_remarks`).
    """
    groups = f" in {plural(len(evaluation.groups), 'group')}" if len(evaluation.groups) > 1 else ""
    statistic = STATISTIC_NAMES[evaluation.protocol.statistic]
    if statistic[0].isascii():  # do not capitalise Greek symbols
        statistic = statistic[0].upper() + statistic[1:]
    lines = [f"{plural(evaluation.n, 'segment')}{groups}. {statistic}, {_level(evaluation)}{_unit_counts(evaluation)}."]
    if evaluation.protocol.pair_rate != 1:
        lines.append(f"Ties calibrated on a share of {evaluation.protocol.pair_rate:g} of the pairs.")
    if evaluation.metrics and all(one.high < 0 for one in evaluation.metrics):
        lines.append("All agreement is negative: if lower ratings are better, negate them.")
    return [*lines, *_significance_remarks(evaluation), *evaluation.notes, *_exclusion_remarks(evaluation), *further]


def file_remarks(judgements: Judgements) -> list[str]:
    """Return a sentence about the rows that the reader of a judgement set excluded, or none.

    Example:
        >>> file_remarks(Judgements("a", (), (), {}, (), left_out={"empty line": 2, "no reference": 1}))
        ['Not read from the file: 3 rows (empty line: 2, no reference: 1).']
    """
    if not judgements.left_out:
        return []
    listed = ", ".join(f"{reason}: {count:,}" for reason, count in judgements.left_out.items())
    return [f"Not read from the file: {plural(sum(judgements.left_out.values()), 'row')} ({listed})."]


def _level(evaluation: Evaluation) -> str:
    """Describe the units of the statistic; with a single group there is no mean over groups."""
    if evaluation.protocol.statistic == "soft-accuracy":
        return "over the p-values of all pairs of systems on the items that both have, mean over groups"
    if evaluation.protocol.level != "per-group" or len(evaluation.groups) > 1:
        return LEVELS[evaluation.protocol.level]
    name = next(iter(evaluation.groups))
    return "over all segments" if name in ("", "all") else f"within the group {name}"


def _unit_counts(evaluation: Evaluation) -> str:
    name, units = _unit(evaluation), {one.units for one in evaluation.metrics if not math.isnan(one.value)}
    if name == "group" or not units:
        return ""
    plural_name = "pairs of systems" if name.startswith("pair") else f"{name}s"
    low, high = min(units), max(units)
    return f" ({plural(high, name, plural_name)})" if low == high else f" ({low:,} to {high:,} {plural_name})"


def _unit(evaluation: Evaluation) -> str:
    statistics = {"darr": "preference", "soft-accuracy": "pair of systems"}
    levels = {"per-item": "item", "per-system": "system", "systems": "system"}
    protocol = evaluation.protocol
    return statistics.get(protocol.statistic) or levels.get(protocol.level, "group")


def _significance_remarks(evaluation: Evaluation) -> list[str]:
    sentences = []
    if any(not math.isnan(one.low) for one in evaluation.metrics):
        note = f"; {undefined_draws(evaluation.undefined_samples)}" if evaluation.undefined_samples else ""
        drawn = f"bootstrap, {plural(evaluation.samples, 'draw')}, seed {evaluation.seed}{note}"
        sentences.append(f"{100 * evaluation.level:g} % intervals: {drawn}.")
    if any(one.rank is not None for one in evaluation.metrics):
        sentences.append(
            "Ranks: metrics share a rank unless a permutation test finds a significant difference (PERM-BOTH, "
            f"{plural(evaluation.permutations, 'permutation')}, seed {evaluation.seed}, one-sided, p ≤ "
            f"{SIGNIFICANT:g})."
        )
    if evaluation.baseline is not None:
        tested = any(not math.isnan(one.p_value) for one in evaluation.metrics)
        meaning = f"↑ significantly better, ↓ significantly worse than {evaluation.baseline} (the same test)."
        sentences.append(meaning if tested else f"Differences from {evaluation.baseline} were not tested.")
        if len({one.undefined for one in evaluation.metrics if not math.isnan(one.value)}) > 1:
            sentences.append(
                f"Differences from {evaluation.baseline} are over the {_unit(evaluation)}s on which both metrics have "
                "a value, so they can deviate from those of the values shown."
            )
    return sentences


def _exclusion_remarks(evaluation: Evaluation) -> list[str]:
    sentences = []
    if evaluation.left_out:
        listed = ", ".join(f"{name}: {count:,}" for name, count in evaluation.missing.items())
        sentences.append(
            f"Left out for all metrics: {plural(evaluation.left_out, 'row')} without a score or a rating "
            f"(missing: {listed})."
        )
    if evaluation.lost_preferences:
        sentences.append(
            f"Left out: {plural(evaluation.lost_preferences, 'preference')} that lost a side or lie across groups."
        )
    valueless = {one.name for one in evaluation.metrics if math.isnan(one.value)}
    by_reason: dict[tuple[str, bool], list[Exclusion]] = {}
    for one in evaluation.excluded:
        by_reason.setdefault((one.reason, one.name in valueless), []).append(one)
    for (reason, metrics), group in by_reason.items():
        # Different groups hold different segments, so add them up; all metrics score the same segments.
        segments = group[0].segments if metrics else sum(one.segments for one in group)
        size = f", {plural(segments, 'segment')}{' each' if metrics and len(group) > 1 else ''}" if segments else ""
        sentences.append(f"Left out: {_list_names([one.name for one in group])} ({reason}{size}).")
    sentences += [
        f"Left out for {metric.name} alone: {_list_names(metric.undefined)} (its scores are all equal there, "
        f"{plural(metric.undefined_segments, 'segment')})."
        for metric in evaluation.metrics
        if metric.undefined and not math.isnan(metric.value)  # metrics without any value are listed above
    ]
    return sentences


def _list_names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:MAX_NAMES])
    return listed if len(names) <= MAX_NAMES else f"{listed} and {len(names) - MAX_NAMES:,} more"
