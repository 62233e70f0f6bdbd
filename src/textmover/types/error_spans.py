"""Errors of a text as spans of its characters, and the results that mark them."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np

from textmover.types.display import MOST_ROWS, Shown, View, plural
from textmover.types.segments import ComparedText, InputError, Signature

Severity = Literal["minor", "major", "critical"]
"""Severity of an error."""

SEVERITIES: tuple[Severity, ...] = ("minor", "major", "critical")
"""Severities, from the least."""

MQM_COSTS: Mapping[str, float] = {"minor": 1.0, "major": 5.0, "critical": 25.0}
"""Cost of an error by severity in MQM (Freitag et al. 2021; critical: MQM core)."""

_STYLES = {
    "minor": "background:#d9a4002e;border-bottom:2px dotted #b07d00",
    "major": "background:#e8590c33;border-bottom:2px solid #e8590c",
    "critical": "background:#d6336c47;border-bottom:4px double #d6336c",
}
"""Styles of errors in notebooks by severity, legible on light and on dark paper."""


@dataclass(frozen=True, slots=True)
class ErrorSpan:
    """A wrong stretch of a text, or a place where words are missing.

    Attributes:
        start: First character, counted from 0 in the text as it was given.
        end: Character behind the last one; equal to ``start`` where words are missing.
        severity: One of :data:`SEVERITIES`.
        confidence: Probability that there is an error, 0 to 1.
        gaps: Other characters at which words are missing as part of it; those between its words are left out.

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
        """Severity and probability for people.

        Example:
            >>> ErrorSpan(4, 7, "major", 0.9134).label, ErrorSpan(4, 4, "minor", 0.5).label
            ('major 0.91', 'minor 0.50, missing')
        """
        return f"{self.severity} {self.confidence:.2f}{', missing' if self.missing else ''}"


@dataclass(frozen=True, eq=False, repr=False)
class TextErrors(Shown, Sequence[ErrorSpan]):
    """The errors of one text: a sequence of spans, with the probabilities that they rest on.

    Attributes:
        text: The text as it was given.
        spans: Its errors by place.
        words: First character of each of the ``W`` words, and that behind its last.
        word_probabilities: Probability of each word to be wrong, float64 ``[W]``.
        gap_probabilities: Probability that words are missing before each word and behind the last, float64 ``[W + 1]``.
        flags: What was out of the ordinary, such as ``"truncated"``: errors behind the cut are not seen.
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
        """Sum of the errors' costs in MQM (:data:`MQM_COSTS`); its negative is an MQM score, not the metric's score.

        Example:
            >>> TextErrors("A cat sat", (ErrorSpan(2, 5), ErrorSpan(9, 9, "minor"))).cost
            6.0
        """
        return sum((MQM_COSTS[one.severity] for one in self.spans), 0.0)

    def view(self) -> View:
        """The text with its errors in square brackets, and a row for each."""
        rows = [
            (self.text[one.start : one.end] or "(missing)", one.start, one.end, one.severity, one.confidence)
            for one in self.spans[:MOST_ROWS]
        ]
        return View(self.marked(), ("words", "start", "end", "severity", "confidence"), rows, len(self.spans))

    def marked(self) -> str:
        """The text with its errors in square brackets, ``[]`` where words are missing.

        Example:
            >>> TextErrors("A cat sat", (ErrorSpan(2, 5), ErrorSpan(9, 9))).marked()
            'A [cat] sat[]'
        """
        return "".join(part if one is None else f"[{part}]" for part, one in self.pieces())

    def pieces(self) -> Iterator[tuple[str, ErrorSpan | None]]:
        """Stretches of the text in order, each with its error or ``None``; one of missing words is empty."""
        place = 0
        for one in self.spans:
            yield self.text[place : one.start], None
            yield self.text[max(place, one.start) : one.end], one
            place = max(place, one.end)
        yield self.text[place:], None

    def _repr_html_(self) -> str:
        return f"<p>{self.html()}</p>{super()._repr_html_().partition('</p>')[2]}"

    def html(self) -> str:
        """The text as HTML in which errors are underlined, with severity and probability under the pointer."""
        return "".join(
            _escaped(part)
            if one is None
            else f'<span style="{_STYLES[one.severity]}" title="{one.label}">{_escaped(part) or "^"}</span>'
            for part, one in self.pieces()
        )


def _escaped(text: str) -> str:
    """The text for HTML, without control characters; joiners of emoji stay."""
    kept = (one.isprintable() or one.isspace() or one in "\u200c\u200d" for one in text)
    return html.escape("".join(one if keep else "\ufffd" for one, keep in zip(text, kept, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class MarkedTexts(Shown, Sequence[TextErrors]):
    """The errors of many texts, in input order.

    Attributes:
        texts: The errors of each.
        signature: What they depend on.
        counts: Number of texts that were out of the ordinary, by kind.
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
        """Number of errors, and the marked texts."""
        found = Counter(one.severity for text in self.texts for one in text.spans)
        told = ", ".join(f"{found[name]} {name}" for name in SEVERITIES if found[name])
        headline = f"{plural(found.total(), 'error')} in {plural(len(self.texts), 'text')}{told and f' ({told})'}"
        rows = [(len(one), one.marked()) for one in self.texts[:MOST_ROWS]]
        return View(f"{headline}\n{self.signature}", ("errors", "text"), rows, len(self.texts))

    def _repr_html_(self) -> str:
        view = self.view()
        rows = "".join(f"<tr><td>{len(one)}</td><td>{one.html()}</td></tr>" for one in self.texts[:MOST_ROWS])
        more = f"<p>{view.more}</p>" if view.more else ""
        return f"<p>{html.escape(view.headline)}</p><table><tr><th>errors</th><th>text</th></tr>{rows}</table>{more}"


@dataclass(frozen=True, slots=True)
class MarkedSegment(ComparedText):
    """One hypothesis whose errors people marked, and what it is compared with.

    Attributes:
        hypothesis: The text that was judged.
        errors: What is wrong with it, by place.
        references: Texts that say what was wanted, possibly none where there is a source.
        source: The text that was translated, if known.
        words: First character of each word that was judged, and that behind its last, where words and the gaps between
            them were tagged one by one; ``None`` where spans were marked in the text.
        graded: Whether the severities of the errors were given; tags of words have none.
        groups: Named keys for grouping, such as ``{"lp": "de-en"}``.
    """

    hypothesis: str
    errors: tuple[ErrorSpan, ...]
    references: tuple[str, ...] = ()
    source: str | None = None
    words: tuple[tuple[int, int], ...] | None = None
    graded: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
