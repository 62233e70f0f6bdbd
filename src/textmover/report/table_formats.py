"""Tables with remarks, rendered as text, Markdown, LaTeX, CSV and JSON.

Build a :class:`Section` for each table, then render all sections together::

    table = Table(("metric", "pearson"), [("twmd", number(0.51234))], best={(0, 1)})
    sections = [Section("SummEval", table, remarks=["1,600 segments."], signatures=[("twmd", signature)])]
    markdown(sections)  # headings, tables, lists
    latex(sections)  # booktabs: remarks in captions, signatures as comments
    print_sections(console(), sections)  # splits tables that are wider than the terminal

For files with all digits, pass records to :func:`csv_text` and :func:`json_text`.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from textmover.csv_cells import CsvWriter
from textmover.markdown_escaping import markdown_code, markdown_fence, markdown_link, markdown_text, one_line
from textmover.report.figures.scales import signed
from textmover.terminal import print_line, print_table

DIGITS = 3  # decimal places of a correlation
PLAIN_SIGNS = str.maketrans("\N{MINUS SIGN}\N{EN DASH}", "--")


@dataclass(frozen=True)
class Table:
    """Table of plain-text cells."""

    headers: Sequence[str]  # column names
    rows: Sequence[Sequence[str]]  # cells of each row, one for each header
    best: Collection[tuple[int, int]] = ()  # row and column of each bold cell
    texts: int = 1  # number of leading text columns; the others hold numbers and are right-aligned


@dataclass(frozen=True)
class Section:
    """Table with heading, remarks and signatures."""

    title: str  # heading
    table: Table
    remarks: Sequence[str] = ()  # sentences below the table
    signatures: Sequence[tuple[str, str]] = ()  # pairs of metric name and signature; in LaTeX the name may be empty
    figure: str | None = None  # path of an image, for Markdown
    caption: str = ""  # start of the LaTeX caption; if empty, the title
    records: Sequence[Mapping[str, Any]] = ()  # the same numbers with all digits, for CSV and JSON pages


# --- cells ------------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = DIGITS) -> str:
    """Format a number as plain text; ``"-"`` for NaN and infinite values.

    Example:
        >>> number(0.5), number(-0.0001), number(float("nan"))
        ('0.500', '0.000', '-')
    """
    return signed(value, digits).translate(PLAIN_SIGNS)


def interval(low: float, high: float, missing: str = "-") -> str:
    """Format an interval; ``missing`` if its lower end is NaN.

    Example:
        >>> interval(0.25, 0.5), interval(float("nan"), 0.5)
        ('0.250 to 0.500', '-')
    """
    return missing if math.isnan(low) else f"{number(low)} to {number(high)}"


def best_rows(values: Sequence[float]) -> set[int]:
    """Return the rows with the highest value of a column after rounding; none if all values are equal.

    Example:
        >>> best_rows([0.5301, 0.5299, 0.4, float("nan")]), best_rows([0.5]), best_rows([0.5, 0.5])
        ({0, 1}, set(), set())
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), DIGITS)
    known = rounded[~np.isnan(rounded)]
    if not len(known) or (known == known[0]).all():
        return set()
    return set(np.flatnonzero(rounded == known.max()).tolist())


# --- Markdown and LaTeX -----------------------------------------------------------------------------------------------


def markdown(sections: Sequence[Section]) -> str:
    """Render sections as Markdown with second-level headings."""
    parts = []
    for one in sections:
        parts.append(f"## {markdown_text(one.title)}\n")
        if one.figure:
            parts.append(f"!{markdown_link(one.title, one.figure)}\n")
        parts.append(markdown_table(one.table))
        if one.remarks:
            parts.append(markdown_list(one.remarks))
        if one.signatures:
            listed = (f"* {markdown_text(name)}: {markdown_code(signature)}\n" for name, signature in one.signatures)
            parts.append(f"Signatures:\n\n{''.join(listed)}")
    return "\n".join(parts)


def markdown_list(sentences: Sequence[str]) -> str:
    """Render sentences as a Markdown list."""
    return "".join(f"* {markdown_text(one)}\n" for one in sentences)


def markdown_table(table: Table) -> str:
    """Render a table as Markdown with the best cells in bold."""
    rules = ["---"] * table.texts + ["--:"] * (len(table.headers) - table.texts)
    lines = ["| " + " | ".join(map(markdown_text, table.headers)) + " |", f"|{'|'.join(rules)}|"]
    for row, cells in enumerate(table.rows):
        texts = [markdown_text(cell) for cell in cells]
        texts = [f"**{text}**" if (row, column) in table.best else text for column, text in enumerate(texts)]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def latex(sections: Sequence[Section]) -> str:
    """Render sections as LaTeX tables for ``booktabs``, in ASCII except for comments."""
    return "\n".join(["% Needs \\usepackage{booktabs}.\n", *map(_latex_table, sections)])


def _latex_table(section: Section) -> str:
    table = section.table
    alignment = "l" * table.texts + "r" * (len(table.headers) - table.texts)
    lines = [f"% {one_line(f'{name}: {one}' if name else one)}" for name, one in section.signatures]
    lines += [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{alignment}}}", r"\toprule"]
    lines += [" & ".join(map(latex_text, table.headers)) + r" \\", r"\midrule"]
    for row, cells in enumerate(table.rows):
        texts = [latex_text(cell) for cell in cells]
        texts = [rf"\textbf{{{text}}}" if (row, column) in table.best else text for column, text in enumerate(texts)]
        lines.append(" & ".join(texts) + r" \\")
    caption = latex_text(" ".join([section.caption or f"{section.title}.", *section.remarks]))
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


# --- CSV and JSON -----------------------------------------------------------------------------------------------------


def csv_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Convert records to CSV with the union of their keys as columns; missing fields, None and NaN are empty."""
    headers = list(dict.fromkeys(key for record in records for key in record))
    stream = io.StringIO()
    writer = CsvWriter(stream)
    writer.writerow(headers)
    for record in records:
        values = (plain(record.get(key)) for key in headers)
        writer.writerow("" if value is None else value for value in values)
    return stream.getvalue()


def json_text(value: Any) -> str:
    """Convert a value to JSON with an indent of 2; see :func:`plain`."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def pick(value: object, *names: str) -> dict[str, Any]:
    """Return the named attributes of an object as a dictionary."""
    return {name: getattr(value, name) for name in names}


def plain(value: Any) -> Any:
    """Convert arrays, tuples, mappings and dataclasses to JSON types; NaN becomes None, infinity a string.

    Example:
        >>> plain({"a": np.array([0.5, np.nan]), "b": (1, float("inf"))})
        {'a': [0.5, None], 'b': [1, 'inf']}
    """
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, tuple | list):
        fields = getattr(value, "_asdict", None)
        return [plain(one) for one in value] if fields is None else plain(fields())
    if is_dataclass(value):
        return plain(vars(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


# --- the terminal -----------------------------------------------------------------------------------------------------

COLUMN_GAP, OUTER_MARGIN = 3, 2  # characters between two columns, and at both ends together, of a table with rules
LONGEST_NAME = 40  # maximum width of the first column on a terminal; longer names are wrapped


def print_sections(stream: Console, sections: Sequence[Section], *, signatures: bool = True) -> None:
    """Print sections; tables wider than the terminal are split into several with the same first column."""
    for place, one in enumerate(sections):
        if place and sections[place - 1].remarks:
            print_line(stream, "")
        print_line(stream, Text(one.title, style="bold"))
        table = one.table
        widths = [max(map(cell_len, column)) for column in zip(table.headers, *table.rows, strict=True)]
        for columns in column_parts([min(widths[0], LONGEST_NAME), *widths[1:]], stream.width):
            headers = [table.headers[column] for column in columns]
            rows = [
                [Text(cells[column], style="bold" if (row, column) in table.best else "") for column in columns]
                for row, cells in enumerate(table.rows)
            ]
            numbers = range(1, len(columns))
            narrow = numbers if len(columns) > 2 else ()
            print_table(headers, rows, numbers=numbers, narrow=narrow, longest=LONGEST_NAME, stream=stream)
        print_line(stream, "")
        listed = (f"{name}: {signature}" for name, signature in one.signatures if signatures)
        for line in (*one.remarks, *listed):
            print_line(stream, line)


def column_parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Split columns into parts that fit the width; each part repeats column 0 and has at least one other."""
    parts, used = [[0]], OUTER_MARGIN + widths[0]
    for column in range(1, len(widths)):
        if len(parts[-1]) > 1 and used + COLUMN_GAP + widths[column] > width:
            parts.append([0])
            used = OUTER_MARGIN + widths[0]
        parts[-1].append(column)
        used += COLUMN_GAP + widths[column]
    return parts


def print_named_rows(table: Table) -> None:
    """Print a table; on a narrow terminal only its first column is wrapped."""
    columns = table.headers[1:]
    print_table(table.headers, [list(map(one_line, row)) for row in table.rows], numbers=columns, narrow=columns)


# --- pages of experiments and robustness tests ------------------------------------------------------------------------

PAGE_FORMATS = {".md": "markdown", ".csv": "csv", ".json": "json"}  # page format by file suffix
TEXT_HEADERS = ("metric", "from", "encoder", "centering", "kind", "meaning")  # headers of text columns


def block(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = (), **more: Any
) -> Section:
    """Build a section from headers and rows."""
    texts = sum(header in TEXT_HEADERS for header in headers)
    return Section(title, Table(headers, rows, texts=texts), remarks, **more)


@dataclass(frozen=True)
class Page:
    """Results with the paper, the experiment file, the command to reproduce them, and notes."""

    title: str
    paper: str
    experiment: str
    command: str
    notes: Sequence[str]
    blocks: Sequence[Section]


def page_text(page: Page, kind: str) -> str:
    """Render a page as ``markdown``, ``csv`` or ``json``."""
    if kind == "csv":
        return csv_text([record for one in page.blocks for record in one.records])
    if kind == "markdown":
        parts = [f"# {markdown_text(page.title)}\n", f"Published: {markdown_text(page.paper)}.\n"]
        parts += [markdown_fence(page.command, "bash"), *([markdown_list(page.notes)] if page.notes else [])]
        return "\n".join([*parts, *([markdown(page.blocks)] if page.blocks else [])])
    tables = [pick(one, "title", "figure", "remarks", "records") for one in page.blocks]
    return json_text({**pick(page, "title", "paper", "experiment", "command", "notes"), "tables": tables})


def print_blocks(blocks: Sequence[Section], wide: Collection[str], *, quiet: bool) -> None:
    """Print tables, with remarks and signatures unless ``quiet``; only columns in ``wide`` may wrap."""
    for place, one in enumerate(blocks):
        headers = one.table.headers
        sys.stdout.write(f"{'' if place == 0 else chr(10)}{one.title}\n")
        numbers = [header for header in headers if header not in TEXT_HEADERS]
        narrow = [header for header in headers if header not in wide]
        print_table(headers, one.table.rows, numbers=numbers, narrow=narrow)
        if not quiet:
            sys.stdout.write("".join(f"{line}\n" for line in one.remarks))
            sys.stdout.write("".join(f"{name}: {signature}\n" for name, signature in one.signatures))


# --- LaTeX escaping ---------------------------------------------------------------------------------------------------

SIGNS: dict[str, str] = dict(
    line.split("\t") for line in Path(__file__).with_name("latex_signs.tsv").read_text(encoding="utf-8").splitlines()
)
"""LaTeX for special or unknown characters; an unescaped ``[`` after a row would be an option of its line break."""

SAME_AS_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Greek letters without a TeX command, since they look like Latin letters."""

ACCENTS = {
    unicodedata.lookup(f"COMBINING {name}"): command
    for name, command in (
        *(("GRAVE ACCENT", "`"), ("ACUTE ACCENT", "'"), ("CIRCUMFLEX ACCENT", "^"), ("TILDE", "~"), ("DIAERESIS", '"')),
        *(("MACRON", "="), ("DOT ABOVE", "."), ("BREVE", "u"), ("CARON", "v"), ("DOUBLE ACUTE ACCENT", "H")),
        *(("RING ABOVE", "r"), ("CEDILLA", "c"), ("DOT BELOW", "d")),
    )
}
"""Commands for the accents that every font encoding supports."""


def latex_text(text: str) -> str:
    r"""Escape text for LaTeX, independent of input and font encoding.

    A character without a TeX command is written as its code point, such as ``U+4E2D``.

    Example:
        >>> latex_text("τ23 ≤ −0.5, ρ & é")
        "$\\tau_{23}$ $\\leq$ $-$0.5, $\\rho$ \\& \\'{e}"
    """
    pieces = re.split(r"(τ(?:-[bc]\b|\d+)|-{2,})", " ".join(text.split()))
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pieces[place] = "".join(map(_escape_character, unicodedata.normalize("NFC", piece)))
        elif piece.startswith("-"):  # keep TeX from turning hyphens into a dash
            pieces[place] = "{}".join(piece)
        else:
            pieces[place] = rf"$\tau_{{{piece[1:].removeprefix('-')}}}$"
    return re.sub(r"(?<![\w$}-])-(?=\d)", "$-$", "".join(pieces))


def _escape_character(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    if character.isascii() and character.isprintable():
        return character
    if character in SAME_AS_LATIN:
        return rf"$\mathrm{{{SAME_AS_LATIN[character]}}}$"
    name = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?(\w+)", unicodedata.name(character, ""))
    if name:
        letter = name[3].lower().replace("lamda", "lambda")
        final = "var" if name[2] else ""
        return rf"$\{final}{letter if name[1] == 'SMALL' else letter.capitalize()}$"
    base, *marks = list(unicodedata.normalize("NFD", character))
    if base.isascii() and base.isalpha() and len(marks) == 1 and marks[0] in ACCENTS:
        return rf"\{ACCENTS[marks[0]]}{{{base}}}"
    return rf"\texttt{{U+{ord(character):04X}}}"
