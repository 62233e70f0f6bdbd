"""Speed of the bootstrap and of the permutation tests on scores of the size of WMT17's.

Generated ratings in seven groups, references with several segments each, and metrics that agree with them more or less.
What is timed is what an evaluation does: the mean over groups of a correlation, draws of whole references, intervals of
all metrics, and PERM-BOTH for all pairs of metrics. The best of the repetitions is printed.

    python benchmarks/bootstrap_speed.py [--segments 3920] [--metrics 15] [--samples 1000] [--statistics pearson]
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from textmover import __version__
from textmover.meta_evaluation import MetricScores, Protocol, evaluate, permutation_p_values
from textmover.meta_evaluation.significance.bootstrap import bootstrap_draws
from textmover.types import Judgements

GROUPS, PER_REFERENCE, TIED = 7, 2, 3
"""Groups, segments of each reference, and how many of the metrics give scores with many ties."""


class Data(NamedTuple):
    """Scores of the metrics and of people, and what the segments belong to."""

    scores: list[np.ndarray]
    human: np.ndarray
    groups: list[str]
    references: list[str]


def generate(segments: int, metrics: int) -> Data:
    rng = np.random.default_rng(0)
    human = rng.normal(size=segments)
    scores = [human + (1 + 0.02 * number) * rng.normal(size=segments) for number in range(metrics)]
    for number in range(min(TIED, metrics)):
        scores[number] = scores[number].round(1)
    size = -(-segments // GROUPS)
    groups = [f"group {row // size}" for row in range(segments)]
    return Data(scores, human, groups, [str(row // PER_REFERENCE) for row in range(segments)])


def evaluation(data: Data, statistic: str, samples: int) -> None:
    judgements = Judgements(
        name="generated",
        hypotheses=("",) * len(data.human),
        references=tuple((one,) for one in data.references),
        ratings={"score": data.human},
        groups=tuple(data.groups),
    )
    metrics = [MetricScores(str(number), one) for number, one in enumerate(data.scores)]
    evaluate(judgements, metrics, Protocol(statistic), samples=samples, permutations=samples)


def seconds(function: Callable[[], object], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(data: Data, statistic: str, samples: int, repetitions: int) -> tuple[float, float, float]:
    """Seconds of the bootstrap, of the tests, and of an evaluation with both."""
    scores, human, groups, references = data

    def drawn() -> None:
        bootstrap_draws(scores, human, groups, statistic=statistic, samples=samples, clusters=references)

    def tested() -> None:
        permutation_p_values(scores, human, groups, statistic=statistic, permutations=samples)

    return (
        seconds(drawn, repetitions),
        seconds(tested, repetitions),
        seconds(lambda: evaluation(data, statistic, samples), repetitions),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=3920)
    parser.add_argument("--metrics", type=int, default=15)
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples, and permutations")
    parser.add_argument("--statistics", nargs="+", default=["pearson", "spearman", "kendall"])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    data = generate(options.segments, options.metrics)
    pairs = options.metrics * (options.metrics - 1) // 2
    print(
        f"textmover {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
        f"{options.segments} segments in {GROUPS} groups, {options.metrics} metrics ({TIED} with ties), "
        f"{options.samples} samples and permutations, best of {options.repetitions}\n"
    )
    print(f"| statistic | bootstrap, s | PERM-BOTH, {pairs} pairs, s | whole evaluation, s |")
    print("|---|---|---|---|")
    for statistic in options.statistics:
        times = measure(data, statistic, options.samples, options.repetitions)
        print(f"| {statistic} | " + " | ".join(f"{time:.2f}" for time in times) + " |", flush=True)


if __name__ == "__main__":
    main()
