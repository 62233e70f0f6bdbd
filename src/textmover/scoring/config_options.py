"""Flags that stand for the fields of a metric's configuration."""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

from textmover.presets import KINDS
from textmover.safe_reading import load_yaml
from textmover.types import InputError

FIELD = "field."  # prefix of the destination of a configuration field's flag

FIELD_FLAGS = {"output": "--metric-output"}
"""Flags of fields that would otherwise have the name of a command's own option."""


def field_flag(name: str) -> str:
    """The flag that stands for a field of the configuration.

    Example:
        >>> field_flag("multi_reference"), field_flag("output")
        ('--multi-reference', '--metric-output')
    """
    return FIELD_FLAGS.get(name, f"--{name.replace('_', '-')}")


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of the configuration that the options set, by name."""
    return {name.removeprefix(FIELD): value for name, value in vars(options).items() if name.startswith(FIELD)}


NOT_FIELDS = ("kind", "revision")
"""Fields without a flag of their own: a metric keeps its class, and ``--revision`` means checkpoint or encoder."""


def field_value(name: str, text: str) -> Any:
    """Value of a flag: a text as it is, a list split at commas, or else YAML; a text where there is no such field."""
    hint = metric_fields().get(name, (str, None))[0]
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return text
    if hint == tuple[str, ...]:
        return tuple(one.strip() for one in text.strip("[] ").split(",") if one.strip())
    if str in alternatives:
        return None if text == "null" else text
    try:
        value = load_yaml(text, "the value")
    except InputError as error:
        raise argparse.ArgumentTypeError(f"expected a number, true, false or null, but got {text!r}") from error
    if isinstance(value, str) and (hint is float or float in alternatives):
        with contextlib.suppress(ValueError):
            return float(value)  # "inf"
    return value


def written(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


LONGEST_WORD = 48  # characters of the choices that may stand behind a flag


def value_word(hint: Any) -> str:
    """Word that stands for a value in the help."""
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if hint is bool:
        return "{true,false}"
    if hint == tuple[str, ...]:
        return "TEXT,…"
    return "TEXT" if hint is str or str in get_args(hint) else "NUMBER"


@functools.cache
def metric_fields() -> dict[str, tuple[Any, str | None]]:
    """Type and comment of every field that a kind of metric has; the first kind's, where several have it."""
    found: dict[str, tuple[Any, str | None]] = {}
    for config_class in dict.fromkeys(metric_class.config_class for metric_class in KINDS.values()):
        comments: dict[str, str] = {}
        with contextlib.suppress(OSError):  # installed without source
            source = inspect.getsource(config_class)
            comments = dict(re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE))
        for name, hint in get_type_hints(config_class).items():
            comment = comments.get(name)
            found.setdefault(name, (hint, comment and comment.replace("None", "null").replace("%", "%%")))
    return found


def add_field_options(parser: argparse._ActionsContainer, *, shown: bool) -> None:
    """Add an option for each field that a kind of metric has, hidden from the help unless ``shown``."""
    for name, (hint, comment) in metric_fields().items():
        if name not in NOT_FIELDS:
            word = value_word(hint)
            if len(word) > LONGEST_WORD and comment:  # its values stand in the help, whose lines are wrapped
                word, comment = "NAME", f"{', '.join(word.strip('{}').split(','))}: {comment}"
            how: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": word}
            how["help"] = comment if shown else argparse.SUPPRESS
            parser.add_argument(
                field_flag(name), dest=f"{FIELD}{name}", type=functools.partial(field_value, name), **how
            )
