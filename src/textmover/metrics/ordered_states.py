"""Values per segment that can be put in order after gathering them from several processes."""

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
"""Advice if some segments were numbered automatically and others have given positions."""


class FullPrecision(Metric):
    """A metric that keeps its dtypes in casts, and computes again after states were merged or loaded."""

    _computed: Any
    _update_count: int

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> FullPrecision:
        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        return super()._apply(moved, *args, **kwargs)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the states of another metric."""
        super().merge_state(incoming_state)
        self._computed, self._update_count = None, self._update_count + 1  # torchmetrics returns the earlier result

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        loaded = any(prefix + name in state_dict for name in self._defaults)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if loaded:
            self._computed, self._update_count = None, self._update_count + 1
            for name, value in self.metric_state.items():  # all that load one dictionary would extend its lists
                setattr(self, name, [*value] if isinstance(value, list) else value)


class OrderedStates(FullPrecision):
    """Collect named columns of values, and the int64 position of each segment.

    Positions are given at every update or at none; mixing raises an error. Without them, segments are numbered in the
    order in which distributed samplers of PyTorch and Lightning assign them: the ``n``-th segment of a process is
    number ``n · world + rank``. A duplicate position is counted once. If samplers repeat segments to fill the last
    round, only given positions distinguish the repeats from new segments. Columns keep their dtype in casts.

    Args:
        columns: Dtype of each column, by name. A column may hold any number of values per segment.
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
        self._count_before = 0
        for name in self._columns:
            self.add_state(name, default=[], dist_reduce_fx="cat")
        # Whether segments were numbered automatically, and whether positions were given. This is a state, so that it is
        # reset, copied, saved, merged and gathered together with the positions.
        self.add_state("choice", default=torch.zeros(2, dtype=torch.long), dist_reduce_fx="max")
        self._outer_choice = [0, 0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and return the value of this batch only; if it raises, the metric is unchanged."""
        # To compute the batch value, torchmetrics resets the states and disables syncing, and restores neither on an
        # error. Automatic numbering continues meanwhile.
        attributes = {name: [*value] if isinstance(value, list) else value for name, value in self.__dict__.items()}
        self._count_before, self._outer_choice = self._count(), self.choice.tolist()
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(attributes)
            raise
        finally:
            self._count_before, self._outer_choice = 0, [0, 0]

    def reset(self) -> None:
        """Remove all segments."""
        for name in self._columns:  # torchmetrics clears lists in place, including those stored by `Running`
            setattr(self, name, [])
        super().reset()

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Gather the states, and restore those of this process at exit, even after an error."""
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
        """Add what another metric has collected at other positions.

        Raises:
            InputError: If both have a segment at the same position, or the states are of another kind.
        """
        incoming = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        if missing := sorted({*self._defaults} - {*incoming}):
            raise InputError(
                f"Expected states of another {type(self).__name__} with the same options, but got none of "
                f"{', '.join(missing)}: merge metrics that were made alike."
            )
        positions, other_positions = self.column("positions"), _joined(incoming["positions"], torch.long, self.device)
        shared = positions[torch.isin(positions, other_positions)]
        if len(shared):
            raise InputError(
                f"Expected metrics that collected different segments, but both have one at position {int(shared[0])}: "
                "give `positions` to their updates."
            )
        super().merge_state(incoming_state)

    def keep(self, columns: Mapping[str, Tensor], count: int, positions: Sequence[int] | Tensor | None) -> None:
        """Store further values.

        Args:
            columns: Values of each column.
            count: Number of segments.
            positions: Position of each segment among all; ``None`` numbers them as samplers do.

        Raises:
            InputError: If there is not one position per segment, or positions are given at some updates only.
        """
        given = positions is not None
        if positions is None:
            rank, world = _rank_and_world_size()
            start = max(self._count_before, self._count())
            positions = torch.arange(start, start + count) * world + rank
        index = _checked_positions(positions, count).to(self.device)
        _check_repeats(index, index.argsort(stable=True), [*columns.values()])
        if count:
            self._check_positions_given(given)
        for name, values in columns.items():
            getattr(self, name).append(values.detach().to(device=self.device, dtype=self._dtype_of(name)))
        self.positions.append(index)

    def column(self, name: str) -> Tensor:
        """All values of a column in the order of collection, ``[n]``."""
        return _joined(getattr(self, name), self._dtype_of(name), self.device)

    def order(self) -> tuple[Tensor, Tensor]:
        """Return rows and positions of the segments, sorted by position, without duplicate positions.

        Raises:
            InputError: If a position occurs twice with different values, or because segments were numbered in one
                process and have given positions in another.
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
        values = [self.column(name) for name in self._columns]
        # Reduced precision moves the scores of a repeated segment between batches and processes.
        _check_repeats(self.column("positions"), rows, values, share=1e-3)
        return rows[first], positions[first]

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        # States are lists here and tensors after gathering, which torchmetrics cannot join.
        states = {name: [_joined(incoming_state[name], self._dtype_of(name), self.device)] for name in self._columns}
        positions = self.column("positions")
        if self.choice[0] and incoming_state["choice"][0] and bool(torch.isin(positions, states["positions"][0]).any()):
            # `Running` resets the metric after each batch, so each batch is numbered from 0: continue the numbers.
            world = _rank_and_world_size()[1]
            states["positions"] = [states["positions"][0] + (int(positions.max()) // world + 1) * world]
        super()._reduce_states({**incoming_state, **states})

    def _check_positions_given(self, given: bool) -> None:
        """Raise an error if given and automatic positions are mixed; they could not be distinguished later."""
        earlier = [flag or outer for flag, outer in zip(self.choice.tolist(), self._outer_choice, strict=True)]
        if earlier[not given]:
            got, earlier_use = ("some", "none") if given else ("none", "some")
            raise InputError(
                f"Expected `positions` to be given as at earlier updates, but got {got} after {earlier_use}: {MIXED}."
            )
        self.choice = torch.tensor([not given, given], dtype=torch.long, device=self.device)

    def _count(self) -> int:
        return sum(len(part) for part in self.positions)

    def _dtype_of(self, name: str) -> torch.dtype:
        # MPS has no float64; on other devices human and metric scores keep it.
        dtype = self._columns[name]
        return torch.float32 if dtype == torch.float64 and self.device.type == "mps" else dtype

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        # For an empty state torchmetrics sends float32, which processes with int64 states cannot gather.
        for name in self._columns:
            if isinstance(getattr(self, name), list) and not getattr(self, name):
                setattr(self, name, [self.column(name)])
        super()._sync_dist(*args, **kwargs)


class OrderedScores(OrderedStates):
    """Collect one float64 value per segment with its int64 position (see :class:`OrderedStates`).

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
        """Add values ``[n]`` at their positions."""
        self.keep({"values": values}, len(values), positions)

    def compute(self) -> Tensor:
        """Return all values in order, float64 ``[n]``; torchmetrics turns a single value into a scalar."""
        return self.ordered()[0]

    def ordered(self) -> tuple[Tensor, Tensor]:
        """Return values and positions, sorted by position, without duplicate positions."""
        rows, positions = self.order()
        return self.column("values")[rows], positions


def _joined(parts: list[Tensor] | Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a state as one tensor, empty if nothing was collected."""
    return dim_zero_cat(parts).to(dtype) if len(parts) else torch.zeros(0, dtype=dtype, device=device)


def _check_repeats(positions: Tensor, order: Tensor, columns: Sequence[Tensor], share: float = 0.0) -> None:
    """Refuse equal positions whose values differ by more than 1e-6 and a share of the value; samplers repeat segments.

    Nothing is compared if a column does not hold one row per position.
    """
    repeated = positions[order].diff() == 0
    if not bool(repeated.any()) or any(len(values) != len(positions) for values in columns):
        return
    for values in columns:
        rows = values.double()[order].reshape(len(order), -1)
        limit = 1e-6 + share * rows[:-1][repeated].abs()
        if bool((rows.diff(dim=0)[repeated].abs() > limit).any()):
            raise InputError("Expected one position per segment, but got the same one for two different segments.")


def _checked_positions(positions: Sequence[int] | Tensor, count: int) -> Tensor:
    try:
        tensor = torch.as_tensor(positions)
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.zeros((), dtype=torch.bool)
    is_integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if (count and not is_integer) or tensor.shape != (count,) or bool((tensor < 0).any()):
        raise InputError(
            f"Expected `positions` to be one whole number from 0 up per segment, but got {f'{positions!r}':.60} for "
            f"{plural(count, 'segment')}: give a flat list of as many."
        )
    return tensor.long()


def _rank_and_world_size() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
