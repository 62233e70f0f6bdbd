"""The texts of a window of segments, each with the number of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from textmover.scoring.engine.text_chunk import TextChunk
from textmover.types import TextFeatures

Reference = str | tuple[str, ...]
"""What a hypothesis is paired with: a text, or several that are taken as one."""


class TextTable:
    """Texts by what they are called, and what was made of them."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}
        self._chunks: list[TextChunk] = []
        self._places: list[tuple[int, int]] = []

    def add(self, names: Sequence[Reference], chunk: TextChunk) -> None:
        """Take in further texts."""
        start = len(self._places)
        self.rows.update({name: start + place for place, name in enumerate(names)})
        self._places += [(len(self._chunks), place) for place in range(len(names))]
        self._chunks.append(chunk)

    def pad(self, rows: Sequence[int] | np.ndarray) -> TextFeatures:
        """Texts as a batch."""
        features = [chunk.features for chunk in self._chunks]
        return type(features[0]).pad(features, [self._places[row] for row in rows])

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text."""
        return np.concatenate([chunk.lengths for chunk in self._chunks])

    @property
    def truncated(self) -> np.ndarray:
        """Whether each text was cut."""
        return np.concatenate([chunk.truncated for chunk in self._chunks])

    @property
    def unknown(self) -> np.ndarray:
        """Tokens of each text that the encoder does not know."""
        return np.concatenate([chunk.unknown for chunk in self._chunks])
