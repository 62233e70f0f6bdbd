"""Static word vectors and tables of token vectors, usable as encoders."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from textmover.modules.encoder.conversion_cache import cached
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.vector_files import LAYOUT, MATRIX, MEAN, WORDS, cached_vectors
from textmover.safe_reading import expanded, read_json
from textmover.types import InputError, TokenBatch, check_choice

UnknownWords = Literal["drop", "zero", "mean", "error"]
"""Treatment of a word without a vector: drop it, use the zero vector (cosine 0 with any other), use the mean of all
vectors of the file, or raise an error."""

DESCRIPTION = "static_vectors.json"  # file of a checkpoint that names its vector file


def is_static(name: str) -> bool:
    """Return whether an encoder is a file of word vectors; other encoders are folders or names."""
    return expanded(name).is_file()


class StaticVectors:
    """Word vectors of a text file in the format of word2vec, GloVe or fastText, optionally gzip-compressed.

    The rows are memory-mapped from a file. Copies share all data, and a pickle holds only path and hash.
    """

    def __init__(self, path: Path, sha256: str, folder: Path, unknown_words: UnknownWords) -> None:
        self.path = path
        self.sha256 = sha256
        self.identity = f"{path.name}@{sha256[:8]}"  # name and hash of the file for the signature
        self.unknown_words = unknown_words
        self._folder = folder
        self.matrix: NDArray[np.float32] = np.load(folder / MATRIX, mmap_mode="r")
        self.mean: NDArray[np.float32] = np.load(folder / MEAN)
        self.dimension = self.matrix.shape[1]  # width ``D`` of the vectors

    @classmethod
    def open(
        cls, path: Path | str, unknown_words: UnknownWords = "drop", *, sha256: str | None = None
    ) -> StaticVectors:
        """Open the vectors of a file; parse it unless it is cached."""
        check_choice("unknown_words", unknown_words, get_args(UnknownWords))
        path = expanded(path)
        return cls(path, *cached_vectors(path, sha256), unknown_words)

    def __len__(self) -> int:
        return len(self.matrix)

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Row index of each word."""
        words = (self._folder / WORDS).read_bytes().decode().split("\n")[:-1]
        return {word: row for row, word in enumerate(words)}

    def find(self, word: str) -> int | None:
        """Return the row index of the word as written, else in lower case, else ``None``."""
        row = self.vocabulary.get(word)
        return self.vocabulary.get(word.lower()) if row is None else row

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors ``[n, D]`` of ids ``[n]``; the id ``len(self)`` is a word without a vector."""
        if ids.size and not 0 <= ids.min() <= ids.max() <= len(self):
            wrong = ids[(ids < 0) | (ids > len(self))][0]
            raise ValueError(f"Expected ids of at most {len(self)}, the number of words, but got {wrong}.")
        known = ids < len(self)
        vectors = np.zeros((len(ids), self.dimension), dtype=np.float32)
        vectors[known] = self.matrix[ids[known]]
        if self.unknown_words == "mean":
            vectors[~known] = self.mean
        return vectors

    def save(self, folder: Path) -> None:
        """Write path and hash of the vector file into ``folder``, not the vectors themselves."""
        entries = {"file": str(self.path.absolute()), "sha256": self.sha256, "unknown_words": self.unknown_words}
        (folder / DESCRIPTION).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, unknown_words: UnknownWords | None = None) -> StaticVectors:
        """Load the vectors that :meth:`save` named, from the cache, else ``folder``, else their original path."""
        entries = read_json(folder / DESCRIPTION)
        path, sha256 = Path(entries["file"]), entries["sha256"]
        if cached(LAYOUT, sha256) is None:
            places = [place for place in (folder / path.name, path) if place.is_file()]
            if not places:
                raise InputError(
                    f"Expected the word vectors {path} (SHA-256 {sha256}) that {folder} was made with, but there is no "
                    f"such file: put it there, or into {folder}."
                )
            path = places[0]
        return cls.open(path, unknown_words or entries["unknown_words"], sha256=sha256)

    def __deepcopy__(self, memo: dict[int, Any]) -> StaticVectors:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(StaticVectors.open, sha256=self.sha256), (self.path.absolute(), self.unknown_words)


class StaticEncoder(nn.Module):
    """Encoder of static word vectors: one layer, no trainable weights; only the required rows are read.

    Its state dict is empty, since the vectors stay in their file. They stay float32 after casts.
    """

    anchor: Tensor

    whole_words = True
    layers = (0,)
    depth = 0

    def __init__(self, vectors: StaticVectors) -> None:
        super().__init__()
        self.vectors, self.dimension = vectors, vectors.dimension
        self.register_buffer("anchor", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        """Device of the output; the vectors stay on disk."""
        return self.anchor.device

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Return the token vectors as the only layer, float32 ``[B, L, D]``; 0 where padded."""
        mask = batch.mask.cpu()
        vectors = torch.zeros(*mask.shape, self.dimension)
        vectors[mask] = torch.from_numpy(self.vectors.rows(batch.input_ids.cpu()[mask].numpy()))
        return [vectors.to(self.device)]


POSITIONS = 8
"""Positions over which a token's embedding is averaged, since a transformer's embeddings depend on the position."""

TOKENS = 512  # tokens per forward pass


class TokenTable(nn.Module):
    """Look-up table of token vectors in int8 with one scale per token; one layer, no training."""

    rows: Tensor
    scales: Tensor

    whole_words = False
    layers = (0,)
    depth = 0

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension  # width ``D`` of the vectors
        self.register_buffer("rows", torch.zeros(size, dimension, dtype=torch.int8))
        self.register_buffer("scales", torch.zeros(size))

    @classmethod
    def of(cls, vectors: Tensor) -> TokenTable:
        """Quantise vectors ``[V, D]``, each to 255 steps between minus and plus its largest absolute entry."""
        table = cls(*vectors.shape)
        table.scales = vectors.abs().amax(dim=1).clamp(min=1e-12).float() / 127
        table.rows = (vectors / table.scales[:, None]).round().to(torch.int8)
        return table

    @property
    def device(self) -> torch.device:
        """Device of the table."""
        return self.rows.device

    def fingerprint(self) -> str:
        """Return the SHA-256 of the table, for its identity."""
        return hashlib.sha256(self.rows.numpy().tobytes() + self.scales.numpy().tobytes()).hexdigest()

    def _apply(self, fn: Any, recurse: bool = True) -> TokenTable:
        """Move the table to another device; casts do not change its dtypes."""
        moved = fn(torch.empty(0, device=self.rows.device)).device
        self.rows, self.scales = self.rows.to(moved), self.scales.to(moved)
        return self

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Return the token vectors as the only layer, float32 ``[B, L, D]``."""
        ids = batch.input_ids
        # In half the time of `self.rows[ids]`.
        rows = self.rows.index_select(0, ids.flatten()).view(*ids.shape, self.dimension)
        return [rows.float() * self.scales[ids].unsqueeze(-1)]


@torch.no_grad()
def token_vectors(encoder: object, size: int) -> Tensor:
    """Return the embeddings of the first ``size`` tokens, averaged over positions, float32 ``[V, D]``."""
    if not isinstance(encoder, Encoder) or encoder.layers != (0,):
        layers = ", ".join(map(str, encoder.layers)) if isinstance(encoder, Encoder) else "those of a table"
        raise InputError(
            f"Expected a metric that reads layer 0 of its encoder to make a table of, but got layer {layers}: above it "
            "a token's vector depends on the rest of the text, so train one with `layer: 0`."
        )
    chunks = []
    for start in range(0, size, TOKENS):
        ids = torch.arange(start, min(start + TOKENS, size), device=encoder.device)[:, None].expand(-1, POSITIONS)
        (states,) = encoder.graph()(ids, None)
        chunks.append(states.float().mean(dim=1).cpu())
    return torch.cat(chunks)


def main_directions(vectors: Tensor, dimension: int) -> Tensor:
    """Project vectors ``[V, D]`` onto the ``dimension`` orthogonal directions with the largest sum of squares.

    Inner products lose the other directions, most of which distinguish rare tokens.
    """
    if not 1 <= dimension <= vectors.shape[1]:
        raise InputError(
            f"Expected `dimension` to be between 1 and {vectors.shape[1]}, the vectors' width, but got {dimension}."
        )
    exact = vectors.double()
    return (exact @ torch.linalg.eigh(exact.T @ exact).eigenvectors[:, -dimension:]).float()
