"""Evidence that a token is wrong, or that words are missing, from similarities and spellings of two texts."""

from __future__ import annotations

import unicodedata
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.functional.edits import any_of_pieces, shortest_edits
from textmover.modules.tokens.unknown_tokens import apart, token_keys
from textmover.types import SpecialToken, TokenEmbeddings
from textmover.types.text_words import UNSPACED

MARKS = ("\u2581", "\u0120")
"""Signs of white space before a word: of SentencePiece, and of byte-level tokenizers."""

CONTINUED = "##"
"""Sign of WordPiece that a token goes on with a word."""

COMMON = 0.05  # share of the vocabulary that begins with such a sign where it means white space

UNSPACED_SHARE = 0.3
"""Share of a text's tokens in scripts without spaces, such as Chinese, from which it is compared by characters."""

SPECIAL_KEY = torch.iinfo(torch.int64).min + 10  # key of special tokens, below that of any other


class Spelling(NamedTuple):
    """Spelling of the ``V`` tokens of a vocabulary."""

    first: Tensor  # first token that is written as each is, int64 [V]
    characters: Tensor  # those of all tokens in turn, int64 [C]
    starts: Tensor  # place of each token's first among them, and the end, int64 [V + 1]
    unspaced: Tensor  # tokens with characters of scripts without spaces, bool [V]
    begins: Tensor  # tokens that begin a word, bool [V]
    closes: Tensor  # tokens behind which one begins, bool [V]

    def by_tokens(self) -> Spelling:
        """Return the same with each token as a word."""
        return self._replace(begins=torch.ones_like(self.begins))

    def unspaced_texts(self, tokens: TokenEmbeddings) -> Tensor:
        """Texts of scripts without spaces, where cuts between tokens depend on their neighbours, bool ``[B]``."""
        count = (self.unspaced[tokens.input_ids] & tokens.ordinary).sum(dim=1)
        return (count > 0) & (count >= UNSPACED_SHARE * tokens.ordinary.sum(dim=1))

    def units(self, tokens: TokenEmbeddings, keys: Tensor, rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Keys ``[B, U]`` of the characters of some rows' known tokens, and of the words of others.

        The second value tells where the units of each token start and end, ``[B, L]``.
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
        mixed = pad((_scattered(keys + within * _ODD) * tokens.mask).cumsum(dim=1), (1, 0))
        words = mixed.gather(1, owners).diff(dim=1)
        owners, places = owners[:, :-1].clamp(max=ids.shape[1] - 1), places[:, :-1]
        inside = (self.starts[ids] - starts).gather(1, owners) + places
        characters = self.characters[inside.clamp(0, len(self.characters) - 1)]
        of_tokens = torch.where(rows[:, None], keys.gather(1, owners), words)
        return torch.where(spelled.gather(1, owners), characters, of_tokens), (starts, ends)


_ODD = -0x61C8864680B583EB  # odd number near the golden section of all, which spreads places in a word


def _scattered(keys: Tensor) -> Tensor:
    """Mix the bits of keys so that sums of a word's tell words apart; different keys stay different (SplitMix64)."""
    keys = (keys ^ (keys >> 30)) * -0x40A7B892E31B1A47
    keys = (keys ^ (keys >> 27)) * -0x6B2FB644ECCEEE15
    return keys ^ (keys >> 31)


class Units(NamedTuple):
    """Units by which ``B`` pairs of texts are compared: characters where neither puts spaces, else words.

    Special tokens are like those of their kind. Where nobody knows how tokens are written, they are the units.
    """

    same: Tensor  # units of the other text that are those of the hypothesis, bool [B, U, V]
    lengths: tuple[Tensor, Tensor]  # number of units on either side, [B]
    tokens: Tensor  # tokens of the other text that are those of the hypothesis, bool [B, M, N]
    theirs: tuple[Tensor, Tensor] | None = None  # where the units of each token of the other text start and end, [B, M]
    own: tuple[Tensor, Tensor] | None = None  # and of the hypothesis, [B, N]

    def alike(self, kept: Tensor) -> Tensor:
        """Tokens that are the same, or share a unit, where the other text keeps ``[B, N]`` that of the hypothesis."""
        if self.theirs is None or self.own is None:
            return self.tokens
        theirs, own = ([one[:, None] for one in side] for side in (self.theirs, self.own))
        shared = any_of_pieces(any_of_pieces(self.same, *own).mT, *theirs).mT
        return self.tokens | (shared & kept[:, None])


def _written_keys(tokens: TokenEmbeddings, spelling: Spelling | None) -> Tensor:
    """Keys that tell apart what is written otherwise, negative where a token is special or unknown, ``[B, L]``."""
    keys = token_keys(tokens)
    if spelling is not None:
        keys = spelling.first[keys.clamp(min=0)].where(keys >= 0, keys)
    return keys.where(tokens.special == SpecialToken.NONE, SPECIAL_KEY - tokens.special)


def compared_units(others: TokenEmbeddings, hypotheses: TokenEmbeddings, spelling: Spelling | None) -> Units:
    """Return the units of pairs of texts; tokens alone where nobody knows how they are written."""
    sides = others, hypotheses
    keys = [_written_keys(one, spelling) for one in sides]
    tokens = keys[0][:, :, None] == keys[1][:, None, :]
    if spelling is None:
        return Units(tokens, (others.mask.sum(dim=1), hypotheses.mask.sum(dim=1)), tokens)
    rows = spelling.unspaced_texts(others) & spelling.unspaced_texts(hypotheses)
    (first, theirs), (second, own) = (spelling.units(*both, rows) for both in zip(sides, keys, strict=True))
    return Units(first[:, :, None] == second[:, None, :], (theirs[1][:, -1], own[1][:, -1]), tokens, theirs, own)


_KNOWN: WeakKeyDictionary[Any, Spelling | None] = WeakKeyDictionary()


def spellings(tokenizer: Any) -> Spelling | None:
    """Return the spelling of a tokenizer's vocabulary, or ``None`` where it does not tell where words begin.

    Signs of white space are no part of it, so that a word counts as kept behind a bracket and at the start of a text.
    """
    if tokenizer not in _KNOWN:
        _KNOWN[tokenizer] = _spelling(getattr(tokenizer, "vocabulary", {}))
    return _KNOWN[tokenizer]


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
    """Return whether words go on at a letter: white space or punctuation parts the others."""
    return bool(letter) and not UNSPACED.match(letter) and unicodedata.category(letter)[0] in "LMN"


def _count(vocabulary: dict[str, int], sign: str) -> int:
    return sum(one.startswith(sign) for one in vocabulary)


LOWEST = -1e4  # logit of what takes no part: finite, so that a text without tokens has gradients
FARTHEST = 4.0  # largest jump, in tokens, that differs from a larger one
EDGE = 0.25  # softness of the bounds between two places, in tokens


class Evidence(NamedTuple):
    r"""Evidence of the tokens of ``B`` hypotheses and of the gaps before each and behind the last.

    With the cosines :math:`S_{ij}` of ``M`` tokens of the other text and ``N`` of the hypothesis, the share that token
    ``j`` sends to its partners is :math:`A_{ij} = \mathrm{softmax}_i(S_{ij}/T)`, and
    :math:`B_{ij} = \mathrm{softmax}_j(S_{ij}/T)` is what a partner gives back.
    """

    tokens: Tensor  # by the names of TOKEN_EVIDENCE, [B, N, 19]
    gaps: Tensor  # by the names of GAP_EVIDENCE, [B, N + 1, 11]
    own: Tensor  # unit vectors of the tokens, [B, N, D]
    partners: Tensor  # mean of the partners' unit vectors by the shares A, [B, N, D]
    present: Tensor  # ordinary tokens, bool [B, N]
    between: Tensor  # gaps beside an ordinary token, bool [B, N + 1]
    equal: Tensor  # texts of the same tokens, bool [B]
    first: Tensor  # kept tokens that stand again further on, where they are too many, bool [B, N]


TOKEN_EVIDENCE = (
    "best", "mean", "second", "returned", "entropy", "rival", "same written", "partner written alike", "taken",
    "spread", "step before", "step behind", "length ratio", "unknown", "kept", "exchanged", "added", "surplus",
    "edit rate",
)  # fmt: skip
"""Similarity of the best partner, of the partners' mean and of the second best; share that comes back; entropy of the
shares; how much closer the partners are to another token; whether the token stands in the other text, and its partners
are written alike; shares that it gets; deviation of the partners' places; jumps to those of its neighbours;
log-ratio of the lengths; whether the token is unknown; whether it is kept, exchanged or added on a shortest way between
the texts, or on the one that keeps the first of equal tokens; edits of that way to a token."""

GAP_EVIDENCE = (
    "jump", "length ratio", "uncovered between", "most uncovered between", "unreturned between", "uncovered beside",
    "most uncovered beside", "most uncovered within", "step back", "lost", "edit rate",
)  # fmt: skip
"""Tokens of the other text that are passed over; logarithm of the lengths' ratio; how uncovered those are by sum and
maximum, and how little comes back to them; the same for tokens whose neighbours match those beside the gap, by sum,
maximum, and where both do; how far the place goes back; whether a token is lost here on a shortest way; its edits."""


class _Matched(NamedTuple):
    """A batch of pairs: cosines and shares ``[B, M, N]``, 0 where a token takes no part."""

    there: Tensor  # ordinary tokens of the other text, bool [B, M]
    present: Tensor  # of the hypothesis, bool [B, N]
    cosines: Tensor
    sent: Tensor  # shares of each token of the hypothesis, over M
    returned: Tensor  # shares of each token of the other text, over N
    closest: Tensor  # cosines, -1 where a token takes no part


def evidence(
    hypotheses: TokenEmbeddings, others: TokenEmbeddings, temperature: Tensor | float, spelling: Spelling | None = None
) -> Evidence:
    """Gather the evidence of pairs of texts, with gradients; a row depends on no other row and on no padding.

    Args:
        hypotheses: ``B`` texts that are judged.
        others: As many that they are compared with.
        temperature: Temperature ``T`` of the shares, above 0.
        spelling: How tokens are written; each differs from all others if ``None``.
    """
    width = hypotheses.vectors.shape[2]
    others, hypotheses = (_at_least_one(one) for one in (others, hypotheses))
    if spelling is not None:
        spelling = Spelling(*(one.to(hypotheses.mask.device) for one in spelling))
    others, hypotheses = apart(others, hypotheses)
    theirs, own = unit_vectors(others.vectors), unit_vectors(hypotheses.vectors)
    there, present = others.ordinary, hypotheses.ordinary
    pairs = there[:, :, None] & present[:, None, :]
    cosines = pairwise_similarity(theirs, own).masked_fill(~pairs, 0.0)
    logits = (cosines / temperature).masked_fill(~pairs, LOWEST)
    sent, returned = logits.softmax(dim=1) * pairs, logits.softmax(dim=2) * pairs
    matched = _Matched(there, present, cosines, sent, returned, cosines.masked_fill(~pairs, -1.0))
    edges, spread = _places(matched)
    jumps = (edges[:, 1:] - edges[:, :-1] - 1).clamp(-FARTHEST, FARTHEST) / FARTHEST
    ratio = (present.sum(dim=1).clamp(min=1) / there.sum(dim=1).clamp(min=1)).log()[:, None]
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
    partners = torch.einsum("bmn,bmd->bnd", sent, theirs[:, :, :width])
    tokens, gaps = tokens * present[:, :, None], gaps * between[:, :, None]
    ids = hypotheses.input_ids if spelling is None else spelling.first[hypotheses.input_ids]
    again = ((ids[:, :, None] == ids[:, None, :]) & edits.surplus[:, None, :]).triu(1).any(dim=2)
    first = again & edits.kept & ~edits.exchanged & ~edits.surplus & present
    return Evidence(tokens, gaps, own[:, :, :width], partners, present, between, edits.distance == 0, first)


def _places(matched: _Matched) -> tuple[Tensor, Tensor]:
    """Places of the partners, between those of the texts' starts and ends, ``[B, N + 2]``, and their deviation."""
    order = (matched.there.cumsum(dim=1) - 1).to(matched.sent) * matched.there
    place = torch.einsum("bm,bmn->bn", order, matched.sent)
    spread = (torch.einsum("bm,bmn->bn", order.square(), matched.sent) - place.square()).clamp(min=1e-6).sqrt()
    count = matched.there.sum(dim=1)[:, None].to(place)
    ends = torch.where(matched.present.cumsum(dim=1) > 0, count, -1.0)  # special tokens match their like
    place = torch.where(matched.present, place, ends)
    return torch.cat([torch.full_like(count, -1.0), place, count], dim=1), spread


def _of_tokens(matched: _Matched, alike: Tensor, kept: Tensor) -> list[Tensor]:
    sent, round_trip = matched.sent, matched.sent * matched.returned
    best = matched.closest.topk(min(2, matched.closest.shape[1]), dim=1).values
    best = pad(best, (0, 0, 0, 2 - best.shape[1]), value=-1.0)
    mean = (sent * matched.cosines).sum(dim=1)
    count = matched.there.sum(dim=1)[:, None].clamp(min=2)
    return [
        best[:, 0],
        mean,
        best[:, 1],
        round_trip.sum(dim=1),
        -(sent * sent.clamp(min=1e-9).log()).sum(dim=1) / count.log(),
        torch.einsum("bm,bmn->bn", matched.closest.amax(dim=2), sent) - mean,
        ((alike.any(dim=1) | kept) & matched.present).to(mean),
        (sent * alike).sum(dim=1),
        matched.returned.sum(dim=1).clamp(max=FARTHEST) / FARTHEST,
    ]


def _of_gaps(matched: _Matched, edges: Tensor, sides: tuple[Tensor, Tensor]) -> list[Tensor]:
    there = matched.there
    order = (there.cumsum(dim=1) - 1).to(edges)[:, None, :]
    behind, before = order - edges[:, :-1, None] - 0.5, edges[:, 1:, None] - 0.5 - order
    passed = (behind / EDGE).sigmoid() * (before / EDGE).sigmoid() * there[:, None, :]
    uncovered = torch.where(there, 1 - matched.closest.amax(dim=2), 0.0)[:, None, :]
    unreturned = torch.where(there, 1 - (matched.sent * matched.returned).sum(dim=2), 0.0)[:, None, :]
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
    """One place of padding where no text of a batch has any token."""
    if tokens.mask.shape[1]:
        return tokens
    flat = (pad(one, (0, 1)) for one in (tokens.mask, tokens.special, tokens.input_ids))
    return TokenEmbeddings(pad(tokens.vectors, (0, 0, 0, 1)), *flat)


def _neighbours(returned: Tensor, hypotheses: TokenEmbeddings, others: TokenEmbeddings) -> tuple[Tensor, Tensor]:
    """Halves of the evidence that a token of the other text belongs into a gap, ``[B, N + 1, M]`` each.

    Its left neighbour is matched with the token before the gap, its right one with that behind; starts match, and ends.
    """
    kinds = others.special[:, :, None] == hypotheses.special[:, None, :]
    special = (others.special != SpecialToken.NONE)[:, :, None] & others.mask[:, :, None] & hypotheses.mask[:, None, :]
    matched = torch.where(special, kinds.to(returned), returned).transpose(1, 2)  # [B, N, M]
    left = pad(matched, (1, 0, 1, 0))[:, :, :-1]  # token before the gap with the neighbour before
    right = pad(matched, (0, 1, 0, 1))[:, :, 1:]
    return left / 2, right / 2
