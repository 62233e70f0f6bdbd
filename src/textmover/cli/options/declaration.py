"""Options of a command, declared as the lines that ``--help`` shows.

An entry is ``NAMES METAVAR (modifiers): help``; lines that begin with spaces continue it::

    # input: a heading of the help, with an optional description; what follows stands under it
    one of:                                     until the next empty line; `exactly one of:` requires one
    -i, --input HYPOTHESES REFERENCES...: dots take one value or more
    --samples N (default 1000, at least 1): N is a whole number, X a float, see TYPES; any other word is a text
    --format text|json: choices
    --model NAME (repeat): given once for each value
    --quiet: a flag, as it takes nothing; --[no-]quiet has both forms
    --cite (instead): printed in place of the work, see Instead
    [NAME...] (as names): a positional argument, brackets where it may be missing
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
from collections.abc import Callable, Sequence
from typing import Any

TYPES = {
    **dict.fromkeys(("N", "M", "PORT", "RANK"), int),
    **dict.fromkeys(("X", "GIB", "POINTS", "SHARE", "WEIGHT"), float),
}
"""Types of values by the word that stands for them."""

Part = str | Callable[[argparse.ArgumentParser], None]
"""Entries as text, or a function that adds what is made of code."""

ENTRY = re.compile(r"(?P<form>.+?)\s*(?:\((?P<modifiers>[^()]+)\))?: (?P<help>.*)")


def add_options(parser: argparse.ArgumentParser, parts: Sequence[Part]) -> None:
    """Add declared options to a parser."""
    for part in parts:
        if callable(part):
            part(parser)
            continue
        place: Any = parser
        group: Any = parser
        for line in re.sub(r"\n +", " ", part).splitlines():
            if line.startswith("# "):
                title, _, description = line[2:].partition(": ")
                known = [one for one in parser._action_groups if one.title == title]
                group = place = known[0] if known else parser.add_argument_group(title, description or None)
            elif line in ("one of:", "exactly one of:"):
                place = group.add_mutually_exclusive_group(required=line != "one of:")
            elif not line:
                place = group
            else:
                _add_option(place, line)


def _add_option(place: Any, line: str) -> None:
    found = ENTRY.fullmatch(line)
    if found is None:
        raise ValueError(f"Expected NAMES METAVAR (modifiers): help, but got {line!r}.")
    words = re.split(r",? ", found["form"]) if found["form"].startswith("-") else [found["form"]]
    names = [word for word in words if word.startswith("-")]
    settings: dict[str, Any] = {"help": found["help"], **_values(words[len(names) :], positional=not names)}
    least = None
    for modifier in (found["modifiers"] or "").split(", ") if found["modifiers"] else ():
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
        else:
            listed = settings.get("nargs") == "+" or settings.get("action") == "append"
            value = value.strip('"')
            settings["default"] = value.split() if listed else settings.get("type", str)(value)
    if not words[len(names) :] and "action" not in settings:
        settings["action"] = argparse.BooleanOptionalAction if "[no-]" in names[0] else "store_true"
    if not names:
        settings.setdefault("dest", settings["metavar"].lower())
    action = place.add_argument(*(name.replace("[no-]", "") for name in names), **settings)
    if isinstance(action, SingleOption):
        action.least = least


def _values(words: Sequence[str], *, positional: bool) -> dict[str, Any]:
    """Settings of the values that the words stand for."""
    if not words:
        return {}
    several, missing = words[-1].strip("[]").endswith("..."), words[0].startswith("[") and words[-1].endswith("]")
    shown = tuple(word.strip("[]").removesuffix("...") if missing else word.removesuffix("...") for word in words)
    settings: dict[str, Any] = {"metavar": shown[0] if len(shown) == 1 else shown}
    if several or missing:
        settings["nargs"] = "*" if several and missing else "+" if several else "?"
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
        super().__init__(prog, max_help_position=32, width=width)

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
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value, or end with one sentence."""
        if option_string is not None:
            # A set of the parser, which is made for one command line.
            seen: set[str] = parser.__dict__.setdefault("seen_options", set())
            if self.dest in seen:
                parser.error(_twice(option_string, several=self.nargs in ("+", "*")))
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

        setattr(namespace, self.dest, values or True)
        namespace.run = getattr(signature_and_citations, f"print_{self.dest}")
        needed: list[Any] = [*parser._actions, *parser._mutually_exclusive_groups]
        for one in needed:
            one.required = False


def given_twice(arguments: Sequence[str]) -> str | None:
    """Return what is wrong where Lightning's command line gets an option twice; ``None`` if nothing is.

    Several ``--config`` are merged, and ``+=`` begins another entry of a list, whose options come again.

    Example:
        >>> given_twice(["--trainer.max_epochs=1", "--trainer.max_epochs", "2"])
        'Expected --trainer.max_epochs once, but got it twice: leave one of them out'
    """
    names = [one.partition("=")[0] for one in arguments if one.startswith("--")]
    several = ("--config", *(one.removesuffix("+") for one in names if one.endswith("+")))
    option = next((one for one in names if names.count(one) > 1 and not one.startswith(several)), None)
    return None if option is None else _twice(option)


def _twice(option: str, *, several: bool = False) -> str:
    way_out = "give all its values behind one" if several else "leave one of them out"
    return f"Expected {option} once, but got it twice: {way_out}"


def _beyond(option: str, value: object, *, finite: bool) -> str | None:
    """Describe a number outside its bounds; fields of the metric say themselves whether they may be infinite."""
    if finite and isinstance(value, float) and not math.isfinite(value):
        return f"Expected {option} to be a finite number, but got {value}: correct it"
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    from textmover.types.bounds import BOUNDS, OTHER_OPTIONS  # which imports torch: not for --help

    least, most = BOUNDS.get(option) or BOUNDS.get(option[2:].replace("-", "_"), (0, OTHER_OPTIONS))
    if option.endswith(("-seed", "-seeds")) and value < least:
        return f"Expected {option} to be at least {least}, but got {value}."
    return f"Expected {option} to be at most {most:,}, but got {value}: give a smaller number" if value > most else None
