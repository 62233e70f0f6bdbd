"""The command ``textmover``: finds the command that is meant and hands it the arguments.

A command is a module with ``OPTIONS`` (see :mod:`textmover.cli.options.declaration`) and ``run(options)``. It is
imported only when it is called for, so that ``textmover --help`` waits for nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from textmover._version import __version__
from textmover.cli.console import guarded, open_streams, set_up_logging
from textmover.cli.options.declaration import HelpFormatter, SingleOption, add_options
from textmover.runs.termination import heeding_termination

COMMANDS = {
    "score": ("commands.score", "score texts against references"),
    "explain": ("commands.explain", "show why a text got its score: words, trees, and how they add up"),
    "compare": ("commands.compare", "compare systems on the same references, with tests of their difference"),
    "mbr": ("commands.mbr", "choose the best of several candidates by minimum Bayes risk"),
    "rank": ("commands.rank", "rank systems, which share a rank where no test tells them apart"),
    "evaluate": ("commands.evaluate", "judge a metric against human ratings"),
    "sweep": ("commands.sweep", "judge a metric against human ratings for every setting of a grid"),
    "analyse-layers": ("commands.analyse_layers", "show how alike an encoder's token vectors are, layer by layer"),
    "train": ("training.train", "fine-tune a metric on human ratings"),
    "search": ("training.search", "search for the settings of a training recipe that agree best"),
    "export": ("training.export", "turn a training checkpoint into a folder that scores"),
    "fit-idf": ("commands.fit_statistics", "fit idf weights on a corpus"),
    "fit-mean": ("commands.fit_statistics", "fit the mean that token vectors are centred by on a corpus"),
    "fit-baseline": ("commands.fit_statistics", "fit the baseline that scores are rescaled by on a corpus"),
    "perturb": ("commands.perturb", "write graded corruptions of texts, with their severity"),
    "robustness": ("commands.robustness", "show what changes of a text do to the scores of metrics"),
    "app": ("commands.app", "score, explain and rate texts in the browser"),
    "cache": ("commands.cache", "show or clear what encoders made of texts and what was kept in a folder"),
    "list": ("commands.list_metrics", "list the presets"),
}
"""Module in :mod:`textmover.cli` and purpose of each command."""

EXAMPLES = {
    "score": (
        "-i hypotheses.txt references.txt",
        "--data pairs.csv --model bertscore-f1 --output scores.csv",
    ),
    "explain": (
        '"Officials delayed the vote." "The vote was delayed."',
        "-i hypotheses.txt references.txt --line 2 --output why.html",
    ),
    "compare": (
        "--hypotheses ours.txt theirs.txt --references references.txt",
        "--scores scores.tsv --output comparison.html",
    ),
    "mbr": (
        "-i samples.txt --num-candidates 8",
        "-i first.txt second.txt third.txt --output chosen.txt",
    ),
    "rank": (
        "--hypotheses a.txt b.txt c.txt --references references.txt",
        "--data outputs.tsv --system-column system --score-column score --group lp",
    ),
    "evaluate": (
        "--data ratings.csv --model twmd --model textmover-general",
        "--data newstest2017.tsv --set wmt-da --baselines chrf --report page",
    ),
    "sweep": (
        "--data ratings.csv --field layer=3,4,5,6",
        "--data ratings.csv --field temperature=0.02,0.1 --field layer=4,6 --model twmd",
    ),
    "analyse-layers": (
        "--data texts.txt",
        "--data table.csv --column text --encoder roberta-base",
    ),
    "train": (
        "--config configs/quickstart.yaml",
        "--config recipe.yaml --trainer.max_epochs 5",
    ),
    "search": (
        "--config recipe.yaml --space space.yaml --output runs/search",
        "--config recipe.yaml --space space.yaml --output runs/search --resume",
    ),
    "export": (
        "runs/mine/checkpoints/best.ckpt my-metric --adapter 16",
        "twmd my-metric --backend openvino",
    ),
    "fit-idf": (
        "--data corpus.txt --model yisi-1 --output idf.safetensors",
        "--data table.csv --column text --output idf.safetensors",
    ),
    "fit-mean": (
        "--data corpus.txt --model twmd-b --output mean.safetensors",
        "--data table.csv --column text --output mean.safetensors",
    ),
    "fit-baseline": (
        "--data corpus.txt --model bertscore-f1 --output baseline.safetensors",
        "--data table.csv --column text --output baseline.safetensors",
    ),
    "perturb": (
        "-i texts.txt -o perturbed.tsv",
        "-i texts.txt --types entity negation --degrees all",
    ),
    "robustness": (
        "-i texts.txt --models twmd bertscore-f1 --baselines chrf",
        "-i table.csv --column text --kinds number negation --output page",
    ),
    "app": (
        "ratings",
        "ratings --annotator Ada --scale 0-100",
    ),
    "cache": (
        "kept",
        "kept --clear",
    ),
    "list": (
        "",
        "bertscore-f1 --cite",
    ),
}
"""Arguments of each command, for its help."""

TERMINABLE = ("mbr", "evaluate", "sweep")
"""Commands that SIGTERM ends as Ctrl-C does, so that they say what they have kept. `score` sees to it itself, as
several processes may score, and whatever trains leaves it to Lightning."""

TRAINING_COMMANDS = ("fit", "validate", "test", "predict")
"""Commands of Lightning, of which ours offers the first two and refuses the others by name; ``fit``
where none is named."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose options are given once unless they say otherwise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for action in (None, "store"):
            self.register("action", action, SingleOption)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the way out is written, and exit with 2."""
        self.exit(2, f"textmover: {message} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with what stands behind ``textmover``, that of this process if ``None``.

    Returns the exit code: 0, 2 for unusable input, 130 after an interruption, 143 after SIGTERM where that is heeded.
    Ends after ``--help`` and ``--version``, and with 2 for arguments that do not exist.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # what it cannot encode is written as escapes, rather than an end
        with contextlib.suppress(io.UnsupportedOperation):
            sys.stdout.reconfigure(errors="backslashreplace")
    with guarded() as outcome:
        if arguments[:1] == ["train"]:
            return _train(arguments[1:])
        options = _parser(arguments[0] if arguments else "").parse_args(arguments)
        options.command_line = arguments  # for those who write down what was asked for
        set_up_logging(quiet=True)
        with heeding_termination() if arguments[0] in TERMINABLE else contextlib.nullcontext():
            options.run(options)
    return outcome.code


def _parser(command: str) -> Parser:
    """The parser of all commands, with the arguments of the one that is called for."""
    parser = Parser(
        prog="textmover", description="Trainable text-generation metrics from optimal transport.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"textmover {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, purpose) in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.\n\nexamples:\n{_examples(name)}",
            usage=f"textmover {name} [options]",
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            implementation = import_module(f"textmover.cli.{module}")
            add_options(one, implementation.OPTIONS)
            one.set_defaults(run=implementation.run, command=name)
    return parser


def _examples(command: str) -> str:
    return "\n".join(f"  textmover {command} {arguments}".rstrip() for arguments in EXAMPLES[command])


def _train(arguments: list[str]) -> int:
    """Lightning's command line, which parses for itself; ``fit`` where no other command of it stands first."""
    if arguments and arguments[0] not in (*TRAINING_COMMANDS, "-h", "--help"):
        arguments = ["fit", *arguments]
    from textmover.cli.training.train import main as train

    return train(arguments)


if __name__ == "__main__":
    sys.exit(main())
