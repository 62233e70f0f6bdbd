"""Losses against SciPy, loops, and batches in which nothing varies."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from torch.autograd import gradcheck

from textmover.functional.losses import LOSSES, combined_loss, huber_loss, mse_loss, pairwise_loss, pearson_loss

ALL = {**LOSSES, "combined": partial(combined_loss, weights={"mse": 0.5, "pearson": 1.0, "pairwise": 2.0})}
each_loss = pytest.mark.parametrize("loss", ALL.values(), ids=ALL)


def draw(count: int = 12, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(count, generator=generator, dtype=torch.float64)
    ratings = scores + torch.randn(count, generator=generator, dtype=torch.float64)
    return scores.to(dtype), ratings.to(dtype)


# --- values -----------------------------------------------------------------------------------------------------------


def test_mse_is_the_mean_of_squares():
    scores, ratings = draw()
    expected = np.mean((scores.numpy() - ratings.numpy()) ** 2)
    assert mse_loss(scores, ratings).item() == pytest.approx(expected, rel=1e-14)


def test_huber_is_quadratic_up_to_one_and_linear_beyond():
    scores, ratings = draw()
    distance = np.abs(scores.numpy() - ratings.numpy())
    assert (distance > 1).any()
    assert (distance < 1).any()
    expected = np.mean(np.where(distance <= 1, distance**2 / 2, distance - 0.5))
    assert huber_loss(scores, ratings).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-12, 0), (1e9, 0), (25, 70), (1, 1e6), (-3, 2)])
def test_pearson_is_that_of_scipy_on_any_scale(scale, shift):
    scores, ratings = draw()
    expected = 1 - pearsonr(scores, ratings).statistic * math.copysign(1, scale)
    for given in ((scale * scores + shift, ratings), (ratings, scale * scores + shift)):
        assert pearson_loss(*given).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("shift", [1.0, 70.0, 10_000.0])
def test_pearson_sees_small_differences_on_a_high_level_in_float32(shift):
    scores, ratings = draw(dtype=torch.float32)
    high = shift + shift * 1e-4 * scores
    expected = 1 - pearsonr(high.double(), ratings.double()).statistic
    assert pearson_loss(high, ratings).item() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_pearson_neither_underflows_nor_overflows_in_float32(scale):
    scores, ratings = draw(dtype=torch.float32)
    found = pearson_loss(scale * scores, scale * ratings)
    torch.testing.assert_close(found, pearson_loss(scores, ratings), rtol=0, atol=1e-5)


def test_pairwise_is_a_loop_over_pairs():
    scores, ratings = draw()
    s, y = scores.tolist(), ratings.tolist()
    pairs = [(i, j) for i in range(len(s)) for j in range(len(s)) if y[i] > y[j]]
    lost = sum((y[i] - y[j]) * math.log(1 + math.exp(s[j] - s[i])) for i, j in pairs)
    assert pairwise_loss(scores, ratings).item() == pytest.approx(lost / sum(y[i] - y[j] for i, j in pairs), rel=1e-13)


def test_pairwise_sees_neither_level_nor_unit_of_the_ratings_nor_level_of_the_scores():
    scores, ratings = draw()
    torch.testing.assert_close(pairwise_loss(scores + 3, 5 * ratings - 2), pairwise_loss(scores, ratings))


@each_loss
def test_order_of_the_batch_does_not_matter(loss):
    scores, ratings = draw()
    torch.testing.assert_close(loss(scores.flip(0), ratings.flip(0)), loss(scores, ratings), rtol=1e-14, atol=0)


@each_loss
def test_descending_the_gradient_lowers_the_loss(loss):
    scores, ratings = draw()
    scores.requires_grad_()
    (slope,) = torch.autograd.grad(loss(scores, ratings), scores)
    assert loss(scores - 1e-3 * slope, ratings) < loss(scores, ratings)


def test_combined_is_the_weighted_sum():
    scores, ratings = draw()
    weights = {"mse": 0.5, "huber": 2.0, "pearson": 1.0, "pairwise": 0.25}
    assert set(weights) == set(LOSSES)
    expected = sum(weight * LOSSES[name](scores, ratings).item() for name, weight in weights.items())
    assert combined_loss(scores, ratings, weights).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "Expected losses to be named among mse, huber, pearson, pairwise, but got none"),
        ({"mse": 1.0, "hinge": 1.0}, "Expected losses to be named among mse, huber, pearson, pairwise, but got hinge"),
    ],
)
def test_unknown_and_missing_names_list_the_choices(weights, message):
    with pytest.raises(ValueError, match=message):
        combined_loss(*draw(), weights)


# --- batches in which nothing varies ----------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("level", [0.0, 0.1, 70.3, -1e4])
@pytest.mark.parametrize("constant", ["scores", "ratings", "both"])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_constant_values_give_finite_losses_and_gradients(loss, dtype, level, constant, count):
    scores, ratings = draw(count, dtype)
    if constant != "ratings":
        scores = torch.full_like(scores, level)
    if constant != "scores":
        ratings = torch.full_like(ratings, level)
    scores.requires_grad_()
    found = loss(scores, ratings)
    (slope,) = torch.autograd.grad(found, scores)
    assert found.isfinite()
    assert slope.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("level", [0.0, 0.1, 70.3, -1e4])
@pytest.mark.parametrize("count", [1, 2, 7, 100, 4096])
def test_pearson_of_a_constant_is_one_without_a_gradient(dtype, level, count):
    scores, ratings = draw(count, dtype)
    constant = torch.full_like(scores, level).requires_grad_()
    for found in (pearson_loss(constant, ratings), pearson_loss(ratings, constant)):
        (slope,) = torch.autograd.grad(found, constant)
        assert found.item() == 1
        assert (slope == 0).all()


def test_pairwise_of_equal_ratings_is_zero_without_a_gradient():
    scores, _ = draw()
    scores.requires_grad_()
    found = pairwise_loss(scores, torch.full_like(scores, 0.3))
    (slope,) = torch.autograd.grad(found, scores)
    assert found.item() == 0
    assert (slope == 0).all()


# --- gradients and autocast -------------------------------------------------------------------------------------------


@each_loss
def test_gradients_of_the_scores(loss):
    scores, ratings = draw(6)
    assert gradcheck(lambda given: loss(given, ratings), scores.requires_grad_())


@each_loss
def test_autocast_changes_nothing(loss):
    scores, ratings = draw(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss(scores, ratings)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss(scores, ratings))
