"""Evidence that a token is wrong, or that words are missing, from the similarities of two texts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.functional.edits import shortest_edits
from textmover.modules.errors.spelling import Spelling, compared_units, ordinary
from textmover.modules.tokens.unknown_tokens import apart
from textmover.types import SpecialToken, TokenEmbeddings

LOWEST = -1e4
"""Logit of what takes no part: finite, so that a text without tokens has gradients."""

FARTHEST = 4.0
"""Largest jump, in tokens, that differs from a larger one."""

EDGE = 0.25
"""Softness of the bounds between two places, in tokens."""


class Evidence(NamedTuple):
    r"""Evidence of the tokens of ``B`` hypotheses and of the gaps before each and behind the last.

    With the cosines :math:`S_{ij}` of ``M`` tokens of the other text and ``N`` of the hypothesis, the share that token
    ``j`` sends to its partners is :math:`A_{ij} = \mathrm{softmax}_i(S_{ij}/T)`, and
    :math:`B_{ij} = \mathrm{softmax}_j(S_{ij}/T)` is what a partner gives back.

    Attributes:
        tokens: ``[B, N, 19]``, by the names of :data:`TOKEN_EVIDENCE`.
        gaps: ``[B, N + 1, 11]``, by the names of :data:`GAP_EVIDENCE`.
        own: Unit vectors of the tokens, ``[B, N, D]``.
        partners: Mean of the partners' unit vectors, :math:`\sum_i A_{ij} y_i`, ``[B, N, D]``.
        present: Ordinary tokens, bool ``[B, N]``.
        between: Gaps beside an ordinary token, bool ``[B, N + 1]``.
        equal: Texts of the same tokens, bool ``[B]``.
    """

    tokens: Tensor
    gaps: Tensor
    own: Tensor
    partners: Tensor
    present: Tensor
    between: Tensor
    equal: Tensor


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
        others, hypotheses = (replace(one, input_ids=spelling.first[one.input_ids]) for one in (others, hypotheses))
    others, hypotheses = apart(others, hypotheses)
    theirs, own = unit_vectors(others.vectors), unit_vectors(hypotheses.vectors)
    there, present = ordinary(others), ordinary(hypotheses)
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
    edits = shortest_edits(units.same, *units.lengths, units.starts)
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
    return Evidence(tokens, gaps, own[:, :, :width], partners, present, between, edits.distance == 0)


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
    """Evidence of the tokens ``[B, N]``, but for that of places."""
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
    """Evidence of the gaps ``[B, N + 1]``, but for that of places."""
    there = matched.there
    order = (there.cumsum(dim=1) - 1).to(edges)[:, None, :]
    passed = ((order - edges[:, :-1, None] - 0.5) / EDGE).sigmoid() * (
        (edges[:, 1:, None] - 0.5 - order) / EDGE
    ).sigmoid()
    passed = passed * there[:, None, :]
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
    size = len(tokens), 1
    return TokenEmbeddings(
        tokens.vectors.new_zeros(*size, tokens.vectors.shape[2]),
        *(one.new_zeros(size) for one in (tokens.mask, tokens.special, tokens.input_ids)),
    )


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
