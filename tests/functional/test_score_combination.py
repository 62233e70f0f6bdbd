"""F scores and division by self-similarity."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional import f_score, normalize_by_self, token_score


def draw(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.05


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_weighted_f_is_the_inverse_of_the_weighted_mean_of_inverses(alpha):
    precision, recall = draw(20, 0), draw(20, 1)
    expected = 1 / (alpha / recall.numpy() + (1 - alpha) / precision.numpy())
    np.testing.assert_allclose(f_score(precision, recall, alpha), expected, rtol=1e-13)
    exchanged = f_score(recall, precision, 1 - alpha)
    torch.testing.assert_close(f_score(precision, recall, alpha), exchanged, rtol=1e-14, atol=0)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
    ("precision", "recall"), [(0.0, 0.0), (-0.5, -0.2), (0.0, 0.4), (0.4, 0.0), (-0.1, 0.5), (0.3, -0.3), (-0.5, 0.2)]
)
def test_weighted_f_is_finite_with_finite_gradients_everywhere(alpha, precision, recall):
    values = torch.tensor([precision, recall], requires_grad=True)
    f = f_score(values[:1], values[1:], alpha)
    f.sum().backward()
    assert f.item() == 0.0
    assert values.grad.isfinite().all()


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_weighted_f_lies_between_0_and_the_greater_value_and_rises_with_both(alpha):
    grid = torch.linspace(-1, 1, 401, dtype=torch.float64)  # with values of both signs, whose sum is nearly 0
    precision, recall = torch.meshgrid(grid, grid, indexing="ij")
    f = f_score(precision, recall, alpha)
    assert (f >= 0).all()
    assert (f <= torch.maximum(precision, recall).clamp(min=0) + 1e-12).all()
    assert (f.diff(dim=0) >= -1e-12).all()
    assert (f.diff(dim=1) >= -1e-12).all()


def test_nan_stays_one():
    nan, one = torch.tensor([float("nan")]), torch.tensor([1.0])
    assert f_score(nan, one).isnan()
    assert f_score(one, nan).isnan()


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), float("inf")])
def test_alpha_out_of_range_is_refused(alpha):
    with pytest.raises(ValueError, match="Expected `alpha` to be between 0 and 1, but got"):
        f_score(draw(5, 0), draw(5, 1), alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 1.0])
def test_f_has_the_right_gradient(alpha):
    inputs = (draw(5, 0).requires_grad_(), draw(5, 1).requires_grad_())
    assert gradcheck(lambda precision, recall: f_score(precision, recall, alpha), inputs)


@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, 64.0])
def test_the_norm_of_losses_is_that_of_numpy(norm):
    generator = np.random.default_rng(0)
    values, weights = generator.uniform(-1, 1, (5, 7)), generator.dirichlet(np.ones(7), 5)
    expected = 1 - np.sum(weights * (1 - values) ** norm, axis=1) ** (1 / norm)
    found = token_score(torch.from_numpy(values), torch.from_numpy(weights), norm)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    mean = np.sum(weights * values, axis=1)
    assert np.all(found.numpy() <= mean + 1e-12)  # the mean of powers is at least the power of the mean
    assert np.all(found.numpy() >= values.min(axis=1) - 1e-12)


@pytest.mark.parametrize("norm", [1.0, 3.0, 64.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_identical_tokens_score_one_with_a_finite_gradient_and_no_tokens_zero(dtype, norm):
    values = torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]], dtype=dtype, requires_grad=True)
    weights = torch.tensor([[0.4, 0.6, 0.0], [0.0, 0.0, 0.0]], dtype=dtype)  # a padded token does not count
    found = token_score(values, weights, norm)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0], dtype=dtype), rtol=0, atol=1e-5)
    found.sum().backward()
    assert values.grad.isfinite().all()


@pytest.mark.parametrize("norm", [0.5, 65.0, float("nan"), -1.0])
def test_a_norm_out_of_range_is_refused(norm):
    with pytest.raises(ValueError, match="Expected `error_norm` to be a number from 1 to 64"):
        token_score(torch.zeros(1, 1), torch.ones(1, 1), norm)


def test_division_by_the_geometric_mean_of_the_self_similarities():
    value, x, y = draw(20, 0), draw(20, 1), draw(20, 2)
    found, defined = normalize_by_self(value, x, y)
    np.testing.assert_allclose(found, value.numpy() / np.sqrt(x.numpy() * y.numpy()), rtol=1e-13)
    assert defined.all()


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (1.0, 0.0), (-0.1, 1.0), (-0.5, -0.5)])
def test_a_self_similarity_that_is_not_positive_is_marked_and_harmless(x, y):
    values = torch.tensor([0.4, x, y], requires_grad=True)
    found, defined = normalize_by_self(values[:1], values[1:2], values[2:])
    found.sum().backward()
    assert found.item() == 0
    assert not defined.item()
    assert values.grad.isfinite().all()


def test_small_self_similarities_do_not_underflow():
    tiny = torch.tensor([1e-30])
    torch.testing.assert_close(normalize_by_self(tiny, tiny, tiny)[0], torch.ones(1))


def test_normalisation_has_the_right_gradient():
    inputs = tuple(draw(5, seed).requires_grad_() for seed in range(3))
    assert gradcheck(lambda *values: normalize_by_self(*values)[0], inputs)
