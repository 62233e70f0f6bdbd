"""A flag for every field of a metric's configuration."""

from __future__ import annotations

import argparse
import inspect
import re
import types
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from textmover.presets import KINDS
from textmover.reading import load_yaml
from textmover.scoring.field_flags import FIELD, field_flag
from textmover.types import InputError

NOT_FIELDS = ("kind", "revision")
"""Fields without a flag of their own: a metric keeps its class, and ``--revision`` means checkpoint or encoder."""


def add_field_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field that a kind of metric has."""
    group = parser.add_argument_group("fields of the metric", "They override those of the preset or checkpoint.")
    for name, (hint, comment) in _metric_fields().items():
        if name not in NOT_FIELDS:
            group.add_argument(
                field_flag(name),
                dest=f"{FIELD}{name}",
                type=_value_parser(hint),
                default=argparse.SUPPRESS,
                metavar=_metavar(hint),
                help=comment,
            )


def _value_parser(hint: Any) -> Callable[[str], Any]:
    """How the text of a flag becomes the value of a field: texts as they are, split at commas, or else as YAML."""
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return str
    if hint == tuple[str, ...]:
        return lambda text: tuple(one.strip() for one in text.strip("[] ").split(",") if one.strip())
    if str in alternatives:
        return lambda text: None if text == "null" else text

    def parse(text: str) -> Any:
        try:
            value = load_yaml(text, "the value")
        except InputError as error:
            raise argparse.ArgumentTypeError(f"expected a number, true, false or null, but got {text!r}") from error
        if isinstance(value, str) and (hint is float or float in alternatives):
            try:
                return float(value)  # "inf"
            except ValueError:
                return value
        return value

    return parse


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if hint is bool:
        return "{true,false}"
    if hint == tuple[str, ...]:
        return "TEXT,…"
    alternatives = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    return "TEXT" if str in alternatives else "NUMBER"


def _metric_fields() -> dict[str, tuple[Any, str | None]]:
    """Type and comment of every field that a kind of metric has; the first kind's, where several have it."""
    found: dict[str, tuple[Any, str | None]] = {}
    for config_class in dict.fromkeys(metric_class.config_class for metric_class in KINDS.values()):
        hints, comments = get_type_hints(config_class), _field_comments(config_class)
        for entry in fields(config_class):
            found.setdefault(entry.name, (hints[entry.name], comments.get(entry.name)))
    return found


def _field_comments(config_class: type) -> dict[str, str]:
    """What the source says of each field, for the help."""
    try:
        source = inspect.getsource(config_class)
    except OSError:  # installed without source
        return {}
    found = re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE)
    return {name: comment.replace("None", "null").replace("%", "%%") for name, comment in found}
