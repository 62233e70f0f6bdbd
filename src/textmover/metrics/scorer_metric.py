"""Base of the torchmetrics Metrics over a scorer."""

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
    """Holds a scorer without owning it: copies of the holder share it."""

    def __init__(self, target: Scorer) -> None:
        self.target = target

    def __deepcopy__(self, memo: dict[int, Any]) -> _Reference:
        # Where the metric was copied along with its holder (a whole training module), the copy is what it refers to.
        copied = memo.get(id(self.target.metric))
        return self if copied is None else _Reference(Scorer(copied, cache=False))


class ScorerMetric(OrderedStates):
    """Columns of values that a scorer gives, and what torchmetrics asks of a metric beside them.

    Args:
        scorer: What scores. It is referred to and not registered: copies share it, and no weights are saved with it.
        columns: See :class:`OrderedStates`.
        **kwargs: Options of torchmetrics.
    """

    identity: Tensor

    def __init__(self, scorer: Scorer, columns: Mapping[str, torch.dtype], **kwargs: Any) -> None:
        super().__init__(columns, **kwargs)
        # A collection lets metrics share their states if these are equal after the first update, as they are where
        # both metrics give identical texts a 1. This one is equal only where they score with the same object. It holds
        # single bytes, since torchmetrics takes numbers that differ by a part in 100,000 for equal.
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
        """Lowest score that can occur, where there is one."""
        low = self.scorer.metric.range[0]
        return low if low > float("-inf") else None

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """Highest score that can occur, where there is one."""
        high = self.scorer.metric.range[1]
        return high if high < float("inf") else None

    def keep(self, columns: Mapping[str, Tensor], count: int, positions: Sequence[int] | Tensor | None) -> None:
        """See :meth:`OrderedStates.keep`."""
        super().keep(columns, count, positions)
        place = id(self.scorer.metric).to_bytes(8, "little")
        self.identity = torch.tensor(list(place), dtype=torch.long, device=self.device)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """See :meth:`OrderedStates.merge_state`.

        Raises:
            InputError: If both have collected something under the same position, or score differently.
        """
        if isinstance(incoming_state, ScorerMetric) and incoming_state.scorer is not self.scorer:
            ours, theirs = (one.scorer.metric.signature.entries for one in (self, incoming_state))
            differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
            if differing and differing != ["backend"]:
                raise InputError(
                    "Expected metrics that score alike, but their signatures differ in "
                    f"{', '.join(differing)}: merge copies of one metric."
                )
        super().merge_state(incoming_state)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw a value or a series of them.

        Args:
            val: What :meth:`compute` or :meth:`forward` gave, or a list of such; of a list, each entry is drawn as its
                mean over the segments. The mean of all segments up to now if ``None``.
            ax: Matplotlib axes to draw into.

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
            val = [_means(one) for one in val]
        return self._plot(val, ax)


def split_options(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of torchmetrics, and the others."""
    own = {name: value for name, value in kwargs.items() if name in _TORCHMETRICS_OPTIONS}
    return own, {name: value for name, value in kwargs.items() if name not in own}


def _means(value: Tensor | Mapping[str, Any]) -> Tensor | dict[str, Tensor]:
    if isinstance(value, Mapping):
        return {name: tensor.mean() for name, tensor in _tensors(value).items()}
    return value.mean()


def _tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Values of a result that can be drawn: all but the hash."""
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
