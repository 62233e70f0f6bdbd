"""Entropic transport against POT, its laws, and gradients through loops and through the implicit function theorem."""

import numpy as np
import ot
import pytest
import torch
from tests.functional.transport_rules import TIGHT, each_rule, each_stored, problem_of

from textmover.functional import _potentials as _scaling
from textmover.functional import sinkhorn

# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@each_stored
def test_stored_values(case, epsilon):
    found = sinkhorn(*problem_of(case), epsilon, **TIGHT)
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


def test_large_epsilon_gives_the_product_plan(costs):
    given = costs()
    product = given.a[:, :, None] * given.b[:, None, :]
    torch.testing.assert_close(sinkhorn(*given[:3], 1e9, iterations=1).plan, product, rtol=0, atol=1e-9)


# --- what the result says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.02, 0.005])
def test_a_problem_that_stopped_early_has_converged_in_float32_too(costs, epsilon):
    given = costs(64, 12, 9, uniform=True, dtype=torch.float32)
    found = sinkhorn(*given[:3], epsilon, tolerance=1e-5, max_iterations=2000)
    assert torch.equal(found.converged | (found.iterations == 2000), torch.ones(64, dtype=torch.bool))


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("worth", "inside"), [(10**9, 1), (0, 2)])
def test_small_problems_are_solved_in_one_thread(costs, threads, monkeypatch, worth, inside):
    """Threads that wait for one another twice in each iteration take most of the time on a busy processor."""
    monkeypatch.setattr(_scaling, "WORTH_THREADS", worth)
    step, seen = _scaling.row_half_step, []
    monkeypatch.setattr(_scaling, "row_half_step", lambda *args: seen.append(torch.get_num_threads()) or step(*args))
    threads(2)
    sinkhorn(*costs()[:3], 0.1, tolerance=1e-6)
    assert torch.get_num_threads() == 2
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


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_implicit_gradient_of_epsilon_is_the_finite_difference(costs, epsilon):
    given, step = costs(), 1e-4 * epsilon
    at = torch.tensor(epsilon, dtype=torch.float64, requires_grad=True)
    found, above, below = (sinkhorn(*given[:3], one, **TIGHT) for one in (at, epsilon + step, epsilon - step))
    for name in ("transport", "objective"):
        (slope,) = torch.autograd.grad(getattr(found, name).sum(), at, retain_graph=True)
        expected = (getattr(above, name) - getattr(below, name)).sum() / (2 * step)
        assert slope.item() == pytest.approx(expected.item(), rel=1e-6)


def test_implicit_gradients_in_float32_are_close_to_float64(costs):
    slopes = []
    for dtype in (torch.float64, torch.float32):
        given = costs(dtype=dtype)
        cost = given.similarity.requires_grad_()
        found = sinkhorn(cost, *given[1:3], 0.1, tolerance=2e-6, max_iterations=5000)
        assert found.converged.all()
        slopes.append(torch.autograd.grad(found.transport.sum(), cost)[0].double())
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-4)
