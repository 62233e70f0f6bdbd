"""Batches of texts and of pairs by similar length, and rows that pack several short texts."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from textmover.scoring.engine.threads import map_in_threads
from textmover.types import RowRunner, TokenBatch

CHUNK = 1024  # maximum number of texts tokenised at a time
CHUNK_CHARACTERS = 1 << 19  # maximum number of characters of such a chunk when padded to its longest text

FEW = 16
"""Number of texts that form a single batch if there are no more; other remainders are split into powers of two."""

BLOCK = 1 << 20  # maximum number of entries of a similarity block


def token_batches(
    tokenize: Callable[[Sequence[str]], TokenBatch], texts: Sequence[str], budget: Callable[[], int]
) -> Generator[tuple[list[int], TokenBatch], None, None]:
    """Yield texts in batches of similar length, tokenised in chunks. Batches depend on texts and budget only."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    left_rows: list[int] = []
    left_tokens: TokenBatch | None = None
    while order:
        # Number of characters is a good enough estimate of length to choose chunks.
        size = min(CHUNK, max(1, CHUNK_CHARACTERS // max(1, len(texts[order[0]]))))
        chunk, order = order[:size], order[size:]
        tokens = tokenize([texts[row] for row in chunk])
        rows = left_rows + chunk
        tokens = tokens if left_tokens is None else TokenBatch.concatenate([left_tokens, tokens])
        lengths = tokens.lengths.tolist()
        ranked = sorted(range(len(rows)), key=lambda place: -lengths[place])
        start = 0
        while start < len(ranked):
            count = max(1, budget() // max(1, lengths[ranked[start]]))
            if start + count > len(ranked) and order:
                break  # the next chunk fills this batch
            remaining = len(ranked) - start
            if remaining < count and (start or remaining > FEW):
                # oneDNN keeps about a megabyte per distinct batch size: powers of two limit their number.
                count = 1 << remaining.bit_length() - 1
            places = ranked[start : start + count]
            yield [rows[place] for place in places], tokens.select(places)
            start += count
        left = ranked[start:]
        left_rows, left_tokens = [rows[place] for place in left], tokens.select(left) if left else None


def pair_batches(lengths: np.ndarray, tokens: int, block: int = BLOCK) -> Iterator[list[int]]:
    """Yield rows of pairs in batches of similar shape, largest first, limited in tokens and similarity entries."""
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


TEXTS = 1024  # texts that are tokenised and packed into rows together
CHUNK_BYTES = 1 << 26  # maximum memory for the hidden states of a group, if all texts are sentences of average length
SENTENCE = 32  # tokens of such a sentence

FULL = 0.8
"""Minimum share of tokens in a row; below it, batches of similar length are faster."""

Result = TypeVar("Result")


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Pack texts into rows, longest first, each into the fullest row with enough space."""
    rows: list[list[int]] = []
    free: list[tuple[int, int]] = []  # (free tokens, row index), sorted
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        index = bisect.bisect_left(free, (lengths[place], -1))
        if index == len(free):
            space, row = capacity, len(rows)
            rows.append([])
        else:
            space, row = free.pop(index)
        rows[row].append(place)
        bisect.insort(free, (space - lengths[place], row))
    return rows


class TextRows:
    """Texts, int64 ``[N, L]``, packed into rows; a :class:`~textmover.types.RowRunner` encodes the rows."""

    def __init__(self, runner: RowRunner, ids: np.ndarray, lengths: np.ndarray, rows: Sequence[Sequence[int]]) -> None:
        count, length = runner.row_shape
        self.runner, self.batches = runner, -(-len(rows) // count)
        self.starts = np.full(len(ids), -1)
        """Start of each text in the flattened tokens of all rows, int64 ``[N]``; -1 for texts in no row."""
        self.tokens = np.zeros((3, self.batches * count, length), dtype=np.int64)
        """Token id, position and number of the text in its row, for each token, int64 ``[3, R, C]``."""
        self._states: list[np.ndarray] = []
        for row, places in enumerate(rows):
            start = 0
            for number, place in enumerate(places, 1):
                size = int(lengths[place])
                self.tokens[0, row, start : start + size] = ids[place, :size]
                self.tokens[1, row, start : start + size] = np.arange(size)
                self.tokens[2, row, start : start + size] = number
                self.starts[place] = row * length + start
                start += size

    def open(self) -> None:
        """Allocate memory for the back-end's output."""
        # NumPy asks for huge pages, which avoids thousands of page faults.
        self._states = [np.empty((*self.tokens.shape[1:], size), dtype=np.float32) for size in self.runner.state_sizes]

    def fill(self, number: int) -> None:
        """Compute the hidden states of a batch of rows; threads may fill different batches concurrently."""
        count = self.runner.row_shape[0]
        rows = slice(number * count, (number + 1) * count)
        ids, positions, texts = self.tokens[:, rows]
        self.runner.rows(ids, positions, texts, [array[rows] for array in self._states])

    def states(self, starts: np.ndarray, lengths: np.ndarray, width: int) -> tuple[Tensor, ...]:
        """Return hidden states ``[N, width, D]`` of each wanted layer; values at padding are undefined."""
        across = np.minimum(np.arange(width), lengths[:, None] - 1)
        index = torch.from_numpy((starts[:, None] + across).ravel())
        flat = (torch.from_numpy(one).flatten(0, 1) for one in self._states)
        return tuple(layer.index_select(0, index).view(len(starts), width, -1) for layer in flat)


def states_in_rows(
    runner: RowRunner, ids: np.ndarray, lengths: np.ndarray, rows: Sequence[Sequence[int]]
) -> tuple[Tensor, ...]:
    """Return hidden states ``[N, L, D]`` of each wanted layer, computed in rows; values at padding are undefined."""
    text_rows = TextRows(runner, ids, lengths, rows)
    text_rows.open()
    for number in range(text_rows.batches):
        text_rows.fill(number)
    return text_rows.states(text_rows.starts, lengths, ids.shape[1])


class RowGroup:
    """Texts whose hidden states are computed in rows and then regrouped into batches of similar length."""

    def __init__(self, names: list[int], tokens: TokenBatch, rows: TextRows, waiting: Sequence[int]) -> None:
        chosen = np.setdiff1d(np.arange(len(names)), waiting)
        self.names, self.rows, self.starts = [names[place] for place in chosen], rows, rows.starts[chosen]
        self.tokens = tokens.select(chosen.tolist()) if len(waiting) else tokens
        self._missing = rows.batches

    def filled(self) -> bool:
        """Count one more batch as filled; return whether it was the last."""
        self._missing -= 1
        return not self._missing

    def alike(self, budget: int) -> Iterator[np.ndarray]:
        """Yield indices of texts in batches of similar length within a budget; texts in no row come last."""
        lengths = self.tokens.lengths.numpy()
        for in_rows in (True, False):
            places = np.flatnonzero((self.starts >= 0) == in_rows)
            order = places[np.argsort(-lengths[places], kind="stable")]
            while len(order):
                count = max(1, budget // max(1, int(lengths[order[0]])))
                yield order[:count]
                order = order[count:]

    def batch(self, places: np.ndarray) -> tuple[list[int], TokenBatch]:
        """Return indices and tokens of the texts at ``places``, with hidden states if they were computed in rows."""
        tokens, starts = self.tokens.select(places.tolist()), self.starts[places]
        if starts[0] >= 0:
            states = self.rows.states(starts, tokens.lengths.numpy(), tokens.mask.shape[1])
            tokens = replace(tokens, states=states)
        return [self.names[place] for place in places], tokens


def row_groups(
    tokenize: Callable[[Sequence[str]], TokenBatch], texts: Sequence[str], runner: RowRunner
) -> Generator[RowGroup, None, None]:
    """Yield groups of texts whose rows fill whole batches; long texts and leftovers of the last group are in no row."""
    count, length = runner.row_shape
    size = max(1, min(TEXTS, CHUNK_BYTES // (4 * SENTENCE * sum(runner.state_sizes))))
    # Take texts at regular strides, so that a group mixes lengths even if the input is sorted.
    stride = max(1, len(texts) // size)
    order = [row for first in range(stride) for row in range(first, len(texts), stride)]
    names: list[int] = []
    left: TokenBatch | None = None
    # The first group is small, so that the first rows are ready early.
    start, stop = 0, max(1, size // 4)
    while start < len(order):
        chunk = order[start:stop]
        start, stop = stop, stop + size
        tokens = tokenize([texts[row] for row in chunk])
        names, tokens = names + chunk, tokens if left is None else TokenBatch.concatenate([left, tokens])
        lengths = tokens.lengths.numpy()
        short = np.flatnonzero(lengths <= length)
        rows = [short[row].tolist() for row in best_fit(lengths[short].tolist(), length)]
        sparse = [row for row in rows if lengths[row].sum() < FULL * length]
        rows = [row for row in rows if lengths[row].sum() >= FULL * length]
        full = len(rows) // count * count
        # A few sparse rows wait for texts of the next group; if there are many, the lengths do not fit rows.
        left_rows = rows[full:] + (sparse if len(sparse) <= count else [])
        waiting = [] if start >= len(order) else [place for row in left_rows for place in row]
        yield RowGroup(names, tokens, TextRows(runner, tokens.input_ids.numpy(), lengths, rows[:full]), waiting)
        names, left = [names[place] for place in waiting], tokens.select(waiting) if waiting else None


def encoded_in_rows(
    groups: Iterable[RowGroup], use: Callable[[tuple[list[int], TokenBatch]], Result], budget: int, workers: int
) -> Iterator[Result]:
    """Yield the result of each text; the states of a group are computed while those of the previous one are used."""
    ready: deque[tuple[RowGroup, np.ndarray]] = deque()

    def jobs() -> Iterator[tuple[RowGroup, int | np.ndarray]]:
        for group in groups:
            group.rows.open()
            for number in range(group.rows.batches):
                yield group, number
                if ready:  # one at a time: the back-end computes meanwhile
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
        yield from map_in_threads(work, jobs(), workers)
        yield from map_in_threads(work, list(ready), workers)  # results of the last group

    for item in done():
        if not isinstance(item, RowGroup):
            yield item
        elif item.filled():
            ready.extend((item, places) for places in item.alike(budget))
