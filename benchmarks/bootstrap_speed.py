"""Speed of the bootstrap and of the permutation tests on scores of the size of WMT17's.

Generated ratings in seven groups, references with several segments each, and metrics that agree with them more or less.
What is timed is what an evaluation does: the mean over groups of a correlation, draws of whole references, intervals of
all metrics, and PERM-BOTH for all pairs of metrics. The best of the repetitions is printed.

    python benchmarks/bootstrap_speed.py [--segments 3920] [--metrics 15] [--samples 1000] [--statistics pearson]
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import harness
import numpy as np

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


def ways(data: Data, statistic: str, samples: int) -> dict[str, partial[float]]:
    """The bootstrap, the tests, and an evaluation with both."""
    scores, human, groups, references = data
    common = {"statistic": statistic}
    works = {
        "bootstrap": partial(bootstrap_draws, scores, human, groups, samples=samples, clusters=references, **common),
        "tests": partial(permutation_p_values, scores, human, groups, permutations=samples, **common),
        "evaluation": partial(evaluation, data, statistic, samples),
    }
    return {name: partial(harness.seconds, work) for name, work in works.items()}


def main() -> None:
    options = harness.parser(
        __doc__, segments=3920, metrics=15, samples=1000, statistics=["pearson", "spearman", "kendall"], repetitions=3
    ).parse_args()
    data = generate(options.segments, options.metrics)
    pairs = options.metrics * (options.metrics - 1) // 2
    print(
        f"{harness.versions('textmover', 'numpy', 'scipy')}, {harness.processor()}\n"
        f"{options.segments} segments in {GROUPS} groups, {options.metrics} metrics ({TIED} with ties), "
        f"{options.samples} samples and permutations, best of {options.repetitions}\n"
    )
    found = (harness.rounds(ways(data, one, options.samples), options.repetitions) for one in options.statistics)
    rows = (
        [statistic, *(f"{min(seconds):.2f}" for seconds in times.values())]
        for statistic, times in zip(options.statistics, found, strict=True)
    )
    headers = ("statistic", "bootstrap, s", f"PERM-BOTH, {pairs} pairs, s", "whole evaluation, s")
    harness.print_table(headers, rows)


if __name__ == "__main__":
    main()
