"""Entropic transport against POT, its laws, and gradients through loops and through the implicit function theorem."""

import json
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional import _potentials as _scaling
from textmover.functional import sinkhorn

CASES = json.loads((Path(__file__).parent / "data" / "transport.json").read_text())["cases"]
RULES = {
    "one iteration": {"iterations": 1},
    "four iterations": {"iterations": 4},
    "to a tolerance": {"tolerance": 1e-12, "max_iterations": 100_000},
}
TIGHT = RULES["to a tolerance"]

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def assert_same(found, expected, bound: float = 1e-12) -> None:
    """Plans, transport and objective agree."""
    for name in ("plan", "transport", "objective"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=bound, msg=name)


# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_stored_values(case, epsilon):
    cost, a, b = (torch.tensor(case[name], dtype=torch.float64)[None] for name in ("cost", "a", "b"))
    found = sinkhorn(cost, a, b, epsilon, **TIGHT)
    assert found.transport.item() == pytest.approx(case[f"sinkhorn_eps={epsilon}"], abs=1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 0.2, 0.05])
def test_plan_of_pot(costs, epsilon):
    given = costs()
    found = sinkhorn(*given[:3], epsilon, **TIGHT)
    for row in range(len(given.a)):
        cost, a, b = (tensor[row].numpy() for tensor in given[:3])
        expected = ot.sinkhorn(a, b, cost, epsilon, method="sinkhorn_log", numItermax=100_000, stopThr=1e-14)
        np.testing.assert_allclose(found.plan[row], expected, rtol=0, atol=1e-11)
    assert found.converged.all()


@pytest.mark.parametrize(("epsilon", "iterations"), [(1.0, 40), (0.1, 300), (0.01, 1500), (0.001, 1500)])
def test_the_scaling_form_is_a_loop_in_the_log_domain(costs, epsilon, iterations):
    given = costs(3, uniform=True)
    unrolled = sinkhorn(*given[:3], epsilon, iterations=iterations)
    found = sinkhorn(*given[:3], epsilon, tolerance=1e-12, max_iterations=iterations)
    bound = 1e-11 + 2 * unrolled.marginal_error.max().item()
    assert_same(found, unrolled, bound)


def test_large_epsilon_gives_the_product_plan(costs):
    given = costs()
    product = given.a[:, :, None] * given.b[:, None, :]
    torch.testing.assert_close(sinkhorn(*given[:3], 1e9, iterations=1).plan, product, rtol=0, atol=1e-9)


# --- what the result says ---------------------------------------------------------------------------------------------


@each_rule
def test_plan_potentials_and_values_fit_together(costs, rule):
    cost, a, b, rows, columns = costs(ragged=True)
    found = sinkhorn(cost, a, b, 0.1, **rule)
    plan = a[:, :, None] * b[:, None, :] * ((found.f[:, :, None] + found.g[:, None, :] - cost) / 0.1).exp()
    kept = rows[:, :, None] & columns[:, None, :]
    ratio = torch.where(kept, found.plan, 1.0) / torch.where(kept, a[:, :, None] * b[:, None, :], 1.0)
    torch.testing.assert_close(found.plan, plan, rtol=0, atol=1e-14)
    assert (found.f[~rows] == 0).all()
    assert (found.g[~columns] == 0).all()
    torch.testing.assert_close(found.plan.sum(dim=2), a, rtol=0, atol=1e-15)
    torch.testing.assert_close(found.marginal_error, (found.plan.sum(dim=1) - b).abs().sum(dim=1), rtol=0, atol=1e-15)
    torch.testing.assert_close(found.transport, (found.plan * cost).sum(dim=(1, 2)), rtol=0, atol=1e-15)
    divergence = (found.plan * ratio.log()).sum(dim=(1, 2))
    torch.testing.assert_close(found.objective, found.transport + 0.1 * divergence, rtol=0, atol=1e-14)


def test_at_convergence_the_objective_is_the_dual_value(costs):
    given = costs()
    found = sinkhorn(*given[:3], 0.1, **TIGHT)
    dual = (given.a * found.f).sum(dim=1) + (given.b * found.g).sum(dim=1)
    torch.testing.assert_close(found.objective, dual, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_converged_is_true_within_the_tolerance_and_false_where_iterations_run_out(costs, dtype):
    given = costs(16, dtype=dtype)
    found = sinkhorn(*given[:3], 0.02, tolerance=1e-5, max_iterations=100_000)
    assert found.converged.all()
    assert (found.marginal_error <= 1e-5).all()
    assert (found.iterations < 100_000).all()
    short = sinkhorn(*given[:3], 0.02, tolerance=1e-5, max_iterations=3)
    assert not short.converged.any()
    assert (short.iterations == 3).all()
    bound = 1e-12 if dtype == torch.float64 else 2e-5  # the same steps, in another arithmetic form
    assert_same(short, sinkhorn(*given[:3], 0.02, iterations=3), bound)


@pytest.mark.parametrize("epsilon", [0.02, 0.005])
def test_a_problem_that_stopped_early_has_converged_in_float32_too(costs, epsilon):
    given = costs(64, 12, 9, uniform=True, dtype=torch.float32)
    found = sinkhorn(*given[:3], epsilon, tolerance=1e-5, max_iterations=2000)
    assert torch.equal(found.converged | (found.iterations == 2000), torch.ones(64, dtype=torch.bool))


def test_a_fixed_number_of_iterations_makes_no_claim(costs):
    found = sinkhorn(*costs()[:3], 0.1, iterations=2)
    assert found.converged is None
    assert (found.iterations == 2).all()


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("worth", "inside"), [(10**9, 1), (0, 2)])
def test_small_problems_are_solved_in_one_thread(costs, monkeypatch, worth, inside):
    """Threads that wait for one another twice in each iteration take most of the time on a busy processor."""
    monkeypatch.setattr(_scaling, "WORTH_THREADS", worth)
    step, seen = _scaling.row_half_step, []
    monkeypatch.setattr(_scaling, "row_half_step", lambda *args: seen.append(torch.get_num_threads()) or step(*args))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sinkhorn(*costs()[:3], 0.1, tolerance=1e-6)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {inside}


def test_problems_that_converge_at_different_speeds_do_not_touch_each_other(costs):
    given = costs(4)
    cost = given.similarity * torch.tensor([0.01, 0.3, 1.0, 4.0], dtype=torch.float64)[:, None, None]
    rule = {"tolerance": 1e-6, "max_iterations": 100_000}
    together = sinkhorn(cost, *given[1:3], 0.1, **rule)
    alone = [sinkhorn(cost[i : i + 1], given.a[i : i + 1], given.b[i : i + 1], 0.1, **rule) for i in range(4)]
    assert together.iterations.unique().numel() >= 3
    assert torch.equal(together.iterations, torch.cat([single.iterations for single in alone]))
    for name in ("plan", "f", "g", "transport", "objective", "marginal_error"):
        expected = torch.cat([getattr(single, name) for single in alone])
        torch.testing.assert_close(getattr(together, name), expected, rtol=0, atol=1e-14)


@each_rule
def test_one_token_has_one_plan(rule):
    cost, a, b = (torch.tensor(values, dtype=torch.float64) for values in ([[[1.0, 3.0]]], [[1.0]], [[0.2, 0.8]]))
    found = sinkhorn(cost, a, b, 0.1, **rule)
    torch.testing.assert_close(found.plan, b[:, None, :], rtol=0, atol=1e-14)
    assert found.transport.item() == pytest.approx(2.6, abs=1e-14)


@each_rule
def test_a_cheap_permutation_is_found(rule):
    order = torch.tensor([2, 0, 3, 1])
    cost = 1 - torch.eye(4, dtype=torch.float64)[order][None]
    quarter = torch.full((1, 4), 0.25, dtype=torch.float64)
    found = sinkhorn(cost, quarter, quarter, 0.01, **rule)
    torch.testing.assert_close(found.plan, (1 - cost) / 4, rtol=0, atol=1e-14)


# --- gradients --------------------------------------------------------------------------------------------------------


def differentiable(costs, epsilon: float = 0.1, **kwargs):
    given = costs(2, 3, 4, **kwargs)
    logits = [weights.log().requires_grad_() for weights in (given.a, given.b)]
    return given.similarity.requires_grad_(), *logits, torch.tensor(epsilon, dtype=torch.float64, requires_grad=True)


def outputs(cost, log_a, log_b, epsilon, **rule):
    """Everything that has a gradient; the potentials only in sum, because a shift between the two is arbitrary."""
    found = sinkhorn(cost, log_a.softmax(1), log_b.softmax(1), epsilon, **rule)
    return found.plan, found.f[:, :, None] + found.g[:, None, :], found.transport, found.objective


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=pytest.mark.slow if "tolerance" in rule else ()) for rule in RULES.values()],
    ids=RULES,
)
def test_gradients_of_cost_weights_and_epsilon(costs, rule):
    assert gradcheck(lambda *inputs: outputs(*inputs, **rule), differentiable(costs))


def test_gradients_with_padded_rows(costs):
    cost, a, b, rows, columns = costs(2, 2, 3, ragged=True)

    def padded(cost, log_a, log_b):
        weights = [
            logits.masked_fill(~mask, -torch.inf).softmax(1) for logits, mask in ((log_a, rows), (log_b, columns))
        ]
        return sinkhorn(cost, *weights, 0.3, **TIGHT)[3:5]

    inputs = (cost.requires_grad_(), *(w.clamp(min=0.1).log().requires_grad_() for w in (a, b)))
    assert gradcheck(padded, inputs)


@pytest.mark.parametrize("output", range(4), ids=["plan", "potentials", "transport", "objective"])
def test_implicit_gradients_are_those_of_many_unrolled_iterations(costs, output):
    inputs = differentiable(costs)
    unrolled, implicit = (outputs(*inputs, **rule)[output] for rule in ({"iterations": 500}, TIGHT))
    direction = torch.randn(unrolled.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(implicit, unrolled, rtol=0, atol=1e-11)
    for found, expected in zip(
        torch.autograd.grad((implicit * direction).sum(), inputs),
        torch.autograd.grad((unrolled * direction).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
@pytest.mark.parametrize("output", ["transport", "objective"])
def test_implicit_gradient_of_epsilon_is_the_finite_difference(costs, output, epsilon):
    given = costs()

    def value(at):
        return getattr(sinkhorn(*given[:3], at, **TIGHT), output).sum()

    at = torch.tensor(epsilon, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(value(at), at)
    step = 1e-4 * epsilon
    expected = (value(epsilon + step) - value(epsilon - step)) / (2 * step)
    assert slope.item() == pytest.approx(expected.item(), rel=1e-6)


def test_gradient_of_the_objective_with_respect_to_the_cost_is_the_plan(costs):
    given = costs()
    cost = given.similarity.requires_grad_()
    found = sinkhorn(cost, *given[1:3], 0.1, **TIGHT)
    (slope,) = torch.autograd.grad(found.objective.sum(), cost)
    torch.testing.assert_close(slope, found.plan.detach(), rtol=0, atol=1e-10)


def test_implicit_gradients_in_float32_are_close_to_float64(costs):
    slopes = []
    for dtype in (torch.float64, torch.float32):
        given = costs(dtype=dtype)
        cost = given.similarity.requires_grad_()
        found = sinkhorn(cost, *given[1:3], 0.1, tolerance=2e-6, max_iterations=5000)
        assert found.converged.all()
        slopes.append(torch.autograd.grad(found.transport.sum(), cost)[0].double())
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-4)


# --- bad arguments and autocast ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "Expected exactly one of `iterations` and `tolerance`"),
        ({"iterations": 1, "tolerance": 1e-3}, "Expected exactly one of `iterations` and `tolerance`"),
        ({"iterations": 0}, "Expected `iterations` to be at least 1, but got 0"),
        ({"tolerance": 0.0}, "Expected `tolerance` to be positive, but got 0"),
        ({"tolerance": float("nan")}, "Expected `tolerance` to be positive, but got nan"),
        ({"tolerance": 1e-3, "max_iterations": 0}, "Expected `max_iterations` to be at least 1, but got 0"),
        ({"iterations": 1, "epsilon": 0.0}, "Expected `epsilon` to be a positive finite number, but got 0"),
        ({"iterations": 1, "epsilon": -1.0}, "Expected `epsilon` to be a positive finite number"),
        ({"iterations": 1, "epsilon": float("inf")}, "Expected `epsilon` to be a positive finite number"),
        ({"iterations": 1, "epsilon": float("nan")}, "Expected `epsilon` to be a positive finite number"),
    ],
)
def test_bad_options_are_named(costs, changed, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn(*costs()[:3], **{"epsilon": 0.1, **changed})
