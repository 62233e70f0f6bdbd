"""``textmover check``: report problems of a table of ratings, and write a recipe that trains on it."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textmover.checkpoints.hub import default_metric
from textmover.checkpoints.loading import load_metric
from textmover.data.table_check import check_table
from textmover.files import atomic_file, check_output
from textmover.modules.tokens.text_flags import text_flags
from textmover.readers.column_flags import COLUMN_FLAGS, errors_with_flag_names
from textmover.terminal import print_table
from textmover.types import InputError

NUMBER = r"(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
ROLES = {"references": "reference", "groups": "group"}  # names of column options that differ from their role


def run(options: argparse.Namespace) -> None:
    """Print the problems of a table, and write a recipe for it."""
    name = Path(options.table).name.partition(".")[0] or "mine"
    output = check_output(options.output or f"{name}_recipe.yaml", [options.table], (".yaml", ".yml"))
    roles = ("hypothesis", "references", "score", "source", "annotator", "groups")
    columns = {role: getattr(options, f"{ROLES.get(role, role)}_column") for role in roles}
    with errors_with_flag_names({**COLUMN_FLAGS, "groups": "--group-column", "scale": "--scale"}):
        scale = _ends(options.scale)
        result = check_table(options.table, columns, _flags, scale=scale, runs=f"runs/{name}")
        view = result.view()
        sys.stdout.write(f"{view.headline}\n\n")
        rows = [tuple(map(str, one)) for one in result.findings]
        print_table(view.headers, rows or [("none", "0", "", "")], numbers=("rows",), narrow=("rows",))
        if result.recipe is None:
            raise InputError(result.refusal)
    if output.is_file() and not options.overwrite and output.read_bytes() != result.recipe.encode():
        raise InputError(
            f"Expected {output} to be new, but it holds another recipe: give another --output or --overwrite."
        )
    with atomic_file(output) as stream:
        stream.write(result.recipe)
    sys.stdout.write(f"\nRecipe: {output}. To train with it:\n  textmover train --config {shlex.quote(str(output))}\n")


def _flags(texts: Sequence[str]) -> Mapping[str, Any]:
    metric = load_metric(default_metric({}))  # a table that is refused needs none
    return text_flags(metric.tokenize(texts), getattr(metric, "languages", ()))


def _ends(values: list[str] | None) -> list[float] | None:
    """Return the ends of a scale written as ``1-5`` or ``1 5``."""
    match = re.fullmatch(rf"{NUMBER}(?:\s+|\s*[-–]\s*){NUMBER}", " ".join(values or ()))
    if values and match is None:
        raise InputError(
            f"Expected --scale to be the lowest and the highest rating, as in 1-5 or 1 5, but got {' '.join(values)}."
        )
    return None if match is None else [float(end) for end in match.groups()]
