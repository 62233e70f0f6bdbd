"""The words that the tokens of a text belong to, and where they stand in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.modules.tokens.word_tokenizer import split_words
from textmover.types import InputError, SpecialToken, TokenBatch

Span = tuple[int, int]

START, END = "[start]", "[end]"
"""What special tokens are called, which encoders name differently."""

IDEOGRAPHS = (("\u2e80", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))
"""Scripts without spaces between words, of which each token is a word of its own; kana is among the first."""


class TokenWords(NamedTuple):
    """Words of a text and the tokens that they have.

    Attributes:
        words: The words, special tokens among them.
        spans: Where they stand in the text; ``None`` for special tokens.
        of_token: The word of each token, int64 ``[L]``.
    """

    words: tuple[str, ...]
    spans: tuple[Span | None, ...]
    of_token: np.ndarray


def words_of_tokens(metric: MetricModel, batch: TokenBatch, text: str) -> TokenWords:
    """The words that the tokens of a text are parts of.

    Pieces that follow each other without a space are one word, as far as they are letters and digits; punctuation
    marks, ideographs and special tokens are words of their own.

    Args:
        metric: Its tokenizer made the tokens.
        batch: The one text as tokens.
        text: The same as it was given.

    Raises:
        InputError: If the tokenizer does not know where its tokens stand.
    """
    length = int(batch.mask[0].sum())
    if not isinstance(metric.tokenizer, Tokenizer):
        return _static_words(metric, text, length)
    offsets = metric.tokenizer.offsets([text])
    if offsets is None:
        raise InputError(
            "Expected a tokenizer that knows where its tokens stand in a text, but this encoder's does not: take an "
            "encoder with a fast tokenizer."
        )
    special = batch.special[0].tolist()
    words: list[str] = []
    spans: list[Span | None] = []
    of_token = []
    for (start, end), kind in zip(offsets[0, :length].tolist(), special[:length], strict=True):
        if kind != SpecialToken.NONE:
            words.append(START if kind == SpecialToken.FIRST else END)
            spans.append(None)
        else:
            while start < end and text[start].isspace():  # some tokens begin with the space before their word
                start += 1
            last = spans[-1] if spans else None
            if last is not None and _joins(text, last, start):
                start, end = last[0], max(last[1], end)
                spans[-1], words[-1] = (start, end), text[start:end]
            else:
                spans.append((start, end))
                words.append(text[start:end])
        of_token.append(len(words) - 1)
    return TokenWords(tuple(words), tuple(spans), np.array(of_token, dtype=np.int64))


def _joins(text: str, word: Span, start: int) -> bool:
    """Whether a token that starts at a place goes on with the word before it."""
    first, last = word
    if start != last:
        return start < last  # the second half of a character
    if first == last:
        return True  # nothing but a mark of white space
    before, after = text[last - 1], text[start : start + 1]
    return bool(after) and all(_is_letter(one) and not _is_ideograph(one) for one in (before, after))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNM"


def _is_ideograph(character: str) -> bool:
    return any(low <= character <= high for low, high in IDEOGRAPHS)


def _static_words(metric: MetricModel, text: str, length: int) -> TokenWords:
    """Words of a tokenizer that takes each word of :func:`split_words` by itself."""
    written = split_words(text)
    counts = [int(one) for one in metric.tokenizer(written).lengths] if written else []
    of_token = np.repeat(np.arange(len(written)), counts)[:length]
    return TokenWords(tuple(written), tuple(_found(text, written)), of_token)


def _found(text: str, words: Sequence[str]) -> Iterator[Span | None]:
    """Where words stand that come in the order of the text; ``None`` for one that the text spells differently."""
    place = 0
    for word in words:
        start = text.find(word, place)
        if start < 0:
            yield None  # in another normal form of Unicode
        else:
            place = start + len(word)
            yield (start, place)
