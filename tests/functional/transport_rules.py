"""Stopping rules, measures and penalties with which transport is tested, and stored values of published code."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

INF = float("inf")
MEASURES = ["entropy", "product"]
RULES = {
    "one iteration": {"iterations": 1},
    "four iterations": {"iterations": 4},
    "to a tolerance": {"tolerance": 1e-12, "max_iterations": 100_000},
}
TIGHT = RULES["to a tolerance"]
PENALTIES = [(0.23, 0.31), (INF, 0.3), (0.5, 0.0), (0.0, INF), (INF, INF)]

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
each_measure = pytest.mark.parametrize("measure", MEASURES)
each_pair = pytest.mark.parametrize("penalties", PENALTIES, ids=str)

TRANSPORT, FAMILY = (
    json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())["cases"]
    for name in ("transport", "twmd_family")
)
each_stored = pytest.mark.parametrize("case", TRANSPORT, ids=range(len(TRANSPORT)))
each_of_the_authors = pytest.mark.parametrize("case", FAMILY, ids=range(len(FAMILY)))


def problem_of(case: dict) -> tuple[Tensor, Tensor, Tensor]:
    """Cost and weights of a stored problem."""
    cost, a, b = (torch.tensor(case[name], dtype=torch.float64)[None] for name in ("cost", "a", "b"))
    return cost, a, b


def vectors_of(case: dict) -> tuple[Tensor, Tensor]:
    """Vectors of the reference's and the hypothesis's tokens."""
    x, y = (torch.tensor(case[side], dtype=torch.float64) for side in ("reference", "candidate"))
    return x, y


def uniform(*sizes: int) -> list[Tensor]:
    """Equal weights of so many tokens each."""
    return [torch.full((1, size), 1 / size, dtype=torch.float64) for size in sizes]


def divergence(sums: Tensor, weights: Tensor) -> Tensor:
    """KL of two nonnegative vectors of any mass, over the last axis."""
    relative = torch.special.xlogy(sums, sums / torch.where(weights > 0, weights, 1.0))
    return (relative - sums + weights).sum(dim=-1)
