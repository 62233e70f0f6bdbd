"""Tokens of words, kept where a word between spaces has the same tokens in every text."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

KEPT_CHARACTERS = 1 << 19  # characters of words whose tokens are kept; some 15 MB

TOGETHER = 64  # words that are tokenised as one text

SIGNS = frozenset(string.punctuation)  # each is a word of its own, wherever it stands

PARTS = ("BertNormalizer", "BertPreTokenizer", "WordPiece")
"""Normaliser, splitter and model of tokenizers that part words at spaces, whatever stands on either side."""


class Encoded(NamedTuple):
    """Output of a Hugging Face tokenizer; words are ``None`` if not asked for or unknown to it."""

    ids: list[list[int]]
    special: list[list[int]]
    truncated: list[bool]
    words: list[list[int | None]] | None = None


class WordCache:
    """Tokenises each word once, and texts by their words."""

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
        """The cache of a compiled tokenizer; ``None`` where what stands around a word may change its tokens."""
        parts = () if rust is None else (rust.normalizer, rust.pre_tokenizer, rust.model)
        if tuple(type(part).__name__ for part in parts) != PARTS:
            return None
        spaced = any(" " in token.content for token in rust.get_added_tokens_decoder().values())
        return None if spaced else cls(rust)

    def __reduce__(self) -> tuple[Any, ...]:
        return WordCache, (self._rust,)  # a copy begins without words

    def _pieces(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Tokens of the words in English letters that are a piece, or one with a sign behind it."""
        piece, lower = self._rust.token_to_id, str.lower if self._rust.normalizer.lowercase else str
        found = {
            word: [known]
            for word in words
            if word.isascii() and word.isalnum() and (known := piece(lower(word))) is not None
        }
        return found | {
            word: [known, sign]
            for word in words
            if (before := word[:-1]).isascii()
            and before.isalnum()
            and word[-1] in SIGNS
            and (known := piece(lower(before))) is not None
            and (sign := piece(word[-1])) is not None
        }

    def _tokens(self, words: Sequence[str]) -> Iterator[list[int]]:
        """Tokens of each word; many go through the tokenizer as one text, with a special token between them."""
        special = self._closing[0] if self._closing else -1
        between = f" {self._rust.id_to_token(special)} " if self._closing else ""
        together = TOGETHER if between else 1
        groups = [words[start : start + together] for start in range(0, len(words), together)]
        encodings = self._rust.encode_batch_fast(list(map(between.join, groups)), add_special_tokens=False)
        for group, encoding in zip(groups, encodings, strict=True):
            ids = encoding.ids
            ends = [*np.flatnonzero(np.array(ids) == special).tolist(), len(ids)]
            if len(ends) == len(group) and not encoding.overflowing:
                yield from (ids[start + 1 : end] for start, end in zip([-1, *ends[:-1]], ends, strict=True))
            else:  # a word holds the special token itself, or they are too many for one text
                yield from (one.ids for one in self._rust.encode_batch_fast(group, add_special_tokens=False))

    def encode(self, texts: Sequence[str], max_length: int) -> Encoded:
        """Tokens of texts, special ones around them, cut at the end to ``max_length``."""
        split = [text.split(" ") for text in texts]
        distinct = dict.fromkeys(itertools.chain.from_iterable(split))
        known = self._words  # replaced and never emptied, since other threads read it
        fresh = [word for word in distinct if word not in known]
        self._characters += sum(map(len, fresh))
        if self._characters > KEPT_CHARACTERS:
            known, fresh = {}, list(distinct)
            self._words, self._characters = known, sum(map(len, fresh))
        if self._read_by_pieces:  # no added token may lie within such a word
            known.update(self._pieces(fresh))
        others = [word for word in fresh if word not in known]
        known.update(zip(others, self._tokens(others), strict=True))
        rows = [list(itertools.chain.from_iterable(map(known.__getitem__, words))) for words in split]
        first, last = self._opening, self._closing
        room = max(0, max_length - len(first) - len(last))
        return Encoded(
            [[*first, *row[:room], *last] for row in rows],
            [[1] * len(first) + [0] * min(len(row), room) + [1] * len(last) for row in rows],
            [len(row) > room for row in rows],
        )
