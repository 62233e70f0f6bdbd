"""Lazy earth mover's distance: stored values, its limits in the other metrics, and its laws."""

from itertools import pairwise

import ot
import pytest
import torch
from tests.functional.transport_rules import INF, TIGHT, divergence, each_stored, problem_of, uniform

from textmover.functional import exact_transport, greedy_matching, lazy_emd, trwmd, unbalanced_sinkhorn

ROUTES = {
    "both give way": ((0.31, 0.23), 0.03, TIGHT),
    "unrolled": ((0.95, 0.009), 0.1, {"iterations": 3}),
    "both hard, no entropy": ((INF, INF), 0.0, {}),
    "hard reference, no entropy": ((INF, 0.0), 0.0, {}),
    "hard hypothesis, no entropy": ((0.0, INF), 0.0, {}),
    "hard hypothesis": ((0.0, INF), 0.1, TIGHT),
}
each_route = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)


def solved(given, penalties, epsilon, rule, **options):
    """The distance with its penalties as (reference, hypothesis)."""
    reference, hypothesis = penalties
    return lazy_emd(*given, epsilon, reference_penalty=reference, hypothesis_penalty=hypothesis, **rule, **options)


# --- outside oracles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [(0.23, 0.31), (0.009, 0.95), (0.018, 0.97)], ids=str)
@each_stored
def test_stored_values(case, pair):
    cost = problem_of(case)[0].mT  # there, rows are the candidate
    a, b = uniform(*cost.shape[1:])
    options = {"reference_penalty": pair[1], "hypothesis_penalty": pair[0], "with_plan": True, **TIGHT}
    found = lazy_emd(cost, a, b, a > 0, b > 0, 0.009, **options)
    name = f"({pair[0]},{pair[1]})"
    for value in found[:3]:
        assert value.item() == pytest.approx(case[f"lazy_emd_lambda={name}"], abs=1e-9)
    assert found.plan.sum().item() == pytest.approx(case[f"lazy_emd_mass={name}"], abs=1e-9)
    assert found.converged.all()


def test_with_hard_sides_and_no_entropy_it_is_the_distance_of_pot(costs):
    given = costs(ragged=True)
    found = solved(given, (INF, INF), 0.0, {}, with_plan=True)
    for row, single in enumerate(given.singles()):
        cost, a, b = (tensor[0].numpy() for tensor in single[:3])
        assert found.f[row].item() == pytest.approx(ot.emd2(a, b, cost), abs=1e-13)
    assert torch.equal(found.plan, exact_transport(*given[:3]).plan)
    assert found.converged.all()


# --- identities and limits --------------------------------------------------------------------------------------------


def test_with_one_hard_side_and_no_entropy_it_is_one_minus_greedy_matching(problem):
    given = problem(ragged=True)
    greedy, cost = greedy_matching(*given), given._replace(similarity=1 - given.similarity)
    recall = solved(cost, (INF, 0.0), 0.0, {}, with_plan=True)
    precision = solved(cost, (0.0, INF), 0.0, {}, with_plan=True)
    torch.testing.assert_close(recall.f, 1 - greedy.recall, rtol=0, atol=1e-14)
    torch.testing.assert_close(precision.f, 1 - greedy.precision, rtol=0, atol=1e-14)
    torch.testing.assert_close(recall.plan.sum(dim=2), given.a, rtol=0, atol=1e-15)
    torch.testing.assert_close(precision.plan.sum(dim=1), given.b, rtol=0, atol=1e-15)
    assert recall.converged is precision.converged is None


def test_special_tokens_of_weight_zero_take_mass_on_a_free_side_only(problem):
    given = problem(3)
    b = given.b.clone()
    b[:, 0] = 0
    given = given._replace(b=b / b.sum(dim=1, keepdim=True))
    cost = given._replace(similarity=1 - given.similarity)
    shut = cost._replace(hypothesis_mask=given.b > 0)
    free, hard = (INF, 0.0), (INF, 0.3)
    tempered, relaxed = trwmd(*given, 0.1, with_plan=True), solved(cost, free, 0.1, TIGHT, with_plan=True)
    torch.testing.assert_close(relaxed.f, 1 - tempered.recall, rtol=0, atol=1e-12)
    torch.testing.assert_close(relaxed.plan, tempered.plan, rtol=0, atol=1e-12)
    precision = solved(cost, (0.0, INF), 0.1, TIGHT).f
    torch.testing.assert_close(precision, 1 - tempered.precision, rtol=0, atol=1e-12)
    torch.testing.assert_close(solved(cost, free, 0.0, {}).f, 1 - greedy_matching(*given).recall, rtol=0, atol=1e-14)
    assert (solved(cost, free, 0.1, TIGHT).f != solved(shut, free, 0.1, TIGHT).f).all()
    for rule in (TIGHT, {"iterations": 2}):
        assert torch.equal(solved(cost, hard, 0.1, rule).f, solved(shut, hard, 0.1, rule).f)


@pytest.mark.parametrize("penalties", [(INF, INF), (INF, 0.0), (0.0, INF)], ids=str)
def test_small_epsilon_approaches_the_exact_routes(costs, penalties):
    given = costs(3)
    expected = solved(given, penalties, 0.0, {}).f
    rule = {"tolerance": 1e-5, "max_iterations": 100_000}
    errors = [(solved(given, penalties, at, rule).f - expected).abs().max().item() for at in (0.1, 0.02, 0.004)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


@pytest.mark.parametrize("measure", ["entropy", "product"])
@pytest.mark.parametrize("penalties", [(0.31, 0.23), (INF, INF)], ids=str)
def test_it_is_the_transport_of_the_unbalanced_problem(costs, penalties, measure):
    given = costs(ragged=True)
    found = solved(given, penalties, 0.02, TIGHT, measure=measure, with_plan=True)
    expected = unbalanced_sinkhorn(*given[:3], 0.02, *penalties, measure=measure, **TIGHT)
    for value in found[:3]:
        assert torch.equal(value, expected.transport)
    assert torch.equal(found.plan, expected.plan)
    assert torch.equal(found.converged, expected.converged)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [0, 1], ids=["reference", "hypothesis"])
@pytest.mark.parametrize("other", [0.02, 0.31, INF])
def test_a_growing_penalty_moves_more_mass_and_draws_its_side_to_the_weights(costs, side, other):
    given = costs()
    weights = given[1 + side]
    masses, distances = [], []
    for penalty in (0.0, 0.05, 0.5, INF):
        pair = (penalty, other) if side == 0 else (other, penalty)
        plan = solved(given, pair, 0.02, TIGHT, with_plan=True).plan
        sums = plan.sum(dim=2 - side)
        masses.append(plan.sum(dim=(1, 2)))
        distances.append(divergence(sums, weights))
    for fewer, more in pairwise(masses):
        assert (fewer <= more + 1e-9).all()
    for farther, nearer in pairwise(distances):  # follows from optimality
        assert (nearer <= farther + 1e-9).all()
    assert (distances[-1].abs() < 1e-10).all()


@each_route
def test_recall_precision_and_f_are_the_one_distance(costs, route):
    given = costs(ragged=True)
    found = solved(given, *route, with_plan=True)
    assert torch.equal(found.recall, found.f)
    assert torch.equal(found.precision, found.f)
    torch.testing.assert_close((found.plan * given.similarity).sum(dim=(1, 2)), found.f, rtol=0, atol=1e-14)
    assert solved(given, *route).plan is None


# --- bad arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("penalties", "epsilon", "rule", "message"),
    [
        ((-0.1, 0.2), 0.1, TIGHT, "Expected `reference_penalty` to be a number from 0 to infinity, but got -0.1"),
        (
            (0.1, float("nan")),
            0.1,
            TIGHT,
            "Expected `hypothesis_penalty` to be a number from 0 to infinity, but got nan",
        ),
        ((0.0, 0.0), 0.1, TIGHT, "Expected a penalty above 0 on at least one side, but got 0 for both"),
        ((0.0, 0.0), 0.0, {}, "Expected a penalty above 0 on at least one side, but got 0 for both"),
        ((0.1, 0.2), 0.0, {}, "Expected penalties of 0 or infinity with `epsilon` 0, but got 0.1 and 0.2: take"),
        ((INF, 0.2), 0.0, {}, "Expected penalties of 0 or infinity with `epsilon` 0, but got inf and 0.2: take"),
        ((0.1, 0.2), -0.1, TIGHT, "Expected `epsilon` to be a positive finite number, but got -0.1"),
        ((0.1, 0.2), float("nan"), TIGHT, "Expected `epsilon` to be a positive finite number, but got nan"),
        ((0.1, 0.2), 0.1, {}, "Expected exactly one of `iterations` and `tolerance`"),
    ],
)
def test_bad_options_are_named(costs, penalties, epsilon, rule, message):
    with pytest.raises(ValueError, match=message):
        solved(costs(), penalties, epsilon, rule)
