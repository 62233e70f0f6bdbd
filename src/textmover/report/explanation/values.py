"""Values of an explanation: the words of a pair, the mass moved between them, and the steps to the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from textmover.types import ParsedText, Signature

if TYPE_CHECKING:
    pass

SideName = Literal["hypothesis", "reference"]


class Step(NamedTuple):
    """A number on the way to the score, in the order of the computation.

    Attributes:
        name: What the number is.
        value: The number.
        how: How it comes about, in a few words.
    """

    name: str
    value: float
    how: str


class WordPair(NamedTuple):
    """Two words that were matched.

    Attributes:
        reference: Position of the reference's word.
        hypothesis: Position of the hypothesis' word.
        similarity: Cosine of the two.
        mass: What is moved between them, as a share of all.
        rate: What each unit of that mass counts: a similarity or a cost.
        penalty: What positions leave of the cosine, in (0, 1]; ``None`` where they play no part.
    """

    reference: int
    hypothesis: int
    similarity: float
    mass: float
    rate: float
    penalty: float | None = None


class NodeEdit(NamedTuple):
    """Edit of a node on the way from the reference's tree to the hypothesis'.

    Attributes:
        kind: ``"kept"`` for words that match, ``"changed"`` for one that becomes another, ``"deleted"`` for one of the
            reference alone, ``"inserted"`` for one of the hypothesis alone.
        reference: Position of the word in the reference's parse; ``None`` where one is inserted.
        hypothesis: Position of the word in the hypothesis' parse; ``None`` where one is deleted.
        cost: What it costs.
    """

    kind: Literal["kept", "changed", "deleted", "inserted"]
    reference: int | None
    hypothesis: int | None
    cost: float


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """One side of a pair as the metric read it.

    Attributes:
        text: The text as it was given.
        words: What is matched, ``n`` of them: words, stretches of words where the metric matches those, and special
            tokens, which are written ``[start]`` and ``[end]``.
        spans: First character of each in ``text`` and the one after its last; ``None`` for special tokens.
        weights: How much each weighs, float64 ``[n]``, sum 1; 0 for what takes no part of its own.
    """

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int] | None, ...]
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, eq=False)
class ExplainedMatch:
    r"""A value of a matching and the plan that it comes from: :math:`\sum_{ij} P_{ij} r_{ij} + \sum_k e_k`.

    Attributes:
        name: The value: ``"recall"``, ``"precision"``, or ``"similarity"`` or ``"cost"`` where there is but one.
        plan: What is moved between the words, float64 ``[M, N]``; rows are words of the reference. What greedy
            matching gives each word is a plan, too.
        rates: What a unit of mass counts between two words, float64 ``[M, N]``.
        measure: Whether rates are similarities (higher is better) or costs.
        extras: What the value has beside: ``"entropy"`` of a regularised value, ``"order"`` of an order penalty.
    """

    name: str
    plan: np.ndarray
    rates: np.ndarray
    measure: Literal["similarity", "cost"]
    extras: Mapping[str, float] = field(default_factory=dict)

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
    """Edits that turn one dependency tree into the other.

    Attributes:
        reference: Parse of the reference.
        hypothesis: Parse of the hypothesis.
        edits: What becomes of each word that is a node.
        largest: Cost of the edits if no two words matched.
    """

    reference: ParsedText
    hypothesis: ParsedText
    edits: tuple[NodeEdit, ...]
    largest: float

    @property
    def distance(self) -> float:
        """Cost of all edits."""
        return sum(one.cost for one in self.edits)

    @property
    def similarity(self) -> float:
        """Similarity of the trees, in [0, 1]; 0 if a text has no words."""
        return 1 - self.distance / self.largest if self.largest else 0.0


@dataclass(frozen=True, eq=False)
class ExplanationValues:
    """The numbers of an explanation: why a hypothesis got its score against a reference.

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
        chosen: Which of the references this is, from 0.
        reference_scores: Score against each of the references.
        segment_score: Score against all of them, which is the best or the mean of these.
        unknown_words: Words and symbols that the encoder does not know, as they are written.
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
    chosen: int = 0
    reference_scores: tuple[float, ...] = ()
    segment_score: float | None = None
    unknown_words: tuple[str, ...] = ()

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
        r"""Closeness of each word of a side to its matches: :math:`\sum_i P_{ij} S_{ij} / \sum_i P_{ij}`.

        Args:
            side: Which words.

        Returns:
            Mean cosine of what each word is matched with, by mass, one value a word; 0 where nothing is moved.
        """
        axis, match = (0, -1) if side == "hypothesis" else (1, 0)
        if not self.matches:
            return np.zeros(self.similarity.shape[1 - axis])
        plan = self.matches[match].plan
        moved = plan.sum(axis=axis)
        return (plan * self.similarity).sum(axis=axis) / np.where(moved > 0, moved, 1.0)

    def unmatched(self, side: SideName) -> tuple[int, ...]:
        """Words of a side that have no counterpart in the other one."""
        return self.unmatched_hypothesis if side == "hypothesis" else self.unmatched_reference

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "score": self.score,
            "components": dict(self.components),
            "flags": list(self.flags),
            "unknown_words": list(self.unknown_words),
            "signature": str(self.signature),
            "hypothesis": _text_dict(self.hypothesis, self.adds("hypothesis")),
            "reference": _text_dict(self.reference, self.adds("reference")),
            "similarity": self.similarity.tolist(),
            "matches": [
                {
                    "name": one.name,
                    "value": one.value,
                    "measure": one.measure,
                    "plan": one.plan.tolist(),
                    "rates": one.rates.tolist(),
                    "extras": dict(one.extras),
                }
                for one in self.matches
            ],
            "pairs": [one._asdict() for one in self.pairs],
            "unmatched_hypothesis": list(self.unmatched_hypothesis),
            "unmatched_reference": list(self.unmatched_reference),
            "steps": [one._asdict() for one in self.steps],
            "contributions": self.contributions.tolist(),
            "remainders": [one._asdict() for one in self.remainders],
            "trees": None if self.trees is None else _trees_dict(self.trees),
            "chosen": self.chosen,
            "reference_scores": list(self.reference_scores),
            "segment_score": self.segment_score,
        }


def _text_dict(side: ExplainedText, adds: np.ndarray) -> dict[str, Any]:
    return {
        "text": side.text,
        "words": list(side.words),
        "spans": [None if span is None else list(span) for span in side.spans],
        "weights": side.weights.tolist(),
        "adds": adds.tolist(),
    }


def _trees_dict(trees: ExplainedTrees) -> dict[str, Any]:
    sides = {
        name: {"words": list(one.words), "lemmas": list(one.lemmas), "heads": list(one.heads),
               "relations": list(one.relations)}
        for name, one in (("reference", trees.reference), ("hypothesis", trees.hypothesis))
    }  # fmt: skip
    edits = [one._asdict() for one in trees.edits]
    return {**sides, "edits": edits, "distance": trees.distance, "largest": trees.largest}
