"""Tokens outside an encoder's vocabulary, which are distinguished by their spelling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from textmover.functional.cost import orthogonal_axes
from textmover.types import TokenBatch, TokenEmbeddings

Features = TypeVar("Features", bound=Any)
"""Dataclass of token or word vectors with fields ``vectors``, ``mask`` and ``unknown``."""


NUMBER_SHARE = 0.7
"""Share of a number's squared length on the axis of its value. On 5,360 ratings of WMT15-16, untrained `twmd` agrees
best with it where there are numbers (.665; without .659; with 1, .665), and `textmover-general` judges other numbers
neither too hard nor too mildly."""


def surface_number(surface: str) -> int:
    """Return a positive number for a spelling, the same in every process."""
    digest = hashlib.blake2b(surface.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 | 1


def with_unknown(batch: TokenBatch, found: Sequence[tuple[int, int, str, str]]) -> TokenBatch:
    """Mark unknown tokens in a batch, given row, position, key and spelling (empty within a word) of each, in order."""
    if not found:
        return batch
    unknown = torch.zeros_like(batch.input_ids)
    words: list[list[str]] = [[] for _ in batch.texts]
    for row, place, key, written in found:
        unknown[row, place] = surface_number(key)
        words[row] += [written] if written else []
    return replace(batch, unknown=unknown, unknown_words=tuple(map(tuple, words)))


def separate_unknown(references: Features, hypotheses: Features) -> tuple[Features, Features]:
    """Make each unknown token equal to tokens of the same spelling and orthogonal to all others; so, in part, numbers.

    Numbers of the same value have a cosine of at least :data:`NUMBER_SHARE`, others at most of the rest.
    """
    sides = references, hypotheses
    kinds: list[Tensor | None] = []  # numbers for spellings, negative ones for values
    for one in sides:
        unknown, numbers = one.unknown, getattr(one, "numbers", None)
        joined = unknown if unknown is None or numbers is None else unknown.where(unknown != 0, -numbers)
        kinds.append(-numbers if joined is None and numbers is not None else joined)
    # Texts tokenised together with texts that have such tokens carry zeros.
    if not any(one is not None and one.any() for one in kinds):
        return sides
    zeros = [torch.zeros_like(one.mask, dtype=torch.long) for one in sides]
    first, second = (one if kind is None else kind for kind, one in zip(kinds, zeros, strict=True))
    width = 0 if references is hypotheses else second.shape[1]  # a text beside itself is computed once
    own, others = orthogonal_axes(
        references.vectors, hypotheses.vectors[:, :width], first, second[:, :width], NUMBER_SHARE
    )
    references, hypotheses = (
        replace(one, vectors=vectors, unknown=zero if one.unknown is None else one.unknown)
        for one, vectors, zero in zip(sides, (own, others if width else own), zeros, strict=True)
    )
    return references, hypotheses


def token_keys(tokens: TokenEmbeddings) -> Tensor:
    """Return keys that identify tokens: their ids, or a number below -1 for unknown ones, int64 ``[B, L]``."""
    ids = tokens.input_ids
    return ids if tokens.unknown is None else ids.where(tokens.unknown == 0, -1 - tokens.unknown)
