"""Exact partial transport: as much mass is moved as the lighter side has, the rest of the heavier side stays."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.functional._arguments import check_problem
from textmover.functional.exact import exact_transport

__all__ = ["PartialResult", "partial_transport", "per_mass"]


class PartialResult(NamedTuple):
    r"""Solution of ``B`` partial transport problems.

    Attributes:
        plan: An optimal plan, rows at most ``a`` and columns at most ``b``; a constant, no gradient flows through it.
        work: Cost of the plan :math:`\langle P, C\rangle`.
        mass: What is moved, :math:`\min(\sum a, \sum b)`.
        emd: Earth mover's distance, work per mass; 0 where nothing is moved.
        converged: False where the solver gave up.
    """

    plan: Float[Tensor, "B M N"]
    work: Float[Tensor, " B"]
    mass: Float[Tensor, " B"]
    emd: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"]


def partial_transport(cost: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]) -> PartialResult:
    r"""Solve :math:`\min_P \langle P, C\rangle` where rows may stay below ``a`` and columns below ``b``.

    .. math:: P \ge 0,\quad P\mathbf 1 \le a,\quad P^\top\mathbf 1 \le b,\quad \sum P = \min(\sum a, \sum b)

    A dummy point on the lighter side takes the surplus of the heavier one at cost 0. The answer is exact: leaving out
    the dummy maps the plans of this balanced problem one to one on those allowed here, at the same cost, since what a
    point keeps is what it sends to the dummy. So :func:`~textmover.functional.exact_transport` solves it.

    With equal sums this is the balanced problem, and weights that sum to 1 on both sides make it so; only weights as
    they are (raw tf-idf, or 1 for each word) let a part of the heavier side go free. The value has the gradients of the
    envelope theorem with respect to cost and weights, one of the subgradients where the sums are equal.

    Args:
        cost: Cost of each pair, any finite values.
        a: Row weights, at least 0, of any sum; 0 where padded.
        b: Column weights, likewise.

    Returns:
        Plan, work, mass, earth mover's distance (within the range of the costs), and whether the solver has finished.

    Raises:
        ValueError: If shapes do not fit, a cost or a weight is not finite, or a weight is negative.
        TypeError: If dtypes or devices are mixed, or below float32.

    Example:
        >>> cost = torch.tensor([[[0.2, 1.0], [0.6, 1.0]]])
        >>> partial_transport(cost, torch.ones(1, 2), torch.tensor([[1.0, 0.0]])).emd
        tensor([0.2000])

    Reference:
        Rubner et al. 1998 (EMD); Rony et al. 2022 (RoMe), Eq. 1 and 2; Caffarelli and McCann 2010 (dummy points).
    """
    check_problem(cost, a, b, name="cost")
    rows, columns = a.sum(dim=1), b.sum(dim=1)
    most, mass = torch.maximum(rows, columns), torch.minimum(rows, columns)
    surplus = rows - columns
    # What rounding leaves of equal sums is no surplus.
    noise = (a.shape[1] + b.shape[1]) * torch.finfo(a.dtype).eps * most
    surplus = torch.where(surplus.abs() <= noise, 0.0, surplus)
    points = cost, a, b
    if bool((surplus != 0).any()):
        # Of the two dummies of a problem one has weight 0 at least, and does not take part.
        points = (
            torch.nn.functional.pad(cost, (0, 1, 0, 1)),
            torch.cat([a, (-surplus).relu()[:, None]], dim=1),
            torch.cat([b, surplus.relu()[:, None]], dim=1),
        )
    found = exact_transport(*points)  # both sides scaled to mass 1
    work = found.transport * most
    plan = found.plan[:, : a.shape[1], : b.shape[1]] * most.detach()[:, None, None]
    return PartialResult(plan, work, mass, per_mass(work, mass), found.converged)


def per_mass(work: Float[Tensor, " B"], mass: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Work per mass, 0 where there is none; gradients are finite everywhere."""
    nothing = mass == 0  # false for NaN, which stays one
    return torch.where(nothing, 0.0, work / torch.where(nothing, 1.0, mass))
