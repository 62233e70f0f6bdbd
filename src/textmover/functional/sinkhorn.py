r"""Entropic optimal transport between two weighted sets, balanced or unbalanced; batched and masked.

The balanced problem is :math:`\min_P \langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,a \otimes b)` with row sums
``a`` and column sums ``b``; its solution has the form :math:`P_{ij} = a_i b_j \exp((f_i + g_j - C_{ij})/\varepsilon)`.
With the reference measure :math:`a \otimes b` (instead of the plain entropy, which has the same solution), a token of
weight 0 has no effect at any iteration, and splitting a token in two equal halves changes nothing.

The lazy earth mover's distance is unbalanced: it leaves tokens unmatched, with a penalty for each side.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import (
    LOG_ZERO,
    check_problem,
    check_temperature,
    log_weights,
    widest_float,
    with_empty_token,
)
from textmover.functional._potentials import ConvergedPotential, Problem, column_half_step, row_half_step
from textmover.functional.exact import exact_transport
from textmover.functional.greedy import greedy_matching
from textmover.types import MatchResult

Measure = Literal["entropy", "product"]


class SinkhornResult(NamedTuple):
    r"""Solution of ``B`` entropic transport problems.

    Attributes:
        plan: Transport plan ``P``; hard rows sum exactly to ``a``.
        f: Potential of the rows, in the units of the cost; 0 where the weight is 0.
        g: Potential of the columns, likewise.
        transport: Transport cost :math:`\langle P, C\rangle`.
        objective: Regularised value at this plan (the primal value; at convergence also the dual one).
        marginal_error: :math:`\sum_j |\sum_i P_{ij} - b_j e^{-g_j/\lambda_c}|`; balanced: distance of the column sums
            from ``b``.
        converged: Whether the error is within the tolerance; ``None`` for a fixed number of iterations.
        iterations: Number of iterations of each problem.
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
    e^{(f_i - C_{ij})/\varepsilon}`, then :math:`f` in the same way, starting from :math:`f = 0`.

    With ``iterations``, gradients are those of the unrolled loop. With ``tolerance``, each problem stops on its own, so
    that it does not depend on the rest of its batch, and gradients come from the implicit function theorem: memory does
    not grow with the iterations, and first and second derivatives are as accurate as the solution. If a problem has not
    converged after ``max_iterations``, ``converged`` is False and its gradients are approximate. With ``tolerance``,
    computations are in float64 if the device supports it. Without mass on one side, plan and values are 0.

    Args:
        cost: Cost of each pair, any real values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.
        epsilon: Strength of the regularisation, above 0, in units of the cost; a tensor gets a gradient.
        iterations: Number of iterations, at least 1. Give exactly one of this and ``tolerance``.
        tolerance: Largest marginal error to stop at, in units of mass (the whole mass is 1).
        max_iterations: Maximum number of iterations with a ``tolerance``.

    Returns:
        Plan, potentials, values and marginal error.

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
    infinite = float("inf")
    stop = (iterations, tolerance, max_iterations)
    return _solve(cost, a, b, epsilon, (infinite, infinite), "product", (a != 0, b != 0), stop)


def unbalanced_sinkhorn(
    cost: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    epsilon: Float[Tensor, ""] | float,
    row_penalty: Float[Tensor, ""] | float,
    column_penalty: Float[Tensor, ""] | float,
    *,
    measure: Measure = "entropy",
    row_mask: Bool[Tensor, "B M"] | None = None,
    column_mask: Bool[Tensor, "B N"] | None = None,
    iterations: int | None = None,
    tolerance: float | None = None,
    max_iterations: int = 1000,
) -> SinkhornResult:
    r"""Solve unbalanced entropic transport, with a penalty for the deviation of each marginal.

    :math:`\min_P \langle P, C\rangle + \lambda_r\mathrm{KL}(P1\,|\,a) + \lambda_c\mathrm{KL}(P^\top 1\,|\,b) + R(P)`
    with :math:`R = -\varepsilon H(P)`, :math:`H = -\sum P(\log P - 1)`, or
    :math:`R = \varepsilon\,\mathrm{KL}(P\,|\,a\otimes b)`. An infinite penalty makes its marginal hard; 0 frees it, so
    that the side receives any mass within its mask. With both infinite this is :func:`sinkhorn` (at convergence, for
    either measure); with one infinite and the other 0 the solution is a softmax, reached in one iteration.

    Stopping, gradients and degenerate problems are as in :func:`sinkhorn`; penalties given as tensors get gradients.

    Args:
        cost: Cost of each pair, any real values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.
        epsilon: Strength of the regularisation, above 0, in units of the cost; a tensor gets a gradient.
        row_penalty: :math:`\lambda_r` in [0, inf], in units of the cost.
        column_penalty: :math:`\lambda_c` in [0, inf].
        measure: ``"entropy"`` (as in Lazy-EMD) or ``"product"``. With the product measure, a token of weight 0 has no
            effect and a free side is drawn to its weights; with the entropy, all tokens count equally.
        row_mask: Rows that may receive mass if they are free and the measure is the entropy; if ``None``, those with
            weight.
        column_mask: The same for columns.
        iterations: Number of iterations, at least 1. Give exactly one of this and ``tolerance``.
        tolerance: Largest marginal error to stop at, in units of mass.
        max_iterations: Maximum number of iterations with a ``tolerance``.

    Returns:
        Plan, potentials, values and the error of the column conditions (the row conditions hold exactly).

    Raises:
        ValueError: If shapes do not fit, a number is out of range, or not exactly one stopping rule is given.
        TypeError: If dtypes or devices are mixed, or below float32.

    Example:
        >>> half = torch.full((1, 2), 0.5)
        >>> cost = torch.tensor([[[0.0, 1.0], [1.0, 0.8]]])
        >>> result = unbalanced_sinkhorn(cost, half, half, 0.01, 0.2, 0.2, tolerance=1e-6)
        >>> [round(mass, 2) for mass in result.plan.sum(dim=2)[0].tolist()]
        [0.51, 0.07]

    Reference:
        Chizat et al. 2018; Lazy-EMD (Chen et al., IJCAI 2020), Definition 4.
    """
    for name, penalty in (("row_penalty", row_penalty), ("column_penalty", column_penalty)):
        if not bool(penalty >= 0):
            raise ValueError(f"Expected `{name}` to be a number from 0 to infinity, but got {penalty}.")
    masks = (a != 0 if row_mask is None else row_mask, b != 0 if column_mask is None else column_mask)
    stop = (iterations, tolerance, max_iterations)
    return _solve(cost, a, b, epsilon, (row_penalty, column_penalty), measure, masks, stop)


def _solve(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: Tensor | float,
    penalties: tuple[Tensor | float, Tensor | float],
    measure: Measure,
    masks: tuple[Tensor, Tensor],
    stop: tuple[int | None, float | None, int],
) -> SinkhornResult:
    iterations, tolerance, max_iterations = stop
    if measure not in ("entropy", "product"):
        raise ValueError(f"Expected `measure` to be 'entropy' or 'product', but got {measure!r}.")
    check_problem(cost, a, b, name="cost")
    check_temperature(epsilon, name="epsilon")
    _check_stop(*stop)
    if not (a.shape[1] and b.shape[1]):
        cost, a, b, row_mask, column_mask = with_empty_token(cost, a, b, *masks)
        found = _solve(cost, a, b, epsilon, penalties, measure, (row_mask, column_mask), stop)
        return found._replace(plan=found.plan[:, :-1, :-1], f=found.f[:, :-1], g=found.g[:, :-1])
    dtype = cost.dtype
    if tolerance is not None:
        # A cost divided by a small epsilon is a large exponent, whose float32 rounding can exceed the tolerance.
        cost, a, b = (one.to(widest_float(one.device)) for one in (cost, a, b))
    # Not `> 0`, here and below, so that a NaN weight is propagated and not treated as a weight of 0.
    has_mass = (~(a <= 0)).any(dim=1, keepdim=True) & (~(b <= 0)).any(dim=1, keepdim=True)
    a, b = a.where(has_mass, 0.0), b.where(has_mass, 0.0)
    epsilon = torch.as_tensor(epsilon, dtype=cost.dtype, device=cost.device)
    row_penalty, column_penalty = (torch.as_tensor(one, dtype=cost.dtype, device=cost.device) for one in penalties)
    log_a, log_b = log_weights(a), log_weights(b)
    if measure == "product":
        log_m, log_n = log_a, log_b
    else:
        # Only a free side uses tokens without weight; on other sides they would affect the first iterations.
        rows, columns = (
            mask & has_mass & (~(weights <= 0) | (penalty == 0))
            for mask, weights, penalty in zip(masks, (a, b), (row_penalty, column_penalty), strict=True)
        )
        log_m, log_n = (torch.where(mask, 0.0, LOG_ZERO).to(cost.dtype) for mask in (rows, columns))
        log_a, log_b = log_a.where(rows, LOG_ZERO), log_b.where(columns, LOG_ZERO)
    problem = Problem(
        cost / -epsilon, log_a, log_b, log_m, log_n, _kappa(epsilon, row_penalty), _kappa(epsilon, column_penalty)
    )
    if iterations is not None:
        phi = torch.zeros_like(a)
        for _ in range(iterations):
            gamma = column_half_step(problem, phi)
            phi, plan = row_half_step(problem, gamma)
        counts = torch.full((len(cost),), iterations, device=cost.device)
    else:
        parts = (problem.logits, log_a, log_b, log_m, log_n, problem.kappa_rows, problem.kappa_columns)
        gamma, counts = ConvergedPotential.apply(*parts, tolerance, max_iterations)  # type: ignore[no-untyped-call]
        phi, plan = row_half_step(problem, gamma)
    f, g = (epsilon * phi).where(a > 0, 0.0), (epsilon * gamma).where(b > 0, 0.0)
    rows, columns = plan.sum(dim=2), plan.sum(dim=1)
    error = _column_error(columns, b, g, column_penalty)
    # epsilon KL(P | measure) is <P, f + g - C>, up to terms of the masses.
    objective = (
        ((rows * f).sum(dim=1) + (columns * g).sum(dim=1))
        + epsilon * _mass_difference(rows, a, b, measure)
        + (_marginal_penalty(rows, a, row_penalty) + _marginal_penalty(columns, b, column_penalty))
    )
    return SinkhornResult(
        plan=plan.to(dtype),
        f=f.to(dtype),
        g=g.to(dtype),
        transport=(plan * cost).sum(dim=(1, 2)).to(dtype),
        objective=objective.to(dtype),
        marginal_error=error.to(dtype),
        converged=None if tolerance is None else error <= tolerance,
        iterations=counts,
    )


def _check_stop(iterations: int | None, tolerance: float | None, max_iterations: int) -> None:
    if (iterations is None) == (tolerance is None):
        raise ValueError("Expected exactly one of `iterations` and `tolerance`, but got both or neither.")
    if iterations is not None and iterations < 1:
        raise ValueError(f"Expected `iterations` to be at least 1, but got {iterations}.")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"Expected `tolerance` to be positive, but got {tolerance}.")
    if max_iterations < 1:
        raise ValueError(f"Expected `max_iterations` to be at least 1, but got {max_iterations}.")


def _kappa(epsilon: Tensor, penalty: Tensor) -> Tensor:
    """Return ``epsilon / lambda``, a constant if the penalty is 0 or infinite."""
    if penalty.isinf():
        return torch.zeros_like(epsilon).detach()
    return torch.full_like(epsilon, float("inf")).detach() if penalty == 0 else epsilon / penalty


def _column_error(columns: Tensor, b: Tensor, g: Tensor, penalty: Tensor) -> Tensor:
    """Return the error of the column marginals, ``[B]``; 0 for free ones."""
    if penalty == 0:
        return torch.zeros_like(columns[:, 0]).detach()
    required = b if penalty.isinf() else b * (-g / penalty).exp()
    return (columns - required).abs().sum(dim=1).detach()


def _mass_difference(rows: Tensor, a: Tensor, b: Tensor, measure: Measure) -> Tensor:
    """Return the mass of the reference measure (0 for the plain entropy) minus that of the plan, ``[B]``."""
    mass = rows.sum(dim=1)
    return a.sum(dim=1) * b.sum(dim=1) - mass if measure == "product" else -mass


def _marginal_penalty(sums: Tensor, weights: Tensor, penalty: Tensor) -> Tensor:
    """Return ``lambda KL(sums | weights)``, ``[B]``; 0 for hard and free sides."""
    if penalty.isinf() or penalty == 0:
        return torch.zeros_like(sums[:, 0])
    relative = torch.where(sums > 0, sums * (log_weights(sums) - log_weights(weights)), 0.0)
    return penalty * (relative - sums + weights).sum(dim=1)


def lazy_emd(
    cost: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    reference_mask: Bool[Tensor, "B M"],
    hypothesis_mask: Bool[Tensor, "B N"],
    epsilon: Float[Tensor, ""] | float,
    *,
    reference_penalty: Float[Tensor, ""] | float,
    hypothesis_penalty: Float[Tensor, ""] | float,
    measure: Measure = "entropy",
    iterations: int | None = None,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    with_plan: bool = False,
) -> MatchResult:
    r"""Lazy earth mover's distance: transport cost :math:`\langle C, P\rangle` of an unbalanced plan.

    The plan solves :math:`\min_P \langle P, C\rangle + \lambda_r\mathrm{KL}(P1\,|\,a) +
    \lambda_c\mathrm{KL}(P^\top 1\,|\,b) - \varepsilon H(P)`. The value is the cost of the moved mass without penalties:
    a distance, lower is better. Penalties :math:`(\lambda_c, \lambda_r)` of :math:`(\infty, \infty)` give the earth
    mover's distance, :math:`(\infty, 0)` one minus greedy precision, :math:`(0, \infty)` one minus greedy recall. These
    three are exact at :math:`\varepsilon = 0`, which other penalties do not allow. At :math:`\varepsilon > 0` gradients
    are as in :func:`~textmover.functional.sinkhorn.unbalanced_sinkhorn`.

    Args:
        cost: Cost of each pair, at least 0.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.
        reference_mask: True for reference tokens that may be matched.
        hypothesis_mask: True for hypothesis tokens that may be matched.
        epsilon: Strength of the entropy, at least 0, in units of the cost.
        reference_penalty: :math:`\lambda_r` in [0, inf], in units of the cost.
        hypothesis_penalty: :math:`\lambda_c` in [0, inf]; not both are 0.
        measure: Reference measure of the entropy (see :func:`unbalanced_sinkhorn`).
        iterations: Number of iterations. Give exactly one of this and ``tolerance``, unless epsilon is 0.
        tolerance: Largest marginal error to stop at, in units of mass.
        max_iterations: Maximum number of iterations with a ``tolerance``.
        with_plan: Return the plan.

    Returns:
        The distance as recall, precision and F; 0 if one side has no token.

    Raises:
        ValueError: If a number is out of range, or epsilon is 0 with penalties that do not allow it.

    Example:
        >>> import torch
        >>> half, both = torch.full((1, 2), 0.5), torch.ones(1, 2, dtype=torch.bool)
        >>> cost = torch.tensor([[[0.1, 0.9], [0.9, 0.5]]])
        >>> lazy_emd(cost, half, half, both, both, 0.0, reference_penalty=0.0, hypothesis_penalty=float("inf")).f
        tensor([0.3000])

    Reference:
        Chen et al. 2020 (Evaluating natural language generation via unbalanced optimal transport), Eq. 11.
    """
    check_problem(cost, a, b, name="cost")
    penalties = (reference_penalty, hypothesis_penalty)
    for name, penalty in zip(("reference_penalty", "hypothesis_penalty"), penalties, strict=True):
        if not bool(penalty >= 0):
            raise ValueError(f"Expected `{name}` to be a number from 0 to infinity, but got {penalty}.")
    if not any(isinstance(penalty, Tensor) or penalty > 0 for penalty in penalties):
        raise ValueError("Expected a penalty above 0 on at least one side, but got 0 for both: nothing would be moved.")
    if isinstance(epsilon, Tensor) or epsilon != 0:
        masks, stop = (reference_mask, hypothesis_mask), (iterations, tolerance, max_iterations)
        result = _solve(cost, a, b, epsilon, penalties, measure, masks, stop)
        return _distance(result.transport, result.plan if with_plan else None, result.converged)
    infinite = float("inf")
    if penalties == (infinite, infinite):
        exact = exact_transport(cost, a, b)
        return _distance(exact.transport, exact.plan if with_plan else None, exact.converged)
    if penalties not in ((0, infinite), (infinite, 0)):
        raise ValueError(
            "Expected penalties of 0 or infinity with `epsilon` 0, but got "
            f"{reference_penalty} and {hypothesis_penalty}: take an epsilon above 0."
        )
    if reference_penalty == infinite:
        greedy = greedy_matching(-cost, a, b, reference_mask, hypothesis_mask, with_plan=with_plan)
        return _distance(-greedy.recall, greedy.plan, None)
    greedy = greedy_matching(-cost.transpose(1, 2), b, a, hypothesis_mask, reference_mask, with_plan=with_plan)
    return _distance(-greedy.recall, None if greedy.plan is None else greedy.plan.transpose(1, 2), None)


def _distance(value: Tensor, plan: Tensor | None, converged: Tensor | None) -> MatchResult:
    return MatchResult(value, value, value, plan, converged)
