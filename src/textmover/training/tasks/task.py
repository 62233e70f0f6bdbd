"""Tasks: the loss on batches of a source, and the evaluation of held-back and held-out parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from textmover.data.training_sources import Source
from textmover.metrics.ordered_states import OrderedScores
from textmover.types import InputError, SegmentMetric

SourceType = TypeVar("SourceType", bound=Source[Any])


@dataclass(frozen=True)
class TaskResult:
    """Result of the metric on a held-back or held-out part."""

    values: Mapping[str, float]  # statistics, higher is better
    table: str  # the statistics as text
    details: Any = None  # underlying values, such as the correlations of each group


class Task(nn.Module, ABC, Generic[SourceType]):
    """Task of one source; a module, since it may have weights and buffers."""

    prepared: Tensor
    collector: Any = OrderedScores  # class that collects the results of the batches of a part

    def __init__(self, source: SourceType, *, main: bool = True) -> None:
        super().__init__()
        self.source, self.fitting = source, True
        self.main = main  # first task of its kind, which fits the head of the metric
        self.register_buffer("prepared", torch.zeros((), dtype=torch.bool))
        self._collected: dict[str, Any] = {}

    def prepare(self, metric: Any, start: Callable[[], Any], autocast: Callable[[], Any]) -> None:
        """Prepare the first step; ``prepared`` means that a resumed run restored the results of this.

        ``start`` builds the metric before training, with fitted statistics. ``autocast`` creates a context in which the
        encoder may run in bfloat16.
        """
        self.prepared.fill_(True)

    @abstractmethod
    def loss(self, metric: Any, batch: Any) -> Tensor:
        """Return the loss of a batch over the rows of all processes (:mod:`textmover.training.sharding`)."""

    def start_judging(self, device: torch.device, *, fitting: bool = True) -> None:
        """Reset the collected results of every part; only while fitting may they change the metric."""
        self.fitting = fitting
        self._collected = {part: self.collector().to(device) for part in self.source.parts}

    def collected(self, part: str) -> NDArray[Any] | None:
        """Return the results of a part ``[…, n]`` in item order; ``None`` if some are missing."""
        found = np.atleast_1d(self._collected[part].compute().cpu().numpy())
        return None if found.shape[-1] < len(self.source.parts[part]) else found

    @abstractmethod
    def collect(self, part: str, metric: Any, batch: Any) -> None:
        """Collect the results of the metric on a batch of a part."""

    @abstractmethod
    def judge(self, part: str) -> TaskResult | None:
        """Evaluate a part; ``None`` if results of some batches are missing."""


def check_fitted(metric: SegmentMetric) -> None:
    """Refuse to evaluate a metric without the corpus statistics that a fit, or its checkpoint, would provide."""
    if metric.needs_fit:
        raise InputError(
            "Expected a metric with its corpus statistics to validate, but got one that was never fitted: name a run's "
            "checkpoint with --ckpt_path, or an exported metric with --model.init_args.metric."
        )
