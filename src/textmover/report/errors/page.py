"""Marked errors as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textmover.markdown import one_line
from textmover.report.errors.records import ErrorCount, MarkedLine
from textmover.report.explanation.wording import FLAGS
from textmover.report.templating import render_page
from textmover.types import SEVERITIES, ErrorSpan, TextErrors

MOST_TEXTS = 2_000
"""Texts that a page shows at most; all are counted."""

BEGINNING = 60
"""Characters of an error that the list below its text repeats."""

OTHER_FLAGS = {
    "empty": "one side has no words, so that any words of the other are errors",
    "unreferenced": "there is no reference: marks from a source alone are unreliable",
    "truncated": "the text was cut at the encoder's limit: errors behind the cut are not seen",
}
"""Descriptions of flags that differ from those of scores."""


def render_marked(lines: Iterable[MarkedLine], count: ErrorCount) -> str:
    """A page as text of the first :data:`MOST_TEXTS` marked texts; ``count`` grows as they are read."""
    views: list[Mapping[str, Any]] = []
    for one in lines:
        if len(views) < MOST_TEXTS:
            views.append(_view(one))
    about = [f"{count.by_severity}; {count.clean:,} of the texts without errors." if count.by_severity else ""]
    about += [f"The first {MOST_TEXTS:,} of {count.texts:,} texts are shown."] if count.texts > MOST_TEXTS else []
    return render_page(
        "errors.html.j2",
        metrics=1,
        styles=("marks.css", "errors.css"),
        views=views,
        title=count.headline,
        about=list(filter(None, about)),
        clean=count.clean,
        severities=SEVERITIES,
        signature=count.signature,
    )


def shown_pieces(found: TextErrors) -> list[tuple[str, ErrorSpan | None]]:
    """Stretches of a text with their errors, control characters made visible; none of a text without words."""
    if not found.text.strip():
        return []
    return [(_visible(part), one) for part, one in found.pieces() if part or one is not None]


def _view(one: MarkedLine) -> Mapping[str, Any]:
    found = one.found
    spans = [(span.label, span.severity, one_line(found.text[span.start : span.end])) for span in found.spans]
    return {
        "line": one.line,
        "pieces": shown_pieces(found),
        "spans": [(*rest, words if len(words) <= BEGINNING else f"{words[:BEGINNING]}…") for *rest, words in spans],
        "flags": [_note(flag) for flag in found.flags if flag != "empty" or found.text.strip()],
    }


def _note(flag: str) -> str:
    """Return the sentence about a flag, where marks mean as little as a score would."""
    return OTHER_FLAGS.get(flag, FLAGS.get(flag, flag)).replace("the score means", "the marks mean")


def _visible(part: str) -> str:
    """The stretch as one line, with a space where it begins or ends with white space."""
    return f"{' ' * part[:1].isspace()}{one_line(part)}{' ' * (part[-1:].isspace() and bool(part.strip()))}"
