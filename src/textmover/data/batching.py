"""Batches of items of like length, from one source or several, in an order that a resumed run can take up anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from textmover.data.mixture_sources import Source, Tokenize
from textmover.types import InputError


class LengthBuckets:
    """Batches of items of like length, in an order that follows from seed and epoch alone.

    The items are shuffled, cut into pools of ``pool`` batches, sorted by length within each pool, cut into batches,
    and the batches shuffled. Where items have groups, those of one group meet only each other.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        *,
        seed: int = 0,
        pool: int = 32,
        groups: Sequence[str] | None = None,
    ) -> None:
        if batch_size < 1 or pool < 1:
            raise InputError(f"Expected `batch_size` and `pool` to be at least 1, but got {batch_size} and {pool}.")
        self.lengths = np.asarray(lengths)
        self.batch_size, self.seed, self.pool = batch_size, seed, pool
        labels = np.zeros(len(lengths), dtype=np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
        self._members = [np.flatnonzero(labels == label) for label in range(int(labels.max(initial=0)) + 1)]

    def __len__(self) -> int:
        return sum(-(-len(members) // self.batch_size) for members in self._members)

    def batches(self, epoch: int) -> list[list[int]]:
        """All batches of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        batches = [batch for members in self._members for batch in self._cut(members, rng)]
        return [batches[place] for place in rng.permutation(len(batches))]

    def _cut(self, members: np.ndarray[Any, Any], rng: np.random.Generator) -> list[list[int]]:
        order = members[rng.permutation(len(members))]
        size = self.pool * self.batch_size
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        ordered = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in [*pools, order[:0]]])
        return [ordered[at : at + self.batch_size].tolist() for at in range(0, len(ordered), self.batch_size)]


class MixedBatches(Sampler[list[tuple[int, int, int]]]):
    """Batches of several sources in one order that follows from seed and epoch alone, each batch of one source.

    An epoch takes ``counts`` batches of the sources, spread at random. A source whose own epoch is longer goes on where
    it stopped in the next one; a shorter one is gone through several times. Each of several processes takes every
    ``world``-th item of every batch; a batch with fewer items than processes is left out.

    An iteration gives this process's items, each as its source, its position there, and the size of the whole batch.
    """

    def __init__(
        self, buckets: Sequence[LengthBuckets], counts: Sequence[int], *, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.buckets, self.counts, self.seed = list(buckets), list(counts), seed
        self.rank, self.world = rank, world
        self.epoch = self.start = 0  # that the next iteration runs, and the batch that it starts from
        self._made: tuple[int, list[tuple[int, list[int]]]] | None = None

    def __len__(self) -> int:
        return len(self.batches(self.epoch))

    def __iter__(self) -> Iterator[list[tuple[int, int, int]]]:
        for source, batch in self.batches(self.epoch)[self.start :]:
            yield [(source, position, len(batch)) for position in batch[self.rank :: self.world]]

    def batches(self, epoch: int) -> list[tuple[int, list[int]]]:
        """The batches of an epoch: the source of each, and the positions of the items of all processes."""
        if self._made is None or self._made[0] != epoch:
            self._made = (epoch, [one for one in self._order(epoch) if len(one[1]) >= self.world])
        return self._made[1]

    def _order(self, epoch: int) -> list[tuple[int, list[int]]]:
        taken = [self._taken(place, epoch) for place in range(len(self.buckets))]
        turns = np.repeat(np.arange(len(taken)), [len(one) for one in taken])
        np.random.default_rng((self.seed, epoch, len(taken))).shuffle(turns)
        following = [iter(one) for one in taken]
        return [(turn, next(following[turn])) for turn in turns.tolist()]

    def _taken(self, place: int, epoch: int) -> list[list[int]]:
        buckets, count = self.buckets[place], self.counts[place]
        own, found = len(buckets), list[list[int]]()
        first = epoch * count
        for number in range(first // own, -(-(first + count) // own)):
            start = number * own
            found += buckets.batches(number)[max(0, first - start) : first + count - start]
        return found


class TrainingLoader(DataLoader[Any]):
    """Loader of training batches whose place Lightning keeps in its checkpoints and takes up again in mid-epoch.

    ``mix`` gives the batches of each source to an epoch from those that it has.
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
            LengthBuckets(one.lengths(one.items, tokenize), one.batch_size, seed=seed, groups=one.batch_groups)
            for one in sources
        ]
        counts = mix([len(one) for one in buckets])
        self._epoch = epoch
        self._batches = MixedBatches(buckets, counts, seed=seed, rank=rank, world=world)
        self._state: dict[str, int] = {"epoch": 0, "batch": 0}
        self._restored: dict[str, int] | None = None
        items = _Items(sources, tokenize)
        super().__init__(
            items,
            batch_sampler=self._batches,
            collate_fn=items,
            # Its own generator: the default one would draw from the global state at the start of every iteration.
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
        """Epoch, and number of its batches that have been handed out."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a saved place when the next iteration starts, if it is of the same epoch."""
        self._restored = dict(state)


class PartLoader(DataLoader[Any]):
    """Loader of a part that was kept from training, sorted by length, the longest first.

    Each process takes every ``world``-th batch; one for which none is left repeats another's, as its positions tell.
    """

    def __init__(self, source: Source[Any], part: str, tokenize: Tokenize, *, rank: int = 0, world: int = 1) -> None:
        items = source.parts[part]
        lengths = source.lengths(items, tokenize)
        order = sorted(range(len(items)), key=lambda position: -lengths[position])
        size = source.validation_batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        # A process without a batch would skip validation, for whose results the others wait.
        own = batches[rank::world] or batches[rank % max(1, len(batches)) :][:1]
        super().__init__(
            range(len(items)),  # type: ignore[arg-type]  # indexed, as a data set is
            batch_sampler=own,
            collate_fn=lambda places: source.collate([items[at] for at in places], places, len(places), tokenize),
            generator=torch.Generator().manual_seed(0),
        )


class _Items(Dataset[Any]):
    """Items as :class:`MixedBatches` names them; a call makes those of one source a batch."""

    def __init__(self, sources: Sequence[Source[Any]], tokenize: Tokenize) -> None:
        self.sources, self.tokenize = sources, tokenize

    def __len__(self) -> int:
        return sum(len(one.items) for one in self.sources)

    def __getitem__(self, named: tuple[int, int, int]) -> tuple[int, int, int]:
        return named

    def __call__(self, named: list[tuple[int, int, int]]) -> Any:
        place, _, joint = named[0]
        source, positions = self.sources[place], [position for _, position, _ in named]
        return source.collate([source.items[at] for at in positions], positions, joint, self.tokenize)
