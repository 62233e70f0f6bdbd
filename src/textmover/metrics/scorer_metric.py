"""Base class of torchmetrics metrics that wrap a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from textmover.metrics.ordered_states import OrderedStates
from textmover.scoring import Scorer
from textmover.types import InputError

_TORCHMETRICS_OPTIONS = (
    "compute_on_cpu",
    "dist_sync_on_step",
    "process_group",
    "dist_sync_fn",
    "distributed_available_fn",
    "sync_on_compute",
    "compute_with_cache",
)
"""Keyword arguments of ``torchmetrics.Metric``."""


class _Reference:
    """Reference to a scorer that copies of the holder share.

    If the metric was copied with its holder, such as a training module, a copy refers to that copy. The metric may be
    copied after the reference, so the copies (the memo of ``copy.deepcopy``) are searched at the first use.
    """

    def __init__(self, target: Scorer, copies: Mapping[int, Any] | None = None) -> None:
        self._target, self._copies = target, copies

    @property
    def target(self) -> Scorer:
        copies, self._copies = self._copies, None
        if copies and (copied := copies.get(id(self._target.metric))) is not None:
            self._target = Scorer(copied, cache=False)
        return self._target

    def __deepcopy__(self, memo: dict[int, Any]) -> _Reference:
        return _Reference(self.target, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Reference, (self.target,)


class ScorerMetric(OrderedStates):
    """Columns of values from a scorer, with the attributes that torchmetrics expects of a metric.

    Args:
        scorer: Scorer of the metric. It is not registered: copies share it, and no weights are saved with the metric.
        columns: See :class:`OrderedStates`.
        **kwargs: Options of torchmetrics.
    """

    identity: Tensor

    def __init__(self, scorer: Scorer, columns: Mapping[str, torch.dtype], **kwargs: Any) -> None:
        super().__init__(columns, **kwargs)
        # A MetricCollection merges metrics whose states are equal after the first update, as with scores of 1 for
        # identical texts. This state is equal for the same scorer object only. It stores single bytes, since
        # torchmetrics compares with a relative tolerance of 1e-5.
        self.add_state("identity", default=torch.zeros(8, dtype=torch.long), dist_reduce_fx="max")
        self._scorer = _Reference(scorer)

    @property
    def scorer(self) -> Scorer:
        """The scorer of the metric."""
        return self._scorer.target

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """False for distances."""
        return self.scorer.metric.higher_is_better

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """Lowest possible score, or ``None`` if unbounded."""
        low = self.scorer.metric.range[0]
        return low if low > float("-inf") else None

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """Highest possible score, or ``None`` if unbounded."""
        high = self.scorer.metric.range[1]
        return high if high < float("inf") else None

    def keep(self, columns: Mapping[str, Tensor], count: int, positions: Sequence[int] | Tensor | None) -> None:
        """See :meth:`OrderedStates.keep`."""
        super().keep(columns, count, positions)
        address = id(self.scorer.metric).to_bytes(8, "little")
        self.identity = torch.tensor(list(address), dtype=torch.long, device=self.device)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """See :meth:`OrderedStates.merge_state`.

        Raises:
            InputError: If both have a segment at the same position, or their scorers differ.
        """
        if isinstance(incoming_state, ScorerMetric) and incoming_state.scorer is not self.scorer:
            ours, theirs = (metric.scorer.metric.signature.entries for metric in (self, incoming_state))
            different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
            if different and different != ["backend"]:
                raise InputError(
                    "Expected metrics that score alike, but their signatures differ in "
                    f"{', '.join(different)}: merge copies of one metric."
                )
        super().merge_state(incoming_state)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value or a series of values.

        Args:
            val: Result of :meth:`compute` or :meth:`forward`, or a list of results, each plotted as its mean over the
                segments. ``None`` plots the mean of all segments so far.
            ax: Matplotlib axes to plot into.

        Returns:
            Figure (``None`` with ``ax``) and axes.

        Raises:
            ModuleNotFoundError: If matplotlib is not installed.
        """
        if val is None:
            val = _means(self.compute())
        elif isinstance(val, Mapping):
            val = _tensors(val)
        elif not isinstance(val, Tensor):
            val = [_means(value) for value in val]
        return self._plot(val, ax)


def split_options(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keyword arguments into torchmetrics options and others."""
    torchmetrics_options = {name: value for name, value in kwargs.items() if name in _TORCHMETRICS_OPTIONS}
    return torchmetrics_options, {name: value for name, value in kwargs.items() if name not in torchmetrics_options}


def _means(value: Tensor | Mapping[str, Any]) -> Tensor | dict[str, Tensor]:
    if isinstance(value, Mapping):
        return {name: tensor.mean() for name, tensor in _tensors(value).items()}
    return value.mean()


def _tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the values of a result that can be plotted: all except the hash."""
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
