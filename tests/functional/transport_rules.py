"""Stopping rules, measures and penalties with which entropic transport is tested."""

import pytest
import torch

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


def divergence(sums: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """KL of two nonnegative vectors of any mass, over the last axis."""
    relative = torch.special.xlogy(sums, sums / torch.where(weights > 0, weights, 1.0))
    return (relative - sums + weights).sum(dim=-1)
