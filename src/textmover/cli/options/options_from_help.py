"""Examples and options of a command, declared in ``cli/help/COMMAND.txt`` as the lines that ``--help`` shows.

Examples stand first, up to an empty line. An entry is ``NAMES METAVAR (modifiers): help``; lines that begin with spaces
continue it::

    # input: a heading of the help, with an optional description; what follows stands under it
    one of:                                     until the next empty line; `exactly one of:` requires one
    -i, --input HYPOTHESES REFERENCES...: dots take one value or more
    --samples N (default 1000, at least 1): N is a whole number, X a float, see TYPES; any other word is a text
    --seed N (rare, default 0): `--help-all` alone shows it
    --format text|json: choices, which a {} in the help stands for
    --model NAME (repeat): given once for each value
    --quiet: a flag, as it takes nothing; --[no-]quiet has both forms
    --cite (instead): printed in place of the work, see Instead
    [NAME...] (as names): a positional argument, brackets where it may be missing
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
"""Types of values by the word that stands for them."""

ENTRY = re.compile(r"(?P<form>.+?)\s*(?:\((?P<modifiers>[^()]+)\))?: (?P<help>.*)")

COLUMN = 32  # where help texts begin


def declared(name: str) -> list[str]:
    """Lines of a help file, those that it includes among them."""
    text = re.sub(r"\n +", " ", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    found = []
    for line in text.splitlines():
        found += declared(f"shared_{line[8:]}") if line.startswith("include ") else [line]
    return found


def examples(command: str) -> list[str]:
    """Command lines to begin with."""
    lines = declared(command)
    return lines[: lines.index("")]


def add_options(
    parser: argparse.ArgumentParser, command: str, purpose: str, *, rare: bool = True, fields: bool = True
) -> None:
    """Add the declared options of a command to a parser, and its help, which begins with ``purpose``.

    ``rare`` shows options that are rarely used; ``fields`` adds the metric's fields, for which PyTorch is imported.
    """
    parser.usage, parser.formatter_class = f"textmover {command} [options]", HelpFormatter
    parser.description = "\n  ".join((f"{purpose[0].upper()}{purpose[1:]}.\n\nexamples:", *examples(command)))
    parser.add_argument("-h", "--help", "--help-all", action="help", help=argparse.SUPPRESS)
    more = []
    lines = declared(command)
    place: Any = parser
    group: Any = parser
    hidden = False
    for line in lines[lines.index("") + 1 :]:
        if line.startswith("# "):
            title, _, description = line[2:].partition(": ")
            known = [one for one in parser._action_groups if one.title == title]
            group = place = known[0] if known else parser.add_argument_group(title, description or None)
        elif line in ("one of:", "exactly one of:"):
            place = group.add_mutually_exclusive_group(required=line != "one of:")
        elif line == "metric fields":
            more.append("--help-metric: fields of the metric, such as --layer 4")
            parser.add_argument("--help-metric", action=HelpMetric, nargs=0, help=argparse.SUPPRESS)
            if fields:
                from textmover.scoring.config_options import add_field_options  # brings PyTorch along

                add_field_options(parser, shown=False)
        elif not line:
            place = group
        else:
            hidden |= _add_option(place, line, rare=rare)
    if hidden and not rare:
        more.append("--help-all: all options")
    parser.epilog = "; ".join(more)


def _add_option(place: Any, line: str, *, rare: bool) -> bool:
    """Add the option of a line; returns whether it is rarely used."""
    found = ENTRY.fullmatch(line)
    if found is None:
        raise ValueError(f"Expected NAMES METAVAR (modifiers): help, but got {line!r}.")
    words = re.split(r",? ", found["form"]) if found["form"].startswith("-") else [found["form"]]
    names = [word for word in words if word.startswith("-")]
    settings: dict[str, Any] = {"help": found["help"], **_values(words[len(names) :], positional=not names)}
    least, modifiers = None, (found["modifiers"] or "").split(", ") if found["modifiers"] else []
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
            listed = settings.get("nargs") == "+" or settings.get("action") == "append"
            settings["help"] += "" if "default" in found["help"] or value == '""' else f" (default {value})"
            value = value.strip('"')
            settings["default"] = value.split() if listed else settings.get("type", str)(value)
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
    """Settings of the values that the words stand for."""
    if not words:
        return {}
    several, missing = words[-1].strip("[]").endswith("..."), words[0].startswith("[") and words[-1].endswith("]")
    shown = tuple(word.strip("[]").removesuffix("...") if missing else word.removesuffix("...") for word in words)
    settings: dict[str, Any] = {"metavar": shown[0] if len(shown) == 1 else shown}
    if several or missing:
        settings["nargs"] = "*" if several and missing else "+" if several else "?"
        settings |= {"default": []} if positional and settings["nargs"] == "*" else {}  # not required then
    if shown[0] in TYPES:
        settings["type"] = TYPES[shown[0]]
    if "|" in shown[0]:
        settings["choices"] = tuple(shown[0].split("|"))
        del settings["metavar"]
    return settings


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Lines of the terminal's width, at most 112 characters, with room for short options."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns - 2, 112)
        super().__init__(prog, max_help_position=COLUMN, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Break at spaces alone, so that values with hyphens can be copied."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name the values once: ``-i, --input FILE``."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """Write several values as ``FILE...`` and ``HYPOTHESES REFERENCES...``."""
        shown = (action.metavar,) if isinstance(action.metavar, str) else action.metavar
        return (
            f"{' '.join(shown)}..." if action.nargs == "+" and shown else super()._format_args(action, default_metavar)
        )


class SingleOption(argparse.Action):
    """Stores a value as argparse does, but refuses an option that is given again and a number beyond its bound."""

    least: int | None = None

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Store the value, or end with one sentence."""
        if option is not None:
            # A set of the parser, which is made for one command line.
            seen: set[str] = parser.__dict__.setdefault("seen_options", set())
            if self.dest in seen:
                parser.error(_twice(option, several=self.nargs in ("+", "*")))
            seen.add(self.dest)
            for value in values if isinstance(values, list) else [values]:
                if problem := _beyond(self.option_strings[-1], value, finite=self.type is float):
                    parser.error(problem)
            if self.least is not None and values < self.least:
                from textmover.types import InputError  # brings torch along, which `--help` can do without

                raise InputError(f"Expected {self.option_strings[-1]} to be at least {self.least}, but got {values}.")
        setattr(namespace, self.dest, values)


class Instead(argparse.Action):
    """Lets a command print something of its metric in place of its work, for which no texts are needed."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Choose what runs; as with ``--help``, no option is required then."""
        from textmover.cli.options import signature_and_citations

        if namespace.run is not None and not getattr(namespace, self.dest):
            parser.error("argument --cite: not allowed with argument --signature")
        setattr(namespace, self.dest, values or True)
        namespace.run = getattr(signature_and_citations, f"print_{self.dest}")
        needed: list[Any] = [*parser._actions, *parser._mutually_exclusive_groups]
        for one in needed:
            one.required = False


class HelpMetric(argparse.Action):
    """Prints the options for fields of the metric."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        sys.stdout.write(fields_help(parser.prog))
        parser.exit()


def fields_help(program: str) -> str:
    """The help of the options for fields of the metric."""
    from textmover.scoring.config_options import add_field_options

    shown = argparse.ArgumentParser(program, f"{program} [options]", add_help=False, formatter_class=HelpFormatter)
    about = "They override the fields of a preset.\nA trained metric allows those that leave its weights unchanged."
    add_field_options(shown.add_argument_group("fields of the metric", about), shown=True)
    return shown.format_help()


def given_twice(arguments: Sequence[str]) -> str | None:
    """Return what is wrong where Lightning's command line gets an option twice; ``None`` if nothing is.

    Several ``--config`` are merged, and ``+=`` begins another entry of a list, whose options come again.

    Example:
        >>> given_twice(["--trainer.max_epochs=1", "--trainer.max_epochs", "2"])
        'Expected --trainer.max_epochs once, but got it twice: remove one'
    """
    names = [one.partition("=")[0] for one in arguments if one.startswith("--")]
    several = ("--config", *(one.removesuffix("+") for one in names if one.endswith("+")))
    option = next((one for one in names if names.count(one) > 1 and not one.startswith(several)), None)
    return None if option is None else _twice(option)


def _twice(option: str, *, several: bool = False) -> str:
    way_out = "give all its values after one" if several else "remove one"
    return f"Expected {option} once, but got it twice: {way_out}"


def _beyond(option: str, value: object, *, finite: bool) -> str | None:
    """Describe a number outside its bounds; fields of the metric say themselves whether they may be infinite."""
    if finite and isinstance(value, float) and not math.isfinite(value):
        return f"Expected {option} to be a finite number, but got {value}: correct it"
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    from textmover.types.arguments import BOUNDS, OTHER_OPTIONS  # which imports torch: not for --help

    least, most = BOUNDS.get(option) or BOUNDS.get(option[2:].replace("-", "_"), (0, OTHER_OPTIONS))
    if option.endswith(("-seed", "-seeds")) and value < least:
        return f"Expected {option} to be at least {least}, but got {value}."
    return f"Expected {option} to be at most {most:,}, but got {value}: give a smaller number" if value > most else None
