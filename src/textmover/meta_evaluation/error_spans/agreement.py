"""Agreement of predicted error spans with human annotations: statistics, intervals, calibration and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.error_spans.span_statistics import (
    COLUMNS,
    ERRORS,
    Tags,
    check_pairs,
    figures,
    judged_words,
    segment_sums,
    word_errors,
    word_tags,
)
from textmover.meta_evaluation.significance.bootstrap import Interval, bootstrap_sums
from textmover.meta_evaluation.significance.significance_tests import permutation_test_of_sums
from textmover.meta_evaluation.statistics.score_arrays import Positions, Vector, divide, group_positions
from textmover.types import InputError, Shown, View, plural
from textmover.types.error_spans import ErrorSpan, MarkedSegment, TextErrors

BINS = 10  # bins of a reliability curve


class Cells(NamedTuple):
    """Sums over words (or gaps) with equal probability, in ascending order of probability, ``[U]`` each."""

    counts: Vector  # number of words (or gaps)
    wrong: Vector  # number of wrong ones
    mass: Vector  # sum of probabilities


class Reliability(NamedTuple):
    """Reliability curve: predicted probability and observed error rate in bins of about equal size.

    Attributes:
        probability: Mean probability of each of ``B`` bins, ascending.
        wrong: Fraction of words (or gaps) that people marked as wrong, ``[B]``.
        counts: Number of words (or gaps) in each bin, ``[B]``.
        error: Expected calibration error ``Σ counts |wrong - probability| / Σ counts``; NaN if empty.
        average_precision: Mean precision over the wrong ones, each at its own threshold; NaN if none is wrong.
    """

    probability: Vector
    wrong: Vector
    counts: Vector
    error: float
    average_precision: float


def check_bins(bins: int) -> None:
    """Raise an :class:`InputError` if there is less than one bin."""
    if bins < 1:
        raise InputError(f"Expected at least one bin, but got {bins}: {BINS} are usual.")


def cells_of(probabilities: ArrayLike, wrong: ArrayLike) -> tuple[Cells, NDArray[np.int64]]:
    """Aggregate equal probabilities into cells; also return the cell index of each probability."""
    levels, cell = np.unique(np.asarray(probabilities, dtype=np.float64), return_inverse=True)
    counts, wrong_ones = (
        np.bincount(cell, weights=np.asarray(one, dtype=np.float64), minlength=len(levels)).astype(np.float64)
        for one in (np.ones(len(cell)), wrong)
    )
    return Cells(counts, wrong_ones, counts * levels), cell


def equal_mass(counts: Vector, bins: int) -> NDArray[np.int64]:
    """Return the bin index of each cell, for bins of about equal size; equal probabilities share a bin."""
    middle = np.cumsum(counts) - counts / 2
    return np.minimum(middle * bins / max(counts.sum(), 1.0), bins - 1).astype(np.int64)


def reliability(cells: Cells, bins: int = BINS) -> Reliability:
    """Compute the reliability curve of cells.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks, with the equal-mass bins of Nguyen and
    O'Connor (2015), Posterior calibration and exploratory analysis for natural language processing models.

    Example:
        >>> curve = reliability(cells_of([0.1, 0.1, 0.8, 0.8], [False, False, True, False])[0], bins=2)
        >>> curve.probability, curve.wrong, round(curve.error, 3), curve.average_precision
        (array([0.1, 0.8]), array([0. , 0.5]), 0.2, 0.5)
    """
    place = equal_mass(cells.counts, bins)
    counts, wrong, mass = (np.bincount(place, one, bins).astype(np.float64) for one in cells)
    full = counts > 0
    error = float(calibration_error(np.stack([counts, wrong, mass], axis=-1)))
    above, right = np.cumsum(cells.counts[::-1]), np.cumsum(cells.wrong[::-1])
    total = right[-1] if len(right) else 0.0
    precision = float((divide(right, above) * cells.wrong[::-1])[above > 0].sum() / total) if total else np.nan
    return Reliability(mass[full] / counts[full], wrong[full] / counts[full], counts[full], error, precision)


def calibration_error(bins: Vector) -> Vector:
    """Return the expected calibration error of bins ``[…, B, 3]`` (count, wrong, probability mass); NaN if empty."""
    counts, wrong, mass = np.moveaxis(bins, -1, 0)
    return divide(np.abs(wrong - mass).sum(axis=-1), counts.sum(axis=-1))


class KindAgreement(NamedTuple):
    """Agreement on errors of one kind.

    Attributes:
        errors: Number of gold errors.
        recall: Fraction of gold errors that a predicted span overlaps.
        precision: Fraction of predicted spans in texts of this kind that overlap a gold error.
    """

    errors: int
    recall: Interval
    precision: Interval


@dataclass(frozen=True, eq=False, repr=False)
class SpanAgreement(Shown):
    """Agreement of predicted error spans with human annotations.

    Statistics by name: ``mcc_words``, ``mcc_gaps``, ``mcc`` (Matthews correlation of the tags of words, gaps, and both;
    NaN if people used a single tag), ``f1_bad``, ``f1_ok``, ``f1_mult`` (words), ``f1_mult_tags`` (words and gaps),
    ``span_precision``, ``span_recall``, ``span_f1``, ``span_f1_segments`` (characters, see
    :func:`~textmover.meta_evaluation.error_spans.span_statistics.span_f1`), ``recall``, ``precision`` (whole errors),
    ``ece`` (expected calibration error of words).

    Attributes:
        figures: Mean over groups and confidence interval of each statistic; NaN if undefined.
        by_group: Statistics of each group.
        by_kind: Agreement on each kind of error, if segments have the group key ``kind``.
        calibration: Reliability curves of ``words`` and ``gaps``.
        groups: Number of segments of each group.
        samples: Number of bootstrap samples.
        seed: Seed of the bootstrap.
        level: Confidence level of the intervals.
        labels: Group of each segment.
        sums: Sums of each segment from which all statistics are computed, ``[n, C]``.
    """

    figures: Mapping[str, Interval]
    by_group: Mapping[str, Mapping[str, float]]
    by_kind: Mapping[str, KindAgreement]
    calibration: Mapping[str, Reliability]
    groups: Mapping[str, int]
    samples: int
    seed: int
    level: float
    labels: tuple[str, ...]
    sums: Vector

    def view(self) -> View:
        """Show each statistic with its interval."""
        size = plural(len(self.labels), "segment")
        among = f", mean over {plural(len(self.groups), 'group')}" if len(self.groups) > 1 else ""
        rows = [(name, one.estimate, one.low, one.high) for name, one in self.figures.items()]
        return View(f"Agreement of marked errors in {size}{among}", ("figure", "value", "low", "high"), rows)


def judge_errors(
    gold: Sequence[MarkedSegment],
    found: Sequence[Sequence[ErrorSpan]],
    group: str | None = None,
    *,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    bins: int = BINS,
) -> SpanAgreement:
    """Evaluate predicted error spans against human annotations.

    If gold segments have words, probabilities are projected onto them
    (:func:`~textmover.meta_evaluation.word_errors`). Otherwise, both sides' spans tag the words of the prediction.

    Args:
        gold: Errors marked by people.
        found: Errors predicted by a metric for the same texts, in order; calibration requires ``TextErrors``.
        group: Key of the groups to average over, such as ``lp``; ``None`` pools all segments.
        samples: Number of bootstrap samples of segments within groups; 0 disables intervals.
        seed: Seed of the bootstrap.
        level: Confidence level of the intervals.
        bins: Number of calibration bins, of about equal size over all segments.

    Raises:
        InputError: If the texts differ, a segment lacks the group, a span exceeds its text, or there is no segment.

    Reference: Specia et al. (2020), Findings of the WMT 2020 Shared Task on Quality Estimation (task 2).

    Example:
        >>> from textmover.types.error_spans import ErrorSpan
        >>> gold = [MarkedSegment("a cat sat", (ErrorSpan(2, 5),), words=((0, 1), (2, 5), (6, 9)))] * 2
        >>> found = [TextErrors("a cat sat", (ErrorSpan(2, 9),))] * 2
        >>> one = judge_errors(gold, found).figures
        >>> [(name, round(one[name].estimate, 3)) for name in ("mcc_words", "f1_mult", "span_f1", "recall")]
        [('mcc_words', 0.5), ('f1_mult', 0.444), ('span_f1', 0.6), ('recall', 1.0)]
    """
    errors = check_pairs(gold, found)
    if not gold:
        raise InputError("Expected at least one segment, but got none: give texts whose errors people marked.")
    check_bins(bins)
    labels = _labels(gold, group)
    words, gaps = judged_probabilities(gold, errors)
    columns = [segment_sums(*pair) for pair in zip(gold, errors, strict=True)]
    sums = np.concatenate([columns, _bin_sums(words, len(gold), bins)], axis=1)
    options: dict[str, Any] = {"samples": samples, "seed": seed, "level": level}
    groups = group_positions(labels, len(gold))
    kinds = group_positions([one.groups.get("kind", "") for one in gold], len(gold))
    return SpanAgreement(
        figures=bootstrap_sums(sums, labels, all_figures, **options),
        by_group={
            name: {key: float(one) for key, one in all_figures(sums[rows].sum(axis=0)).items()}
            for name, rows in groups.items()
        },
        by_kind={name: _of_kind(sums[rows], options) for name, rows in kinds.items() if name},
        calibration={
            name: reliability(cells_of(one.probabilities, one.wrong)[0], bins)
            for name, one in (("words", words), ("gaps", gaps))
        },
        groups={name: len(rows) for name, rows in groups.items()},
        **options,
        labels=labels,
        sums=sums,
    )


def compare_errors(
    agreements: Sequence[SpanAgreement], *, permutations: int = 1000, seed: int = 0
) -> dict[str, np.ndarray]:
    """Test whether one metric predicts errors better than another, by permuting whole segments within groups.

    Args:
        agreements: Agreement of ``K`` metrics on the same segments.
        permutations: Number of permutations.
        seed: Seed of the permutations.

    Returns:
        For each statistic except ``ece``, one-sided p-values ``[K, K]`` that metric i has a higher value than metric j.

    Raises:
        InputError: If the segments differ in number or groups.

    Reference: Deutsch, Dror and Roth (2021), see :mod:`~textmover.meta_evaluation.significance.significance_tests`.
    """
    first = agreements[0].labels if agreements else ()
    if any(one.labels != first for one in agreements):
        raise InputError("Expected agreements on the same segments and groups, but they differ: use the same gold.")
    tables = np.stack([one.sums[:, :COLUMNS] for one in agreements]) if agreements else np.zeros((0, 0, COLUMNS))
    return permutation_test_of_sums(tables, first, figures, permutations=permutations, seed=seed)


def all_figures(sums: Vector) -> dict[str, Vector]:
    """Compute all statistics from summed columns, including the calibration error from the trailing bins."""
    bins = sums[..., COLUMNS:].reshape(*sums.shape[:-1], -1, 3)
    return {**figures(sums), "ece": calibration_error(bins)}


class JudgedProbabilities(NamedTuple):
    """Probabilities of words or gaps, gold tags, and segment indices, ``[m]`` each."""

    probabilities: Vector
    wrong: Tags
    owners: Positions


def judged_probabilities(
    gold: Sequence[MarkedSegment], found: Sequence[TextErrors]
) -> tuple[JudgedProbabilities, JudgedProbabilities]:
    """Return the probabilities of all words and of all gaps; texts without probabilities are skipped."""
    rows = []
    for owner, (segment, errors) in enumerate(zip(gold, found, strict=True)):
        if errors.words:
            words = judged_words(segment, errors)
            rows.append((owner, word_errors(errors, words), word_tags(segment.errors, words)))
    judged = []
    for kind in (0, 1):  # words, gaps
        probabilities = np.concatenate([np.zeros(0), *(values[kind] for _, values, _ in rows)])
        wrong = np.concatenate([np.zeros(0, dtype=bool), *(tags[kind] for _, _, tags in rows)])
        owners = np.repeat([owner for owner, _, _ in rows], [len(pair[kind]) for _, pair, _ in rows]).astype(np.int64)
        judged.append(JudgedProbabilities(probabilities, wrong, owners))
    return judged[0], judged[1]


def _bin_sums(judged: JudgedProbabilities, segments: int, bins: int) -> Vector:
    """Return count, wrong count and probability mass of each segment in bins of the full set, ``[n, 3 bins]``."""
    cells, cell = cells_of(judged.probabilities, judged.wrong)
    sums = np.zeros((segments, bins, 3))
    place = judged.owners, equal_mass(cells.counts, bins)[cell]
    np.add.at(sums, place, np.stack([np.ones(len(cell)), judged.wrong, judged.probabilities], axis=1))
    return sums.reshape(segments, -1)


def _of_kind(sums: Vector, options: Mapping[str, Any]) -> KindAgreement:
    intervals = bootstrap_sums(sums, None, figures, **options)
    return KindAgreement(int(sums[:, ERRORS].sum()), intervals["recall"], intervals["precision"])


def _labels(gold: Sequence[MarkedSegment], group: str | None) -> tuple[str, ...]:
    if group is None:
        return ("all",) * len(gold)
    for index, segment in enumerate(gold):
        if group not in segment.groups:
            raise InputError(
                f"Expected text {index} (counted from 0) to have the group {group!r}, but got "
                f"{', '.join(segment.groups) or 'none'}: name another, or read its column."
            )
    return tuple(segment.groups[group] for segment in gold)
