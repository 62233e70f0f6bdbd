"""``textmover list``: the presets and what there is to know about each."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from textmover.cli.console import print_table
from textmover.presets import KINDS, PRESETS, Preset

__all__ = ["add_arguments", "run"]

HEADERS = ("name", "formula", "better", "trainable", "source")
NARROW = ("name", "better", "trainable")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="a table, or everything as JSON")


def run(options: argparse.Namespace) -> None:
    """Print the presets."""
    listed = [_entry(name, preset) for name, preset in PRESETS.items()]
    if options.format == "json":
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
        return
    print_table(HEADERS, [_row(entry) for entry in listed], narrow=NARROW)


def _entry(name: str, preset: Preset) -> dict[str, Any]:
    trainable = hasattr(KINDS[preset.config.kind], "fit_calibration")  # a TrainableMetric
    return {
        "name": name,
        "formula": preset.formula,
        "higher_is_better": preset.higher_is_better,
        "trainable": trainable,
        "source": preset.source,
        "config": preset.config.to_dict(),
    }


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    return (
        entry["name"],
        entry["formula"],
        "higher" if entry["higher_is_better"] else "lower",
        "yes" if entry["trainable"] else "no",
        entry["source"],
    )
