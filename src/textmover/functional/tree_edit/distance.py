"""Tree edit distance of Zhang and Shasha between ordered trees, with custom costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float64, Int64

from textmover.types import InputError, needs_extra

Heads: TypeAlias = Sequence[int] | np.ndarray
"""Index of each node's head, -1 for the root."""

Costs: TypeAlias = int | float | Sequence[Any] | np.ndarray
"""A number, an array, or nested sequences of numbers."""

SHARES = 8
"""Chunks of a batch per thread, to balance the load of trees of different sizes."""

WORTH_A_THREAD = 16
"""Minimum number of pairs per thread."""


class OrderedTree(NamedTuple):
    """Tree of ``n`` nodes in postorder.

    Attributes:
        order: The nodes in postorder, children in the order of their indices.
        leftmost: Position in ``order`` of the leftmost leaf below the node at each position.
        keyroots: Positions of the root and of all nodes with a left sibling, ascending.
    """

    order: Int64[np.ndarray, " n"]
    leftmost: Int64[np.ndarray, " n"]
    keyroots: Int64[np.ndarray, " k"]


class TreeMapping(NamedTuple):
    """Minimum-cost mapping from one tree to another.

    Attributes:
        distance: Cost of the mapping.
        pairs: Pairs of a node of the first tree and the node of the second that it is changed into, one per row,
            ascending in the first. All other nodes are deleted or inserted.
    """

    distance: float
    pairs: Int64[np.ndarray, "k 2"]


def ordered_tree(heads: Heads) -> OrderedTree:
    """Return postorder, leftmost leaves and key roots of a tree.

    Reference: Zhang and Shasha 1989, section 3.
    """
    nodes = _heads(heads, "heads")
    *tree, work = _kernels().postorder(nodes, False)
    if work < 0:
        raise _not_a_tree("heads", nodes)
    return OrderedTree(*tree)


def tree_edit_distance(
    first: Heads, second: Heads, change: Costs, *, delete: Costs = 1.0, insert: Costs = 1.0
) -> float:
    r"""Compute the minimum cost of edits that turn one ordered tree into another.

    .. math:: \min_{M} \sum_{(i, j) \in M} c_{ij} + \sum_{i \notin M} d_i + \sum_{j \notin M} e_j

    over all one-to-one mappings ``M`` of nodes that preserve ancestors and the order from left to right. A node is
    changed into another (:math:`c_{ij}`), deleted, so that its children become children of its parent (:math:`d_i`), or
    inserted (:math:`e_j`). The distance is a metric if the costs are. Children are ordered by their indices; the index
    of their parent does not matter.

    Args:
        first: Heads of the ``m`` nodes of the first tree, -1 for its root (see :func:`ordered_tree`).
        second: Heads of the ``n`` nodes of the second.
        change: Cost of changing node ``i`` of the first into node ``j`` of the second, at least 0, ``[m, n]``;
            infinite if the change is forbidden.
        delete: Cost of deleting a node, at least 0 and finite: one number, or ``[m]``.
        insert: Cost of inserting a node, likewise: one number, or ``[n]``.

    Returns:
        The distance, from 0 to the sum of all deletions and insertions, computed in float64. If one tree is empty, it
        is the sum of the other's.

    Raises:
        InputError: If a side is not a tree, a cost is negative or NaN, shapes do not fit, or numba is not installed.

    Example:
        >>> chain, star = [-1, 0, 1], [-1, 0, 0]
        >>> same = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> tree_edit_distance(chain, chain, same), tree_edit_distance(chain, star, same)
        (0.0, 2.0)

    Reference:
        Zhang and Shasha 1989, "Simple fast algorithms for the editing distance between trees and related problems".
    """
    return float(tree_edit_distances([first], [second], [change], delete=[delete], insert=[insert])[0])


def tree_edit_mapping(
    first: Heads, second: Heads, change: Costs, *, delete: Costs = 1.0, insert: Costs = 1.0
) -> TreeMapping:
    """Return a minimum-cost mapping of nodes.

    Ties are broken from the end of the postorder: changes before deletions before insertions. The result is
    deterministic.

    Args:
        first: Heads of the ``m`` nodes of the first tree, as for :func:`tree_edit_distance`.
        second: Heads of the ``n`` nodes of the second.
        change: Cost of each change, ``[m, n]``.
        delete: Cost of each deletion, a number or ``[m]``.
        insert: Cost of each insertion, a number or ``[n]``.

    Returns:
        The distance, and the pairs of nodes that are kept or changed.

    Raises:
        InputError: As :func:`tree_edit_distance`.

    Example:
        >>> chain, star = [-1, 0, 1], [-1, 0, 0]
        >>> tree_edit_mapping(chain, star, [[0, 1, 1], [1, 0, 1], [1, 1, 0]]).pairs.tolist()
        [[0, 0], [2, 2]]
    """
    nodes = [_heads(first, "first"), _heads(second, "second")]
    costs = _costs(change, delete, insert, len(nodes[0]), len(nodes[1]))
    _check_values(*costs)
    distance, pairs = _kernels().mapping(*nodes, *costs)
    if distance < 0:
        raise _not_a_tree("first` and `second", *nodes)
    return TreeMapping(distance, pairs[np.argsort(pairs[:, 0])])


def tree_edit_distances(
    first: Sequence[Heads],
    second: Sequence[Heads],
    change: Iterable[Costs],
    *,
    delete: Costs = 1.0,
    insert: Costs = 1.0,
) -> Float64[np.ndarray, " B"]:
    """Compute the tree edit distances of ``B`` pairs, with torch's number of threads.

    Args:
        first: Heads of the first tree of each pair, as for :func:`tree_edit_distance`.
        second: Heads of the second trees.
        change: Costs of changes of each pair, ``[m, n]`` each.
        delete: Cost of deletions: a number for all, or a number or ``[m]`` for each pair.
        insert: Cost of insertions, likewise.

    Returns:
        The distances; each is identical to that of :func:`tree_edit_distance`.

    Raises:
        InputError: As :func:`tree_edit_distance`, or if the numbers of trees and costs differ.

    Example:
        >>> tree_edit_distances([[-1], [-1, 0]], [[-1], [-1]], [[[0.5]], [[0.0], [1.0]]])
        array([0.5, 1. ])
    """
    batch = len(first)
    changes = list(change)
    deletes, inserts = ([one] * batch if isinstance(one, int | float) else list(one) for one in (delete, insert))
    lengths = {"first": batch, "second": len(second), "change": len(changes), "delete": len(deletes)}
    lengths["insert"] = len(inserts)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{number} of `{name}`" for name, number in lengths.items())
        raise InputError(f"Expected as many trees and costs as pairs, but got {counts}.")
    kernels = _kernels()
    if not batch:
        return np.zeros(0)
    firsts, seconds = [_heads(one, "first") for one in first], [_heads(one, "second") for one in second]
    costs = [
        _costs(block, cost, other_cost, len(one), len(other))
        for block, cost, other_cost, one, other in zip(changes, deletes, inserts, firsts, seconds, strict=True)
    ]
    ends1, ends2, ends = (
        np.array([0, *itertools.accumulate(sizes)])
        for sizes in (map(len, firsts), map(len, seconds), (block.size for block, _, _ in costs))
    )
    changed, deleted, inserted = (np.concatenate([cost[part].ravel() for cost in costs]) for part in range(3))
    _check_values(changed, deleted, inserted)
    flat = (np.concatenate(firsts), ends1, np.concatenate(seconds), ends2, changed, ends, deleted, inserted)
    values = np.empty(batch)

    def work(start: int, stop: int) -> None:
        kernels.distances(start, stop, *flat, values)

    threads = min(torch.get_num_threads(), batch // WORTH_A_THREAD)
    if threads <= 1:
        work(0, batch)
    else:
        bounds = np.linspace(0, batch, min(batch, SHARES * threads) + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, bounds[:-1], bounds[1:]))
    if (wrong := np.flatnonzero(values < 0)).size:
        raise _not_a_tree("first` and `second", firsts[wrong[0]], seconds[wrong[0]])
    return values


def _kernels() -> ModuleType:
    """Import and return the compiled loops."""
    with needs_extra("rome", "numba for the tree edit distance"):
        import numba  # noqa: F401
    from textmover.functional.tree_edit import compiled_loops

    return compiled_loops


def _heads(heads: Heads, name: str) -> np.ndarray:
    array = np.asarray(heads)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"Expected `{name}` to be the number of each node's head, but got {array.dtype} {list(array.shape)}: give "
            "whole numbers, and -1 for the root."
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _costs(change: Costs, delete: Costs, insert: Costs, m: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return costs of changes ``[m, n]``, of deletions ``[m]`` and of insertions ``[n]``."""
    block = np.ascontiguousarray(change, dtype=np.float64)
    if block.shape != (m, n):
        if block.size or m * n:
            raise InputError(
                f"Expected `change` to have shape {[m, n]}, a row to a node of the first tree and a column to a node "
                f"of the second, but got {list(block.shape)}."
            )
        block = block.reshape(m, n)
    sides = []
    for name, cost, size in (("delete", delete, m), ("insert", insert, n)):
        side = np.ascontiguousarray(cost, dtype=np.float64)
        if np.ndim(cost) == 0:
            side = np.full(size, side)
        elif side.shape != (size,):
            raise InputError(
                f"Expected `{name}` to be one cost or {size}, one to a node, but got an array of shape "
                f"{list(side.shape)}."
            )
        sides.append(side)
    return block, sides[0], sides[1]


def _check_values(change: np.ndarray, delete: np.ndarray, insert: np.ndarray) -> None:
    """Raise an error unless all costs are at least 0, and those of deletions and insertions finite."""
    for name, costs in (("change", change), ("delete", delete), ("insert", insert)):
        wrong = ~(costs >= 0)
        if name != "change":
            wrong |= np.isinf(costs)
        if wrong.any():
            raise InputError(f"Expected `{name}` to be costs from 0 up, but got {costs[wrong][0]}.")


def _not_a_tree(name: str, *heads: np.ndarray) -> InputError:
    given = " and ".join(str(one.tolist()) for one in heads)
    return InputError(
        f"Expected `{name}` to be trees with one root, whose head is -1, but got {given}: join several trees under a "
        "root of their own."
    )
