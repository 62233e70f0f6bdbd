"""Exact transport against POT, SciPy's assignment and linear programme, its laws, and its gradients."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import linear_sum_assignment, linprog
from torch.autograd import gradcheck, gradgradcheck

from textmover.functional import exact_transport, partial_transport

CASES = json.loads((Path(__file__).parent / "data" / "transport.json").read_text())["cases"]


def costs(problem, *args, **kwargs):
    """Cost, weights and masks of random sets."""
    given = problem(*args, **kwargs)
    return given._replace(similarity=1 - given.similarity)


def with_holes(given):
    """The same sets with weight 0 also in the middle, not only at the end."""
    a, b = given.a.clone(), given.b.clone()
    a[0, 0], a[1, 2], b[1, 1], b[2, :2] = 0, 0, 0, 0
    return given._replace(a=a / a.sum(dim=1, keepdim=True), b=b / b.sum(dim=1, keepdim=True))


# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_stored_values(case):
    cost, a, b = (torch.tensor(case[name], dtype=torch.float64)[None] for name in ("cost", "a", "b"))
    uniform = (torch.full((1, size), 1 / size, dtype=torch.float64) for size in cost.shape[1:])
    assert exact_transport(cost, a, b).transport.item() == pytest.approx(case["emd_weighted"], abs=1e-9)
    assert exact_transport(cost, *uniform).transport.item() == pytest.approx(case["emd_uniform"], abs=1e-9)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("holes", [True, False])
def test_values_of_pot(problem, uniform, holes):
    given = costs(problem, 24, 9, 7, ragged=True, uniform=uniform)
    given = with_holes(given) if holes else given
    found = exact_transport(*given[:3])
    assert found.converged.all()
    for row in range(24):
        cost, a, b = (tensor[row].numpy() for tensor in given[:3])
        # Of its own accord the oracle leaves out what has no weight.
        assert found.transport[row].item() == pytest.approx(ot.emd2(a, b, cost), abs=1e-12)


def test_values_of_a_linear_programme(problem):
    cost, a, b, *_ = costs(problem, 3, 4, 5)
    sums = np.vstack([np.kron(np.eye(4), np.ones(5)), np.kron(np.ones(4), np.eye(5))])
    found = exact_transport(cost, a, b).transport
    for row in range(3):
        best = linprog(cost[row].flatten().numpy(), A_eq=sums, b_eq=torch.cat([a[row], b[row]]).numpy())
        assert found[row].item() == pytest.approx(best.fun, abs=1e-10)


@pytest.mark.parametrize("size", [2, 7, 20])
def test_uniform_weights_of_one_size_are_an_assignment(problem, size):
    cost, a, b, *_ = costs(problem, 3, size, size, uniform=True)
    found = exact_transport(cost, a, b)
    for row in range(3):
        chosen = linear_sum_assignment(cost[row].numpy())
        assert found.transport[row].item() == pytest.approx(cost[row].numpy()[chosen].mean(), abs=1e-13)
        expected = np.zeros((size, size))
        expected[chosen] = 1 / size
        np.testing.assert_allclose(found.plan[row], expected, rtol=0, atol=1e-15)


def test_the_best_of_all_permutations(problem):
    cost, a, b, *_ = costs(problem, 3, 4, 4, uniform=True)
    best = torch.stack([cost[:, range(4), list(order)].mean(dim=1) for order in permutations(range(4))]).amin(dim=0)
    torch.testing.assert_close(exact_transport(cost, a, b).transport, best, rtol=0, atol=1e-14)


def test_large_problems(problem):
    cost, a, b, *_ = costs(problem, 1, 300, 300)
    found = exact_transport(cost, a, b)
    assert found.converged.all()
    assert found.transport.item() == pytest.approx(ot.emd2(a[0].numpy(), b[0].numpy(), cost[0].numpy()), abs=1e-12)


# --- what the result says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holes", [True, False])
def test_plan_has_the_weights_as_sums_and_carries_the_value(problem, holes):
    given = costs(problem, ragged=True)
    given = with_holes(given) if holes else given
    found = exact_transport(*given[:3])
    assert (found.plan >= 0).all()
    assert not found.plan.requires_grad
    torch.testing.assert_close(found.plan.sum(dim=2), given.a, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.plan.sum(dim=1), given.b, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.transport, (found.plan * given.similarity).sum(dim=(1, 2)), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_a_solver_that_gave_up_says_so(problem, monkeypatch):
    monkeypatch.setattr("textmover.functional.exact.MAX_PIVOTS", 1)
    assert not exact_transport(*costs(problem, 2, 20, 20)[:3]).converged.any()


# --- laws -------------------------------------------------------------------------------------------------------------


def test_padding_moves_nothing_and_gets_no_gradient(problem):
    given = costs(problem, ragged=True)
    padded = given.padded(3, 2, fill=-5.0)
    leaves = [tensor.clone().requires_grad_() for tensor in padded[:3]]
    found, expected = exact_transport(*leaves), exact_transport(*given[:3])
    torch.testing.assert_close(found.transport, expected.transport, rtol=0, atol=1e-15)
    torch.testing.assert_close(found.plan[:, :6, :5], expected.plan, rtol=0, atol=1e-15)
    assert (found.plan[:, 6:] == 0).all()
    assert (found.plan[:, :, 5:] == 0).all()
    found.transport.sum().backward()
    for leaf, mask in zip(leaves[1:], padded[3:], strict=True):
        assert (leaf.grad[~mask] == 0).all()
    assert (leaves[0].grad[~(padded.reference_mask[:, :, None] & padded.hypothesis_mask[:, None, :])] == 0).all()


def test_batch_is_a_loop_of_singles(problem):
    given = costs(problem, ragged=True)
    singles = torch.cat([exact_transport(*single[:3]).transport for single in given.singles()])
    torch.testing.assert_close(exact_transport(*given[:3]).transport, singles, rtol=0, atol=1e-15)


def test_a_token_of_weight_zero_is_invisible(problem):
    cost, a, b, *_ = costs(problem, 3)
    wide = torch.cat([cost[:, :2], torch.full_like(cost[:, :1], -9.0), cost[:, 2:]], dim=1)
    found = exact_transport(wide, torch.cat([a[:, :2], torch.zeros_like(a[:, :1]), a[:, 2:]], dim=1), b)
    torch.testing.assert_close(found.transport, exact_transport(cost, a, b).transport, rtol=0, atol=1e-15)


def test_threads_change_nothing(problem):
    given = costs(problem, 100, 8, 9, ragged=True)
    before = torch.get_num_threads()
    try:
        found = []
        for count in (1, 4):
            torch.set_num_threads(count)
            leaves = [tensor.clone().requires_grad_() for tensor in given[:3]]
            result = exact_transport(*leaves)
            result.transport.sum().backward()
            found.append([*result, *(leaf.grad for leaf in leaves)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_only_the_proportions_of_the_weights_matter(problem):
    cost, a, b, *_ = costs(problem)
    expected = exact_transport(cost, a, b)
    found = exact_transport(cost, 3 * a, 0.2 * b)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-15)


def test_sides_can_be_exchanged_and_order_does_not_matter(problem):
    given = costs(problem, ragged=True)
    expected = exact_transport(*given[:3]).transport
    for other in (given.transposed(), given.permuted()):
        torch.testing.assert_close(exact_transport(*other[:3]).transport, expected, rtol=0, atol=1e-14)


def test_a_shift_and_a_scale_of_the_cost(problem):
    cost, a, b, *_ = costs(problem)
    expected = 3 * exact_transport(cost, a, b).transport - 2
    torch.testing.assert_close(exact_transport(3 * cost - 2, a, b).transport, expected, rtol=0, atol=1e-13)


def test_a_text_is_at_no_distance_from_itself(problem):
    x = torch.nn.functional.normalize(problem(3, 6, 8).similarity, dim=-1)
    cost, weights = (x[:, :, None] - x[:, None]).norm(dim=-1), problem(3).a
    assert (exact_transport(cost, weights, weights).transport.abs() < 1e-15).all()


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)], ids=str)
def test_one_token_on_a_side_has_one_plan(problem, shape):
    cost, a, b, *_ = costs(problem, 3, *shape)
    found = exact_transport(cost, a, b)
    assert found.converged.all()
    torch.testing.assert_close(found.plan, a[:, :, None] * b[:, None, :], rtol=0, atol=1e-16)
    leaves = [tensor.clone().requires_grad_() for tensor in (cost, a, b)]
    assert gradcheck(lambda *inputs: exact_transport(*inputs).transport, leaves)


@pytest.mark.parametrize("side", ["a", "b", "both"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_problem_without_mass_on_one_side_moves_nothing(problem, side, dtype):
    given = costs(problem, 3, dtype=dtype)
    a, b = given.a.clone(), given.b.clone()
    if side != "b":
        a[0] = 0
    if side != "a":
        b[0] = 0
    leaves = [tensor.requires_grad_() for tensor in (given.similarity.clone(), a, b)]
    found = exact_transport(*leaves)
    found.transport.sum().backward()
    assert found.converged.all()
    assert found.transport[0] == 0
    for value in (found.plan, *(leaf.grad for leaf in leaves)):
        assert (value[0] == 0).all()
        assert value.isfinite().all()
    rest = exact_transport(*(tensor[1:] for tensor in given[:3]))
    torch.testing.assert_close(found.transport[1:], rest.transport, rtol=0, atol=0)


def test_no_problem_at_all():
    found = exact_transport(torch.zeros(0, 2, 3), torch.zeros(0, 2), torch.zeros(0, 3))
    assert [tuple(value.shape) for value in found] == [(0, 2, 3), (0,), (0,)]


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5, 2)], ids=str)
def test_gradients_of_cost_and_weights(problem, shape):
    given = costs(problem, *shape)
    assert gradcheck(lambda *inputs: exact_transport(*inputs).transport, [one.requires_grad_() for one in given[:3]])


def test_gradients_with_padding_and_weights_of_zero(problem):
    cost, a, b, *_ = costs(problem, 4, 4, 5, ragged=True)
    rows, columns = a > 0, b > 0
    columns[0, 1] = False

    def padded(cost, log_a, log_b):
        sides = zip((log_a, log_b), (rows, columns), strict=True)
        return exact_transport(cost, *(log.masked_fill(~mask, -torch.inf).softmax(1) for log, mask in sides)).transport

    assert gradcheck(padded, (cost.requires_grad_(), *(one.clamp(min=0.1).log().requires_grad_() for one in (a, b))))


def test_the_gradient_of_the_cost_is_the_plan(problem):
    cost, a, b, *_ = costs(problem, 4, 6, 6, uniform=True)  # also where the potentials are not unique
    found = exact_transport(cost.requires_grad_(), a, b)
    (slope,) = torch.autograd.grad((found.transport * torch.arange(1.0, 5.0).double()).sum(), cost)
    torch.testing.assert_close(slope, found.plan * torch.arange(1.0, 5.0).double()[:, None, None], rtol=0, atol=0)


@pytest.mark.parametrize("uniform", [True, False])
def test_gradients_of_the_weights_are_potentials(problem, uniform):
    cost, a, b, *_ = costs(problem, 8, 6, 6, uniform=uniform)
    a, b = a.requires_grad_(), b.requires_grad_()
    found = exact_transport(cost, a, b)
    f, g = torch.autograd.grad(found.transport.sum(), (a, b))
    slack = cost - f[:, :, None] - g[:, None, :] - found.transport.detach()[:, None, None]  # both have mean 0
    assert (slack > -1e-12).all()
    assert (slack[found.plan > 0].abs() < 1e-12).all()


@pytest.mark.parametrize("transport", [exact_transport, partial_transport])
def test_second_derivatives_of_the_cost(problem, transport):
    cost, a, b, *_ = costs(problem, 2, 2, 3)
    assert gradgradcheck(lambda cost: transport(cost, a, b)[1].square(), cost.requires_grad_())


@pytest.mark.parametrize("transport", [exact_transport, partial_transport])
@pytest.mark.parametrize("power", [1, 2])
def test_second_derivatives_of_the_weights_are_refused(problem, transport, power):
    cost, a, b, *_ = costs(problem, 2, 2, 3)
    inputs = cost.requires_grad_(), a.requires_grad_()
    slopes = torch.autograd.grad(transport(*inputs, b)[1].pow(power).sum(), inputs, create_graph=True)
    for slope in slopes:
        with pytest.raises(RuntimeError, match="to be differentiated once where its weights need gradients"):
            torch.autograd.grad(slope.square().sum(), inputs, retain_graph=True)


def test_float32_is_solved_in_float64(problem):
    given = costs(problem, 16, 12, 9, dtype=torch.float32)
    leaves = [tensor.clone().requires_grad_() for tensor in given[:3]]
    found, expected = exact_transport(*leaves), exact_transport(*given.to(torch.float64)[:3])
    assert found.plan.dtype == found.transport.dtype == torch.float32
    assert torch.equal(found.plan, expected.plan.float())
    torch.testing.assert_close(found.transport.double(), expected.transport, rtol=0, atol=1e-6)
    found.transport.sum().backward()
    assert all(leaf.grad.dtype == torch.float32 for leaf in leaves)


def test_autocast_changes_nothing(problem):
    given = costs(problem, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = exact_transport(*given[:3])
    assert all(torch.equal(one, other) for one, other in zip(found, exact_transport(*given[:3]), strict=True))


# --- bad arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_cost_that_is_not_finite_is_refused(problem, value):
    cost, a, b, *_ = costs(problem)
    cost[1, 2, 3] = value
    with pytest.raises(ValueError, match="Expected `cost` to be finite, but it holds NaN or infinite values"):
        exact_transport(cost, a, b)


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_tensors_are_named(problem):
    cost, a, b, *_ = costs(problem)
    with pytest.raises(ValueError, match=r"Expected `cost` to have shape \[B, M, N\], but got \[6, 5\]"):
        exact_transport(cost[0], a, b)
    with pytest.raises(ValueError, match=r"Expected `a` to have shape \[4, 6\], but got \[4, 5\]"):
        exact_transport(cost, b, b)
    with pytest.raises(TypeError, match=r"Expected `cost` to be float32 or float64, but got torch\.float16: call"):
        exact_transport(cost.half(), a, b)
    with pytest.raises(TypeError, match=r"Expected `b` to be torch\.float64 on cpu like `cost`, but got"):
        exact_transport(cost, a, b.float())


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_weights_that_are_negative_or_not_finite_are_refused(weight):
    with pytest.raises(ValueError, match=rf"`a` to be finite and 0 or above, but got {weight}"):
        exact_transport(torch.ones(1, 2, 2), torch.tensor([[1.5, weight]]), torch.full((1, 2), 0.5))
