"""Rated segments as training batches of like length, in an order that a resumed run can take up in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from textmover.types import InputError, Segment, TokenBatch

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

__all__ = ["LengthBuckets", "RatingBatch", "RatingLoader", "Tokenize"]

Tokenize = Callable[[Sequence[str]], TokenBatch]
"""Texts to token ids: a metric's own ``tokenize``."""

LENGTH_CHUNK = 1024
"""Texts that are tokenised at a time to learn their lengths."""


@dataclass(frozen=True)
class RatingBatch:
    """Rated segments, one row per pair of a hypothesis and one of its references.

    Attributes:
        hypotheses: Tokens of the hypotheses, ``R`` rows (a hypothesis is repeated for each of its references).
        references: Tokens of the references, ``R`` rows.
        owners: Segment of each row, int64 ``[R]``, ascending from 0.
        ratings: Human scores, float64 ``[B]``.
        positions: Place of each segment in its part of the data, int64 ``[B]``.
    """

    hypotheses: TokenBatch
    references: TokenBatch
    owners: Tensor
    ratings: Tensor
    positions: Tensor

    def __len__(self) -> int:
        return len(self.positions)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on ``device`` (ratings stay float64, so this is not for MPS)."""
        return type(self)(
            self.hypotheses.to(device),
            self.references.to(device),
            self.owners.to(device),
            self.ratings.to(device),
            self.positions.to(device),
        )


class LengthBuckets(Sampler[list[int]]):
    """Batches of segments of like length, shuffled anew in each epoch.

    The segments are shuffled, cut into pools of ``pool`` batches, sorted by length within each pool, cut into batches,
    and the batches shuffled. Padding shrinks to almost nothing, while which segments meet stays random. The order
    follows from seed and epoch alone. With several ranks, each takes every ``world``-th batch; the last ones are left
    out where they do not go round.

    Args:
        lengths: Length of each segment in tokens.
        batch_size: Segments to a batch.
        seed: Seed of the order.
        pool: Batches that are sorted together; 1 mixes lengths at random.
        rank: This process.
        world: Number of processes.

    Example:
        >>> buckets = LengthBuckets([5, 50, 6, 51], batch_size=2, seed=0, pool=2)
        >>> sorted(sorted(batch) for batch in buckets.batches(epoch=0))
        [[0, 2], [1, 3]]
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, *, seed: int = 0, pool: int = 32, rank: int = 0, world: int = 1
    ) -> None:
        if batch_size < 1 or pool < 1:
            raise InputError(f"Expected `batch_size` and `pool` to be at least 1, but got {batch_size} and {pool}.")
        self.lengths = np.asarray(lengths)
        self.batch_size, self.seed, self.pool = batch_size, seed, pool
        self.rank, self.world = rank, world
        self.epoch = self.start = 0
        """Epoch that the next iteration runs, and the batch that it starts from."""

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size) // self.world

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.batches(self.epoch)[self.start :]

    def batches(self, epoch: int) -> list[list[int]]:
        """All batches of this rank in an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.lengths))
        pools = [order[start : start + self.pool * self.batch_size] for start in self._steps(self.pool)]
        ordered = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
        batches = [ordered[start : start + self.batch_size].tolist() for start in self._steps(1)]
        shuffled = [batches[place] for place in rng.permutation(len(batches))]
        return shuffled[self.rank :: self.world][: len(self)]

    def _steps(self, batches: int) -> range:
        return range(0, len(self.lengths), batches * self.batch_size)


class RatingLoader(DataLoader[int]):
    """Loader of rating batches whose place can be saved and taken up again.

    Lightning keeps :meth:`state_dict` in its checkpoints and gives it back on resuming, so that a run that was killed
    in the middle of an epoch goes on with the next batch.

    Args:
        segments: Rated segments.
        tokenize: The metric's tokeniser.
        batch_size: Segments to a batch.
        shuffle: Whether to draw batches by :class:`LengthBuckets`; otherwise they come sorted by length, the longest
            first.
        seed: Seed of the order.
        epoch: Tells the epoch when an iteration starts.
        rank: This process.
        world: Number of processes; a loader that does not shuffle deals out single segments instead of batches.
        workers: Processes that tokenise ahead.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        tokenize: Tokenize,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int = 0,
        epoch: Callable[[], int] = lambda: 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
    ) -> None:
        lengths = _token_lengths(segments, tokenize)
        self._epoch = epoch
        self._batches = LengthBuckets(lengths, batch_size, seed=seed, rank=rank, world=world) if shuffle else None
        self._state: dict[str, int] = {"epoch": 0, "batch": 0}
        self._restored: dict[str, int] | None = None
        # Its own generator: the default one would draw from the global state at the start of every iteration.
        generator = torch.Generator().manual_seed(seed)
        batches = self._batches or _sorted_batches(lengths, batch_size, rank, world)
        super().__init__(
            _Positions(len(segments)),
            batch_sampler=batches,
            collate_fn=_Collate(segments, tokenize),
            generator=generator,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def __iter__(self) -> Any:
        epoch, start = self._epoch(), 0
        if self._restored is not None and self._restored["epoch"] == epoch and self._restored["batch"] < len(self):
            start = self._restored["batch"]
        self._restored = None
        if self._batches is not None:
            self._batches.epoch, self._batches.start = epoch, start
        self._state = {"epoch": epoch, "batch": start}
        for batch in super().__iter__():
            self._state["batch"] += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Epoch, and number of its batches that have been handed out."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a saved place when the next iteration starts, if it is of the same epoch."""
        self._restored = dict(state)


class _Positions(Dataset[int]):
    """The positions 0 … n − 1; the texts are fetched by the collation, a batch at a time."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int) -> int:
        return position


class _Collate:
    """Positions of segments to a batch."""

    def __init__(self, segments: Sequence[Segment], tokenize: Tokenize) -> None:
        self.segments, self.tokenize = segments, tokenize

    def __call__(self, positions: list[int]) -> RatingBatch:
        segments = [self.segments[position] for position in positions]
        owners = [row for row, segment in enumerate(segments) for _ in segment.references]
        return RatingBatch(
            hypotheses=self.tokenize([segments[row].hypothesis for row in owners]),
            references=self.tokenize([text for segment in segments for text in segment.references]),
            owners=torch.tensor(owners),
            ratings=torch.tensor([_rating(segment) for segment in segments], dtype=torch.float64),
            positions=torch.tensor(positions),
        )


def _rating(segment: Segment) -> float:
    if segment.score is None:
        raise InputError(
            f"Expected rated segments, but {segment.hypothesis[:60]!r} has no score: name the score column."
        )
    return segment.score


def _token_lengths(segments: Sequence[Segment], tokenize: Tokenize) -> list[int]:
    """Tokens that each segment costs: the longer of its hypothesis and its longest reference."""
    texts = list(dict.fromkeys(text for one in segments for text in (one.hypothesis, *one.references)))
    lengths: dict[str, int] = {}
    for start in range(0, len(texts), LENGTH_CHUNK):
        chunk = texts[start : start + LENGTH_CHUNK]
        lengths.update(zip(chunk, tokenize(chunk).lengths.tolist(), strict=True))
    return [max(lengths[text] for text in (one.hypothesis, *one.references)) for one in segments]


def _sorted_batches(lengths: Sequence[int], batch_size: int, rank: int, world: int) -> Any:
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])[rank::world]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
