"""Greedy matching against loops, published code's values and its laws."""

import pytest
import torch
from tests.functional.transport_rules import each_of_the_authors, uniform, vectors_of

from textmover.functional import greedy_matching


def by_loops(similarity, a, b, reference_mask, hypothesis_mask) -> tuple[float, float, float]:
    rows = [i for i, kept in enumerate(reference_mask.tolist()) if kept]
    columns = [j for j, kept in enumerate(hypothesis_mask.tolist()) if kept]
    recall = sum(a[i].item() * max(similarity[i, j].item() for j in columns) for i in rows)
    precision = sum(b[j].item() * max(similarity[i, j].item() for i in rows) for j in columns)
    return recall, precision, 2 * recall * precision / (recall + precision) if min(recall, precision) > 0 else 0.0


@pytest.mark.parametrize("equal", [True, False])
def test_loop_over_all_tokens(problem, equal):
    given = problem(5, ragged=True, uniform=equal)
    found = greedy_matching(*given)
    for row in range(5):
        expected = by_loops(*(tensor[row] for tensor in given))
        assert [value[row].item() for value in found[:3]] == pytest.approx(expected, abs=1e-14)


@each_of_the_authors
def test_values_of_the_authors_code(case):
    x, y = vectors_of(case)
    a, b = uniform(len(x), len(y))
    found = greedy_matching((x @ y.T)[None], a, b, a > 0, b > 0)
    assert [value.item() for value in found[:3]] == pytest.approx(case["bertscore_rpf"], abs=1e-9)


def test_a_permutation_matches_perfectly():
    order = torch.tensor([2, 0, 3, 1])
    quarter = torch.full((1, 4), 0.25)
    found = greedy_matching(torch.eye(4)[order][None], quarter, quarter, quarter > 0, quarter > 0, with_plan=True)
    assert [value.item() for value in found[:3]] == [1, 1, 1]
    assert torch.equal(found.plan, torch.eye(4)[order][None] / 4)


def test_a_token_of_weight_zero_is_matched_where_its_mask_is_true():
    similarity = torch.tensor([[[0.9, 0.1]]])
    a, b = torch.ones(1, 1), torch.tensor([[0.0, 1.0]])
    open_mask, shut_mask = torch.tensor([[True, True]]), torch.tensor([[False, True]])
    found = greedy_matching(similarity, a, b, a > 0, open_mask)
    assert (found.recall.item(), found.precision.item()) == pytest.approx((0.9, 0.1))
    assert greedy_matching(similarity, a, b, a > 0, shut_mask).recall.item() == pytest.approx(0.1)


def test_the_plan_carries_the_recall(problem):
    given = problem(ragged=True)
    found = greedy_matching(*given, with_plan=True)
    torch.testing.assert_close(found.plan.sum(dim=2), given.a, rtol=0, atol=1e-15)
    torch.testing.assert_close((found.plan * given.similarity).sum(dim=(1, 2)), found.recall, rtol=0, atol=1e-15)
    assert greedy_matching(*given).plan is None
