"""Aggregation of layer vectors into one vector per token: power means, and routing by mean shift (MoverScore)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from textmover.types import check_choice

Kernel = Literal["gaussian", "epanechnikov"]


def power_mean(vectors: Float[Tensor, " layers *rest"], power: float) -> Float[Tensor, "*rest"]:
    r"""Power mean of each entry over the layers, :math:`\bigl(\frac1L \sum_l z_l^p\bigr)^{1/p}`, as a real number.

    * :math:`\infty`: the maximum; :math:`-\infty`: the minimum; 1: the arithmetic mean.
    * Even :math:`p > 0`: the formula, at least 0.
    * Other :math:`p > 0`: powers and root keep the sign, :math:`\mathrm{sign}(z)\,|z|^p`. For odd ``p`` this is the
      formula with its real root.
    * :math:`p \le 0`: values of one sign give the mean of their magnitudes with that sign (0: the geometric mean).
      For values of both signs or with a 0, this mean is undefined; the result is 0, without gradient.

    A power or root with an exponent below 1 has an infinite slope at 0. Below :math:`10^{-19}` of the largest magnitude
    in float32, it is replaced by its chord.

    Gradients are finite everywhere, but for exponents below 1 they are large if a magnitude is far below the others
    (:math:`10^5` and more). Use such means for scoring rather than for training.

    Args:
        vectors: Vectors of all layers along the first axis, float32 or float64.
        power: ``p``, any number or :math:`\pm\infty`.

    Returns:
        The means, with finite gradients, at 0 too, as long as magnitudes stay below :math:`10^{18}` in float32.

    Raises:
        ValueError: If there is no layer, or ``power`` is NaN.
        TypeError: If the vectors are below float32.

    Example:
        >>> layers = torch.tensor([[1.0, -1.0], [4.0, 4.0]])
        >>> power_mean(layers, 0.0), power_mean(layers, float("-inf"))
        (tensor([2., 0.]), tensor([ 1., -1.]))

    Reference:
        Zhao et al. 2019 (MoverScore), Eq. 4; Rücklé et al. 2018.
    """
    _check_layers(vectors)
    if math.isnan(power):
        raise ValueError("Expected `power` to be a number or infinite, but got nan.")
    if math.isinf(power):
        return vectors.amax(dim=0) if power > 0 else vectors.amin(dim=0)
    if power == 1:
        return vectors.mean(dim=0)
    sizes = vectors.abs()
    largest = sizes.detach().amax(dim=0)
    smallest_number = torch.finfo(vectors.dtype).tiny
    if power > 0:
        # Scaling by the largest magnitude avoids overflow. The mean is homogeneous, so the scale needs no gradient.
        unit = torch.where(largest > smallest_number, largest, 1.0)
        scaled = (sizes if power % 2 == 0 else vectors) / unit
        return unit * _signed_power(_signed_power(scaled, power).mean(dim=0), 1 / power)
    one_sign = (vectors > 0).all(dim=0) | (vectors < 0).all(dim=0)
    defined = one_sign & (sizes.detach().amin(dim=0) > smallest_number**0.5 * largest)
    logs = torch.where(defined, sizes, 1.0).log()
    if power == 0:
        log_mean = logs.mean(dim=0)
    else:
        log_mean = (torch.logsumexp(power * logs, dim=0) - math.log(len(vectors))) / power
    return torch.where(defined, log_mean.exp() * vectors[0].detach().sign(), 0.0)


def routing(
    vectors: Float[Tensor, "layers *rest D"],
    *,
    kernel: Kernel = "gaussian",
    step: float = 1.0,
    tolerance: float = 1e-5,
    max_iterations: int = 20,
) -> Float[Tensor, "*rest D"]:
    r"""Find the densest point of each token's layer vectors by mean shift, with a closeness :math:`\gamma_i` per layer.

    From :math:`v = \frac1L \sum_i z_i` and :math:`\gamma_i = \frac1L`, repeat with :math:`d_i = \|v - z_i\|^2`

    .. math:: v \leftarrow \frac{\sum_i \gamma_i k'(d_i) z_i}{\sum_i \gamma_i k'(d_i)}, \qquad
              \gamma \leftarrow \mathrm{softmax}(\gamma + \alpha\,k(d)),

    where :math:`k(x) = e^{-x/2}` (Gaussian) or :math:`\max(1 - x, 0)` (Epanechnikov). The paper divides by
    :math:`\sum_i k'(d_i)`, which shrinks ``v`` about ``L``-fold and so measures distances from a point near the origin;
    weights that sum to 1 keep ``v`` among the ``z_i``, as in mean shift, so that equal layers stay unchanged. If
    the kernel is 0 for every layer, ``v`` does not move. With a large step, one layer gains all the closeness; among
    equally near layers, rounding then decides which.

    Each token stops on its own (so that it does not depend on the rest of its batch), once neither :math:`v` nor a
    :math:`\gamma_i` has moved by more than the tolerance, or after ``max_iterations``. Gradients run through all its
    iterations.

    Args:
        vectors: Unit vectors of all layers along the first axis, float32 or float64.
        kernel: Name of :math:`k`.
        step: :math:`\alpha`, at least 0; with 0 all layers stay equally close.
        tolerance: Length of the move to stop at, at least 0.
        max_iterations: Bound on the iterations, at least 1. The first has equal :math:`\gamma`.

    Returns:
        One vector per token, a weighted mean of its layers: of length 1 or below.

    Raises:
        ValueError: If there is no layer, or an option is out of its range.
        TypeError: If the vectors are below float32.

    Example:
        >>> layers = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> routing(layers)
        tensor([0.9070, 0.0930])

    Reference:
        Zhao et al. 2019 (MoverScore), appendix A.2, Algorithm 1; Comaniciu and Meer 2002 for mean shift.
    """
    _check_layers(vectors)
    check_choice("kernel", kernel, get_args(Kernel))
    for name, number in (("step", step), ("tolerance", tolerance)):
        if not 0 <= number < float("inf"):
            raise ValueError(f"Expected `{name}` to be a finite number of at least 0, but got {number}.")
    if max_iterations < 1:
        raise ValueError(f"Expected `max_iterations` to be at least 1, but got {max_iterations}.")
    center = vectors.mean(dim=0)  # [*rest, D]
    closeness = torch.full_like(vectors[..., 0], 1 / len(vectors))  # [layers, *rest]
    active = torch.ones_like(center[..., 0], dtype=torch.bool)  # [*rest]
    for _ in range(max_iterations):
        weights = closeness * _slope(_squared_distance(center, vectors), kernel)
        total = weights.sum(dim=0)
        reached = total > 0
        weights = weights / torch.where(reached, total, 1.0)
        moved_center = torch.where(reached[..., None], (weights[..., None] * vectors).sum(dim=0), center)
        gain = _height(_squared_distance(moved_center, vectors), kernel)
        moved_closeness = (closeness + step * gain).softmax(dim=0)
        with torch.no_grad():
            move = torch.linalg.vector_norm(moved_center - center, dim=-1)
            move = torch.maximum(move, (moved_closeness - closeness).abs().amax(dim=0))
        center, closeness = torch.where(active[..., None], moved_center, center), moved_closeness
        active = active & ~(move <= tolerance)
        if not active.any():
            break
    return center


def _check_layers(vectors: Tensor) -> None:
    if vectors.ndim < 1 or len(vectors) == 0:
        raise ValueError(f"Expected `vectors` to hold at least one layer, but got shape {list(vectors.shape)}.")
    if vectors.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"Expected `vectors` to be float32 or float64, but got {vectors.dtype}: call `.float()` first.")


def _signed_power(values: Tensor, exponent: float) -> Tensor:
    """Return ``sign(x) |x|^e`` for ``e > 0`` and ``x`` in [-1, 1]; linear through 0 for tiny ``|x|``."""
    # The lowest exponent in the gradient is -2, and this bound to the power of -2 is still finite.
    sizes = values.abs().clamp(min=torch.finfo(values.dtype).tiny ** 0.5)
    return values * sizes.pow(exponent - 1)


def _squared_distance(center: Tensor, vectors: Tensor) -> Tensor:
    """Return the squared distances of ``center [*rest, D]`` to ``vectors [layers, *rest, D]``: ``[layers, *rest]``."""
    return (center - vectors).square().sum(dim=-1)


def _height(distance: Tensor, kernel: Kernel) -> Tensor:
    return (-distance / 2).exp() if kernel == "gaussian" else (1 - distance).clamp(min=0)


def _slope(distance: Tensor, kernel: Kernel) -> Tensor:
    """Return the absolute slope of the kernel up to a factor, which cancels in the weights."""
    return (-distance / 2).exp() if kernel == "gaussian" else (distance < 1).to(distance.dtype)
