"""Values and flags of many pairs, collected batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.types import PairScores

VALUES = ("score", "precision", "recall", "f")


class PairTable:
    """Values and flags of pairs.

    Batches stay on their device until the first value is asked for, so that a GPU is waited for once.

    Args:
        size: Number of pairs.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows: list[np.ndarray] = []
        self._batches: list[PairScores] = []
        self._flags: dict[str, np.ndarray] = {}

    def put(self, rows: Sequence[int], scores: PairScores, flags: Mapping[str, np.ndarray] | None = None) -> None:
        """Take in the scores of a batch, and flags that were found elsewhere."""
        self._rows.append(np.asarray(rows, dtype=np.int64))
        self._batches.append(scores)
        for name, marked in (flags or {}).items():
            self._flags.setdefault(name, np.zeros(self.size, dtype=bool))[rows] = marked

    def put_flag(self, name: str, marked: np.ndarray) -> None:
        """Take in a flag of all pairs."""
        self._flags[name] = marked

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Values by name, float64 ``[size]``; NaN where a batch did not have them."""
        named: list[dict[str, Any]] = [
            {name: getattr(batch, name) for name in VALUES} | dict(batch.components) for batch in self._batches
        ]
        names = dict.fromkeys(name for one in named for name, tensor in one.items() if tensor is not None)
        return {name: self._gathered([one.get(name) for one in named], np.nan, np.float64) for name in names}

    @property
    def flags(self) -> dict[str, np.ndarray]:
        """Flags by name, bool ``[size]``; False where a batch did not have them."""
        names = dict.fromkeys(name for batch in self._batches for name in batch.flags)
        found = {
            name: self._gathered([batch.flags.get(name) for batch in self._batches], False, bool) for name in names
        }
        return found | self._flags

    def _gathered(self, tensors: Sequence[Tensor | None], missing: Any, dtype: type) -> np.ndarray:
        gathered: np.ndarray = np.full(self.size, missing, dtype=dtype)
        there = [(rows, tensor) for rows, tensor in zip(self._rows, tensors, strict=True) if tensor is not None]
        if there:
            gathered[np.concatenate([rows for rows, _ in there])] = torch.cat([one for _, one in there]).cpu().numpy()
        return gathered
