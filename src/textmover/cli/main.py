"""Entry point of ``textmover``: parse the arguments and run the command.

A command is a module with ``run(options)``, and a file ``help/COMMAND.txt`` with its options (see
:mod:`textmover.cli.options.help_files`). The module is imported after its options are parsed, so that ``--help``
and usage errors are fast.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import gc
import io
import itertools
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from textmover._version import __version__
from textmover.cli.argparse_messages import SYNONYMS, add_input_hint, add_option_hint, did_you_mean, reworded
from textmover.cli.options.help_files import SingleOption, add_options
from textmover.runs.exit_codes_and_signals import exit_code_context, open_streams, set_up_logging, sigterm_as_interrupt

COMMANDS = {
    "score": ("commands.score", "score texts against references"),
    "explain": ("commands.explain", "show which words match and what each adds to the score"),
    "errors": ("commands.errors", "mark words that differ, and where words are missing"),
    "compare": ("commands.compare", "compare systems on the same references, with significance tests"),
    "mbr": ("commands.mbr", "choose the best of several candidates by minimum Bayes risk"),
    "rank": ("commands.rank", "rank systems; systems that do not differ significantly share a rank"),
    "evaluate": ("commands.evaluate", "judge a metric against human ratings"),
    "sweep": ("commands.sweep", "judge a metric against human ratings for every setting of a grid"),
    "analyse-layers": ("commands.analyse_layers", "show the similarity of an encoder's token vectors by layer"),
    "check": ("training.check", "check a table of ratings, and write a recipe for it"),
    "train": ("training.train", "fine-tune a metric on human ratings"),
    "search": ("training.search", "search for the best settings of a training recipe"),
    "export": ("training.export", "convert a training checkpoint into a metric folder"),
    "fit-idf": ("training.fit_statistics", "fit idf weights on a corpus"),
    "fit-mean": ("training.fit_statistics", "fit the mean of a corpus, to centre token vectors"),
    "fit-baseline": ("training.fit_statistics", "fit the baseline of a corpus, to rescale scores"),
    "perturb": ("commands.perturb", "write graded corruptions of texts, with their severity"),
    "robustness": ("commands.robustness", "measure how scores change when texts are damaged"),
    "app": ("commands.app", "score, explain and rate texts in the browser"),
    "data": ("training.public_data_sets", "list public data sets, or fetch some by name"),
    "cache": ("commands.cache", "show or clear a folder of cached texts"),
    "list": ("commands.list_metrics", "list metrics and presets"),
}
"""Module in :mod:`textmover.cli` and purpose of each command."""

UNTERMINABLE = ("score", "train", "search", "app")
"""Commands that see to SIGTERM themselves or leave it to libraries; for all others it acts like Ctrl-C."""

COLLECT_AFTER = 20_000
"""Objects after which Python looks for garbage; by default 700, though imports make a million that last."""

TRAINING_COMMANDS = ("fit", "validate", "test", "predict")
"""Subcommands of Lightning. ``textmover train`` supports only the first two; ``fit`` is the default."""

FILES = ("-i", "--input", "-t", "--hypotheses", "-r", "--references", "--data")
"""Options that name input files; each command supports some of them."""

HELP = ("-h", "--help", "--help-all")


class Parser(argparse.ArgumentParser):
    """Argument parser that prints errors in one line and rejects repeated options by default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})
        self.subparser: Parser | None = None
        self.arguments: Sequence[str] = ()
        for action in (None, "store"):
            self.register("action", action, SingleOption)

    def error(self, message: str) -> NoReturn:
        """Print the error with a hint or a suggestion, and exit with code 2."""
        prog = self.prog
        match = re.match(r"argument COMMAND: invalid choice: '(.*?)'|unrecognized arguments: (\S+)", message)
        if match is not None:
            expected, word, valid, commands = "a command", match[1], list(COMMANDS), list[str]()
            if self.subparser is not None:
                prog, valid = self.subparser.prog, list(self.subparser._option_string_actions)
                expected, word = "known options" if match[2][0] == "-" else "nothing more", match[2].partition("=")[0]
                parsers = {} if word in SYNONYMS else {one: _parser(one, fields=False).subparser for one in COMMANDS}
                commands = [f"`{one}`" for one, it in parsers.items() if it and word in it._option_string_actions][:3]
            near = f", an option of {', '.join(commands)}" if commands else did_you_mean(word, valid)
            files = [one for one in ("-i", "-t", "-r", "--data") if one in valid and word in FILES]
            way_out = f": name files with {', '.join(files)}" if files else ""
            message = f"Expected {expected}, but got {word}{near}{way_out}"
        else:
            message = reworded(message)
            example = re.search(r"--output \S+", str((self.subparser or self).description))
            if message == "Expected --output, but got none" and example:
                message += f": give it, as in {example[0]}"
            if message == "Expected COMMAND, but got none" and self.arguments:
                near = did_you_mean(self.arguments[0], [*COMMANDS, *self._option_string_actions])
                message = f"Expected a command, but got {self.arguments[0]}{near}"
        actions = (self.subparser or self)._option_string_actions
        message = add_option_hint(add_input_hint(message, self.arguments[1:], actions), self.arguments[1:], actions)
        option = self._option_string_actions.get(message.partition(" to ")[0].removeprefix("Expected "))
        everything = "-all" * (getattr(option, "help", "") == argparse.SUPPRESS)
        self.exit(2, f"textmover: {message} (see `{prog} --help{everything}`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with the arguments after ``textmover``, by default those of this process.

    Returns the exit code: 0, 1 for `compare --fail-if-worse` and `errors --fail-on`, 2 for invalid input, 130 after an
    interruption, 143 after SIGTERM if that is handled. Exits after ``--help``, ``--version`` and unknown arguments.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command = arguments[0] if arguments else ""
    _collect_rarely(trains=command in ("train", "search"))
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # UTF-8, but a terminal its own with escapes for what it cannot show
        with contextlib.suppress(io.UnsupportedOperation):
            encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
            sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")
    with exit_code_context() as outcome:
        rest = itertools.takewhile("--".__ne__, arguments[1:])
        help_flags = [one for one in rest if one in HELP]
        if command == "train" and help_flags[:1] not in (["-h"], ["--help"]):
            from textmover.cli.training.train import main as train

            args = ["fit", "--help"] if help_flags else arguments[1:]
            return train(args if not args or args[0] in TRAINING_COMMANDS else ["fit", *args])
        parser = _parser(command, rare=help_flags[:1] == ["--help-all"], fields=not help_flags)
        parser.arguments = arguments
        if parser.subparser is not None:
            parser.subparser.arguments = arguments
        options = parser.parse_args(arguments[:1] + help_flags[:1] if command == "train" else arguments)
        options.command_line = arguments  # for reports that record the command line
        quiet = getattr(options, "quiet", False)
        set_up_logging(quiet=True, devices=not quiet)
        if quiet:
            os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        run = options.run or import_module(f"textmover.cli.{COMMANDS[command][0]}").run
        from textmover.files import take_written  # late: imports NumPy, which help does not need
        from textmover.readers.column_flags import check_inputs

        take_written()  # of an earlier command in this process
        with contextlib.nullcontext() if command in UNTERMINABLE else sigterm_as_interrupt():
            outcome.judges = bool(getattr(options, "fail_on", None) or getattr(options, "fail_if_worse", None))
            try:
                check_inputs(options)
                outcome.code = run(options) or 0
                outcome.judges = False
            finally:
                written = take_written()
                if written and not quiet:
                    sys.stderr.write(f"Written: {', '.join(written)}\n")
    return outcome.code


@functools.cache
def _collect_rarely(*, trains: bool) -> None:
    """Save a second of each command: look for garbage rarely, and at exit not at all."""
    if not trains:  # where garbage may hold the memory of a GPU
        gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def _parser(command: str, *, rare: bool = True, fields: bool = True) -> Parser:
    """Return the parser of all commands; only ``command`` gets its options."""
    parser = Parser(prog="textmover", description="Trainable text-generation metrics from optimal transport.")
    parser.add_argument("--version", action="version", version=f"textmover {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (_, purpose) in COMMANDS.items():
        subparser = commands.add_parser(name, help=purpose, add_help=False)
        if name == command:
            add_options(subparser, name, purpose, rare=rare, fields=fields)
            parser.subparser = subparser
            defaults = {action.dest: action.default for action in subparser._actions}
            subparser.set_defaults(run=None, command=name, defaults=defaults)
    return parser


if __name__ == "__main__":
    sys.exit(main())
