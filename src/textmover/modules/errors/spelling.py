"""Spelling of tokens but for the white space before them, which some tokenizers make part of a token."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from textmover.functional.edits import any_of_pieces
from textmover.modules.tokens.unknown_tokens import token_keys
from textmover.types import SpecialToken, TokenEmbeddings
from textmover.types.text_words import UNSPACED

MARKS = ("\u2581", "\u0120")
"""Signs of white space before a word: of SentencePiece, and of byte-level tokenizers."""

COMMON = 0.05
"""Share of the vocabulary that begins with such a sign where it means white space."""

UNSPACED_SHARE = 0.3
"""Share of a text's tokens in scripts without spaces, such as Chinese, from which it is compared by characters."""

SPECIAL_KEY = torch.iinfo(torch.int64).min + 10
"""Key of special tokens, below that of any other."""


def ordinary(tokens: TokenEmbeddings) -> Tensor:
    """Tokens that are not special, bool ``[B, L]``."""
    return tokens.mask & (tokens.special == SpecialToken.NONE)


class Spelling(NamedTuple):
    """Spelling of the ``V`` tokens of a vocabulary."""

    first: Tensor  # first token that is written as each is, int64 [V]
    characters: Tensor  # those of all tokens in turn, int64 [C]
    starts: Tensor  # place of each token's first among them, and the end, int64 [V + 1]
    unspaced: Tensor  # tokens with characters of scripts without spaces, bool [V]

    def unspaced_texts(self, tokens: TokenEmbeddings) -> Tensor:
        """Texts of scripts without spaces, where cuts between tokens depend on their neighbours, bool ``[B]``."""
        count = (self.unspaced[tokens.input_ids] & ordinary(tokens)).sum(dim=1)
        return (count > 0) & (count >= UNSPACED_SHARE * ordinary(tokens).sum(dim=1))

    def units(self, tokens: TokenEmbeddings, keys: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys ``[B, U]`` of the characters of some rows' known tokens, and of others as they are ``[B, L]``.

        The second value tells where the units of each token start, and where those of the last end, ``[B, L + 1]``.
        """
        ids = tokens.input_ids
        spelled = rows[:, None] & (keys == ids) & ordinary(tokens)
        starts = pad((torch.where(spelled, self.starts[ids + 1] - self.starts[ids], 1) * tokens.mask).cumsum(1), (1, 0))
        places = torch.arange(int(starts[:, -1].max()), device=ids.device).repeat(len(ids), 1)
        owners = torch.searchsorted(starts[:, 1:].contiguous(), places, right=True).clamp(max=ids.shape[1] - 1)
        within = (self.starts[ids] - starts[:, :-1]).gather(1, owners) + places
        characters = self.characters[within.clamp(0, len(self.characters) - 1)]
        return torch.where(spelled.gather(1, owners), characters, keys.gather(1, owners)), starts


class Units(NamedTuple):
    """Units by which ``B`` pairs of texts are compared: characters where neither puts spaces, else tokens.

    Special tokens are like those of their kind.
    """

    same: Tensor  # units of the other text that are those of the hypothesis, bool [B, U, V]
    lengths: tuple[Tensor, Tensor]  # number of units on either side, [B]
    tokens: Tensor  # tokens of the other text that are those of the hypothesis, bool [B, M, N]
    before: Tensor | None = None  # where the units of each token of the other text start, [B, M + 1], if not tokens
    starts: Tensor | None = None  # and of the hypothesis, [B, N + 1]

    def alike(self, kept: Tensor) -> Tensor:
        """Tokens that are the same, or share a unit, where the other text keeps ``[B, N]`` that of the hypothesis."""
        if self.before is None or self.starts is None:
            return self.tokens
        shared = any_of_pieces(any_of_pieces(self.same, self.starts[:, None]).mT, self.before[:, None]).mT
        return self.tokens | (shared & kept[:, None])


def compared_units(others: TokenEmbeddings, hypotheses: TokenEmbeddings, spelling: Spelling | None) -> Units:
    """Return the units of pairs of texts; tokens alone where nobody knows how they are written."""
    sides = others, hypotheses
    keys = [token_keys(one).where(one.special == SpecialToken.NONE, SPECIAL_KEY - one.special) for one in sides]
    tokens = keys[0][:, :, None] == keys[1][:, None, :]
    if spelling is None or not (rows := spelling.unspaced_texts(others) & spelling.unspaced_texts(hypotheses)).any():
        return Units(tokens, (others.mask.sum(dim=1), hypotheses.mask.sum(dim=1)), tokens)
    (first, before), (second, starts) = (spelling.units(*both, rows) for both in zip(sides, keys, strict=True))
    return Units(first[:, :, None] == second[:, None, :], (before[:, -1], starts[:, -1]), tokens, before, starts)


_KNOWN: WeakKeyDictionary[Any, Spelling | None] = WeakKeyDictionary()


def spellings(tokenizer: Any) -> Spelling | None:
    """Return the spelling of a tokenizer's vocabulary, or ``None`` where tokens hold no white space.

    So a word counts as kept behind a bracket, at the start of a text, and in Chinese with white space and without.
    """
    if tokenizer not in _KNOWN:
        _KNOWN[tokenizer] = _spelling(getattr(tokenizer, "vocabulary", {}))
    return _KNOWN[tokenizer]


def _spelling(vocabulary: dict[str, int]) -> Spelling | None:
    marks = [mark for mark in MARKS if sum(one.startswith(mark) for one in vocabulary) > COMMON * len(vocabulary)]
    if not marks:
        return None
    size = max(vocabulary.values()) + 1
    table, written = torch.arange(size), [""] * size
    first: dict[str, int] = {}
    for piece, index in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        written[index] = piece.lstrip(marks[0])
        table[index] = first.setdefault(written[index] or piece, index)
    starts = pad(torch.tensor([len(one) for one in written]).cumsum(dim=0), (1, 0))
    unspaced = torch.tensor([UNSPACED.search(one) is not None for one in written])
    return Spelling(table, torch.tensor([ord(one) for one in "".join(written)]), starts, unspaced)
