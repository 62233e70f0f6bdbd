"""The text whose errors are marked, as words and gaps; marks.js lets annotators mark them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from textmover.annotation import Item, Marks
from textmover.annotation.marks import as_entry, words_and_gaps
from textmover.app.html import notice, shown
from textmover.types import SEVERITIES, ErrorSpan


def marking_block(item: Item, marks: Marks | None, suggestions: Sequence[ErrorSpan], problem: str = "") -> str:
    """The text of an item with its marks and suggestions, below them the tools, and why there are no suggestions.

    Places are those of Python, since browsers count some characters twice.
    """
    text, places = item.hypothesis, words_and_gaps(item.hypothesis)
    given = {
        **as_entry(marks or Marks()),
        "suggested": [
            {
                "start": one.start,
                "end": one.end,
                "severity": one.severity,
                "label": f"{one.severity} {one.confidence:.2f}",
            }
            for one in suggestions
        ],
    }
    parts = []
    for number, (start, end) in enumerate(places):
        kind, tag = ("tm-w", "span") if number % 2 else ("tm-g", "i")
        parts.append(f'<{tag} class="{kind}" data-from="{start}" data-to="{end}">{shown(text[start:end])}</{tag}>')
    tools = "".join(f'<button type="button" data-severity="{one}">{one}</button>' for one in SEVERITIES)
    edits = (
        ("decide", "accept", "Accept"), ("decide", "reject", "Reject"),
        ("move", "before-more", "+ word before"), ("move", "before-less", "− first word"),
        ("move", "after-less", "− last word"), ("move", "after-more", "+ word after"),
        ("move", "earlier", "One word earlier"), ("move", "later", "One word later"),
        ("grade", "delete", "Delete"),
    )  # fmt: skip
    rows = {"decide": "", "grade": tools, "move": ""}
    for row, act, label in edits:
        rows[row] += f'<button type="button" data-act="{act}">{label}</button>'
    listed = "".join(f'<div class="tm-{row}">{buttons}</div>' for row, buttons in rows.items())
    return (
        f'<section class="tm-text tm-judged"><h3>Mark the errors</h3>'
        f'<p class="tm-words tm-marked" dir="auto" tabindex="0" role="application" aria-label="Text, word by word" '
        f'data-marks="{shown(json.dumps(given))}">{"".join(parts)}</p>'
        f'<p class="tm-hint" role="status"></p><div class="tm-tools">{listed}</div>'
        f'<button type="button" class="tm-done" data-act="done">No errors</button></section>'
        + (notice(f"No suggestions. {problem}", "plain") if problem else "")
    )
