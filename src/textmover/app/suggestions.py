"""Errors that a metric suggests to annotators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.annotation import Item
from textmover.types import ErrorSpan, SourcedReferences

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
