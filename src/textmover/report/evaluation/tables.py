"""Evaluations as tables: terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from textmover.csv_cells import CsvWriter
from textmover.markdown import markdown_code, markdown_text
from textmover.meta_evaluation import Evaluation, MetricAgreement
from textmover.report.evaluation.latex import latex_document
from textmover.report.evaluation.summaries import overview_table, summary_table
from textmover.report.evaluation.wording import SIGNIFICANT, mark, remarks, set_title
from textmover.types import InputError

TABLE_FORMATS = ("markdown", "csv", "json", "latex")
"""Formats of :func:`format_evaluations`."""


def format_evaluations(
    evaluations: Sequence[Evaluation], table_format: str, *, further: Sequence[Sequence[str]] = ()
) -> str:
    """Evaluations as text.

    Markdown and LaTeX show three digits, the best value of a column in bold, and remarks with signatures under each
    table; before several tables stands one of all sets. CSV and JSON hold all digits; JSON holds everything there is.

    Args:
        evaluations: One for each set and dimension.
        table_format: One of :data:`TABLE_FORMATS`.
        further: For each evaluation, what the caller adds to its remarks.

    Returns:
        Text that ends in a line break.

    Raises:
        InputError: If there is no evaluation, or the format is unknown.
    """
    writers = {"markdown": _markdown, "csv": _csv, "json": _json, "latex": latex_document}
    if table_format not in writers:
        raise InputError(f"Expected a format of {', '.join(TABLE_FORMATS)}, but got {table_format!r}: choose one.")
    if not evaluations:
        raise InputError("Expected at least one evaluation, but got none: name a judgement set.")
    added = list(further) or [()] * len(evaluations)
    if len(added) != len(evaluations):
        raise ValueError(f"Expected remarks for {len(evaluations)} evaluations, but got {len(added)}.")
    return writers[table_format](evaluations, added)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _markdown(evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]]) -> str:
    parts = []
    if len(evaluations) > 1:
        parts.append("## All sets\n\n" + _markdown_table(*overview_table(evaluations)))
    for one, added in zip(evaluations, further, strict=True):
        notes = "".join(f"* {markdown_text(note)}\n" for note in remarks(one, added))
        signatures = "".join(
            f"* {markdown_text(metric.name)}: {markdown_code(metric.signature)}\n"
            for metric in one.ranked()
            if metric.signature
        )
        title = markdown_text(set_title(one, evaluations))
        parts.append(f"## {title}\n\n{_markdown_table(*summary_table(one))}\n{notes}")
        if signatures:
            parts.append(f"Signatures:\n\n{signatures}")
    return "\n".join(parts)


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]]) -> str:
    lines = ["| " + " | ".join(map(markdown_text, headers)) + " |", "|---|" + "--:|" * (len(headers) - 1)]
    for row, cells in enumerate(rows):
        texts = [markdown_text(cell) for cell in cells]
        texts = [f"**{text}**" if row in best[column] else text for column, text in enumerate(texts)]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


# --- CSV and JSON -----------------------------------------------------------------------------------------------------


def _csv(evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]]) -> str:
    """A row for each set and metric; groups in columns of their own, empty where a set does not have them."""
    del further  # a table of numbers has no room for sentences
    fixed = ["set", "dimension", "protocol", "metric", "segments", "units", "undefined_segments"]
    fixed += ["value", "low", "high", "rank", "baseline", "gain", "p_value", "against_baseline", "signature"]
    groups = list(dict.fromkeys(group for one in evaluations for group in one.groups))
    names = [f"group_{group}" if group in fixed else group for group in groups]
    stream = io.StringIO()
    writer = CsvWriter(stream)
    writer.writerow([*fixed, *names])
    for one in evaluations:
        for metric in one.ranked():
            values = [metric.by_group.get(group, math.nan) if group in one.groups else math.nan for group in groups]
            row = [one.name, one.dimension or "", str(one.protocol), metric.name, one.n]
            row += [metric.units, metric.undefined_segments]
            row += [_digits(metric.value), _digits(metric.low), _digits(metric.high), metric.rank or ""]
            row += [one.baseline or "", _digits(metric.gain), _digits(metric.p_value)]
            row += [{"↑": "better", "↓": "worse"}.get(mark(metric), ""), metric.signature]
            writer.writerow([*row, *map(_digits, values)])
    return stream.getvalue()


def _digits(value: float) -> str:
    """All digits, nothing where there is no number."""
    return "" if math.isnan(value) else repr(float(value))


def _json(evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]]) -> str:
    entries = [_entry(one, added) for one, added in zip(evaluations, further, strict=True)]
    return json.dumps({"sets": entries}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(one: Evaluation, added: Sequence[str]) -> dict[str, Any]:
    """Everything that an evaluation holds; ``null`` where a number is not defined."""
    return {
        "set": one.name,
        "dimension": one.dimension,
        "protocol": {
            "statistic": one.protocol.statistic,
            "level": one.protocol.level,
            "pair_rate": one.protocol.pair_rate,
        },
        "segments": one.n,
        "groups": dict(one.groups),
        "baseline": one.baseline,
        "significant": SIGNIFICANT,
        "bootstrap": {
            "samples": one.samples,
            "seed": one.seed,
            "level": one.level,
            "undefined": one.undefined_samples,
        },
        "test": {"name": "PERM-BOTH", "permutations": one.permutations, "seed": one.seed},
        "metrics": [_metric_entry(metric) for metric in one.metrics],
        "p_values": _plain(one.p_values),
        "left_out": {
            "rows": one.left_out,
            "missing": dict(one.missing),
            "preferences": one.lost_preferences,
            "excluded": [exclusion._asdict() for exclusion in one.excluded],
        },
        "notes": list(one.notes),
        "remarks": remarks(one, added),
    }


def _metric_entry(metric: MetricAgreement) -> dict[str, Any]:
    return {
        "name": metric.name,
        "value": _plain(metric.value),
        "low": _plain(metric.low),
        "high": _plain(metric.high),
        "rank": metric.rank,
        "gain": _plain(metric.gain),
        "p_value": _plain(metric.p_value),
        "against_baseline": {"↑": "better", "↓": "worse"}.get(mark(metric)),
        "groups": _plain(metric.by_group),
        "units": metric.units,
        "undefined": list(metric.undefined),
        "undefined_segments": metric.undefined_segments,
        "epsilons": _plain(metric.epsilons),
        "signature": metric.signature,
    }


def _plain(value: Any) -> Any:
    """Numbers, arrays and mappings as JSON knows them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value]
    return None if math.isnan(value) else float(value)


BETWEEN, EDGES = 3, 2
"""Characters between two columns, and at both ends together, of a table with rules."""

LONGEST_NAME = 40
"""Longest name of a metric in characters; a longer one is broken into lines."""


def print_evaluations(
    console: Console,
    evaluations: Sequence[Evaluation],
    *,
    further: Sequence[Sequence[str]] = (),
    signatures: bool = True,
) -> None:
    """Print a table for each evaluation, remarks and signatures under it; before several, one of all sets.

    On a terminal that is too narrow for all columns, the groups go on in further tables with the metrics' names.

    Args:
        console: Where to print; one that is not a terminal gets plain lines, without trailing spaces.
        evaluations: What to print.
        further: For each evaluation, what the caller adds to its remarks.
        signatures: Whether the signatures are printed.
    """
    added = list(further) or [()] * len(evaluations)
    if len(evaluations) > 1:
        _print_table(console, "All sets", *overview_table(evaluations))
    for index, (one, notes) in enumerate(zip(evaluations, added, strict=True)):
        if index:
            _print(console, Text())
        _print_table(console, set_title(one, evaluations), *summary_table(one))
        for note in remarks(one, notes):
            _print(console, Text(note))
        if signatures:
            for metric in one.ranked():
                if metric.signature:
                    _print(console, Text(f"{metric.name}: {metric.signature}"))


def _print(console: Console, what: Table | Text) -> None:
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _print_table(
    console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]]
) -> None:
    _print(console, Text(title, style="bold"))
    for table in _tables(headers, rows, best, console.width, ruled=console.is_terminal):
        _print(console, table)
    _print(console, Text())


def _tables(
    headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]], width: int, *, ruled: bool
) -> list[Table]:
    """One table where it fits, else several with the same first column."""
    widths = [max(map(cell_len, [header, *(row[column] for row in rows)])) for column, header in enumerate(headers)]
    widths[0] = min(widths[0], LONGEST_NAME)
    found = []
    for columns in _split(widths, width):
        table = Table(box=box.SIMPLE_HEAD if ruled else None, pad_edge=False)
        for column in columns:
            name = column == 0
            table.add_column(
                headers[column],
                justify="left" if name else "right",
                overflow="fold",
                no_wrap=not name and ruled and len(columns) > 2,
                max_width=LONGEST_NAME if name and ruled else None,
            )
        for row, cells in enumerate(rows):
            table.add_row(*(Text(cells[one], style="bold" if row in best[one] else "") for one in columns))
        found.append(table)
    return found


def _split(widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns of each table: the first one, and as many others as fit, at least one.

    Example:
        >>> _split([10, 5, 5, 5], 28), _split([10, 5, 5], 12)
        ([[0, 1, 2], [0, 3]], [[0, 1], [0, 2]])
    """
    found, used = [[0]], EDGES + widths[0]
    for column in range(1, len(widths)):
        if len(found[-1]) > 1 and used + BETWEEN + widths[column] > width:
            found.append([0])
            used = EDGES + widths[0]
        found[-1].append(column)
        used += BETWEEN + widths[column]
    return found
