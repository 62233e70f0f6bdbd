"""Checks of trainer settings and of checkpoints to resume from, and modules loaded from checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, WeightAveraging
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.plugins.io.wrapper import _WrappingCheckpointIO
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor

from textmover.checkpoints.encoder_state import encoder_misfit
from textmover.checkpoints.lightning_checkpoints import metric_entry, read_run_checkpoint
from textmover.data.datamodule import SourcesDataModule
from textmover.training.callbacks import AtomicCheckpoints
from textmover.types import InputError, plural

if TYPE_CHECKING:
    from textmover.training.base_module import BaseTrainingModule

logger = logging.getLogger(__name__)

PRECISIONS = (None, 32, "32", "32-true", "bf16", "bf16-mixed")
"""Supported trainer precisions. Transport needs float32; 16-mixed would clip gradients before unscaling them."""


def check_precision(precision: Any) -> None:
    """Refuse a trainer precision that the modules do not support."""
    if precision not in PRECISIONS:
        raise InputError(
            f"Expected trainer.precision to be 32-true or bf16-mixed, but got {precision}: leave it out and set "
            "model.init_args.bfloat16 to `yes`, which autocasts the encoder and keeps transport and losses in "
            "float32."
        )


def chosen_accelerator(named: Any) -> Any:
    """Resolve ``auto``: the CPU on a Mac, since ratings are float64, which MPS lacks."""
    if named == "mps":
        raise InputError("Expected trainer.accelerator to be auto, cpu or gpu, but got mps, which has no float64.")
    return "cpu" if named == "auto" and torch.backends.mps.is_available() else named


def check_trainer(trainer: pl.Trainer, data: SourcesDataModule) -> None:
    """Refuse an unsupported precision, Lightning's samplers, and an incomplete validation by ``limit_val_batches``."""
    check_precision(trainer.precision)
    if trainer.world_size > 1 and trainer._accelerator_connector.use_distributed_sampler:
        raise InputError(
            f"Expected trainer.use_distributed_sampler to be False with {trainer.world_size} processes, but got True: "
            "set it to False, since the data module distributes the batches."
        )
    limit = trainer.limit_val_batches
    if trainer.fast_dev_run or trainer.overfit_batches or not limit:
        return
    for source, part in data.judged:
        batches = -(-len(source.parts[part]) // source.validation_batch_size)
        most = max(1, -(-batches // trainer.world_size))  # of the process with the most batches
        if limit < (1 if isinstance(limit, float) else most):
            raise InputError(
                f"Expected validation to go through all of {data.label(source, part)}, which is judged as a whole, but "
                f"trainer.limit_val_batches is {limit} of {plural(most, 'batch', 'batches')}: leave it out, or hold "
                "back less."
            )


def validation_is_due(trainer: pl.Trainer | None) -> bool:
    """Return whether a training batch is ending that a validation follows."""
    loop = None if trainer is None or not trainer.training else trainer.fit_loop.epoch_loop
    if loop is None or loop.batch_progress.current.processed == loop.batch_progress.current.completed:
        return False
    return loop._should_check_val_fx(loop.trainer.fit_loop._data_fetcher)  # type: ignore[arg-type]


def validate(trainer: pl.Trainer) -> None:
    """Make the validation that a resumed checkpoint was written before: Lightning would leave it out."""
    loop = trainer.fit_loop.epoch_loop.val_loop
    trainer.validating, loop.restarting = True, False
    loop.run()
    trainer.training = True


def check_moved(module: Any) -> None:
    """Refuse to continue with a module of this project whose weights a fit has not changed."""
    if not getattr(module, "moved", True):
        raise InputError(
            f"Expected an optimiser step to change a weight, but none of {module.global_step} did: give more data or "
            "epochs, or raise the learning rate."
        )


def read_safely(strategy: Any) -> None:
    """Replace Lightning's own checkpoint reader and writer, also inside wrappers, by the atomic one without pickle."""
    plugin = strategy.checkpoint_io
    if type(plugin) is TorchCheckpointIO:
        strategy.checkpoint_io = AtomicCheckpoints()
    elif isinstance(plugin, _WrappingCheckpointIO):  # such as AsyncCheckpointIO
        plugin.load_checkpoint = AtomicCheckpoints().load_checkpoint  # type: ignore[method-assign]
        while isinstance(plugin.checkpoint_io, _WrappingCheckpointIO):
            plugin = plugin.checkpoint_io
        if type(plugin.checkpoint_io) is TorchCheckpointIO:
            plugin._checkpoint_io = AtomicCheckpoints()


SHOWN_TEXTS, SHOWN = 2, 60  # number of texts of a batch that an error quotes, and characters of each


class NotFiniteError(InputError):
    """Raised for an infinite or NaN loss, gradient or weight: continuing would ruin the weights."""


def not_finite(module: BaseTrainingModule, what: str) -> NotFiniteError:
    """Build the error, with the item positions and first texts of the last batch."""
    details = ""
    if module._batch is not None:
        positions, source = module._batch.positions.tolist(), module.data.sources[module._batch.source]
        texts = [source.texts(source.items[at])[0] for at in positions[:SHOWN_TEXTS]]
        shown = " and ".join(repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…") for text in texts)
        details = f" ({source.name}: items {positions} of the training part, the first of them {shown})"
    return NotFiniteError(f"Expected {what} at step {module.global_step}{details}: lower the learning rate.")


Module = TypeVar("Module", bound="BaseTrainingModule")


def load_module(
    cls: type[Module], path: str | Path, map_location: Any, strict: bool, changes: Mapping[str, Any]
) -> Module:
    """Build the module of a checkpoint's run with changed arguments, and load its weights."""
    remapped = callable(map_location) or isinstance(map_location, Mapping)
    content = read_run_checkpoint(path, map_location=map_location if remapped else "cpu")
    about, arguments = metric_entry(content, str(path)), content.get("hyper_parameters")
    if not isinstance(arguments, Mapping) or "module" not in about:
        raise InputError(
            f"Expected {path} to hold the arguments of its module, but it is of an earlier version: turn it into a "
            "metric with `textmover export`, or build the module and give the path to `fit` or `validate` as "
            "`ckpt_path`."
        )
    if about["module"] not in {one.__name__ for one in cls.__mro__}:
        raise InputError(f"Expected {path} to be of {cls.__name__}, but got {about['module']}: load it with that.")
    module = cls(**{**arguments, **changes})
    module.on_load_checkpoint(content)
    module.load_state_dict(content["state_dict"], strict=strict)
    if remapped:  # as Lightning does
        map_location = next((one.device for one in content["state_dict"].values() if isinstance(one, Tensor)), None)
    return module if map_location is None else module.to(map_location)


def check_same_classes(before: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> None:
    """Refuse data whose classes differ from those of a classifier's head, or have another order."""
    for name in before.keys() & now.keys():
        if before[name] and before[name] != now[name]:
            raise InputError(
                f"Expected {name} to have the classes that its classifier has learned, in this order: "
                f"{', '.join(before[name])}, but got {', '.join(now[name])}: list them so in `labels`, or train a new "
                "module on the exported metric."
            )


def check_same_metric(module: BaseTrainingModule, saved: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another metric by its ``textmover`` entry; keys missing from older versions match."""
    here = {**module.metric.config.to_dict(), "lora": None if module.lora is None else asdict(module.lora)}
    there = {**saved.get("config", {}), "lora": saved.get("lora")}
    for name, value in there.items():
        if name in here and here[name] != value:
            raise InputError(
                f"Expected a checkpoint of the metric that is trained here, but its `{name}` is {value!r} instead "
                f"of {here[name]!r}: give one of this recipe, or export that one and name it as `metric` to start "
                "from."
            )
    misfit = encoder_misfit(module.metric, saved.get("encoder", {}))
    if misfit is not None:
        raise InputError(f"{misfit}: restore that encoder, or train without the checkpoint.")


EARLIER = "before resuming, "
"""Prefix of what a model card says about other data that a resumed run was trained on before."""


def check_resumed(module: BaseTrainingModule, content: dict[str, Any]) -> None:
    """Refuse to resume from a checkpoint with other optimiser groups, or with other data unless that is wanted."""
    missing = [name for name in ("optimizer_states", "lr_schedulers") if name not in content]
    if missing:
        raise InputError(
            f"Expected a checkpoint to resume from, but it holds only weights, without `{missing[0]}`: give one "
            "written with `save_weights_only: false`, or export it and name it as `metric` to start from."
        )
    averages = any(isinstance(one, WeightAveraging) for one in module.trainer.callbacks)
    if "averaging_state" in content and not averages:
        raise InputError(
            "Expected the callback WeightAverage, since the run of the checkpoint averaged weights, but the trainer "
            "has none: add it, or export the checkpoint and name it as `metric` to start from."
        )
    saved = content["textmover"]
    by_depth = module.optimizer_config.by_depth
    if saved.get("by_depth", by_depth) != by_depth:
        kinds = ("all layers at one rate", "each layer at its own rate (`layer_decay`, `thaw`)")
        raise InputError(
            f"Expected a checkpoint of a run that trains {kinds[by_depth]}, as this recipe does, but it trains "
            f"{kinds[not by_depth]}: set `layer_decay` and `thaw` as there, or export it and name it as `metric` "
            "to start from."
        )
    before, data, described = saved.get("fingerprint"), module.data, saved.get("data") or {}
    data.earlier = {name: value for name, value in described.items() if name.startswith(EARLIER)}
    if before is None:
        return
    now = data.fingerprint
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed and not data.resume_other_data:
        name = changed[0]
        raise InputError(
            f"Expected the data of the checkpoint's run, but `{name}` is "
            f"{now.get(name, 'missing')} and was {before.get(name, 'missing')}: give the same data, or set "
            "`resume_other_data` (--resume_other_data true, in Python an attribute of the data module)."
        )
    if training_items(before) != training_items(now):
        data.earlier |= {name if name in data.earlier else f"{EARLIER}{name}": one for name, one in described.items()}
    if parts := [data.label(source, part) for source, part in data.judged if f"{source.name}: {part}" in changed]:
        # Statistics on other parts cannot be compared: the best weights and early stopping start over.
        monitors = {one.state_key for one in module.trainer.callbacks if getattr(one, "monitor", None) is not None}
        content["callbacks"] = {key: one for key, one in content.get("callbacks", {}).items() if key not in monitors}
        note = f"{' and '.join(parts)} may hold texts that the run before resuming was trained on"
        data.earlier[f"{EARLIER}not apart"] = note
        logger.warning(
            "The data have changed: %s, so that agreement may look better than on new texts. The best weights are "
            "chosen again.",
            note,
        )


def training_items(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the training items, by source."""
    return {name: digest for name, digest in fingerprint.items() if name.endswith(": items")}


class ResumeHint(pl.Callback):
    """Name the checkpoint to resume from after an interruption or a NaN error."""

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Log the option that resumes, or add it to the error, if a checkpoint was written."""
        path = _last_written(trainer)
        if path is None:
            return
        if isinstance(exception, (KeyboardInterrupt, SIGTERMException)):
            logger.info("Continue from step %d, or a little before, with --ckpt_path %s", trainer.global_step, path)
        elif isinstance(exception, NotFiniteError):
            way = "Continue from the last good checkpoint, or an earlier one, or start again"
            exception.args = (f"{exception} {way}: --ckpt_path {path}",)


def _last_written(trainer: pl.Trainer) -> Path | None:
    """Return the last checkpoint of this run, the best one if it has no other, or else the one it resumed from."""
    own: list[tuple[bool, float, Path]] = []
    for one in trainer.callbacks:
        if not isinstance(one, ModelCheckpoint) or one.dirpath is None or one.save_weights_only:
            continue
        for name, is_last in ((one.last_model_path, True), (one.best_model_path, one.monitor is None)):
            # A resumed run stores the path of the previous run, which may be elsewhere or deleted.
            if name and Path(name).parent == Path(one.dirpath) and Path(name).exists():
                own.append((is_last, Path(name).stat().st_mtime, Path(name)))
    return max(own)[2] if own else None if trainer.ckpt_path is None else Path(trainer.ckpt_path)
