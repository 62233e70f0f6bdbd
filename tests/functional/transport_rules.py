"""Stopping rules, measures and penalties with which transport is tested, and stored values of published code."""

import json
from collections.abc import Callable, Sequence
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


def assert_gradients(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], numbers: Sequence[Tensor] = (), step=1e-6
) -> None:
    """Gradients are central differences within the bounds of ``torch.autograd.gradcheck``, all in one batch.

    Args:
        function: Tensors with a batch axis, from such inputs and the numbers.
        inputs: Tensors in double precision with a batch axis of 1, all of whose entries are varied.
        numbers: Scalars, of which those that require a gradient are varied.
    """
    sizes = [one[0].numel() for one in inputs]

    def varied(shifts: Tensor, *numbers: Tensor) -> Sequence[Tensor]:
        parts = zip(inputs, shifts.split(sizes, dim=1), strict=True)
        return function(*(one.detach() + part.reshape(-1, *one.shape[1:]) for one, part in parts), *numbers)

    def joined(shifts: Tensor) -> Tensor:
        return torch.cat([one.reshape(len(shifts), -1) for one in varied(shifts, *numbers)], dim=1)

    with torch.no_grad():
        steps = step * torch.eye(sum(sizes), dtype=torch.float64)
        expected = (joined(steps) - joined(-steps)) / (2 * step)
    shifts = torch.zeros(expected.shape[1], sum(sizes), dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(joined(shifts).diagonal().sum(), shifts)
    torch.testing.assert_close(found.mT, expected, rtol=1e-3, atol=1e-5)
    still = torch.zeros_like(steps[:1])
    for place, number in enumerate(numbers):
        if not number.requires_grad:
            continue
        ends = (
            varied(still, *numbers[:place], number.detach() + sign * step, *numbers[place + 1 :]) for sign in (1, -1)
        )
        for one, above, below in zip(varied(still, *numbers), *ends, strict=True):  # each output alone
            weights = torch.linspace(1, 2, one.numel(), dtype=torch.float64).reshape(one.shape)
            (slope,) = torch.autograd.grad((one * weights).sum() + 0 * number, number, retain_graph=True)
            torch.testing.assert_close(slope, ((above - below) * weights).sum() / (2 * step), rtol=1e-3, atol=1e-5)
