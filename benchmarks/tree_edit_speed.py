"""Speed of the tree edit distance beside plain Python, and of the syntactic feature of RoMe, in one run.

The trees are random: half of the nodes hang on one of the four drawn before, half on any of them, and the nodes are
numbered in a random order, so that trees grow to both sides as sentences do. Costs are 0 for one pair of nodes in ten
and 1 for the others. Plain Python is the algorithm of Zhang and Shasha as the paper writes it, and the package zss
where it is installed (``pip install zss``); both take one pair at a time, trees made before the clock starts. They work
on a part of the pairs, and their time is scaled to all. The values of all sides must be equal.

    python benchmarks/tree_edit_speed.py [--pairs 1000] [--nodes 25] [--threads 2] [--repetitions 5]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import numba
import numpy as np
import torch

from textmover import __version__
from textmover.functional.tree_edit import ordered_tree, tree_edit_distance, tree_edit_distances
from textmover.rome import syntactic_similarity
from textmover.types import ParsedText

PART = 20
"""One pair in so many is given to plain Python."""


def random_heads(generator: np.random.Generator, size: int) -> np.ndarray:
    names = generator.permutation(size)
    heads = np.full(size, -1)
    for step in range(1, size):
        heads[names[step]] = names[generator.integers(max(0, step - 4) if generator.random() < 0.5 else 0, step)]
    return heads


def plain(first: np.ndarray, second: np.ndarray, change: np.ndarray) -> float:
    """The distance as the paper computes it, with deletions and insertions at 1."""
    (order1, left1, keys1), (order2, left2, keys2) = (
        [part.tolist() for part in ordered_tree(one)] for one in (first, second)
    )
    costs = [[change[i, j] for j in order2] for i in order1]
    between = [[0.0] * len(order2) for _ in order1]
    for i in keys1:
        for j in keys2:
            table = {(left1[i] - 1, left2[j] - 1): 0.0}
            for x in range(left1[i], i + 1):
                table[x, left2[j] - 1] = table[x - 1, left2[j] - 1] + 1
            for y in range(left2[j], j + 1):
                table[left1[i] - 1, y] = table[left1[i] - 1, y - 1] + 1
            for x in range(left1[i], i + 1):
                for y in range(left2[j], j + 1):
                    best = min(table[x - 1, y] + 1, table[x, y - 1] + 1)
                    if left1[x] == left1[i] and left2[y] == left2[j]:
                        between[x][y] = table[x, y] = min(best, table[x - 1, y - 1] + costs[x][y])
                    else:
                        table[x, y] = min(best, table[left1[x] - 1, left2[y] - 1] + between[x][y])
    return between[-1][-1]


def zss_tree(heads: np.ndarray) -> object:
    import zss

    nodes = [zss.Node(place) for place in range(len(heads))]
    for node, head in zip(nodes, heads, strict=True):
        if head >= 0:
            nodes[head].addkid(node)
    return nodes[int(np.flatnonzero(heads == -1)[0])]


def by_zss(first: object, second: object, change: np.ndarray) -> float:
    import zss

    return zss.distance(
        first,
        second,
        zss.Node.get_children,
        insert_cost=lambda node: 1.0,
        remove_cost=lambda node: 1.0,
        update_cost=lambda one, other: change[one.label, other.label],
    )


def parsed(heads: np.ndarray, letter: str) -> ParsedText:
    words = tuple(f"{letter}{place}" for place in range(len(heads)))
    spans = tuple((6 * place, 6 * place + len(word)) for place, word in enumerate(words))
    columns = (("NOUN",) * len(words), ("",) * len(words), tuple(heads.tolist()), ("dep",) * len(words))
    return ParsedText(words, words, *columns, spans)


def median(function: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Seconds on the clock and on the processors, medians."""
    rows = []
    for _ in range(repetitions):
        clock, processor = time.perf_counter(), time.process_time()
        function()
        rows.append((time.perf_counter() - clock, time.process_time() - processor))
    clocks, processors = zip(*rows, strict=True)
    return statistics.median(clocks), statistics.median(processors)


def row(name: str, pairs: int, seconds: tuple[float, float]) -> None:
    print(f"| {name} | {pairs} | {1e3 * seconds[0]:.0f} | {1e3 * seconds[1]:.0f} |", flush=True)


def distances(first: Sequence, second: Sequence, change: Sequence, options: argparse.Namespace) -> None:
    """Rows of the distance in one thread and in all, and of plain Python."""
    expected = tree_edit_distances(first, second, change)
    for threads in sorted({1, options.threads}):
        torch.set_num_threads(threads)
        seconds = median(lambda: tree_edit_distances(first, second, change), options.repetitions)
        row(f"textmover, {threads} thread{'s' * (threads > 1)}", len(first), seconds)
    row("textmover, pair by pair", len(first), median(lambda: [*map(tree_edit_distance, first, second, change)], 1))
    sides = {"plain Python": (plain, first[::PART], second[::PART])}
    if importlib.util.find_spec("zss"):
        trees = [[zss_tree(one) for one in side[::PART]] for side in (first, second)]
        sides["zss"] = (by_zss, *trees)
    for name, (function, ones, others) in sides.items():
        found: list[float] = []
        given = (function, ones, others, change[::PART])
        seconds = median(lambda given=given, found=found: found.extend(map(*given)), 1)
        if not np.allclose(found, expected[::PART]):
            raise SystemExit(f"{name} gives other values than textmover.")
        row(f"{name}, scaled from {len(found)} pairs", len(first), (seconds[0] * PART, seconds[1] * PART))


def features(first: Sequence, second: Sequence, change: Sequence, options: argparse.Namespace) -> None:
    """Rows of the syntactic feature, for as many pairs and for a long one."""
    texts = [[parsed(heads, letter) for heads in side] for letter, side in (("a", first), ("b", second))]
    cosines = [1 - cost for cost in change]
    row("TED-SE", len(first), median(lambda: syntactic_similarity(*texts, cosines), options.repetitions))
    generator = np.random.default_rng(1)
    sentences = [random_heads(generator, 20) for _ in range(500)]
    heads = np.concatenate([np.where(one < 0, -1, one + 20 * k) for k, one in enumerate(sentences)])
    long = [parsed(heads, letter) for letter in "ab"]
    matches = np.eye(len(heads), dtype=bool)
    row("TED-SE, 10,000 words each", 1, median(lambda: syntactic_similarity(long[:1], long[1:], [matches]), 1))


def main() -> None:
    """Run all sides in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    first, second = ([random_heads(generator, options.nodes) for _ in range(options.pairs)] for _ in range(2))
    change = [(generator.random((options.nodes,) * 2) > 0.1).astype(float) for _ in range(options.pairs)]
    start = time.perf_counter()
    tree_edit_distances(first[:1], second[:1], change[:1])
    ready = time.perf_counter() - start
    print(f"textmover {__version__}, numba {numba.__version__}, NumPy {np.__version__}", end="")
    print(f", Python {platform.python_version()}; CPU, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{options.nodes} nodes, medians of {options.repetitions}; the first pair took {ready:.1f} s, compiling or")
    print("reading what was compiled")
    print("| | pairs | ms | processor, ms |")
    print("|---|---|---|---|")
    distances(first, second, change, options)
    features(first, second, change, options)


if __name__ == "__main__":
    main()
