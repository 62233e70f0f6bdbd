"""Transport with marginals that give way: against POT, SciPy, closed forms and loops, and its laws."""

from itertools import product

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import minimize
from tests.functional.transport_rules import INF, RULES, TIGHT, divergence, each_measure, each_pair, each_rule

from textmover.functional import lazy_emd, sinkhorn, trwmd, unbalanced_sinkhorn


def assert_same(found, expected, bound: float = 1e-12, names=("plan", "transport", "objective")) -> None:
    for name in names:
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=bound, msg=name)


def by_loop(cost, a, b, epsilon, penalties, measure, iterations=20_000):
    """The plan by plain alternation in the log domain, until the potentials stand still."""
    row_factor, column_factor = (1.0 if one == INF else one / (one + epsilon) for one in penalties)
    m, n = (a.log(), b.log()) if measure == "product" else (torch.zeros_like(a), torch.zeros_like(b))
    gamma = torch.zeros_like(b)
    phi = torch.zeros_like(a)
    for _ in range(iterations):
        before = gamma
        logits = -cost / epsilon
        gamma = column_factor * (b.log() - n - (logits + (phi + m)[:, :, None]).logsumexp(dim=1))
        phi = row_factor * (a.log() - m - (logits + (gamma + n)[:, None, :]).logsumexp(dim=2))
        if (gamma - before).abs().max() < 1e-13:
            break
    return (logits + (phi + m)[:, :, None] + (gamma + n)[:, None, :]).exp()


# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")
@each_measure
@pytest.mark.parametrize(
    ("epsilon", "penalties"),
    [
        *product([0.1], product([0.01, 0.3, 5.0, INF], repeat=2)),
        *product([0.009, 1.0], [(0.01, 0.01), (0.3, 0.01), (0.01, INF), (0.3, 0.0)]),
    ],
    ids=str,
)
def test_plan_of_pot(costs, epsilon, penalties, measure):
    given = costs(3, ragged=True)
    found = unbalanced_sinkhorn(*given[:3], epsilon, *penalties, measure=measure, **TIGHT)
    for row, single in enumerate(given.singles()):
        cost, a, b = (tensor[0].numpy() for tensor in single[:3])
        kind = "entropy" if measure == "entropy" else "kl"
        options = {"method": "sinkhorn", "reg_type": kind, "numItermax": 100_000, "stopThr": 1e-15}
        expected = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, epsilon, penalties, **options)
        np.testing.assert_allclose(found.plan[row, : len(a), : len(b)], expected, rtol=0, atol=1e-11)
    assert found.converged.all()


@each_measure
@pytest.mark.parametrize("penalties", [(0.3, 0.5), (0.1, 2.0)], ids=str)
def test_the_plan_minimises_the_stated_objective(costs, penalties, measure):
    cost, a, b, *_ = costs(1, 2, 3)
    prior = a[:, :, None] * b[:, None, :]

    def value(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.tensor(logarithms, requires_grad=True)
        total = objective(cost, a, b, at.exp().reshape(1, 2, 3), 0.1, penalties, measure).sum()
        return total.item(), torch.autograd.grad(total, at)[0].numpy()

    options = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 1000}
    start = prior.log().flatten().numpy()
    best = minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(-40, 2)] * 6, options=options)
    found = unbalanced_sinkhorn(cost, a, b, 0.1, *penalties, measure=measure, **TIGHT)
    assert found.objective.item() == pytest.approx(best.fun, abs=1e-12)
    np.testing.assert_allclose(found.plan.flatten(), np.exp(best.x), rtol=0, atol=1e-6)


def objective(cost, a, b, plan, epsilon, penalties, measure):
    """The stated objective of a plan; a penalty of 0 or infinity adds nothing."""
    value = (plan * cost).sum(dim=(1, 2))
    if measure == "entropy":
        value = value + epsilon * (torch.special.xlogy(plan, plan) - plan).sum(dim=(1, 2))
    else:
        value = value + epsilon * divergence(plan.flatten(1), (a[:, :, None] * b[:, None, :]).flatten(1))
    for penalty, sums, weights in zip(penalties, (plan.sum(dim=2), plan.sum(dim=1)), (a, b), strict=True):
        if penalty not in (0, INF):
            value = value + penalty * divergence(sums, weights)
    return value


@pytest.mark.parametrize("epsilon", [pytest.param(0.001, marks=pytest.mark.slow), 0.01, 0.1, 1.0])
@pytest.mark.parametrize("penalties", [(0.23, 0.31), (0.01, 0.3), (INF, 0.1), (0.2, INF), (INF, INF)], ids=str)
@each_measure
def test_the_scaling_form_is_a_plain_loop_in_the_log_domain(costs, epsilon, penalties, measure):
    given = costs(3)
    found = unbalanced_sinkhorn(*given[:3], epsilon, *penalties, measure=measure, **TIGHT)
    expected = by_loop(*given[:3], epsilon, penalties, measure)
    torch.testing.assert_close(found.plan, expected, rtol=0, atol=2e-11)


@pytest.mark.parametrize("epsilon", [pytest.param(0.001, marks=pytest.mark.long), 0.01, 0.1, 1.0])
@pytest.mark.parametrize("penalties", [(INF, INF), (0.23, 0.31), (0.01, 0.3), (INF, 0.1), (0.0, INF)], ids=str)
def test_float32_reaches_the_plan_of_float64(costs, epsilon, penalties):
    given, rule = costs(8, 7, 6, uniform=True), {"tolerance": 1e-5, "max_iterations": 20_000}
    found = unbalanced_sinkhorn(*given.to(torch.float32)[:3], epsilon, *penalties, **rule)
    expected = unbalanced_sinkhorn(*given[:3], epsilon, *penalties, **TIGHT)
    assert found.plan.dtype == torch.float32
    assert (found.iterations < 20_000).all()
    torch.testing.assert_close(found.plan.double(), expected.plan, rtol=0, atol=5e-4)


# --- closed forms and limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 0.009, 1e-4])
@pytest.mark.parametrize("penalties", [(0.31, 0.23), (0.95, 0.009), (0.1, 2.0)], ids=str)
def test_one_reference_word_has_a_closed_form(costs, epsilon, penalties):
    cost, a, b, *_ = costs(3, 1, 6)
    row, column = penalties
    # c + row log(sum p) + column log(p / b) + epsilon log p = 0; the mass follows by summing over p.
    exponents = (column * b.log() - cost[:, 0]) / (column + epsilon)
    log_mass = exponents.logsumexp(dim=1, keepdim=True) / (1 + row / (column + epsilon))
    expected = (exponents - row / (column + epsilon) * log_mass).exp()
    found = unbalanced_sinkhorn(cost, a, b, epsilon, row, column, **TIGHT)
    torch.testing.assert_close(found.plan[:, 0], expected, rtol=0, atol=2e-12)


@each_measure
def test_one_reference_word_approaches_theorem_2(costs, measure):
    cost, a, b, *_ = costs(3, 1, 6)
    row, column = 0.31, 0.23
    log_mass = (b.log() - cost[:, 0] / column).logsumexp(dim=1, keepdim=True) / (1 + row / column)
    theorem = b * (-cost[:, 0] / column - row / column * log_mass).exp()
    errors = []
    for epsilon in (1e-2, 1e-3, 1e-4, 1e-5):
        found = unbalanced_sinkhorn(cost, a, b, epsilon, row, column, measure=measure, **TIGHT)
        errors.append((found.plan[:, 0] - theorem).abs().max().item())
    assert errors[-1] < 1e-4
    ratios = np.array(errors[:-1]) / errors[1:]
    assert ((ratios > 5) & (ratios < 15)).all()  # the error is of the order of epsilon


@each_measure
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 1.0])
def test_two_infinite_penalties_are_the_balanced_problem(costs, epsilon, measure):
    given = costs(ragged=True)
    found = unbalanced_sinkhorn(*given[:3], epsilon, INF, INF, measure=measure, **TIGHT)
    expected = sinkhorn(*given[:3], epsilon, **TIGHT)
    assert_same(found, expected, 1e-10, ("plan", "transport"))
    if measure == "product":  # it is the same solver: what follows holds for both
        for rule in RULES.values():
            found = unbalanced_sinkhorn(*given[:3], epsilon, INF, INF, measure=measure, **rule)
            expected = sinkhorn(*given[:3], epsilon, **rule)
            assert_same(
                found, expected, 0, ("plan", "f", "g", "transport", "objective", "marginal_error", "iterations")
            )


@pytest.mark.parametrize("epsilon", [0.009, 0.1, 1.0])
@pytest.mark.parametrize("rule", [{"iterations": 1}, TIGHT], ids=str)
def test_one_hard_and_one_free_side_are_trwmd(problem, epsilon, rule):
    given = problem(ragged=True)
    cost, expected = 1 - given.similarity, trwmd(*given, epsilon, with_plan=True)
    masks = {"row_mask": given.reference_mask, "column_mask": given.hypothesis_mask}
    recall = unbalanced_sinkhorn(cost, *given[1:3], epsilon, INF, 0.0, **masks, **rule)
    precision = unbalanced_sinkhorn(cost, *given[1:3], epsilon, 0.0, INF, **masks, **rule)
    torch.testing.assert_close(recall.transport, 1 - expected.recall, rtol=0, atol=1e-12)
    torch.testing.assert_close(precision.transport, 1 - expected.precision, rtol=0, atol=1e-12)
    torch.testing.assert_close(recall.plan, expected.plan, rtol=0, atol=1e-12)
    if "tolerance" in rule:
        assert (recall.iterations == 1).all()
        assert recall.converged.all()
        assert precision.converged.all()


@each_measure
def test_two_free_sides_are_the_reference_measure_cooled_down(costs, measure):
    cost, a, b, *_ = costs()
    prior = a[:, :, None] * b[:, None, :] if measure == "product" else 1.0
    found = unbalanced_sinkhorn(cost, a, b, 0.5, 0.0, 0.0, measure=measure, **TIGHT)
    torch.testing.assert_close(found.plan, prior * (-cost / 0.5).exp(), rtol=0, atol=1e-14)


@each_measure
def test_growing_penalties_approach_the_balanced_problem(costs, measure):
    given = costs(3)
    expected = sinkhorn(*given[:3], 0.1, **TIGHT)
    errors = []
    for penalty in (1e1, 1e3, 1e5, 1e7):
        found = unbalanced_sinkhorn(*given[:3], 0.1, penalty, penalty, measure=measure, **TIGHT)
        assert found.converged.all()
        errors.append((found.plan - expected.plan).abs().max().item())
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 1e-7


def test_small_penalties_and_epsilon_move_next_to_nothing(costs):
    found = unbalanced_sinkhorn(*costs()[:3], 0.001, 0.001, 0.001, **TIGHT)
    assert (found.plan.sum(dim=(1, 2)) < 1e-20).all()
    assert (found.transport >= 0).all()


# --- what the result says ---------------------------------------------------------------------------------------------


@each_rule
@each_measure
@each_pair
def test_plan_potentials_and_values_fit_together(costs, rule, measure, penalties):
    cost, a, b, rows, columns = costs(ragged=True)
    found = unbalanced_sinkhorn(cost, a, b, 0.1, *penalties, measure=measure, **rule)
    kept = rows[:, :, None] & columns[:, None, :]
    prior = a[:, :, None] * b[:, None, :] if measure == "product" else kept.double()
    plan = prior * ((found.f[:, :, None] + found.g[:, None, :] - cost) / 0.1).exp()
    torch.testing.assert_close(found.plan, plan, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(found.transport, (found.plan * cost).sum(dim=(1, 2)), rtol=1e-14, atol=0)
    assert (found.f[~rows] == 0).all()
    assert (found.g[~columns] == 0).all()
    for side, (sums, weights, potential) in enumerate(
        ((found.plan.sum(dim=2), a, found.f), (found.plan.sum(dim=1), b, found.g))
    ):
        penalty = penalties[side]
        if penalty == 0:
            assert (potential == 0).all()
            continue
        asked = weights * (-potential / penalty).exp()
        if side == 0:
            torch.testing.assert_close(sums, asked, rtol=1e-12, atol=1e-15)  # rows hold exactly
        else:
            torch.testing.assert_close(found.marginal_error, (sums - asked).abs().sum(dim=1), rtol=0, atol=1e-14)
    expected = objective(cost, a, b, found.plan, 0.1, penalties, measure)
    torch.testing.assert_close(found.objective, expected, rtol=1e-13, atol=1e-13)


@each_measure
@each_pair
def test_at_convergence_the_objective_is_the_dual_value(costs, measure, penalties):
    cost, a, b, *_ = costs()
    found = unbalanced_sinkhorn(cost, a, b, 0.1, *penalties, measure=measure, **TIGHT)
    dual = -0.1 * found.plan.sum(dim=(1, 2)) + (0.1 if measure == "product" else 0.0)
    for penalty, weights, potential in ((penalties[0], a, found.f), (penalties[1], b, found.g)):
        if penalty == INF:
            dual = dual + (weights * potential).sum(dim=1)
        elif penalty > 0:
            dual = dual - penalty * (weights * (-potential / penalty).expm1()).sum(dim=1)
    torch.testing.assert_close(found.objective, dual, rtol=0, atol=1e-11)


@each_pair
def test_converged_is_true_within_the_tolerance_and_false_where_iterations_run_out(costs, penalties):
    given = costs(16)
    found = unbalanced_sinkhorn(*given[:3], 0.02, *penalties, tolerance=1e-6, max_iterations=100_000)
    assert found.converged.all()
    assert (found.marginal_error <= 1e-6).all()
    assert (found.iterations < 100_000).all()
    short = unbalanced_sinkhorn(*given[:3], 0.02, *penalties, tolerance=1e-12, max_iterations=2)
    assert torch.equal(short.converged, short.iterations < 2)
    assert torch.equal(short.converged, short.marginal_error <= 1e-12)
    assert short.converged.all() == (0 in penalties)  # with a free side there is nothing to iterate
    assert unbalanced_sinkhorn(*given[:3], 0.02, *penalties, iterations=2).converged is None


@pytest.mark.parametrize(
    "penalty", [pytest.param(100.0, marks=pytest.mark.long), 1e4, pytest.param(1e8, marks=pytest.mark.long)]
)
def test_penalties_far_above_epsilon_take_no_more_iterations_than_hard_marginals(costs, penalty):
    given = costs()
    rule = {"tolerance": 1e-8, "max_iterations": 100_000}
    hard = sinkhorn(*given[:3], 0.02, **rule).iterations
    assert (unbalanced_sinkhorn(*given[:3], 0.02, penalty, penalty, **rule).iterations <= 1.5 * hard + 10).all()


# --- laws -------------------------------------------------------------------------------------------------------------


@each_measure
@each_pair
@pytest.mark.parametrize("iterations", [1, 4])
def test_iterations_unrolled_are_those_of_the_loop(costs, iterations, measure, penalties):
    given = costs()
    found = unbalanced_sinkhorn(*given[:3], 0.1, *penalties, measure=measure, iterations=iterations)
    torch.testing.assert_close(found.plan, by_loop(*given[:3], 0.1, penalties, measure, iterations), rtol=0, atol=1e-13)
    assert (found.iterations == iterations).all()


# --- bad arguments and autocast ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"row_penalty": -0.1}, "Expected `row_penalty` to be a number from 0 to infinity, but got -0.1"),
        ({"row_penalty": float("nan")}, "Expected `row_penalty` to be a number from 0 to infinity, but got nan"),
        ({"row_penalty": torch.tensor(-1.0)}, "Expected `row_penalty` to be a number from 0 to infinity, but got -1"),
        ({"row_penalty": torch.tensor(float("nan"))}, "Expected `row_penalty` to be a number from 0 to infinity"),
        ({"column_penalty": -INF}, "Expected `column_penalty` to be a number from 0 to infinity, but got -inf"),
        ({"column_penalty": float("nan")}, "Expected `column_penalty` to be a number from 0 to infinity"),
        ({"epsilon": 0.0}, "Expected `epsilon` to be a positive finite number, but got 0"),
        ({"epsilon": float("nan")}, "Expected `epsilon` to be a positive finite number, but got nan"),
        ({"iterations": None}, "Expected exactly one of `iterations` and `tolerance`"),
        ({"tolerance": 1e-3}, "Expected exactly one of `iterations` and `tolerance`"),
        ({"iterations": 0}, "Expected `iterations` to be at least 1, but got 0"),
        ({"iterations": None, "tolerance": -1.0}, "Expected `tolerance` to be positive, but got -1"),
        ({"iterations": None, "tolerance": 1e-3, "max_iterations": 0}, "Expected `max_iterations` to be at least 1"),
    ],
)
def test_bad_options_are_named(costs, changed, message):
    options = {"epsilon": 0.1, "row_penalty": 0.2, "column_penalty": 0.3, "iterations": 1}
    with pytest.raises(ValueError, match=message):
        unbalanced_sinkhorn(*costs()[:3], **{**options, **changed})


@pytest.mark.parametrize("epsilon", [1e-3, 1e-4, 1e-5, 1e-6, 1e-8])
@pytest.mark.parametrize("penalties", [(0.23, 0.31), (float("inf"), 0.3), (0.3, float("inf")), (0.01, 5.0)])
def test_the_smallest_epsilon_ends_in_numbers_if_not_in_convergence(epsilon, penalties):
    generator = torch.Generator().manual_seed(0)
    cost = 2 * torch.rand(20, 8, 9, dtype=torch.float64, generator=generator)
    a, b = torch.full((20, 8), 1 / 8, dtype=torch.float64), torch.full((20, 9), 1 / 9, dtype=torch.float64)
    found = unbalanced_sinkhorn(cost, a, b, epsilon, *penalties, tolerance=1e-6, max_iterations=200)
    assert found.transport.isfinite().all()
    assert found.plan.isfinite().all()
    assert (found.transport >= 0).all()


@each_rule
@each_measure
@each_pair
def test_a_penalised_side_has_no_use_for_a_token_of_weight_zero_within_its_mask(costs, rule, measure, penalties):
    given = costs()
    cost = torch.cat([given.similarity, -given.similarity[:, :1]], dim=1)
    a = torch.nn.functional.pad(given.a, (0, 1))
    found = unbalanced_sinkhorn(cost, a, given.b, 0.1, *penalties, measure=measure, **rule)
    masks = {"row_mask": torch.ones_like(a) > 0, "column_mask": torch.ones_like(given.b) > 0}
    if penalties[0] > 0:
        open_ = unbalanced_sinkhorn(cost, a, given.b, 0.1, *penalties, measure=measure, **masks, **rule)
        assert_same(open_, found, 1e-14)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("function", [unbalanced_sinkhorn, lazy_emd])
def test_an_unknown_measure_is_named(costs, function):
    cost, a, b, rows, columns = costs()
    if function is lazy_emd:
        arguments = (cost, a, b, rows, columns, 0.1)
        penalties = {"reference_penalty": 0.2, "hypothesis_penalty": 0.3}
    else:
        arguments, penalties = (cost, a, b, 0.1, 0.2, 0.3), {}
    with pytest.raises(ValueError, match="Expected `measure` to be 'entropy' or 'product', but got 'uniform'"):
        function(*arguments, **penalties, measure="uniform", iterations=1)
