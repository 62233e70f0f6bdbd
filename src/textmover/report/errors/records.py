"""Marked errors as plain values, and the count of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from textmover.markdown import one_line
from textmover.types import SEVERITIES, ErrorSpan, TextErrors, flagged, plural


class MarkedLine(NamedTuple):
    """The errors of a text with what its row of the input holds."""

    found: TextErrors
    line: int | None = None  # its line of a file; ``None`` for a text that was given by itself
    kept: Mapping[str, str] = {}  # cells that the output repeats
    signature: str = ""  # what the errors depend on


def confident(one: MarkedLine, least: float) -> MarkedLine:
    """The text with those of its errors that have at least a probability."""
    spans = tuple(span for span in one.found.spans if span.confidence >= least)
    return one._replace(found=replace(one.found, spans=spans))


def span_record(text: str, span: ErrorSpan) -> dict[str, Any]:
    """An error as plain values: its characters, the words there, severity and probability."""
    return {
        "start": span.start,
        "end": span.end,
        "text": text[span.start : span.end],
        "severity": span.severity,
        "confidence": round(float(span.confidence), 6),
    }


def text_record(one: MarkedLine) -> dict[str, Any]:
    """A text with its errors as plain values."""
    found = one.found
    line = {} if one.line is None else {"line": one.line}
    spans = [span_record(found.text, span) for span in found.spans]
    return {**line, **one.kept, "text": found.text, "spans": spans, "cost": found.cost, "flags": list(found.flags)}


@dataclass
class ErrorCount:
    """Number of texts and errors.

    Attributes:
        texts: Number of texts.
        clean: Texts without an error.
        severities: Errors by severity.
        flags: Texts that were out of the ordinary, by kind.
        signature: What the errors depend on.
    """

    texts: int = 0
    clean: int = 0
    severities: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    signature: str = ""

    def add(self, one: MarkedLine) -> None:
        """Count the errors of a text."""
        self.texts += 1
        self.clean += not one.found.spans
        self.severities.update(span.severity for span in one.found.spans)
        self.flags.update(one.found.flags)
        self.signature = one.signature

    def at_least(self, severity: str) -> int:
        """Number of errors of a severity or above."""
        return sum(self.severities[one] for one in SEVERITIES[SEVERITIES.index(severity) :])  # type: ignore[arg-type]

    @property
    def headline(self) -> str:
        """Numbers of errors and texts."""
        return f"{plural(self.severities.total(), 'error')} in {plural(self.texts, 'text')}"

    @property
    def by_severity(self) -> str:
        """Number of errors by severity, and per text."""
        return ", ".join(
            f"{self.severities[one]:,} {one} ({self.severities[one] / max(1, self.texts):.2f} per text)"
            for one in SEVERITIES
            if self.severities[one]
        )

    def said(self) -> list[str]:
        """Lines that close a run."""
        listed = f": {self.by_severity}" if self.by_severity else ""
        found = [f"Marked: {self.headline}{listed}; {self.clean:,} without errors"]
        found += flagged(self.flags, plural(self.texts, "text"))
        return [*found, *([f"Signature: {self.signature}"] if self.signature else [])]


def shown_pieces(found: TextErrors) -> list[tuple[str, ErrorSpan | None]]:
    """Stretches of a text with their errors, control characters made visible; none of a text without words."""
    if not found.text.strip():
        return []
    return [(_visible(part), one) for part, one in found.pieces() if part or one is not None]


def _visible(part: str) -> str:
    """The stretch as one line, with a space where it begins or ends with white space."""
    return f"{' ' * part[:1].isspace()}{one_line(part)}{' ' * (part[-1:].isspace() and bool(part.strip()))}"
