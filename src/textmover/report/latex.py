"""Text in LaTeX, in ASCII: characters that pdflatex has no letter for are written as commands that it knows."""

from __future__ import annotations

import re
import unicodedata


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


SIGNS = _pairs(r"""
    & \&  % \%  $ \$  # \#  _ \_  { \{  } \}  \ \textbackslash{}  ~ \textasciitilde{}  ^ \textasciicircum{}
    < \textless{}  > \textgreater{}  | \textbar{}  [ {[}  ] {]}  ↑ $\uparrow$  ↓ $\downarrow$  ← $\leftarrow$
    → $\rightarrow$  ≤ $\leq$  ≥ $\geq$  ≠ $\neq$  ≈ $\approx$  ± $\pm$  × $\times$  · $\cdot$  ∞ $\infty$
    ° $^{\circ}$  ² $^2$  ³ $^3$  ½ $\frac{1}{2}$  µ $\mu$  § \S{}  … \ldots{}  ß \ss{}  æ \ae{}  Æ \AE{}  œ \oe{}
    Œ \OE{}  ø \o{}  Ø \O{}  ł \l{}  Ł \L{}  ı \i{}
""") | {
    "\N{MINUS SIGN}": "$-$",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
}  # fmt: skip
"""Signs that LaTeX would act upon or does not know; a bare ``[`` after a row would be an option of its line break."""

SAME_AS_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Greek letters that TeX has no command for, since they look like Latin ones."""

ACCENTS = {
    unicodedata.lookup(f"COMBINING {name}"): command
    for name, command in (
        *(("GRAVE ACCENT", "`"), ("ACUTE ACCENT", "'"), ("CIRCUMFLEX ACCENT", "^"), ("TILDE", "~"), ("DIAERESIS", '"')),
        *(("MACRON", "="), ("DOT ABOVE", "."), ("BREVE", "u"), ("CARON", "v"), ("DOUBLE ACUTE ACCENT", "H")),
        *(("RING ABOVE", "r"), ("CEDILLA", "c"), ("DOT BELOW", "d")),
    )
}
"""Commands of the accents that every encoding of fonts has."""


def latex_text(text: str) -> str:
    r"""Text that LaTeX shows and does not act upon, for any encoding of its input and fonts.

    A character that TeX has no command for is shown by its number, such as ``U+4E2D``.

    Example:
        >>> latex_text("τ23 ≤ −0.5, ρ & é")
        "$\\tau_{23}$ $\\leq$ $-$0.5, $\\rho$ \\& \\'{e}"
    """
    pieces = re.split(r"(τ(?:-[bc]\b|\d+)|-{2,})", " ".join(text.split()))
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pieces[place] = "".join(map(_sign, unicodedata.normalize("NFC", piece)))
        elif piece.startswith("-"):  # shall not become a dash
            pieces[place] = "{}".join(piece)
        else:
            pieces[place] = rf"$\tau_{{{piece[1:].removeprefix('-')}}}$"
    return re.sub(r"(?<![\w$}-])-(?=\d)", "$-$", "".join(pieces))


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
