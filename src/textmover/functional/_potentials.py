r"""Potentials of entropic transport: half-steps, the converged solver, and gradients at its solution.

The problem is :math:`\min_P \langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,m \otimes n) + \lambda_r\,
\mathrm{KL}(P1\,|\,a) + \lambda_c\,\mathrm{KL}(P^\top 1\,|\,b)`, where :math:`\lambda = \infty` makes a marginal hard
and :math:`\lambda = 0` frees it. With potentials in units of epsilon, :math:`\varphi = f/\varepsilon` and
:math:`\gamma = g/\varepsilon`, the solution is :math:`P_{ij} = m_i n_j \exp(\varphi_i + \gamma_j - C_{ij}/\varepsilon)`
and obeys :math:`(P1)_i = a_i e^{-\kappa_r\varphi_i}` and :math:`(P^\top 1)_j = b_j e^{-\kappa_c\gamma_j}` with
:math:`\kappa = \varepsilon/\lambda`: the balanced problem is :math:`\kappa = 0`.

The converged solver runs Sinkhorn's iterations as matrix products with kernels that have absorbed the potentials, since
a log-sum-exp over all pairs costs one exponential per entry and iteration. The kernel
:math:`K = \exp(\varphi + \gamma - C/\varepsilon)` is computed once. Each iteration multiplies it by factors
:math:`e^{\delta\varphi}, e^{\delta\gamma}` near 1, which takes two matrix-vector products. If a factor leaves the range
in which the dtype is accurate, the problem takes this step in the log domain and absorbs the result. This happens in
the first iterations, and more often for a small epsilon. The method and solution are the same for every epsilon.

The problems of a batch are independent: each absorbs, converges and stops on its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO


@dataclass(frozen=True, slots=True)
class Problem:
    """Inputs of the iterations for ``B`` problems; logarithms of zeros are finite."""

    logits: Tensor  # ``-C / epsilon``, ``[B, M, N]``
    log_a: Tensor  # logarithms of the row weights, ``[B, M]``
    log_b: Tensor  # logarithms of the column weights, ``[B, N]``
    log_m: Tensor  # logarithms of the reference measure's rows, ``[B, M]``
    log_n: Tensor  # logarithms of the reference measure's columns, ``[B, N]``
    kappa_rows: Tensor  # ``epsilon / lambda`` of the rows: 0 hard, infinite free; a scalar
    kappa_columns: Tensor  # the same for the columns

    def select(self, index: Tensor | slice) -> Problem:
        """Return some of the problems."""
        names = ("logits", "log_a", "log_b", "log_m", "log_n")
        return replace(self, **{name: getattr(self, name)[index] for name in names})


def column_half_step(problem: Problem, phi: Tensor) -> Tensor:
    r"""Return the column potential given the row potential, :math:`\rho(\log b - \log n - \mathrm{LSE}_i)`."""
    lse = torch.logsumexp(problem.logits + (phi + problem.log_m)[:, :, None], dim=1)
    return (problem.log_b - problem.log_n - lse) / (1 + problem.kappa_columns)


def row_half_step(problem: Problem, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row potential given the column potential, and the plan at these potentials.

    The plan is the mass of each row times a softmax, so hard rows sum exactly to their weight in the dtype. Softmax and
    log-sum-exp share their exponentials, which are most of the work.
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
    r"""Column potential at convergence, with implicit gradients; one half-step gives the row potential.

    The marginal conditions :math:`r(\varphi, \gamma; \theta) = 0` define the potentials; for a loss with gradient
    :math:`v` with respect to them, :math:`\nabla_\theta = -(\partial r/\partial\theta)^\top J^{-1} v` with
    :math:`J = \partial r/\partial(\varphi, \gamma)`, which at the solution is
    :math:`\bigl[\begin{smallmatrix}(1+\kappa_r)\mathrm{diag}(P1) & P\\ P^\top & (1+\kappa_c)\mathrm{diag}(P^\top 1)
    \end{smallmatrix}\bigr]`. If both marginals are hard, it is singular only along :math:`(1, -1)`, a shift that does
    not change the plan, and a multiple of the projection on this direction is added.
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
        problem = Problem(logits, log_a, log_b, log_m, log_n, kappa_rows, kappa_columns)
        gamma, counts = converge(problem, tolerance, max_iterations)
        ctx.save_for_backward(logits, log_a, log_b, log_m, log_n, kappa_rows, kappa_columns, gamma)
        ctx.mark_non_differentiable(counts)
        return gamma, counts

    @staticmethod
    def backward(ctx: Any, grad_gamma: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        *saved, gamma = ctx.saved_tensors
        needed = [position for position in range(len(saved)) if ctx.needs_input_grad[position]]
        # For second derivatives, everything that the gradients depend on, including the solution, stays differentiable.
        again = torch.is_grad_enabled()
        gamma, inputs64 = gamma.double(), [tensor.double() for tensor in saved]
        phi = row_half_step(Problem(*inputs64), gamma)[0]
        with torch.enable_grad():
            # Aliases, so that the residual is differentiated with the potentials held constant.
            inputs = [tensor.view_as(tensor) if again else tensor.detach().requires_grad_() for tensor in inputs64]
            problem = Problem(*inputs)
            plan = (problem.logits + (phi + problem.log_m)[:, :, None] + (gamma + problem.log_n)[:, None, :]).exp()
            rows = plan.sum(dim=2) - _target(problem.log_a, problem.kappa_rows, phi)
            columns = plan.sum(dim=1) - _target(problem.log_b, problem.kappa_columns, gamma)
            residual = torch.cat([rows, columns], dim=1)
        adjoint = _solve_conditions(plan, grad_gamma.double(), problem.kappa_rows, problem.kappa_columns)
        targets = [inputs[position] for position in needed]
        derivatives = torch.autograd.grad(
            residual, targets, grad_outputs=-adjoint, allow_unused=True, create_graph=again
        )
        grads: list[Tensor | None] = [None] * 9
        for position, grad in zip(needed, derivatives, strict=True):
            grads[position] = None if grad is None else grad.to(saved[position].dtype)
        return tuple(grads)


def _target(log_weights: Tensor, kappa: Tensor, potential: Tensor) -> Tensor:
    """Return the mass required by the marginal condition; 0 for a free side, whose condition is not used."""
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
        # Scaling by the mean diagonal entry keeps the matrix well conditioned.
        scale = (sums.mean(dim=1) / shift.square().sum(dim=1).clamp(min=1))[:, None, None]
        matrix = matrix + scale * shift[:, :, None] * shift[:, None, :]
    right = torch.cat([torch.zeros_like(plan[:, :, 0]), grad_gamma], dim=1)
    return torch.linalg.solve(matrix, torch.where(fixed, 0.0, right))


RANGE = {torch.float32: (10.0, 1e-30), torch.float64: (100.0, 1e-200)}
"""By dtype: the largest logarithm of a factor, and the kernel entry below which it is set to 0. Products of entries and
factors then neither overflow nor become denormal (which is about a hundred times slower on CPUs), and the dropped
entries are far below the rounding error of a marginal."""

SPARSE = 0.5
"""Share of unconverged problems at or below which the batch is reduced to them."""

WORTH_THREADS = 1 << 21
"""Total kernel entries below which one thread is used. Several threads synchronise twice per iteration, and on a busy
machine each synchronisation takes longer than a hundred products."""


@torch.no_grad()
def converge(problem: Problem, tolerance: float, max_iterations: int) -> tuple[Tensor, Tensor]:
    r"""Iterate each problem until its marginal error is at most ``tolerance``.

    Each iteration fits the columns, then the rows. Between them, if a marginal is soft and none is free, both
    potentials are shifted by the constant that maximises the dual value; without this, the total mass converges slowly
    for :math:`\lambda \gg \varepsilon`.

    Reference: Schmitzer 2019 (absorption); Séjourné, Vialard and Peyré 2022 (the shift).
    """
    with _threads_for(problem.logits):
        return _converge(problem, tolerance, max_iterations)


def _converge(problem: Problem, tolerance: float, max_iterations: int) -> tuple[Tensor, Tensor]:
    gamma = torch.zeros_like(problem.log_b)
    counts = torch.full((len(gamma),), max_iterations, device=gamma.device)
    rows = torch.arange(len(gamma), device=gamma.device)
    working = torch.ones_like(rows, dtype=torch.bool)
    iterates = _Iterates(problem)
    for step in range(1, max_iterations if len(gamma) else 1):
        reached, error = iterates.advance()
        done = working & (error <= tolerance)
        if bool(done.any()):
            gamma[rows[done]], counts[rows[done]] = reached[done], step
            working = working & ~done
            left = int(working.sum())
            if left == 0:
                return gamma, counts
            if left <= SPARSE * len(working):
                iterates.keep(working)
                rows, working = rows[working], working[working]
    gamma[rows[working]] = iterates.reached[working]
    return gamma, counts


@contextlib.contextmanager
def _threads_for(kernel: Tensor) -> Iterator[None]:
    """Context that limits torch to one thread for small kernels on the CPU."""
    threads = torch.get_num_threads()
    if kernel.device.type != "cpu" or threads == 1 or kernel.numel() >= WORTH_THREADS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Iterates:
    """Potentials of unconverged problems: ``phi`` and ``gamma``, absorbed into the kernel, and the factors since."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.largest, self.smallest = RANGE[problem.logits.dtype]
        rows, columns = float(problem.kappa_rows), float(problem.kappa_columns)
        self.free_columns = columns == float("inf")
        self.is_soft = 0 < rows + columns < float("inf")
        self.rho_rows, self.rho_columns = 1 / (1 + rows), 1 / (1 + columns)
        self.phi, self.gamma = torch.zeros_like(problem.log_a), torch.zeros_like(problem.log_b)
        self.d_phi, self.d_gamma = torch.zeros_like(problem.log_a), torch.zeros_like(problem.log_b)
        self.kernel = torch.empty_like(problem.logits)
        self._absorb(slice(None))

    @property
    def reached(self) -> Tensor:
        """Current column potential."""
        return self.gamma + self.d_gamma

    def keep(self, working: Tensor) -> None:
        """Continue with a subset of the problems."""
        self.problem = self.problem.select(working)
        for name in ("phi", "gamma", "d_phi", "d_gamma", "kernel"):
            setattr(self, name, getattr(self, name)[working])

    def advance(self) -> tuple[Tensor, Tensor]:
        """Return the current potentials and their marginal errors, and run one iteration."""
        problem, reached = self.problem, self.reached
        sums = torch.bmm(self.d_phi.exp()[:, None], self.kernel)[:, 0]
        if self.free_columns:
            error = torch.zeros_like(sums[:, 0])
        else:
            required = (problem.log_b - problem.kappa_columns * reached).exp()
            error = (self.d_gamma.exp() * sums - required).abs().sum(dim=1)
        d_gamma = self._factor(problem.log_b, sums, self.rho_columns, self.gamma)
        if self.is_soft:
            shift = self._shift(problem, self.phi + self.d_phi, self.gamma + d_gamma)
            d_gamma = torch.where(problem.log_b > LOG_ZERO / 2, d_gamma - shift, 0.0)
        sums = torch.bmm(self.kernel, d_gamma.exp()[:, :, None])[:, :, 0]
        d_phi = self._factor(problem.log_a, sums, self.rho_rows, self.phi)
        # Not `>`, so that NaN, the result of an overflow of the other factor, also counts as out of range.
        out_of_range = ~(torch.maximum(d_phi.abs().amax(dim=1), d_gamma.abs().amax(dim=1)) <= self.largest)
        if bool(out_of_range.any()):
            self._absorb(out_of_range.nonzero()[:, 0])  # replaces the step that failed
            d_phi, d_gamma = d_phi.where(~out_of_range[:, None], 0.0), d_gamma.where(~out_of_range[:, None], 0.0)
        self.d_phi, self.d_gamma = d_phi, d_gamma
        return reached, error

    def _factor(self, log_weights: Tensor, sums: Tensor, rho: float, absorbed: Tensor) -> Tensor:
        """Return the log factor that fits a side, given the kernel's sums over the other; 0 without weight."""
        factor = rho * (log_weights - sums.clamp(min=self.smallest).log()) - (1 - rho) * absorbed
        return torch.where(log_weights > LOG_ZERO / 2, factor, 0.0)

    @staticmethod
    def _shift(problem: Problem, phi: Tensor, gamma: Tensor) -> Tensor:
        """Return the constant to add to ``phi`` and subtract from ``gamma`` to maximise the dual value, ``[B, 1]``."""
        rows = torch.logsumexp(problem.log_a - problem.kappa_rows * phi, dim=1, keepdim=True)
        columns = torch.logsumexp(problem.log_b - problem.kappa_columns * gamma, dim=1, keepdim=True)
        return (rows - columns) / (problem.kappa_rows + problem.kappa_columns)

    def _absorb(self, index: Tensor | slice) -> None:
        """Run one iteration of some problems in the log domain, and recompute their kernels."""
        part, phi = self.problem.select(index), (self.phi + self.d_phi)[index]
        gamma = column_half_step(part, phi)
        if self.is_soft:
            gamma = gamma - self._shift(part, phi, gamma)
        phi, plan = row_half_step(part, gamma)
        self.kernel[index] = plan.masked_fill_(plan < self.smallest, 0.0)
        self.phi[index], self.gamma[index] = phi, gamma
        self.d_phi[index], self.d_gamma[index] = 0.0, 0.0
