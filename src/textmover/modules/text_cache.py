"""What was computed of texts, kept between calls and bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textmover.types import PackedFeatures

__all__ = ["TextCache", "TextChunk"]


@dataclass(frozen=True, eq=False)
class TextChunk:
    """Texts that were encoded together.

    Attributes:
        features: What the metric keeps of them.
        lengths: Tokens of each, int64 ``[N]``.
        truncated: Whether each was cut, bool ``[N]``.
    """

    features: PackedFeatures
    lengths: np.ndarray
    truncated: np.ndarray

    def select(self, rows: Sequence[int]) -> TextChunk:
        """The texts of the given rows."""
        return TextChunk(self.features.select(rows), self.lengths[rows], self.truncated[rows])

    @classmethod
    def join(cls, chunks: Sequence[TextChunk]) -> TextChunk:
        """The texts of several chunks as one."""
        return cls(
            type(chunks[0].features).join([one.features for one in chunks]),
            np.concatenate([one.lengths for one in chunks]),
            np.concatenate([one.truncated for one in chunks]),
        )


class TextCache:
    """Chunks of texts, of which the longest unused are forgotten first.

    Texts that were encoded together are kept and forgotten together, so that nothing is copied to keep them.

    Args:
        limit: Bytes that they may take; 0 keeps nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._chunks: OrderedDict[int, tuple[TextChunk, list[str]]] = OrderedDict()
        self._places: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        self._next = 0

    def __len__(self) -> int:
        """Number of texts that are kept."""
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._bytes

    def clear(self) -> None:
        """Forget everything."""
        self._chunks.clear()
        self._places.clear()
        self._bytes = 0

    def find(self, texts: Sequence[str]) -> list[tuple[list[str], TextChunk]]:
        """Those of the texts that are kept: their names and what is kept of them, chunk by chunk."""
        wanted: dict[int, list[tuple[str, int]]] = {}
        for text in texts:
            place = self._places.get(text)
            if place is not None:
                wanted.setdefault(place[0], []).append((text, place[1]))
        found = []
        for number, rows in wanted.items():
            self._chunks.move_to_end(number)
            chunk = self._chunks[number][0]
            whole = len(rows) == len(chunk.lengths)
            rows = sorted(rows, key=lambda one: one[1]) if whole else rows
            found.append(([text for text, _ in rows], chunk if whole else chunk.select([row for _, row in rows])))
        return found

    def keep(self, texts: Sequence[str], chunk: TextChunk) -> None:
        """Keep a chunk, unless it alone is over the limit."""
        size = chunk.features.nbytes
        if size > self.limit:
            return
        self._chunks[self._next] = (chunk, list(texts))
        self._places.update({text: (self._next, row) for row, text in enumerate(texts)})
        self._next += 1
        self._bytes += size
        while self._bytes > self.limit:
            number, (oldest, names) = self._chunks.popitem(last=False)
            self._bytes -= oldest.features.nbytes
            for name in names:
                if self._places[name][0] == number:
                    del self._places[name]
