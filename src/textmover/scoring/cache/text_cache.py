"""Cache of computed texts in memory, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from textmover.modules.devices import new_lock, renew_in_child

Key = TypeVar("Key", bound=Hashable)
Chunk = TypeVar("Chunk", bound=Any)
"""Texts that were computed together, without padding: an object with a length, ``nbytes`` and ``select(rows)``."""


class TextCache(Generic[Key, Chunk]):
    """Chunks of texts, forgotten whole, the longest unused first; without ``evict`` a full cache takes in no more."""

    def __init__(self, limit: int, *, evict: bool = True) -> None:
        self.limit, self.evict = limit, evict
        self.nbytes = 0  # memory held, in bytes
        self._chunks: OrderedDict[int, tuple[Chunk, list[Key]]] = OrderedDict()
        self._places: dict[Key, tuple[int, int]] = {}
        self._next = 0
        self._lock = new_lock()
        renew_in_child(self)

    def __getstate__(self) -> dict[str, object]:
        """Copies start empty: what was kept is large, and quickly made again."""
        return {**self.__dict__, "nbytes": 0, "_chunks": OrderedDict(), "_places": {}, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=new_lock())
        renew_in_child(self)

    def forked(self) -> None:
        """Start empty in a forked child: another thread may have been keeping something."""
        self.clear()

    def __len__(self) -> int:
        """Number of texts that are kept."""
        return len(self._places)

    def clear(self) -> None:
        """Forget everything; any thread may, while another one keeps or looks something up."""
        with self._lock:
            self._chunks.clear()
            self._places.clear()
            self.nbytes = 0

    def find(self, texts: Iterable[Key]) -> list[tuple[list[Key], Chunk]]:
        """Those of the texts that are kept: their keys and what is kept of them, chunk by chunk."""
        with self._lock:
            wanted: dict[int, list[tuple[Key, int]]] = {}
            for text in texts:
                place = self._places.get(text)
                if place is not None:
                    wanted.setdefault(place[0], []).append((text, place[1]))
            found = []
            for number, rows in wanted.items():
                self._chunks.move_to_end(number)
                chunk = self._chunks[number][0]
                whole = len(rows) == len(chunk)
                rows = sorted(rows, key=lambda one: one[1]) if whole else rows
                found.append(([text for text, _ in rows], chunk if whole else chunk.select([row for _, row in rows])))
            return found

    def keep(self, texts: Sequence[Key], chunk: Chunk) -> None:
        """Keep a chunk, unless it alone is over the limit, or nothing may make room for it."""
        with self._lock:
            if chunk.nbytes + (0 if self.evict else self.nbytes) > self.limit:
                return
            self._chunks[self._next] = (chunk, list(texts))
            self._places.update({text: (self._next, row) for row, text in enumerate(texts)})
            self._next += 1
            self.nbytes += chunk.nbytes
            while self.nbytes > self.limit:
                number, (oldest, names) = self._chunks.popitem(last=False)
                self.nbytes -= oldest.nbytes
                for name in names:
                    # Kept twice, it is where it was kept last, or nowhere if that is gone already.
                    if self._places.get(name, (None, 0))[0] == number:
                        del self._places[name]
