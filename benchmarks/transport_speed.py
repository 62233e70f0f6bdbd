"""Compare the speed of the transport solvers with loops over POT on the same machine.

Problems are pairs of sets of random unit vectors with uniform weights, ``C = 1 - cos``, in float64. Our solvers process
them as one batch. POT processes one problem at a time, as NumPy arrays created before the measurement.

Both sides use the same tolerance value, but different criteria. Balanced: ours bounds the sum of absolute errors of the
column sums; POT's ``stopThr`` bounds their Euclidean norm, every tenth iteration. Unbalanced: ours bounds violations of
the columns' optimality conditions, POT's the relative change of the scalings. Therefore the table also reports the
largest deviation of each side's cost from a solution to 1e-10, and the ratio after dividing our tolerance by ten until
our deviation is not larger (or below 1e-9).

    python benchmarks/transport_speed.py [--problems 1000] [--size 30] [--repetitions 5]
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import harness
import numpy as np
import ot
import torch
from torch import Tensor

from textmover.functional import exact_transport, sinkhorn, unbalanced_sinkhorn, unit_vectors

LIMIT = 1_000_000
"""Maximum iterations of both sides, reached by a few of the reference solutions."""

TIGHTEST = 1e-10  # tolerance of the reference solutions


Problems = tuple[Tensor, Tensor, Tensor]  # costs, weights of the first and of the second side


class Contest(NamedTuple):
    """Kind of problem, and a solver of each side: ours of all problems, POT's of one, both for a tolerance."""

    name: str
    problems: Problems
    solve: Callable[..., Any]
    solve_one: Callable[..., np.ndarray]

    def ours(self, tolerance: float) -> np.ndarray:
        return self.solve(*self.problems, tolerance=tolerance).transport.numpy()

    def pot(self, tolerance: float) -> np.ndarray:
        arrays = zip(*(tensor.numpy() for tensor in self.problems), strict=True)
        return np.array([(self.solve_one(p, q, c, stopThr=tolerance) * c).sum() for c, p, q in arrays])


def draw(problems: int, size: int, dimensions: int = 16) -> Problems:
    generator = torch.Generator().manual_seed(0)
    x, y = unit_vectors(torch.randn(2, problems, size, dimensions, generator=generator, dtype=torch.float64))
    weights = torch.full((problems, size), 1 / size, dtype=torch.float64)
    return 1 - x @ y.mT, weights, weights


def contests(problems: Problems) -> Iterator[Contest]:
    some = tuple(tensor[: max(1, len(tensor) // 5)] for tensor in problems)  # POT needs minutes for the smallest ε
    for epsilon, given in ((0.5, problems), (0.1, problems), (0.02, some)):
        ours = partial(sinkhorn, epsilon=epsilon, max_iterations=LIMIT)
        pot = partial(ot.sinkhorn, reg=epsilon, method="sinkhorn_log", numItermax=LIMIT)
        yield Contest(f"balanced, ε = {epsilon}", given, ours, pot)
    epsilon, penalties = 0.009, (0.23, 0.31)
    own = {"row_penalty": penalties[0], "column_penalty": penalties[1], "max_iterations": LIMIT}
    ours = partial(unbalanced_sinkhorn, epsilon=epsilon, **own)
    rule = {"method": "sinkhorn", "reg_type": "entropy", "numItermax": LIMIT}
    pot = partial(ot.unbalanced.sinkhorn_unbalanced, reg=epsilon, reg_m=penalties, **rule)
    yield Contest(f"unbalanced, λ = {penalties}, ε = {epsilon}", problems, ours, pot)
    yield Contest(
        "exact", problems, lambda *given, tolerance: exact_transport(*given), lambda p, q, c, stopThr: ot.emd(p, q, c)
    )


def run(contest: Contest, tolerance: float, repetitions: int) -> list[str]:
    """Time both sides in turn, after an untimed run of each; return a row of the table."""
    expected = contest.ours(TIGHTEST)

    def deviation(costs: np.ndarray) -> float:
        return np.abs(costs - expected).max()

    pot_deviation, our_deviation = deviation(contest.pot(tolerance)), deviation(contest.ours(tolerance))
    matched, least = tolerance, our_deviation
    while least > max(pot_deviation, 10 * TIGHTEST):
        matched /= 10
        least = deviation(contest.ours(matched))
    solved = {"ours": (contest.ours, tolerance), "finer": (contest.ours, matched), "pot": (contest.pot, tolerance)}
    ways = {name: partial(harness.seconds, partial(*one)) for name, one in solved.items()}
    times = harness.rounds(ways, repetitions)
    ours, finer, pot = (statistics.median(column) for column in times.values())
    ratios = [two / one for one, two in zip(times["ours"], times["pot"], strict=True)]
    ratio, _, ends = harness.spread(ratios, ".1f").partition(" ")
    return [
        contest.name, str(len(contest.problems[0])), f"{1e3 * ours:.0f}", f"{1e3 * pot:.0f}", f"**{ratio}** {ends}",
        f"{our_deviation:.0e}, {pot_deviation:.0e}", f"{pot / finer:.1f}",
    ]  # fmt: skip


def main() -> None:
    options = harness.parser(__doc__, problems=1000, size=30, repetitions=5, tolerance=1e-6).parse_args()
    warnings.filterwarnings("ignore", "If reg_type = entropy")
    print(f"{harness.versions('textmover', 'POT', 'torch', 'numpy')}; {harness.processor()}")
    print(f"{options.size} x {options.size}, tolerance {options.tolerance:g}, medians of {options.repetitions}")
    rows = (
        run(one, options.tolerance, options.repetitions if len(one.problems[0]) == options.problems else 1)
        for one in contests(draw(options.problems, options.size))
    )
    headers = ("", "problems", "ms", "POT, ms", "ratio", "deviations", "ratio at no larger deviation")
    harness.print_table(headers, rows, texts=None)


if __name__ == "__main__":
    main()
