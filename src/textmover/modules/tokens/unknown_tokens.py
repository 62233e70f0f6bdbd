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
    """Make each unknown token equal to tokens of the same spelling and orthogonal to all others."""
    sides = references, hypotheses
    # Texts tokenised together with texts that have unknown tokens carry zeros.
    if not any(one.unknown is not None and one.unknown.any() for one in sides):
        return sides
    first, second = (
        torch.zeros_like(one.mask, dtype=torch.long) if one.unknown is None else one.unknown for one in sides
    )
    vectors = orthogonal_axes(references.vectors, hypotheses.vectors, first, second)
    return (
        replace(references, vectors=vectors[0], unknown=first),
        replace(hypotheses, vectors=vectors[1], unknown=second),
    )


def token_keys(tokens: TokenEmbeddings) -> Tensor:
    """Return keys that identify tokens: their ids, or a number below -1 for unknown ones, int64 ``[B, L]``."""
    ids = tokens.input_ids
    return ids if tokens.unknown is None else ids.where(tokens.unknown == 0, -1 - tokens.unknown)
