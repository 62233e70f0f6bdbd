"""Base Lightning module of all training stages: a metric and one task per data source."""

from __future__ import annotations

import contextlib
import copy
import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor, nn
from typing_extensions import Self

from textmover.checkpoints.encoder_state import encoder_entry
from textmover.checkpoints.lightning_checkpoints import metric_entry
from textmover.checkpoints.loading import load_metric
from textmover.data.datamodule import SourcesDataModule
from textmover.data.training_sources import Source
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.lora import LoraConfig, add_lora, has_lora, merge_lora
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.precision_and_backend import has_bfloat16
from textmover.training import optimization, sharding, trainer_checks
from textmover.training.callbacks import RandomState
from textmover.training.optimization import OptimizerConfig
from textmover.training.tasks.task import Task, TaskResult
from textmover.types import InputError, SegmentMetric, TrainableMetric
from textmover.types.argument_checks import CheckedArguments, plain

logger = logging.getLogger(__name__)

FITTING_TEXTS = 2000  # training texts on which a corpus mean is fitted before training
FROZEN_STATES = 1 << 31  # size limit in bytes of the hidden-state cache of a frozen encoder

Bfloat16 = Literal["auto", "yes", "no"]


class BaseTrainingModule(CheckedArguments, pl.LightningModule):
    """Train a metric's encoder on the tasks of the data sources.

    Stages are chained by checkpoints: the next stage starts from the exported ``metric`` of the previous one. Before
    the first step, the module fits the corpus mean (if the metric has one) on the training part and prepares the tasks.

    The arguments are documented in :class:`~textmover.training.RatingsModule`. Transport and losses stay in float32
    under ``bfloat16``. Gradient checkpointing takes a third more time for a fraction of the memory.
    """

    def __init__(
        self,
        metric: str = "twmd",
        overrides: dict[str, Any] | None = None,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
        lora: LoraConfig | None = None,
        bfloat16: Bfloat16 = "auto",
        gradient_clip: float | None = 1.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if gradient_clip is not None and not 0 < gradient_clip < float("inf"):
            raise InputError(
                f"Expected `gradient_clip` to be a finite number above 0, but got {gradient_clip}: null (None) leaves "
                "gradients alone."
            )
        self.start, self.overrides = metric, dict(overrides or {})
        self.optimizer_config = optimizer
        self.bfloat16, self.gradient_clip = bfloat16, gradient_clip
        self.metric = self._trainable(**self.starting_overrides())
        self.lora = lora
        if lora is not None:
            add_lora(self.metric.encoder, lora)
        if gradient_checkpointing:
            optimization.checkpoint_activations(self.metric.encoder)
        self.tasks: Any = nn.ModuleDict()  # tasks by source name
        self._settings: list[dict[str, Any]] = []
        self._batch: Any = None
        self._unsharded: tuple[Any, ...] = ()  # a tuple, so that Lightning does not register it as a submodule
        self.validation: dict[str, TaskResult] = {}
        """Results of the last validation by logged name."""
        self._validation_due = False  # whether the resumed checkpoint was written just before a validation
        self.moved = False
        """True if an optimiser step changed a weight."""
        self._task_state: dict[str, Tensor] = {}  # weights of tasks that do not exist now
        self._fitted_items: dict[str, str] = {}  # fingerprint of the items that the tasks were prepared on
        self._classes: dict[str, list[str]] = {}  # classes of the heads by source name, in the order of their outputs

    def keep_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Store the arguments as Lightning hyper-parameters, from which checkpoints rebuild the module."""
        self._set_hparams(plain(arguments))

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls, checkpoint_path: str | Path, map_location: Any = None, *, strict: bool = True, **arguments: Any
    ) -> Self:
        """Build the module of a run with the weights of a checkpoint; task weights load with the data.

        Args:
            checkpoint_path: A local file.
            map_location: Target device, or a mapping or function of the saved devices as in ``torch.load``; ``None``
                loads on the CPU.
            strict: Whether the names of weights must match exactly.
            **arguments: Arguments that override those of the run; ``weights_only`` is always true.

        Raises:
            InputError: If the file is not a checkpoint of this class, or if the starting metric has changed.
        """
        arguments.pop("weights_only", None)
        return trainer_checks.load_module(cls, checkpoint_path, map_location, strict, arguments)

    @abstractmethod
    def build_task(self, source: Source[Any]) -> Task[Any]:
        """Return the task for a source."""

    def starting_overrides(self) -> dict[str, Any]:
        """Return the configuration overrides for the starting metric."""
        return self.overrides

    def _trainable(self, **overrides: Any) -> Any:
        # Any: Python has no type for the intersection of TrainableMetric and nn.Module.
        loaded = load_metric(self.start, shipped=False, **overrides)  # the mean is fitted on the training part
        if not isinstance(loaded, TrainableMetric) or not isinstance(loaded, nn.Module):
            raise InputError(f"Expected a trainable metric, but got {self.start!r}: choose one of `textmover list`.")
        if not any(True for _ in loaded.encoder_parameters()):
            logger.warning(
                "%s has no encoder to train: its token vectors stay as they are, and training fits the heads alone.",
                self.start,
            )
        return loaded.train()

    def untrained(self, data: SourcesDataModule | None = None) -> SegmentMetric:
        """Return the metric before training, fitted to ``data`` or those of the trainer, as the baseline of a gain."""
        metric = self._trainable(**self.overrides).eval().to(self.device)
        self._fit_statistics(metric, data)
        return metric

    def setup(self, stage: str) -> None:
        """Build the tasks of the trainer's data."""
        if stage == "fit" and self.lora is not None and not has_lora(self.metric.encoder):
            raise InputError(
                "Expected a module with LoRA matrices to train, but `finish` has merged them into the weights: export "
                "the metric, and build a new module that names its folder as `metric`."
            )
        trainer_checks.check_trainer(self.trainer, self.data)
        trainer_checks.read_safely(self.trainer.strategy)
        self.build_tasks(self.data)

    def build_tasks(self, data: SourcesDataModule) -> None:
        """Build the tasks of the data's sources; those of other data are replaced, and their weights are kept."""
        classes = {name: list(getattr(source, "classes", ())) for name, source in data.sources.items()}
        trainer_checks.check_same_classes(self._classes, classes)
        self._classes |= classes
        if any(data.sources.get(name) is not task.source for name, task in self.tasks.items()):
            self._task_state |= {f"tasks.{name}": tensor for name, tensor in self.tasks.state_dict().items()}
            self.tasks = nn.ModuleDict()
        for name, source in data.sources.items():
            if name not in self.tasks:
                self.tasks[name] = self.build_task(source).to(self.device)
        state = self.state_dict()
        if known := self._task_state.keys() & state.keys():
            self.load_state_dict({name: self._task_state.get(name, old) for name, old in state.items()})
            self._task_state = {name: one for name, one in self._task_state.items() if name not in known}

    def configure_callbacks(self) -> list[pl.Callback]:
        """Save the random state in checkpoints, so that a resumed run ends as an unbroken one."""
        return [] if any(isinstance(one, RandomState) for one in self.trainer.callbacks) else [RandomState()]

    def on_fit_start(self) -> None:
        """Fit the corpus mean on the training part and prepare the tasks; a resumed run restores most of both."""
        if not self._encoder_learns and not sharding.is_sharded(self.metric.encoder):
            memory = EncoderMemory(FROZEN_STATES, evict=False)  # each text is encoded once in the whole run
            memory.any_arithmetic = True
            memory.join(self.metric, "training")
        items = trainer_checks.training_items(self.data.fingerprint)
        if self._fitted_items not in ({}, items):
            logger.info("The training data have changed: scale and offset of the scores are fitted to them again.")
            for task in self.tasks.values():
                task.prepared.fill_(False)
        self._fitted_items = items
        if not all(bool(task.prepared) for task in self.tasks.values()):
            self._fit_statistics(self.metric)
        for task in self.tasks.values():
            task.prepare(self.metric, self.untrained, self._autocast)

    def on_train_start(self) -> None:
        """Restore the data position of a resumed run, and apply the learning rates of the current recipe.

        Lightning restores the state of the loaders when it creates them. The schedule needs the number of steps, so the
        loaders are created before the checkpoint is read. Lightning also restores the optimiser settings of the
        checkpoint, which would override a lower learning rate of the recipe.
        """
        self.trainer.fit_loop._load_combined_loader_states()
        for config in self.trainer.lr_scheduler_configs:
            optimization.take_settings(config.scheduler, self._settings)
        if self._validation_due:
            self._validation_due = False
            trainer_checks.validate(self.trainer)

    def training_step(self, batch: Any, _: int) -> Tensor:
        """Return the loss of one batch."""
        with self._autocast():
            loss: Tensor = self.tasks[batch.source].loss(self.metric, batch)
        self._batch = batch
        if not torch.isfinite(loss):
            raise trainer_checks.not_finite(self, f"a finite loss, but got {loss.item()}")
        self._log_loss(loss.detach(), batch)
        return loss + self._zero_loss()

    def _log_loss(self, loss: Tensor, batch: Any) -> None:
        several = len(self.tasks) > 1
        name = f"train/{batch.source}/loss" if several else "train/loss"
        self.log(name, loss, prog_bar=True, logger=False if several else None, batch_size=batch.joint)
        if several and (self.global_step + 1) % max(1, self.trainer.log_every_n_steps) == 0:
            # Lightning would also log the last loss of this source at the steps of other sources.
            for metric_logger in self.loggers:
                metric_logger.log_metrics({name: loss.item(), "epoch": self.current_epoch}, step=self.global_step)

    def on_validation_epoch_start(self) -> None:
        """Clear the collected results."""
        sharding.keep_whole(self.metric.encoder)  # processes may have different numbers of validation batches
        for task in self.tasks.values():
            task.start_judging(self.device, fitting=self.trainer.state.fn == TrainerFn.FITTING)

    def validation_step(self, batch: Any, _: int, dataloader_idx: int = 0) -> None:
        """Collect the results of the metric for a batch."""
        source, part = self.data.judged[dataloader_idx]
        self.tasks[source.name].collect(part, self.metric, batch)

    def on_validation_epoch_end(self) -> None:
        """Judge each part and log its statistics."""
        sharding.share_again(self.metric.encoder)
        for source, part in self.data.judged:
            judgement = self.tasks[source.name].judge(part)
            if self.trainer.sanity_checking or judgement is None:
                continue  # incomplete parts are not judged
            name = self.data.label(source, part)
            self.validation[name] = judgement
            for statistic, value in judgement.values.items():
                # Loggers and early stopping require float32; the report computes in float64.
                self.log(f"{name}/{statistic}", torch.tensor(value, dtype=torch.float32))
            logger.info("Epoch %d, %s\n%s", self.current_epoch + 1, name, judgement.table)

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule over all steps of the run."""
        heads = [*self.metric.head_parameters(), *self._task_parameters()]
        config, encoder = self.optimizer_config, self.metric.encoder
        depths = optimization.layer_depths(encoder) if config.by_depth else None
        optimizer = optimization.build_optimizer(self.metric.encoder_parameters(), heads, config, depths=depths)
        self._settings = [{name: group[name] for name in optimization.SETTINGS} for group in optimizer.param_groups]
        schedule = optimization.build_schedule(optimizer, int(self.trainer.estimated_stepping_batches), config)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by norm over all parameters (Lightning refuses to clip for a fused optimiser)."""
        if gradient_clip_val is not None:
            raise InputError(
                "Expected the module alone to clip gradients, but got trainer.gradient_clip_val: "
                "set model.init_args.gradient_clip instead."
            )
        if self.gradient_clip is not None:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            norm = sharding.clip_norm(parameters, self.gradient_clip)
            if not torch.isfinite(norm):
                raise trainer_checks.not_finite(self, f"a gradient of finite norm, but got {norm.item()}")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the entries that ``textmover export`` needs to rebuild the metric."""
        for name, value in checkpoint["state_dict"].items():
            if value.is_floating_point() and not torch.isfinite(value).all():
                raise trainer_checks.not_finite(self, f"finite weights, but got NaN or infinity in {name}")
        lora = {} if self.lora is None else {"lora": asdict(self.lora)}
        # With the hash of the encoder: its name may later refer to another encoder.
        metric_state = {"config": self.metric.config.to_dict(), "encoder": encoder_entry(self.metric)}
        about = {"start": self.start, **metric_state, **lora}
        run = {"module": type(self).__name__, "moved": self.moved, "by_depth": self.optimizer_config.by_depth}
        run |= {"classes": self._classes, "validation_due": trainer_checks.validation_is_due(self._trainer)}
        data = None if self._trainer is None else self.data
        data_state = {"data": data.describe(), "notices": data.notices, "fingerprint": data.fingerprint} if data else {}
        checkpoint["textmover"] = {**about, **data_state, **run}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another metric or encoder; when fitting, also of other data or optimiser groups."""
        about = metric_entry(checkpoint, "the checkpoint")
        trainer_checks.check_same_metric(self, about)
        if self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING:
            trainer_checks.check_resumed(self, checkpoint)
            self._validation_due = bool(about.get("validation_due"))
        saved_classes = about.get("classes") or {}
        trainer_checks.check_same_classes(saved_classes, self._classes)
        self._classes |= saved_classes
        self.moved = bool(about.get("moved", True))
        self._fitted_items = trainer_checks.training_items(about.get("fingerprint") or {})

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights of a resumed checkpoint or of the best validation."""
        if not self.tasks:
            self._task_state = {name: tensor for name, tensor in state_dict.items() if name.startswith("tasks.")}
            state_dict = {name: tensor for name, tensor in state_dict.items() if name not in self._task_state}
        try:
            return super().load_state_dict(state_dict, strict=strict, assign=assign)
        except RuntimeError as error:
            lines = [line.strip() for line in str(error).splitlines()]
            problem = lines[1] if len(lines) > 1 else str(error)  # the first error that torch lists
            raise InputError(
                f"Expected weights that fit the module of this recipe, but got: {problem.rstrip('. ')}. Give a "
                "checkpoint of this recipe, restore the encoder that it was trained from, or train without it."
            ) from error

    def configure_model(self) -> None:
        """Shard the encoder's weights if the strategy does so (:mod:`textmover.training.sharding`)."""
        mesh = sharding.sharding_mesh(self.trainer.strategy)
        if mesh is not None and not sharding.is_sharded(self.metric.encoder):
            # An unsharded copy receives the weights after training: sharding cannot be undone in place.
            self._unsharded = (copy.deepcopy(self.metric),) if self.trainer.is_global_zero else ()
            sharding.shard(self.metric.encoder, mesh)

    def gather(self) -> None:
        """Collect sharded weights on the first process; every process has to call this."""
        if sharding.is_sharded(self.metric.encoder):
            self.metric = sharding.gathered(self.metric, self._unsharded[0] if self._unsharded else None)
            self._unsharded = ()

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Make a step and record the first change of a weight in ``moved``."""
        groups = [] if self.moved else [group for group in self.trainer.optimizers[0].param_groups if group["lr"]]
        before = [(one, one.detach().clone()) for group in groups for one in group["params"]]
        super().optimizer_step(*arguments, **options)
        self.moved = self.moved or any(not torch.equal(sharding.local(one), sharding.local(old)) for one, old in before)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Average the gradients of unsharded weights next to a sharded encoder, as DDP does itself."""
        if sharding.is_sharded(self.metric.encoder):
            sharding.average_gradients(one for group in optimizer.param_groups for one in group["params"])

    def finish(self) -> None:
        """Make the trained metric ready to score: merge low-rank updates into the weights."""
        if has_lora(self.metric.encoder):
            merge_lora(self.metric.encoder)
        self.metric.eval()
        if isinstance(self.metric.encoder, Encoder):
            self.metric.encoder.leave()  # drops the cached states of a frozen encoder

    def folders_beside(self, folder: Path, data: SourcesDataModule) -> list[Path]:
        """Return the folders that :meth:`export_beside` writes next to the exported metric's folder."""
        return []

    def export_beside(self, folder: Path, card: str) -> None:
        """Write further results of the stage next to the exported metric's folder; nothing by default."""

    @property
    def data(self) -> SourcesDataModule:
        """Data module of the trainer."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, SourcesDataModule):
            raise InputError(
                f"Expected `data` to be a data module of textmover.data, but got {type(data).__name__}: name one by "
                "class_path, or call trainer.fit(module, data) with one, such as RatingsDataModule."
            )
        return data

    def _task_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(f"{name}.{key}", one) for name, task in self.tasks.items() for key, one in task.named_parameters()]

    def _zero_loss(self) -> Tensor | float:
        """Return 0 computed from every head: distributed training needs a gradient for each parameter."""
        heads = [one for _, one in (*self.metric.head_parameters(), *self._task_parameters()) if one.requires_grad]
        return 0.0 * torch.stack([one.sum() for one in heads]).sum() if heads else 0.0

    @property
    def _encoder_learns(self) -> bool:
        return any(one.requires_grad for _, one in self.metric.encoder_parameters())

    def _autocast(self) -> Any:
        use_bfloat16 = self.bfloat16 == "yes" or (self.bfloat16 == "auto" and has_bfloat16(self.device))
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if use_bfloat16 else contextlib.nullcontext()

    def _fit_statistics(self, metric: SegmentMetric, data: SourcesDataModule | None = None) -> None:
        if metric.needs_fit:
            with self._autocast():
                metric.fit((data or self.data).training_texts(FITTING_TEXTS))
