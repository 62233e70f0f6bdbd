"""Compiled inner loops of the tree edit distance. Importing this module compiles them or loads them from a cache.

Each function is compiled for one signature and releases the GIL while it runs. The compiled code is cached next to the
source or in the user's cache, so that only the first import is slow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import numba
import numpy as np

MALFORMED = -1
"""Work or distance returned for heads that do not form a tree."""

Array: TypeAlias = np.ndarray
Arranged: TypeAlias = tuple[Array, Array, Array, Array, Array, Array, int]
Solved: TypeAlias = tuple[Array, Array, Array, Array, Array, Array, Array, Array, Array, float]


def compiled(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature, and cache it if a cache folder is writable."""

    def compile_(function: Callable[..., Any]) -> Any:
        plain = inspect.unwrap(function)  # shape checkers wrap functions and cannot be compiled
        try:
            return numba.njit(signature, nogil=True, cache=True)(plain)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            # Neither the package folder nor the user's cache is writable: compile in each process.
            return numba.njit(signature, nogil=True)(plain)

    return compile_


@compiled("Tuple((i8[::1], i8[::1], i8[::1], i8))(i8[::1], b1)")
def postorder(heads: Array, mirrored: bool) -> tuple[Array, Array, Array, int]:
    """Return nodes in postorder, position of the leftmost leaf below each, key roots, and summed sizes below key roots.

    Children are in the order of their indices, reversed if ``mirrored``. The sum is :data:`MALFORMED` if the heads do
    not form a tree.
    """
    n = len(heads)
    order, leftmost, keyroots = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    child, sibling, place = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    root = -1
    for step in range(n):
        node = step if mirrored else n - 1 - step  # each node is inserted before its siblings from earlier steps
        head = heads[node]
        if head == -1 and root == -1:
            root = node
        elif 0 <= head < n:
            sibling[node] = child[head]
            child[head] = node
        else:
            return order, leftmost, keyroots, MALFORMED
    count, node = 0, root
    while node != -1:
        while child[node] != -1:
            node = child[node]
        while True:  # go up until there is a sibling
            order[count], place[node] = node, count
            leftmost[count] = count if child[node] == -1 else leftmost[place[child[node]]]
            count += 1
            if node == root or sibling[node] != -1:
                node = -1 if node == root else sibling[node]
                break
            node = heads[node]
    if count < n:
        return order, leftmost, keyroots, MALFORMED
    # The highest of the nodes with the same leftmost leaf is a key root; `place` now marks visited leaves.
    place[:] = -1
    count_of_keyroots = work = 0
    for last in range(n - 1, -1, -1):
        if place[leftmost[last]] == -1:
            place[leftmost[last]] = last
            keyroots[n - 1 - count_of_keyroots] = last
            count_of_keyroots += 1
            work += last - leftmost[last] + 1
    return order, leftmost, keyroots[n - count_of_keyroots :], work


@compiled("void(i8, i8, i8[::1], i8[::1], f8[:, ::1], f8[::1], f8[::1], f8[:, ::1], f8[:, ::1])")
def forests(
    i: int,
    j: int,
    left1: Array,
    left2: Array,
    change: Array,
    delete: Array,
    insert: Array,
    between: Array,
    table: Array,
) -> None:
    """Write the distances of all prefixes of the forests below positions ``i`` and ``j`` into ``table``.

    If two prefixes are trees, their distance is also written into ``between``.
    """
    top, start = left1[i], left2[j]
    table[0, 0] = 0.0
    for x in range(top, i + 1):
        table[x - top + 1, 0] = table[x - top, 0] + delete[x]
    for y in range(start, j + 1):
        table[0, y - start + 1] = table[0, y - start] + insert[y]
    for x in range(top, i + 1):
        a = x - top + 1
        for y in range(start, j + 1):
            b = y - start + 1
            best = min(table[a - 1, b] + delete[x], table[a, b - 1] + insert[y])
            if left1[x] == top and left2[y] == start:
                best = min(best, table[a - 1, b - 1] + change[x, y])
                between[x, y] = best
            else:
                best = min(best, table[left1[x] - top, left2[y] - start] + between[x, y])
            table[a, b] = best


@compiled("Tuple((i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8))(i8[::1], i8[::1])")
def oriented(first: Array, second: Array) -> Arranged:
    """Return both trees in postorder, mirrored if that takes less work, and that work.

    Mirroring both trees does not change the distance. The work depends on whether subtrees are on the left or on the
    right: for two combs of ``n`` nodes, it is ``n^4`` steps on the worse and ``n^2`` on the better side.
    """
    order1, left1, keys1, work1 = postorder(first, False)
    order2, left2, keys2, work2 = postorder(second, False)
    if work1 < 0 or work2 < 0:
        return order1, left1, keys1, order2, left2, keys2, MALFORMED
    other1, right1, roots1, mirrored1 = postorder(first, True)
    other2, right2, roots2, mirrored2 = postorder(second, True)
    # Floats, since the products could overflow integers.
    if float(mirrored1) * float(mirrored2) < float(work1) * float(work2):
        return other1, right1, roots1, other2, right2, roots2, mirrored1
    return order1, left1, keys1, order2, left2, keys2, work1


@compiled("Tuple((f8[:, ::1], f8[::1], f8[::1]))(i8[::1], i8[::1], f8[:, ::1], f8[::1], f8[::1])")
def reordered(order1: Array, order2: Array, change: Array, delete: Array, insert: Array) -> tuple[Array, Array, Array]:
    """Return the costs in the postorder of the trees."""
    m, n = change.shape
    changed, deleted, inserted = np.empty((m, n)), np.empty(m), np.empty(n)
    for x in range(m):
        deleted[x] = delete[order1[x]]
        for y in range(n):
            changed[x, y] = change[order1[x], order2[y]]
    for y in range(n):
        inserted[y] = insert[order2[y]]
    return changed, deleted, inserted


@compiled(
    "Tuple((i8[::1], i8[::1], i8[::1], i8[::1], f8[:, ::1], f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8))"
    "(i8[::1], i8[::1], f8[:, ::1], f8[::1], f8[::1])"
)
def solve(first: Array, second: Array, change: Array, delete: Array, insert: Array) -> Solved:
    """Return trees and costs in postorder, the distances of all subtrees, a scratch table, and the pair's distance."""
    order1, left1, keys1, order2, left2, keys2, work = oriented(first, second)
    m, n = change.shape
    between, table = np.empty((m, n)), np.empty((m + 1, n + 1))
    if work < 0:
        return order1, left1, order2, left2, change, delete, insert, between, table, float(MALFORMED)
    changed, deleted, inserted = reordered(order1, order2, change, delete, insert)
    for i in keys1:
        for j in keys2:
            forests(i, j, left1, left2, changed, deleted, inserted, between, table)
    whole = between[m - 1, n - 1] if m and n else delete.sum() + insert.sum()
    return order1, left1, order2, left2, changed, deleted, inserted, between, table, whole


@compiled("void(i8, i8, i8[::1], i8[::1], i8[::1], i8[::1], f8[::1], i8[::1], f8[::1], f8[::1], f8[::1])")
def distances(
    start: int,
    stop: int,
    heads1: Array,
    ends1: Array,
    heads2: Array,
    ends2: Array,
    change: Array,
    ends: Array,
    delete: Array,
    insert: Array,
    out: Array,
) -> None:
    """Compute the distances of pairs ``start`` to ``stop`` of a batch with concatenated arrays.

    The nodes of pair ``k`` are ``ends1[k]`` to ``ends1[k + 1]`` of ``heads1`` and ``delete``, and likewise for the
    second tree. Its costs of changes are ``ends[k]`` to ``ends[k + 1]`` of ``change``, row by row.
    """
    for k in range(start, stop):
        one, other = slice(ends1[k], ends1[k + 1]), slice(ends2[k], ends2[k + 1])
        m, n = ends1[k + 1] - ends1[k], ends2[k + 1] - ends2[k]
        block = change[ends[k] : ends[k + 1]].reshape((m, n))
        out[k] = solve(heads1[one], heads2[other], block, delete[one], insert[other])[-1]


@compiled("Tuple((f8, i8[:, ::1]))(i8[::1], i8[::1], f8[:, ::1], f8[::1], f8[::1])")
def mapping(first: Array, second: Array, change: Array, delete: Array, insert: Array) -> tuple[float, Array]:
    """Return the distance of a pair and the node pairs of an optimal mapping, one per row, last in postorder first."""
    order1, left1, order2, left2, changed, deleted, inserted, between, table, whole = solve(
        first, second, change, delete, insert
    )
    m, n = change.shape
    pairs = np.empty((min(m, n), 2), np.int64)
    if whole < 0 or m == 0 or n == 0:
        return whole, pairs[:0]
    todo = np.empty((min(m, n) + 1, 2), np.int64)  # pairs of subtrees whose nodes are still to be mapped
    todo[0, 0], todo[0, 1] = m - 1, n - 1
    waiting, count = 1, 0
    while waiting:
        waiting -= 1
        i, j = todo[waiting, 0], todo[waiting, 1]
        forests(i, j, left1, left2, changed, deleted, inserted, between, table)
        top, start = left1[i], left2[j]
        x, y = i, j
        while x >= top or y >= start:
            a, b = x - top + 1, y - start + 1
            if a and b and left1[x] == top and left2[y] == start:
                if table[a, b] == table[a - 1, b - 1] + changed[x, y]:
                    pairs[count, 0], pairs[count, 1] = order1[x], order2[y]
                    count += 1
                    x, y = x - 1, y - 1
                    continue
            elif a and b and table[a, b] == table[left1[x] - top, left2[y] - start] + between[x, y]:
                todo[waiting, 0], todo[waiting, 1] = x, y
                waiting += 1
                x, y = left1[x] - 1, left2[y] - 1
                continue
            if a and table[a, b] == table[a - 1, b] + deleted[x]:
                x -= 1
            else:
                y -= 1
    return whole, pairs[:count]
