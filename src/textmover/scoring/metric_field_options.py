"""Command-line options for the fields of a metric's configuration."""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

from textmover.presets import PRESETS
from textmover.safe_reading import load_yaml
from textmover.types import InputError

FIELD = "field."  # prefix of the argparse destination of these options

FIELD_FLAGS = {"output": "--metric-output"}
"""Options of fields whose name is already taken by an option of a command."""


def field_flag(name: str) -> str:
    """Return the option of a configuration field.

    Example:
        >>> field_flag("multi_reference"), field_flag("output")
        ('--multi-reference', '--metric-output')
    """
    return FIELD_FLAGS.get(name, f"--{name.replace('_', '-')}")


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration fields that the options set, by name."""
    return {name.removeprefix(FIELD): value for name, value in vars(options).items() if name.startswith(FIELD)}


NOT_FIELDS = ("kind", "revision")
"""Fields without an option: a metric keeps its class, and ``--revision`` may mean checkpoint or encoder."""


def field_value(name: str, text: str) -> Any:
    """Parse the value of a field: text as it is, lists split at commas, else YAML; unknown fields are text."""
    hint = metric_fields().get(name, (str, None))[0]
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return text
    if hint == tuple[str, ...]:
        return tuple(part.strip() for part in text.strip("[] ").split(",") if part.strip())
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


def option_text(value: Any) -> str:
    """Format a value as on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


LONGEST_WORD = 48  # maximum length of the choices shown after an option


def value_word(hint: Any) -> str:
    """Return the placeholder of a value in the help."""
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if hint is bool:
        return "{true,false}"
    if hint == tuple[str, ...]:
        return "TEXT,…"
    return "TEXT" if hint is str or str in get_args(hint) else "NUMBER"


@functools.cache
def metric_fields() -> dict[str, tuple[Any, str | None]]:
    """Return type and comment of every field of all metric kinds; for shared fields, of the first kind."""
    fields: dict[str, tuple[Any, str | None]] = {}
    for config_class in dict.fromkeys(type(preset.config) for preset in PRESETS.values()):
        comments: dict[str, str] = {}
        with contextlib.suppress(OSError):  # installed without source
            source = inspect.getsource(config_class)
            comments = dict(re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE))
        for name, hint in get_type_hints(config_class).items():
            comment = comments.get(name)
            fields.setdefault(name, (hint, comment and comment.replace("None", "null").replace("%", "%%")))
    return fields


def add_field_options(parser: argparse._ActionsContainer, *, shown: bool) -> None:
    """Add an option for each configuration field, hidden from the help unless ``shown``."""
    for name, (hint, comment) in metric_fields().items():
        if name not in NOT_FIELDS:
            word = value_word(hint)
            if len(word) > LONGEST_WORD and comment:  # move the choices into the help text, which is wrapped
                word, comment = "NAME", f"{', '.join(word.strip('{}').split(','))}: {comment}"
            keywords: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": word}
            keywords["help"] = comment if shown else argparse.SUPPRESS
            parser.add_argument(
                field_flag(name), dest=f"{FIELD}{name}", type=functools.partial(field_value, name), **keywords
            )
