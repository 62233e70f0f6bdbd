"""Error spans of texts, and results and segments with error spans."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np

from textmover.types.display import MOST_ROWS, Shown, View, plural, without_controls
from textmover.types.segments import ComparedText, InputError, Signature

Severity = Literal["minor", "major", "critical"]
"""Severity of an error."""

SEVERITIES: tuple[Severity, ...] = ("minor", "major", "critical")
"""Severities in increasing order."""

MQM_COSTS: Mapping[str, float] = {"minor": 1.0, "major": 5.0, "critical": 25.0}
"""Cost of an error by severity in MQM (Freitag et al. 2021; critical: MQM core)."""

_STYLES = {
    "minor": "background:#d9a4002e;border-bottom:2px dotted #b07d00",
    "major": "background:#e8590c33;border-bottom:2px solid #e8590c",
    "critical": "background:#d6336c47;border-bottom:4px double #d6336c",
}
"""CSS styles of errors by severity, legible on light and dark backgrounds."""


@dataclass(frozen=True, slots=True)
class ErrorSpan:
    """Error in a text: a wrong span of characters, or a position at which words are missing.

    Attributes:
        start: Index of the first character in the input text, from 0.
        end: Index after the last character; equal to ``start`` if words are missing.
        severity: One of :data:`SEVERITIES`.
        confidence: Probability of the error, 0 to 1.
        gaps: Further positions at which words are missing as part of this error, except between its own words.

    Raises:
        InputError: If the span is reversed or begins before the text, the severity is unknown, or the confidence is not
            a probability.

    Example:
        >>> ErrorSpan(4, 7, "major").missing, ErrorSpan(4, 4).missing
        (False, True)
    """

    start: int
    end: int
    severity: Severity = "major"
    confidence: float = 1.0
    gaps: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end or self.start % 1 or self.end % 1:
            raise InputError(f"Expected a span from its first character up, but got {self.start} to {self.end}.")
        if self.severity not in SEVERITIES:
            raise InputError(f"Expected a severity among {', '.join(SEVERITIES)}, but got {self.severity!r}.")
        if not 0 <= self.confidence <= 1:
            raise InputError(f"Expected a confidence between 0 and 1, but got {self.confidence}.")

    @property
    def missing(self) -> bool:
        """Return whether words are missing here."""
        return self.start == self.end

    @property
    def label(self) -> str:
        """Severity and probability as text.

        Example:
            >>> ErrorSpan(4, 7, "major", 0.9134).label, ErrorSpan(4, 4, "minor", 0.5).label
            ('major 0.91', 'minor 0.50, missing')
        """
        return f"{self.severity} {self.confidence:.2f}{', missing' if self.missing else ''}"


@dataclass(frozen=True, eq=False, repr=False)
class TextErrors(Shown, Sequence[ErrorSpan]):
    """Errors of one text: a sequence of spans, with the underlying probabilities.

    Attributes:
        text: The input text.
        spans: Its errors by position.
        words: Start and end of each of the ``W`` words.
        word_probabilities: Probability that each word is wrong, float64 ``[W]``.
        gap_probabilities: Probability that words are missing before each word and after the last, float64 ``[W + 1]``.
        flags: Names of flags, such as ``"truncated"``: errors after the truncation are not detected.
    """

    text: str
    spans: tuple[ErrorSpan, ...]
    words: tuple[tuple[int, int], ...] = ()
    word_probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0))
    gap_probabilities: np.ndarray = field(default_factory=lambda: np.zeros(1))
    flags: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.spans)

    @overload
    def __getitem__(self, place: int) -> ErrorSpan: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ErrorSpan]: ...
    def __getitem__(self, place: int | slice) -> ErrorSpan | Sequence[ErrorSpan]:
        return self.spans[place]

    @property
    def cost(self) -> float:
        """Sum of the errors' MQM costs (:data:`MQM_COSTS`); its negative is an MQM score, not the metric's score.

        Example:
            >>> TextErrors("A cat sat", (ErrorSpan(2, 5), ErrorSpan(9, 9, "minor"))).cost
            6.0
        """
        return sum((MQM_COSTS[one.severity] for one in self.spans), 0.0)

    def view(self) -> View:
        """Show the text with its errors in square brackets, and one row per error."""
        rows = [
            (self.text[one.start : one.end] or "(missing)", one.start, one.end, one.severity, one.confidence)
            for one in self.spans[:MOST_ROWS]
        ]
        return View(self.marked(), ("words", "start", "end", "severity", "confidence"), rows, len(self.spans))

    def marked(self) -> str:
        """Return the text with its errors in square brackets, ``[]`` for missing words.

        Example:
            >>> TextErrors("A cat sat", (ErrorSpan(2, 5), ErrorSpan(9, 9))).marked()
            'A [cat] sat[]'
        """
        return "".join(part if one is None else f"[{part}]" for part, one in self.pieces())

    def pieces(self) -> Iterator[tuple[str, ErrorSpan | None]]:
        """Yield the parts of the text in order, each with its error or ``None``; missing words give an empty part."""
        place = 0
        for one in self.spans:
            yield self.text[place : one.start], None
            yield self.text[max(place, one.start) : one.end], one
            place = max(place, one.end)
        yield self.text[place:], None

    def _repr_html_(self) -> str:
        table = super()._repr_html_().partition("</p>")[2]
        return f'<p dir="auto">{self.html()}</p>{table}'

    def html(self) -> str:
        """Return the text as HTML with underlined errors; a tooltip shows severity and probability."""
        return "".join(
            _escaped(part)
            if one is None
            else f'<span style="{_STYLES[one.severity]}" title="{one.label}">{_escaped(part) or "^"}</span>'
            for part, one in self.pieces()
        )


def _escaped(text: str) -> str:
    return html.escape(without_controls(text))


@dataclass(frozen=True, eq=False, repr=False)
class MarkedTexts(Shown, Sequence[TextErrors]):
    """Errors of several texts, in input order.

    Attributes:
        texts: Errors of each text.
        signature: Signature of the results.
        counts: Number of flagged texts by flag.
    """

    texts: tuple[TextErrors, ...]
    signature: Signature
    counts: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, place: int) -> TextErrors: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TextErrors]: ...
    def __getitem__(self, place: int | slice) -> TextErrors | Sequence[TextErrors]:
        return self.texts[place]

    def view(self) -> View:
        """Show the number of errors and the marked texts."""
        counts = Counter(one.severity for text in self.texts for one in text.spans)
        kinds = ", ".join(f"{counts[name]} {name}" for name in SEVERITIES if counts[name])
        headline = f"{plural(counts.total(), 'error')} in {plural(len(self.texts), 'text')}{kinds and f' ({kinds})'}"
        rows = [(len(one), one.marked()) for one in self.texts[:MOST_ROWS]]
        return View(f"{headline}\n{self.signature}", ("errors", "text"), rows, len(self.texts))

    def _repr_html_(self) -> str:
        view = self.view()
        texts = self.texts[:MOST_ROWS]
        rows = "".join(f'<tr><td>{len(one)}</td><td dir="auto">{one.html()}</td></tr>' for one in texts)
        more = f"<p>{view.more}</p>" if view.more else ""
        return f"<p>{html.escape(view.headline)}</p><table><tr><th>errors</th><th>text</th></tr>{rows}</table>{more}"


@dataclass(frozen=True, slots=True)
class MarkedSegment(ComparedText):
    """Hypothesis with human error annotations, its references and its source.

    Attributes:
        hypothesis: The judged text.
        errors: Its errors by position.
        references: Reference texts, possibly none if there is a source.
        source: The text that was translated, if known.
        words: Start and end of each word if words and gaps were tagged; ``None`` if spans were marked in the text.
        graded: Whether the errors have annotated severities; word tags have none.
        groups: Named keys for grouping, such as ``{"lp": "de-en"}``.
    """

    hypothesis: str
    errors: tuple[ErrorSpan, ...]
    references: tuple[str, ...] = ()
    source: str | None = None
    words: tuple[tuple[int, int], ...] | None = None
    graded: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
