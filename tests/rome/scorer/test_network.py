import json

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from textmover.rome.scorer.network import FeatureScorer, ScorerConfig, named_features
from textmover.types import InputError

NAMES = ("semantic", "syntactic", "acceptability")
CONFIGS = [
    ScorerConfig(NAMES),
    ScorerConfig(NAMES, (), ()),
    ScorerConfig(NAMES, (30, 20), ("none", "relu")),
    ScorerConfig(NAMES, (8, 8), ("tanh", "tanh"), monotone=True),
    ScorerConfig(NAMES, (), (), monotone=True),
]


def features(count, seed=0):
    return torch.rand(count, 3, generator=torch.Generator().manual_seed(seed))


def test_the_formula_of_two_layers():
    scorer, given = FeatureScorer(CONFIGS[0], seed=3), features(5)
    first, second = (
        [one.detach().double().numpy() for one in (weight, bias)]
        for weight, bias in zip(scorer.weights, scorer.biases, strict=True)
    )
    hidden = np.maximum(given.numpy().astype(float) @ first[0].T + first[1], 0)
    expected = 1 / (1 + np.exp(-(hidden @ second[0].T + second[1])))
    np.testing.assert_allclose(scorer(given).detach().numpy(), expected[:, 0], atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS)
def test_scores_are_within_0_and_1_and_the_seed_alone_decides(config):
    before = torch.random.get_rng_state()
    one, same, other = (FeatureScorer(config, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    given = features(20)
    assert torch.equal(one(given), same(given))
    assert not torch.equal(one(given), other(given))
    assert ((one(given) > 0) & (one(given) < 1)).all()


@pytest.mark.parametrize("config", [one for one in CONFIGS if one.monotone])
@pytest.mark.parametrize("seed", range(5))
def test_no_feature_lowers_a_monotone_score(config, seed):
    scorer = FeatureScorer(config, seed=seed)
    with torch.no_grad():  # whatever training makes of the weights
        for weight in scorer.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
    given = features(200, seed).requires_grad_()
    slopes = torch.autograd.grad(scorer.logits(given).sum(), given)[0]
    assert (slopes > 0).all()


def test_monotone_weights_start_where_logits_are_moderate():
    scorer = FeatureScorer(CONFIGS[3])
    assert scorer.logits(features(500)).abs().max() < 6
    assert (softplus(scorer.weights[0]) > 0).all()


@pytest.mark.parametrize("config", CONFIGS[2:4])
def test_it_learns_what_the_features_tell(config):
    scorer, given = FeatureScorer(config), features(400)
    good = (given @ torch.tensor([2.0, 1.0, 3.0]) > 3.0).float()
    optimizer = torch.optim.Adam(scorer.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy(scorer(given), good).backward()
        optimizer.step()
    assert ((scorer(given) > 0.5) == good.bool()).float().mean() > 0.95


def test_calibration_makes_scores_the_share_of_good_ones():
    scorer = FeatureScorer(ScorerConfig(NAMES, (), ()))
    with torch.no_grad():
        scorer.weights[0].copy_(torch.tensor([[20.0, 0.0, 0.0]]))  # far too sure of itself
        scorer.biases[0].fill_(-10.0)
    given = features(20_000)
    chance = torch.sigmoid(0.1 * (20 * given[:, 0] - 10) + 0.7)
    good = (torch.rand(len(given), generator=torch.Generator().manual_seed(1)) < chance).float()
    before = scorer(given)
    scorer.calibrate(given, good)
    assert float(scorer.log_scale.exp()) == pytest.approx(0.1, abs=0.01)
    assert float(scorer.offset) == pytest.approx(0.7, abs=0.05)
    assert (scorer(given) - chance).abs().max() < 0.02
    assert (scorer(given)[before.argsort()].diff() > -1e-4).all()  # in the same order


def test_calibration_on_graded_targets_finds_them_again():
    scorer, given = FeatureScorer(CONFIGS[0], seed=4), features(100)
    with torch.no_grad():
        targets = torch.sigmoid(2.5 * scorer.logits(given) - 0.4)
    scorer.calibrate(given, targets)
    assert torch.allclose(scorer(given), targets, atol=1e-4)


def test_classes_that_can_be_told_apart_leave_the_scale_finite():
    scorer, given = FeatureScorer(CONFIGS[1], seed=1), features(30)
    with torch.no_grad():
        good = (scorer.logits(given) > scorer.logits(given).median()).float()
    scorer.calibrate(given, good)
    assert torch.isfinite(scorer(given)).all()
    assert 0.9 < scorer(given).max() < 1


def test_what_cannot_be_calibrated_on_is_refused():
    scorer, given = FeatureScorer(CONFIGS[1], seed=1), features(30)
    with pytest.raises(InputError, match="Expected different targets to calibrate on, but all 30 are equal"):
        scorer.calibrate(given, torch.ones(30))
    with pytest.raises(InputError, match="Expected targets that rise with the scores"):
        scorer.calibrate(given, 1 - scorer(given).detach())


@pytest.mark.parametrize("config", CONFIGS)
def test_a_network_comes_back_from_json(config):
    scorer = FeatureScorer(config, seed=5)
    scorer.log_scale.data.fill_(0.3)
    back = FeatureScorer.from_entries(json.loads(json.dumps(scorer.entries())))
    assert back.config == config
    assert torch.equal(back(features(9)), scorer(features(9)))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("weights"),
        lambda one: one["config"].pop("hidden"),
        lambda one: one["config"].update(hidden=[3]),
        lambda one: one["config"].update(hidden=5),
        lambda one: one["weights"].update(offset="x"),
        lambda one: one["weights"].pop("offset"),
    ],
)
def test_descriptions_that_fit_nothing_are_refused(change):
    entries = json.loads(json.dumps(FeatureScorer(CONFIGS[0]).entries()))
    change(entries)
    with pytest.raises(InputError, match="Expected the description of a scorer network, but got: "):
        FeatureScorer.from_entries(entries)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"features": ()}, "Expected `features` to be one or more different names"),
        ({"features": ("a", "a")}, "Expected `features` to be one or more different names"),
        ({"features": ("a",), "hidden": (0,)}, "Expected `hidden` to be a whole number from 1 to 4,096, but got 0"),
        ({"features": ("a",), "hidden": (3, 3)}, "one for each of the 2 hidden layers, but got 1"),
        ({"features": ("a",), "activations": ("gelu",)}, "among none, relu, tanh, but got 'gelu'"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(InputError, match=message):
        ScorerConfig(**fields)


def test_features_of_another_number_are_refused():
    with pytest.raises(ValueError, match=r"to be \[B, 3\] \(semantic, syntactic, acceptability\), but got \[4, 2\]"):
        FeatureScorer(CONFIGS[0])(torch.zeros(4, 2))


def test_features_are_taken_in_the_order_of_their_names():
    values = {"b": torch.tensor([2.0]), "a": torch.tensor([1.0]), "c": torch.tensor([3.0])}
    assert named_features(values, ("a", "c")).tolist() == [[1.0, 3.0]]
    with pytest.raises(ValueError, match="Expected the features a, d, but d is missing"):
        named_features(values, ("a", "d"))
