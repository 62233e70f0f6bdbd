"""Options of RoMe's features and names of its default parts, read without torch."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import get_args

from textmover.types import InputError, check_choice, check_share, check_whole
from textmover.types.bounds import Penalty, Position

DEFAULT_PARSER = "textmover-parser"
"""The released parser: English, trained on the English Web Treebank of Universal Dependencies."""

DEFAULT_CLASSIFIER = "textmover-acceptability"
"""Name of the classifier that comes along."""

MEAN = "mean"
"""No network: the mean of the features."""


@dataclass(frozen=True)
class SemanticConfig:
    """Alignment of words, and the distance of aligned words.

    Attributes:
        align: Whether words are aligned one to one; else every word may go to every other at 1 - cos (plain EMD).
        position: How the alignment sees positions (:func:`~textmover.functional.word_alignment.alignment_scores`).
        penalty: How distances do (:func:`~textmover.functional.word_alignment.aligned_distances`).
        threshold: The confidence δ in [0, 1] that the cosine of aligned words has to exceed.

    Raises:
        InputError: If a field has a value that there is not.
    """

    align: bool = True
    position: Position = "penalty"
    penalty: Penalty = "paper"
    threshold: float = 0.6

    def __post_init__(self) -> None:
        """Check the fields."""
        check_choice("position", self.position, get_args(Position))
        check_choice("penalty", self.penalty, get_args(Penalty))
        check_share("threshold", self.threshold)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value that can occur; a text matched with itself has the largest."""
        return (0.0, 1.0) if self.align else (-1.0, 1.0)


SEMANTICS: dict[str, SemanticConfig] = {
    "paper": SemanticConfig(),
    "code": SemanticConfig(position="near", penalty="code"),
    "equations": SemanticConfig(position="literal"),
    "align": SemanticConfig(penalty="none"),
    "emd": SemanticConfig(align=False),
}
"""Named configurations. ``paper`` penalises distances by Eq. 4 and aligns words by the same penalty, since Eq. 3 as
printed aligns no word of a text with itself (``equations`` does that). ``code`` aligns and penalises as the authors'
code does. ``align`` leaves out the penalty of distances, ``emd`` the alignment too: rows of the paper's table 5."""


@dataclass(frozen=True, slots=True)
class SyntacticOptions:
    """When two words match, and which words are compared.

    Attributes:
        theta: Cosine that two words have to exceed to match, in [-1, 1].
        change: Cost of changing a word into one that does not match, above 0 and at most 2; deleting or inserting one
            costs 1. At 1, the paper's, every edit counts the same. At 2 a change is worth no more than a deletion and
            an insertion, and the similarity is ``2 k / (m + n)`` for ``k`` matched words of ``m`` and ``n``: words that
            moved, as in the passive form, weigh less then, since others cannot be changed into them at half the price.
        ramp: Width of the range of cosines, with ``theta`` at its centre, over which the cost of a change falls to 0,
            at least 0. At 0, the paper's, the cost is a step, and a score jumps by a whole edit where rounding
            takes a cosine across ``theta``; with a ramp, an error ``e`` of a cosine moves the cost by ``e / ramp``.
        relations: Whether words that match also need the same dependency relation; what follows a colon, as in
            ``nsubj:pass``, is not looked at.
        punctuation: Whether punctuation marks are nodes (see :func:`~textmover.rome.parsers.trees.tree_words`).
        most_nodes: Words, at least 1, up to which texts are compared as a whole; longer ones in stretches.

    Raises:
        InputError: If one is out of its range.
    """

    theta: float = 0.65
    change: float = 1.0
    ramp: float = 0.0
    relations: bool = False
    punctuation: bool = False
    most_nodes: int = 400

    def __post_init__(self) -> None:
        """Check the kinds and ranges."""
        for name in ("theta", "change", "ramp", "most_nodes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"Expected `{name}` to be a number, but got {value!r}.")
        if not -1 <= self.theta <= 1:
            raise InputError(f"Expected `theta` to be a cosine from -1 to 1, but got {self.theta}.")
        if not 0 < self.change <= 2:
            raise InputError(
                f"Expected `change` to be above 0 and at most 2, but got {self.change}: a deletion and an insertion "
                "together cost 2."
            )
        if not 0 <= self.ramp < float("inf"):
            raise InputError(f"Expected `ramp` to be 0 or above, but got {self.ramp}: 0 makes the cost a step.")
        check_whole("most_nodes", self.most_nodes, way_out=": try 400")
