r"""Entropic optimal transport between two weighted sets, balanced or with marginals that give way; batched and masked.

The balanced problem is :math:`\min_P \langle P, C\rangle + \varepsilon\,\mathrm{KL}(P\,|\,a \otimes b)` with row sums
``a`` and column sums ``b``; its solution has the form :math:`P_{ij} = a_i b_j \exp((f_i + g_j - C_{ij})/\varepsilon)`.
The reference measure :math:`a \otimes b` (rather than the plain entropy, which has the same solution) makes a token of
weight 0 exactly invisible at every iteration, and splitting a token in two equal halves changes nothing.

The lazy earth mover's distance leaves tokens unmatched, at a price for each side: marginals that give way.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO, check_problem, check_temperature, log_weights, widest_float
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
    solution: memory does not grow with iterations, and first and second derivatives are as exact as the solution is. A
    problem that has not converged after ``max_iterations`` says so in ``converged``; its gradients are then
    approximate. This solver works in float64 wherever the device has it. A problem without mass on one side moves
    nothing: plan and values are 0.

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
    r"""Solve entropic transport whose marginals may give way, each at its own price.

    :math:`\min_P \langle P, C\rangle + \lambda_r\mathrm{KL}(P1\,|\,a) + \lambda_c\mathrm{KL}(P^\top 1\,|\,b) + R(P)`
    with :math:`R = -\varepsilon H(P)`, :math:`H = -\sum P(\log P - 1)`, or
    :math:`R = \varepsilon\,\mathrm{KL}(P\,|\,a\otimes b)`. An infinite penalty makes its marginal hard; 0 frees it: the
    side then takes whatever mass comes, within its mask. With both infinite this is :func:`sinkhorn` (at convergence,
    whatever the measure); with one infinite and the other 0 the solution is a softmax, reached in one iteration.

    Stopping, gradients and degenerate problems are as in :func:`sinkhorn`; penalties given as tensors get gradients.

    Args:
        cost: Cost of each pair, any real values.
        a: Row weights, at least 0, each row sums to 1; 0 where padded.
        b: Column weights, likewise.
        epsilon: Strength of the regularisation, above 0, in units of the cost; a tensor gets a gradient.
        row_penalty: :math:`\lambda_r` in [0, inf], in units of the cost.
        column_penalty: :math:`\lambda_c` in [0, inf].
        measure: ``"entropy"`` (what Lazy-EMD takes) or ``"product"``. Under the product measure a token of weight 0 is
            invisible and a free side is drawn to its weights; under the entropy each token counts alike.
        row_mask: Rows that may take mass where they are free under the entropy; those with weight if ``None``.
        column_mask: The same for columns.
        iterations: Number of iterations, at least 1. Exactly one of this and ``tolerance`` is given.
        tolerance: Largest marginal error to stop at, in units of mass.
        max_iterations: Bound on the iterations where ``tolerance`` is given.

    Returns:
        Plan, potentials, values, and how well the conditions of the columns are met (those of the rows hold exactly).

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
    given = cost.dtype
    if tolerance is not None:
        # A cost over a small epsilon is a large exponent: in float32 its rounding alone can exceed the tolerance.
        cost, a, b = (one.to(widest_float(one.device)) for one in (cost, a, b))
    # Not `> 0`, here and below: a weight that is NaN is a defect to be seen, not a token without weight.
    has_mass = (~(a <= 0)).any(dim=1, keepdim=True) & (~(b <= 0)).any(dim=1, keepdim=True)
    a, b = a.where(has_mass, 0.0), b.where(has_mass, 0.0)
    epsilon = torch.as_tensor(epsilon, dtype=cost.dtype, device=cost.device)
    row_penalty, column_penalty = (torch.as_tensor(one, dtype=cost.dtype, device=cost.device) for one in penalties)
    log_a, log_b = log_weights(a), log_weights(b)
    if measure == "product":
        log_m, log_n = log_a, log_b
    else:
        # Only a free side has a use for tokens without weight; elsewhere they would be seen by the first iterations.
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
        took = torch.full((len(cost),), iterations, device=cost.device)
    else:
        parts = (problem.logits, log_a, log_b, log_m, log_n, problem.kappa_rows, problem.kappa_columns)
        gamma, took = ConvergedPotential.apply(*parts, tolerance, max_iterations)  # type: ignore[no-untyped-call]
        phi, plan = row_half_step(problem, gamma)
    f, g = (epsilon * phi).where(a > 0, 0.0), (epsilon * gamma).where(b > 0, 0.0)
    rows, columns = plan.sum(dim=2), plan.sum(dim=1)
    error = _column_error(columns, b, g, column_penalty)
    # epsilon KL(P | measure) is <P, f + g - C>, up to the masses.
    objective = (
        ((rows * f).sum(dim=1) + (columns * g).sum(dim=1))
        + epsilon * _excess(rows, a, b, measure)
        + (_give_way(rows, a, row_penalty) + _give_way(columns, b, column_penalty))
    )
    return SinkhornResult(
        plan=plan.to(given),
        f=f.to(given),
        g=g.to(given),
        transport=(plan * cost).sum(dim=(1, 2)).to(given),
        objective=objective.to(given),
        marginal_error=error.to(given),
        converged=None if tolerance is None else error <= tolerance,
        iterations=took,
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
    """``epsilon / lambda``, a constant where the penalty is 0 or infinite."""
    if penalty.isinf():
        return torch.zeros_like(epsilon).detach()
    return torch.full_like(epsilon, float("inf")).detach() if penalty == 0 else epsilon / penalty


def _column_error(columns: Tensor, b: Tensor, g: Tensor, penalty: Tensor) -> Tensor:
    """Error of the column marginals, ``[B]``; 0 for free ones."""
    if penalty == 0:
        return torch.zeros_like(columns[:, 0]).detach()
    asked = b if penalty.isinf() else b * (-g / penalty).exp()
    return (columns - asked).abs().sum(dim=1).detach()


def _excess(rows: Tensor, a: Tensor, b: Tensor, measure: Measure) -> Tensor:
    """The mass of the reference measure less that of the plan (the plain entropy has none), ``[B]``."""
    mass = rows.sum(dim=1)
    return a.sum(dim=1) * b.sum(dim=1) - mass if measure == "product" else -mass


def _give_way(sums: Tensor, weights: Tensor, penalty: Tensor) -> Tensor:
    """``lambda KL(sums | weights)``, ``[B]``; 0 for hard and for free sides."""
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
    r"""Transport cost :math:`\langle C, P\rangle` of a plan that may leave its marginals.

    The plan solves :math:`\min_P \langle P, C\rangle + \lambda_r\mathrm{KL}(P1\,|\,a) +
    \lambda_c\mathrm{KL}(P^\top 1\,|\,b) - \varepsilon H(P)`. The value counts the mass that is moved, without
    penalties: a distance, lower is better. Penalties :math:`(\lambda_c, \lambda_r)` of :math:`(\infty, \infty)` give
    the earth mover's distance, :math:`(\infty, 0)` one minus greedy precision, :math:`(0, \infty)` one minus greedy
    recall; these three are exact at :math:`\varepsilon = 0`, which no other penalties allow. At
    :math:`\varepsilon > 0` gradients are as in :func:`~textmover.functional.sinkhorn.unbalanced_sinkhorn`.

    Args:
        cost: Cost of each pair, 0 and above.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.
        reference_mask: True for reference tokens that may take part.
        hypothesis_mask: True for hypothesis tokens that may take part.
        epsilon: Strength of the entropy, 0 or above, in units of the cost.
        reference_penalty: :math:`\lambda_r` in [0, inf], in units of the cost.
        hypothesis_penalty: :math:`\lambda_c` in [0, inf]; not both are 0.
        measure: What the entropy is relative to (see :func:`unbalanced_sinkhorn`).
        iterations: Number of iterations. Exactly one of this and ``tolerance`` is given, unless epsilon is 0.
        tolerance: Largest marginal error to stop at, in units of mass.
        max_iterations: Bound on the iterations where ``tolerance`` is given.
        with_plan: Return the plan.

    Returns:
        The distance (as recall, precision and F alike); 0 where one side has no token.

    Raises:
        ValueError: If a number is out of range or penalties and epsilon do not go together.

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
