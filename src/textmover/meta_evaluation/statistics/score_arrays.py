"""Utilities for score lists: validation, grouping, standardisation, chunks and NaN-aware means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.types import InputError, plural

Vector = NDArray[np.float64]
Positions = NDArray[np.int64]

CHUNK_ENTRIES = 2**20  # most entries of a table in memory; larger tables are processed in chunks
ROUNDING = 1e-12  # tolerance for rounding errors of sums and means, relative to their terms


def as_vector(scores: ArrayLike, name: str) -> Vector:
    """Return scores as float64 ``[n]``, or raise an :class:`InputError` that calls them ``name``."""
    try:
        vector = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected {name} to be numbers, but got '{error}': give one number per segment.") from error
    if vector.ndim != 1:
        raise InputError(f"Expected {name} of shape [n], but got {list(vector.shape)}: give one number per segment.")
    return vector


def finite_scores(scores: ArrayLike, name: str) -> Vector:
    """Return scores as :func:`as_vector` does; NaN and infinity are errors, too."""
    vector = as_vector(scores, name)
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        listed = ", ".join(map(str, wrong[:5])) + (", …" if len(wrong) > 5 else "")
        raise InputError(
            f"Expected finite {name}, but got NaN or infinity for {len(wrong)} of {plural(len(vector), 'segment')} "
            f"(counted from 0: {listed}): leave those segments out of every list."
        )
    return vector


def paired_scores(metric_scores: ArrayLike, human_scores: ArrayLike) -> tuple[Vector, Vector]:
    """Return two score lists of equal length as float64 ``[n]``."""
    metric, human = finite_scores(metric_scores, "metric scores"), finite_scores(human_scores, "human scores")
    if len(metric) != len(human):
        raise InputError(
            f"Expected a metric score and a human score for each segment, but got {len(metric)} and {len(human)}: "
            "give both in the same order."
        )
    return metric, human


def stack_scores(scores: Sequence[ArrayLike], human: ArrayLike) -> tuple[Vector, Vector]:
    """Return the scores of at least one metric ``[K, n]`` and the human scores ``[n]``."""
    if not len(scores):
        raise InputError("Expected the scores of at least one metric, but got none: give one.")
    pairs = [paired_scores(one, human) for one in scores]
    return np.stack([one for one, _ in pairs]), pairs[0][1]


def check_segments(scores: Vector) -> None:
    """Raise an :class:`InputError` if scores ``[..., n]`` have no segment."""
    if not scores.shape[-1]:
        raise InputError("Expected scores of at least one segment, but got none: give some.")


def group_positions(groups: Sequence[str] | None, n: int) -> dict[str, Positions]:
    """Return ascending positions of each group, in order of appearance; ``None`` makes a single group ``"all"``."""
    groups = ["all"] * n if groups is None else groups
    if len(groups) != n:
        raise InputError(f"Expected {plural(n, 'group')}, one per segment, but got {len(groups)}.")
    members: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        members.setdefault(group, []).append(position)
    return {group: np.asarray(positions, dtype=np.int64) for group, positions in members.items()}


def label_numbers(labels: Sequence[str]) -> Positions:
    """Encode labels as integers, in order of first appearance, ``[n]``."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.asarray([numbers[label] for label in labels], dtype=np.int64)


def standard_scores(x: ArrayLike) -> Vector:
    """Standardise scores to mean 0 and standard deviation 1; constant scores become 0. Equal scores stay equal."""
    x = finite_scores(x, "scores")
    if not len(x) or x.min() == x.max():
        return np.zeros_like(x)
    return unit_rows(x) * np.sqrt(len(x))


def scaled(x: Vector) -> Vector:
    """Centre rows and scale their largest absolute entry to 1, so that squares neither overflow nor underflow."""
    x = _of_size_one(x)
    return _of_size_one(x - x.mean(axis=-1, keepdims=True))


def _of_size_one(x: Vector) -> Vector:
    largest = np.abs(x).max(axis=-1, keepdims=True)
    return x / np.where(largest > 0, largest, 1.0)


def unit_rows(x: Vector) -> Vector:
    """Centre rows and scale them to norm 1; NaN for constant rows."""
    x = scaled(x)
    with np.errstate(invalid="ignore"):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)


def divide(above: Vector, below: Vector | Positions) -> Vector:
    """Divide elementwise; NaN where the denominator is not positive."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)


def nan_mean(values: Vector, axis: int) -> Vector:
    """Return the mean of the values that are not NaN; NaN if all are."""
    known = ~np.isnan(values)
    return divide(np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis))


def batches(units: Sequence[Positions]) -> Iterator[tuple[Positions, Positions]]:
    """Yield units grouped by size, ascending: their indices ``[U]`` and the positions of their members ``[U, m]``."""
    sizes: dict[int, list[int]] = {}
    for number, members in enumerate(units):
        sizes.setdefault(len(members), []).append(number)
    for _, numbers in sorted(sizes.items()):
        yield np.asarray(numbers, dtype=np.int64), np.stack([units[number] for number in numbers])


def chunks(rows: int, entries: int) -> Iterator[slice]:
    """Yield slices of rows so that a table with ``entries`` entries per row stays below :data:`CHUNK_ENTRIES`."""
    step = max(1, CHUNK_ENTRIES // max(1, entries))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def restore_ties(means: Vector, sizes: Vector) -> Vector:
    """Make means ``[..., m]`` equal if they differ only by rounding errors, so that comparisons detect ties.

    Means are tied if ``|x - y| ≤ ROUNDING (size(x) + size(y))``, where the size is the largest absolute term of a mean.
    All means in a run of tied neighbours become the lowest of the run.
    """
    sizes = np.broadcast_to(sizes, means.shape)
    order = np.argsort(means, axis=-1, kind="stable")
    ordered, terms = np.take_along_axis(means, order, axis=-1), np.take_along_axis(sizes, order, axis=-1)
    opens = np.ones(means.shape, dtype=bool)  # whether a run of ties starts here; NaN, sorted last, always starts one
    opens[..., 1:] = ~(np.diff(ordered, axis=-1) <= ROUNDING * (terms[..., 1:] + terms[..., :-1]))
    starts = np.maximum.accumulate(np.where(opens, np.arange(means.shape[-1]), 0), axis=-1)
    result = np.empty_like(means)
    np.put_along_axis(result, order, np.take_along_axis(ordered, starts, axis=-1), axis=-1)
    return result
