"""Options that take one value: given once, finite and within bounds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any


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
                if problem := _beyond(self.option_strings[-1], value):
                    parser.error(problem)
            if self.least is not None and values < self.least:
                from textmover.types import InputError  # brings torch along, which `--help` can do without

                raise InputError(f"Expected {self.option_strings[-1]} to be at least {self.least}, but got {values}.")
        setattr(namespace, self.dest, values)


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


def _beyond(option: str, value: object) -> str | None:
    """Describe a number outside its bounds."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"Expected {option} to be a finite number, but got {value}: correct it"
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    from textmover.types.bounds import BOUNDS, OTHER_OPTIONS  # which imports torch: not for --help

    least, most = BOUNDS.get(option) or BOUNDS.get(option[2:].replace("-", "_"), (0, OTHER_OPTIONS))
    if option.endswith(("-seed", "-seeds")) and value < least:
        return f"Expected {option} to be at least {least}, but got {value}."
    return f"Expected {option} to be at most {most:,}, but got {value}: give a smaller number" if value > most else None
