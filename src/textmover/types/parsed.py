"""Texts as words in dependency trees, and what parses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The words of a text in the order of the text, with lemmas and dependencies.

    A text of several sentences has several roots; whoever needs one tree joins them under a root of its own.

    Attributes:
        words: The ``n`` words as they are written, punctuation marks among them; white space is none.
        lemmas: Their dictionary forms; a parser without lemmas gives the words in lower case.
        tags: Universal part-of-speech tags (``NOUN``, ``VERB``, …).
        features: Morphological features as Universal Dependencies write them (``Number=Plur|Person=3``), or ``""``.
        heads: Position of the word that each one depends on; -1 for the root of a sentence.
        relations: Dependency relations of Universal Dependencies (``nsubj``, ``obj``, …); ``root`` for a root.
        spans: First character of each word in the text, and the one after its last.

    Raises:
        ValueError: If their numbers differ, or the heads are no trees.
    """

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    tags: tuple[str, ...]
    features: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Check that there is one of everything to a word, and that every word hangs on a root."""
        columns = (self.lemmas, self.tags, self.features, self.heads, self.relations, self.spans)
        if any(len(column) != len(self.words) for column in columns):
            raise ValueError(
                f"Expected one lemma, tag, head … to each of {len(self.words)} words, but got "
                f"{', '.join(str(len(column)) for column in columns)}."
            )
        rooted = [False] * len(self.words)
        for word in range(len(self.words)):
            path: list[int] = []
            place = word
            while place != -1 and not (0 <= place < len(self.words) and rooted[place]):
                if not 0 <= place < len(self.words) or len(path) == len(self.words):
                    raise ValueError(f"Expected `heads` to be trees of {len(self.words)} words, but got {self.heads}.")
                path.append(place)
                place = self.heads[place]
            for one in path:
                rooted[one] = True

    def __len__(self) -> int:
        return len(self.words)

    @property
    def roots(self) -> tuple[int, ...]:
        """Positions of the roots, one to a sentence."""
        return tuple(place for place, head in enumerate(self.heads) if head == -1)


@runtime_checkable
class Parser(Protocol):
    """A parser of texts. A text's parse depends on that text alone."""

    @property
    def identity(self) -> str:
        """Name, version and hash of the model, for signatures and caches."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """The parse of each text, in their order; a text without words has none."""
