"""Explanations of scores: words, the mass moved between them, and the steps to the score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from textmover.files import atomic_file
from textmover.report.error_spans.records import span_record
from textmover.report.explanation.page import frame, render_explanations
from textmover.report.explanation.parts import flag_notes
from textmover.report.figures.matplotlib import FORMATS, check_matplotlib
from textmover.report.table_formats import pick, plain
from textmover.types import InputError, ParsedText, Shown, Signature, TextErrors, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SideName = Literal["hypothesis", "reference"]


class Step(NamedTuple):
    """A number on the way to the score, in the order of the computation."""

    name: str  # what the number is
    value: float  # the number
    how: str  # how it comes about, in a few words


class WordPair(NamedTuple):
    """Two words that were matched."""

    reference: int  # position of the reference's word
    hypothesis: int  # position of the hypothesis' word
    similarity: float  # cosine of the two
    mass: float  # what is moved between them, as a share of all
    rate: float  # what each unit of that mass counts: a similarity or a cost
    penalty: float | None = None  # what positions leave of the cosine, in (0, 1]; ``None`` where they play no part


class NodeEdit(NamedTuple):
    """Edit of a node on the way from the reference's tree to the hypothesis'."""

    # ``"kept"`` for words that match, ``"changed"`` for one that becomes another, ``"deleted"`` for one of the
    # reference alone, ``"inserted"`` for one of the hypothesis alone
    kind: Literal["kept", "changed", "deleted", "inserted"]
    reference: int | None  # position of the word in the reference's parse; ``None`` where one is inserted
    hypothesis: int | None  # position of the word in the hypothesis' parse; ``None`` where one is deleted
    cost: float  # what it costs


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedText(Shown):
    """One side of a pair as the metric read it."""

    text: str  # the text as it was given
    # what is matched, ``n`` of them: words, stretches of words where the metric matches those, and special tokens,
    # which are written ``[start]`` and ``[end]``
    words: tuple[str, ...]
    # first character of each in ``text`` and the one after its last; ``None`` for special tokens
    spans: tuple[tuple[int, int] | None, ...]
    weights: np.ndarray  # how much each weighs, float64 ``[n]``, sum 1; 0 for what takes no part of its own

    def __len__(self) -> int:
        return len(self.words)

    def view(self) -> View:
        """Show the words and their weights."""
        return View(self.text, ("word", "weight"), list(zip(self.words, self.weights.tolist(), strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedMatch(Shown):
    r"""A value of a matching and the plan that it comes from: :math:`\sum_{ij} P_{ij} r_{ij} + \sum_k e_k`."""

    name: str  # the value: ``"recall"``, ``"precision"``, or ``"similarity"`` or ``"cost"`` where there is but one
    # what is moved between the words, float64 ``[M, N]``; rows are words of the reference. What greedy matching gives
    # each word is a plan, too
    plan: np.ndarray
    rates: np.ndarray  # what a unit of mass counts between two words, float64 ``[M, N]``
    measure: Literal["similarity", "cost"]  # whether rates are similarities (higher is better) or costs
    # what the value has beside: ``"entropy"`` of a regularised value, ``"order"`` of an order penalty
    extras: Mapping[str, float] = field(default_factory=dict)

    def view(self) -> View:
        """Show the value and the size of its plan."""
        return View(f"{self.name} {self.value:.4f} from a plan of {' × '.join(map(str, self.plan.shape))} words")

    @property
    def contributions(self) -> np.ndarray:
        """Contribution of each pair of words to the value, ``[M, N]``."""
        return self.plan * self.rates

    @property
    def value(self) -> float:
        """The value: all contributions and extras together."""
        return float(self.contributions.sum()) + sum(self.extras.values())


@dataclass(frozen=True, eq=False)
class ExplainedTrees:
    """Edits that turn one dependency tree into the other."""

    reference: ParsedText  # parse of the reference
    hypothesis: ParsedText  # parse of the hypothesis
    edits: tuple[NodeEdit, ...]  # what becomes of each word that is a node
    largest: float  # cost of the edits if no two words matched

    @property
    def distance(self) -> float:
        """Cost of all edits."""
        return sum(one.cost for one in self.edits)

    @property
    def similarity(self) -> float:
        """Similarity of the trees, in [0, 1]; 0 if a text has no words."""
        return 1 - self.distance / self.largest if self.largest else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown):
    """Why a hypothesis got its score against a reference, as numbers and to look at.

    Attributes:
        score: Score of the pair.
        components: Its other values by name: precision, recall, F, features.
        flags: What is out of the ordinary: ``"empty"``, ``"truncated"``, …
        signature: What the score depends on.
        hypothesis: The words of the hypothesis.
        reference: Those of the reference.
        similarity: Cosines of all words, float64 ``[M, N]``; the largest of their tokens where words have several, 0
            where none takes part.
        matches: Values with the plans that they come from; none where a side is empty.
        pairs: Words that belong together, by position in the hypothesis and then by mass: those that were aligned, or
            of a plan for each word of the hypothesis those of the reference that it draws on most.
        unmatched_hypothesis: Words of the hypothesis that the reference has no counterpart for, by position.
        unmatched_reference: Words of the reference that the hypothesis has no counterpart for.
        steps: How the score follows from the values, in order; the last one is the score.
        contributions: What each pair of words adds to the score, float64 ``[M, N]``: its part of the values of the
            plans, carried through every step to the score. Sums over rows are what words of the hypothesis add, sums
            over columns what those of the reference add.
        remainders: What the score has beside the words, such as the offset of a human scale; together with all
            contributions they are the score.
        trees: How dependency trees differ, where the metric compares them.
        compared_with: ``reference``, or ``source`` where its words are those of the source.
        chosen: Which of the references this is, from 0.
        reference_scores: Score against each of the references.
        segment_score: Score against all of them, which is the best or the mean of these.
        unknown_words: Words and symbols that the encoder does not know, as they are written.
        source: Where the score combines reference and source, the explanation of the one against the source.
        errors: Errors of the hypothesis, where the metric can mark them.
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
        """The explanation of the score times a factor and a further term."""
        score, last = factor * self.score + rest.value, self.steps[-1]._replace(name=self.compared_with)
        remainders = *(one._replace(value=factor * one.value) for one in self.remainders), rest
        steps = *self.steps[:-1], last, rest, Step("score", score, how)
        cells = factor * self.contributions
        return replace(self, score=score, contributions=cells, remainders=remainders, steps=steps)

    def view(self) -> View:
        """Show the score, what is out of the ordinary, and for each word its best match and what it adds."""
        best: dict[int, WordPair] = {}
        for one in self.pairs:
            best[one.hypothesis] = max(best.get(one.hypothesis, one), one, key=lambda pair: pair.mass)
        adds, words = self.adds("hypothesis").tolist(), self.hypothesis.words
        rows = [
            (words[place], self.reference.words[one.reference], f"{one.similarity:.2f}", adds[place])
            for place, one in best.items()
        ]
        headers = ("word", "matched with", "cosine", "adds")
        return View(f"score {self.score:.4f}  ({self.steps[-1].how})", headers, rows, notes=flag_notes(self))

    @property
    def plan(self) -> np.ndarray | None:
        """The first plan ``[M, N]``: that of recall, where there are two."""
        return self.matches[0].plan if self.matches else None

    @property
    def by_words(self) -> float:
        """Sum of all words' contributions; the rest of the score are the remainders."""
        return float(self.contributions.sum())

    def adds(self, side: SideName) -> np.ndarray:
        """Contribution of each word of a side to the score, float64; both sides have the same sum."""
        return self.contributions.sum(axis=0 if side == "hypothesis" else 1)

    def closeness(self, side: SideName) -> np.ndarray:
        r"""Mean cosine of each word to its matches by mass, or 0: :math:`\sum_i P_{ij} S_{ij} / \sum_i P_{ij}`."""
        axis, match = (0, -1) if side == "hypothesis" else (1, 0)
        if not self.matches:
            return np.zeros(self.similarity.shape[1 - axis])
        plan = self.matches[match].plan
        moved = plan.sum(axis=axis)
        return (plan * self.similarity).sum(axis=axis) / np.where(moved > 0, moved, 1.0)

    def text(self, side: SideName) -> ExplainedText:
        """The words of a side."""
        return self.hypothesis if side == "hypothesis" else self.reference

    def unmatched(self, side: SideName) -> tuple[int, ...]:
        """Words of a side that have no counterpart in the other one."""
        return self.unmatched_hypothesis if side == "hypothesis" else self.unmatched_reference

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        trees = None
        if self.trees is not None:
            sides = {
                side: pick(getattr(self.trees, side), "words", "lemmas", "heads", "relations")
                for side in ("reference", "hypothesis")
            }
            trees = {**sides, **pick(self.trees, "edits", "distance", "largest")}
        found = {
            **pick(self, "score", "components", "flags", "unknown_words"),
            "signature": str(self.signature),
            "hypothesis": {**vars(self.hypothesis), "adds": self.adds("hypothesis")},
            "reference": {**vars(self.reference), "adds": self.adds("reference")},
            "similarity": self.similarity,
            "matches": [pick(one, "name", "value", "measure", "plan", "rates", "extras") for one in self.matches],
            **pick(
                self, "pairs", "unmatched_hypothesis", "unmatched_reference", "steps", "contributions", "remainders"
            ),
            "trees": trees,
            **pick(self, "compared_with", "chosen", "reference_scores", "segment_score"),
        }
        if self.errors is not None:
            found["errors"] = [span_record(self.errors.text, one) for one in self.errors]
        beside = {} if self.source is None else {"source": self.source.to_dict()}
        return {name: plain(value) for name, value in found.items()} | beside

    def draw(self, path: str | Path | None = None, *, plan: str | None = None) -> Figure:
        """The plan over the similarities, as a figure of matplotlib, which notebooks show.

        Args:
            path: Where it is written as well, if at all; ``.png``, ``.svg`` or ``.pdf``.
            plan: Name of the one plan to draw, such as ``"recall"``; all that there are if ``None``.

        Returns:
            The figure; see :func:`~textmover.report.explanation.figure.explanation_figure`.
        """
        check_matplotlib()
        from textmover.report.explanation.figure import explanation_figure

        return explanation_figure(self, path, plan=plan)

    def to_html(self) -> str:
        """A page that needs nothing else, in which words light up with what they are matched with."""
        return render_explanations([ExplainedLine(self)])

    def save(self, path: str | Path) -> Path:
        """Write a picture (``.png``, ``.svg``, ``.pdf``), a page (``.html``) or everything (``.json``) into a file.

        Args:
            path: Its suffix says what is written; the file appears under its name only when it is complete.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix in FORMATS:
            self.draw(path)
        elif suffix in (".html", ".htm", ".json"):
            text = json.dumps(self.to_dict(), ensure_ascii=False) + "\n" if suffix == ".json" else self.to_html()
            with atomic_file(path) as stream:
                stream.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
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
    """An explanation, and the line of a file that it is from; ``None`` for a pair that was given by itself."""

    found: Explanation
    line: int | None = None
