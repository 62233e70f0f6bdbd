"""A table of token vectors in the place of an encoder: the embeddings of each token by itself."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError, TokenBatch

POSITIONS = 8
"""Places of a text over which a token's vector is averaged, since the embeddings of a transformer tell places, too."""

TOKENS = 512
"""Tokens that are read at a time."""


class TokenTable(nn.Module):
    """Vectors of the tokens of a vocabulary, int8 with a scale for each: one layer, and nothing to train.

    A text's vectors are a look-up, whatever stands around a token, so neither transformers nor a back-end is needed.
    """

    rows: Tensor
    scales: Tensor

    whole_words = False
    layers = (0,)
    depth = 0

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, dimension, dtype=torch.int8))
        self.register_buffer("scales", torch.zeros(size))

    @classmethod
    def of(cls, vectors: Tensor) -> TokenTable:
        """Round vectors ``[V, D]`` to a table: each to the 255 steps between its largest entry and its negative."""
        table = cls(*vectors.shape)
        table.scales = vectors.abs().amax(dim=1).clamp(min=1e-12).float() / 127
        table.rows = (vectors / table.scales[:, None]).round().to(torch.int8)
        return table

    @property
    def dimension(self) -> int:
        """Width ``D`` of the vectors."""
        return self.rows.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the table."""
        return self.rows.device

    def fingerprint(self) -> str:
        """Hash of the table, for its identity."""
        return hashlib.sha256(self.rows.numpy().tobytes() + self.scales.numpy().tobytes()).hexdigest()

    def _apply(self, fn: Any, recurse: bool = True) -> TokenTable:
        """Move the table; its types stay, whatever it is cast to."""
        moved = fn(torch.empty(0, device=self.rows.device)).device
        self.rows, self.scales = self.rows.to(moved), self.scales.to(moved)
        return self

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Vectors of the tokens as the only layer, float32 ``[B, L, D]``."""
        ids = batch.input_ids
        return [self.rows[ids].float() * self.scales[ids].unsqueeze(-1)]


@torch.no_grad()
def token_vectors(encoder: object, size: int) -> Tensor:
    """Embeddings of each of ``size`` tokens, the mean over places, float32 ``[V, D]``."""
    if not isinstance(encoder, Encoder) or encoder.layers != (0,):
        layers = ", ".join(map(str, encoder.layers)) if isinstance(encoder, Encoder) else "those of a table"
        raise InputError(
            f"Expected a metric that reads layer 0 of its encoder to make a table of, but got layer {layers}: above it "
            "a token's vector depends on the rest of the text, so train one with `layer: 0`."
        )
    found = []
    for start in range(0, size, TOKENS):
        ids = torch.arange(start, min(start + TOKENS, size), device=encoder.device)[:, None].expand(-1, POSITIONS)
        (states,) = encoder.graph()(ids, None)
        found.append(states.float().mean(dim=1).cpu())
    return torch.cat(found)


def main_directions(vectors: Tensor, dimension: int) -> Tensor:
    """Vectors ``[V, D]`` in the ``dimension`` orthogonal directions in which their squares are largest.

    Products of vectors lose what lies in the other directions, most of which tells rare tokens from each other.
    """
    if not 1 <= dimension <= vectors.shape[1]:
        raise InputError(
            f"Expected `dimension` to be between 1 and {vectors.shape[1]}, the vectors' width, but got {dimension}."
        )
    exact = vectors.double()
    return (exact @ torch.linalg.eigh(exact.T @ exact).eigenvectors[:, -dimension:]).float()
