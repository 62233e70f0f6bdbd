r"""Potentials of entropic transport: half-steps, the converged solver, and gradients at its solution.

One problem is :math:`\min_P \langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,m \otimes n) + \lambda_r\,
\mathrm{KL}(P1\,|\,a) + \lambda_c\,\mathrm{KL}(P^\top 1\,|\,b)`, where :math:`\lambda = \infty` makes a marginal hard
and :math:`\lambda = 0` frees it. With potentials in units of epsilon, :math:`\varphi = f/\varepsilon` and
:math:`\gamma = g/\varepsilon`, the solution is :math:`P_{ij} = m_i n_j \exp(\varphi_i + \gamma_j - C_{ij}/\varepsilon)`
and obeys :math:`(P1)_i = a_i e^{-\kappa_r\varphi_i}` and :math:`(P^\top 1)_j = b_j e^{-\kappa_c\gamma_j}` with
:math:`\kappa = \varepsilon/\lambda`: the balanced problem is :math:`\kappa = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

__all__ = ["ConvergedPotential", "Problem", "column_half_step", "row_half_step"]


@dataclass(frozen=True, slots=True)
class Problem:
    """``B`` problems as the iterations see them; logarithms of zeros are finite.

    Attributes:
        logits: ``-C / epsilon``, ``[B, M, N]``.
        log_a: Logarithms of the row weights, ``[B, M]``.
        log_b: Of the column weights, ``[B, N]``.
        log_m: Of the reference measure's rows, ``[B, M]``.
        log_n: Of its columns, ``[B, N]``.
        kappa_rows: ``epsilon / lambda`` of the rows: 0 hard, infinite free; a scalar.
        kappa_columns: The same of the columns.
    """

    logits: Tensor
    log_a: Tensor
    log_b: Tensor
    log_m: Tensor
    log_n: Tensor
    kappa_rows: Tensor
    kappa_columns: Tensor

    def select(self, index: Tensor | slice) -> Problem:
        """Some of the problems."""
        names = ("logits", "log_a", "log_b", "log_m", "log_n")
        return replace(self, **{name: getattr(self, name)[index] for name in names})


def column_half_step(problem: Problem, phi: Tensor) -> Tensor:
    r"""Potential of the columns given that of the rows, :math:`\rho(\log b - \log n - \mathrm{LSE}_i)`."""
    lse = torch.logsumexp(problem.logits + (phi + problem.log_m)[:, :, None], dim=1)
    return (problem.log_b - problem.log_n - lse) / (1 + problem.kappa_columns)


def row_half_step(problem: Problem, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Potential of the rows given that of the columns, and the plan there.

    The plan is the mass of each row times a softmax: hard rows sum to their weight to the last bit of the dtype.
    Softmax and log-sum-exp share their exponentials, which are most of the work.
    """
    weighted = problem.logits + (gamma + problem.log_n)[:, None, :]
    largest = weighted.detach().amax(dim=2, keepdim=True)
    exponentials = (weighted - largest).exp()
    total = exponentials.sum(dim=2)
    lse = largest[:, :, 0] + total.log()
    rho = 1 / (1 + problem.kappa_rows)
    phi = rho * (problem.log_a - problem.log_m - lse)
    # log m + phi + lse, written so that for hard rows it is log a exactly.
    log_mass = problem.log_m + rho * (problem.log_a - problem.log_m) + (1 - rho) * lse
    return phi, exponentials * (log_mass.exp() / total)[:, :, None]


class ConvergedPotential(torch.autograd.Function):
    r"""Potential of the columns at convergence, with implicit gradients; that of the rows is one half-step away.

    The marginal conditions :math:`r(\varphi, \gamma; \theta) = 0` define the potentials; for a loss with gradient
    :math:`v` with respect to them, :math:`\nabla_\theta = -(\partial r/\partial\theta)^\top J^{-1} v` with
    :math:`J = \partial r/\partial(\varphi, \gamma)`, which at the solution is
    :math:`\bigl[\begin{smallmatrix}(1+\kappa_r)\mathrm{diag}(P1) & P\\ P^\top & (1+\kappa_c)\mathrm{diag}(P^\top 1)
    \end{smallmatrix}\bigr]`. Where both marginals are hard it is singular along :math:`(1, -1)` alone, a shift that no
    plan sees, and is lifted there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        log_a: Tensor,
        log_b: Tensor,
        log_m: Tensor,
        log_n: Tensor,
        kappa_rows: Tensor,
        kappa_columns: Tensor,
        tolerance: float,
        max_iterations: int,
    ) -> tuple[Tensor, Tensor]:
        from textmover.functional._scaling import converge

        problem = Problem(logits, log_a, log_b, log_m, log_n, kappa_rows, kappa_columns)
        gamma, took = converge(problem, tolerance, max_iterations)
        ctx.save_for_backward(logits, log_a, log_b, log_m, log_n, kappa_rows, kappa_columns, gamma)
        ctx.mark_non_differentiable(took)
        return gamma, took

    @staticmethod
    def backward(ctx: Any, grad_gamma: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        *saved, gamma = ctx.saved_tensors
        needed = [position for position in range(len(saved)) if ctx.needs_input_grad[position]]
        # Derivatives of the gradients are wanted: all that they depend on, the solution too, stays differentiable.
        again = torch.is_grad_enabled()
        gamma, given = gamma.double(), [tensor.double() for tensor in saved]
        phi = row_half_step(Problem(*given), gamma)[0]
        with torch.enable_grad():
            # Aliases, so that the residual is differentiated at potentials that stay where they are.
            inputs = [tensor.view_as(tensor) if again else tensor.detach().requires_grad_() for tensor in given]
            problem = Problem(*inputs)
            plan = (problem.logits + (phi + problem.log_m)[:, :, None] + (gamma + problem.log_n)[:, None, :]).exp()
            rows = plan.sum(dim=2) - _target(problem.log_a, problem.kappa_rows, phi)
            columns = plan.sum(dim=1) - _target(problem.log_b, problem.kappa_columns, gamma)
            residual = torch.cat([rows, columns], dim=1)
        adjoint = _solve_conditions(plan, grad_gamma.double(), problem.kappa_rows, problem.kappa_columns)
        wanted = [inputs[position] for position in needed]
        found = torch.autograd.grad(residual, wanted, grad_outputs=-adjoint, allow_unused=True, create_graph=again)
        grads: list[Tensor | None] = [None] * 9
        for position, grad in zip(needed, found, strict=True):
            grads[position] = None if grad is None else grad.to(saved[position].dtype)
        return tuple(grads)


def _target(log_weights: Tensor, kappa: Tensor, potential: Tensor) -> Tensor:
    """Mass that the marginal condition asks for; nothing of a free side, whose condition is not used."""
    if kappa.isinf():
        return torch.zeros_like(potential)
    return (log_weights - kappa * potential).exp()


def _solve_conditions(plan: Tensor, grad_gamma: Tensor, kappa_rows: Tensor, kappa_columns: Tensor) -> Tensor:
    """Solve the linearised conditions for ``[0, grad_gamma]``; 0 for tokens without mass and for free sides."""
    sums = torch.cat([plan.sum(dim=2), plan.sum(dim=1)], dim=1)
    rows = plan.shape[1]
    kappas = torch.cat([kappa_rows.expand(rows), kappa_columns.expand(sums.shape[1] - rows)])
    free = kappas.isinf()
    fixed = (sums <= 0) | free
    matrix = torch.diag_embed(torch.where(fixed, 1.0, (1 + kappas.where(~free, 0.0)) * sums))
    if not bool(free.any()):
        upper = torch.nn.functional.pad(plan, (rows, 0, 0, plan.shape[2]))
        matrix = matrix + upper + upper.transpose(1, 2)
    if not bool(kappas.any()):
        shift = (~fixed).to(plan.dtype)
        shift[:, rows:] *= -1
        # The mean diagonal entry keeps the lifted direction on the scale of the others.
        scale = (sums.mean(dim=1) / shift.square().sum(dim=1).clamp(min=1))[:, None, None]
        matrix = matrix + scale * shift[:, :, None] * shift[:, None, :]
    right = torch.cat([torch.zeros_like(plan[:, :, 0]), grad_gamma], dim=1)
    return torch.linalg.solve(matrix, torch.where(fixed, 0.0, right))
