"""Profile RoMe by part, in one call on distinct text pairs, and compare its speed with BERTScore.

    python benchmarks/rome_speed.py --data data:ud-ewt-sentences [--pairs 1000]
        [--words 10 30] [--threads 2] [--repetitions 3] [--seed 0]

References are sentences of a file (one text per line), hypotheses are corrupted versions; all texts are distinct.
Each repetition uses a new scorer after a warm-up; loading is excluded.

Timers wrap the functions of each part; while a part calls another, the outer timer pauses. Seconds of a part are CPU
time summed over threads, without waiting, for example for the parser lock. The whole call is measured in wall time.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import harness
import torch
from harness import Run

from textmover import Scorer
from textmover.data.generated.datamodule import perturbed_segments
from textmover.perturbations.perturbations import PERTURBATIONS
from textmover.readers.segments import read_texts
from textmover.rome.features import pairs as pairing
from textmover.rome.features import semantic, syntactic
from textmover.rome.features import text_features as reading
from textmover.rome.metric import RomeMetric

BESIDE = "bertscore-f1"
"""Metric for comparison: one pass of the same encoder and a cheap comparison."""

REST = "rest: batches, packing, idf weights, scores"

WARM_UP = (["The dogs chased a cat.", "It rained."], ["A cat was chased by the dogs.", "There was rain."])


class Part(NamedTuple):
    """Name of a part and its function, an attribute of an object or module."""

    name: str
    owner: Any
    attribute: str


class Clock:
    """CPU time by part, summed over threads; nested calls count only for the inner part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._local = threading.local()
        self._lock = threading.Lock()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            inner: list[float] = vars(self._local).setdefault("inner", [])  # time of nested parts in this thread
            inner.append(0.0)
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.thread_time() - began
                own = spent - inner.pop()
                if inner:
                    inner[-1] += spent
                with self._lock:
                    self.seconds[name] += own
                    self.calls[name] += 1

        return run

    @contextlib.contextmanager
    def around(self, parts: Sequence[Part]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for part in parts:
                timed = self.timed(part.name, getattr(part.owner, part.attribute))
                stack.enter_context(patch.object(part.owner, part.attribute, timed))
            yield


def parts_of(metric: RomeMetric) -> list[Part]:
    parts = [
        Part("words: tokenising", metric.reader.metric, "tokenize"),
        Part("words: tokenising", reading, "token_offsets"),
        Part("words: encoder", metric.reader.metric, "token_vectors"),
        Part("words: means over pieces", reading, "word_vectors_of_spans"),
        Part("alignment of words", pairing, "semantic_similarity"),
        Part("partial EMD", semantic, "aligned_transport"),
        Part("partial EMD", semantic, "partial_transport"),
        Part("trees and costs of changes", pairing, "compare_trees"),
        Part("tree edit distance", syntactic, "tree_edit_distances"),
    ]
    if metric.reader.parser is not None:
        parts.append(Part("parser", type(metric.reader.parser), "__call__"))
    if metric.acceptability is not None:
        parts.append(Part("acceptability", metric.acceptability, "predict"))
    return parts


def corrupted_pairs(path: Path, number: int, words: tuple[int, int], seed: int) -> tuple[list[str], list[str]]:
    """Return distinct hypotheses and references from the first suitable texts of a file."""
    least, most = words
    texts = [one for one in dict.fromkeys(map(str.strip, read_texts(path))) if least <= len(one.split()) <= most]
    kinds = {kind: 1.0 for kind in PERTURBATIONS if kind != "identity"}
    used: set[str] = set()
    pairs: list[tuple[str, str]] = []
    for segment in perturbed_segments(texts[: 2 * number], kinds, 1, seed):
        pair = segment.hypothesis, segment.references[0]
        if least <= len(segment.hypothesis.split()) <= most and not used.intersection(pair):
            used.update(pair)
            pairs.append(pair)
    if len(pairs) < number:
        raise SystemExit(f"{path} gives {len(pairs)} pairs of {least} to {most} words: ask for fewer (--pairs).")
    return [one for one, _ in pairs[:number]], [other for _, other in pairs[:number]]


def measure(model: str, pairs: tuple[list[str], list[str]]) -> Run:
    """Score all pairs once with a new scorer; the result is the clock of its parts."""
    scorer = Scorer.from_pretrained(model, device="cpu")
    scorer.score(*WARM_UP)
    clock = Clock()
    with clock.around(parts_of(scorer.metric) if isinstance(scorer.metric, RomeMetric) else []):
        run = harness.timed(lambda: scorer.score(*pairs), f"`{scorer.signature}`")
    return run._replace(result=clock)


def report(runs: Mapping[str, Sequence[Run]], number: int) -> str:
    """Format a table of RoMe's parts, and the speed comparison."""
    rome_runs = runs["rome"]
    calls, total = rome_runs[0].result.calls, harness.median(rome_runs, "processor")
    parts = {name: statistics.median(one.result.seconds[name] for one in rome_runs) for name in calls}
    ranked = sorted(parts.items(), key=lambda one: -one[1])
    rows = [
        [name, f"{calls[name]:,}" if name in calls else "", f"{seconds:.2f}", f"{seconds / total:.1%}"]
        for name, seconds in [*ranked, (REST, total - sum(parts.values())), ("all", total)]
    ]
    own = harness.table(["part", "calls", "processor s", "share"], rows)
    return f"{own}\n\n{harness.peer_table(runs, BESIDE, number)}"


def main() -> None:
    parser = harness.parser(__doc__, pairs=1000, threads=2, repetitions=3, seed=0)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--words", type=int, nargs=2, default=(10, 30))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pairs = corrupted_pairs(options.data, options.pairs, tuple(options.words), options.seed)
    ways = {name: functools.partial(measure, name, pairs) for name in ("rome", BESIDE)}
    runs = harness.rounds(ways, options.repetitions)
    packages = harness.versions("textmover", "torch", "transformers", "spacy", "numba")
    print(
        f"{len(pairs[0]):,} pairs of {options.words[0]} to {options.words[1]} words from {options.data.name} "
        f"({len({*pairs[0], *pairs[1]}):,} distinct texts); medians of {options.repetitions}. "
        f"{harness.processor(options.threads)}, {packages}.\n\n{report(runs, len(pairs[0]))}"
    )


if __name__ == "__main__":
    main()
