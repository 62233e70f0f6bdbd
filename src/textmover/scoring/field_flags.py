"""Flags that stand for the fields of a metric's configuration."""

from __future__ import annotations

import argparse
from typing import Any

FIELD = "field."
"""Prefix of the destination of a configuration field's flag."""

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
