"""Unit vectors and similarity blocks against NumPy and SciPy."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch.autograd import gradcheck

from textmover.functional import pairwise_cost, pairwise_similarity, unit_vectors
from textmover.functional.cost import orthogonal_axes, scale_losses

KINDS = {"cosine": "cosine", "squared-euclidean": "sqeuclidean", "euclidean": "euclidean"}
each_kind = pytest.mark.parametrize("kind", KINDS)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_unit_vectors_are_vectors_over_their_length(shape):
    vectors = draw(*shape)
    expected = vectors.numpy() / np.linalg.norm(vectors.numpy(), axis=-1, keepdims=True)
    np.testing.assert_allclose(unit_vectors(vectors), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_zero_vector_stays_zero_with_an_ordinary_gradient(dtype):
    vectors = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    unit = unit_vectors(vectors)
    unit.sum().backward()
    assert (unit == 0).all()
    assert (vectors.grad.abs() <= 1).all()


def test_unit_vectors_have_the_right_gradient():
    assert gradcheck(unit_vectors, draw(3, 4).requires_grad_())


def test_similarity_is_one_minus_the_cosine_distance():
    x, y = draw(3, 4, 5), draw(3, 6, 5).flip(0)
    found = pairwise_similarity(unit_vectors(x), unit_vectors(y))
    expected = np.stack([1 - cdist(one, other, "cosine") for one, other in zip(x, y, strict=True)])
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_similarity_has_the_right_gradient():
    assert gradcheck(pairwise_similarity, (draw(2, 3, 4).requires_grad_(), draw(2, 2, 4).requires_grad_()))


def costs(x: torch.Tensor, y: torch.Tensor, kind: str) -> torch.Tensor:
    return pairwise_cost(x, y, pairwise_similarity(x, y), kind)


@each_kind
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-14), (torch.float32, 2e-6)], ids=str)
def test_costs_are_distances_of_scipy(kind, dtype, bound):
    x, y = unit_vectors(draw(3, 4, 5)), unit_vectors(draw(3, 6, 5).flip(0))
    found = costs(x.to(dtype), y.to(dtype), kind)
    expected = np.stack([cdist(one, other, KINDS[kind]) for one, other in zip(x.numpy(), y.numpy(), strict=True)])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


@each_kind
def test_costs_are_bounded_and_symmetric(kind):
    x, y = unit_vectors(draw(3, 20, 2)), unit_vectors(draw(3, 30, 2))
    found, most = costs(x, y, kind), {"cosine": 2, "squared-euclidean": 4, "euclidean": 2}[kind]
    assert ((found > -1e-15) & (found < most + 1e-15)).all()
    assert found.max() > 0.9 * most
    torch.testing.assert_close(found, costs(y, x, kind).transpose(1, 2), rtol=0, atol=1e-15)


def test_second_derivatives_are_right_beside_a_zero_vector():
    vectors = torch.tensor([[0.3, -0.4, 0.5], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(unit_vectors(vectors)[:, 0].sum(), vectors, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), vectors)
    assert second.isfinite().all()
    assert torch.autograd.gradgradcheck(unit_vectors, vectors[:1].detach().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_euclidean_distance_of_a_vector_from_itself_is_zero_to_the_last_bit(dtype):
    x = unit_vectors(draw(2, 40, 384, dtype=dtype))
    own = costs(x, x.clone(), "euclidean").diagonal(dim1=1, dim2=2)
    assert (own == 0).all()
    for kind, bound in (("cosine", 2e-6), ("squared-euclidean", 4e-6)):
        assert (costs(x, x.clone(), kind).diagonal(dim1=1, dim2=2).abs() < bound).all()


@each_kind
def test_costs_have_the_right_gradients(kind):
    x, y = (unit_vectors(one).requires_grad_() for one in (draw(2, 3, 4), draw(2, 2, 4).flip(0)))
    assert gradcheck(lambda x, y: costs(x, y, kind), (x, y))


@each_kind
def test_gradients_are_finite_where_vectors_are_equal_opposite_or_zero(kind):
    x = unit_vectors(draw(1, 3, 4))
    y = torch.cat([x[:, :1], -x[:, 1:2], torch.zeros_like(x[:, :1])], dim=1)
    leaves = [one.clone().requires_grad_() for one in (x, y)]
    costs(*leaves, kind).sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)


@each_kind
def test_autocast_changes_no_cost(kind):
    x, y = (unit_vectors(one) for one in (draw(3, 4, 5, dtype=torch.float32), draw(3, 6, 5, dtype=torch.float32)))
    with torch.autocast("cpu", torch.bfloat16):
        found = costs(x, y, kind)
    assert found.dtype == torch.float32
    assert torch.equal(found, costs(x, y, kind))


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_cost_is_named():
    x = draw(1, 2, 3)
    with pytest.raises(ValueError, match="Expected `kind` to be 'cosine', 'squared-euclidean' or 'euclidean', but got"):
        costs(x, x, "manhattan")


def test_mixed_dtypes_are_refused():
    with pytest.raises(TypeError, match=r"Expected `reference` and `hypothesis` to share dtype and device, but got"):
        pairwise_similarity(draw(1, 2, 3), draw(1, 2, 3, dtype=torch.float32))


def test_shapes_are_checked_in_tests():
    with pytest.raises(TypeError, match="hypothesis"):
        pairwise_similarity(draw(1, 2, 3), draw(1, 2, 4))


def test_kinds_have_axes_of_their_own():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, size, 3, dtype=torch.float64, generator=generator).requires_grad_() for size in (3, 4))
    kinds = torch.tensor([[0, 9, 5], [0, 0, 0]]), torch.tensor([[5, 0, 7, 7], [0, 0, 4, 0]])
    left, right = orthogonal_axes(x, y, *kinds)
    found, plain = pairwise_similarity(left, right), pairwise_similarity(x, y)
    lengths = x.norm(dim=-1)[:, :, None] * y.norm(dim=-1)[:, None]
    known = (kinds[0] == 0)[:, :, None] & (kinds[1] == 0)[:, None]
    same = (kinds[0][:, :, None] == kinds[1][:, None]) & ~known
    torch.testing.assert_close(found, torch.where(known, plain, torch.where(same, lengths, 0.0)))
    torch.testing.assert_close(left.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(left[1, :, :3], x[1])
    assert gradcheck(lambda *given: orthogonal_axes(*given, *kinds), (x, y))


def test_without_kinds_vectors_stay_as_they_are():
    x, none = torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.long)
    assert all(torch.equal(one, x) for one in orthogonal_axes(x, x, none, none))
    empty = torch.zeros(0, 0, 4)
    assert orthogonal_axes(empty, empty, none[:0, :0], none[:0, :0])[0].shape == (0, 0, 4)


@pytest.mark.parametrize("factor", [1.0, 1.7, 64.0])
def test_scaled_losses_are_those_of_chosen_pairs_and_stay_below_one(factor):
    similarity = draw(3, 4, 5).tanh()
    chosen = draw(3, 4, 5) > 0
    found = scale_losses(similarity, chosen, factor)
    given = similarity.numpy()
    expected = np.where(given < 0, given, np.maximum(1 - factor * (1 - given), 0))
    np.testing.assert_allclose(found, np.where(chosen, expected, given), atol=1e-14)
    assert gradcheck(lambda given: scale_losses(given, chosen, factor), similarity.clone().requires_grad_())
