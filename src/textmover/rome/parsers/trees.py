"""From the parse of a text to the ordered trees that the syntactic feature compares."""

from __future__ import annotations

import itertools
import unicodedata
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from textmover.types import InputError, ParsedText

NO_WORD = -1
"""Stands for the word of the imaginary root, which has none."""


class WordTree(NamedTuple):
    """An ordered tree whose nodes are words.

    Attributes:
        heads: Number of the node that each node hangs on, -1 for node 0, the imaginary root.
        words: Position in the parsed text of each node's word, ascending; :data:`NO_WORD` for node 0.
    """

    heads: Int64[np.ndarray, " n"]
    words: Int64[np.ndarray, " n"]


def tree_words(parsed: ParsedText, *, punctuation: bool = False) -> list[int]:
    """Positions of the words that are nodes of the trees.

    Punctuation marks are left out unless asked for: they have no meaning to compare, nearly every pair of sentences
    shares its full stop, and what they hang on is a convention that parsers follow badly. A mark is what is tagged
    ``PUNCT`` and has neither letter nor digit nor pictograph in it, so that an emoji counts as a word even where the
    tagger takes it for a mark.
    """
    if punctuation:
        return list(range(len(parsed)))
    return [
        place
        for place, (word, tag) in enumerate(zip(parsed.words, parsed.tags, strict=True))
        if tag != "PUNCT" or not _is_mark(word)
    ]


def dependency_trees(parsed: ParsedText, *, punctuation: bool = False, stretches: int = 1) -> list[WordTree]:
    """The text as ordered trees, one to a stretch of the text.

    Children come in the order of the text. Where among them their head stands cannot be told from an ordered tree, and
    the tree edit distance does not ask. What hangs on a word that is not a node hangs on the nearest node above it.

    Node 0 is the imaginary root ``w0`` of the paper (section 2.2), on which all sentences hang, so that a text of
    several sentences is one tree. Every tree has it, also that of a single sentence (its appendix A.1 lists words and
    does not mention it), for two reasons: texts of one and of several sentences are then compared in the same way, and
    it changes nothing. For where ``w0`` costs nothing to keep and can become no word, the distance of two trees is that
    of the forests below: any mapping of the forests can keep ``w0`` as well.

    A long text can be cut into stretches of consecutive words, of sizes that differ by 1 at most. Of a sentence that is
    cut, each stretch has the part that it holds, in the structure that its words have in the whole.

    Args:
        parsed: The text.
        punctuation: Whether punctuation marks are nodes (see :func:`tree_words`).
        stretches: Number of trees, at least 1. Some may have ``w0`` alone where there are fewer words.

    Returns:
        The trees, in the order of the text.

    Raises:
        InputError: If ``stretches`` is below 1.

    Example:
        >>> spans = ((0, 3), (4, 10), (10, 11))
        >>> parsed = ParsedText(("She", "sleeps", "."), ("she", "sleep", "."), ("PRON", "VERB", "PUNCT"), ("",) * 3,
        ...                     (1, -1, 1), ("nsubj", "root", "punct"), spans)
        >>> dependency_trees(parsed)
        [WordTree(heads=array([-1,  2,  0]), words=array([-1,  0,  1]))]

    Reference:
        Rony et al. 2022 (RoMe), sections 2.2, 3.2 and appendix A.1.
    """
    if stretches < 1:
        raise InputError(f"Expected `stretches` to be at least 1, but got {stretches}: 1 makes one tree of the text.")
    kept = tree_words(parsed, punctuation=punctuation)
    bounds = [number * len(kept) // stretches for number in range(stretches + 1)]
    return [_tree(parsed.heads, kept[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _tree(heads: tuple[int, ...], kept: list[int]) -> WordTree:
    """The tree of some words, under the imaginary root."""
    node = {place: number for number, place in enumerate(kept, start=1)}
    above = {NO_WORD: 0, **node}  # nearest node at or above each word that was met
    found = [-1]
    for place in kept:
        path, word = [], heads[place]
        while word not in above:
            path.append(word)
            word = heads[word]
        for one in path:
            above[one] = above[word]
        found.append(above[word])
    return WordTree(np.array(found, dtype=np.int64), np.array([NO_WORD, *kept], dtype=np.int64))


def _is_mark(word: str) -> bool:
    """Return whether nothing in a word is a letter, a digit or a pictograph."""
    kinds = [unicodedata.category(character) for character in word]
    return not any(kind[0] in "LN" or kind == "So" for kind in kinds)
