"""Tokenizer for static word vectors."""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import torch

from textmover.modules.encoder.static_vectors import StaticVectors
from textmover.modules.tokens.tokenizer import check_string, refuse_long
from textmover.types import InputError, TokenBatch, TokenTrait, check_choice
from textmover.types.word_splitting import legible

LongTexts = Literal["truncate", "error", "window"]

PARTS = re.compile(r"n't$|'?(?:(?!n't$)[^-'.,\u200c\u200d])+", re.IGNORECASE)
"""Parts of a compound: words, each with a leading apostrophe if any, and ``n't``, as in the Penn Treebank."""


def split_words(text: str) -> list[str]:
    """Split a text into words and punctuation marks.

    A word is a run of letters, digits, underscores and their combining marks. Hyphens, apostrophes and zero-width
    joiners inside a word belong to it, and so do points and commas between digits. Every other visible character is a
    separate token. Scripts without spaces between words must be segmented beforehand.
    """
    return _pattern().findall(unicodedata.normalize("NFC", text))


class WordTokenizer:
    """Tokenizer with the interface of :class:`Tokenizer` whose ids are the rows of static vectors.

    Texts are stripped of white space at both ends and split by :func:`split_words`. A word is looked up as written,
    then in lower case. A compound without a vector is split at its hyphens and apostrophes if any part has a vector.
    ``vectors.unknown_words`` decides about words without a vector; those that stay have the id ``lacking_id``.
    """

    def __init__(
        self,
        vectors: StaticVectors,
        max_length: int | None = None,
        long_texts: LongTexts = "truncate",
        *,
        traits: bool = False,
        stop_words: frozenset[str] = frozenset(),
    ) -> None:
        check_choice("long_texts", long_texts, get_args(LongTexts))
        self.vectors = vectors
        self.lacking_id = len(vectors)  # id of words without a vector
        self.vocabulary_size = len(vectors) + 1  # all ids are below it
        self.max_length = None if long_texts == "window" else max_length
        self.long_texts = long_texts
        self._traits = traits
        self._stop_words = stop_words

    def __call__(self, texts: Sequence[str]) -> TokenBatch:
        """Tokenise a batch of texts."""
        for position, text in enumerate(texts):
            check_string(text, position)
        stripped = tuple(map(legible, texts))
        lacking: list[list[str]] = [[] for _ in stripped]
        tokens = [list(self._tokens(text, of_text)) for text, of_text in zip(stripped, lacking, strict=True)]
        truncated = tuple(self.max_length is not None and len(row) > self.max_length for row in tokens)
        if self.long_texts == "error":
            refuse_long(stripped, truncated, self.max_length)
        tokens = [row[: self.max_length] for row in tokens]
        lengths = torch.tensor([len(row) for row in tokens], dtype=torch.long)
        mask = torch.arange(max(map(len, tokens), default=0)) < lengths[:, None]
        ids, traits = torch.zeros_like(mask, dtype=torch.long), torch.zeros_like(mask, dtype=torch.int8)
        ids[mask] = torch.tensor([one for row in tokens for one, _ in row], dtype=torch.long)
        traits[mask] = torch.tensor([trait for row in tokens for _, trait in row], dtype=torch.int8)
        special = torch.zeros_like(traits)
        words = tuple(map(tuple, lacking)) if any(lacking) else None
        return TokenBatch(
            ids, mask, special, stripped, truncated, traits if self._traits else None, unknown_words=words
        )

    def save(self, folder: Path) -> None:
        """Write path and hash of the vector file into ``folder``: see :meth:`StaticVectors.load`."""
        self.vectors.save(folder)

    def _tokens(self, text: str, lacking: list[str]) -> Iterator[tuple[int, int]]:
        """Yield id and traits of each selected token; append words without a vector to ``lacking``."""
        for written in split_words(text):
            word = written.replace("’", "'")
            pieces = [(written, self._find(written))]
            if pieces[0][1] is None and len(parts := PARTS.findall(word)) > 1:
                split = [(part, self._find(part)) for part in parts]
                pieces = split if any(row is not None for _, row in split) else pieces
            for piece, row in pieces:
                if row is None and self.vectors.unknown_words == "error":
                    raise InputError(
                        f"Expected every word to have a vector in {self.vectors.path}, but {piece!r} has none: correct "
                        "it, or set `unknown_words` to 'drop', 'zero' or 'mean'."
                    )
                if row is None:
                    lacking.append(piece)
                if row is not None or self.vectors.unknown_words != "drop":
                    yield self.lacking_id if row is None else row, self._trait(piece, word)

    def _find(self, word: str) -> int | None:
        """Return the row of the word, else with straight apostrophes, else without leading apostrophes."""
        straight = word.replace("’", "'")
        rows = map(self.vectors.find, dict.fromkeys((word, straight, straight.lstrip("'"))))
        return next((row for row in rows if row is not None), None)

    def _trait(self, piece: str, word: str) -> int:
        """Return the trait of a piece, which is a stop word if its word, it or all of its parts are."""
        if len(piece) == 1 and piece in string.punctuation:
            return TokenTrait.PUNCTUATION
        plain = piece.replace("’", "'").lower()
        parts = PARTS.findall(plain) or [plain]
        are_stop_words = (one in self._stop_words or one.rpartition("'")[2] in self._stop_words for one in parts)
        is_stop_word = {word.lower(), plain} & self._stop_words or all(are_stop_words)
        return TokenTrait.STOP_WORD if is_stop_word else 0


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Compile the pattern of :func:`split_words`; ``re`` has no class for combining marks and invisible characters."""
    category = {chr(code): unicodedata.category(chr(code)) for code in range(0xA0, 0x20000)}
    marks = "".join(character for character, kind in category.items() if kind.startswith("M"))
    invisible = "".join(character for character, kind in category.items() if kind == "Cf")
    word = rf"\w[\w{marks}]*"
    inner = r"[-'’\u200c\u200d]|(?<=\d)[.,](?=\d)"
    return re.compile(rf"{word}(?:(?:{inner}){word})*|[^\w\s{marks}{invisible}]")
