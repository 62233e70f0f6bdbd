"""The factors of differences: nearest matrices, the space that they share, and the sum with the base."""

import itertools

import numpy as np
import pytest
import torch

from textmover.checkpoints.adapter import _factors, _singular, restore, spread_ranks


def low_rank_factors(difference, rank):
    return _factors(difference.double(), _singular(difference.double(), rank)[1])


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (7, 7), (1, 6)])
@pytest.mark.parametrize("rank", [1, 3, 20])
def test_factors_are_the_nearest_matrix_of_their_rank(shape, rank):
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=shape))
    left, right = low_rank_factors(matrix, rank)
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    assert left.shape == (shape[0], min(rank, *shape))
    # Eckart and Young: the squares of the singular values that are left out.
    assert float((left @ right - matrix).square().sum()) == pytest.approx((values[rank:] ** 2).sum(), abs=1e-12)
    np.testing.assert_allclose(left.norm(dim=0), right.norm(dim=1), rtol=1e-9)
    np.testing.assert_allclose(left.norm(dim=0).square(), values[:rank], rtol=1e-7)


def test_a_matrix_of_lower_rank_has_fewer_columns():
    torch.manual_seed(0)
    matrix = (torch.randn(20, 2) @ torch.randn(2, 9)).double()
    left, right = low_rank_factors(matrix, 6)
    assert (left @ right - matrix).abs().max() < 1e-6
    once = torch.outer(torch.arange(1.0, 5.0), torch.ones(3)).double()
    assert low_rank_factors(once, 3)[0].shape == (4, 1)


def test_space_goes_where_it_keeps_the_most():
    """Compared with every way to deal out the space, where all ranks take the same."""
    values = {
        "a": torch.tensor([5.0, 1.0, 0.5]),
        "b": torch.tensor([2.0, 1.5, 0.1]),
        "c": torch.tensor([0.3, 0.2, 0.1]),
    }
    found = spread_ranks(values, dict.fromkeys(values, 4), 1)

    def kept(ranks):
        return sum(float(one[:rank].square().sum()) for one, rank in zip(values.values(), ranks, strict=True))

    best = max((one for one in itertools.product(range(4), repeat=3) if sum(one) <= 3), key=kept)
    assert tuple(found.values()) == best == (1, 2, 0)


def test_singular_values_of_nothing_take_no_space():
    ranks = spread_ranks({"a": torch.tensor([1.0, 0.0]), "b": torch.zeros(2)}, {"a": 3, "b": 3}, 2)
    assert ranks == {"a": 1, "b": 0}


def test_a_matrix_is_restored_in_parts_as_in_one(monkeypatch):
    torch.manual_seed(0)
    before = {"weight": torch.randn(10, 4), "count": torch.tensor(3)}
    factors = {"weight@left": torch.randn(10, 2), "weight@right": torch.randn(2, 4)}
    whole = restore(before, factors)
    monkeypatch.setattr("textmover.checkpoints.adapter.ROWS", 3)
    parts = restore(before, factors)
    torch.testing.assert_close(parts["weight"], before["weight"] + factors["weight@left"] @ factors["weight@right"])
    assert torch.equal(parts["weight"], whole["weight"])
    assert torch.equal(parts["count"], before["count"])
