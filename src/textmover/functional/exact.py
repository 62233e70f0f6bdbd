"""Exact optimal transport (earth mover's distance): network simplex on the CPU, envelope gradients everywhere.

Partial transport moves as much mass as the lighter side has; the rest of the heavier side stays.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.functional._arguments import check_problem

MAX_PIVOTS = 10_000_000
"""Bound on the steps of the network simplex; two texts of 512 tokens take some ten thousand."""

TINY = 1e-300
"""Divides the weights of a text that has none."""

WORTH_A_THREAD = 16
"""Problems that are worth a thread of their own."""


class ExactResult(NamedTuple):
    r"""Solution of ``B`` transport problems.

    Attributes:
        plan: An optimal plan; a constant, no gradient flows through it.
        transport: Transport cost :math:`\langle P, C\rangle`.
        converged: False where the solver gave up.
    """

    plan: Float[Tensor, "B M N"]
    transport: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"]


def exact_transport(cost: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]) -> ExactResult:
    r"""Solve :math:`\min_P \langle P, C\rangle` with row sums ``a`` and column sums ``b``.

    Each problem is solved by POT's network simplex in float64, several at a time in threads. The value is piecewise
    linear in the cost and differentiable wherever the plan is unique; its gradient is the plan (envelope theorem), and
    with respect to the weights the dual potentials, less their mean, since both sides are scaled to mass 1 first. Where
    several plans are optimal this is one of the subgradients. Second derivatives exist for the cost alone; where the
    weights need gradients they are refused. A problem without mass on one side moves nothing: plan and value are 0.

    Args:
        cost: Cost of each pair, any finite values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.

    Returns:
        Plan, transport cost in the dtype of the cost, and whether the solver has finished.

    Raises:
        ValueError: If shapes do not fit, a cost or a weight is not finite, or a weight is negative.
        TypeError: If dtypes or devices are mixed, or below float32.

    Example:
        >>> half = torch.full((1, 2), 0.5)
        >>> exact_transport(torch.tensor([[[0.0, 1.0], [1.0, 0.5]]]), half, half).transport
        tensor([0.2500])

    Reference:
        Bonneel et al. 2011 (solver); Kusner et al. 2015 (word mover's distance).
    """
    check_problem(cost, a, b, name="cost")
    for name, weights in (("a", a), ("b", b)):
        wrong = weights[~((weights >= 0) & weights.isfinite())]
        if len(wrong):
            raise ValueError(f"Expected `{name}` to be finite and 0 or above, but got {float(wrong[0])}.")
    return ExactResult(*_Exact.apply(cost, a, b))  # type: ignore[no-untyped-call]


class _Exact(torch.autograd.Function):
    """Solutions of a batch, with the gradients of the envelope theorem."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        given = [tensor.detach().cpu().double().numpy() for tensor in (cost, a, b)]
        plan, f, g = (np.zeros_like(array) for array in given)
        done = np.zeros(len(given[0]), dtype=bool)
        _solve_all(given[0], given[1], given[2], plan, f, g, done)
        plans, f_, g_ = (torch.from_numpy(array).to(cost) for array in (plan, f, g))
        converged = torch.from_numpy(done).to(cost.device)
        ctx.save_for_backward(plans, f_, g_, a, b)
        ctx.mark_non_differentiable(plans, converged)
        return plans, (plans * cost).sum(dim=(1, 2)), converged

    @staticmethod
    def backward(ctx: Any, _: Tensor, grad: Tensor, __: Tensor) -> tuple[Tensor | None, ...]:
        plan, f, g, a, b = ctx.saved_tensors
        if any(ctx.needs_input_grad[1:]):  # else the plan, a constant of the cost, is all that there is
            plan, f, g = _Once.apply(plan, f, g, a, b)  # type: ignore[no-untyped-call]
        grads: list[Tensor | None] = [grad[:, None, None] * plan if ctx.needs_input_grad[0] else None]
        for needed, potential, weights in zip(ctx.needs_input_grad[1:], (f, g), (a, b), strict=True):
            mass = weights.sum(dim=1, keepdim=True)
            mass = torch.where(mass > 0, mass, 1.0)
            mean = (potential * weights).sum(dim=1, keepdim=True) / mass
            # A token without weight has no potential, and so no gradient.
            slope = torch.where(weights > 0, potential - mean, 0.0)
            grads.append(grad[:, None] * slope / mass if needed else None)
        return tuple(grads)


class _Once(torch.autograd.Function):
    """Plan and potentials, which change with the weights in a way that no gradient follows."""

    @staticmethod
    def forward(ctx: Any, plan: Tensor, f: Tensor, g: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return plan.view_as(plan), f.view_as(f), g.view_as(g)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            "Expected exact transport to be differentiated once where its weights need gradients, but got a second "
            "derivative: detach the weights, or take entropic transport (`sinkhorn`)."
        )


def _solve_all(
    cost: np.ndarray, a: np.ndarray, b: np.ndarray, plan: np.ndarray, f: np.ndarray, g: np.ndarray, done: np.ndarray
) -> None:
    """Fill ``plan``, potentials and ``done`` of all problems, in as many threads as torch uses."""
    if not np.isfinite(cost).all():
        raise ValueError("Expected `cost` to be finite, but it holds NaN or infinite values.")
    a, b = (weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY) for weights in (a, b))
    heights, widths = (np.count_nonzero(weights > 0, axis=1) for weights in (a, b))
    # Tokens with weight usually stand before those without, which are padding: then a problem is a corner.
    corner = _leads(a, heights) & _leads(b, widths)
    plain = (heights > 1) & (widths > 1) & corner

    def work(rows: range) -> None:
        for row in rows:
            if plain[row]:
                m, n = heights[row], widths[row]
                block = np.ascontiguousarray(cost[row, :m, :n])
                plan[row, :m, :n], f[row, :m], g[row, :n], done[row] = _simplex(block, a[row, :m], b[row, :n])
            elif heights[row] and widths[row]:
                i, j = np.flatnonzero(a[row] > 0), np.flatnonzero(b[row] > 0)
                block = cost[row][np.ix_(i, j)]
                plan[row][np.ix_(i, j)], f[row, i], g[row, j], done[row] = _simplex(block, a[row, i], b[row, j])
            else:
                done[row] = True

    threads = min(torch.get_num_threads(), len(cost) // WORTH_A_THREAD)
    if threads <= 1:
        work(range(len(cost)))
        return
    # Interleaved, since batches come sorted by size.
    shares = [range(start, len(cost), threads) for start in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))


def _leads(weights: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return whether the first ``count`` weights of each row are those above 0."""
    return ((weights > 0) == (np.arange(weights.shape[1]) < count[:, None])).all(axis=1)


def _simplex(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Plan, potentials of rows and columns, and whether the solver has finished, for weights that are all above 0."""
    import ot

    if len(a) == 1:
        return b[None], np.zeros(1), cost[0], True
    if len(b) == 1:
        return a[:, None], cost[:, 0], np.zeros(1), True
    plan, log = ot.emd(a, b, cost, numItermax=MAX_PIVOTS, log=True, center_dual=False, check_marginals=False)
    return plan, log["u"], log["v"], log["warning"] is None


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
    # What rounding leaves of equal sums is not a surplus.
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
