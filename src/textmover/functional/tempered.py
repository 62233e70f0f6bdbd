"""Tempered word mover similarities: TWMD by a few Sinkhorn iterations, TRWMD in closed form."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO, check_problem, check_temperature
from textmover.functional.score_combination import f_score, token_score
from textmover.functional.sinkhorn import sinkhorn
from textmover.types import MatchResult

Value = Literal["transport", "objective"]

LEAST_TEMPERATURE = 0.05
"""Lowest temperature at which exponentials of cosines, from 1 down to ``exp(-40)``, are accurate in float32."""

LARGEST_COSINE = 1.01
"""Largest magnitude of a cosine, with a margin for rounding."""


def twmd(
    similarity: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    temperature: Float[Tensor, ""] | float,
    *,
    iterations: int = 1,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    value: Value = "transport",
    alpha: float = 0.5,
    error_norm: float = 1.0,
    with_plan: bool = False,
) -> MatchResult:
    r"""Tempered word mover similarity: entropic transport that maximises :math:`\langle P, S\rangle`.

    The iterations of the recall plan end with the rows, so that each reference token sends exactly its weight. The
    precision plan is the same with the two sides exchanged. ``R`` and ``P`` are :math:`\langle P, S\rangle` of their
    plans. With a tolerance there is one converged plan, and ``R = P = F``.

    ``value="objective"`` returns the regularised value :math:`\langle P, S\rangle - T\,\mathrm{KL}(P\,|\,a\otimes b)`
    of the same plans. It includes all constants of the relative entropy (for uniform weights: :math:`-T\log MN` in
    addition to the plain entropy :math:`T\,H(P)`).

    Args:
        similarity: Cosines of all token pairs.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.
        temperature: ``T`` above 0, in units of the similarity; a tensor gets a gradient.
        iterations: Sinkhorn iterations; the paper's choice is 1. Ignored with a ``tolerance``.
        tolerance: Marginal error to converge to; gradients are then implicit (see :func:`sinkhorn`).
        max_iterations: Maximum number of iterations with a ``tolerance``.
        value: Which value of the plan to report.
        alpha: Weight of F_alpha (see :func:`~textmover.functional.score_combination.f_score`).
        error_norm: Norm of the hypothesis tokens' losses in precision (see
            :func:`~textmover.functional.score_combination.token_score`).
        with_plan: Return the recall plan.

    Returns:
        Recall, precision and F before normalisation; ``converged`` with a tolerance.

    Example:
        >>> half = torch.full((1, 2), 0.5, dtype=torch.float64)
        >>> twmd(torch.eye(2, dtype=torch.float64)[None], half, half, 0.1).f
        tensor([1.0000], dtype=torch.float64)

    Reference:
        Chen et al. 2020 (TWMD), Eq. 5 and 6.
    """
    check_problem(similarity, a, b)
    check_temperature(temperature)
    _check_value(value, error_norm, tolerance)

    if tolerance is not None:
        result = sinkhorn(-similarity, a, b, temperature, tolerance=tolerance, max_iterations=max_iterations)
        f = -getattr(result, value)
        return MatchResult(f, f, f, result.plan if with_plan else None, result.converged)
    plan = None
    if iterations == 1 and value == "transport" and not with_plan and _kernel_fits_float32(similarity, temperature):
        recall, precision = _one_iteration(similarity, a, b, temperature, error_norm)
    else:
        forward = sinkhorn(-similarity, a, b, temperature, iterations=iterations)
        backward = sinkhorn(-similarity.transpose(1, 2), b, a, temperature, iterations=iterations)
        recall, precision = -getattr(forward, value), -getattr(backward, value)
        if error_norm != 1:
            values = (backward.plan * similarity.transpose(1, 2)).sum(dim=2) / torch.where(b > 0, b, 1.0)
            precision = token_score(values, b, error_norm)
        plan = forward.plan if with_plan else None
    return MatchResult(recall, precision, f_score(precision, recall, alpha), plan)


def _check_value(value: Value, error_norm: float, tolerance: float | None = None) -> None:
    if value not in ("transport", "objective"):
        raise ValueError(f"Expected `value` to be 'transport' or 'objective', but got {value!r}.")
    if error_norm != 1 and (tolerance is not None or value == "objective"):
        raise ValueError(
            "Expected `error_norm` of 1 with a `tolerance` or `value='objective'`, whose values are not those of "
            f"tokens, but got {error_norm}."
        )


def _kernel_fits_float32(similarity: Tensor, temperature: Tensor | float) -> bool:
    """Return whether exponentials of cosines over the temperature are accurate in float32; only checked on the CPU.

    On other devices, reading the largest entry would wait for the device.
    """
    if similarity.device.type != "cpu" or not similarity.numel() or temperature < LEAST_TEMPERATURE:
        return False
    low, high = similarity.detach().aminmax()
    return bool((low >= -LARGEST_COSINE) & (high <= LARGEST_COSINE))


def _one_iteration(
    similarity: Tensor, a: Tensor, b: Tensor, temperature: Tensor | float, error_norm: float
) -> tuple[Tensor, Tensor]:
    r"""Compute recall and precision of one Sinkhorn iteration from one kernel, :math:`K = e^{(S - 1)/T}`.

    :math:`R = \sum_i a_i \frac{(K \circ S)w}{Kw}\Big|_i` with :math:`w = b / K^\top a`, and ``P`` with the sides
    exchanged. This needs one exponential per entry instead of four for half-steps in the log domain.
    """
    kernel = ((similarity - 1) / temperature).exp()
    valued = kernel * similarity

    def side(weights: Tensor, others: Tensor, kernel: Tensor, valued: Tensor, norm: float) -> Tensor:
        """Return the score ``[B]`` of the rows, given ``weights`` ``[B, M]`` of rows and ``others`` of columns."""
        sums = torch.bmm(weights[:, None], kernel)[:, 0]
        scaled = (others / sums.where(sums != 0, 1.0))[:, :, None]
        mass, value = torch.bmm(kernel, scaled)[:, :, 0], torch.bmm(valued, scaled)[:, :, 0]
        mass = mass.where(mass != 0, 1.0)
        return (weights * value / mass).sum(dim=1) if norm == 1 else token_score(value / mass, weights, norm)

    with torch.autocast(similarity.device.type, enabled=False):
        recall = side(a, b, kernel, valued, 1.0)
        return recall, side(b, a, kernel.transpose(1, 2), valued.transpose(1, 2), error_norm)


def trwmd(
    similarity: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    reference_mask: Bool[Tensor, "B M"],
    hypothesis_mask: Bool[Tensor, "B N"],
    temperature: Float[Tensor, ""] | float,
    *,
    value: Value = "transport",
    alpha: float = 0.5,
    error_norm: float = 1.0,
    with_plan: bool = False,
) -> MatchResult:
    r"""Tempered relaxed word mover similarity: greedy matching with a softmax instead of the maximum.

    :math:`R = \sum_i a_i \sum_j \mathrm{softmax}_j(S_{ij}/T)\,S_{ij}`, and ``P`` with the sides exchanged. Its limit
    for :math:`T \to 0` is :func:`~textmover.functional.greedy.greedy_matching`. Like that, it may match tokens of
    weight 0 if their mask is True.

    ``value="objective"`` returns :math:`R = \sum_i a_i\,T\log\tfrac1N\sum_j e^{S_{ij}/T}`: Eq. 7 of the paper plus the
    constant :math:`T\log(1/N)`, which keeps the value within the range of the similarities.

    Args:
        similarity: Cosines of all token pairs.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.
        reference_mask: True for reference tokens that may be matched.
        hypothesis_mask: True for hypothesis tokens that may be matched.
        temperature: ``T`` above 0, in units of the similarity; a tensor gets a gradient.
        value: Which value to report.
        alpha: Weight of F_alpha.
        error_norm: Norm of the hypothesis tokens' losses in precision, as for :func:`twmd`.
        with_plan: Return the recall plan.

    Returns:
        Recall, precision and F before normalisation; 0 if one side has no token.

    Example:
        >>> half, both = torch.full((1, 2), 0.5), torch.ones(1, 2, dtype=torch.bool)
        >>> trwmd(torch.eye(2)[None], half, half, both, both, 0.1).recall
        tensor([1.0000])

    Reference:
        Chen et al. 2020 (TWMD), section 3 and Eq. 7.
    """
    check_problem(similarity, a, b)
    check_temperature(temperature)
    _check_value(value, error_norm)
    matchable = reference_mask.any(dim=1) & hypothesis_mask.any(dim=1)
    logits = similarity / temperature

    def side(weights: Tensor, targets: Tensor, dim: int, norm: float = 1.0) -> tuple[Tensor, Tensor]:
        masked = logits.masked_fill(~targets.unsqueeze(3 - dim), LOG_ZERO)
        attention = masked.softmax(dim=dim)
        if value == "objective":
            count = targets.sum(dim=1, keepdim=True).clamp(min=1)
            per_token = temperature * (masked.logsumexp(dim=dim) - count.to(masked.dtype).log())
        else:
            per_token = (attention * similarity).sum(dim=dim)
        return token_score(torch.where(matchable[:, None], per_token, 0.0), weights, norm), attention

    recall, attention = side(a, hypothesis_mask, 2)
    precision, _ = side(b, reference_mask, 1, error_norm)
    plan = a.where(matchable[:, None], 0.0)[:, :, None] * attention if with_plan else None
    return MatchResult(recall, precision, f_score(precision, recall, alpha), plan)
