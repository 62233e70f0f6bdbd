"""Batches of similar length, and overlapping windows for texts longer than an encoder's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from textmover.types import InputError, SpecialToken, TokenBatch

WINDOW_TOKENS = 4096  # tokens encoded at a time, padding included; at least one window

Encode = Callable[[Tensor, Tensor], list[Tensor]]
"""Function from ids ``[W, S]`` or embeddings ``[W, S, E]``, and mask ``[W, S]``, to the hidden states of each layer."""


class Windows(NamedTuple):
    """Positions of the tokens of each window."""

    rows: Tensor  # row of each window's text, int64 ``[W]``, ascending
    positions: Tensor  # positions of its tokens in that text, int64 ``[W, limit]``; may extend into padding


def plan_windows(mask: Tensor, special: Tensor, limit: int) -> Windows:
    """Plan windows of at most ``limit`` tokens that cover every token of right-padded texts ``[B, L]``.

    Each window of a long text holds the special tokens at its start and end, and a stretch of the tokens between them.
    Stretches overlap by half. The last one ends with the text, so that all windows are full.
    """
    lengths = mask.sum(dim=1)
    opening = (mask & (special == SpecialToken.FIRST)).long().cumprod(dim=1).sum(dim=1)
    ending = (~mask | (special == SpecialToken.OTHER)).long().flip(1).cumprod(dim=1).sum(dim=1)
    closing = ending - (~mask).sum(dim=1)
    places = torch.arange(limit)
    rows: list[int] = []
    positions: list[Tensor] = []
    for row, (length, first, last) in enumerate(torch.stack([lengths, opening, closing], dim=1).tolist()):
        beyond = length - limit
        if beyond <= 0:
            rows.append(row)
            positions.append(places[None])
            continue
        stretch = limit - first - last
        if stretch < 1:
            raise InputError(
                f"Expected windows of more than the {first + last} special tokens of a text, but got windows of "
                f"{limit}: raise `max_length`."
            )
        starts = torch.tensor([*range(0, beyond, max(1, stretch // 2)), beyond])[:, None]
        shifts = torch.where(places < first, 0, torch.where(places < limit - last, starts, beyond))
        rows += [row] * len(starts)
        positions.append(places + shifts)
    joined = torch.cat(positions) if positions else torch.zeros(0, limit, dtype=torch.long)
    return Windows(torch.tensor(rows, dtype=torch.long, device=mask.device), joined.to(mask.device))


def encode_windows(encode: Encode, batch: TokenBatch, limit: int, tokens: int = WINDOW_TOKENS) -> list[Tensor]:
    """Return the hidden states of each layer ``[B, L, D]`` of long texts, averaged over the windows of each token.

    The mean is computed in at least float32 and is differentiable.
    """
    windows = plan_windows(batch.mask, batch.special, limit)
    rows, width = windows.rows[:, None], batch.mask.shape[1]
    inputs, mask = batch.inputs[rows, windows.positions], batch.mask[rows, windows.positions]  # [W, limit]
    places = rows * width + windows.positions
    counts = torch.bincount(places[mask], minlength=len(batch) * width).clamp(min=1)[:, None]  # [B * L, 1]
    sums: list[Tensor] = []
    layers: list[Tensor] = []
    for chosen, longest in longest_first(mask.sum(dim=1).tolist(), tokens):
        index = torch.tensor(chosen, device=mask.device)
        inside = mask[index, :longest]
        layers = encode(inputs[index, :longest], inside)
        if not sums:
            sums = [
                layer.new_zeros(len(counts), layer.shape[-1], dtype=torch.promote_types(layer.dtype, torch.float32))
                for layer in layers
            ]
        targets = places[index, :longest][inside]
        for total, layer in zip(sums, layers, strict=True):
            total.index_add_(0, targets, layer[inside].to(total.dtype))
    pairs = zip(sums, layers, strict=True)
    return [(total / counts).to(layer.dtype).view(len(batch), width, -1) for total, layer in pairs]


def encode_by_length(encode: Encode, inputs: Tensor, mask: Tensor) -> list[Tensor]:
    """Return the hidden states of each layer ``[B, L, D]``; texts of similar length share a pass to save padding."""
    width = mask.shape[1]
    lengths = (mask * torch.arange(1, width + 1, device=mask.device)).amax(dim=1).tolist()
    groups = group_by_length(lengths)
    parts = [
        [pad(layer, (0, 0, 0, width - longest)) for layer in encode(inputs[rows, :longest], mask[rows, :longest])]
        for rows, longest in ((rows, max(1, lengths[rows[0]])) for rows in groups)
    ]
    back = torch.tensor([row for rows in groups for row in rows], device=mask.device).argsort()
    return [torch.cat(layers)[back] for layers in zip(*parts, strict=True)]


def group_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Group rows by similar length, longest first; each split saves at least an eighth of the padded batch."""
    least = len(lengths) * max(lengths) / 8

    def cut(rows: list[int]) -> list[list[int]]:
        saved = [(len(rows) - place) * (lengths[rows[0]] - lengths[row]) for place, row in enumerate(rows)]
        place = max(range(len(rows)), key=saved.__getitem__)
        return cut(rows[:place]) + cut(rows[place:]) if saved[place] > least else [rows]

    return cut(sorted(range(len(lengths)), key=lambda row: -lengths[row]))


def longest_first(lengths: Sequence[int], tokens: int) -> Iterator[tuple[list[int], int]]:
    """Yield rows of similar length to encode together, longest first, and the length of the longest."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        size = max(1, tokens // longest)
        yield order[start : start + size], longest
        start += size
