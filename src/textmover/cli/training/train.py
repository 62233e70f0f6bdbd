"""``train.py`` and ``textmover train``: LightningCLI with a report and an export after a fit.

After ``fit``, the best weights are loaded and the evaluation parts are scored with the metric before and after
training. The gain is printed with its confidence interval, and the checkpoint is exported.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytorch_lightning as pl
from jsonargparse import ActionConfigFile, Namespace, set_loader
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException

from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.lightning_checkpoints import metric_entry, read_run_checkpoint
from textmover.checkpoints.saving import check_replaceable
from textmover.cli.argparse_messages import reworded
from textmover.cli.options.help_files import repeated_option
from textmover.data.datamodule import SourcesDataModule
from textmover.experiments.search.space import read_recipe
from textmover.files import check_folder
from textmover.runs.exit_codes_and_signals import Terminated, causes, exit_code_context, set_up_logging
from textmover.runs.process_supervision import check_manual_start
from textmover.safe_reading import NotYamlError, load_yaml
from textmover.training.base_module import BaseTrainingModule
from textmover.training.callbacks import AtomicCheckpoints, RandomState
from textmover.training.export_after_fit import ExportOptions, check_base, finish_run
from textmover.training.sharding import ShardedStrategy
from textmover.training.trainer_checks import ResumeHint, check_moved, check_precision, chosen_accelerator
from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean

RESOLVED = ("last", "hpc")  # values of `ckpt_path` that Lightning resolves itself

WRAPPER_LINES = (
    "Parser key", "Does not validate", "Subtypes:", "Errors:", "Given value", "Problem with",
    "Expected a <class 'NoneType'>",
)  # fmt: skip
"""Prefixes of lines that jsonargparse adds around the actual error."""

TYPES = {"bool": "true or false", "dict": "names with values", "float": "a number", "int": "a whole number"}
"""Names of types in messages."""

HELP = " (see `textmover train --help-all`)."

LIGHTNING_PACKAGES = ("jsonargparse", "lightning_fabric", "pytorch_lightning")
"""Packages whose errors concern the values of a recipe."""


WORD = re.compile(r"\w[\w./-]*")  # a single value, which jsonargparse has parsed dozens of times
_load_word = functools.cache(functools.partial(load_yaml, name="an option"))


def _load(text: str, path: str = "") -> Any:
    """Parse the value of an option or a file; ``a:`` and ``{a}`` stay text, as in jsonargparse."""
    if not path and WORD.fullmatch(text):
        return _load_word(text)
    value = load_yaml(text, str(path) or "an option")
    is_text = isinstance(value, dict) and value and not path and ":" not in text.strip().removesuffix(":")
    return text if is_text else value


BOUNDED = "bounded_yaml"
"""Mode of our parsers: YAML parsed by :mod:`textmover.safe_reading`."""

set_loader(BOUNDED, _load, (NotYamlError,))


class _Recipe(ActionConfigFile):
    """Option that reads a recipe from a file; errors name the line."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        read_recipe(values)
        super().__call__(parser, cfg, values, option_string)


class _OneLineErrorParser(LightningArgumentParser):
    """Parser that raises an error in one sentence instead of printing the usage of hundreds of options."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the innermost error of jsonargparse with its key."""
        lines = [line.strip().removeprefix("- ") for line in message.splitlines()]
        texts = [line for line in lines if line and not line.startswith(WRAPPER_LINES)]
        key = re.search(r'Parser key "(.+?)"', message)
        value = next((line for line in lines if line.startswith("Given value:") and "NestedArg" not in line), "")
        inner = min(texts or [message.strip()], key=lambda one: "a path but" in one).removesuffix(HELP).rstrip(". ")
        sentence = reworded(inner, list(self._option_string_actions))
        if unknown := re.fullmatch(r"Option '(.+)' is not accepted", inner):
            names = [one.removeprefix("--") for one in self._option_string_actions]
            sentence += f": {did_you_mean(unknown[1], names, 'correct the name', '{}')}"
        if key and (typed := re.fullmatch(r"Expected a <class '\w+'>(?:\. Got value: (.*))?", inner)):
            wanted = dict.fromkeys(re.findall(r"Expected a <class '(\w+)'>", "\n".join(texts)))
            kinds = " or ".join(TYPES.get(one, f"a {one}") for one in wanted)
            got = typed[1] or value.removeprefix("Given value:").strip() or "nothing"
            kinds += " of classes, as [pytorch_lightning.callbacks.LearningRateMonitor]" * ("dot import" in message)
            value, sentence = "", f"Expected `{key[1]}` to be {kinds}, but got {got}"
        elif key is not None and not sentence.startswith(key[1]):
            sentence = f"{key[1]}: {sentence}"
        sentence += f". {value}" if value and "value" not in sentence and sentence[-1] != "?" else ""
        raise InputError(sentence + HELP) from ex


class TrainCLI(LightningCLI):
    """LightningCLI for modules and data by class path, with a report and an export after ``fit``."""

    def __init__(self, *classes: Any, args: Sequence[str], **options: Any) -> None:
        self.asked = next((name for name in self.subcommands() if [name] == list(args[:1])), None)
        super().__init__(*classes, args=list(args), **options)

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        """Add the options of a subcommand only if the first argument names it, since adding them is slow."""
        if self.asked in (subcommand, None):
            return super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        self._subcommand_method_arguments[subcommand] = []
        return self.init_parser(**kwargs)

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Return a parser that reports errors in one sentence."""
        parser = _OneLineErrorParser(**{**kwargs, "parser_mode": BOUNDED, "allow_abbrev": False})
        parser.add_argument("-c", "--config", action=_Recipe, help="A recipe, YAML.")
        return parser

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Return the supported subcommands: modules have no test or predict steps, which `textmover` replaces."""
        return {name: options for name, options in LightningCLI.subcommands().items() if name in ("fit", "validate")}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the options that do not belong to trainer, model or data."""
        parser.add_argument("--export", type=str | None, default=None, help="Folder for the checkpoint that scores.")
        parser.add_argument(
            "--adapter",
            type=AdapterConfig | None,
            default=None,
            help="Export low-rank differences from the pretrained encoder in place of all weights.",
        )
        parser.add_argument(
            "--untrained_share", type=float, default=0.0, help="Share of the untrained encoder in what is exported."
        )
        parser.add_argument(
            "--resume_other_data",
            type=bool,
            default=False,
            help="Go on from --ckpt_path although data or batch size have changed since it was written.",
        )

    def _parse_ckpt_path(self) -> None:
        """Check the checkpoint to resume from; unlike Lightning, keep the values of the recipe."""
        path = self.config[self.config.subcommand].get("ckpt_path")
        if path and path not in RESOLVED:
            metric_entry(read_run_checkpoint(path, resume=True, mmap=True), str(path))

    def before_instantiate_classes(self) -> None:
        """Move relative ``dirpath`` of checkpoints below ``default_root_dir`` unless they are already inside."""
        trainer = self.config[self.subcommand].trainer
        if not isinstance(trainer, Namespace):
            raise InputError(f"Expected `trainer` to hold options, but got {trainer!r}: leave it out or name some.")
        root = trainer.default_root_dir
        for callback in trainer.callbacks or () if root else ():
            options = callback.get("init_args", {})
            place = options.get("dirpath")
            if isinstance(place, str) and not Path(os.path.abspath(place)).is_relative_to(os.path.abspath(root)):
                options["dirpath"] = os.path.join(root, place)  # keeps absolute paths

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """Return a trainer with atomic checkpoints and this project's sharding strategy."""
        settings = self.config_init[self.subcommand].trainer
        plugins = settings.plugins or []
        plugins = plugins if isinstance(plugins, list) else [plugins]
        check_precision(settings.precision)
        kwargs["accelerator"] = chosen_accelerator(settings.accelerator)
        if settings.strategy == "fsdp":
            kwargs["strategy"] = ShardedStrategy()
        trainer = super().instantiate_trainer(plugins=[*plugins, AtomicCheckpoints()], **kwargs)
        environment = getattr(trainer.strategy, "cluster_environment", None)  # for several processes
        if environment is not None and not environment.creates_processes_externally:
            check_manual_start(trainer.num_nodes, "trainer.num_nodes")
        return trainer

    def before_fit(self) -> None:
        """Raise an error before training if the checkpoints or the export cannot be written."""
        options, model, data = self._export_options(), self.model, self.datamodule
        for place in (getattr(one, "dirpath", None) for one in self.trainer.checkpoint_callbacks):
            check_folder(place or self.trainer.default_root_dir, "dirpath" if place else "trainer.default_root_dir")
        folders = [] if options.folder is None else [Path(options.folder)]
        if isinstance(model, BaseTrainingModule) and isinstance(data, SourcesDataModule):
            check_base(model.metric, options)
            data.resume_other_data = self.config[self.subcommand].get("resume_other_data")
            folders += [place for folder in folders for place in model.folders_beside(folder, data)]
        for folder in folders:
            check_replaceable(check_folder(folder, "export"), overwrite=True)

    def after_fit(self) -> None:
        """Report the gain on every evaluation part, and export the metric."""
        module, data, trainer = self.model, self.datamodule, self.trainer
        if not isinstance(module, BaseTrainingModule) or not isinstance(data, SourcesDataModule):
            return
        if trainer.fast_dev_run or trainer.interrupted:
            return
        check_moved(module)
        module.gather()  # a collective operation, so before the other processes return
        if not trainer.is_global_zero:
            return
        config = self.config[self.subcommand]
        recipe = self._parser(self.subcommand).dump(config, skip_none=True, skip_validation=True)
        finish_run(module, data, trainer, self._export_options(), recipe)

    def _export_options(self) -> ExportOptions:
        settings = self.config[self.subcommand]
        share = settings.get("untrained_share")
        return ExportOptions(settings.get("export"), self.config_init[self.subcommand].adapter, share)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run LightningCLI with this project's defaults; return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    set_up_logging()
    quiet_lightning()
    with exit_code_context() as outcome:
        if problem := repeated_option(arguments):
            raise InputError(f"{problem}.")
        run_training(arguments)
    return outcome.code


CommandLine = TypeVar("CommandLine", bound=TrainCLI)


def run_training(
    arguments: Sequence[str], kind: type[CommandLine] = TrainCLI, callbacks: Sequence[pl.Callback] = ()
) -> CommandLine:
    """Parse the arguments and run the subcommand, with ``callbacks`` in addition to those of the recipe."""
    with _lightning_errors():
        return kind(
            pl.LightningModule,
            pl.LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,  # the module has its own optimizers
            args=arguments,
            save_config_kwargs={"overwrite": True},
            trainer_defaults={
                "callbacks": [RandomState(), ResumeHint(), *callbacks],
                "use_distributed_sampler": False,  # the data module distributes the batches
                "enable_model_summary": False,
                "enable_progress_bar": sys.stdout.isatty(),
            },
        )


@contextlib.contextmanager
def _lightning_errors() -> Iterator[None]:
    """Convert errors of Lightning about settings to ours, and its exits after Ctrl-C and SIGTERM to exceptions."""
    try:
        yield
    except Exception as error:
        match = re.match(r"Early stopping conditioned on metric `(.*?)` which .*following: (.*)", str(error))
        chain = list(causes(error))
        if match is None and (any(isinstance(one, InputError) for one in chain) or not _is_lightning_error(error)):
            raise
        if match is None:  # the command line wraps errors of classes
            cause = next((one for one in chain if isinstance(one, MisconfigurationException)), error)
            raise InputError(f"{' '.join(str(cause).split()) or type(cause).__name__}{HELP}") from error
        raise InputError(
            f"Expected `monitor` of EarlyStopping to be among what is logged when it looks ({match[2].replace('`', '')}"
            f"), but got {match[1]!r}: name one of these, or set its `check_on_train_epoch_end` to false where the run "
            "may end before the first validation."
        ) from error
    except SIGTERMException as stop:
        raise Terminated from stop
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from stop
        raise


def _is_lightning_error(error: BaseException) -> bool:
    """Return whether Lightning or its command line raised an error about a value of the recipe."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    packages = [name.partition(".")[0] for name in names]
    if isinstance(error, (TypeError, ValueError)):  # torch may have raised it for a value passed on by Lightning
        packages = [one for one in packages if one in (*LIGHTNING_PACKAGES, "textmover")]
    return isinstance(error, MisconfigurationException) or packages[-1] in LIGHTNING_PACKAGES


def quiet_lightning() -> None:
    """Suppress warnings of Lightning about missing hardware and numbers of workers."""
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LightningCLI's args parameter.*")
    warnings.filterwarnings("ignore", message=".*isinstance\\(treespec, LeafSpec\\).*")  # Lightning on recent PyTorch
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty.*")
    useless = ("GPU available", "TPU available", "HPU available", "💡", "Loading `train_dataloader`")
    logger = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    logger.addFilter(lambda record: not record.getMessage().startswith(useless))


if __name__ == "__main__":
    sys.exit(main())
