"""Edits between two texts: tokens that minimum edit scripts keep, replace, insert and delete."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad


class Edits(NamedTuple):
    """Edits in at least one minimum edit script from a reference to a hypothesis.

    Attributes:
        kept: Tokens of the hypothesis that match one of the reference, bool ``[B, N]``.
        exchanged: Tokens that replace another one, bool ``[B, N]``.
        added: Inserted tokens, bool ``[B, N]``.
        surplus: Tokens inserted by the script that keeps the first of equal tokens: of a repeated word, the second is
            surplus, bool ``[B, N]``.
        lost: Gaps before each token and after the last where a reference token is missing, bool ``[B, N + 1]``.
        distance: Number of edits, float32 ``[B]``.
    """

    kept: Bool[Tensor, "B N"]
    exchanged: Bool[Tensor, "B N"]
    added: Bool[Tensor, "B N"]
    surplus: Bool[Tensor, "B N"]
    lost: Bool[Tensor, "B K"]
    distance: Float[Tensor, " B"]


def shortest_edits(
    same: Bool[Tensor, "B M N"],
    reference_lengths: Int[Tensor, " B"],
    hypothesis_lengths: Int[Tensor, " B"],
    pieces: tuple[Int[Tensor, "B P"], Int[Tensor, "B P"]] | None = None,
) -> Edits:
    r"""Find the edits of all minimum edit scripts between texts, each edit of cost 1.

    With the distances :math:`F_{ij}` of the first ``i`` and ``j`` tokens and :math:`G_{ij}` of the remaining ones, an
    edit from :math:`(i, j)` to :math:`(i', j')` of cost :math:`c` is in a minimum script if
    :math:`F_{ij} + c + G_{i'j'} = F_{MN}`. Rows are computed for all texts at once, without backtracking.

    Args:
        same: Whether two tokens are equal (rows: reference).
        reference_lengths: Tokens of each reference, at most ``M``.
        hypothesis_lengths: Tokens of each hypothesis, at most ``N``.
        pieces: Start and end of pieces of the hypothesis among its tokens; each token is one if ``None``. Several
            pieces of one token share its edits, without gaps between them.

    Returns:
        The edits; False for padded tokens. A piece is kept if a script keeps it whole, exchanged if one of its tokens
        is exchanged or a token is lost inside it, and added if one of its tokens is. Padded pieces are undefined.

    Example:
        >>> same = torch.tensor([[[True, False], [False, False], [False, True]]])
        >>> found = shortest_edits(same, torch.tensor([3]), torch.tensor([2]))
        >>> found.kept.tolist(), found.lost.tolist(), found.distance.tolist()
        ([[True, True]], [[False, True, False]], [1.0])

    Reference:
        Levenshtein 1966; Snover et al. 2006 (TER): these edits are its tags without shifts.
    """
    rows, columns = same.shape[1:]
    ahead = _distances(same)
    places = torch.arange(rows, device=same.device), torch.arange(columns, device=same.device)
    ends = reference_lengths[:, None], hypothesis_lengths[:, None]
    back = [(end - 1 - place).clamp(min=0) for end, place in zip(ends, places, strict=True)]
    turned = same.gather(1, back[0][:, :, None].expand_as(same)).gather(2, back[1][:, None, :].expand_as(same))
    gaps = torch.arange(rows + 1, device=same.device), torch.arange(columns + 1, device=same.device)
    left = [(end - place).clamp(min=0) for end, place in zip(ends, gaps, strict=True)]
    behind = _distances(turned)
    behind = behind.gather(1, left[0][:, :, None].expand_as(behind)).gather(2, left[1][:, None, :].expand_as(behind))
    total = ahead[torch.arange(len(same), device=same.device), reference_lengths, hypothesis_lengths]
    inside = places[0] < ends[0], places[1] < ends[1]
    reached = gaps[0] <= ends[0], gaps[1] <= ends[1]
    shortest = total[:, None, None]
    pairs = inside[0][:, :, None] & inside[1][:, None, :]
    stepped = (ahead[:, :-1, :-1] + (~same).float() + behind[:, 1:, 1:] == shortest) & pairs
    added = (ahead[:, :, :-1] + 1 + behind[:, :, 1:] == shortest) & reached[0][:, :, None] & inside[1][:, None, :]
    lost = (ahead[:, :-1] + 1 + behind[:, 1:] == shortest) & inside[0][:, :, None] & reached[1][:, None, :]
    matched, exchanged, missing = stepped & same, stepped & ~same, lost.any(dim=1)
    extra, surplus = added.any(dim=1), _surplus(stepped, lost, inside[1])
    if pieces is None:
        return Edits(matched.any(dim=1), exchanged.any(dim=1), extra, surplus, missing, total)
    gap = torch.cat([pieces[0], ends[1]], dim=1)  # before each piece and after the last
    within = pad(exchanged.any(dim=1), (0, 1)) | missing.scatter(1, gap, False)
    within, extra, surplus = (any_of_pieces(one, *pieces) for one in (within, extra, surplus))
    missing = missing.gather(1, gap) & (gap >= pad(pieces[1], (1, 0)))
    return Edits(_kept_whole(matched, *pieces), within, extra, surplus, missing, total)


def any_of_pieces(
    marks: Bool[Tensor, "... N"], starts: Int[Tensor, "... P"], ends: Int[Tensor, "... P"]
) -> Bool[Tensor, "... P"]:
    """Return which pieces contain a marked unit, given the start and end of each piece."""
    if marks.shape[-1] and (ends - starts).max() < 2:  # each piece has at most one unit
        place = starts.clamp(max=marks.shape[-1] - 1).expand(*marks.shape[:-1], -1)
        return marks.gather(-1, place) & (starts < ends)
    before = pad(marks.float().cumsum(dim=-1), (1, 0))
    first, last = (before.gather(-1, one.expand(*marks.shape[:-1], -1)) for one in (starts, ends))
    return last > first


def _surplus(
    stepped: Bool[Tensor, "B M N"], lost: Bool[Tensor, "B M K"], inside: Bool[Tensor, "B N"]
) -> Bool[Tensor, "B N"]:
    """Return the tokens inserted by the script that matches or replaces if possible, else deletes, else inserts."""
    batch, rows, columns = stepped.shape
    every = torch.arange(batch, device=stepped.device)
    stepped, lost = pad(stepped, (0, 1, 0, 1)), pad(lost, (0, 0, 0, 1))
    row = column = torch.zeros_like(every)
    passed = torch.zeros(batch, columns + 1, dtype=torch.bool, device=stepped.device)
    for _ in range(rows + columns):
        steps = stepped[every, row, column]
        loses = lost[every, row, column] & ~steps
        adds = ~steps & ~loses
        passed[every, column] = passed[every, column] | adds
        row, column = row + (steps | loses), (column + (steps | adds)).clamp(max=columns)
    return passed[:, :-1] & inside


def _kept_whole(
    matched: Bool[Tensor, "B M N"], starts: Int[Tensor, "B P"], ends: Int[Tensor, "B P"]
) -> Bool[Tensor, "B P"]:
    """Return which pieces match a contiguous run of units; pieces without units do."""
    sizes = ends - starts
    begins = pad(torch.zeros_like(matched.any(dim=1)), (0, 1)).scatter(1, starts, True)[:, None, :-1]
    run = matched
    for _ in range(int(sizes.max()) - 1):
        run = matched & (begins | pad(run, (1, 0, 1, 0))[:, :-1, :-1])
    return pad(run.any(dim=1), (1, 0)).gather(1, ends) | (sizes == 0)


def _distances(same: Bool[Tensor, "B M N"]) -> Float[Tensor, "B R C"]:
    """Return the edit distances of all prefixes of two texts, ``[B, M + 1, N + 1]``."""
    batch, rows, columns = same.shape
    across = torch.arange(columns + 1, device=same.device, dtype=torch.float32)
    row = across.expand(batch, -1)
    table = [row]
    costs = (~same).float()
    for place in range(rows):
        reached = torch.minimum(row[:, 1:] + 1, row[:, :-1] + costs[:, place])
        first = torch.full_like(row[:, :1], place + 1)
        row = (torch.cat([first, reached], dim=1) - across).cummin(dim=1).values + across
        table.append(row)
    return torch.stack(table, dim=1)
