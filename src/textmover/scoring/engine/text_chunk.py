"""Texts that were encoded together, as the engine keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textmover.types import PackedFeatures


@dataclass(frozen=True, eq=False)
class TextChunk:
    """Features of texts, and what the engine has to know of them.

    Attributes:
        features: What the metric keeps of them.
        lengths: Tokens of each, int64 ``[N]``.
        truncated: Whether each was cut, bool ``[N]``.
        unknown: Tokens of each that the encoder does not know, int64 ``[N]``.
    """

    features: PackedFeatures
    lengths: np.ndarray
    truncated: np.ndarray
    unknown: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Memory that the features hold, in bytes."""
        return self.features.nbytes

    def select(self, rows: Sequence[int]) -> TextChunk:
        """The texts of the given rows."""
        return TextChunk(self.features.select(rows), self.lengths[rows], self.truncated[rows], self.unknown[rows])
