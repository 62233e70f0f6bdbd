"""Gradients of transport with marginals that give way, through loops and through the implicit function theorem."""

from functools import partial

import pytest
import torch
from tests.functional.transport_rules import INF, RULES, TIGHT, assert_gradients, divergence, each_measure, each_pair
from torch.autograd import gradgradcheck
from torch.autograd.functional import hessian

from textmover.functional import lazy_emd, sinkhorn, twmd, unbalanced_sinkhorn


def differentiable(costs, penalties, epsilon: float = 0.1):
    """Cost, logits of the weights, epsilon and the penalties, in a form that can be varied."""
    given = costs(1, 2, 3)
    logits = [weights.log().requires_grad_() for weights in (given.a, given.b)]
    numbers = [torch.tensor(one, dtype=torch.float64) for one in (epsilon, *penalties)]
    return (given.similarity.requires_grad_(), *logits, *(n.requires_grad_(0 < n.item() < INF) for n in numbers))


def outputs(cost, log_a, log_b, *numbers, **options):
    found = unbalanced_sinkhorn(cost, log_a.softmax(1), log_b.softmax(1), *numbers, **options)
    hard = all(one == INF for one in numbers[1:])  # then a shift between the potentials is arbitrary
    potentials = [found.f[:, :, None] + found.g[:, None, :]] if hard else [found.f, found.g]
    return found.plan, *potentials, found.transport, found.objective


@pytest.mark.parametrize("rule", [RULES["four iterations"], TIGHT], ids=["four iterations", "to a tolerance"])
@each_measure
@each_pair
def test_gradients_of_cost_weights_epsilon_and_penalties(costs, rule, measure, penalties):
    *inputs, epsilon, row, column = differentiable(costs, penalties)
    assert_gradients(partial(outputs, measure=measure, **rule), inputs, (epsilon, row, column))


@each_measure
@each_pair
def test_second_derivatives_of_the_converged_solution(costs, measure, penalties):
    def values(*inputs):
        return torch.cat([one.flatten() for one in outputs(*inputs, measure=measure, **TIGHT)])

    inputs, options = differentiable(costs, penalties), {"atol": 1e-4, "fast_mode": True}
    assert gradgradcheck(values, inputs, check_undefined_grad=False, **options)


def test_hessians_of_twmd_are_those_of_many_unrolled_iterations(problem):
    similarity, a, b, *_ = problem(1, 2, 3)

    def found(**rule):
        return hessian(lambda block: twmd(block, a, b, 0.3, **rule).recall.square().sum(), similarity)

    torch.testing.assert_close(found(**TIGHT), found(iterations=60), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("penalties", [(0.4, 0.3), (0.4, 0.0), (INF, 0.4), (INF, INF)], ids=str)
def test_gradients_with_padding_zero_weights_and_masks(costs, penalties):
    cost, a, b, rows, columns = costs(2, 2, 3, ragged=True)
    shares = columns.clone()
    shares[0, 1] = False  # may take mass, but has no weight

    logits = [weights.clamp(min=0.1).log() for weights in (a, b)]
    for pair in (slice(0, 1), slice(1, 2)):

        def padded(cost, *logits, pair=pair):
            of_row, of_column, taking = (mask[pair].expand(len(cost), -1) for mask in (rows, shares, columns))
            masked = (one.masked_fill(~mask, -INF) for one, mask in zip(logits, (of_row, of_column), strict=True))
            weights = (one.softmax(1) for one in masked)
            found = unbalanced_sinkhorn(cost, *weights, 0.3, *penalties, column_mask=taking, **TIGHT)
            return found.transport, found.objective

        assert_gradients(padded, [one[pair] for one in (cost, *logits)])


@each_measure
@each_pair
def test_implicit_gradients_are_those_of_many_unrolled_iterations(costs, measure, penalties):
    inputs = differentiable(costs, penalties)
    wanted = [one for one in inputs if one.requires_grad]
    found = []
    for rule in ({"iterations": 120}, TIGHT):
        values = torch.cat([one.flatten() for one in outputs(*inputs, measure=measure, **rule)])
        direction = torch.randn(len(values), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        total, options = (values * direction).sum(), {"allow_unused": True, "materialize_grads": True}
        found.append((values, torch.autograd.grad(total, wanted, **options)))
    (unrolled, expected), (implicit, slopes) = found
    torch.testing.assert_close(implicit, unrolled, rtol=0, atol=1e-11)
    torch.testing.assert_close(slopes, expected, rtol=1e-8, atol=1e-9)


@each_measure
@pytest.mark.parametrize("setting", [(0.009, 0.31, 0.23), (0.05, 5.0, 0.01)], ids=str)
def test_implicit_gradients_of_numbers_are_finite_differences(costs, measure, setting):
    given = costs()

    def value(*numbers) -> torch.Tensor:
        return unbalanced_sinkhorn(*given[:3], *numbers, measure=measure, **TIGHT).transport.sum()

    learned = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in setting]
    for place, slope in enumerate(torch.autograd.grad(value(*learned), learned)):
        step = 1e-4 * setting[place]
        above, below = (value(*setting[:place], setting[place] + one, *setting[place + 1 :]) for one in (step, -step))
        assert slope.item() == pytest.approx((above - below).item() / (2 * step), rel=1e-6)


@each_measure
@each_pair
def test_gradients_of_the_objective_are_those_of_the_envelope_theorem(costs, measure, penalties):
    given = costs()
    cost = given.similarity.requires_grad_()
    numbers = [torch.tensor(one, dtype=torch.float64) for one in penalties]
    finite = [number.requires_grad_() for number in numbers if 0 < number.item() < INF]
    found = unbalanced_sinkhorn(cost, *given[1:3], 0.1, *numbers, measure=measure, **TIGHT)
    slopes = torch.autograd.grad(found.objective.sum(), [cost, *finite])
    torch.testing.assert_close(slopes[0], found.plan.detach(), rtol=0, atol=1e-10)
    sums = zip(penalties, (found.plan.sum(dim=2), found.plan.sum(dim=1)), given[1:3], strict=True)
    spent = [divergence(one, weights).sum().detach() for penalty, one, weights in sums if 0 < penalty < INF]
    for slope, expected in zip(slopes[1:], spent, strict=True):
        torch.testing.assert_close(slope, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("penalty", [1e4, 1e8, 1e12])
def test_gradients_stay_right_where_penalties_are_all_but_infinite(costs, penalty):
    given = costs(2)
    cost = given.similarity.requires_grad_()
    hard, soft = (unbalanced_sinkhorn(cost, *given[1:3], 0.1, one, one, **TIGHT) for one in (INF, penalty))
    (expected,), (found,) = (torch.autograd.grad(result.transport.sum(), cost) for result in (hard, soft))
    torch.testing.assert_close(found, expected, rtol=0, atol=max(1 / penalty, 1e-8))


def saved_numbers(function) -> int:
    """How many numbers the graph of ``function()`` keeps for its backward pass."""
    sizes = []

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function()
    assert result.requires_grad
    return sum(sizes)


def balanced(cost, a, b, rows, columns, **rule):
    return sinkhorn(cost, a, b, 0.01, **rule).transport


def unbalanced(cost, a, b, rows, columns, **rule):
    return unbalanced_sinkhorn(cost, a, b, 0.001, 1.0, 2.0, **rule).transport


def lazy(cost, a, b, rows, columns, **rule):
    return lazy_emd(cost, a, b, rows, columns, 0.001, reference_penalty=1.0, hypothesis_penalty=2.0, **rule).f


@pytest.mark.parametrize("function", [balanced, unbalanced, lazy])
def test_memory_does_not_grow_with_iterations_where_a_tolerance_is_given(costs, function):
    given = costs()
    given = given._replace(similarity=given.similarity.requires_grad_())

    def kept(**rule) -> int:
        return saved_numbers(lambda: function(*given, **rule))

    few, many = (kept(tolerance=1e-12, max_iterations=count) for count in (10, 500))
    assert few == many
    assert kept(iterations=500) > 10 * many  # what it is compared with does grow
