"""Cache of the tokens of words, for tokenizers in which they do not depend on the surrounding text."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

CACHE_CHARACTERS = 1 << 19  # capacity of the cache in characters of words; about 15 MB

WORDS_PER_TEXT = 64  # words tokenised as one text

SIGNS = frozenset(string.punctuation)  # each is always a separate word

PARTS = ("BertNormalizer", "BertPreTokenizer", "WordPiece")
"""Normalizer, pre-tokenizer and model of tokenizers that split at spaces, independent of the neighbouring words."""


class Encoded(NamedTuple):
    """Output of a Hugging Face tokenizer; ``words`` is ``None`` if not requested or not supported."""

    ids: list[list[int]]
    special: list[list[int]]
    truncated: list[bool]
    words: list[list[int | None]] | None = None


class WordCache:
    """Tokenizer that caches the tokens of each word and joins them into texts."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust
        self._words: dict[str, list[int]] = {}
        self._characters = 0
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
        distinct = dict.fromkeys(itertools.chain.from_iterable(split))
        cached = self._words  # replaced rather than cleared, since other threads read it
        missing = [word for word in distinct if word not in cached]
        self._characters += sum(map(len, missing))
        if self._characters > CACHE_CHARACTERS:
            cached, missing = {}, list(distinct)
            self._words, self._characters = cached, sum(map(len, missing))
        if self._read_by_pieces:  # no added token can be part of such a word
            cached.update(self._pieces(missing))
        others = [word for word in missing if word not in cached]
        cached.update(zip(others, self._tokens(others), strict=True))
        rows = [list(itertools.chain.from_iterable(map(cached.__getitem__, words))) for words in split]
        first, last = self._opening, self._closing
        most = max(0, max_length - len(first) - len(last))
        return Encoded(
            [[*first, *row[:most], *last] for row in rows],
            [[1] * len(first) + [0] * min(len(row), most) + [1] * len(last) for row in rows],
            [len(row) > most for row in rows],
        )
