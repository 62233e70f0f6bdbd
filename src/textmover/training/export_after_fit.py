"""End of a fit: the best weights, mixed with the untrained ones if wanted, judged and exported."""

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
from textmover.checkpoints.encoder_entry import trained_encoder
from textmover.checkpoints.files import CARD
from textmover.checkpoints.loading import load_checkpoint
from textmover.checkpoints.run_checkpoints import read_run_checkpoint
from textmover.checkpoints.saving import save_checkpoint
from textmover.checkpoints.statistics_files import fitted_names
from textmover.data.datamodule import SourcesDataModule
from textmover.data.sources import RatedSource
from textmover.files import atomic_file
from textmover.modules.assembly import untrained
from textmover.terminal import console
from textmover.training.base_module import FITTING_TEXTS, StageModule
from textmover.training.callbacks import AtomicCheckpoints
from textmover.training.reports.agreement import judge
from textmover.types import InputError, Segment, SegmentMetric, check_share

logger = logging.getLogger(__name__)

REFIT_SEGMENTS = 2000  # rated segments that scale and offset are fitted to once the weights are mixed


@dataclass(frozen=True)
class ExportOptions:
    """Export of the trained metric.

    Attributes:
        folder: Folder for the checkpoint that scores; ``None`` writes none.
        adapter: Write low-rank differences from the pretrained encoder in place of all weights.
        untrained_share: Share of the untrained encoder in the exported weights, 0 to 1.
    """

    folder: str | None = None
    adapter: AdapterConfig | None = None
    untrained_share: float = 0.0

    def __post_init__(self) -> None:
        check_share("untrained_share", self.untrained_share)


def check_base(metric: SegmentMetric, options: ExportOptions) -> None:
    """Look for the encoder that a metric, before or after training, started from, where the export needs it."""
    asked = {
        "adapter": options.adapter is not None and options.folder is not None,
        "untrained_share": options.untrained_share > 0,
    }
    names = " and ".join(f"`{name}`" for name, needed in asked.items() if needed)
    if not names:
        return
    try:
        untrained(trained_encoder(metric))
    except InputError as error:
        reason = str(error).partition(" The adapter needs ")[0]  # what `find` says behind it speaks of adapters alone
        raise InputError(
            f"Expected the pretrained encoder for {names}, but got: {reason} "
            "Without it, leave `adapter` and `untrained_share` out."
        ) from error


def finish_run(
    module: StageModule, data: SourcesDataModule, trainer: pl.Trainer, options: ExportOptions, recipe: str
) -> None:
    """Report the gain on every part that was kept from training, and export.

    What is judged is what is exported: mixed, and stored as an adapter where one is asked for. The trainer knows the
    best weights; the recipe is for the model card.
    """
    reader = trainer.strategy.checkpoint_io
    for watcher in trainer.checkpoint_callbacks:
        path = getattr(watcher, "best_model_path", "")
        if path and isinstance(reader, AtomicCheckpoints) and reader.replaced(path):
            raise InputError(
                f"Expected {path} to hold weights of this run, but another run has written over it: give each run a "
                "`trainer.default_root_dir` of its own, below which a relative `dirpath` lies."
            )
    _load_best(module, trainer)
    module.to(trainer.strategy.root_device)  # a trainer takes it back to the processor when it is done
    module.finish()
    if options.untrained_share:
        texts = data.training_texts(FITTING_TEXTS) if fitted_names(module.metric) else None
        module.metric = interpolate(module.metric, options.untrained_share, texts=texts, rated=_rated(module, data))
    if options.folder is None:
        for table in judge(module, data).tables():
            console().print(table)
    else:
        _export(module, data, Path(options.folder), options.adapter, recipe)
    for notice in data.notices:
        console().print(notice, style="bold", soft_wrap=True)


def _export(
    module: StageModule, data: SourcesDataModule, folder: Path, adapter: AdapterConfig | None, recipe: str
) -> None:
    """Write the checkpoint first, so that nothing is lost if judging fails, and its card when it is judged."""
    replaced = folder.is_dir() and any(folder.iterdir())
    save_checkpoint(module.metric, folder, card="", overwrite=True, adapter=adapter)
    if adapter is not None:
        module.metric = load_checkpoint(folder)
        module.to(module.device)
    report = judge(module, data)
    with atomic_file(folder / CARD) as card:
        card.write(report.card(recipe))
    module.export_beside(folder, report.card(recipe))
    for table in report.tables():
        console().print(table)
    if stored := adapter_report(folder):
        console().print(
            f"Adapter over {stored.base}: {stored.size / 1e6:.2f} MB, relative error of its matrices {stored.error:.3f}"
        )
    if replaced:
        console().print(f"Replaced: {folder}", soft_wrap=True)
    console().print(f"Exported to {folder}. Score with it:", soft_wrap=True)
    command = f"  textmover score -i hypotheses.txt references.txt --model {shlex.quote(str(folder))}"
    console().print(command, soft_wrap=True)


def _rated(module: StageModule, data: SourcesDataModule) -> list[Segment] | None:
    """Segments that the scale of the scores is fitted to; none where the metric has no such head."""
    rated = next((source for source in data.sources.values() if isinstance(source, RatedSource)), None)
    if rated is None or not module.metric.config.calibrate:
        return None
    step = max(1, len(rated.items) // REFIT_SEGMENTS)
    return rated.items[::step][:REFIT_SEGMENTS]


def _load_best(module: StageModule, trainer: pl.Trainer) -> None:
    """Weights of the best validation, where a checkpoint callback watched one; else those of the last step."""
    watchers: list[Any] = [
        one for one in trainer.callbacks if isinstance(one, ModelCheckpoint) and one.monitor is not None
    ]
    watcher = next((one for one in watchers if one.best_model_path), None)
    if watcher is None:
        return
    named = Path(watcher.best_model_path)
    # A run that goes on elsewhere still names the folder that it began in.
    path = named if named.is_file() or watcher.dirpath is None else Path(watcher.dirpath) / named.name
    if not path.is_file():
        raise InputError(
            f"Expected the weights of the best validation in {named}, but there is no such file: put it back, or turn "
            "another checkpoint into a metric with `textmover export`."
        )
    module.load_state_dict(read_run_checkpoint(path)["state_dict"])
    logger.info("Best weights: %s", path)
