"""Lightning callbacks: atomic checkpoints, random states for resuming, and weight averaging."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from textmover.checkpoints.run_checkpoints import checksum_of, read_run_checkpoint, write_run_checkpoint
from textmover.types import InputError


class AtomicCheckpoints(TorchCheckpointIO):
    """Write Lightning's checkpoints whole and with a checksum; read local files as tensors and plain values alone."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[Path, bytes] = {}

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write a checkpoint to a local path."""
        self._written[Path(path).absolute()] = write_run_checkpoint(checkpoint, Path(path))

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint to go on from."""
        return read_run_checkpoint(os.fspath(path), resume=True)

    def replaced(self, path: str | os.PathLike[str]) -> bool:
        """Return whether somebody else has written a checkpoint over one that was written here."""
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
    numpy_state: Any = np.random.get_state()
    _, key, place, has_gauss, value = numpy_state
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [key.tolist(), int(place), int(has_gauss), float(value)],
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


class WeightAverage(WeightAveraging):
    r"""Keeps an average of the weights beside those that are trained; validation, checkpoints and export see it.

    After every optimiser step :math:`\bar w \leftarrow d\,\bar w + (1 - d)\,w` (exponential moving average), or the
    plain mean :math:`\bar w \leftarrow \bar w + (w - \bar w)/(n + 1)` if there is no decay. The first averaged step
    sets it. Statistics that move along, such as a corpus mean, are averaged in the same way, since they belong to the
    encoder of the same step; whole numbers and marks are those of the last step.

    Until the first averaged step, validation sees the weights as they are. From then on a checkpoint holds the average
    as ``state_dict`` and the trained weights beside it, from which a resumed run goes on exactly; when training ends,
    the module has the average.

    Args:
        decay: ``d``, at least 0 and below 1; ``None`` for the plain mean.
        start: Share of all steps that pass before averaging begins.

    Raises:
        InputError: If a value is out of range or, when training starts, the strategy shards weights, or the number of
            steps is not known although ``start`` asks for it.

    Reference:
        Izmailov et al. 2018, Averaging Weights Leads to Wider Optima and Better Generalization (the plain mean of the
        last part of a run); Polyak and Juditsky 1992, Acceleration of Stochastic Approximation by Averaging.
    """

    def __init__(self, decay: float | None = 0.999, start: float = 0.0) -> None:
        if decay is not None and not 0 <= decay < 1:
            raise InputError(
                f"Expected `decay` to be at least 0 and below 1, but got {decay}: null (None) gives the plain mean."
            )
        if not 0 <= start < 1:
            raise InputError(f"Expected `start` to be at least 0 and below 1, but got {start}: it is a share of steps.")
        super().__init__(use_buffers=True, multi_avg_fn=self._move)
        self.decay, self.start = decay, start
        self._first = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse strategies that shard weights: no rank then has what it would have to average."""
        if isinstance(trainer.strategy, (DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy)):
            raise InputError(
                f"Expected a strategy that keeps whole weights for averaging, but got "
                f"{type(trainer.strategy).__name__}: leave the callback out, or train with ddp."
            )
        if stage == "fit":
            self._average_model, self._latest_update_step = None, 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Allocate the average, unless that of a resumed run is there."""
        if self._average_model is None:
            self._copy(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find the first step that is averaged."""
        average = self._average_model
        if average is not None and average.module.state_dict().keys() != pl_module.state_dict().keys():
            raise InputError(
                "Expected a module whose parts stay the same, to average its weights, but training added or removed "
                "some: do that in its `setup`."
            )
        if not self.start:
            return
        steps = trainer.estimated_stepping_batches
        if steps == float("inf"):
            raise InputError(
                "Expected a known number of steps to start averaging after a share of them, but training has no end: "
                "set max_epochs or max_steps."
            )
        self._first = int(self.start * steps)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Return whether a step, counted from 0, is averaged."""
        return step_idx is not None and step_idx >= self._first

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the average in place of the weights while fitting, as soon as there is one."""
        if self._applies(trainer):
            super().on_validation_epoch_start(trainer, pl_module)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Go back to the weights that are trained."""
        if self._applies(trainer):
            super().on_validation_epoch_end(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave the average in the module."""
        if self._applies(trainer):
            super().on_train_end(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write the average as the state, once there is one, and what a resumed run needs beside it."""
        current = checkpoint["state_dict"]
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if self._average_model is not None and not self._averaged:
            checkpoint["state_dict"] = current

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Go on with average and trained weights; outside of a fit the average, which is the state, is all there is."""
        if trainer.state.fn == TrainerFn.FITTING:
            self._copy(trainer, pl_module)
            super().on_load_checkpoint(trainer, pl_module, checkpoint)

    def _copy(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the module, later than Lightning does: only now its own set-up is over, and it is whole."""
        with warnings.catch_warnings():
            # It warns of modules that could shard their weights; whether they do is checked in `setup`.
            warnings.filterwarnings("ignore", message=".*overrides the configure_model callback.*")
            super().setup(trainer, pl_module, "fit")

    @property
    def _averaged(self) -> int:
        return 0 if self._average_model is None else int(self._average_model.n_averaged)

    def _applies(self, trainer: pl.Trainer) -> bool:
        # Outside of a fit the module holds what its user wants to validate, such as the weights of the best checkpoint.
        return self._averaged > 0 and trainer.state.fn == TrainerFn.FITTING

    @torch.no_grad()
    def _move(self, averages: Sequence[Tensor], values: Sequence[Tensor], averaged: Tensor) -> None:
        """Move averages of one dtype towards the values of a step."""
        if averages[0].is_floating_point():
            share = 1 / (int(averaged) + 1) if self.decay is None else 1 - self.decay
            torch._foreach_lerp_(list(averages), list(values), share)
        else:
            torch._foreach_copy_(list(averages), list(values))
