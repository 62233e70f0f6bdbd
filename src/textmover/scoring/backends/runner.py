"""What the runners of all exported graphs share: how they are called, copied and sent to other processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.modules.forking import renew_in_child
from textmover.scoring.backends.names import version
from textmover.scoring.engine.threads import worker_count
from textmover.types import RowRunner


class ArtefactRunner(ABC):
    """Runs the graph of an artefact; an :class:`~textmover.types.EncoderRunner`.

    It never changes, so copies are the same object. A pickle holds the folder's name, and compiles the graph again
    where it is read: it serves other processes of the same computer.

    Args:
        folder: The artefact.
        precision: Arithmetic: ``exact``, ``bf16`` or ``int8``.

    Attributes:
        name: Back-end and its version.
        streams: How many calls at a time pay: as many as the engine has workers.
        threads: Threads of all of them together, those that torch had when the runner was made.
    """

    backend: str
    concurrent = True

    def __init__(self, folder: Path, precision: str) -> None:
        self.folder, self._precision = folder, precision
        self.name = f"{self.backend}-{version(self.backend)}"
        self.streams, self.threads = worker_count(torch.device("cpu")), torch.get_num_threads()
        renew_in_child(self)

    @property
    def precision(self) -> str:
        """The arithmetic."""
        return self._precision

    @property
    def row_runner(self) -> RowRunner | None:
        """The same, where its graph reads several short texts side by side."""
        return None

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Hidden states of the layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``."""
        length = input_ids.shape[1]
        if length == 1:  # graphs take two tokens at least
            input_ids, mask = (torch.nn.functional.pad(one, (0, 1)) for one in (input_ids, mask))
        ids, present = (one.long().contiguous().numpy() for one in (input_ids, mask))
        return [torch.from_numpy(one)[:, :length] for one in self.run(ids, present)]

    @abstractmethod
    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Arrays of the hidden states, which nothing else writes to."""

    def forked(self) -> None:
        """Make what computes anew in a forked child, where it has one thread."""
        self.streams = self.threads = 1
        self.renew()

    @abstractmethod
    def renew(self) -> None:
        """Let go of what computes in threads of the parent, and make it again when it is asked for."""

    def __deepcopy__(self, _: dict[int, Any]) -> ArtefactRunner:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self._precision)
