"""Unit vectors and similarity blocks against NumPy and SciPy."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch.autograd import gradcheck

from textmover.functional import pairwise_similarity, unit_vectors


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_unit_vectors_are_vectors_over_their_length(shape):
    vectors = draw(*shape)
    expected = vectors.numpy() / np.linalg.norm(vectors.numpy(), axis=-1, keepdims=True)
    np.testing.assert_allclose(unit_vectors(vectors), expected, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_unit_vectors_do_not_see_the_scale(scale):
    vectors = draw(3, 5)
    torch.testing.assert_close(unit_vectors(scale * vectors), unit_vectors(vectors), rtol=1e-12, atol=0)


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


def test_similarity_with_the_sides_exchanged_is_the_transpose():
    x, y = draw(3, 4, 5), draw(3, 6, 5)
    torch.testing.assert_close(pairwise_similarity(x, y), pairwise_similarity(y, x).transpose(1, 2), rtol=0, atol=1e-15)


def test_similarity_has_the_right_gradient():
    assert gradcheck(pairwise_similarity, (draw(2, 3, 4).requires_grad_(), draw(2, 2, 4).requires_grad_()))


def test_autocast_changes_nothing():
    x, y = draw(3, 4, 5, dtype=torch.float32), draw(3, 6, 5, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = pairwise_similarity(unit_vectors(x), unit_vectors(y))
    assert found.dtype == torch.float32
    assert torch.equal(found, pairwise_similarity(unit_vectors(x), unit_vectors(y)))


def test_mixed_dtypes_are_refused():
    with pytest.raises(TypeError, match=r"Expected `reference` and `hypothesis` to share dtype and device, but got"):
        pairwise_similarity(draw(1, 2, 3), draw(1, 2, 3, dtype=torch.float32))


def test_shapes_are_checked_in_tests():
    with pytest.raises(TypeError, match="hypothesis"):
        pairwise_similarity(draw(1, 2, 3), draw(1, 2, 4))
