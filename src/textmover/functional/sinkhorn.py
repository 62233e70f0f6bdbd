r"""Entropic optimal transport between two weighted sets, batched, masked, in the log domain.

The problem is :math:`\min_P \langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,a \otimes b)` with row sums ``a`` and
column sums ``b``; its solution has the form :math:`P_{ij} = a_i b_j \exp((f_i + g_j - C_{ij})/\varepsilon)`. The
reference measure :math:`a \otimes b` (rather than the plain entropy, which has the same solution) makes a token of
weight 0 exactly invisible at every iteration, and splitting a token in two equal halves changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import check_problem, check_temperature, log_weights

__all__ = ["SinkhornResult", "sinkhorn"]

CHECK_EVERY = 10
"""Iterations between two looks at the marginals: a look costs as much as an iteration."""


class SinkhornResult(NamedTuple):
    r"""Solution of ``B`` entropic transport problems.

    Attributes:
        plan: Transport plan ``P``, row sums exactly ``a``.
        f: Potential of the rows, in the units of the cost; 0 where the weight is 0.
        g: Potential of the columns, likewise.
        transport: Transport cost :math:`\langle P, C\rangle`.
        objective: Regularised value :math:`\langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,a\otimes b)`
            at this plan (the primal value; at convergence also the dual one).
        marginal_error: :math:`\sum_j |\sum_i P_{ij} - b_j|`.
        converged: Whether that error is within the tolerance; ``None`` for a fixed number of iterations.
        iterations: Iterations that each problem took.
    """

    plan: Float[Tensor, "B M N"]
    f: Float[Tensor, "B M"]
    g: Float[Tensor, "B N"]
    transport: Float[Tensor, " B"]
    objective: Float[Tensor, " B"]
    marginal_error: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"] | None
    iterations: Int[Tensor, " B"]


def sinkhorn(
    cost: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    epsilon: Float[Tensor, ""] | float,
    *,
    iterations: int | None = None,
    tolerance: float | None = None,
    max_iterations: int = 1000,
) -> SinkhornResult:
    r"""Solve balanced entropic transport by Sinkhorn's iterations.

    Each iteration fits the columns, then the rows: :math:`g_j \leftarrow -\varepsilon\log\sum_i a_i
    e^{(f_i - C_{ij})/\varepsilon}`, then :math:`f` alike, starting from :math:`f = 0`.

    With ``iterations`` the loop is unrolled and differentiated as it is. With ``tolerance`` each problem stops on its
    own (so that it does not depend on its batch mates), and gradients come from the implicit function theorem at the
    solution: memory does not grow with iterations, and they are as exact as the solution is. A problem that has not
    converged after ``max_iterations`` says so in ``converged``; its gradients are then approximate. A problem without
    mass on one side moves nothing: its plan and values are 0.

    Args:
        cost: Cost of each pair, any real values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.
        epsilon: Strength of the regularisation, above 0, in units of the cost; a tensor gets a gradient.
        iterations: Number of iterations, at least 1. Exactly one of this and ``tolerance`` is given.
        tolerance: Largest marginal error to stop at, in units of mass (the whole mass is 1).
        max_iterations: Bound on the iterations where ``tolerance`` is given.

    Returns:
        Plan, potentials, values, and how well the marginals are met.

    Raises:
        ValueError: If shapes do not fit, ``epsilon`` is not positive, or not exactly one stopping rule is given.
        TypeError: If dtypes or devices are mixed, or below float32.

    Example:
        >>> half = torch.full((1, 2), 0.5)
        >>> result = sinkhorn(1 - torch.eye(2)[None], half, half, 0.1, tolerance=1e-6)
        >>> result.transport, bool(result.converged)
        (tensor([4.5398e-05]), True)

    Reference:
        Cuturi 2013; Peyré and Cuturi 2019, section 4; Cuturi et al. 2020 for the implicit gradients.
    """
    check_problem(cost, a, b, name="cost")
    check_temperature(epsilon, name="epsilon")
    if (iterations is None) == (tolerance is None):
        raise ValueError("Expected exactly one of `iterations` and `tolerance`, but got both or neither.")
    if iterations is not None and iterations < 1:
        raise ValueError(f"Expected `iterations` to be at least 1, but got {iterations}.")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"Expected `tolerance` to be positive, but got {tolerance}.")
    if max_iterations < 1:
        raise ValueError(f"Expected `max_iterations` to be at least 1, but got {max_iterations}.")
    has_mass = ((a > 0).any(dim=1) & (b > 0).any(dim=1))[:, None]
    a, b = a.where(has_mass, 0.0), b.where(has_mass, 0.0)
    log_a, log_b = log_weights(a), log_weights(b)
    epsilon = torch.as_tensor(epsilon, dtype=cost.dtype, device=cost.device)
    logits = -cost / epsilon
    if iterations is not None:
        f = torch.zeros_like(a)
        for _ in range(iterations):
            g = _column_potential(logits, f, log_a)
            f, plan = _row_potential_and_plan(logits, g, a, log_b)
        took = torch.full((len(cost),), iterations, device=cost.device)
    else:
        g, took = _ConvergedPotential.apply(logits, a, b, tolerance, max_iterations)  # type: ignore[no-untyped-call]
        f, plan = _row_potential_and_plan(logits, g, a, log_b)
    error = (plan.sum(dim=1) - b).abs().sum(dim=1).detach()
    f, g = (epsilon * f).where(a > 0, 0.0), (epsilon * g).where(b > 0, 0.0)
    return SinkhornResult(
        plan=plan,
        f=f,
        g=g,
        transport=(plan * cost).sum(dim=(1, 2)),
        objective=(plan.sum(dim=2) * f).sum(dim=1) + (plan.sum(dim=1) * g).sum(dim=1),
        marginal_error=error,
        converged=None if tolerance is None else error <= tolerance,
        iterations=took,
    )


def _column_potential(logits: Tensor, f: Tensor, log_a: Tensor) -> Tensor:
    """Potential of the columns that makes the column sums ``b``, in units of epsilon."""
    return -torch.logsumexp(logits + (f + log_a)[:, :, None], dim=1)


def _row_potential_and_plan(logits: Tensor, g: Tensor, a: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    """Potential of the rows that makes the row sums ``a``, and the plan there.

    The plan is taken from a softmax: its rows sum to ``a`` to the last bit that float32 has.
    """
    weighted = logits + (g + log_b)[:, None, :]
    return -torch.logsumexp(weighted, dim=2), a[:, :, None] * weighted.softmax(dim=2)


class _ConvergedPotential(torch.autograd.Function):
    r"""Potential of the columns at convergence, with implicit gradients; that of the rows is one half-step away.

    The marginal conditions :math:`r(f, g; \theta) = 0` define the potentials; for a loss with gradient :math:`v` with
    respect to them, :math:`\nabla_\theta = -(\partial r/\partial\theta)^\top J^{-1} v` with
    :math:`J = \partial r/\partial(f, g)`, which for this problem is
    :math:`\bigl[\begin{smallmatrix}\mathrm{diag}(P1) & P\\ P^\top & \mathrm{diag}(P^\top 1)\end{smallmatrix}\bigr]`.
    It is singular along :math:`(1, -1)` alone, a shift that no plan sees, and is lifted there.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, a: Tensor, b: Tensor, tolerance: float, max_iterations: int
    ) -> tuple[Tensor, Tensor]:
        log_a, log_b = log_weights(a), log_weights(b)
        f, g = torch.zeros_like(a), torch.zeros_like(b)
        active = torch.ones(len(a), dtype=torch.bool, device=a.device)
        took = torch.zeros(len(a), dtype=torch.long, device=a.device)
        for step in range(1, max_iterations + 1):
            next_g = _column_potential(logits, f, log_a)
            next_f, plan = _row_potential_and_plan(logits, next_g, a, log_b)
            f, g = torch.where(active[:, None], next_f, f), torch.where(active[:, None], next_g, g)
            took += active
            if step % CHECK_EVERY == 0 or step == max_iterations:
                active = active & ((plan.sum(dim=1) - b).abs().sum(dim=1) > tolerance)
                if not active.any():
                    break
        ctx.save_for_backward(logits, a, b, f, g)
        ctx.mark_non_differentiable(took)
        return g, took

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_g: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        saved = ctx.saved_tensors
        logits, a, b, f, g = (tensor.detach().double() for tensor in saved)
        needed = [position for position in range(3) if ctx.needs_input_grad[position]]
        with torch.enable_grad():
            inputs = [tensor.requires_grad_() for tensor in (logits, a, b)]
            plan = (logits + (f + log_weights(a))[:, :, None] + (g + log_weights(b))[:, None, :]).exp()
            rows, columns = plan.sum(dim=2), plan.sum(dim=1)
            residual = torch.cat([rows - a, columns - b], dim=1)
        adjoint = _solve_marginals(plan.detach(), torch.cat([torch.zeros_like(f), grad_g], dim=1))
        found = torch.autograd.grad(residual, [inputs[position] for position in needed], grad_outputs=-adjoint)
        grads: list[Tensor | None] = [None, None, None]
        for position, grad in zip(needed, found, strict=True):
            grads[position] = grad.to(saved[position].dtype)
        return grads[0], grads[1], grads[2], None, None


def _solve_marginals(plan: Tensor, right: Tensor) -> Tensor:
    """Solve the linearised marginal conditions for ``right [B, M + N]``; 0 for tokens without mass."""
    sums = torch.cat([plan.sum(dim=2), plan.sum(dim=1)], dim=1)
    rows = plan.shape[1]
    matrix = torch.diag_embed(torch.where(sums > 0, sums, 1.0))
    matrix[:, :rows, rows:] = plan
    matrix[:, rows:, :rows] = plan.transpose(1, 2)
    shift = (sums > 0).to(plan.dtype)
    shift[:, rows:] *= -1
    # The mean diagonal entry keeps the lifted direction on the scale of the others.
    scale = (sums.mean(dim=1) / shift.square().sum(dim=1).clamp(min=1))[:, None, None]
    matrix = matrix + scale * shift[:, :, None] * shift[:, None, :]
    right = torch.where(sums > 0, right, 0.0)
    return torch.linalg.solve(matrix, right)
