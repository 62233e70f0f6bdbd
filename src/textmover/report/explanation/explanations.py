"""Explanations of scores: words, the mass transported between them, and the computation of the score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from textmover.files import atomic_file
from textmover.markdown_escaping import as_unicode
from textmover.report.error_spans import span_record
from textmover.report.explanation.page import frame, render_explanations
from textmover.report.explanation.parts import SIDES, SideName, flag_notes
from textmover.report.figures.matplotlib_figures import FORMATS, check_matplotlib
from textmover.report.table_formats import pick, plain
from textmover.types import InputError, ParsedText, Shown, Signature, TextErrors, View, fixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RECORDED = (
    *("score", "components", "flags", "unknown_words", "signature", "hypothesis", "reference", "similarity", "matches"),
    *("pairs", "unmatched_hypothesis", "unmatched_reference", "steps", "contributions", "remainders", "trees"),
    *("compared_with", "chosen", "reference_scores", "segment_score"),
)
"""Fields of an explanation in its JSON, in order."""


class Step(NamedTuple):
    """An intermediate value in the computation of the score."""

    name: str
    value: float
    how: str  # short description of the computation


class WordPair(NamedTuple):
    """Two matched words."""

    reference: int  # index of the reference's word
    hypothesis: int  # index of the hypothesis's word
    similarity: float  # cosine of the words
    mass: float  # transported mass, as a fraction of the total
    rate: float  # value per unit of mass: a similarity or a cost, or by a norm of losses less than the similarity
    penalty: float | None = None  # factor of the cosine for word positions, in (0, 1]; ``None`` without penalty


class NodeEdit(NamedTuple):
    """Edit of a node that turns the reference's tree into the hypothesis's tree."""

    # ``"kept"`` for matching words, ``"changed"`` for a replaced word, ``"deleted"`` for a word only in the reference,
    # ``"inserted"`` for a word only in the hypothesis
    kind: Literal["kept", "changed", "deleted", "inserted"]
    reference: int | None  # index of the word in the reference's parse; ``None`` for an insertion
    hypothesis: int | None  # index of the word in the hypothesis's parse; ``None`` for a deletion
    cost: float


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedText(Shown):
    """One side of a pair, as the metric processed it."""

    text: str  # input text
    # the ``n`` matched units: words (or spans of several words) and special tokens, written ``[start]`` and ``[end]``
    words: tuple[str, ...]
    # character span of each unit in ``text``, end exclusive; ``None`` for special tokens
    spans: tuple[tuple[int, int] | None, ...]
    weights: np.ndarray  # weight of each unit, float64 ``[n]``, sum 1; 0 for units that are not matched themselves

    def __len__(self) -> int:
        return len(self.words)

    def view(self) -> View:
        """Show the words and their weights."""
        return View(self.text, ("word", "weight"), list(zip(self.words, self.weights.tolist(), strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedMatch(Shown):
    r"""A value of a matching with its plan: :math:`\sum_{ij} P_{ij} r_{ij} + \sum_k e_k`."""

    name: str  # ``"recall"`` or ``"precision"``; a single value is ``"similarity"`` or ``"cost"``
    # mass transported between words, float64 ``[M, N]``, rows are words of the reference; greedy matching also gives
    # a plan
    plan: np.ndarray
    # value per unit of mass between two words, float64 ``[M, N]``: similarity or cost, or by a norm of losses less
    rates: np.ndarray
    measure: Literal["similarity", "cost"]  # whether rates are similarities (higher is better) or costs
    # additional terms: ``"entropy"`` of regularised values, ``"order"`` of the order penalty
    extras: Mapping[str, float] = field(default_factory=dict)

    def view(self) -> View:
        """Show the value and the size of its plan."""
        return View(f"{self.name} {fixed(self.value, 4)} from a plan of {' × '.join(map(str, self.plan.shape))} words")

    @property
    def contributions(self) -> np.ndarray:
        """Contribution of each word pair to the value, ``[M, N]``."""
        return self.plan * self.rates

    @property
    def value(self) -> float:
        """Sum of all contributions and extras."""
        return float(self.contributions.sum()) + sum(self.extras.values())


@dataclass(frozen=True, eq=False)
class ExplainedTrees:
    """Edits that turn the reference's dependency tree into the hypothesis's."""

    reference: ParsedText  # parse of the reference
    hypothesis: ParsedText  # parse of the hypothesis
    edits: tuple[NodeEdit, ...]  # edit of each word that is a node
    largest: float  # total cost if no two words matched

    @property
    def distance(self) -> float:
        """Total cost of the edits."""
        return sum(one.cost for one in self.edits)

    @property
    def similarity(self) -> float:
        """Similarity of the trees, in [0, 1]; 0 if a text has no words."""
        return 1 - self.distance / self.largest if self.largest else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown):
    """Explanation of a hypothesis's score against a reference, as data, text, figure or page.

    Attributes:
        score: Score of the pair.
        components: Other values by name: precision, recall, F, features.
        flags: Warnings such as ``"empty"`` and ``"truncated"``.
        signature: Signature of the metric.
        hypothesis: Words of the hypothesis.
        reference: Words of the reference.
        similarity: Cosines of all word pairs, float64 ``[M, N]``: the maximum over their tokens, 0 if no token is
            compared.
        matches: Values of the matching with their plans; empty if a side is empty.
        pairs: Matched words, sorted by position in the hypothesis, then by mass: the aligned words, or for each word of
            the hypothesis the reference words with the most mass in the plan.
        unmatched_hypothesis: Indices of hypothesis words without a counterpart in the reference.
        unmatched_reference: Indices of reference words without a counterpart in the hypothesis.
        steps: Computation of the score from the values, in order; the last step is the score.
        contributions: Contribution of each word pair to the score, float64 ``[M, N]``: its contributions to the plans'
            values, propagated through all steps. Column sums are contributions of hypothesis words, row sums of
            reference words.
        remainders: Terms of the score that do not depend on words, such as the offset of a human scale. Contributions
            and remainders add up to the score.
        trees: Differences of the dependency trees, if the metric compares them.
        compared_with: ``reference``, or ``source`` if the pair is hypothesis and source.
        chosen: Index of the explained reference, from 0.
        reference_scores: Score against each reference.
        segment_score: Score against all references: their best or mean score.
        unknown_words: Words and symbols unknown to the encoder.
        source: Explanation of the score against the source, if the metric combines reference and source.
        errors: Errors of the hypothesis, if the metric can mark them.
    """

    score: float
    components: Mapping[str, float]
    flags: tuple[str, ...]
    signature: Signature
    hypothesis: ExplainedText
    reference: ExplainedText
    similarity: np.ndarray
    matches: tuple[ExplainedMatch, ...]
    pairs: tuple[WordPair, ...]
    unmatched_hypothesis: tuple[int, ...]
    unmatched_reference: tuple[int, ...]
    steps: tuple[Step, ...]
    contributions: np.ndarray
    remainders: tuple[Step, ...] = ()
    trees: ExplainedTrees | None = None
    compared_with: str = "reference"
    chosen: int = 0
    reference_scores: tuple[float, ...] = ()
    segment_score: float | None = None
    unknown_words: tuple[str, ...] = ()
    source: Explanation | None = None
    errors: TextErrors | None = None

    def mapped(self, factor: float, rest: Step, how: str) -> Explanation:
        """Return the explanation of ``factor * score + rest``."""
        score, last = factor * self.score + rest.value, self.steps[-1]._replace(name=self.compared_with)
        remainders = *(one._replace(value=factor * one.value) for one in self.remainders), rest
        steps = *self.steps[:-1], last, rest, Step("score", score, how)
        cells = factor * self.contributions
        return replace(self, score=score, contributions=cells, remainders=remainders, steps=steps)

    def view(self) -> View:
        """Show the score, flags, and the best match and contribution of each word."""
        best: dict[int, WordPair] = {}
        for one in self.pairs:
            best[one.hypothesis] = max(best.get(one.hypothesis, one), one, key=lambda pair: pair.mass)
        adds, words = self.adds("hypothesis").tolist(), self.hypothesis.words
        rows = [
            (words[place], self.reference.words[one.reference], fixed(one.similarity, 2), adds[place])
            for place, one in best.items()
        ]
        headers = ("word", "matched with", "cosine", "adds")
        return View(f"score {fixed(self.score, 4)}  ({self.steps[-1].how})", headers, rows, notes=flag_notes(self))

    @property
    def plan(self) -> np.ndarray | None:
        """First plan ``[M, N]`` (recall if there are two), or ``None``."""
        return self.matches[0].plan if self.matches else None

    @property
    def by_words(self) -> float:
        """Sum of all contributions: the score without remainders."""
        return float(self.contributions.sum())

    @property
    def terms(self) -> tuple[Step, ...]:
        """Terms of the score: the sum of all words, and the remainders."""
        return Step("words", self.by_words, "what all words add, of either text"), *self.remainders

    def adds(self, side: SideName) -> np.ndarray:
        """Return the contribution of each word of a side to the score, float64; both sides have the same sum."""
        return self.contributions.sum(axis=0 if side == "hypothesis" else 1)

    def closeness(self, side: SideName) -> np.ndarray:
        r"""Return each word's weighted mean cosine, :math:`\sum_i P_{ij} S_{ij} / \sum_i P_{ij}`; 0 without mass."""
        axis, match = (0, -1) if side == "hypothesis" else (1, 0)
        if not self.matches:
            return np.zeros(self.similarity.shape[1 - axis])
        plan = self.matches[match].plan
        moved = plan.sum(axis=axis)
        return (plan * self.similarity).sum(axis=axis) / np.where(moved > 0, moved, 1.0)

    def text(self, side: SideName) -> ExplainedText:
        """Return the words of a side."""
        return self.hypothesis if side == "hypothesis" else self.reference

    def unmatched(self, side: SideName) -> tuple[int, ...]:
        """Return the indices of a side's words without a counterpart."""
        return self.unmatched_hypothesis if side == "hypothesis" else self.unmatched_reference

    def to_dict(self) -> dict[str, Any]:
        """Return all data as JSON types."""
        entries = pick(self, *RECORDED)
        entries["signature"] = str(self.signature)
        for side in SIDES:
            entries[side] = {**vars(self.text(side)), "adds": self.adds(side)}
        entries["matches"] = [pick(one, "name", "value", "measure", "plan", "rates", "extras") for one in self.matches]
        if self.trees is not None:
            trees = pick(self.trees, "reference", "hypothesis", "edits", "distance", "largest")
            for side in SIDES:
                trees[side] = pick(trees[side], "words", "lemmas", "heads", "relations")
            entries["trees"] = trees
        if self.errors is not None:
            entries["errors"] = [span_record(self.errors.text, one) for one in self.errors]
        if self.source is not None:
            entries["source"] = self.source.to_dict()
        return plain(entries)

    def draw(self, path: str | Path | None = None, *, plan: str | None = None) -> Figure:
        """Draw a figure, which notebooks display: :func:`~textmover.report.explanation.figure.explanation_figure`.

        Args:
            path: Optional output file: ``.png``, ``.svg`` or ``.pdf``.
            plan: Name of the plan to draw, such as ``"recall"``; ``None`` for all plans.
        """
        check_matplotlib()
        from textmover.report.explanation.figure import explanation_figure

        return explanation_figure(self, path, plan=plan)

    def to_html(self) -> str:
        """Return a self-contained HTML page that highlights the matches of each word."""
        return render_explanations([ExplainedLine(self)])

    def save(self, path: str | Path) -> Path:
        """Write a figure (``.png``, ``.svg``, ``.pdf``), a page (``.html``) or all data (``.json``) atomically."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix in FORMATS:
            self.draw(path)
        elif suffix in (".html", ".htm", ".json"):
            text = json.dumps(self.to_dict(), ensure_ascii=False) + "\n" if suffix == ".json" else self.to_html()
            with atomic_file(path) as stream:
                stream.write(as_unicode(text))
        else:
            raise InputError(
                f"Expected a file that ends in {', '.join(FORMATS)}, .html or .json, but got {path}: give another name."
            )
        return path

    def _repr_html_(self) -> str:
        try:
            return frame(self)
        except InputError:
            return super()._repr_html_()


class ExplainedLine(NamedTuple):
    """An explanation with the line number of its pair in a file; ``None`` for a single pair."""

    found: Explanation
    line: int | None = None
