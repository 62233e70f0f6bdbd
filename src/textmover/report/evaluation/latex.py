"""Evaluations as LaTeX, in ASCII but for comments: what pdflatex has no letter for is written as a command it knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from textmover.markdown import one_line
from textmover.meta_evaluation import Evaluation
from textmover.report.evaluation.summaries import overview_table, summary_table
from textmover.report.evaluation.wording import remarks, set_title

STATISTIC_SYMBOLS = {"tau23": "τ23", "kendall": "τ-b", "kendall-c": "τ-c", "spearman": "ρ"}
"""Statistics whose column is headed with their symbol."""

SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # at the start of a row it would be an option of the line break before
    "]": "{]}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "←": r"$\leftarrow$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "∞": r"$\infty$",
    "°": r"$^{\circ}$",
    "²": "$^2$",
    "³": "$^3$",
    "½": r"$\frac{1}{2}$",
    "µ": r"$\mu$",
    "§": r"\S{}",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "\N{MINUS SIGN}": "$-$",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
}
"""Signs that LaTeX would act upon or does not know."""

SAME_AS_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Greek letters that TeX has no command for, since they look like Latin ones."""

ACCENTS = {
    "\N{COMBINING GRAVE ACCENT}": "`",
    "\N{COMBINING ACUTE ACCENT}": "'",
    "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
    "\N{COMBINING TILDE}": "~",
    "\N{COMBINING DIAERESIS}": '"',
    "\N{COMBINING MACRON}": "=",
    "\N{COMBINING DOT ABOVE}": ".",
    "\N{COMBINING BREVE}": "u",
    "\N{COMBINING CARON}": "v",
    "\N{COMBINING DOUBLE ACUTE ACCENT}": "H",
    "\N{COMBINING RING ABOVE}": "r",
    "\N{COMBINING CEDILLA}": "c",
    "\N{COMBINING DOT BELOW}": "d",
}
"""Commands of the accents that every encoding of fonts has."""


def latex_document(evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]]) -> str:
    """Tables of evaluations; before several stands one of all.

    Args:
        evaluations: One for each set and dimension.
        further: For each evaluation, what the caller adds to its remarks.

    Returns:
        LaTeX for the package ``booktabs``; signatures are comments before their table.
    """
    parts = ["% Needs \\usepackage{booktabs}.\n"]
    if len(evaluations) > 1:
        parts.append(latex_table(*overview_table(evaluations), caption="Agreement with people on all sets.", notes=[]))
    for one, added in zip(evaluations, further, strict=True):
        notes = [f"{metric.name}: {metric.signature}" for metric in one.ranked() if metric.signature]
        caption = latex_text(f"{set_title(one, evaluations)}. " + " ".join(remarks(one, added)))
        (first, statistic, *others), rows, best = summary_table(one)
        headers = [first, STATISTIC_SYMBOLS.get(statistic, statistic), *others]
        parts.append(latex_table(headers, rows, best, caption=caption, notes=notes))
    return "\n".join(parts)


def latex_text(text: str) -> str:
    r"""Text that LaTeX shows and does not act upon, for any encoding of its input and fonts.

    Args:
        text: Any text; a character that TeX has no command for is shown by its number, such as ``U+4E2D``.

    Example:
        >>> latex_text("τ23 ≤ −0.5, ρ & é")
        "$\\tau_{23}$ $\\leq$ $-$0.5, $\\rho$ \\& \\'{e}"
    """
    pieces = re.split(r"(τ(?:-[bc]\b|\d+)|-{2,})", " ".join(text.split()))
    escaped = "".join(_special(piece) if index % 2 else _escaped(piece) for index, piece in enumerate(pieces))
    return re.sub(r"(?<![\w$}-])-(?=\d)", "$-$", escaped)


def _special(name: str) -> str:
    """τ with what tells its kinds apart as a subscript; hyphens that shall not become a dash."""
    if name.startswith("-"):
        return "{}".join(name)
    return rf"$\tau_{{{name[1:].removeprefix('-')}}}$"


def _escaped(text: str) -> str:
    return "".join(map(_sign, unicodedata.normalize("NFC", text)))


def _sign(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    if sign.isascii() and sign.isprintable():
        return sign
    if sign in SAME_AS_LATIN:
        return rf"$\mathrm{{{SAME_AS_LATIN[sign]}}}$"
    name = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?(\w+)", unicodedata.name(sign, ""))
    if name:
        letter = name[3].lower().replace("lamda", "lambda")
        final = "var" if name[2] else ""
        return rf"$\{final}{letter if name[1] == 'SMALL' else letter.capitalize()}$"
    base, *marks = list(unicodedata.normalize("NFD", sign))
    if base.isascii() and base.isalpha() and len(marks) == 1 and marks[0] in ACCENTS:
        return rf"\{ACCENTS[marks[0]]}{{{base}}}"
    return rf"\texttt{{U+{ord(sign):04X}}}"


def latex_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]], *, caption: str, notes: list[str]
) -> str:
    """A table for the package ``booktabs``.

    Args:
        headers: Names of the columns; the first is aligned on the left, the others on the right.
        rows: Cells as plain text.
        best: For each column, the rows whose cells are bold.
        caption: In LaTeX.
        notes: Comments before the table.
    """
    lines = [f"% {one_line(note)}" for note in notes]
    lines += [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(headers) - 1)}}}", r"\toprule"]
    lines += [" & ".join(map(latex_text, headers)) + r" \\", r"\midrule"]
    for row, cells in enumerate(rows):
        texts = [latex_text(cell) for cell in cells]
        texts = [rf"\textbf{{{text}}}" if row in best[column] else text for column, text in enumerate(texts)]
        lines.append(" & ".join(texts) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"
