"""In-memory cache of texts, limited in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from textmover.lazy import new_lock, reset_after_fork

Key = TypeVar("Key", bound=Hashable)
Chunk = TypeVar("Chunk", bound=Any)
"""Results of texts computed together, without padding; has a length, ``nbytes`` and ``select(rows)``."""


class TextCache(Generic[Key, Chunk]):
    """LRU cache of chunks of texts, evicted whole; without ``evict`` a full cache rejects new chunks."""

    def __init__(self, limit: int, evict: bool = True) -> None:
        self.limit, self.evict = limit, evict
        self.nbytes = 0  # bytes in use
        self._chunks: OrderedDict[int, tuple[Chunk, dict[Key, int]]] = OrderedDict()  # and the row of each text
        self._owners: dict[Key, int] = {}
        self._next = 0
        self._lock = new_lock()
        reset_after_fork(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return TextCache, (self.limit, self.evict)  # a copy starts empty: the content is large and can be recomputed

    def __len__(self) -> int:
        """Number of cached texts."""
        return len(self._owners)

    def clear(self) -> None:
        """Empty the cache; thread-safe."""
        with self._lock:
            self._chunks.clear()
            self._owners.clear()
            self.nbytes = 0

    forked = clear  # another thread may have been writing at the time of the fork

    def find(self, texts: Iterable[Key]) -> list[tuple[list[Key], Chunk]]:
        """Look up texts; return the keys and the cached values of those found, chunk by chunk."""
        with self._lock:
            texts_by_chunk: dict[int, list[Key]] = {}
            for text in texts:
                owner = self._owners.get(text)
                if owner is not None:
                    texts_by_chunk.setdefault(owner, []).append(text)
            found = []
            for index, keys in texts_by_chunk.items():
                self._chunks.move_to_end(index)
                chunk, rows = self._chunks[index]
                whole = len(keys) == len(chunk)
                keys = sorted(keys, key=rows.__getitem__) if whole else keys
                found.append((keys, chunk if whole else chunk.select([rows[key] for key in keys])))
            return found

    def keep(self, texts: Sequence[Key], chunk: Chunk) -> None:
        """Add a chunk, unless it exceeds the limit by itself, or the cache is full and may not evict."""
        with self._lock:
            if chunk.nbytes + (0 if self.evict else self.nbytes) > self.limit:
                return
            self._chunks[self._next] = (chunk, dict(zip(texts, range(len(texts)), strict=True)))
            self._owners.update(dict.fromkeys(texts, self._next))
            self._next += 1
            self.nbytes += chunk.nbytes
            while self.nbytes > self.limit:
                index, (oldest, keys) = self._chunks.popitem(last=False)
                self.nbytes -= oldest.nbytes
                for key in keys:
                    # A key added twice belongs to its newer chunk, or to none if that was evicted.
                    if self._owners.get(key) == index:
                        del self._owners[key]
