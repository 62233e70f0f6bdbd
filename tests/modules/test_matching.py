"""Matchings are their kernels with the configuration's parameters."""

from typing import get_args

import pytest
import torch

from textmover import functional
from textmover.modules.config import Matching as Name
from textmover.modules.config import MetricConfig
from textmover.modules.matching import MATCHINGS, Side, build_matching


@pytest.fixture
def block():
    """Similarities of three pairs of unlike lengths, and their sides."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(3, length, 8, generator=generator, dtype=torch.float64) for length in (6, 5))
    masks = [
        torch.arange(length) < torch.tensor(lengths)[:, None] for length, lengths in ((6, [6, 4, 1]), (5, [5, 2, 3]))
    ]
    x, y = (functional.unit_vectors(one) * mask[:, :, None] for one, mask in zip((x, y), masks, strict=True))
    sides = [Side(mask, mask.double() / mask.sum(dim=1, keepdim=True)) for mask in masks]
    return functional.pairwise_similarity(x, y), *sides


def test_every_name_has_a_class():
    assert set(MATCHINGS) == set(get_args(Name))


@pytest.mark.parametrize(
    ("config", "kernel"),
    [
        (
            MetricConfig(temperature=0.1, iterations=3),
            lambda s, r, h: functional.twmd(s, r.weights, h.weights, 0.1, iterations=3),
        ),
        (
            MetricConfig(temperature=0.1, tolerance=1e-6, value="objective"),
            lambda s, r, h: functional.twmd(s, r.weights, h.weights, 0.1, tolerance=1e-6, value="objective"),
        ),
        (
            MetricConfig(matching="trwmd", temperature=0.2, value="objective"),
            lambda s, r, h: functional.trwmd(s, r.weights, h.weights, r.mask, h.mask, 0.2, value="objective"),
        ),
        (
            MetricConfig(matching="bertscore"),
            lambda s, r, h: functional.greedy_matching(s, r.weights, h.weights, r.mask, h.mask),
        ),
    ],
)
def test_values_are_those_of_the_kernel(block, config, kernel):
    found, expected = build_matching(config)(*block), kernel(*block)
    for one, other in zip(found[:3], expected[:3], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "kernel"), [("sbert", functional.mean_cosine), ("wordset-cka", functional.wordset_cka)]
)
def test_matchings_without_sides_give_one_number(block, name, kernel):
    matching = build_matching(MetricConfig(matching=name))
    found = matching(*block)
    expected = kernel(block[0], block[1].weights, block[2].weights)
    assert not matching.has_sides
    assert all(torch.equal(value, expected) for value in found[:3])


@pytest.mark.parametrize("name", MATCHINGS)
def test_a_plan_is_given_on_request_within_the_sides(block, name):
    similarity, reference, hypothesis = block
    matching = build_matching(MetricConfig(matching=name, temperature=0.1))
    assert matching(*block).plan is None
    plan = matching(*block, with_plan=True).plan
    assert plan.shape == similarity.shape
    outside = ~(reference.mask[:, :, None] & hypothesis.mask[:, None, :])
    assert (plan[outside] == 0).all()
    torch.testing.assert_close(plan.sum(dim=(1, 2)), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("name", MATCHINGS)
def test_padding_does_not_move_a_value(block, name):
    similarity, *sides = block
    matching = build_matching(MetricConfig(matching=name, temperature=0.1))
    together = matching(*block)
    for row in range(3):
        lengths = [int(side.mask[row].sum()) for side in sides]
        cut = [
            Side(side.mask[row : row + 1, :length], side.weights[row : row + 1, :length])
            for side, length in zip(sides, lengths, strict=True)
        ]
        alone = matching(similarity[row : row + 1, : lengths[0], : lengths[1]], *cut)
        for one, other in zip(alone[:3], together[:3], strict=True):
            torch.testing.assert_close(one[0], other[row], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MATCHINGS)
def test_exchanged_sides_exchange_recall_and_precision(block, name):
    similarity, reference, hypothesis = block
    matching = build_matching(MetricConfig(matching=name, temperature=0.1))
    there, back = matching(*block), matching(similarity.transpose(1, 2), hypothesis, reference)
    torch.testing.assert_close(there.recall, back.precision, rtol=0, atol=1e-14)
    torch.testing.assert_close(there.precision, back.recall, rtol=0, atol=1e-14)
    torch.testing.assert_close(there.f, back.f, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["twmd", "trwmd"])
def test_a_learned_temperature_starts_where_it_was_set_and_gets_a_gradient(block, name):
    fixed = build_matching(MetricConfig(matching=name, temperature=0.1)).double()
    learned = build_matching(MetricConfig(matching=name, temperature=0.1, learn_temperature=True)).double()
    assert list(fixed.parameters()) == []
    value = learned(*block).f
    torch.testing.assert_close(value, fixed(*block).f, rtol=0, atol=1e-7)  # its logarithm is kept in float32
    value.sum().backward()
    gradient = learned.log_temperature.grad.item()
    step = 1e-5
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            learned.log_temperature += sign * step
            ends.append(learned(*block).f.sum().item())
            learned.log_temperature -= sign * step
    assert gradient == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)
    assert gradient != 0


def test_convergence_is_told_where_a_tolerance_is_given(block):
    assert build_matching(MetricConfig(temperature=0.1))(*block).converged is None
    assert build_matching(MetricConfig(temperature=0.1, tolerance=1e-8))(*block).converged.all()


@pytest.mark.parametrize(
    ("fields", "entries"),
    [
        ({}, {"T": "0.02", "k": "1"}),
        ({"iterations": 3, "value": "objective"}, {"T": "0.02", "value": "objective", "k": "3"}),
        ({"tolerance": 1e-5}, {"T": "0.02", "k": "to1e-05"}),
        ({"matching": "trwmd", "temperature": 1 / 3, "learn_temperature": True}, {"T": "0.333333"}),
        ({"matching": "bertscore"}, {}),
        ({"matching": "sbert"}, {}),
    ],
)
def test_signature_entries(fields, entries):
    assert build_matching(MetricConfig(**fields)).signature_entries() == entries
