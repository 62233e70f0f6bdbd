"""Batches of texts to encode, of like length or in rows of several short texts, and of pairs to match."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from textmover.scoring.engine.threads import spread
from textmover.types import RowRunner, TokenBatch

CHUNK = 1024  # texts that are tokenised at a time, at most
CHUNK_CHARACTERS = 1 << 19  # characters that they may have, if padded to the longest

FEW = 16
"""Texts that are encoded together where there are no more; what is left over of more is split into powers of two."""

BLOCK = 1 << 20  # largest number of entries of a similarity block


def token_batches(
    tokenize: Callable[[Sequence[str]], TokenBatch], texts: Sequence[str], budget: Callable[[], int]
) -> Generator[tuple[list[int], TokenBatch], None, None]:
    """Texts in batches of like length, tokenised in chunks as needed; which come together depends on them alone."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    rest: list[int] = []
    left: TokenBatch | None = None
    while order:
        # Characters tell lengths well enough to decide which texts are tokenised together.
        size = min(CHUNK, max(1, CHUNK_CHARACTERS // max(1, len(texts[order[0]]))))
        chunk, order = order[:size], order[size:]
        tokens = tokenize([texts[row] for row in chunk])
        rows = rest + chunk
        tokens = tokens if left is None else TokenBatch.concatenate([left, tokens])
        lengths = tokens.lengths.tolist()
        ranked = sorted(range(len(rows)), key=lambda place: -lengths[place])
        start = 0
        while start < len(ranked):
            taken = max(1, budget() // max(1, lengths[ranked[start]]))
            if start + taken > len(ranked) and order:
                break  # the next chunk fills this batch
            left_over = len(ranked) - start
            if left_over < taken and (start or left_over > FEW):
                # oneDNN keeps about a megabyte for each new number of rows: these come again and again.
                taken = 1 << left_over.bit_length() - 1
            places = ranked[start : start + taken]
            yield [rows[place] for place in places], tokens.select(places)
            start += taken
        waiting = ranked[start:]
        rest, left = [rows[place] for place in waiting], tokens.select(waiting) if waiting else None


def pair_batches(lengths: np.ndarray, tokens: int, block: int = BLOCK) -> Iterator[list[int]]:
    """Pairs in batches of like shape, the largest first, within the size of a similarity block."""
    order = np.lexsort((lengths[:, 0], lengths[:, 1]))[::-1]
    batch: list[int] = []
    width = height = 0
    for row in order.tolist():
        new_width, new_height = max(width, int(lengths[row, 0])), max(height, int(lengths[row, 1]))
        size = len(batch) + 1
        if batch and (size * new_width * new_height > block or size * (new_width + new_height) > tokens):
            yield batch
            batch, new_width, new_height = [], int(lengths[row, 0]), int(lengths[row, 1])
        batch.append(row)
        width, height = new_width, new_height
    if batch:
        yield batch


TEXTS = 1024  # texts that are tokenised at a time, and fill rows together
CHUNK_BYTES = 1 << 26  # memory that their hidden states may take, were all of them sentences of everyday length
SENTENCE = 32  # tokens of such a sentence

FULL = 0.8
"""Share of a row that must hold tokens: batches of like length are the faster ones for texts that fill it worse."""

Result = TypeVar("Result")


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Texts in rows, each in the fullest row that has room, the longest texts first."""
    rows: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # what is left of each row, and its number, in order
    for place in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        found = bisect.bisect_left(rooms, (lengths[place], -1))
        if found == len(rooms):
            room, row = capacity, len(rows)
            rows.append([])
        else:
            room, row = rooms.pop(found)
        rows[row].append(place)
        bisect.insort(rooms, (room - lengths[place], row))
    return rows


class TextRows:
    """Texts, int64 ``[N, L]``, side by side in rows; a :class:`~textmover.types.RowRunner` reads a batch at a time."""

    def __init__(self, runner: RowRunner, ids: np.ndarray, lengths: np.ndarray, rows: Sequence[Sequence[int]]) -> None:
        count, length = runner.row_shape
        self.runner, self.batches = runner, -(-len(rows) // count)
        self.starts = np.full(len(ids), -1)
        """Beginning of each text among the tokens of all rows, int64 ``[N]``; -1 for texts in no row."""
        self.held = np.zeros((3, self.batches * count, length), dtype=np.int64)
        """Id, position and text in the row of each token, int64 ``[3, R, C]``."""
        self._states: list[np.ndarray] = []
        for row, places in enumerate(rows):
            start = 0
            for number, place in enumerate(places, 1):
                size = int(lengths[place])
                self.held[0, row, start : start + size] = ids[place, :size]
                self.held[1, row, start : start + size] = np.arange(size)
                self.held[2, row, start : start + size] = number
                self.starts[place] = row * length + start
                start += size

    def open(self) -> None:
        """Make room for what the back-end will write."""
        # NumPy asks for large pages, which spares the system thousands of small ones.
        self._states = [np.empty((*self.held.shape[1:], size), dtype=np.float32) for size in self.runner.state_sizes]

    def fill(self, number: int) -> None:
        """Make the states of a batch of rows; several threads may, each for another one."""
        count = self.runner.row_shape[0]
        rows = slice(number * count, (number + 1) * count)
        ids, positions, texts = self.held[:, rows]
        self.runner.rows(ids, positions, texts, [one[rows] for one in self._states])

    def states(self, starts: np.ndarray, lengths: np.ndarray, width: int) -> tuple[Tensor, ...]:
        """Hidden states of texts ``[N, width, D]`` of each wanted layer; what is padded means nothing."""
        across = np.minimum(np.arange(width), lengths[:, None] - 1)
        index = torch.from_numpy((starts[:, None] + across).ravel())
        flat = (torch.from_numpy(one).flatten(0, 1) for one in self._states)
        return tuple(one.index_select(0, index).view(len(starts), width, -1) for one in flat)


def states_in_rows(
    runner: RowRunner, ids: np.ndarray, lengths: np.ndarray, rows: Sequence[Sequence[int]]
) -> tuple[Tensor, ...]:
    """Hidden states of texts ``[N, L, D]`` of each wanted layer, made in rows; what is padded means nothing."""
    found = TextRows(runner, ids, lengths, rows)
    found.open()
    for number in range(found.batches):
        found.fill(number)
    return found.states(found.starts, lengths, ids.shape[1])


class RowGroup:
    """Texts whose hidden states are made in rows, to be taken apart in batches of like length."""

    def __init__(self, names: list[int], tokens: TokenBatch, rows: TextRows, waiting: Sequence[int]) -> None:
        kept = np.setdiff1d(np.arange(len(names)), waiting)
        self.names, self.rows, self.starts = [names[place] for place in kept], rows, rows.starts[kept]
        self.tokens = tokens.select(kept.tolist()) if len(waiting) else tokens
        self._missing = rows.batches

    def filled(self) -> bool:
        """Note that one more batch is filled, and tell whether it was the last."""
        self._missing -= 1
        return not self._missing

    def alike(self, budget: int) -> Iterator[np.ndarray]:
        """Texts, by their place in the group, in batches of like length within a budget; those in no row alone."""
        lengths = self.tokens.lengths.numpy()
        for in_rows in (True, False):
            places = np.flatnonzero((self.starts >= 0) == in_rows)
            order = places[np.argsort(-lengths[places], kind="stable")]
            while len(order):
                count = max(1, budget // max(1, int(lengths[order[0]])))
                yield order[:count]
                order = order[count:]

    def batch(self, places: np.ndarray) -> tuple[list[int], TokenBatch]:
        """Numbers and tokens of some of the texts, with their hidden states where these were made in rows."""
        tokens, starts = self.tokens.select(places.tolist()), self.starts[places]
        if starts[0] >= 0:
            states = self.rows.states(starts, tokens.lengths.numpy(), tokens.mask.shape[1])
            tokens = replace(tokens, states=states)
        return [self.names[place] for place in places], tokens


def row_groups(
    tokenize: Callable[[Sequence[str]], TokenBatch], texts: Sequence[str], runner: RowRunner
) -> Generator[RowGroup, None, None]:
    """Texts in groups, tokenised as needed, whose rows make whole batches; long or left-over texts are in no row."""
    count, length = runner.row_shape
    size = max(1, min(TEXTS, CHUNK_BYTES // (4 * SENTENCE * sum(runner.state_sizes))))
    # Every so many, so that texts of all lengths come together in whatever order they are.
    stride = max(1, len(texts) // size)
    order = [row for first in range(stride) for row in range(first, len(texts), stride)]
    names: list[int] = []
    left: TokenBatch | None = None
    # A small group to begin with, so that nobody waits long for the first rows.
    start, stop = 0, max(1, size // 4)
    while start < len(order):
        chunk = order[start:stop]
        start, stop = stop, stop + size
        tokens = tokenize([texts[row] for row in chunk])
        names, tokens = names + chunk, tokens if left is None else TokenBatch.concatenate([left, tokens])
        lengths = tokens.lengths.numpy()
        short = np.flatnonzero(lengths <= length)
        rows = [short[row].tolist() for row in best_fit(lengths[short].tolist(), length)]
        poor = [row for row in rows if lengths[row].sum() < FULL * length]
        rows = [row for row in rows if lengths[row].sum() >= FULL * length]
        full = len(rows) // count * count
        # A few rows that are not full may be in company of the next texts; where there are many, lengths do not fit.
        further = rows[full:] + (poor if len(poor) <= count else [])
        waiting = [] if start >= len(order) else [place for row in further for place in row]
        yield RowGroup(names, tokens, TextRows(runner, tokens.input_ids.numpy(), lengths, rows[:full]), waiting)
        names, left = [names[place] for place in waiting], tokens.select(waiting) if waiting else None


def encoded_in_rows(
    groups: Iterable[RowGroup], use: Callable[[tuple[list[int], TokenBatch]], Result], budget: int, workers: int
) -> Iterator[Result]:
    """Yield the result of each text; the states of a group are made while those of the one before are used."""
    ready: deque[tuple[RowGroup, np.ndarray]] = deque()

    def jobs() -> Iterator[tuple[RowGroup, int | np.ndarray]]:
        for group in groups:
            group.rows.open()
            for number in range(group.rows.batches):
                yield group, number
                if ready:  # one at a time: while a thread is at it, the back-end has other work
                    yield ready.popleft()
            if not group.rows.batches:
                yield from ((group, places) for places in group.alike(budget))

    def work(job: tuple[RowGroup, int | np.ndarray]) -> RowGroup | Result:
        group, part = job
        if isinstance(part, np.ndarray):
            return use(group.batch(part))
        group.rows.fill(part)
        return group

    def done() -> Iterator[RowGroup | Result]:
        yield from spread(work, jobs(), workers)
        yield from spread(work, list(ready), workers)  # of the last group, which nothing comes after

    for found in done():
        if not isinstance(found, RowGroup):
            yield found
        elif found.filled():
            ready.extend((found, places) for places in found.alike(budget))
