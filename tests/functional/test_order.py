"""Fragmentation against a loop over tokens, closed forms and its laws."""

import pytest
import torch

from textmover.functional import word_alignment as order


def fragmentation(plan, a, b=None) -> torch.Tensor:
    """Fragmentation where all positions of the hypothesis count, unless weights are given."""
    return order.fragmentation(plan, a, torch.ones_like(plan[:, 0]) if b is None else b)


def by_loop(plan, a) -> float:
    """The definition on lists, for one pair."""
    chunks, matched, current = 1, 0, -1
    for mass, weight in zip(plan, a, strict=True):
        if weight <= 0 or not mass or max(mass) <= 0:
            continue
        best = [j for j, value in enumerate(mass) if value >= max(mass) * (1 - 1e-5)]
        j = min(best, key=lambda one: (abs(one - current), one))
        chunks += j != current + 1
        current, matched = j, matched + 1
    return min(chunks / matched, 1) if matched else 0.0


def uniform(rows: int) -> torch.Tensor:
    return torch.full((1, rows), 1 / rows)


def of_matches(matches, columns: int) -> float:
    """Fragmentation of a plan in which row ``i`` sends everything to ``matches[i]``."""
    plan = torch.zeros(1, len(matches), columns)
    plan[0, range(len(matches)), list(matches)] = 1 / len(matches)
    return fragmentation(plan, uniform(len(matches))).item()


@pytest.mark.parametrize("levels", [2, 3, 1000])
@pytest.mark.parametrize("shape", [(40, 6, 5), (40, 3, 9), (40, 1, 4), (40, 7, 1)])
def test_loop_over_tokens(levels, shape):
    generator = torch.Generator().manual_seed(levels)
    plan = torch.randint(levels, shape, generator=generator).double()  # few levels: many ties, and rows without mass
    kept = torch.rand(shape[:2], generator=generator) > 0.2
    a = torch.rand(shape[:2], generator=generator, dtype=torch.float64) * kept
    expected = [by_loop(one, weights) for one, weights in zip(plan.tolist(), a.tolist(), strict=True)]
    assert fragmentation(plan, a).tolist() == pytest.approx(expected, abs=1e-15)


def test_counted_by_hand():
    assert of_matches([0, 1, 3, 4, 2], 5) == pytest.approx(3 / 5)
    assert of_matches([1, 2, 3], 4) == pytest.approx(2 / 3)  # not from the start of the hypothesis
    assert of_matches([0, 0, 1], 2) == pytest.approx(2 / 3)
    assert of_matches([2], 3) == 1  # two chunks for one token, bounded


def test_of_equally_large_masses_the_nearest_to_the_previous_match_is_taken():
    plan = torch.tensor([[[0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1]]]) / 3
    assert fragmentation(plan, uniform(3)).item() == pytest.approx(2 / 3)  # 2, 3, 4
    equally_near = torch.tensor([[[0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]]) / 3
    assert fragmentation(equally_near, uniform(3)).item() == 1  # 2, 1, 4; the later one would make it 2, 3, 4
    spread = torch.full((1, 4, 4), 1 / 16)
    assert fragmentation(spread, uniform(4)).item() == 1  # all stay at 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_break_a_tie(dtype):
    plan = torch.tensor([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]], dtype=dtype) / 3
    expected = fragmentation(plan, uniform(3)).item()
    noise = 1 + 4 * torch.finfo(dtype).eps * torch.randn(20, 3, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert set(fragmentation(plan * noise, uniform(3).expand(20, 3)).tolist()) == {expected}
    clear = plan * torch.tensor([[1.0, 1.0, 1.0], [0.99, 1.0, 1.0], [1.0, 0.99, 1.0]], dtype=dtype)
    assert fragmentation(clear, uniform(3)).item() == pytest.approx(1 / 3)


def test_rows_without_weight_or_mass_are_passed_over():
    plan = torch.zeros(1, 5, 3)
    plan[0, [0, 2, 4], [0, 1, 2]] = 1 / 3
    plan[0, 1] = torch.tensor([0.0, 0.0, 9.0])  # no weight
    a = torch.tensor([[1 / 3, 0, 1 / 3, 0.1, 1 / 3]])  # row 3 has weight and no mass
    assert fragmentation(plan, a).item() == pytest.approx(1 / 3)


def test_positions_without_weight_separate_nothing():
    plan = torch.zeros(1, 3, 5)
    plan[0, [0, 1, 2], [1, 3, 4]] = 1 / 3
    b = torch.tensor([[0.0, 1.0, 0.0, 1.0, 1.0]])
    assert fragmentation(plan, uniform(3), b).item() == pytest.approx(1 / 3)
    assert fragmentation(plan, uniform(3)).item() == 1


def test_padding_moves_nothing():
    generator = torch.Generator().manual_seed(0)
    plan, a = torch.rand(6, 5, 4, generator=generator), torch.rand(6, 5, generator=generator)
    padded = torch.nn.functional.pad(plan, (0, 3, 0, 2))
    assert torch.equal(fragmentation(padded, torch.nn.functional.pad(a, (0, 2))), fragmentation(plan, a))


def test_the_size_of_the_masses_does_not_matter():
    plan = torch.rand(6, 5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fragmentation(1e-9 * plan, torch.ones(6, 5)), fragmentation(plan, torch.ones(6, 5)))


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 3, 0), (2, 0, 0), (0, 2, 3), (2, 3, 4)])
def test_nothing_matched_gives_zero(shape):
    assert fragmentation(torch.zeros(shape), torch.ones(shape[:2]), torch.ones(shape[::2])).tolist() == [0] * shape[0]
    assert fragmentation(torch.ones(shape), torch.zeros(shape[:2]), torch.ones(shape[::2])).tolist() == [0] * shape[0]


def test_dtype_is_that_of_the_plan_and_no_gradient_flows():
    for dtype in (torch.float32, torch.float64):
        found = fragmentation(torch.rand(2, 3, 4, dtype=dtype, requires_grad=True), torch.ones(2, 3, dtype=dtype))
        assert found.dtype == dtype
        assert not found.requires_grad


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"Expected `plan` to have shape \[B, M, N\], but got \[3, 4\]"):
        order.fragmentation(torch.ones(3, 4), torch.ones(3), torch.ones(4))
    with pytest.raises(ValueError, match=r"Expected `a` to have shape \[2, 3\], but got \[2, 4\]"):
        fragmentation(torch.ones(2, 3, 4), torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"Expected `b` to have shape \[2, 4\], but got \[2, 3\]"):
        fragmentation(torch.ones(2, 3, 4), torch.ones(2, 3), torch.ones(2, 3))
