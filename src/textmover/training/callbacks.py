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

from textmover.checkpoints.lightning_checkpoints import checksum_of, read_run_checkpoint, write_run_checkpoint
from textmover.types import InputError


class AtomicCheckpoints(TorchCheckpointIO):
    """Checkpoint plugin: atomic writes with a checksum; loads only tensors and plain values from local files."""

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
        """Read a checkpoint to resume from."""
        return read_run_checkpoint(os.fspath(path), resume=True)

    def replaced(self, path: str | os.PathLike[str]) -> bool:
        """Return whether another process has overwritten a checkpoint that this object wrote."""
        checksum = self._written.get(Path(path).absolute())
        return checksum is not None and Path(path).is_file() and checksum_of(Path(path)) != checksum


class RandomState(pl.Callback):
    """Save the state of all random generators in checkpoints, so that a resumed run draws the same numbers.

    The loader saves the position in the data and Lightning saves the optimiser state. Together they let a run that was
    killed in the middle of an epoch end with the same weights. The state is restored at the first batch of the resumed
    run, after any draws of the set-up.
    """

    def __init__(self) -> None:
        self._restored: list[dict[str, Any]] | None = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save the state of every rank."""
        state = _state()
        states: list[Any] = [state]
        if trainer.world_size > 1:
            states = [None] * trainer.world_size
            torch.distributed.all_gather_object(states, state)
        checkpoint["random_state"] = states

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Hold the state until training resumes."""
        self._restored = checkpoint.get("random_state")

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Restore the state once."""
        if self._restored is not None and trainer.global_rank < len(self._restored):
            _restore(self._restored[trainer.global_rank])
        self._restored = None


def _state() -> dict[str, Any]:
    """Return the state of Python's, NumPy's and PyTorch's generators in types that load without pickle."""
    version, words, gauss = random.getstate()
    numpy_state: Any = np.random.get_state()
    _, key, position, has_gauss, value = numpy_state
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [key.tolist(), int(position), int(has_gauss), float(value)],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _restore(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    key, position, has_gauss, value = state["numpy"]
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, has_gauss, value))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


class WeightAverage(WeightAveraging):
    r"""Average the weights during training; validation, checkpoints and export use the average.

    After every optimiser step :math:`\bar w \leftarrow d\,\bar w + (1 - d)\,w` (exponential moving average), or the
    plain mean :math:`\bar w \leftarrow \bar w + (w - \bar w)/(n + 1)` without decay. The first averaged step
    initialises the average. Floating-point statistics, such as a corpus mean, are averaged in the same way, since they
    belong to the encoder of the same step. Integer and boolean buffers are those of the last step.

    Until the first averaged step, validation uses the current weights. After it, a checkpoint holds the average as
    ``state_dict`` and separately the trained weights, from which a resumed run continues exactly. When training ends,
    the module holds the average.

    Args:
        decay: ``d``, at least 0 and below 1; ``None`` for the plain mean.
        start: Share of all steps before averaging begins.

    Raises:
        InputError: If a value is out of range. When training starts: if the strategy shards weights, or if ``start``
            is set and the number of steps is unknown.

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
        self._resumed: dict[str, Tensor] = {}  # state of a resumed run before the module prepares it
        self._buffers: list[Tensor] = []  # of the average before validation

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse strategies that shard weights: no rank then has all weights to average."""
        if isinstance(trainer.strategy, (DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy)):
            raise InputError(
                f"Expected a strategy that keeps whole weights for averaging, but got "
                f"{type(trainer.strategy).__name__}: leave the callback out, or train with ddp."
            )
        if stage == "fit":
            self._average_model, self._latest_update_step = None, 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Allocate the average, unless a resumed run has loaded it."""
        resumed = self._average_model is not None
        self._resumed = {name: one.clone() for name, one in pl_module.state_dict().items()} if resumed else {}
        if not resumed:
            self._copy(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compute the first step that is averaged; take over values that a resumed run has fitted to other data."""
        average: Any = self._average_model
        if average is not None and average.module.state_dict().keys() != pl_module.state_dict().keys():
            raise InputError(
                "Expected the same weights throughout training to average them, but some were added or removed: do "
                "that in the module's `setup`."
            )
        state = pl_module.state_dict()
        for name in (one for one, before in self._resumed.items() if not torch.equal(before, state[one])):
            average.module.state_dict()[name].copy_(state[name])
        self._resumed = {}
        if not self.start:
            return
        steps = trainer.estimated_stepping_batches
        if steps == float("inf"):
            raise InputError(
                "Expected a limit on training steps, since `start` is a share of them, but got none: set max_epochs "
                "or max_steps."
            )
        self._first = int(self.start * steps)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Return whether a step, counted from 0, is averaged."""
        return step_idx is not None and step_idx >= self._first

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Swap in the average for validation while fitting."""
        if self._applies(trainer):
            super().on_validation_epoch_start(trainer, pl_module)
            self._buffers = [one.clone() for one in pl_module.buffers()]

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave the average in place: the module, whose turn comes later, calibrates it in this hook."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the trained weights; they share what validation has fitted, which the next steps would average."""
        if self._applies(trainer):
            found = [one.clone() for one in pl_module.buffers()]
            super().on_validation_epoch_end(trainer, pl_module)
            for one, before, now in zip(pl_module.buffers(), self._buffers, found, strict=True):
                if not torch.equal(before, now):
                    one.copy_(now)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the average into the module."""
        if self._applies(trainer):
            super().on_train_end(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save the average as the state, once it exists, and the entries that a resumed run needs."""
        current = checkpoint["state_dict"]
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if self._average_model is not None and not self._averaged:
            checkpoint["state_dict"] = current

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Load average and trained weights to resume a fit; otherwise the average in ``state_dict`` is enough."""
        if trainer.state.fn == TrainerFn.FITTING:
            self._copy(trainer, pl_module)
            super().on_load_checkpoint(trainer, pl_module, checkpoint)

    def _copy(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the module, later than Lightning does, when the module's own set-up is complete."""
        with warnings.catch_warnings():
            # Lightning warns about modules that could shard weights; `setup` checks whether they do.
            warnings.filterwarnings("ignore", message=".*overrides the configure_model callback.*")
            super().setup(trainer, pl_module, "fit")

    @property
    def _averaged(self) -> int:
        return 0 if self._average_model is None else int(self._average_model.n_averaged)

    def _applies(self, trainer: pl.Trainer) -> bool:
        # Outside a fit, validate the weights that the user loaded, such as those of the best checkpoint.
        return self._averaged > 0 and trainer.state.fn == TrainerFn.FITTING

    @torch.no_grad()
    def _move(self, averages: Sequence[Tensor], values: Sequence[Tensor], averaged: Tensor) -> None:
        """Move averages of one dtype towards the current values."""
        if averages[0].is_floating_point():
            share = 1 / (int(averaged) + 1) if self.decay is None else 1 - self.decay
            torch._foreach_lerp_(list(averages), list(values), share)
        else:
            torch._foreach_copy_(list(averages), list(values))
