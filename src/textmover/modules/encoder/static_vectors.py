"""Static word vectors as an encoder of token batches."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from textmover.modules.encoder.cache_folders import cached
from textmover.modules.encoder.vector_files import LAYOUT, MATRIX, MEAN, WORDS, provide
from textmover.reading import read_json
from textmover.types import InputError, TokenBatch, check_choice

UnknownWords = Literal["drop", "zero", "mean", "error"]
"""Treatment of a word without a vector: it takes no part; it gets the zero vector, whose cosine with any is 0;
it gets the mean of all vectors of the file; or it is an error."""

DESCRIPTION = "static_vectors.json"
"""File of a checkpoint that says which vectors it needs."""


def is_static(name: str) -> bool:
    """Return whether an encoder's name is a file of word vectors; other encoders are folders or names."""
    return Path(name).expanduser().is_file()


class StaticVectors:
    """Word vectors of a text file in the format of word2vec, GloVe or fastText, gzip-compressed or not.

    The rows stay in a file that is memory-mapped. Copies share everything, and a pickle holds path and hash alone.
    """

    def __init__(self, path: Path, sha256: str, folder: Path, unknown_words: UnknownWords) -> None:
        self.path = path
        self.sha256 = sha256
        self.unknown_words = unknown_words
        self._folder = folder
        self.matrix: NDArray[np.float32] = np.load(folder / MATRIX, mmap_mode="r")
        self.mean: NDArray[np.float32] = np.load(folder / MEAN)

    @classmethod
    def open(
        cls, path: Path | str, unknown_words: UnknownWords = "drop", *, sha256: str | None = None
    ) -> StaticVectors:
        """The vectors of a file, which is parsed unless the cache holds it."""
        check_choice("unknown_words", unknown_words, get_args(UnknownWords))
        path = Path(path).expanduser()
        return cls(path, *provide(path, sha256), unknown_words)

    @property
    def identity(self) -> str:
        """Name and hash of the file for the signature."""
        return f"{self.path.name}@{self.sha256[:8]}"

    @property
    def dimension(self) -> int:
        """Width ``D`` of the vectors."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.matrix)

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Row of each word."""
        words = (self._folder / WORDS).read_bytes().decode().split("\n")[:-1]
        return {word: row for row, word in enumerate(words)}

    def find(self, word: str) -> int | None:
        """Row of the word as it is written, else of the word in lower case, else ``None``."""
        row = self.vocabulary.get(word)
        return self.vocabulary.get(word.lower()) if row is None else row

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors ``[n, D]`` of ids ``[n]``, of which the number of words stands for a word without a vector."""
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
        """Write into ``folder`` which file these vectors are of; the vectors stay where they are."""
        entries = {"file": str(self.path.absolute()), "sha256": self.sha256, "unknown_words": self.unknown_words}
        (folder / DESCRIPTION).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, unknown_words: UnknownWords | None = None) -> StaticVectors:
        """The vectors that :meth:`save` named: in the cache, else in ``folder`` itself, else where they were."""
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
    """Static word vectors in the place of an encoder: one layer, nothing to train, only the rows that are needed read.

    Its state is empty, since the vectors belong to their file, and they stay float32 whatever type it is cast to.
    """

    anchor: Tensor

    whole_words = True
    layers = (0,)
    depth = 0

    def __init__(self, vectors: StaticVectors) -> None:
        super().__init__()
        self.vectors = vectors
        self.register_buffer("anchor", torch.empty(0), persistent=False)

    @property
    def dimension(self) -> int:
        """Width ``D`` of the vectors."""
        return self.vectors.dimension

    @property
    def device(self) -> torch.device:
        """Device of the output; the vectors stay on the disk."""
        return self.anchor.device

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Vectors of the tokens as the only layer, float32 ``[B, L, D]``; 0 where padded."""
        mask = batch.mask.cpu()
        vectors = torch.zeros(*mask.shape, self.dimension)
        vectors[mask] = torch.from_numpy(self.vectors.rows(batch.input_ids.cpu()[mask].numpy()))
        return [vectors.to(self.device)]
