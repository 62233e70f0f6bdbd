"""Exact transport against POT, SciPy's assignment and linear programme, its laws, and its gradients."""

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from tests.functional.transport_rules import each_stored, problem_of, uniform
from torch.autograd import gradcheck, gradgradcheck

from textmover.functional import exact_transport, partial_transport


def with_holes(given):
    """The same sets with weight 0 also in the middle, not only at the end."""
    a, b = given.a.clone(), given.b.clone()
    a[0, 0], a[1, 2], b[1, 1], b[2, :2] = 0, 0, 0, 0
    return given._replace(a=a / a.sum(dim=1, keepdim=True), b=b / b.sum(dim=1, keepdim=True))


# --- outside oracles --------------------------------------------------------------------------------------------------


@each_stored
def test_stored_values(case):
    cost, *weights = problem_of(case)
    for sides, name in ((weights, "emd_weighted"), (uniform(*cost.shape[1:]), "emd_uniform")):
        assert exact_transport(cost, *sides).transport.item() == pytest.approx(case[name], abs=1e-9)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("holes", [True, False])
def test_values_of_pot(costs, equal, holes):
    given = costs(24, 9, 7, ragged=True, uniform=equal)
    given = with_holes(given) if holes else given
    found = exact_transport(*given[:3])
    assert found.converged.all()
    for row in range(24):
        cost, a, b = (tensor[row].numpy() for tensor in given[:3])
        # Of its own accord the oracle leaves out what has no weight.
        assert found.transport[row].item() == pytest.approx(ot.emd2(a, b, cost), abs=1e-12)


@pytest.mark.parametrize("size", [2, 7, 20])
def test_uniform_weights_of_one_size_are_an_assignment(costs, size):
    cost, a, b, *_ = costs(3, size, size, uniform=True)
    found = exact_transport(cost, a, b)
    for row in range(3):
        chosen = linear_sum_assignment(cost[row].numpy())
        assert found.transport[row].item() == pytest.approx(cost[row].numpy()[chosen].mean(), abs=1e-13)
        expected = np.zeros((size, size))
        expected[chosen] = 1 / size
        np.testing.assert_allclose(found.plan[row], expected, rtol=0, atol=1e-15)


def test_large_problems(costs):
    cost, a, b, *_ = costs(1, 300, 300)
    found = exact_transport(cost, a, b)
    assert found.converged.all()
    assert found.transport.item() == pytest.approx(ot.emd2(a[0].numpy(), b[0].numpy(), cost[0].numpy()), abs=1e-12)


# --- what the result says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holes", [True, False])
def test_plan_has_the_weights_as_sums_and_carries_the_value(costs, holes):
    given = costs(ragged=True)
    given = with_holes(given) if holes else given
    found = exact_transport(*given[:3])
    assert (found.plan >= 0).all()
    assert not found.plan.requires_grad
    torch.testing.assert_close(found.plan.sum(dim=2), given.a, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.plan.sum(dim=1), given.b, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.transport, (found.plan * given.similarity).sum(dim=(1, 2)), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_a_solver_that_gave_up_says_so(costs, monkeypatch):
    monkeypatch.setattr("textmover.functional.exact.MAX_PIVOTS", 1)
    assert not exact_transport(*costs(2, 20, 20)[:3]).converged.any()


# --- laws -------------------------------------------------------------------------------------------------------------


def test_threads_change_nothing(costs, threads):
    given, found = costs(100, 8, 9, ragged=True), []
    for count in (1, 4):
        threads(count)
        leaves = [tensor.clone().requires_grad_() for tensor in given[:3]]
        result = exact_transport(*leaves)
        result.transport.sum().backward()
        found.append([*result, *(leaf.grad for leaf in leaves)])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_only_the_proportions_of_the_weights_matter(costs):
    cost, a, b, *_ = costs()
    expected = exact_transport(cost, a, b)
    found = exact_transport(cost, 3 * a, 0.2 * b)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-15)


def test_a_text_is_at_no_distance_from_itself(problem):
    x = torch.nn.functional.normalize(problem(3, 6, 8).similarity, dim=-1)
    cost, weights = (x[:, :, None] - x[:, None]).norm(dim=-1), problem(3).a
    assert (exact_transport(cost, weights, weights).transport.abs() < 1e-15).all()


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)], ids=str)
def test_one_token_on_a_side_has_one_plan(costs, shape):
    cost, a, b, *_ = costs(3, *shape)
    found = exact_transport(cost, a, b)
    assert found.converged.all()
    torch.testing.assert_close(found.plan, a[:, :, None] * b[:, None, :], rtol=0, atol=1e-16)
    leaves = [tensor.clone().requires_grad_() for tensor in (cost, a, b)]
    assert gradcheck(lambda *inputs: exact_transport(*inputs).transport, leaves)


def test_tokens_without_weight_get_no_gradient(costs):
    given = costs(3, ragged=True)
    a = given.a.clone()
    a[0] = 0
    leaves = [tensor.clone().requires_grad_() for tensor in (given.similarity, a, given.b)]
    found = exact_transport(*leaves)
    found.transport.sum().backward()
    assert found.converged.all()
    assert all((leaf.grad[0] == 0).all() for leaf in leaves)
    for leaf, mask in zip(leaves[1:], given[3:], strict=True):
        assert (leaf.grad[~mask] == 0).all()


def test_no_problem_at_all():
    found = exact_transport(torch.zeros(0, 2, 3), torch.zeros(0, 2), torch.zeros(0, 3))
    assert [tuple(value.shape) for value in found] == [(0, 2, 3), (0,), (0,)]


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5, 2)], ids=str)
def test_gradients_of_cost_and_weights(costs, shape):
    given = costs(*shape)
    assert gradcheck(lambda *inputs: exact_transport(*inputs).transport, [one.requires_grad_() for one in given[:3]])


def test_gradients_with_padding_and_weights_of_zero(costs):
    cost, a, b, *_ = costs(4, 4, 5, ragged=True)
    rows, columns = a > 0, b > 0
    columns[0, 1] = False

    def padded(cost, log_a, log_b):
        sides = zip((log_a, log_b), (rows, columns), strict=True)
        return exact_transport(cost, *(log.masked_fill(~mask, -torch.inf).softmax(1) for log, mask in sides)).transport

    assert gradcheck(padded, (cost.requires_grad_(), *(one.clamp(min=0.1).log().requires_grad_() for one in (a, b))))


def test_the_gradient_of_the_cost_is_the_plan(costs):
    cost, a, b, *_ = costs(4, 6, 6, uniform=True)  # also where the potentials are not unique
    found = exact_transport(cost.requires_grad_(), a, b)
    (slope,) = torch.autograd.grad((found.transport * torch.arange(1.0, 5.0).double()).sum(), cost)
    torch.testing.assert_close(slope, found.plan * torch.arange(1.0, 5.0).double()[:, None, None], rtol=0, atol=0)


@pytest.mark.parametrize("equal", [True, False])
def test_gradients_of_the_weights_are_potentials(costs, equal):
    cost, a, b, *_ = costs(8, 6, 6, uniform=equal)
    a, b = a.requires_grad_(), b.requires_grad_()
    found = exact_transport(cost, a, b)
    f, g = torch.autograd.grad(found.transport.sum(), (a, b))
    slack = cost - f[:, :, None] - g[:, None, :] - found.transport.detach()[:, None, None]  # both have mean 0
    assert (slack > -1e-12).all()
    assert (slack[found.plan > 0].abs() < 1e-12).all()


@pytest.mark.parametrize("transport", [exact_transport, partial_transport])
def test_second_derivatives_of_the_cost(costs, transport):
    cost, a, b, *_ = costs(2, 2, 3)
    assert gradgradcheck(lambda cost: transport(cost, a, b)[1].square(), cost.requires_grad_())


@pytest.mark.parametrize("transport", [exact_transport, partial_transport])
@pytest.mark.parametrize("power", [1, 2])
def test_second_derivatives_of_the_weights_are_refused(costs, transport, power):
    cost, a, b, *_ = costs(2, 2, 3)
    inputs = cost.requires_grad_(), a.requires_grad_()
    slopes = torch.autograd.grad(transport(*inputs, b)[1].pow(power).sum(), inputs, create_graph=True)
    for slope in slopes:
        with pytest.raises(RuntimeError, match="to be differentiated once where its weights need gradients"):
            torch.autograd.grad(slope.square().sum(), inputs, retain_graph=True)


def test_float32_is_solved_in_float64(costs):
    given = costs(16, 12, 9, dtype=torch.float32)
    leaves = [tensor.clone().requires_grad_() for tensor in given[:3]]
    found, expected = exact_transport(*leaves), exact_transport(*given.to(torch.float64)[:3])
    assert found.plan.dtype == found.transport.dtype == torch.float32
    assert torch.equal(found.plan, expected.plan.float())
    torch.testing.assert_close(found.transport.double(), expected.transport, rtol=0, atol=1e-6)
    found.transport.sum().backward()
    assert all(leaf.grad.dtype == torch.float32 for leaf in leaves)


# --- bad arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_cost_that_is_not_finite_is_refused(costs, value):
    cost, a, b, *_ = costs()
    cost[1, 2, 3] = value
    with pytest.raises(ValueError, match="Expected `cost` to be finite, but it holds NaN or infinite values"):
        exact_transport(cost, a, b)


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_weights_that_are_negative_or_not_finite_are_refused(weight):
    with pytest.raises(ValueError, match=rf"`a` to be finite and 0 or above, but got {weight}"):
        exact_transport(torch.ones(1, 2, 2), torch.tensor([[1.5, weight]]), torch.full((1, 2), 0.5))
