"""Checks of a trainer's settings, and errors of losses, gradients and weights that are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.plugins.io.wrapper import _WrappingCheckpointIO

from textmover.data.datamodule import SourcesDataModule
from textmover.training.callbacks import AtomicCheckpoints
from textmover.types import InputError, plural

if TYPE_CHECKING:
    from textmover.training.stage import StageModule

PRECISIONS = (None, 32, "32", "32-true", "bf16", "bf16-mixed")
"""Values of a trainer's precision. Transport needs float32; 16-mixed would clip gradients that are still scaled."""


def check_precision(precision: Any) -> None:
    """Refuse a trainer's precision that the modules cannot be trained in."""
    if precision not in PRECISIONS:
        raise InputError(
            f"Expected trainer.precision to be 32-true or bf16-mixed, but got {precision}: leave it out and set "
            "model.init_args.bfloat16 to `yes`, which autocasts the encoder and keeps transport and losses in "
            "float32."
        )


def chosen_accelerator(named: Any) -> Any:
    """Accelerator that ``auto`` stands for: on a Mac the processor, since ratings are float64, which MPS lacks."""
    if named == "mps":
        raise InputError("Expected trainer.accelerator to be auto, cpu or gpu, but got mps, which has no float64.")
    return "cpu" if named == "auto" and torch.backends.mps.is_available() else named


def check_trainer(trainer: pl.Trainer, data: SourcesDataModule) -> None:
    """Refuse a trainer in whose precision transport is wrong, or that validates parts of its data incompletely."""
    check_precision(trainer.precision)
    limit = trainer.limit_val_batches
    if trainer.fast_dev_run or trainer.overfit_batches or not limit:
        return
    for source, part in data.judged:
        batches = -(-len(source.parts[part]) // source.validation_batch_size)
        own = max(1, -(-batches // trainer.world_size))  # of the process that has most
        if limit < (1 if isinstance(limit, float) else own):
            raise InputError(
                f"Expected validation to go through all of {data.label(source, part)}, which is judged as a whole, but "
                f"trainer.limit_val_batches is {limit} of {plural(own, 'batch', 'batches')}: leave it out, or hold "
                "back less."
            )


def check_moved(module: Any) -> None:
    """Refuse to go on with a module of this project that a fit has not changed."""
    if not getattr(module, "moved", True):
        raise InputError(
            f"Expected an optimiser step to change a weight, but none of {module.global_step} did: give more data or "
            "epochs, or raise the learning rate."
        )


def read_safely(strategy: Any) -> None:
    """Replace Lightning's own reader and writer of checkpoints, also behind plugins: whole files without code."""
    plugin = strategy.checkpoint_io
    if type(plugin) is TorchCheckpointIO:
        strategy.checkpoint_io = AtomicCheckpoints()
    elif isinstance(plugin, _WrappingCheckpointIO):  # such as AsyncCheckpointIO
        plugin.load_checkpoint = AtomicCheckpoints().load_checkpoint  # type: ignore[method-assign]
        while isinstance(plugin.checkpoint_io, _WrappingCheckpointIO):
            plugin = plugin.checkpoint_io
        if type(plugin.checkpoint_io) is TorchCheckpointIO:
            plugin._checkpoint_io = AtomicCheckpoints()


SHOWN_TEXTS, SHOWN = 2, 60
"""Texts of a batch that an error quotes, and how many characters of each."""


class NotFiniteError(InputError):
    """A loss, a gradient or a weight that is infinite or NaN: going on would ruin the weights."""


def not_finite(module: StageModule, what: str) -> NotFiniteError:
    """Build the error, with the items of the last batch and the texts by which they are found in the files."""
    told = ""
    if module._batch is not None:
        positions, source = module._batch.positions.tolist(), module.data.sources[module._batch.source]
        texts = [source.texts(source.items[at])[0] for at in positions[:SHOWN_TEXTS]]
        shown = " and ".join(repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…") for text in texts)
        told = f" ({source.name}: items {positions} of the training part, the first of them {shown})"
    return NotFiniteError(f"Expected {what} at step {module.global_step}{told}: lower the learning rate.")
