"""Values per segment that find their order again after being gathered from several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

__all__ = ["OrderedScores"]


class OrderedScores(Metric):
    """Collects one float64 value per segment under its int64 position.

    Positions may be given; without them a process numbers its segments as Lightning's and PyTorch's distributed
    samplers deal them out: its ``n``-th segment is number ``n · world + rank`` of all. A position that occurs twice is
    counted once. Where samplers fill up the last round with repeats, only given positions tell these from new segments.

    Example:
        >>> collected = OrderedScores()
        >>> collected.update(torch.tensor([0.3, 0.1]), positions=[1, 0])
        >>> collected.compute()
        tensor([0.1000, 0.3000], dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False

    values: list[Tensor]
    positions: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("values", default=[], dist_reduce_fx="cat")
        self.add_state("positions", default=[], dist_reduce_fx="cat")

    def update(self, values: Tensor, positions: Sequence[int] | Tensor | None = None) -> None:
        """Take in further values ``[n]`` at their positions."""
        self.append(values, positions)

    def compute(self) -> Tensor:
        """All values in order, float64 ``[n]``; torchmetrics makes a single one a scalar."""
        return self.ordered()[0]

    def append(self, values: Tensor, positions: Sequence[int] | Tensor | None) -> None:
        """Keep values under their positions."""
        if positions is None:
            done = sum(len(part) for part in self.positions)
            rank, world = _place()
            positions = (torch.arange(done, done + len(values)) * world) + rank
        index = torch.as_tensor(positions, dtype=torch.long, device=self.device)
        if index.shape != values.shape:
            raise ValueError(
                f"Expected one position per segment, but got {len(index)} positions for {len(values)} segments."
            )
        # MPS has no float64; everywhere else human scores and ours keep theirs.
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        self.values.append(values.detach().to(device=self.device, dtype=dtype))
        self.positions.append(index)

    def ordered(self) -> tuple[Tensor, Tensor]:
        """Values and positions, ascending by position, each position once."""
        if len(self.positions) == 0:
            empty = torch.zeros(0, dtype=torch.float64, device=self.device)
            return empty, torch.zeros(0, dtype=torch.long, device=self.device)
        values, positions = dim_zero_cat(self.values), dim_zero_cat(self.positions)
        order = torch.argsort(positions, stable=True)
        positions = positions[order]
        first = torch.ones_like(positions, dtype=torch.bool)
        first[1:] = positions[1:] != positions[:-1]
        return values[order][first], positions[first]


def _place() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
