"""Tokens that are written alike but for the white space before them, which some tokenizers make part of a token."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

MARKS = ("\u2581", "\u0120")
"""Signs of white space before a word: of SentencePiece, and of byte-level tokenizers."""

COMMON = 0.05
"""Share of the vocabulary that begins with such a sign where it means white space."""

_KNOWN: WeakKeyDictionary[Any, Tensor | None] = WeakKeyDictionary()


def spellings(tokenizer: Any) -> Tensor | None:
    """Return the first token that is written as each token is, int64 ``[V]``, or ``None`` where all differ.

    So a word counts as kept behind a bracket, at the start of a text, and in Chinese with white space and without.
    """
    if tokenizer not in _KNOWN:
        _KNOWN[tokenizer] = _table(getattr(tokenizer, "vocabulary", {}))
    return _KNOWN[tokenizer]


def _table(vocabulary: dict[str, int]) -> Tensor | None:
    marks = [mark for mark in MARKS if sum(one.startswith(mark) for one in vocabulary) > COMMON * len(vocabulary)]
    if not marks:
        return None
    table = torch.arange(max(vocabulary.values()) + 1)
    first: dict[str, int] = {}
    for piece, index in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        table[index] = first.setdefault(piece.lstrip(marks[0]) or piece, index)
    return table
