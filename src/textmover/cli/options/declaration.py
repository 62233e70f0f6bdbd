"""Options of a command, declared as the lines that ``--help`` shows.

An entry is ``NAMES METAVAR (modifiers): help``; lines that begin with spaces continue it::

    # input: a heading of the help, with an optional description; what follows stands under it
    one of:                                     until the next empty line; `exactly one of:` requires one
    -i, --input HYPOTHESES REFERENCES...: dots take one value or more
    --samples N (default 1000, at least 1): N is a whole number, X a float, see TYPES; any other word is a text
    --format text|json: choices
    --model NAME (repeat): given once for each value
    --quiet: a flag, as it takes nothing; --[no-]quiet has both forms
    [NAME...] (as names): a positional argument, brackets where it may be missing
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any

from textmover.cli.options.types import SingleOption

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
        elif key == "as":
            settings["dest"] = value
        elif key == "at":
            least = int(value.removeprefix("least "))
        elif key == "of":
            settings["choices"] = value.split("|")
        else:
            several = settings.get("nargs") == "+" or settings.get("action") == "append"
            value = value.strip('"')
            settings["default"] = value.split() if several else settings.get("type", str)(value)
    if not words[len(names) :]:
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
