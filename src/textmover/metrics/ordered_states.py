"""Values per segment that find their order again after being gathered from several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from textmover.types import InputError, plural

MIXED = "give `positions` at every update, in all processes, or at none"
"""The way out where some segments were numbered and others have positions of their own."""


class FullPrecision(Metric):
    """A metric that follows a module to its device, and keeps its types where that is cast to half precision."""

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> FullPrecision:
        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        return super()._apply(moved, *args, **kwargs)


class OrderedStates(FullPrecision):
    """Collects named columns of values, and the int64 position of each segment that they belong to.

    Positions may be given, at every update or at none, which is checked; without them a process numbers its segments as
    Lightning's and PyTorch's distributed samplers deal them out: its ``n``-th segment is number ``n · world + rank`` of
    all. A position that occurs twice is counted once. Where samplers fill up the last round with repeats, only given
    positions tell these from new segments. Columns keep their dtype, whatever the metric is cast to.

    Args:
        columns: Dtype of each column, by name. A column may hold one value per segment or any other number.
        **kwargs: Options of torchmetrics.
    """

    is_differentiable = False
    full_state_update = False

    positions: list[Tensor]
    choice: Tensor
    _is_synced: bool

    def __init__(self, columns: Mapping[str, torch.dtype], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._columns = {**columns, "positions": torch.long}
        self._numbered = 0
        for name in self._columns:
            self.add_state(name, default=[], dist_reduce_fx="cat")
        # Whether segments were numbered here, and whether positions were given: a state, so that it is reset, copied,
        # saved, merged and gathered along with the positions.
        self.add_state("choice", default=torch.zeros(2, dtype=torch.long), dist_reduce_fx="max")
        self._outer_choice = [0, 0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Take in a batch, and give the value of this batch alone; a batch that raises changes nothing."""
        # torchmetrics empties the states and turns syncing off for the batch's own value, and puts neither back where
        # that raises. The numbering goes on meanwhile.
        before = {name: [*value] if isinstance(value, list) else value for name, value in self.__dict__.items()}
        self._numbered, self._outer_choice = self._count(), self.choice.tolist()
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)
            raise
        finally:
            self._numbered, self._outer_choice = 0, [0, 0]

    def reset(self) -> None:
        """Forget all segments."""
        for name in self._columns:  # torchmetrics empties lists in place, also those that `Running` has kept
            setattr(self, name, [])
        super().reset()

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Gather the states, and restore those of this process in the end, whatever happens in between."""
        synced = self._is_synced
        try:
            with super().sync_context(*args, **kwargs):
                yield
        except BaseException:
            if self._cache is not None and not synced:
                self._is_synced = True
                self.unsync()
            raise

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Take over what another metric of the kind has collected, under other positions.

        Raises:
            InputError: If both have collected something under the same position, or the states are of another kind.
        """
        theirs = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        if missing := sorted({*self._defaults} - {*theirs}):
            raise InputError(
                f"Expected states of another {type(self).__name__} with the same options, but got none of "
                f"{', '.join(missing)}: merge metrics that were made alike."
            )
        ours, other = self.column("positions"), _joined(theirs["positions"], torch.long, self.device)
        shared = ours[torch.isin(ours, other)]
        if len(shared):
            raise InputError(
                f"Expected metrics that collected different segments, but both have one at position {int(shared[0])}: "
                "give `positions` to their updates."
            )
        super().merge_state(incoming_state)

    def keep(self, columns: Mapping[str, Tensor], count: int, positions: Sequence[int] | Tensor | None) -> None:
        """Keep further values.

        Args:
            columns: Values of each column.
            count: Number of segments that they belong to.
            positions: Place of each of these segments among all; numbered as samplers do if ``None``.

        Raises:
            InputError: If there is not one position per segment, or they are given at some updates and not at others.
        """
        given = positions is not None
        if positions is None:
            rank, world = _place()
            start = max(self._numbered, self._count())
            positions = torch.arange(start, start + count) * world + rank
        index = _checked_positions(positions, count).to(self.device)
        order = index.argsort(stable=True)
        same = index[order].diff() == 0
        if same.any() and all(len(one) == count for one in columns.values()):  # as samplers repeat a segment
            steps = (one.double()[order].diff(dim=0).abs().reshape(count - 1, -1) for one in columns.values())
            if any(bool((one[same] > 1e-6).any()) for one in steps):
                raise InputError("Expected a position of its own for each segment, but got one for two unlike ones.")
        if count:
            self._choose(given)
        for name, values in columns.items():
            getattr(self, name).append(values.detach().to(device=self.device, dtype=self._dtype_of(name)))
        self.positions.append(index)

    def column(self, name: str) -> Tensor:
        """All values of a column as they were collected, ``[n]``."""
        return _joined(getattr(self, name), self._dtype_of(name), self.device)

    def order(self) -> tuple[Tensor, Tensor]:
        """Rows of the segments and their positions, ascending by position, each position once.

        Raises:
            InputError: If a position occurs twice since segments were numbered in one process and have positions of
                their own in another.
        """
        positions = self.column("positions")
        rows = torch.argsort(positions, stable=True)
        positions = positions[rows]
        first = torch.ones_like(positions, dtype=torch.bool)
        first[1:] = positions[1:] != positions[:-1]
        if not bool(first.all()) and bool(self.choice.all()):
            raise InputError(
                f"Expected positions that tell all segments apart, but numbered and given ones are equal: {MIXED}."
            )
        return rows[first], positions[first]

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        # States are lists here and tensors where they were gathered, which torchmetrics cannot join.
        parts = {name: [_joined(incoming_state[name], self._dtype_of(name), self.device)] for name in self._columns}
        ours = self.column("positions")
        if self.choice[0] and incoming_state["choice"][0] and bool(torch.isin(ours, parts["positions"][0]).any()):
            # `Running` resets the metric after each batch, so that each was numbered from 0: count on.
            world = _place()[1]
            parts["positions"] = [parts["positions"][0] + (int(ours.max()) // world + 1) * world]
        super()._reduce_states({**incoming_state, **parts})

    def _choose(self, given: bool) -> None:
        """Note whether positions are given; numbers could not be told from such positions later on."""
        held = [one or outer for one, outer in zip(self.choice.tolist(), self._outer_choice, strict=True)]
        if held[not given]:
            got, before = ("some", "none") if given else ("none", "some")
            raise InputError(
                f"Expected `positions` to be given as at earlier updates, but got {got} after {before}: {MIXED}."
            )
        self.choice = torch.tensor([not given, given], dtype=torch.long, device=self.device)

    def _count(self) -> int:
        return sum(len(part) for part in self.positions)

    def _dtype_of(self, name: str) -> torch.dtype:
        # MPS has no float64; everywhere else human scores and ours keep theirs.
        dtype = self._columns[name]
        return torch.float32 if dtype == torch.float64 and self.device.type == "mps" else dtype

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        # For a process that has seen nothing torchmetrics sends float32, which others that send int64 cannot gather.
        for name in self._columns:
            if isinstance(getattr(self, name), list) and not getattr(self, name):
                setattr(self, name, [self.column(name)])
        super()._sync_dist(*args, **kwargs)


class OrderedScores(OrderedStates):
    """Collects one float64 value per segment under its int64 position (see :class:`OrderedStates`).

    Example:
        >>> collected = OrderedScores()
        >>> collected.update(torch.tensor([0.3, 0.1]), positions=[1, 0])
        >>> collected.compute()
        tensor([0.1000, 0.3000], dtype=torch.float64)
    """

    values: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__({"values": torch.float64}, **kwargs)

    def update(self, values: Tensor, positions: Sequence[int] | Tensor | None = None) -> None:
        """Take in further values ``[n]`` at their positions."""
        self.keep({"values": values}, len(values), positions)

    def compute(self) -> Tensor:
        """All values in order, float64 ``[n]``; torchmetrics makes a single one a scalar."""
        return self.ordered()[0]

    def ordered(self) -> tuple[Tensor, Tensor]:
        """Values and positions, ascending by position, each position once."""
        rows, positions = self.order()
        return self.column("values")[rows], positions


def _joined(parts: list[Tensor] | Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A state as one tensor, also where nothing has been collected."""
    return dim_zero_cat(parts).to(dtype) if len(parts) else torch.zeros(0, dtype=dtype, device=device)


def _checked_positions(positions: Sequence[int] | Tensor, count: int) -> Tensor:
    try:
        found = torch.as_tensor(positions)
    except (TypeError, ValueError, RuntimeError):
        found = torch.zeros((), dtype=torch.bool)
    whole = not (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool)
    if (count and not whole) or found.shape != (count,) or bool((found < 0).any()):
        raise InputError(
            f"Expected `positions` to be one whole number from 0 up per segment, but got {f'{positions!r}':.60} for "
            f"{plural(count, 'segment')}: give a flat list of as many."
        )
    return found.long()


def _place() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
