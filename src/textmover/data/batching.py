"""Batches of items of similar length from one or several sources, in an order that supports resuming mid-epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from textmover.data.training_sources import Source, Tokenize

POOL = 32  # batches whose items are sorted by length together


class LengthBuckets:
    """Batches of items of similar length. Their order depends only on seed and epoch.

    The items are shuffled, cut into pools of :data:`POOL` batches, sorted by length within each pool and cut into
    batches, which are shuffled. With groups, each batch holds items of one group only.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, *, seed: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size, self.seed = batch_size, seed
        labels = np.zeros(len(lengths), dtype=np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
        self._members = [np.flatnonzero(labels == label) for label in range(int(labels.max(initial=0)) + 1)]

    def __len__(self) -> int:
        return sum(-(-len(members) // self.batch_size) for members in self._members)

    def batches(self, epoch: int) -> list[list[int]]:
        """Return all batches of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        batches = [batch for members in self._members for batch in self._cut(members, rng)]
        return [batches[index] for index in rng.permutation(len(batches))]

    def _cut(self, members: np.ndarray[Any, Any], rng: np.random.Generator) -> list[list[int]]:
        order = members[rng.permutation(len(members))]
        size = POOL * self.batch_size
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        ordered = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in [*pools, order[:0]]])
        return [ordered[at : at + self.batch_size].tolist() for at in range(0, len(ordered), self.batch_size)]


Key = tuple[int, list[int], int]  # of a batch: index of its source, positions of the items, size over all processes


class MixedBatches(Sampler[list[Key]]):
    """Batches of several sources, one source per batch. Their order depends only on seed and epoch.

    An epoch takes ``counts`` batches of the sources, spread at random. A source with more batches continues in the next
    epoch where it stopped; a source with fewer batches is repeated. Each of several processes takes every ``world``-th
    item of a batch; batches with fewer items than processes are skipped.

    Iteration yields the key of each batch of this process.
    """

    def __init__(
        self, buckets: Sequence[LengthBuckets], counts: Sequence[int], *, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.buckets, self.counts, self.seed = list(buckets), list(counts), seed
        self.rank, self.world = rank, world
        self.epoch = self.start = 0  # epoch of the next iteration, and its first batch
        self._made: tuple[int, list[tuple[int, list[int]]]] | None = None

    def __len__(self) -> int:
        return len(self.batches(self.epoch))

    def __iter__(self) -> Iterator[list[Key]]:
        for source, batch in self.batches(self.epoch)[self.start :]:
            yield [(source, batch[self.rank :: self.world], len(batch))]

    def batches(self, epoch: int) -> list[tuple[int, list[int]]]:
        """Return the batches of an epoch: source index and item positions of all processes."""
        if self._made is None or self._made[0] != epoch:
            self._made = (epoch, [batch for batch in self._order(epoch) if len(batch[1]) >= self.world])
        return self._made[1]

    def _order(self, epoch: int) -> list[tuple[int, list[int]]]:
        batches_of = [self._taken(source, epoch) for source in range(len(self.buckets))]
        turns = np.repeat(np.arange(len(batches_of)), [len(source_batches) for source_batches in batches_of])
        np.random.default_rng((self.seed, epoch, len(batches_of))).shuffle(turns)
        iterators = [iter(source_batches) for source_batches in batches_of]
        return [(turn, next(iterators[turn])) for turn in turns.tolist()]

    def _taken(self, place: int, epoch: int) -> list[list[int]]:
        buckets, count = self.buckets[place], self.counts[place]
        size, result = len(buckets), list[list[int]]()
        first = epoch * count
        for source_epoch in range(first // size, -(-(first + count) // size)):
            start = source_epoch * size
            result += buckets.batches(source_epoch)[max(0, first - start) : first + count - start]
        return result


class _Collated(Dataset[Any]):
    """Data set of the batches of one or several sources, by key."""

    def __init__(self, items: Sequence[tuple[Source[Any], Sequence[Any]]], tokenize: Tokenize) -> None:
        self.items, self.tokenize = items, tokenize

    def __getitem__(self, key: Key) -> Any:
        place, positions, joint = key
        source, items = self.items[place]
        return source.collate([items[position] for position in positions], positions, joint, self.tokenize)


class TrainingLoader(DataLoader[Any]):
    """Loader of training batches whose position Lightning saves in checkpoints and restores mid-epoch.

    ``mix`` maps the available batches of each source to its batches per epoch.
    """

    def __init__(
        self,
        sources: Sequence[Source[Any]],
        tokenize: Tokenize,
        *,
        mix: Callable[[Sequence[int]], Sequence[int]] = list,
        seed: int = 0,
        epoch: Callable[[], int] = lambda: 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
    ) -> None:
        buckets = [
            LengthBuckets(item.lengths(item.items, tokenize), item.batch_size, seed=seed, groups=item.batch_groups)
            for item in sources
        ]
        counts = mix([len(bucket) for bucket in buckets])
        self._epoch = epoch
        self._batches = MixedBatches(buckets, counts, seed=seed, rank=rank, world=world)
        self._state: dict[str, int] = {"epoch": 0, "batch": 0}
        self._restored: dict[str, int] | None = None
        super().__init__(
            _Collated([(source, source.items) for source in sources], tokenize),
            batch_sampler=self._batches,
            collate_fn=itemgetter(0),
            # A separate generator: the default one would draw from the global state at the start of every iteration.
            generator=torch.Generator().manual_seed(seed),
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def __iter__(self) -> Any:
        epoch = self._batches.epoch = self._epoch()
        state, self._restored = self._restored, None
        if state is None or state["epoch"] != epoch or state["batch"] >= len(self):
            state = {"epoch": epoch, "batch": 0}
        self._state, self._batches.start = state, state["batch"]
        for batch in super().__iter__():
            self._state["batch"] += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of its batches that were yielded."""
        return dict(self._restored or self._state)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore a saved position for the next iteration, if that is of the same epoch."""
        self._restored = dict(state)


class PartLoader(DataLoader[Any]):
    """Loader of an evaluation part, sorted by decreasing length.

    Each process takes every ``world``-th batch. A process without a batch repeats one; item positions identify repeats.
    """

    def __init__(self, source: Source[Any], part: str, tokenize: Tokenize, *, rank: int = 0, world: int = 1) -> None:
        items = source.parts[part]
        lengths = source.lengths(items, tokenize)
        order = sorted(range(len(items)), key=lambda position: -lengths[position])
        size = source.validation_batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        # A process without a batch would skip validation while the others wait for its results.
        own = batches[rank::world] or batches[rank % max(1, len(batches)) :][:1]
        super().__init__(
            _Collated([(source, items)], tokenize),
            batch_sampler=[[(0, positions, len(positions))] for positions in own],
            collate_fn=itemgetter(0),
            generator=torch.Generator().manual_seed(0),
        )
