"""Features for error detection, called evidence: signs of wrong tokens and missing words in a pair of texts."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.functional.edit_scripts import any_of_pieces, shortest_edits
from textmover.modules.tokens.unknown_tokens import separate_unknown, token_keys
from textmover.types import SpecialToken, TokenEmbeddings
from textmover.types.word_splitting import UNSPACED

MARKS = ("\u2581", "\u0120")
"""Markers of white space before a word in SentencePiece and byte-level tokenizers."""

CONTINUED = "##"
"""WordPiece marker of a token that continues a word."""

COMMON = 0.05  # share of the vocabulary with a marker of white space above which the tokenizer uses it

UNSPACED_SHARE = 0.3
"""Share of tokens in scripts without spaces, such as Chinese, from which a text is compared by characters."""

SPECIAL_KEY = torch.iinfo(torch.int64).min + 10  # key of special tokens, below that of any other


class Spelling(NamedTuple):
    """Spelling of the ``V`` tokens of a vocabulary."""

    first: Tensor  # lowest id with the same spelling as each token, int64 [V]
    characters: Tensor  # characters of all tokens, concatenated, int64 [C]
    starts: Tensor  # index of each token's first character, and the end, int64 [V + 1]
    unspaced: Tensor  # tokens with characters of scripts without spaces, bool [V]
    begins: Tensor  # tokens that begin a word, bool [V]
    closes: Tensor  # tokens that end a word, bool [V]

    def by_tokens(self) -> Spelling:
        """Return a copy in which each token is a word."""
        return self._replace(begins=torch.ones_like(self.begins))

    def unspaced_texts(self, tokens: TokenEmbeddings) -> Tensor:
        """Return which texts are in scripts without spaces, where tokenization depends on the context, bool ``[B]``."""
        count = (self.unspaced[tokens.input_ids] & tokens.ordinary).sum(dim=1)
        return (count > 0) & (count >= UNSPACED_SHARE * tokens.ordinary.sum(dim=1))

    def units(self, tokens: TokenEmbeddings, keys: Tensor, rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return keys ``[B, U]`` of characters for the texts in ``rows``, else of words; and each token's units.

        The second value holds the start and end of these units, ``[B, L]``.
        """
        ids, known = tokens.input_ids, tokens.ordinary
        begins = self.begins[ids] | pad(self.closes[ids] | ~known, (1, 0), value=True)[:, :-1] | ~known | rows[:, None]
        spelled = rows[:, None] & (keys >= 0) & known
        counts = torch.where(spelled, self.starts[ids + 1] - self.starts[ids], begins.long()) * tokens.mask
        ends = counts.cumsum(dim=1)
        starts = ends - torch.where(begins | ~tokens.mask, counts, 1)
        places = torch.arange(int(ends.max()) + 1, device=ids.device).repeat(len(ids), 1)
        owners = torch.searchsorted(ends, places, right=True)  # first token of each unit, and the end
        order = torch.arange(ids.shape[1], device=ids.device)
        within = order - torch.where(begins, order, 0).cummax(dim=1).values
        mixed = pad((_mixed_bits(keys + within * _ODD) * tokens.mask).cumsum(dim=1), (1, 0))
        words = mixed.gather(1, owners).diff(dim=1)
        owners, places = owners[:, :-1].clamp(max=ids.shape[1] - 1), places[:, :-1]
        inside = (self.starts[ids] - starts).gather(1, owners) + places
        characters = self.characters[inside.clamp(0, len(self.characters) - 1)]
        of_tokens = torch.where(rows[:, None], keys.gather(1, owners), words)
        return torch.where(spelled.gather(1, owners), characters, of_tokens), (starts, ends)


_ODD = -0x61C8864680B583EB  # odd multiplier near the golden ratio times 2^64, which spreads positions in a word


def _mixed_bits(keys: Tensor) -> Tensor:
    """Mix the bits of keys so that the sum over a word identifies it; distinct keys stay distinct (SplitMix64)."""
    keys = (keys ^ (keys >> 30)) * -0x40A7B892E31B1A47
    keys = (keys ^ (keys >> 27)) * -0x6B2FB644ECCEEE15
    return keys ^ (keys >> 31)


class Units(NamedTuple):
    """Units in which ``B`` pairs of texts are compared: characters if neither uses spaces, else words.

    Special tokens equal those of their kind. Without known spellings, tokens are the units.
    """

    same: Tensor  # equality of the other text's and the hypothesis's units, bool [B, U, V]
    lengths: tuple[Tensor, Tensor]  # number of units on either side, [B]
    tokens: Tensor  # equality of the other text's and the hypothesis's tokens, bool [B, M, N]
    theirs: tuple[Tensor, Tensor] | None = None  # start and end of the units of each token of the other text, [B, M]
    own: tuple[Tensor, Tensor] | None = None  # the same for the hypothesis, [B, N]

    def alike(self, kept: Tensor) -> Tensor:
        """Return which tokens are equal, or share a unit and are ``kept`` ``[B, N]``, bool ``[B, M, N]``."""
        if self.theirs is None or self.own is None:
            return self.tokens
        theirs, own = ([one[:, None] for one in side] for side in (self.theirs, self.own))
        shared = any_of_pieces(any_of_pieces(self.same, *own).mT, *theirs).mT
        return self.tokens | (shared & kept[:, None])


def _written_keys(tokens: TokenEmbeddings, spelling: Spelling | None) -> Tensor:
    """Return keys that differ between spellings, negative for special and unknown tokens, ``[B, L]``."""
    keys = token_keys(tokens)
    if spelling is not None:
        keys = spelling.first[keys.clamp(min=0)].where(keys >= 0, keys)
    return keys.where(tokens.special == SpecialToken.NONE, SPECIAL_KEY - tokens.special)


def compared_units(others: TokenEmbeddings, hypotheses: TokenEmbeddings, spelling: Spelling | None) -> Units:
    """Return the units of pairs of texts; without known spellings, these are the tokens."""
    sides = others, hypotheses
    keys = [_written_keys(one, spelling) for one in sides]
    tokens = keys[0][:, :, None] == keys[1][:, None, :]
    if spelling is None:
        return Units(tokens, (others.mask.sum(dim=1), hypotheses.mask.sum(dim=1)), tokens)
    rows = spelling.unspaced_texts(others) & spelling.unspaced_texts(hypotheses)
    (first, theirs), (second, own) = (spelling.units(*both, rows) for both in zip(sides, keys, strict=True))
    return Units(first[:, :, None] == second[:, None, :], (theirs[1][:, -1], own[1][:, -1]), tokens, theirs, own)


_SPELLINGS: WeakKeyDictionary[Any, Spelling | None] = WeakKeyDictionary()


def spellings(tokenizer: Any) -> Spelling | None:
    """Return the spelling of a tokenizer's vocabulary, or ``None`` if it does not mark where words begin.

    Spellings exclude markers of white space, so a word equals itself after a bracket and at the start of a text.
    """
    if tokenizer not in _SPELLINGS:
        _SPELLINGS[tokenizer] = _spelling(getattr(tokenizer, "vocabulary", {}))
    return _SPELLINGS[tokenizer]


def _spelling(vocabulary: dict[str, int]) -> Spelling | None:
    mark = next((one for one in MARKS if _count(vocabulary, one) > COMMON * len(vocabulary)), None)
    if mark is None and not _count(vocabulary, CONTINUED):
        return None
    size = max(vocabulary.values()) + 1
    table, written, begins, closes = torch.arange(size), [""] * size, *torch.ones(2, size, dtype=torch.bool)
    first: dict[str, int] = {}
    for piece, index in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        bare = piece.removeprefix(CONTINUED) if mark is None else piece.lstrip(mark)
        if mark is not None:
            written[index] = bare
            table[index] = first.setdefault(bare or piece, index)
        goes_on = bare == piece if mark else bare != piece
        begins[index] = not (goes_on and _in_word(bare[:1]))
        closes[index] = not _in_word(bare[-1:])
    starts = pad(torch.tensor([len(one) for one in written]).cumsum(dim=0), (1, 0))
    unspaced = torch.tensor([UNSPACED.search(one) is not None for one in written])
    characters = torch.tensor([ord(one) for one in "".join(written)] or [0])
    return Spelling(table, characters, starts, unspaced, begins, closes)


def _in_word(letter: str) -> bool:
    """Return whether a character can be inside a word, with no word boundary next to it."""
    return bool(letter) and not UNSPACED.match(letter) and unicodedata.category(letter)[0] in "LMN"


def _count(vocabulary: dict[str, int], sign: str) -> int:
    return sum(one.startswith(sign) for one in vocabulary)


LOWEST = -1e4  # logit of masked tokens: finite, so that gradients exist for a text without tokens
FARTHEST = 4.0  # limit at which jumps are clipped, in tokens
EDGE = 0.25  # softness of the boundaries between two positions, in tokens


class Evidence(NamedTuple):
    r"""Features of the tokens of ``B`` hypotheses, and of the gaps before each token and after the last.

    With the cosines :math:`S_{ij}` of ``M`` tokens of the other text and ``N`` of the hypothesis, token ``j`` sends the
    share :math:`A_{ij} = \mathrm{softmax}_i(S_{ij}/T)` to its partner ``i``, which returns the share
    :math:`B_{ij} = \mathrm{softmax}_j(S_{ij}/T)`.
    """

    tokens: Tensor  # features named in TOKEN_EVIDENCE, [B, N, 19]
    gaps: Tensor  # features named in GAP_EVIDENCE, [B, N + 1, 11]
    own: Tensor  # unit vectors of the tokens, [B, N, D]
    partners: Tensor  # mean of the partners' unit vectors weighted by the shares A, [B, N, D]
    present: Tensor  # ordinary tokens, bool [B, N]
    between: Tensor  # gaps next to an ordinary token, bool [B, N + 1]
    equal: Tensor  # pairs of texts with the same units, bool [B]
    first: Tensor  # kept tokens with a surplus copy later in the text, bool [B, N]


TOKEN_EVIDENCE = (
    "best", "mean", "second", "returned", "entropy", "rival", "same written", "partner written alike", "taken",
    "spread", "step before", "step behind", "length ratio", "unknown", "kept", "exchanged", "added", "surplus",
    "edit rate",
)  # fmt: skip
"""Cosine of the best partner, mean over partners, cosine of the second best; share returned; entropy of the shares;
margin by which the partners prefer another token; whether the token occurs in the other text; share sent to tokens of
the same spelling; sum of shares received; standard deviation of the partners' positions; jumps to the partners of the
neighbours before and after; log-ratio of the lengths; whether the token is unknown; whether a minimum edit script
keeps, replaces or inserts it; whether the one that keeps the first of equal tokens inserts it; edit rate per unit."""

GAP_EVIDENCE = (
    "jump", "length ratio", "uncovered between", "most uncovered between", "unreturned between", "uncovered beside",
    "most uncovered beside", "most uncovered within", "step back", "lost", "edit rate",
)  # fmt: skip
"""Number of skipped tokens of the other text; log-ratio of the lengths; sum and maximum of the skipped tokens'
distances (1 - cosine) to their closest token; sum of the shares not returned to them; sum and maximum of distances of
tokens next to a match of the gap's neighbours, and maximum between two such matches; size of a jump backwards; whether
a minimum edit script deletes a token here; edit rate per unit."""


class _Matched(NamedTuple):
    """Cosines and shares of pairs of texts ``[B, M, N]``, 0 where masked."""

    others_present: Tensor  # ordinary tokens of the other text, bool [B, M]
    present: Tensor  # ordinary tokens of the hypothesis, bool [B, N]
    cosines: Tensor
    sent: Tensor  # shares of each token of the hypothesis, over M
    returned: Tensor  # shares of each token of the other text, over N
    closest: Tensor  # cosines, -1 where masked


def evidence(
    hypotheses: TokenEmbeddings, others: TokenEmbeddings, temperature: Tensor | float, spelling: Spelling | None = None
) -> Evidence:
    """Compute the evidence of pairs of texts, with gradients; rows are independent of each other and of padding.

    The ``temperature`` of the shares is above 0. Without ``spelling``, each token has a different one.
    """
    width = hypotheses.vectors.shape[2]
    # Heads are trained on evidence in which numbers are like other tokens.
    others, hypotheses = (_at_least_one(replace(one, numbers=None)) for one in (others, hypotheses))
    if spelling is not None:
        spelling = Spelling(*(one.to(hypotheses.mask.device) for one in spelling))
    others, hypotheses = separate_unknown(others, hypotheses)
    other_vectors, vectors = unit_vectors(others.vectors), unit_vectors(hypotheses.vectors)
    others_present, present = others.ordinary, hypotheses.ordinary
    pairs = others_present[:, :, None] & present[:, None, :]
    cosines = pairwise_similarity(other_vectors, vectors).masked_fill(~pairs, 0.0)
    logits = (cosines / temperature).masked_fill(~pairs, LOWEST)
    sent, returned = logits.softmax(dim=1) * pairs, logits.softmax(dim=2) * pairs
    matched = _Matched(others_present, present, cosines, sent, returned, cosines.masked_fill(~pairs, -1.0))
    edges, spread = _partner_positions(matched)
    jumps = (edges[:, 1:] - edges[:, :-1] - 1).clamp(-FARTHEST, FARTHEST) / FARTHEST
    ratio = (present.sum(dim=1).clamp(min=1) / others_present.sum(dim=1).clamp(min=1)).log()[:, None]
    unknown = torch.zeros_like(spread) if hypotheses.unknown is None else (hypotheses.unknown != 0).to(spread)
    units = compared_units(others, hypotheses, spelling)
    edits = shortest_edits(units.same, *units.lengths, units.own)
    rate = (edits.distance / torch.maximum(*units.lengths).clamp(min=1))[:, None]
    of_tokens = [spread / FARTHEST, jumps[:, :-1], jumps[:, 1:], ratio.expand_as(spread), unknown]
    of_tokens += [one.to(spread) for one in edits[:4]] + [rate.expand_as(spread)]
    tokens = torch.stack([*_of_tokens(matched, units.alike(edits.kept) & pairs, edits.kept), *of_tokens], dim=2)
    sides = _neighbours(returned, hypotheses, others)
    of_gaps = [jumps, ratio.expand_as(jumps), *_of_gaps(matched, edges, sides), (-jumps).clamp(min=0)]
    gaps = torch.stack([*of_gaps, edits.lost.to(jumps), rate.expand_as(jumps)], dim=2)
    between = pad(present, (1, 0)) | pad(present, (0, 1))
    partners = torch.einsum("bmn,bmd->bnd", sent, other_vectors[:, :, :width])
    tokens, gaps = tokens * present[:, :, None], gaps * between[:, :, None]
    ids = hypotheses.input_ids if spelling is None else spelling.first[hypotheses.input_ids]
    again = ((ids[:, :, None] == ids[:, None, :]) & edits.surplus[:, None, :]).triu(1).any(dim=2)
    first = again & edits.kept & ~edits.exchanged & ~edits.surplus & present
    return Evidence(tokens, gaps, vectors[:, :, :width], partners, present, between, edits.distance == 0, first)


def _partner_positions(matched: _Matched) -> tuple[Tensor, Tensor]:
    """Return the partners' mean positions, with those of start and end, ``[B, N + 2]``, and standard deviations."""
    order = (matched.others_present.cumsum(dim=1) - 1).to(matched.sent) * matched.others_present
    place = torch.einsum("bm,bmn->bn", order, matched.sent)
    spread = (torch.einsum("bm,bmn->bn", order.square(), matched.sent) - place.square()).clamp(min=1e-6).sqrt()
    count = matched.others_present.sum(dim=1)[:, None].to(place)
    ends = torch.where(matched.present.cumsum(dim=1) > 0, count, -1.0)  # special tokens match those of their kind
    place = torch.where(matched.present, place, ends)
    return torch.cat([torch.full_like(count, -1.0), place, count], dim=1), spread


def _of_tokens(matched: _Matched, same_spelling: Tensor, kept: Tensor) -> list[Tensor]:
    sent, round_trip = matched.sent, matched.sent * matched.returned
    best = matched.closest.topk(min(2, matched.closest.shape[1]), dim=1).values
    best = pad(best, (0, 0, 0, 2 - best.shape[1]), value=-1.0)
    mean = (sent * matched.cosines).sum(dim=1)
    count = matched.others_present.sum(dim=1)[:, None].clamp(min=2)
    return [
        best[:, 0],
        mean,
        best[:, 1],
        round_trip.sum(dim=1),
        -(sent * sent.clamp(min=1e-9).log()).sum(dim=1) / count.log(),
        torch.einsum("bm,bmn->bn", matched.closest.amax(dim=2), sent) - mean,
        ((same_spelling.any(dim=1) | kept) & matched.present).to(mean),
        (sent * same_spelling).sum(dim=1),
        matched.returned.sum(dim=1).clamp(max=FARTHEST) / FARTHEST,
    ]


def _of_gaps(matched: _Matched, edges: Tensor, sides: tuple[Tensor, Tensor]) -> list[Tensor]:
    others_present = matched.others_present
    order = (others_present.cumsum(dim=1) - 1).to(edges)[:, None, :]
    behind, before = order - edges[:, :-1, None] - 0.5, edges[:, 1:, None] - 0.5 - order
    passed = (behind / EDGE).sigmoid() * (before / EDGE).sigmoid() * others_present[:, None, :]
    uncovered = torch.where(others_present, 1 - matched.closest.amax(dim=2), 0.0)[:, None, :]
    unreturned = torch.where(others_present, 1 - (matched.sent * matched.returned).sum(dim=2), 0.0)[:, None, :]
    left, right = sides
    return [
        (passed * uncovered).sum(dim=2).clamp(max=FARTHEST),
        (passed * uncovered).amax(dim=2),
        (passed * unreturned).sum(dim=2).clamp(max=FARTHEST),
        ((left + right) * uncovered).sum(dim=2).clamp(max=FARTHEST),
        ((left + right) * uncovered).amax(dim=2),
        ((left * right).clamp(min=1e-9).sqrt() * uncovered).amax(dim=2),
    ]


def _at_least_one(tokens: TokenEmbeddings) -> TokenEmbeddings:
    """Add a column of padding if no text of the batch has any token."""
    if tokens.mask.shape[1]:
        return tokens
    flat = (pad(one, (0, 1)) for one in (tokens.mask, tokens.special, tokens.input_ids))
    return TokenEmbeddings(pad(tokens.vectors, (0, 0, 0, 1)), *flat)


def _neighbours(returned: Tensor, hypotheses: TokenEmbeddings, others: TokenEmbeddings) -> tuple[Tensor, Tensor]:
    """Return two scores of how well a token of the other text fits into a gap, ``[B, N + 1, M]`` each.

    They are half the match of its left and right neighbour with the token before and after the gap. The starts of the
    texts match each other, and so do the ends.
    """
    kinds = others.special[:, :, None] == hypotheses.special[:, None, :]
    special = (others.special != SpecialToken.NONE)[:, :, None] & others.mask[:, :, None] & hypotheses.mask[:, None, :]
    matched = torch.where(special, kinds.to(returned), returned).transpose(1, 2)  # [B, N, M]
    left = pad(matched, (1, 0, 1, 0))[:, :, :-1]  # token before the gap with the neighbour before
    right = pad(matched, (0, 1, 0, 1))[:, :, 1:]
    return left / 2, right / 2
