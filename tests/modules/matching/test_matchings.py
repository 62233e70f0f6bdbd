"""Matchings are their kernels with the configuration's parameters."""

from typing import get_args

import pytest
import torch

from textmover import functional
from textmover.modules.config import MetricConfig
from textmover.modules.matching.matchings import MATCHINGS, build_matching
from textmover.modules.matching.names import Matching as Name
from textmover.modules.tokens.weighting import Side

INFINITE = float("inf")
UNNORMALIZED = ("lazy-emd", "sinkhorn-divergence")
SBERT = ("sbert", "sbert-pooled")


def side_of(vectors, mask) -> Side:
    weights = mask.double() / mask.sum(dim=1, keepdim=True)
    nothing = torch.zeros(len(mask), dtype=torch.bool)
    return Side(vectors, mask, weights, nothing, nothing)


def config_of(name: str, **fields) -> MetricConfig:
    """A configuration of each matching, with a temperature and a tolerance where it reads one."""
    defaults = {"lazy-emd": {"hypothesis_penalty": 0.3, "reference_penalty": 0.3}}.get(name, {})
    stop = {"tolerance": 1e-12} if name in UNNORMALIZED else {}
    return MetricConfig(
        matching=name, **{"temperature": 0.1, "normalize": name not in UNNORMALIZED, **stop, **defaults, **fields}
    )


@pytest.fixture
def block():
    """Similarities of three pairs of unlike lengths, and their sides."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(3, length, 8, generator=generator, dtype=torch.float64) for length in (6, 5))
    masks = [
        torch.arange(length) < torch.tensor(lengths)[:, None] for length, lengths in ((6, [6, 4, 1]), (5, [5, 2, 3]))
    ]
    x, y = (functional.unit_vectors(one) * mask[:, :, None] for one, mask in zip((x, y), masks, strict=True))
    sides = [side_of(vectors, mask) for vectors, mask in zip((x, y), masks, strict=True)]
    return functional.pairwise_similarity(x, y), *sides


def test_every_name_has_a_class():
    assert set(MATCHINGS) == set(get_args(Name))


@pytest.mark.parametrize(
    ("config", "kernel"),
    [
        (config_of("emd"), lambda s, a, b, *_: 1 - functional.exact_transport(1 - s, a, b).transport),
        (
            config_of("emd", cost="squared-euclidean", output="inverse", normalize=False),
            lambda s, a, b, *_: 1 / (1 + functional.exact_transport(2 - 2 * s, a, b).transport),
        ),
        (
            config_of("lazy-emd", hypothesis_penalty=0.1, reference_penalty=INFINITE, output="distance"),
            lambda s, a, b, *_: (
                functional.unbalanced_sinkhorn(1 - s, a, b, 0.1, INFINITE, 0.1, tolerance=1e-12).transport
            ),
        ),
        (
            config_of("sinkhorn-divergence"),  # the biased value: the metric takes the sides' own from it
            lambda s, a, b, *_: functional.sinkhorn(1 - s, a, b, 0.1, tolerance=1e-12).objective,
        ),
        *((MetricConfig(matching=name), lambda s, a, b, *_: functional.mean_cosine(s, a, b)) for name in SBERT),
        (MetricConfig(matching="wordset-cka"), lambda s, a, b, *_: functional.wordset_cka(s, a, b)),
        (
            MetricConfig(temperature=0.1, iterations=3, alpha=0.7, error_norm=3),
            lambda s, a, b, *_: functional.twmd(s, a, b, 0.1, iterations=3, alpha=0.7, error_norm=3.0),
        ),
        (
            MetricConfig(temperature=0.1, tolerance=1e-6, value="objective"),
            lambda s, a, b, *_: functional.twmd(s, a, b, 0.1, tolerance=1e-6, value="objective"),
        ),
        (
            MetricConfig(matching="bertscore", alpha=0.2, error_norm=2.0),
            lambda *given: functional.greedy_matching(*given, alpha=0.2, error_norm=2.0),
        ),
        (
            MetricConfig(matching="trwmd", temperature=0.2, error_norm=3.0),
            lambda *given: functional.trwmd(*given, 0.2, error_norm=3.0),
        ),
    ],
)
def test_values_are_those_of_the_kernel(block, config, kernel):
    """A kernel that gives one number is that of a matching without sides, whose three values it is."""
    similarity, *sides = block
    matching = build_matching(config)
    expected = kernel(similarity, *(one.weights for one in sides), *(one.mask for one in sides))
    assert matching.has_sides == (not isinstance(expected, torch.Tensor))
    found = matching(*block)
    for one, other in zip(found[:3], expected[:3] if matching.has_sides else [expected] * 3, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", MATCHINGS)
def test_a_plan_is_given_on_request_within_the_sides(block, name):
    similarity, reference, hypothesis = block
    matching = build_matching(config_of(name))
    assert matching(*block).plan is None
    plan = matching(*block, with_plan=True).plan
    assert plan.shape == similarity.shape
    outside = ~(reference.mask[:, :, None] & hypothesis.mask[:, None, :])
    assert (plan[outside] == 0).all()
    mass = plan.sum(dim=(1, 2))
    if name == "lazy-emd":
        assert ((mass > 0) & (mass < 1)).all()
    else:
        torch.testing.assert_close(mass, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("name", ["twmd", "trwmd", "lazy-emd", "sinkhorn-divergence"])
def test_a_learned_temperature_starts_where_it_was_set_and_gets_a_gradient(block, name):
    fixed = build_matching(config_of(name)).double()
    learned = build_matching(config_of(name, learn_temperature=True)).double()
    assert list(fixed.parameters()) == []
    value = learned(*block).f
    torch.testing.assert_close(value, fixed(*block).f, rtol=0, atol=1e-7)  # its logarithm is kept in float32
    value.sum().backward()
    gradient = learned.temperature.log_temperature.grad.item()
    step = 1e-5
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            learned.temperature.log_temperature += sign * step
            ends.append(learned(*block).f.sum().item())
            learned.temperature.log_temperature -= sign * step
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
        ({"matching": "bertscore", "alpha": 0.7}, {"alpha": "0.7"}),
        ({"matching": "emd"}, {"cost": "cosine", "output": "similarity"}),
        ({"matching": "emd", "order_penalty": 0.2}, {"cost": "cosine", "output": "similarity", "order": "0.2"}),
        (
            {"matching": "lazy-emd", "normalize": False, "output": "distance", "reference_penalty": 0.5},
            {
                "cost": "cosine",
                "output": "distance",
                "lambda": "inf/0.5",
                "epsilon": "0.02",
                "measure": "entropy",
                "k": "1",
            },
        ),
        (
            {"matching": "sinkhorn-divergence", "normalize": False, "cost": "euclidean", "tolerance": 1e-6},
            {"cost": "euclidean", "output": "similarity", "epsilon": "0.02", "k": "to1e-06"},
        ),
        ({"matching": "sbert"}, {}),
    ],
)
def test_signature_entries(fields, entries):
    assert build_matching(MetricConfig(**fields)).signature_entries() == entries


def test_the_order_penalty_is_added_to_the_distance(block):
    plain = build_matching(config_of("emd", output="distance", normalize=False))(*block, with_plan=True)
    fined = build_matching(config_of("emd", output="distance", normalize=False, order_penalty=0.4))(*block)
    broken = functional.fragmentation(plain.plan, block[1].weights, block[2].weights)
    assert (broken > 0).all()
    torch.testing.assert_close(fined.f, plain.f + 0.4 * broken)


@pytest.mark.parametrize("name", ["emd", "lazy-emd", "sinkhorn-divergence"])
@pytest.mark.parametrize("cost", ["cosine", "squared-euclidean", "euclidean"])
def test_outputs_are_functions_of_the_distance_within_their_bounds(block, name, cost):
    values, report = {}, {"similarity": lambda e: 1 - e, "inverse": lambda e: 1 / (1 + e), "distance": lambda e: e}
    for output in report:
        matching = build_matching(config_of(name, output=output, cost=cost, normalize=False))
        values[output] = matching(*block).f
        if matching.debiased:
            values[output] = matching.report(values[output])
        assert (values[output] >= matching.bounds[0] - 1e-6).all()
        assert (values[output] <= matching.bounds[1] + 1e-6).all()
        assert matching.bounds[0] <= matching.nothing <= matching.bounds[1]
    for output, function in report.items():
        torch.testing.assert_close(values[output], function(values["distance"]))


@pytest.mark.parametrize("penalties", [(0.0, INFINITE), (INFINITE, 0.0), (INFINITE, INFINITE)])
def test_lazy_emd_without_entropy_is_exact(block, penalties):
    similarity, reference, hypothesis = block
    fields = {"hypothesis_penalty": penalties[0], "reference_penalty": penalties[1], "temperature": 0.0}
    found = build_matching(config_of("lazy-emd", **fields, tolerance=None))(*block).f
    weights = reference.weights, hypothesis.weights
    greedy = functional.greedy_matching(similarity, *weights, reference.mask, hypothesis.mask)
    expected = {
        (0.0, INFINITE): greedy.recall,
        (INFINITE, 0.0): greedy.precision,
        (INFINITE, INFINITE): 1 - functional.exact_transport(1 - similarity, *weights).transport,
    }
    torch.testing.assert_close(found, expected[penalties])
