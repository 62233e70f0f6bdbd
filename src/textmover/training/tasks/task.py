"""Tasks: the loss of a source's batches, and the judgement of parts kept from training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from textmover.data.sources import Source
from textmover.metrics.ordered_states import OrderedScores
from textmover.types import InputError, SegmentMetric

SourceType = TypeVar("SourceType", bound=Source[Any])


@dataclass(frozen=True)
class Judgement:
    """Result of the metric on a part kept from training."""

    values: Mapping[str, float]  # statistics, of which higher is better
    table: str  # the same for people to read
    details: Any = None  # what the statistics rest on, such as the correlations of each group


class Task(nn.Module, ABC, Generic[SourceType]):
    """One source's task; a module, since it may have weights and values of its own."""

    prepared: Tensor
    collector: Any = OrderedScores  # class that keeps the results of the batches of a part

    def __init__(self, source: SourceType) -> None:
        super().__init__()
        self.source = source
        self.register_buffer("prepared", torch.zeros((), dtype=torch.bool))
        self._collected: dict[str, Any] = {}

    def prepare(self, metric: Any, start: Callable[[], Any], autocast: Callable[[], Any]) -> None:
        """Get ready for the first step, unless a resumed run has brought what that gives (``prepared``).

        ``start`` makes the metric as it is before training, with its statistics fitted; ``autocast`` a context under
        which the encoder may run in bfloat16.
        """
        self.prepared.fill_(True)

    @abstractmethod
    def loss(self, metric: Any, batch: Any) -> Tensor:
        """Loss of one batch over the rows of all processes (:mod:`textmover.training.sharding`)."""

    def start_judging(self, device: torch.device) -> None:
        """Start collecting afresh for every part."""
        self._collected = {part: self.collector().to(device) for part in self.source.parts}

    def collected(self, part: str) -> NDArray[Any] | None:
        """Results of a part ``[…, n]`` in the order of its items; ``None`` where some are missing."""
        found = np.atleast_1d(self._collected[part].compute().cpu().numpy())
        return None if found.shape[-1] < len(self.source.parts[part]) else found

    @abstractmethod
    def collect(self, part: str, metric: Any, batch: Any) -> None:
        """Keep the metric's results for a batch of a part."""

    @abstractmethod
    def judge(self, part: str) -> Judgement | None:
        """Judge a part, once all its batches are there; ``None`` where some are missing."""


def check_fitted(metric: SegmentMetric) -> None:
    """Refuse to judge a metric whose corpus statistics only a fit, or what it has written, would bring."""
    if metric.needs_fit:
        raise InputError(
            "Expected a metric with its corpus statistics to validate, but got one that was never fitted: name a run's "
            "checkpoint with --ckpt_path, or an exported metric with --model.init_args.metric."
        )
