"""What makes runs resumable: checkpoints that are whole or absent, and the state of all random generators."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from textmover.types import InputError

__all__ = ["AtomicCheckpoints", "RandomState"]


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes Lightning's checkpoints beside and renames them, so that a kill or a full disk leaves the earlier one."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write a checkpoint to a local path.

        Raises:
            InputError: If it cannot be written.
        """
        target = Path(path)
        beside = target.with_name(f".{target.name}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as stream:
                torch.save(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, target)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
            reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
            raise InputError(
                f"Expected to be able to write the checkpoint {target}, but got: {reason}. Make room."
            ) from error
        finally:
            beside.unlink(missing_ok=True)


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
