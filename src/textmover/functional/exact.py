"""Exact optimal transport (earth mover's distance): network simplex on the CPU, gradients by the envelope theorem.

Partial transport moves all mass of the lighter side; the surplus of the heavier side stays.
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
"""Maximum steps of the network simplex; two texts of 512 tokens take about ten thousand."""

TINY = 1e-300
"""Divisor for the weights of a text without weight."""

WORTH_A_THREAD = 16
"""Minimum number of problems per thread."""


class ExactResult(NamedTuple):
    r"""Solution of ``B`` transport problems.

    Attributes:
        plan: An optimal plan, without gradient.
        transport: Transport cost :math:`\langle P, C\rangle`.
        converged: False if the solver reached its limit of steps.
    """

    plan: Float[Tensor, "B M N"]
    transport: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"]


def exact_transport(cost: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]) -> ExactResult:
    r"""Solve :math:`\min_P \langle P, C\rangle` with row sums ``a`` and column sums ``b``.

    Each problem is solved by POT's network simplex in float64, several in parallel threads. The value is piecewise
    linear in the cost and differentiable if the plan is unique. Its gradient with respect to the cost is the plan
    (envelope theorem). With respect to the weights it is the dual potentials minus their mean, since both sides are
    scaled to mass 1 first. If several plans are optimal, it is a subgradient. Second derivatives exist only for the
    cost; they raise an error if the weights require gradients. Without mass on one side, plan and value are 0.

    Args:
        cost: Cost of each pair, any finite values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.

    Returns:
        Plan, transport cost in the dtype of the cost, and whether the solver finished.

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
    """Solver of a batch with gradients by the envelope theorem."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        arrays = [tensor.detach().cpu().double().numpy() for tensor in (cost, a, b)]
        plan, f, g = (np.zeros_like(array) for array in arrays)
        done = np.zeros(len(arrays[0]), dtype=bool)
        _solve_all(arrays[0], arrays[1], arrays[2], plan, f, g, done)
        plans, f_, g_ = (torch.from_numpy(array).to(cost) for array in (plan, f, g))
        converged = torch.from_numpy(done).to(cost.device)
        ctx.save_for_backward(plans, f_, g_, a, b)
        ctx.mark_non_differentiable(plans, converged)
        return plans, (plans * cost).sum(dim=(1, 2)), converged

    @staticmethod
    def backward(ctx: Any, _: Tensor, grad: Tensor, __: Tensor) -> tuple[Tensor | None, ...]:
        plan, f, g, a, b = ctx.saved_tensors
        if any(ctx.needs_input_grad[1:]):  # otherwise the gradient is the plan, which is constant
            plan, f, g = _FirstOrder.apply(plan, f, g, a, b)  # type: ignore[no-untyped-call]
        grads: list[Tensor | None] = [grad[:, None, None] * plan if ctx.needs_input_grad[0] else None]
        for needed, potential, weights in zip(ctx.needs_input_grad[1:], (f, g), (a, b), strict=True):
            mass = weights.sum(dim=1, keepdim=True)
            mass = torch.where(mass > 0, mass, 1.0)
            mean = (potential * weights).sum(dim=1, keepdim=True) / mass
            # A token without weight has no potential and hence no gradient.
            slope = torch.where(weights > 0, potential - mean, 0.0)
            grads.append(grad[:, None] * slope / mass if needed else None)
        return tuple(grads)


class _FirstOrder(torch.autograd.Function):
    """Identity on plan and potentials that raises an error in second derivatives, which do not exist for weights."""

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
    """Fill ``plan``, potentials and ``done`` of all problems, with torch's number of threads."""
    if not np.isfinite(cost).all():
        raise ValueError("Expected `cost` to be finite, but it holds NaN or infinite values.")
    a, b = (weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY) for weights in (a, b))
    heights, widths = (np.count_nonzero(weights > 0, axis=1) for weights in (a, b))
    # Tokens with weight usually come before padding; the problem is then the upper left corner of the block.
    corner = _come_first(a, heights) & _come_first(b, widths)
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
    # Interleaved, since batches are sorted by size.
    shares = [range(start, len(cost), threads) for start in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))


def _come_first(weights: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return whether the first ``count`` weights of each row are those above 0."""
    return ((weights > 0) == (np.arange(weights.shape[1]) < count[:, None])).all(axis=1)


def _simplex(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Return plan, potentials of rows and columns, and whether the solver finished, for positive weights."""
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
        plan: An optimal plan without gradient, with row sums at most ``a`` and column sums at most ``b``.
        work: Cost of the plan :math:`\langle P, C\rangle`.
        mass: Moved mass, :math:`\min(\sum a, \sum b)`.
        emd: Earth mover's distance, work per mass; 0 if no mass is moved.
        converged: False if the solver reached its limit of steps.
    """

    plan: Float[Tensor, "B M N"]
    work: Float[Tensor, " B"]
    mass: Float[Tensor, " B"]
    emd: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"]


def partial_transport(cost: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]) -> PartialResult:
    r"""Solve :math:`\min_P \langle P, C\rangle` where rows may stay below ``a`` and columns below ``b``.

    .. math:: P \ge 0,\quad P\mathbf 1 \le a,\quad P^\top\mathbf 1 \le b,\quad \sum P = \min(\sum a, \sum b)

    A dummy point on the lighter side receives the surplus of the heavier side at cost 0, and
    :func:`~textmover.functional.exact_transport` solves this balanced problem. The solution is exact: without the
    dummy, its plans are exactly the feasible plans here, since each point sends its unmoved mass to the dummy.

    With equal sums, such as weights normalised to 1, this is the balanced problem. Only unnormalised weights (raw
    tf-idf, or 1 for each word) leave mass of the heavier side unmoved. Gradients with respect to cost and weights are
    those of the envelope theorem, one of the subgradients if the sums are equal.

    Args:
        cost: Cost of each pair, any finite values.
        a: Row weights, at least 0, of any sum; 0 where padded.
        b: Column weights, likewise.

    Returns:
        Plan, work, mass, earth mover's distance (within the range of the costs), and whether the solver finished.

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
    # A difference within rounding is not a surplus.
    noise = (a.shape[1] + b.shape[1]) * torch.finfo(a.dtype).eps * most
    surplus = torch.where(surplus.abs() <= noise, 0.0, surplus)
    points = cost, a, b
    if bool((surplus != 0).any()):
        # At least one of the two dummies of each problem has weight 0 and is ignored.
        points = (
            torch.nn.functional.pad(cost, (0, 1, 0, 1)),
            torch.cat([a, (-surplus).relu()[:, None]], dim=1),
            torch.cat([b, surplus.relu()[:, None]], dim=1),
        )
    result = exact_transport(*points)  # both sides scaled to mass 1
    work = result.transport * most
    plan = result.plan[:, : a.shape[1], : b.shape[1]] * most.detach()[:, None, None]
    return PartialResult(plan, work, mass, per_mass(work, mass), result.converged)


def per_mass(work: Float[Tensor, " B"], mass: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return work per mass, 0 without mass; gradients are finite everywhere."""
    nothing = mass == 0  # false for NaN, which is propagated
    return torch.where(nothing, 0.0, work / torch.where(nothing, 1.0, mass))
