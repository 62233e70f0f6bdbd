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

NO_WORD = -1  # position of the word of the artificial root, which has none


class WordTree(NamedTuple):
    """An ordered tree whose nodes are words.

    Attributes:
        heads: Index of each node's parent, -1 for node 0, the artificial root.
        words: Index of each node's word in the parsed text, ascending; :data:`NO_WORD` for node 0.
    """

    heads: Int64[np.ndarray, " n"]
    words: Int64[np.ndarray, " n"]


def tree_words(parsed: ParsedText, *, punctuation: bool = False) -> list[int]:
    """Return the indices of the words that are nodes of the trees.

    Punctuation marks are excluded by default: they have no meaning to compare, and parsers attach them badly. A mark is
    tagged ``PUNCT`` and contains no letter, number or pictograph.
    """
    if punctuation:
        return list(range(len(parsed)))
    return [
        index
        for index, (word, tag) in enumerate(zip(parsed.words, parsed.tags, strict=True))
        if tag != "PUNCT" or not _is_mark(word)
    ]


def dependency_trees(parsed: ParsedText, *, punctuation: bool = False, stretches: int = 1) -> list[WordTree]:
    """Convert a text to ordered trees, one for each stretch of consecutive words.

    Stretch lengths differ by at most 1. Children are in text order. If the head of a word is not a node, the parent is
    the nearest ancestor that is one.

    Node 0 is the artificial root ``w0`` of the paper (section 2.2), the parent of all sentences, so that a text of
    several sentences is one tree. It changes no distance: keeping it is free, and it cannot be changed into a word.

    Args:
        parsed: Parse of the text.
        punctuation: Whether punctuation marks are nodes (see :func:`tree_words`).
        stretches: Number of trees, at least 1. If there are fewer words, some trees consist of ``w0`` alone.

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
    nodes = tree_words(parsed, punctuation=punctuation)
    bounds = [number * len(nodes) // stretches for number in range(stretches + 1)]
    return [_tree(parsed.heads, nodes[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _tree(heads: tuple[int, ...], nodes: list[int]) -> WordTree:
    numbers = {index: number for number, index in enumerate(nodes, start=1)}
    above = {NO_WORD: 0, **numbers}  # nearest node at or above each visited word
    parents = [-1]
    for index in nodes:
        path, word = [], heads[index]
        while word not in above:
            path.append(word)
            word = heads[word]
        for skipped in path:
            above[skipped] = above[word]
        parents.append(above[word])
    return WordTree(np.array(parents, dtype=np.int64), np.array([NO_WORD, *nodes], dtype=np.int64))


def _is_mark(word: str) -> bool:
    kinds = [unicodedata.category(character) for character in word]
    return not any(kind[0] in "LN" or kind == "So" for kind in kinds)


ROOT_CHANGE = 2.0  # cost of changing the artificial root into a word: as much as deletion plus insertion


class SyntacticSimilarity(NamedTuple):
    """TED-SE of ``B`` pairs of texts, float64 and bool tensors ``[B]`` on the CPU.

    Attributes:
        similarity: ``1 - distance / largest``, from 0 (no two words match) to 1 (same trees of matching words).
        distance: Cost of the edits, from 0 to ``largest``.
        largest: Distance of trees of these shapes if no words match, at most the total number of words.
        empty: True if a text has no words. Then all three numbers are 0.
        long: True if a text has more than ``options.most_nodes`` words.
    """

    similarity: Tensor
    distance: Tensor
    largest: Tensor
    empty: Tensor
    long: Tensor


class WordEdit(NamedTuple):
    """Edit of a word that turns the reference into the hypothesis.

    Attributes:
        reference: Index of the word in the reference; ``None`` if it is inserted.
        hypothesis: Index of the word in the hypothesis; ``None`` if it is deleted.
        cost: 0 for matching words, 1 for a deletion or insertion, ``options.change`` for a change, less on a ramp.
    """

    reference: int | None
    hypothesis: int | None
    cost: float


class _TreePair(NamedTuple):
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
    r"""Compute the similarity of dependency trees whose words match by meaning, for ``B`` pairs and without gradients.

    .. math:: F = 1 - \frac{\mathrm{TED}(R, H)}{\mathrm{TED}_{\max}(R, H)}

    TED is the least total cost of deleting and inserting words (1 each) and changing words into ones that do not match
    (``options.change``). Two words match if the cosine of their vectors exceeds ``theta`` or they have the same lemma,
    and with ``options.relations`` only if they have the same relation. :math:`\mathrm{TED}_{\max}` is the distance of
    the trees if no words match. ``F`` is 1 for equal trees of matching words, 0 if no words match, and symmetric.

    If a text has more than ``most_nodes`` words, both are split into the same number of stretches of at most
    ``most_nodes`` words (:func:`dependency_trees`). Stretches are compared in order and their distances are summed.
    Words that moved to another stretch count as deleted and inserted.

    Args:
        references: Parses of the references.
        hypotheses: Parses of the hypotheses.
        cosines: Cosines of all words, including those that are not nodes. Rows are words of the reference, columns
            words of the hypothesis: ``[m, n]`` for each pair, or one tensor or array ``[B, M, N]``, padded after the
            last word, or cut off if all further cosines are 0. Bool values state which words match, without ``theta``.
        options: When words match, and how long texts may be.

    Raises:
        InputError: If numbers or shapes do not fit, a cosine is NaN, or numba is not installed.

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
    pieces: list[_TreePair] = []
    owners: list[int] = []  # pair of each piece
    empty, long = [], []
    for pair, (reference, hypothesis, block) in enumerate(zip(references, hypotheses, blocks, strict=True)):
        sizes, parts = _tree_pairs(reference, hypothesis, block, options)
        empty.append(min(sizes) == 0)
        long.append(max(sizes) > options.most_nodes)
        if not empty[-1]:
            pieces += parts
            owners += [pair] * len(parts)
    first, second = [piece.reference.heads for piece in pieces], [piece.hypothesis.heads for piece in pieces]
    changes = [piece.change for piece in pieces]
    unmatched = [_mismatch_costs(m, n, options.change) for m, n in (one.shape for one in changes)]
    distances = tree_edit_distances(first * 2, second * 2, changes + unmatched)
    sums = np.zeros((2, len(blocks)))
    for total, values in zip(sums, distances.reshape(2, -1), strict=True):
        np.add.at(total, owners, values)
    distance, largest = torch.from_numpy(sums)
    similarity = 1 - distance / largest.masked_fill(largest == 0, 1.0)
    flags = [torch.tensor(flag, dtype=torch.bool) for flag in (empty, long)]
    return SyntacticSimilarity(similarity.masked_fill(flags[0], 0.0), distance, largest, *flags)


def syntactic_edits(
    reference: ParsedText, hypothesis: ParsedText, cosines: ArrayLike | Tensor, options: SyntacticOptions = DEFAULT
) -> list[WordEdit]:
    """Return cheapest edits that turn the tree of the reference into that of the hypothesis, for plots and tables.

    Args:
        reference: Parse of the reference.
        hypothesis: Parse of the hypothesis.
        cosines: Cosines of their words ``[m, n]``, or bool, as for :func:`syntactic_similarity`.
        options: When words match, and how long texts may be.

    Returns:
        An edit for each node: words of the reference in text order, then insertions. If both texts have words, the
        costs sum to the distance of :func:`syntactic_similarity`.

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
    _, pieces = _tree_pairs(reference, hypothesis, block, options)
    edits: list[WordEdit] = []
    inserted: list[WordEdit] = []
    for first, second, change in pieces:
        pairs = dict(tree_edit_mapping(first.heads, second.heads, change).pairs.tolist())
        for node in range(1, len(first.words)):
            partner = pairs.get(node)
            word = None if partner is None else int(second.words[partner])
            cost = 1.0 if partner is None else float(change[node, partner])
            edits.append(WordEdit(int(first.words[node]), word, cost))
        new = set(range(1, len(second.words))) - set(pairs.values())
        inserted += [WordEdit(None, int(second.words[node]), 1.0) for node in sorted(new)]
    return edits + inserted


def _blocks(
    cosines: Tensor | np.ndarray | Sequence[ArrayLike | Tensor],
    references: Sequence[ParsedText],
    hypotheses: Sequence[ParsedText],
) -> list[np.ndarray]:
    """Return the cosines of each pair, ``[m, n]`` or less if further ones are 0, as views if possible."""
    if not len(references) == len(hypotheses) == len(cosines):
        raise InputError(
            f"Expected a hypothesis and cosines to each reference, but got {plural(len(references), 'reference')}, "
            f"{plural(len(hypotheses), 'hypothesis', 'hypotheses')} and {plural(len(cosines), 'block')} of cosines."
        )
    padded = isinstance(cosines, Tensor | np.ndarray)
    blocks = []
    each = _to_numpy(cosines) if isinstance(cosines, Tensor) else cosines
    for reference, hypothesis, values in zip(references, hypotheses, each, strict=True):
        block, shape = _to_numpy(values), (len(reference), len(hypothesis))
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


def _to_numpy(values: ArrayLike | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # NumPy has no bfloat16
    return np.asarray(values)


def _tree_pairs(
    reference: ParsedText, hypothesis: ParsedText, block: np.ndarray, options: SyntacticOptions
) -> tuple[list[int], list[_TreePair]]:
    texts = (reference, hypothesis)
    sizes = [len(tree_words(text, punctuation=options.punctuation)) for text in texts]
    number = max(1, -(-max(sizes) // options.most_nodes))
    trees = [dependency_trees(text, punctuation=options.punctuation, stretches=number) for text in texts]
    lemmas = _integer_codes(*([lemma.casefold() for lemma in text.lemmas] for text in texts))
    relations = _integer_codes(*([one.partition(":")[0] for one in text.relations] for text in texts))
    stretches = []
    for first, second in zip(*trees, strict=True):
        rows, columns = first.words[1:], second.words[1:]
        cost = options.change * _change_fraction(_select(block, rows, columns), options)
        cost[lemmas[0][rows, None] == lemmas[1][columns]] = 0.0
        if options.relations:
            cost[relations[0][rows, None] != relations[1][columns]] = options.change
        change = _mismatch_costs(len(first.words), len(second.words), options.change)
        change[1:, 1:] = cost
        stretches.append(_TreePair(first, second, change))
    return sizes, stretches


def _select(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the given rows and columns of a block, 0 beyond its edge."""
    selection = np.zeros((len(rows), len(columns)), dtype=block.dtype)
    row, column = rows < block.shape[0], columns < block.shape[1]
    selection[np.ix_(row, column)] = block[np.ix_(rows[row], columns[column])]
    return selection


def _change_fraction(cosines: np.ndarray, options: SyntacticOptions) -> np.ndarray:
    """Return the cost of changing words as a fraction of ``options.change``, from cosines or bool matches."""
    if cosines.dtype == bool:
        return np.where(cosines, 0.0, 1.0)
    if np.isnan(cosines).any():
        raise InputError("Expected cosines, but got NaN: a word without a vector has the cosine 0.")
    if options.ramp == 0:
        return np.where(cosines > options.theta, 0.0, 1.0)
    return np.clip((options.theta - cosines) / options.ramp + 0.5, 0.0, 1.0, dtype=np.float64)


def _mismatch_costs(m: int, n: int, cost: float) -> np.ndarray:
    """Return the costs of changes between trees of ``m`` and ``n`` nodes if only their artificial roots match."""
    change = np.full((m, n), cost)
    change[0], change[:, 0] = ROOT_CHANGE, ROOT_CHANGE
    change[0, 0] = 0.0
    return change


def _integer_codes(first: list[str], second: list[str]) -> tuple[np.ndarray, np.ndarray]:
    _, numbers = np.unique(np.array([*first, *second], dtype=object), return_inverse=True)
    return numbers[: len(first)], numbers[len(first) :]
