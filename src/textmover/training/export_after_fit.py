"""End of a fit: load the best weights, interpolate, judge and export them."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.averaging import interpolate
from textmover.checkpoints.checkpoint_files import CARD
from textmover.checkpoints.encoder_state import trained_encoder
from textmover.checkpoints.lightning_checkpoints import read_run_checkpoint
from textmover.checkpoints.loading import load_checkpoint
from textmover.checkpoints.saving import save_checkpoint
from textmover.checkpoints.statistics_files import fitted_names
from textmover.data.datamodule import SourcesDataModule
from textmover.data.training_sources import RatedSource, evenly_spread
from textmover.files import atomic_file
from textmover.modules.encoder_parts import untrained
from textmover.terminal import console
from textmover.training.base_module import FITTING_TEXTS, BaseTrainingModule
from textmover.training.callbacks import AtomicCheckpoints
from textmover.training.reports.fit_report import judge
from textmover.types import InputError, Segment, SegmentMetric, check_share

logger = logging.getLogger(__name__)

REFIT_SEGMENTS = 2000  # rated segments to refit the calibration on after interpolation


@dataclass(frozen=True)
class ExportOptions:
    """Options for exporting the trained metric.

    Attributes:
        folder: Folder of the exported metric; ``None`` exports nothing.
        adapter: Write low-rank differences from the pretrained encoder instead of all weights.
        untrained_share: Share of the untrained encoder in the exported weights, 0 to 1.
    """

    folder: str | None = None
    adapter: AdapterConfig | None = None
    untrained_share: float = 0.0

    def __post_init__(self) -> None:
        check_share("untrained_share", self.untrained_share)


def check_base(metric: SegmentMetric, options: ExportOptions) -> None:
    """Raise an error if the export needs the pretrained encoder of a metric and it is missing."""
    needs = {
        "adapter": options.adapter is not None and options.folder is not None,
        "untrained_share": options.untrained_share > 0,
    }
    names = " and ".join(f"`{name}`" for name, is_needed in needs.items() if is_needed)
    if not names:
        return
    try:
        untrained(trained_encoder(metric))
    except InputError as error:
        reason = str(error).partition(" The adapter needs ")[0]  # the rest of the message is about adapters only
        raise InputError(
            f"Expected the pretrained encoder for {names}, but got: {reason} "
            "If it is unavailable, leave `adapter` and `untrained_share` out."
        ) from error


def finish_run(
    module: BaseTrainingModule, data: SourcesDataModule, trainer: pl.Trainer, options: ExportOptions, recipe: str
) -> None:
    """Report the gain on every evaluation part and export the metric.

    The judged metric is the exported one: interpolated, and stored as an adapter if requested. The trainer knows the
    best weights. The recipe is for the model card.
    """
    checkpoint_io = trainer.strategy.checkpoint_io
    for callback in trainer.checkpoint_callbacks:
        path = getattr(callback, "best_model_path", "")
        if path and isinstance(checkpoint_io, AtomicCheckpoints) and checkpoint_io.replaced(path):
            raise InputError(
                f"Expected {path} to hold weights of this run, but another run has overwritten it: give each run its "
                "own `trainer.default_root_dir`, and a `dirpath` relative to it."
            )
    _load_best(module, trainer)
    module.to(trainer.strategy.root_device)  # a trainer moves it to the CPU at the end
    module.finish()
    if options.untrained_share:
        texts = data.training_texts(FITTING_TEXTS) if fitted_names(module.metric) else None
        module.metric = interpolate(module.metric, options.untrained_share, texts=texts, rated=_rated(module, data))
        module.finish()  # calibrates a head that marks errors to the new weights
    if options.folder is None:
        for table in judge(module, data).tables():
            console().print(table)
    else:
        _export(module, data, Path(options.folder), options.adapter, recipe)
    for notice in data.notices:
        console().print(notice, style="bold", soft_wrap=True)


def _export(
    module: BaseTrainingModule, data: SourcesDataModule, folder: Path, adapter: AdapterConfig | None, recipe: str
) -> None:
    """Write the metric before judging, so that a failure loses nothing; write its model card after judging."""
    replaced = folder.is_dir() and any(folder.iterdir())
    save_checkpoint(module.metric, folder, card="", overwrite=True, adapter=adapter)
    if adapter is not None:
        module.metric = load_checkpoint(folder)
        module.to(module.device)
    report = judge(module, data)
    with atomic_file(folder / CARD) as card:
        card.write(report.card(recipe))
    for table in report.tables():
        console().print(table)
    module.export_beside(folder, report.card(recipe))
    if stored := adapter_report(folder):
        console().print(
            f"Adapter over {stored.base}: {stored.size / 1e6:.2f} MB, relative error of its matrices {stored.error:.3f}"
        )
    if replaced:
        console().print(f"Replaced: {folder}", soft_wrap=True)
    console().print(f"Exported to {folder}. Score with it:", soft_wrap=True)
    command = f"  textmover score -i hypotheses.txt references.txt --model {shlex.quote(str(folder))}"
    console().print(command, soft_wrap=True)


def _rated(module: BaseTrainingModule, data: SourcesDataModule) -> list[Segment] | None:
    """Return segments to refit the calibration on; ``None`` for a metric without calibration head or ratings."""
    rated = next((source for source in data.sources.values() if isinstance(source, RatedSource)), None)
    if rated is None or not module.metric.config.calibrate:
        return None
    return evenly_spread(rated.items, REFIT_SEGMENTS)


def _load_best(module: BaseTrainingModule, trainer: pl.Trainer) -> None:
    """Load the weights of the best validation if a checkpoint callback monitored one; else keep the last ones."""
    monitors: list[Any] = [
        one for one in trainer.callbacks if isinstance(one, ModelCheckpoint) and one.monitor is not None
    ]
    monitor = next((one for one in monitors if one.best_model_path), None)
    if monitor is None:
        return
    saved = Path(monitor.best_model_path)
    # A run resumed in another folder still stores the path of its first folder.
    path = saved if saved.is_file() or monitor.dirpath is None else Path(monitor.dirpath) / saved.name
    if not path.is_file():
        raise InputError(
            f"Expected the weights of the best validation in {saved}, but there is no such file: restore it, or "
            "export another checkpoint with `textmover export`."
        )
    module.load_state_dict(read_run_checkpoint(path)["state_dict"])
    logger.info("Best weights: %s", path)
