"""The syntactic feature of RoMe: tree edit distance over dependency trees whose nodes match by meaning (TED-SE)."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import ArrayLike
from torch import Tensor

from textmover.functional.tree_edit import tree_edit_distances, tree_edit_mapping
from textmover.rome.config import SyntacticOptions
from textmover.types import InputError, ParsedText, plural

NO_WORD = -1  # stands for the word of the imaginary root, which has none


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

    Punctuation marks are left out unless asked for: they have no meaning to compare, and parsers attach them badly. A
    mark is tagged ``PUNCT`` and has neither letter nor digit nor pictograph in it.
    """
    if punctuation:
        return list(range(len(parsed)))
    return [
        place
        for place, (word, tag) in enumerate(zip(parsed.words, parsed.tags, strict=True))
        if tag != "PUNCT" or not _is_mark(word)
    ]


def dependency_trees(parsed: ParsedText, *, punctuation: bool = False, stretches: int = 1) -> list[WordTree]:
    """The text as ordered trees, one to a stretch of consecutive words in its order, of sizes that differ by 1 at most.

    Children come in the order of the text. What hangs on a word that is not a node hangs on the nearest node above it.

    Node 0 is the imaginary root ``w0`` of the paper (section 2.2), on which all sentences hang, so that a text of
    several sentences is one tree. It changes no distance, since it costs nothing to keep and can become no word.

    Args:
        parsed: The text.
        punctuation: Whether punctuation marks are nodes (see :func:`tree_words`).
        stretches: Number of trees, at least 1. Some may have ``w0`` alone where there are fewer words.

    Raises:
        InputError: If ``stretches`` is below 1.

    Example:
        >>> spans = ((0, 3), (4, 10), (10, 11))
        >>> parsed = ParsedText(("She", "sleeps", "."), ("she", "sleep", "."), ("PRON", "VERB", "PUNCT"), ("",) * 3,
        ...                     (1, -1, 1), ("nsubj", "root", "punct"), spans)
        >>> dependency_trees(parsed)
        [WordTree(heads=array([-1,  2,  0]), words=array([-1,  0,  1]))]

    Reference: Rony et al. 2022 (RoMe), sections 2.2, 3.2 and appendix A.1.
    """
    if stretches < 1:
        raise InputError(f"Expected `stretches` to be at least 1, but got {stretches}: 1 makes one tree of the text.")
    kept = tree_words(parsed, punctuation=punctuation)
    bounds = [number * len(kept) // stretches for number in range(stretches + 1)]
    return [_tree(parsed.heads, kept[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _tree(heads: tuple[int, ...], kept: list[int]) -> WordTree:
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
    kinds = [unicodedata.category(character) for character in word]
    return not any(kind[0] in "LN" or kind == "So" for kind in kinds)


FORBIDDEN = 2.0  # cost of turning the imaginary root into a word: that of deleting the one and inserting the other


class SyntacticSimilarity(NamedTuple):
    """TED-SE of ``B`` pairs of texts, float64 and bool tensors ``[B]`` on the CPU.

    Attributes:
        similarity: ``1 - distance / largest``, from 0 (no two words match) to 1 (same trees of matching words).
        distance: Cost of the edits, from 0 to ``largest``.
        largest: What it is for trees of these shapes where no two words match, at most the number of words of both.
        empty: Where a text has no words. Then all three numbers are 0.
        long: Where a text has more words than are compared as a whole.
    """

    similarity: Tensor
    distance: Tensor
    largest: Tensor
    empty: Tensor
    long: Tensor


class WordEdit(NamedTuple):
    """Edit of a word on the way from the reference to the hypothesis.

    Attributes:
        reference: Position of the word in the reference; ``None`` where one is inserted.
        hypothesis: Position of the word in the hypothesis; ``None`` where one is deleted.
        cost: 0 where the words match, 1 for one that is deleted or inserted, ``options.change`` for one that is changed
            into another, less on a ramp.
    """

    reference: int | None
    hypothesis: int | None
    cost: float


class _Stretch(NamedTuple):
    reference: WordTree
    hypothesis: WordTree
    change: np.ndarray


DEFAULT = SyntacticOptions()


def syntactic_similarity(
    references: Sequence[ParsedText],
    hypotheses: Sequence[ParsedText],
    cosines: Tensor | np.ndarray | Sequence[ArrayLike | Tensor],
    options: SyntacticOptions = DEFAULT,
) -> SyntacticSimilarity:
    r"""Similarity, without a gradient, of the dependency trees of ``B`` pairs of texts, words compared by meaning.

    .. math:: F = 1 - \frac{\mathrm{TED}(R, H)}{\mathrm{TED}_{\max}(R, H)}

    TED counts the words that are deleted, inserted, or changed into one that does not match, each at the cost of 1
    unless ``options.change`` says otherwise. Two words match where the cosine of their vectors exceeds ``theta``, or
    they have the same lemma. :math:`\mathrm{TED}_{\max}` is the distance that the trees have if no two words match. So
    ``F`` is 1 for trees of the same shape whose words all match, and 0 where no two words match. Reference and
    hypothesis may change places.

    Where a text has more than ``most_nodes`` words, both are cut into the same number of stretches of ``most_nodes``
    words at most (:func:`dependency_trees`), which are compared in order, and their distances are added up. Words that
    moved to another stretch count as deleted and inserted.

    Args:
        references: Parses of the references.
        hypotheses: Parses of the hypotheses.
        cosines: Cosines of all words (those that are no nodes among them), a row to a word of the reference and a
            column to one of the hypothesis: ``[m, n]`` for each pair, or one tensor or array ``[B, M, N]`` that is
            padded behind the words, or ends before them where all further cosines are 0. Of type bool they say which
            words match, and ``theta`` is not used.
        options: When words match, and how long texts may be.

    Raises:
        InputError: If numbers or shapes do not fit, an option is out of range, a cosine is NaN, or numba is not
            installed.

    Example:
        >>> one = ParsedText(("We", "ran"), ("we", "run"), ("PRON", "VERB"), ("", ""), (1, -1), ("nsubj", "root"),
        ...                  ((0, 2), (3, 6)))
        >>> other = ParsedText(("They", "ran"), ("they", "run"), ("PRON", "VERB"), ("", ""), (1, -1),
        ...                    ("nsubj", "root"), ((0, 4), (5, 8)))
        >>> syntactic_similarity([one, one], [one, other], torch.tensor([[[0.4, 0.1], [0.1, 0.9]]] * 2)).similarity
        tensor([1.0000, 0.5000], dtype=torch.float64)

    Reference: Rony et al. 2022 (RoMe), section 3.2; Zhang and Shasha 1989.
    """
    blocks = _blocks(cosines, references, hypotheses)
    pieces: list[_Stretch] = []
    owners: list[int] = []  # pair of each piece
    empty, long = [], []
    for pair, (reference, hypothesis, block) in enumerate(zip(references, hypotheses, blocks, strict=True)):
        sizes, parts = _stretches(reference, hypothesis, block, options)
        empty.append(min(sizes) == 0)
        long.append(max(sizes) > options.most_nodes)
        if not empty[-1]:
            pieces += parts
            owners += [pair] * len(parts)
    ones, others = [piece.reference.heads for piece in pieces], [piece.hypothesis.heads for piece in pieces]
    changes = [piece.change for piece in pieces]
    unmatched = [_unmatched(m, n, options.change) for m, n in (one.shape for one in changes)]
    found = tree_edit_distances(ones * 2, others * 2, changes + unmatched)
    sums = np.zeros((2, len(blocks)))
    for total, values in zip(sums, found.reshape(2, -1), strict=True):
        np.add.at(total, owners, values)
    distance, largest = torch.from_numpy(sums)
    similarity = 1 - distance / largest.masked_fill(largest == 0, 1.0)
    flags = [torch.tensor(flag, dtype=torch.bool) for flag in (empty, long)]
    return SyntacticSimilarity(similarity.masked_fill(flags[0], 0.0), distance, largest, *flags)


def syntactic_edits(
    reference: ParsedText, hypothesis: ParsedText, cosines: ArrayLike | Tensor, options: SyntacticOptions = DEFAULT
) -> list[WordEdit]:
    """Edits of each word in a cheapest way from the reference's tree to the hypothesis', for plots and tables.

    Args:
        reference: Parse of the reference.
        hypothesis: Parse of the hypothesis.
        cosines: Cosines of their words ``[m, n]``, or which of them match, as for :func:`syntactic_similarity`.
        options: When words match, and how long texts may be.

    Returns:
        An edit for each word that is a node: those of the reference in the order of the text, then what is inserted.
        Their costs add up to the distance; where both texts have words this is the one of the similarity.

    Raises:
        InputError: As :func:`syntactic_similarity`.

    Example:
        >>> one = ParsedText(("We", "ran"), ("we", "run"), ("PRON", "VERB"), ("", ""), (1, -1), ("nsubj", "root"),
        ...                  ((0, 2), (3, 6)))
        >>> other = ParsedText(("Run",), ("run",), ("VERB",), ("",), (-1,), ("root",), ((0, 3),))
        >>> syntactic_edits(one, other, [[0.1], [0.9]])
        [WordEdit(reference=0, hypothesis=None, cost=1.0), WordEdit(reference=1, hypothesis=0, cost=0.0)]
    """
    (block,) = _blocks([cosines], [reference], [hypothesis])
    _, pieces = _stretches(reference, hypothesis, block, options)
    kept: list[WordEdit] = []
    inserted: list[WordEdit] = []
    for one, other, change in pieces:
        pairs = dict(tree_edit_mapping(one.heads, other.heads, change).pairs.tolist())
        for node in range(1, len(one.words)):
            partner = pairs.get(node)
            word = None if partner is None else int(other.words[partner])
            cost = 1.0 if partner is None else float(change[node, partner])
            kept.append(WordEdit(int(one.words[node]), word, cost))
        new = set(range(1, len(other.words))) - set(pairs.values())
        inserted += [WordEdit(None, int(other.words[node]), 1.0) for node in sorted(new)]
    return kept + inserted


def _blocks(
    cosines: Tensor | np.ndarray | Sequence[ArrayLike | Tensor],
    references: Sequence[ParsedText],
    hypotheses: Sequence[ParsedText],
) -> list[np.ndarray]:
    """The cosines of each pair, ``[m, n]`` or less where further ones are 0, without copies of long texts' matrices."""
    if not len(references) == len(hypotheses) == len(cosines):
        raise InputError(
            f"Expected a hypothesis and cosines to each reference, but got {plural(len(references), 'reference')}, "
            f"{plural(len(hypotheses), 'hypothesis', 'hypotheses')} and {plural(len(cosines), 'block')} of cosines."
        )
    padded = isinstance(cosines, Tensor | np.ndarray)
    blocks = []
    each = _array(cosines) if isinstance(cosines, Tensor) else cosines
    for reference, hypothesis, given in zip(references, hypotheses, each, strict=True):
        block, shape = _array(given), (len(reference), len(hypothesis))
        if padded and block.ndim == 2:
            blocks.append(block[: shape[0], : shape[1]])
            continue
        if block.shape != shape and (block.size or shape[0] * shape[1]):
            raise InputError(
                f"Expected the cosines of {shape[0]} by {shape[1]} words, but got an array of shape "
                f"{list(block.shape)}: give a row to each word of the reference and a column to each of the hypothesis."
            )
        blocks.append(block.reshape(shape))
    return blocks


def _array(values: ArrayLike | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # which knows no bfloat16
    return np.asarray(values)


def _stretches(
    reference: ParsedText, hypothesis: ParsedText, block: np.ndarray, options: SyntacticOptions
) -> tuple[list[int], list[_Stretch]]:
    texts = (reference, hypothesis)
    sizes = [len(tree_words(text, punctuation=options.punctuation)) for text in texts]
    number = max(1, -(-max(sizes) // options.most_nodes))
    trees = [dependency_trees(text, punctuation=options.punctuation, stretches=number) for text in texts]
    lemmas = _numbers(*([lemma.casefold() for lemma in text.lemmas] for text in texts))
    relations = _numbers(*([one.partition(":")[0] for one in text.relations] for text in texts))
    stretches = []
    for one, other in zip(*trees, strict=True):
        rows, columns = one.words[1:], other.words[1:]
        cost = options.change * _cost(_part(block, rows, columns), options)
        cost[lemmas[0][rows, None] == lemmas[1][columns]] = 0.0
        if options.relations:
            cost[relations[0][rows, None] != relations[1][columns]] = options.change
        change = _unmatched(len(one.words), len(other.words), options.change)
        change[1:, 1:] = cost
        stretches.append(_Stretch(one, other, change))
    return sizes, stretches


def _part(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Cosines of some words with some others; 0 beyond the block."""
    found = np.zeros((len(rows), len(columns)), dtype=block.dtype)
    row, column = rows < block.shape[0], columns < block.shape[1]
    found[np.ix_(row, column)] = block[np.ix_(rows[row], columns[column])]
    return found


def _cost(cosines: np.ndarray, options: SyntacticOptions) -> np.ndarray:
    """Cost of changing words into one another, as a share of the largest, from cosines or from whether they match."""
    if cosines.dtype == bool:
        return np.where(cosines, 0.0, 1.0)
    if np.isnan(cosines).any():
        raise InputError("Expected cosines, but got NaN: a word without a vector has the cosine 0.")
    if options.ramp == 0:
        return np.where(cosines > options.theta, 0.0, 1.0)
    return np.clip((options.theta - cosines) / options.ramp + 0.5, 0.0, 1.0, dtype=np.float64)


def _unmatched(m: int, n: int, cost: float) -> np.ndarray:
    """Costs of changes between two trees none of whose words match: only their imaginary roots do."""
    change = np.full((m, n), cost)
    change[0], change[:, 0] = FORBIDDEN, FORBIDDEN
    change[0, 0] = 0.0
    return change


def _numbers(first: list[str], second: list[str]) -> tuple[np.ndarray, np.ndarray]:
    _, numbers = np.unique(np.array([*first, *second], dtype=object), return_inverse=True)
    return numbers[: len(first)], numbers[len(first) :]
