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

import math
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import harness
import numpy as np
import ot
import torch
from torch import Tensor

from textmover.functional import SinkhornResult, exact_transport, sinkhorn, unbalanced_sinkhorn, unit_vectors

LIMIT = 1_000_000
"""Maximum iterations of both sides, reached by a few of the reference solutions."""

TIGHTEST = 1e-10  # tolerance of the reference solutions


Problems = tuple[Tensor, Tensor, Tensor]  # costs, weights of the first and of the second side


class Contest(NamedTuple):
    """Kind of problem, with functions that return the transport costs of each side for a tolerance."""

    name: str
    problems: int
    ours: Callable[[float], Tensor]
    pot: Callable[[float], list[float]]


def draw(problems: int, size: int, dimensions: int = 16) -> Problems:
    generator = torch.Generator().manual_seed(0)
    x, y = unit_vectors(torch.randn(2, problems, size, dimensions, generator=generator, dtype=torch.float64))
    weights = torch.full((problems, size), 1 / size, dtype=torch.float64)
    return 1 - x @ y.mT, weights, weights


def transport(result: SinkhornResult, tolerance: float) -> Tensor:
    missed = 0 if result.converged is None else int((~result.converged).sum())
    if missed:
        print(f"({missed} problems not solved to {tolerance:g}; largest error {result.marginal_error.max():.0e})")
    return result.transport


def contest(
    name: str, problems: Problems, ours: Callable[[float], Tensor], solve: Callable[..., np.ndarray]
) -> Contest:
    """Build a contest in which POT solves problems one by one; ``solve`` maps weights, cost and tolerance to a plan."""
    arrays = [tensor.numpy() for tensor in problems]

    def pot(tolerance: float) -> list[float]:
        return [float((solve(p, q, c, tolerance) * c).sum()) for c, p, q in zip(*arrays, strict=True)]

    return Contest(name, len(problems[0]), ours, pot)


def balanced(problems: Problems, epsilon: float) -> Contest:
    def ours(tolerance: float) -> Tensor:
        return transport(sinkhorn(*problems, epsilon, tolerance=tolerance, max_iterations=LIMIT), tolerance)

    rule = {"method": "sinkhorn_log", "numItermax": LIMIT}
    solve = partial(ot.sinkhorn, reg=epsilon, **rule)
    return contest(f"balanced, ε = {epsilon}", problems, ours, lambda p, q, c, limit: solve(p, q, c, stopThr=limit))


def unbalanced(problems: Problems, penalties: tuple[float, float], epsilon: float = 0.009) -> Contest:
    def ours(tolerance: float) -> Tensor:
        rule = {"tolerance": tolerance, "max_iterations": LIMIT}
        return transport(unbalanced_sinkhorn(*problems, epsilon, *penalties, **rule), tolerance)  # type: ignore[arg-type]

    def solve(p: np.ndarray, q: np.ndarray, c: np.ndarray, tolerance: float) -> np.ndarray:
        rule = {"method": "sinkhorn", "reg_type": "entropy", "numItermax": LIMIT, "stopThr": tolerance}
        return ot.unbalanced.sinkhorn_unbalanced(p, q, c, epsilon, penalties, **rule)

    return contest(f"unbalanced, λ = {penalties}, ε = {epsilon}", problems, ours, solve)


def run(contest: Contest, tolerance: float, repetitions: int) -> list[str]:
    """Time both sides in turn, after an untimed run of each; return a row of the table."""
    expected = contest.ours(TIGHTEST).numpy()

    def deviation(costs: Any) -> float:
        return np.abs(np.asarray(costs) - expected).max()

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
        contest.name, str(contest.problems), f"{1e3 * ours:.0f}", f"{1e3 * pot:.0f}", f"**{ratio}** {ends}",
        f"{our_deviation:.0e}, {pot_deviation:.0e}", f"{pot / finer:.1f}",
    ]  # fmt: skip


def peak_of_backward(cost: Tensor, a: Tensor, b: Tensor, max_iterations: int, penalty: float) -> tuple[float, int]:
    """Return the peak memory of torch in a forward and backward pass, in MiB, and the number of iterations."""
    leaf = cost.clone().requires_grad_()
    rule = {"tolerance": 1e-15, "max_iterations": max_iterations}  # unreachable, so that all iterations run
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = unbalanced_sinkhorn(leaf, a, b, 0.009, penalty, penalty, measure="product", **rule)
        result.transport.sum().backward()
    allocated = peak = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            allocated += event.nbytes()
            peak = max(peak, allocated)
    return peak / 2**20, int(result.iterations.max())


def main() -> None:
    options = harness.parser(__doc__, problems=1000, size=30, repetitions=5, tolerance=1e-6).parse_args()
    warnings.filterwarnings("ignore", "If reg_type = entropy")
    print(f"{harness.versions('textmover', 'POT', 'torch', 'numpy')}; {harness.processor()}")
    print(f"{options.size} x {options.size}, tolerance {options.tolerance:g}, medians of {options.repetitions}")
    problems = draw(options.problems, options.size)
    some = tuple(tensor[: max(1, options.problems // 5)] for tensor in problems)
    contests = [
        *(balanced(given, epsilon) for epsilon, given in ((0.5, problems), (0.1, problems), (0.02, some))),
        *(unbalanced(problems, penalties) for penalties in ((0.23, 0.31), (0.009, 0.95))),
        contest("exact", problems, lambda _: exact_transport(*problems).transport, lambda p, q, c, _: ot.emd(p, q, c)),
    ]
    # POT needs minutes for the smallest epsilon: use fewer problems and one repetition.
    rows = (
        run(one, options.tolerance, options.repetitions if one.problems == options.problems else 1) for one in contests
    )
    headers = ("", "problems", "ms", "POT, ms", "ratio", "deviations", "ratio at no larger deviation")
    harness.print_table(headers, rows, texts=None)
    few = tuple(tensor[:50] for tensor in problems)
    for name, penalty in (("balanced", math.inf), ("unbalanced", 1.0)):
        for limit in (50, 5000):
            peak, took = peak_of_backward(*few, limit, penalty)
            print(f"{name}, {len(few[0])} problems, {took} iterations: backward peaks at {peak:.1f} MiB")


if __name__ == "__main__":
    main()
