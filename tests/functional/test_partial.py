"""Exact partial transport against a linear programme and POT, its laws, and its gradients."""

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import linprog
from tests.functional.transport_rules import assert_gradients

from textmover.functional import exact_transport
from textmover.functional.exact import partial_transport

LIGHT, EVEN, HEAVY = 0.4, 1.0, 2.5
"""Masses of the columns, beside rows of mass 1."""


def costs(problem, *args, mass=LIGHT, **kwargs):
    """Cost, weights and masks of random sets, whose columns have another mass."""
    given = problem(*args, **kwargs)
    return given._replace(similarity=1 - given.similarity, b=given.b * mass)


# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [LIGHT, EVEN, HEAVY])
def test_values_of_a_linear_programme(problem, mass):
    cost, a, b, *_ = costs(problem, 6, 5, 7, ragged=True, mass=mass)
    sums = np.vstack([np.kron(np.eye(5), np.ones(7)), np.kron(np.ones(5), np.eye(7))])
    found = partial_transport(cost, a, b)
    assert found.converged.all()
    for row in range(6):
        least = min(a[row].sum().item(), b[row].sum().item())
        best = linprog(
            cost[row].flatten().numpy(),
            A_ub=sums,
            b_ub=torch.cat([a[row], b[row]]).numpy(),
            A_eq=np.ones((1, 35)),
            b_eq=[least - 1e-15],
        )
        assert best.success
        assert found.work[row].item() == pytest.approx(best.fun, abs=1e-9)
        assert found.mass[row].item() == pytest.approx(least, abs=1e-12)
        assert found.emd[row].item() == pytest.approx(best.fun / least, abs=1e-9)


@pytest.mark.parametrize("mass", [LIGHT, HEAVY])
def test_values_of_pot(problem, mass):
    given = costs(problem, 8, 9, 6, ragged=True, mass=mass)
    found = partial_transport(*given[:3])
    for row, (cost, a, b, *_) in enumerate(given.singles()):
        mass = found.mass[row].item() * (1 - 1e-12)  # the oracle refuses a mass above either side's by rounding
        plan = ot.partial.partial_wasserstein(a[0].numpy(), b[0].numpy(), cost[0].numpy(), m=mass)
        assert found.work[row].item() == pytest.approx(float((plan * cost[0].numpy()).sum()), abs=1e-7)


# --- what the result says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [LIGHT, EVEN, HEAVY])
def test_the_plan_keeps_to_the_weights_and_carries_the_value(problem, mass):
    given = costs(problem, 6, 6, 5, ragged=True, mass=mass)
    found = partial_transport(*given[:3])
    assert (found.plan >= 0).all()
    assert (found.plan.sum(dim=2) <= given.a + 1e-12).all()
    assert (found.plan.sum(dim=1) <= given.b + 1e-12).all()
    torch.testing.assert_close(found.plan.sum(dim=(1, 2)), found.mass, rtol=0, atol=1e-12)
    torch.testing.assert_close((found.plan * given.similarity).sum(dim=(1, 2)), found.work, rtol=0, atol=1e-12)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_equal_masses_are_the_balanced_problem(problem, scale):
    cost, a, b, *_ = costs(problem, mass=EVEN, ragged=True)
    found, expected = partial_transport(cost, a * scale, b * scale), exact_transport(cost, a, b)
    torch.testing.assert_close(found.emd, expected.transport, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.plan, expected.plan * scale, rtol=0, atol=1e-14)


def test_rounding_is_no_surplus(problem):
    cost, a, b, *_ = costs(problem, 1, 30, 25, mass=EVEN, dtype=torch.float32)
    a = a * (1 + 5e-7)
    found = partial_transport(cost.requires_grad_(), a, b)
    torch.testing.assert_close(found.plan.sum(dim=2), a, rtol=0, atol=1e-6)


def test_a_scale_and_a_shift_of_the_cost_and_a_scale_of_the_weights(problem):
    cost, a, b, *_ = costs(problem)
    plain = partial_transport(cost, a, b)
    # Costs below 0 too: the dummy point costs 0, but what it takes is fixed.
    torch.testing.assert_close(partial_transport(3 * cost - 8, a, b).emd, 3 * plain.emd - 8, rtol=0, atol=1e-12)
    scaled = partial_transport(cost, 5 * a, 5 * b)
    torch.testing.assert_close(scaled.emd, plain.emd, rtol=0, atol=1e-13)
    torch.testing.assert_close(scaled.work, 5 * plain.work, rtol=0, atol=1e-12)


def test_padding_and_batch_mates_change_nothing(problem):
    given = costs(problem, ragged=True)
    mixed = given._replace(b=given.b * torch.tensor([1.0, 2.5, 4.0, 0.1])[:, None])  # one of them is balanced
    expected = partial_transport(*mixed[:3])
    padded = partial_transport(*mixed.padded(3, 2, fill=-5.0)[:3])
    torch.testing.assert_close(padded.emd, expected.emd, rtol=0, atol=1e-14)
    assert (padded.plan[:, 6:] == 0).all()
    assert (padded.plan[:, :, 5:] == 0).all()
    alone = torch.cat([partial_transport(*single[:3]).emd for single in mixed.singles()])
    torch.testing.assert_close(alone, expected.emd, rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 0, 0)], ids=str)
def test_no_problem_or_no_word_at_all(shape):
    batch, rows, columns = shape
    found = partial_transport(torch.zeros(shape), torch.zeros(batch, rows), torch.ones(batch, columns))
    assert found.plan.shape == shape
    assert found.emd.tolist() == [0.0] * batch


# --- gradients and types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [LIGHT, HEAVY])
def test_gradients_of_cost_and_weights(problem, mass):
    def values(*inputs):
        found = partial_transport(*inputs)
        return found.work, found.emd, found.mass

    for single in costs(problem, 2, 3, 4, mass=mass).singles():
        assert_gradients(values, single[:3])


def test_the_gradient_of_the_cost_is_the_plan(problem):
    cost, a, b, *_ = costs(problem, 4, 6, 6)
    found = partial_transport(cost.requires_grad_(), a, b)
    (slope,) = torch.autograd.grad(found.work.sum(), cost)
    torch.testing.assert_close(slope, found.plan, rtol=0, atol=1e-14)


# --- bad arguments ----------------------------------------------------------------------------------------------------


def test_bad_values_are_refused(problem):
    cost, a, b, *_ = costs(problem)
    with pytest.raises(ValueError, match="Expected `cost` to be finite"):
        partial_transport(cost.clone().fill_(float("nan")), a, b)
    with pytest.raises(ValueError, match="`a` to be finite and 0 or above, but got -"):
        partial_transport(cost, -a, b)
