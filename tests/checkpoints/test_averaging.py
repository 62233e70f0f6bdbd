"""Averages of weights: what NumPy gives, what a fit gives, and only where the weights mean the same."""

import copy
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from textmover.checkpoints.averaging import average_metrics, interpolate, refit
from textmover.modules.probe_sentences import probe_scores
from textmover.scoring import Scorer, load_checkpoint, save_checkpoint
from textmover.types import InputError, Segment

TEXTS = ["the small dog ran home", "a little dog runs home", "she sold two books", "warm tea"]
RATED = [
    Segment("the small dog ran home", ("a little dog runs home",), 80.0),
    Segment("she sold two books", ("warm tea", "never read"), 10.0),
    Segment("tea", ("warm tea",), 55.0),
]


@pytest.fixture
def trained(tiny_metric):
    """Builds a metric with weights that a seed has moved."""

    def train(seed: int, size: float = 0.05, **fields):
        metric = tiny_metric(**{"calibrate": True, "learn_temperature": True, **fields})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            for one in metric.parameters():
                one.add_(size * torch.randn_like(one))
        return metric

    return train


def state(metric) -> dict[str, np.ndarray]:
    return {name: one.double().numpy() for name, one in metric.state_dict().items()}


def fit_by_hand(metric) -> tuple[float, float]:
    """Scale and offset by NumPy's least squares, from scores before calibration."""
    bare = copy.deepcopy(metric)
    bare.calibration = None
    scores = Scorer(bare).score([one.hypothesis for one in RATED], [one.references[0] for one in RATED]).scores
    return tuple(np.polyfit(scores, [one.score for one in RATED], 1))


# --- averages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [0.5, 0.2, 0.3], [2, 0, 6]])
def test_the_mean_of_the_weights(trained, weights):
    metrics = [trained(seed) for seed in range(3)]
    before = [state(one) for one in metrics]
    found = state(average_metrics(metrics, weights))
    for name, values in found.items():
        expected = np.average([one[name] for one in before], axis=0, weights=weights)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
    for metric, old in zip(metrics, before, strict=True):  # they stay as they are
        assert all(np.array_equal(state(metric)[name], values) for name, values in old.items())


def test_one_metric_is_its_own_average(trained):
    metric = trained(0)
    found = average_metrics([metric])
    assert torch.equal(probe_scores(found), probe_scores(metric))
    assert found is not metric
    assert average_metrics([metric, trained(1)], [1, 0]).signature == found.signature
    assert not any(module.training for module in average_metrics([metric.train()]).modules())


def test_the_order_of_metrics_does_not_matter(trained):
    one, other = trained(0), trained(1)
    first, second = average_metrics([one, other], [0.3, 0.7]), average_metrics([other, one], [0.7, 0.3])
    assert (probe_scores(first) - probe_scores(second)).abs().max() < 1e-6
    assert first.encoder_identity == second.encoder_identity
    assert first.encoder_identity != one.encoder_identity


def test_temperatures_are_averaged_by_their_logarithms(trained):
    one, other = trained(0), trained(1)
    mean = math.sqrt(one.matching.temperature.value * other.matching.temperature.value)
    assert average_metrics([one, other]).matching.temperature.value == pytest.approx(mean, rel=1e-6)


def test_means_of_a_corpus_are_averaged_or_fitted(trained):
    metrics = [trained(seed, centering="corpus") for seed in range(2)]
    for metric, texts in zip(metrics, (TEXTS, TEXTS[:3]), strict=True):
        metric.fit(texts)
    rough = average_metrics(metrics)
    means = [one.centering.statistic.mean for one in metrics]
    torch.testing.assert_close(rough.centering.statistic.mean, (means[0] + means[1]) / 2)
    assert rough.centering.statistic.count == max(one.centering.statistic.count for one in metrics)
    fitted = average_metrics(metrics, texts=TEXTS)
    again = copy.deepcopy(rough)
    again.fit(TEXTS)
    assert torch.equal(fitted.centering.statistic.mean, again.centering.statistic.mean)
    assert not torch.allclose(fitted.centering.statistic.mean, rough.centering.statistic.mean)


def test_idf_tables_have_to_be_equal_or_fitted_anew(trained):
    metrics = [trained(seed, weights="idf") for seed in range(2)]
    for metric in metrics:
        metric.fit(TEXTS)
    same = average_metrics(metrics)
    assert torch.equal(same.weighting.table("reference").counts, metrics[0].weighting.table("reference").counts)
    metrics[1].fit(TEXTS[:2])
    with pytest.raises(InputError, match="give texts to fit the statistics on again"):
        average_metrics(metrics)
    assert average_metrics(metrics, texts=TEXTS).signature.entries["weights"] == same.signature.entries["weights"]


def test_a_mean_that_one_metric_lacks_is_refused(trained):
    metrics = [trained(seed, centering="corpus") for seed in range(2)]
    metrics[0].fit(TEXTS)
    with pytest.raises(InputError, match="to be the same in all metrics, but it differs"):
        average_metrics(metrics)


def test_the_calibration_is_that_of_the_ratings(trained):
    metric = average_metrics([trained(0), trained(1)], rated=RATED)
    scale, offset = fit_by_hand(metric)
    assert metric.calibration.scale.item() == pytest.approx(scale, rel=1e-4)
    assert metric.calibration.offset.item() == pytest.approx(offset, rel=1e-3)
    assert scale > 0  # a falling one would not be fitted


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"layer": 1}, "layer"), ({"matching": "trwmd"}, "matching"), ({"calibrate": False}, "calibrate")],
)
def test_other_configurations_are_refused(trained, fields, name):
    with pytest.raises(InputError, match=f"but `{name}` is .* in number 3: average only runs of one recipe"):
        average_metrics([trained(0), trained(1), trained(2, **fields)])


def test_what_does_not_bear_on_the_weights_may_differ(trained, tiny_encoder, tmp_path):
    """Where the base lies, and which layers were trained."""
    other = trained(1, encoder=str(shutil.copytree(tiny_encoder, tmp_path / "copy")), freeze_layers=1)
    average_metrics([trained(0), other])


def test_other_bases_are_refused(trained, tiny_encoder, tmp_path):
    base = shutil.copytree(tiny_encoder, tmp_path / "copy")
    weights = load_file(base / "model.safetensors")
    save_file({name: one + 0.1 for name, one in weights.items()}, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="`encoder` is"):
        average_metrics([trained(0), trained(0, encoder=str(base))])


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]], ids=str)
def test_weights_are_checked(trained, weights):
    with pytest.raises(InputError, match="`weights`"):
        average_metrics([trained(0), trained(1)], weights)


def test_no_metric_has_no_average():
    with pytest.raises(InputError, match="at least one metric"):
        average_metrics([])


# --- interpolation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 0.25, 1.0])
def test_the_encoder_goes_back_in_a_straight_line(trained, tiny_metric, share):
    metric = trained(0)
    base, new, found = state(tiny_metric().encoder), state(metric), state(interpolate(metric, share))
    for name, values in found.items():
        old = base.get(name.removeprefix("encoder."), new[name])
        np.testing.assert_allclose(values, (1 - share) * new[name] + share * old, rtol=1e-6, atol=1e-7)


def test_the_ends_are_the_trained_and_the_untrained_encoder(trained, tiny_metric):
    metric = trained(0)
    assert torch.equal(probe_scores(interpolate(metric, 0)), probe_scores(metric))
    untrained = interpolate(metric, 1)
    assert untrained.encoder_identity == tiny_metric().encoder_identity
    assert interpolate(metric, 0.5).encoder_identity.count("+") == 1


def test_a_loaded_checkpoint_goes_back_to_its_base(trained, tiny_metric, tmp_path):
    metric = load_checkpoint(save_checkpoint(trained(0), tmp_path / "full", card=""))
    found = interpolate(metric, 1).encoder.state_dict()
    assert all(torch.equal(found[name], one) for name, one in tiny_metric().encoder.state_dict().items())


def test_statistics_stay_unless_they_are_fitted(trained):
    metric = trained(0, centering="corpus")
    metric.fit(TEXTS)
    kept = interpolate(metric, 0.5)
    assert torch.equal(kept.centering.statistic.mean, metric.centering.statistic.mean)
    fitted = interpolate(metric, 0.5, texts=TEXTS, rated=RATED)
    assert not torch.equal(fitted.centering.statistic.mean, metric.centering.statistic.mean)
    scale, offset = fit_by_hand(fitted)
    assert (fitted.calibration.scale.item(), fitted.calibration.offset.item()) == pytest.approx(
        (scale, offset), rel=1e-3
    )


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", True], ids=str)
def test_shares_are_checked(trained, share):
    with pytest.raises(InputError, match="`share` to be between 0"):
        interpolate(trained(0), share)


def test_an_encoder_that_training_added_to_is_refused(trained):
    metric = trained(0)
    metric.encoder.model.encoder.layer[0].output.dense = torch.nn.Identity()
    with pytest.raises(InputError, match="merge or remove"):
        interpolate(metric, 0.5)


# --- fitting again ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_fitted_is_refused(trained):
    with pytest.raises(InputError, match="a metric with statistics to fit"):
        refit(trained(0), texts=TEXTS)
    with pytest.raises(InputError, match="calibrate=True"):
        refit(trained(0, calibrate=False), rated=RATED)
    with pytest.raises(InputError, match="but got 1, 0 of them without"):
        refit(trained(0), rated=RATED[:1])
    with pytest.raises(InputError, match="ratings that differ, to calibrate on, but all 2 are 7"):
        refit(trained(0), rated=[Segment("a", ("b",), 7.0), Segment("b", ("b",), 7.0)])
    with pytest.raises(InputError, match="but got 4, 1 of them without"):
        refit(trained(0), rated=[*RATED, Segment("a", ("b",))])


def test_statistics_of_each_call_are_left_to_it(trained):
    metric = trained(0, weights="idf", idf_from="references", centering="corpus")
    refit(metric, texts=TEXTS)
    assert metric.centering.statistic.fitted
    assert not metric.weighting.table("reference").fitted
