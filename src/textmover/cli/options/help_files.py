"""Read the examples and options of a command from ``cli/help/COMMAND.txt``, written as ``--help`` shows them.

The examples come first, up to an empty line. An entry is ``NAMES METAVAR (modifiers): help``; lines that begin with
spaces continue it::

    # input: a heading of the help, with an optional description; the following options belong to it
    one of:                                     until the next empty line; `exactly one of:` requires one
    -i, --input HYPOTHESES REFERENCES...: dots take one value or more
    --samples N (default 1000, at least 1): N is a whole number, X a float, see TYPES; any other word is a text
    --seed N (rare, default 0): only `--help-all` shows it
    --format text|json: choices, which replace a {} in the help
    --model NAME (repeat): may be repeated, with one value each time
    --quiet: a flag without value; --[no-]quiet has both forms
    --cite (instead): printed instead of running the command, see Instead
    [NAME...] (as names): a positional argument, in brackets if optional
    include split                               the lines of shared_split.txt
    metric fields                               an option for each field of a metric; `--help-metric` shows them
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "help"

TYPES = {
    **dict.fromkeys(("N", "M", "PORT", "RANK"), int),
    **dict.fromkeys(("X", "P", "GIB", "POINTS", "SHARE", "WEIGHT"), float),
}
"""Type of a value by its placeholder."""

ENTRY = re.compile(r"(?P<form>.+?)\s*(?:\((?P<modifiers>[^()]+)\))?: (?P<help>.*)")

COLUMN = 32  # start column of help texts


def help_lines(name: str) -> list[str]:
    """Return the lines of a help file with its includes."""
    text = re.sub(r"\n +", " ", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    lines = []
    for line in text.splitlines():
        lines += help_lines(f"shared_{line[8:]}") if line.startswith("include ") else [line]
    return lines


def examples(command: str) -> list[str]:
    """Return the example command lines of a command."""
    lines = help_lines(command)
    return lines[: lines.index("")]


def add_options(
    parser: argparse.ArgumentParser, command: str, purpose: str, *, rare: bool = True, fields: bool = True
) -> None:
    """Add the options of a command to a parser, and its help, which begins with ``purpose``.

    ``rare`` also shows rare options in the help. ``fields`` adds the fields of the metric, which imports PyTorch.
    """
    parser.usage, parser.formatter_class = f"textmover {command} [options]", HelpFormatter
    parser.description = "\n  ".join((f"{purpose[0].upper()}{purpose[1:]}.\n\nexamples:", *examples(command)))
    parser.add_argument("-h", "--help", "--help-all", action="help", help=argparse.SUPPRESS)
    more = []
    lines = help_lines(command)
    place: Any = parser
    group: Any = parser
    hidden = False
    for line in lines[lines.index("") + 1 :]:
        if line.startswith("# "):
            title, _, description = line[2:].partition(": ")
            groups = [existing for existing in parser._action_groups if existing.title == title]
            group = place = groups[0] if groups else parser.add_argument_group(title, description or None)
        elif line in ("one of:", "exactly one of:"):
            place = group.add_mutually_exclusive_group(required=line != "one of:")
        elif line == "metric fields":
            more.append("--help-metric: fields of the metric, such as --layer 4")
            parser.add_argument("--help-metric", action=HelpMetric, nargs=0, help=argparse.SUPPRESS)
            if fields:
                from textmover.scoring.metric_field_options import add_field_options  # late: imports PyTorch

                add_field_options(parser, shown=False)
        elif not line:
            place = group
        else:
            hidden |= _add_option(place, line, rare=rare)
    if hidden and not rare:
        more.append("--help-all: all options")
    parser.epilog = "; ".join(more)


def _add_option(place: Any, line: str, *, rare: bool) -> bool:
    """Add the option of a line; return whether it is rare."""
    match = ENTRY.fullmatch(line)
    if match is None:
        raise ValueError(f"Expected NAMES METAVAR (modifiers): help, but got {line!r}.")
    words = re.split(r",? ", match["form"]) if match["form"].startswith("-") else [match["form"]]
    names = [word for word in words if word.startswith("-")]
    settings: dict[str, Any] = {"help": match["help"], **_values(words[len(names) :], positional=not names)}
    least, modifiers = None, (match["modifiers"] or "").split(", ") if match["modifiers"] else []
    for modifier in modifiers:
        key, _, value = modifier.partition(" ")
        if key in ("required", "repeat"):
            adding = "extend" if settings.get("nargs") == "+" else "append"
            settings |= {"required": True} if key == "required" else {"action": adding}
        elif key == "instead":
            choices = settings.get("choices")
            settings |= {"action": Instead, "nargs": "?" if choices else 0}
            settings |= {"const": choices[0], "metavar": "|".join(choices)} if choices else {}
        elif key == "as":
            settings["dest"] = value
        elif key == "at":
            least = int(value.removeprefix("least "))
        elif key == "of":
            settings["choices"] = value.split("|")
        elif key == "default":
            several = settings.get("nargs") == "+" or settings.get("action") == "append"
            settings["help"] += "" if "default" in match["help"] or value == '""' else f" (default {value})"
            value = value.strip('"')
            settings["default"] = value.split() if several else settings.get("type", str)(value)
    if not words[len(names) :] and "action" not in settings:
        settings["action"] = argparse.BooleanOptionalAction if "[no-]" in names[0] else "store_true"
    if not names:
        settings.setdefault("dest", settings["metavar"].lower())
    choices = settings.get("choices", ())
    if names and choices and "const" not in settings and len(f"  {names[-1]} {{{','.join(choices)}}}  ") > COLUMN:
        settings.setdefault("metavar", names[-1].rpartition("-")[2].upper())
        settings["help"] = re.sub(r"^(?!.*\{})", "{}: ", settings["help"]).replace("{}", ", ".join(choices))
    if "rare" in modifiers and not rare:
        settings["help"] = argparse.SUPPRESS
    action = place.add_argument(*(name.replace("[no-]", "") for name in names), **settings)
    if isinstance(action, SingleOption):
        action.least = least
    return "rare" in modifiers


def _values(words: Sequence[str], *, positional: bool) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for the placeholders of an option."""
    if not words:
        return {}
    several, optional = words[-1].strip("[]").endswith("..."), words[0].startswith("[") and words[-1].endswith("]")
    names = tuple(word.strip("[]").removesuffix("...") if optional else word.removesuffix("...") for word in words)
    settings: dict[str, Any] = {"metavar": names[0] if len(names) == 1 else names}
    if several or optional:
        settings["nargs"] = "*" if several and optional else "+" if several else "?"
        settings |= {"default": []} if positional and settings["nargs"] == "*" else {}  # makes it optional
    if names[0] in TYPES:
        settings["type"] = TYPES[names[0]]
    if "|" in names[0]:
        settings["choices"] = tuple(names[0].split("|"))
        del settings["metavar"]
    return settings


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help formatter with lines of the terminal's width, at most 112 characters."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns - 2, 112)
        super().__init__(prog, max_help_position=COLUMN, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Break only at spaces, so that values with hyphens can be copied."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name the values once: ``-i, --input FILE``."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """Write several values as ``FILE...`` and ``HYPOTHESES REFERENCES...``."""
        names = (action.metavar,) if isinstance(action.metavar, str) else action.metavar
        return (
            f"{' '.join(names)}..." if action.nargs == "+" and names else super()._format_args(action, default_metavar)
        )


class SingleOption(argparse.Action):
    """Store a value as argparse does, but reject a repeated option and a number out of bounds."""

    least: int | None = None

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Store the value, or exit with an error."""
        if option is not None:
            # Stored on the parser, since every command line has its own parser.
            seen: set[str] = parser.__dict__.setdefault("seen_options", set())
            if self.dest in seen:
                parser.error(_repeated_message(option, several=self.nargs in ("+", "*")))
            seen.add(self.dest)
            for value in values if isinstance(values, list) else [values]:
                if problem := _bound_error(self.option_strings[-1], value, finite=self.type is float):
                    parser.error(problem)
            if self.least is not None and values < self.least:
                from textmover.types import InputError  # late: imports torch, which `--help` does not need

                raise InputError(f"Expected {self.option_strings[-1]} to be at least {self.least}, but got {values}.")
        setattr(namespace, self.dest, values)


class Instead(argparse.Action):
    """Option that prints something about the metric instead of running the command; needs no texts."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Replace the function of the command, and make all options optional, as for ``--help``."""
        from textmover.cli.options import signature_and_citations

        if namespace.run is not None and not getattr(namespace, self.dest):
            parser.error("argument --cite: not allowed with argument --signature")
        setattr(namespace, self.dest, values or True)
        namespace.run = getattr(signature_and_citations, f"print_{self.dest}")
        arguments: list[Any] = [*parser._actions, *parser._mutually_exclusive_groups]
        for argument in arguments:
            argument.required = False


class HelpMetric(argparse.Action):
    """Option that prints the options for the fields of the metric."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the help and exit."""
        sys.stdout.write(fields_help(parser.prog))
        parser.exit()


def fields_help(program: str) -> str:
    """Return the help of the options for the fields of the metric."""
    from textmover.scoring.metric_field_options import add_field_options

    parser = argparse.ArgumentParser(program, f"{program} [options]", add_help=False, formatter_class=HelpFormatter)
    about = "They override the fields of a preset.\nA trained metric allows those that leave its weights unchanged."
    add_field_options(parser.add_argument_group("fields of the metric", about), shown=True)
    return parser.format_help()


def repeated_option(arguments: Sequence[str]) -> str | None:
    """Return an error message if arguments for Lightning repeat an option; ``None`` otherwise.

    ``--config`` may be repeated. ``+=`` starts another entry of a list, so its options may be repeated too.

    Example:
        >>> repeated_option(["--trainer.max_epochs=1", "--trainer.max_epochs", "2"])
        'Expected --trainer.max_epochs once, but got it twice: remove one'
    """
    names = [one.partition("=")[0] for one in arguments if one.startswith("--")]
    repeatable = ("--config", *(one.removesuffix("+") for one in names if one.endswith("+")))
    option = next((one for one in names if names.count(one) > 1 and not one.startswith(repeatable)), None)
    return None if option is None else _repeated_message(option)


def _repeated_message(option: str, *, several: bool = False) -> str:
    way_out = "give all its values after one" if several else "remove one"
    return f"Expected {option} once, but got it twice: {way_out}"


def _bound_error(option: str, value: object, *, finite: bool) -> str | None:
    """Return an error message for a number out of bounds; fields of the metric check for infinity themselves."""
    if finite and isinstance(value, float) and not math.isfinite(value):
        return f"Expected {option} to be a finite number, but got {value}: correct it"
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    from textmover.types.argument_checks import BOUNDS, OTHER_OPTIONS  # late: imports torch, which --help does not need

    least, most = BOUNDS.get(option) or BOUNDS.get(option[2:].replace("-", "_"), (0, OTHER_OPTIONS))
    if option.endswith(("-seed", "-seeds")) and value < least:
        return f"Expected {option} to be at least {least}, but got {value}."
    return f"Expected {option} to be at most {most:,}, but got {value}: give a smaller number" if value > most else None
