"""Scores and alignments of typed texts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textmover.app.html import escape, notice
from textmover.checkpoints.hub import DEFAULT_METRIC, released_metrics
from textmover.presets import PRESETS
from textmover.types import InputError, SourcedReferences, fixed
from textmover.types.word_splitting import text_words

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

LONGEST_SCORED = 5_000  # words of a text
LONGEST_DRAWN = 250  # words of a text whose alignment is drawn
MOST_METRICS = 12  # most metrics of one request
FIRST = ("twmd", "bertscore-f1")  # presets selected initially, after the default metric


@dataclass(frozen=True)
class MetricRow:
    """Values of a metric: ``score`` and, if the metric has them, ``precision``, ``recall`` and ``f``."""

    name: str
    values: dict[str, float]
    higher_is_better: bool = True
    note: str = ""  # flags of the texts, or the reason why there is no score
    failed: bool = False


class Explorer:
    """Metrics for typed texts, loaded on first use."""

    def __init__(self, models: Sequence[str] = (), device: str | None = None) -> None:
        self._models, self._device = tuple(models), device
        self._scorers: dict[str, Scorer] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load the metrics given by ``models``, so that errors are raised at the start."""
        from textmover.modules.devices import resolve_device

        if self._device is not None:
            resolve_device(self._device)
        for name in self._models:
            self._scorer(name)

    @property
    def names(self) -> list[str]:
        """Available metrics, without presets that need statistics of a corpus."""
        presets = [name for name, one in PRESETS.items() if getattr(one.config, "centering", None) != "corpus"]
        return list(dict.fromkeys([*self._models, DEFAULT_METRIC, *released_metrics(), *presets]))

    @property
    def first(self) -> list[str]:
        """Initially selected metrics."""
        return [*(self._models or (DEFAULT_METRIC,)), *FIRST]

    def scores(self, hypothesis: object, references: Sequence[object], metrics: Sequence[object]) -> list[MetricRow]:
        """Score a text with each metric."""
        text, compared = _checked_texts(hypothesis, references)
        chosen = [one for one in dict.fromkeys(map(str, metrics)) if one in self.names]
        if not chosen:
            raise InputError("Expected at least one metric, but got none: choose one.")
        if len(chosen) > MOST_METRICS:
            raise InputError(f"Expected at most {MOST_METRICS} metrics, but got {len(chosen)}: leave some out.")
        with self._lock:
            return [self._score_row(name, text, compared) for name in chosen]

    def alignment(self, hypothesis: object, references: Sequence[object], metric: object) -> str:
        """Return the alignment of a text with its closest reference as HTML, or an error message as HTML."""
        try:
            text, compared = _checked_texts(hypothesis, references)
            if str(metric) not in self.names:
                raise InputError("Expected a metric to explain, but got none: choose one.")
            hint = "`textmover explain` writes that of longer ones into a file."
            _check_length([text, *compared.texts], LONGEST_DRAWN, "to draw an alignment", hint)
            with self._lock:
                explanation = self._scorer(str(metric)).explain(text, compared)
            return f'<div class="tm-alignment" data-at="{id(explanation)}">{explanation._repr_html_()}</div>'
        except InputError as error:
            return notice(str(error), "plain")

    def _score_row(self, name: str, text: str, references: SourcedReferences) -> MetricRow:
        try:
            scorer = self._scorer(name)
            result = scorer.score([text], [references])
        except InputError as error:
            return MetricRow(name, {}, note=str(error), failed=True)
        values = {key: float(one[0]) for key, one in result.values.items() if key not in result.components}
        has_source = references.source is not None and getattr(scorer.metric, "mode", "reference") != "reference"
        note = ", ".join([*["with the source"] * has_source, *(what for what, count in result.counts.items() if count)])
        return MetricRow(name, values, scorer.metric.higher_is_better, note)

    def _scorer(self, name: str) -> Scorer:
        from textmover.scoring.scorer import Scorer

        if name not in self._scorers:
            self._scorers[name] = Scorer.from_pretrained(name, device=self._device)
        return self._scorers[name]


def score_table(rows: Sequence[MetricRow]) -> str:
    """Return a table of scores as HTML."""
    return (
        '<div class="tm-scroll"><table class="tm-scores"><thead><tr><th>metric</th><th class="tm-n">score</th>'
        '<th class="tm-n">precision</th><th class="tm-n">recall</th><th class="tm-n">F</th></tr></thead>'
        f"<tbody>{''.join(map(_table_row, rows))}</tbody></table></div>"
    )


def _table_row(row: MetricRow) -> str:
    name = f'<td class="tm-metric">{escape(row.name)}'
    if row.failed:
        return f'<tr>{name}</td><td colspan="4" class="tm-why">{escape(row.note)}</td></tr>'
    if not row.higher_is_better:
        name += '<span class="tm-tag">lower is better</span>'
    if row.note:
        name += f'<span class="tm-tag">{escape(row.note)}</span>'
    numbers = {one: fixed(value, 3).replace("-", "−") for one, value in row.values.items()}
    cells = "".join(f'<td class="tm-n">{numbers.get(one, "")}</td>' for one in ("precision", "recall", "f"))
    return f'<tr>{name}</td><td class="tm-n tm-main">{numbers["score"]}</td>{cells}</tr>'


def _checked_texts(hypothesis: object, references: Sequence[object]) -> tuple[str, SourcedReferences]:
    """Return text and references; raise an error if one is missing or too long."""
    non_empty = [str(one) for one in references if str(one or "").strip()]
    text, compared = str(hypothesis or ""), SourcedReferences(non_empty, getattr(references, "source", None))
    if not text.strip() or not compared.texts:
        raise InputError("Expected a text and a reference, but got only one or neither: type both.")
    _check_length([text, *compared.texts], LONGEST_SCORED, "here", "`textmover score` takes longer ones from files.")
    return text, compared


def _check_length(texts: Sequence[str], most: int, purpose: str, hint: str) -> None:
    longest = max(len(text_words(one)) for one in texts)
    if longest > most:
        raise InputError(f"Expected texts of at most {most:,} words {purpose}, but got {longest:,}: {hint}")
