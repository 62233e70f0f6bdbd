"""Lazy earth mover's distance: transport that may leave tokens unmatched, at a price for each side."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from textmover.functional._arguments import check_problem
from textmover.functional.exact import exact_transport
from textmover.functional.greedy import greedy_matching
from textmover.functional.sinkhorn import Measure, unbalanced_sinkhorn
from textmover.types import MatchResult


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
        result = unbalanced_sinkhorn(
            cost,
            a,
            b,
            epsilon,
            reference_penalty,
            hypothesis_penalty,
            measure=measure,
            row_mask=reference_mask,
            column_mask=hypothesis_mask,
            iterations=iterations,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
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
