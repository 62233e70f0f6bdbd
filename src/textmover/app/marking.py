"""The text whose errors are marked, as words and gaps, and errors that a metric suggests; marks.js does the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textmover.annotation import Item, Marks
from textmover.annotation.marks import as_entry, span_entry, words_and_gaps
from textmover.app.html import notice, shown
from textmover.types import SEVERITIES, ErrorSpan, SourcedReferences

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer


class Suggestions:
    """Errors that a metric marks in texts, each text once; none without a metric."""

    def __init__(self, model: str | None = None, device: str | None = None) -> None:
        self.model, self._device = model or "", device
        self._scorer: Scorer | None = None
        self._found: dict[str, tuple[ErrorSpan, ...]] = {}

    def load(self) -> None:
        """Load the metric now."""
        from textmover.scoring.scorer import Scorer

        if self.model:
            self._scorer = Scorer.from_pretrained(self.model, device=self._device)

    def of(self, item: Item) -> tuple[ErrorSpan, ...]:
        """Return the errors of a text by place; refuse one that the metric has nothing to compare with."""
        if self._scorer is None or not item.hypothesis.strip():
            return ()
        if item.fingerprint not in self._found:
            given = SourcedReferences(item.references, item.sources.get("source"))
            self._found[item.fingerprint] = self._scorer.errors([item.hypothesis], [given])[0].spans
        return self._found[item.fingerprint]


def marking_block(item: Item, marks: Marks | None, suggestions: Sequence[ErrorSpan], problem: str = "") -> str:
    """The text of an item with its marks and suggestions, below them the tools, and why there are no suggestions.

    Places are those of Python, since browsers count some characters twice.
    """
    text = item.hypothesis
    suggested = [span_entry(one, label=f"{one.severity} {one.confidence:.2f}") for one in suggestions]
    given = {**as_entry(marks or Marks()), "suggested": suggested}
    parts = []
    for number, (start, end) in enumerate(words_and_gaps(text)):
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
