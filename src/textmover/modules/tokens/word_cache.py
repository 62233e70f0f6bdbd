"""Cache of the tokens of words, for tokenizers in which they do not depend on the surrounding text."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from textmover.lazy import new_lock

CACHE_CHARACTERS = 1 << 19  # capacity of the cache in characters of words; about 15 MB

WORDS_PER_TEXT = 64  # words tokenised as one text

SIGNS = frozenset(string.punctuation)  # each is always a separate word

PARTS = ("BertNormalizer", "BertPreTokenizer", "WordPiece")
"""Normalizer, pre-tokenizer and model of tokenizers that split at spaces, independent of the neighbouring words."""


class Encoded(NamedTuple):
    """Tokens of ``B`` texts, one text after the other, ``T`` in total."""

    ids: np.ndarray  # int64 [T]
    special: np.ndarray  # bool [T]
    lengths: np.ndarray  # tokens of each text, int64 [B]
    truncated: list[bool]
    words: list[list[int | None]] | None = None  # word of each token; ``None`` if not requested or not supported

    @classmethod
    def of(
        cls,
        ids: Sequence[Sequence[int]],
        special: Sequence[Sequence[int]],
        truncated: list[bool],
        words: list[list[int | None]] | None = None,
    ) -> Encoded:
        """Join the tokens of each text."""
        lengths = np.fromiter(map(len, ids), np.int64, count=len(ids))
        tokens, kinds = map(itertools.chain.from_iterable, (ids, special))
        return cls(np.fromiter(tokens, np.int64), np.fromiter(kinds, bool), lengths, truncated, words)


class WordCache:
    """Tokenizer that caches the tokens of each word and joins them into texts."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust
        self._lock = new_lock()
        self._clear()
        sample = rust.encode("a")
        self._opening = sample.ids[: sample.special_tokens_mask.index(0)]
        self._closing = sample.ids[len(self._opening) + 1 :]
        added = [token.content for token in rust.get_added_tokens_decoder().values()]
        self._read_by_pieces = all(len(content) > 1 and not content[:-1].isalnum() for content in added)

    @classmethod
    def of(cls, rust: Any) -> WordCache | None:
        """Return the cache of a compiled tokenizer; ``None`` if a word's tokens may depend on its neighbours."""
        parts = () if rust is None else (rust.normalizer, rust.pre_tokenizer, rust.model)
        if tuple(type(part).__name__ for part in parts) != PARTS:
            return None
        spaced = any(" " in token.content for token in rust.get_added_tokens_decoder().values())
        return None if spaced else cls(rust)

    def __reduce__(self) -> tuple[Any, ...]:
        return WordCache, (self._rust,)  # a copy starts empty

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        self._ids, self._ends = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._characters = 0

    def _pieces(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Return the tokens of ASCII words that are one piece, or one piece and a punctuation mark."""
        piece, lower = self._rust.token_to_id, str.lower if self._rust.normalizer.lowercase else str
        single = {one: [i] for one in words if one.isascii() and one.isalnum() and (i := piece(lower(one))) is not None}
        return single | {
            word: [known, sign]
            for word in words
            if (before := word[:-1]).isascii()
            and before.isalnum()
            and word[-1] in SIGNS
            and (known := piece(lower(before))) is not None
            and (sign := piece(word[-1])) is not None
        }

    def _tokens(self, words: Sequence[str]) -> Iterator[list[int]]:
        """Yield the tokens of each word; many words are tokenised as one text, separated by a special token."""
        special = self._closing[0] if self._closing else -1
        between = f" {self._rust.id_to_token(special)} " if self._closing else ""
        together = WORDS_PER_TEXT if between else 1
        groups = [words[start : start + together] for start in range(0, len(words), together)]
        encodings = self._rust.encode_batch_fast(list(map(between.join, groups)), add_special_tokens=False)
        for group, encoding in zip(groups, encodings, strict=True):
            ids = encoding.ids
            ends = [*np.flatnonzero(np.array(ids) == special).tolist(), len(ids)]
            if len(ends) == len(group) and not encoding.overflowing:
                yield from (ids[start + 1 : end] for start, end in zip([-1, *ends[:-1]], ends, strict=True))
            else:  # a word contains the special token itself, or the text is too long
                yield from (one.ids for one in self._rust.encode_batch_fast(group, add_special_tokens=False))

    def encode(self, texts: Sequence[str], max_length: int) -> Encoded:
        """Tokenise texts, add special tokens, and truncate at the end to ``max_length``."""
        split = [text.split(" ") for text in texts]
        starts, sizes, ids = self._of_words(list(itertools.chain.from_iterable(split)))
        counts = np.fromiter(map(len, split), np.int64, count=len(split))  # an empty text has one empty word
        lengths = np.add.reduceat(sizes, np.cumsum(counts) - counts, dtype=np.int64)
        tokens = ids[_runs(starts, sizes)]
        added = len(self._opening) + len(self._closing)
        truncated = lengths > (most := max(0, max_length - added))
        if truncated.any():
            kept = np.minimum(lengths, most)
            lengths, tokens = kept, tokens[_runs(np.cumsum(lengths) - lengths, kept)]
        whole = lengths + added
        ordinary = _runs(np.cumsum(whole) - whole + len(self._opening), lengths)
        joined, special = np.empty(int(whole.sum()), dtype=np.int64), np.ones(int(whole.sum()), dtype=bool)
        special[ordinary] = False
        joined[ordinary], joined[special] = tokens, np.tile([*self._opening, *self._closing], len(texts))
        return Encoded(joined, special, whole, truncated.tolist())

    def _of_words(self, words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return start and number of the tokens of each word, int64 ``[W]``, within those of all, int64 ``[T]``."""
        with self._lock:  # other threads add words, too
            rows = self._found(words)
            lacking = dict.fromkeys(itertools.compress(words, (rows < 0).tolist()))
            if self._characters + sum(map(len, lacking)) > CACHE_CHARACTERS:
                self._clear()
                rows, lacking = np.full(len(words), -1), dict.fromkeys(words)
            if lacking:
                self._add(list(lacking))
                new = rows < 0
                rows[new] = self._found(list(itertools.compress(words, new.tolist())))
            return self._ends[rows - 1], self._ends[rows] - self._ends[rows - 1], self._ids

    def _found(self, words: list[str]) -> np.ndarray:
        return np.fromiter(map(self._rows.get, words, itertools.repeat(-1)), np.int64, count=len(words))

    def _add(self, words: list[str]) -> None:
        pieces = self._pieces(words) if self._read_by_pieces else {}  # no added token can be part of such a word
        others = [word for word in words if word not in pieces]
        pieces.update(zip(others, self._tokens(others), strict=True))
        new = Encoded.of(list(pieces.values()), (), [])
        first = len(self._ends)
        self._ids, self._ends = np.r_[self._ids, new.ids], np.r_[self._ends, self._ends[-1] + np.cumsum(new.lengths)]
        self._rows.update(zip(pieces, range(first, len(self._ends)), strict=True))
        self._characters += sum(map(len, words))


def _runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the indices of runs of the given starts and sizes, one run after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))
