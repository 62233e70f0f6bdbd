"""Checkpoints that are whole or absent, and the state of all random generators, so that runs can be resumed."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from textmover.checkpoints.training_run import checksum_of, read_run_checkpoint, write_run_checkpoint


class AtomicCheckpoints(TorchCheckpointIO):
    """Write Lightning's checkpoints whole and with a checksum; read local files as tensors and plain values alone."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[Path, bytes] = {}

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write a checkpoint to a local path.

        Raises:
            InputError: If it cannot be written.
        """
        self._written[Path(path).absolute()] = write_run_checkpoint(checkpoint, Path(path))

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint to go on from.

        Raises:
            InputError: If it is no local file, damaged, or no checkpoint of tensors and plain values.
        """
        return read_run_checkpoint(os.fspath(path), resume=True)

    def replaced(self, path: str | os.PathLike[str]) -> bool:
        """Whether somebody else has written a checkpoint over one that was written here."""
        own = self._written.get(Path(path).absolute())
        return own is not None and Path(path).is_file() and checksum_of(Path(path)) != own


class RandomState(pl.Callback):
    """Keeps the state of all random generators in checkpoints, so that a resumed run draws what an unbroken one would.

    Together with the place in the data (kept by the loader) and the optimiser's state (kept by Lightning), a run that
    was killed in the middle of an epoch ends with the same weights. The state is put back when the first batch of the
    resumed run starts, after everything that set-up may have drawn.
    """

    def __init__(self) -> None:
        self._restored: list[dict[str, Any]] | None = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write the state of every rank."""
        own = _state()
        states: list[Any] = [own]
        if trainer.world_size > 1:
            states = [None] * trainer.world_size
            torch.distributed.all_gather_object(states, own)
        checkpoint["random_state"] = states

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keep the state until training goes on."""
        self._restored = checkpoint.get("random_state")

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Put the state back, once."""
        if self._restored is not None and trainer.global_rank < len(self._restored):
            _restore(self._restored[trainer.global_rank])
        self._restored = None


def _state() -> dict[str, Any]:
    """State of Python's, NumPy's and PyTorch's generators, in types that need no pickle to load safely."""
    version, words, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=False)
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [
            numpy_state["state"]["key"].tolist(),
            int(numpy_state["state"]["pos"]),
            int(numpy_state["has_gauss"]),
            float(numpy_state["gauss"]),
        ],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _restore(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    key, place, has_gauss, value = state["numpy"]
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), place, has_gauss, value))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
