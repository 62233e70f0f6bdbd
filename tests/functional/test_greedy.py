"""Greedy matching against loops, published code's values and its laws."""

import json
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional import f_score, greedy_matching

CASES = json.loads((Path(__file__).parent / "data" / "twmd_family.json").read_text())["cases"]


def by_loops(similarity, a, b, reference_mask, hypothesis_mask) -> tuple[float, float, float]:
    rows = [i for i, kept in enumerate(reference_mask.tolist()) if kept]
    columns = [j for j, kept in enumerate(hypothesis_mask.tolist()) if kept]
    recall = sum(a[i].item() * max(similarity[i, j].item() for j in columns) for i in rows)
    precision = sum(b[j].item() * max(similarity[i, j].item() for i in rows) for j in columns)
    return recall, precision, 2 * recall * precision / (recall + precision)


@pytest.mark.parametrize("uniform", [True, False])
def test_loop_over_all_tokens(problem, uniform):
    given = problem(5, ragged=True, uniform=uniform)
    found = greedy_matching(*given)
    for row in range(5):
        expected = by_loops(*(tensor[row] for tensor in given))
        assert [value[row].item() for value in found[:3]] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_values_of_the_authors_code(case):
    x, y = (torch.tensor(case[side], dtype=torch.float64) for side in ("reference", "candidate"))
    a, b = (torch.full((1, len(side)), 1 / len(side), dtype=torch.float64) for side in (x, y))
    found = greedy_matching((x @ y.T)[None], a, b, a > 0, b > 0)
    assert [value.item() for value in found[:3]] == pytest.approx(case["bertscore_rpf"], abs=1e-9)


def test_recall_of_one_direction_is_precision_of_the_other(problem):
    given = problem(ragged=True)
    forward, backward = greedy_matching(*given), greedy_matching(*given.transposed())
    torch.testing.assert_close(forward.recall, backward.precision, rtol=0, atol=0)
    torch.testing.assert_close(forward.precision, backward.recall, rtol=0, atol=0)
    torch.testing.assert_close(forward.f, backward.f, rtol=0, atol=1e-15)


def test_a_permutation_matches_perfectly():
    order = torch.tensor([2, 0, 3, 1])
    quarter = torch.full((1, 4), 0.25)
    found = greedy_matching(torch.eye(4)[order][None], quarter, quarter, quarter > 0, quarter > 0, with_plan=True)
    assert [value.item() for value in found[:3]] == [1, 1, 1]
    assert torch.equal(found.plan, torch.eye(4)[order][None] / 4)


def test_one_token_on_each_side_gives_its_cosine():
    one = torch.ones(1, 1)
    assert greedy_matching(torch.full((1, 1, 1), 0.3), one, one, one > 0, one > 0).f.item() == pytest.approx(0.3)


@pytest.mark.parametrize("shift", [-0.3, 0.5])
def test_a_shift_of_all_similarities_shifts_recall_and_precision(problem, shift):
    given = problem(ragged=True)
    moved = greedy_matching(given.similarity + shift, *given[1:])
    for found, before in zip(moved[:2], greedy_matching(*given)[:2], strict=True):
        torch.testing.assert_close(found, before + shift, rtol=0, atol=1e-14)


def test_order_of_tokens_does_not_matter(problem):
    given = problem(ragged=True)
    for found, before in zip(greedy_matching(*given.permuted())[:3], greedy_matching(*given)[:3], strict=True):
        torch.testing.assert_close(found, before, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_padding_moves_nothing_and_gets_no_gradient(problem, dtype, bound):
    given = problem(ragged=True, dtype=dtype)
    padded = given.padded(3, 2, fill=5.0)
    similarity = padded.similarity.clone().requires_grad_()
    found = greedy_matching(similarity, *padded[1:])
    for value, before in zip(found[:3], greedy_matching(*given)[:3], strict=True):
        torch.testing.assert_close(value, before, rtol=0, atol=bound)
    sum(value.sum() for value in found[:3]).backward()
    assert (similarity.grad[~(padded.reference_mask[:, :, None] & padded.hypothesis_mask[:, None, :])] == 0).all()


def test_batch_is_a_loop_of_singles(problem):
    given = problem(ragged=True)
    singles = [greedy_matching(*single) for single in given.singles()]
    for index, value in enumerate(greedy_matching(*given)[:3]):
        torch.testing.assert_close(value, torch.cat([single[index] for single in singles]), rtol=0, atol=1e-14)


def test_a_token_may_be_split_into_two_halves(problem):
    given = problem()
    split = (
        torch.cat([given.similarity, given.similarity[:, :1]], dim=1),
        torch.cat([given.a[:, :1] / 2, given.a[:, 1:], given.a[:, :1] / 2], dim=1),
        given.b,
        torch.ones(4, 7, dtype=torch.bool),
        given.hypothesis_mask,
    )
    for found, before in zip(greedy_matching(*split)[:3], greedy_matching(*given)[:3], strict=True):
        torch.testing.assert_close(found, before, rtol=0, atol=1e-14)


def test_a_token_of_weight_zero_is_matched_where_its_mask_is_true():
    similarity = torch.tensor([[[0.9, 0.1]]])
    a, b = torch.ones(1, 1), torch.tensor([[0.0, 1.0]])
    open_mask, shut_mask = torch.tensor([[True, True]]), torch.tensor([[False, True]])
    found = greedy_matching(similarity, a, b, a > 0, open_mask)
    assert (found.recall.item(), found.precision.item()) == pytest.approx((0.9, 0.1))
    assert greedy_matching(similarity, a, b, a > 0, shut_mask).recall.item() == pytest.approx(0.1)


@pytest.mark.parametrize("side", ["reference", "hypothesis", "both"])
def test_an_empty_side_gives_zero_with_finite_gradients(problem, side):
    given = problem(3)
    a, b, rows, columns = (tensor.clone() for tensor in given[1:])
    if side != "hypothesis":
        a[0], rows[0] = 0, False
    if side != "reference":
        b[0], columns[0] = 0, False
    similarity = given.similarity.clone().requires_grad_()
    found = greedy_matching(similarity, a, b, rows, columns, with_plan=True)
    sum(value.sum() for value in found[:3]).backward()
    assert [value[0].item() for value in found[:3]] == [0, 0, 0]
    assert (found.plan[0] == 0).all()
    assert similarity.grad.isfinite().all()
    assert (similarity.grad[0] == 0).all()
    for value, alone in zip(found[:3], greedy_matching(*(tensor[1:] for tensor in given))[:3], strict=True):
        torch.testing.assert_close(value[1:], alone, rtol=0, atol=0)


def test_the_plan_carries_the_recall(problem):
    given = problem(ragged=True)
    found = greedy_matching(*given, with_plan=True)
    torch.testing.assert_close(found.plan.sum(dim=2), given.a, rtol=0, atol=1e-15)
    torch.testing.assert_close((found.plan * given.similarity).sum(dim=(1, 2)), found.recall, rtol=0, atol=1e-15)
    assert greedy_matching(*given).plan is None


def test_gradients(problem):
    given = problem(2, 3, 4)
    logits = [weights.log().requires_grad_() for weights in (given.a, given.b)]
    assert gradcheck(
        lambda s, la, lb: greedy_matching(s, la.softmax(1), lb.softmax(1), *given[3:])[:3],
        (given.similarity.requires_grad_(), *logits),
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_alpha_weighs_f_and_nothing_else(problem, alpha):
    given = problem(ragged=True)
    given = given._replace(similarity=(1 + given.similarity) / 2)
    found, plain = greedy_matching(*given, alpha=alpha), greedy_matching(*given)
    assert torch.equal(found.recall, plain.recall)
    assert torch.equal(found.precision, plain.precision)
    assert torch.equal(found.f, f_score(plain.precision, plain.recall, alpha))
    if alpha in (0.0, 1.0):
        torch.testing.assert_close(found.f, plain.recall if alpha else plain.precision, rtol=0, atol=1e-15)


def test_autocast_changes_nothing(problem):
    given = problem(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = greedy_matching(*given)
    for value, before in zip(found[:3], greedy_matching(*given)[:3], strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, before)


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_are_named(problem):
    given = problem()
    with pytest.raises(TypeError, match=r"Expected `similarity` to be float32 or float64, but got torch\.float16"):
        greedy_matching(*given.to(torch.float16))
    with pytest.raises(TypeError, match=r"Expected `a` to be torch\.float64"):
        greedy_matching(given.similarity, given.a.float(), *given[2:])
    with pytest.raises(ValueError, match=r"Expected `a` to have shape \[4, 6\], but got \[4, 5\]"):
        greedy_matching(given.similarity, given.b, *given[2:])
    with pytest.raises(ValueError, match=r"Expected `alpha` to be between 0 and 1, but got 1\.5"):
        greedy_matching(*given, alpha=1.5)
