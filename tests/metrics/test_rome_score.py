import numpy as np
import pytest
import torch

from textmover.metrics import RoMeScore
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import Scorer
from textmover.types import InputError

HYPOTHESES = ["a cat sat on the street", "the dog", "", "the old town by the sea"]
REFERENCES = ["the cat sat on a street", "a dog sat there", "the town", "the old town by the sea"]


@pytest.fixture
def rome(tiny_encoder):
    """Builds RoMe without a parser and without a classifier."""

    def build(**fields):
        chosen = {"parser": "none", "features": ("semantic", "length-ratio"), "weights": "uniform", **fields}
        return RomeMetric.from_config(RomeConfig(encoder=str(tiny_encoder), **chosen)).eval()

    return build


def test_every_value_is_what_the_scorer_gives(rome):
    metric = RoMeScore(rome(), reduction="none")
    metric.update(HYPOTHESES[:1], REFERENCES[:1])
    metric.update(HYPOTHESES[1:], REFERENCES[1:])
    expected = Scorer(rome()).score(HYPOTHESES, REFERENCES)
    found = metric.compute()
    assert list(found) == ["score", "semantic", "length-ratio"]
    np.testing.assert_allclose(found["score"], expected.scores, atol=1e-6)
    for name, values in expected.components.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)


def test_means_are_those_of_all_segments(rome):
    metric = RoMeScore(rome())
    result = metric(HYPOTHESES, REFERENCES)
    expected = Scorer(rome()).score(HYPOTHESES, REFERENCES)
    assert result["score"].item() == pytest.approx(expected.scores.mean(), abs=1e-6)
    assert all(one.dtype == torch.float64 and one.ndim == 0 for one in result.values())
    metric.reset()
    metric.update("the dog", "the dog")
    assert metric.compute()["semantic"].item() == pytest.approx(1, abs=1e-6)


def test_what_hangs_on_the_updates_is_refused(rome):
    with pytest.raises(InputError, match="Expected idf weights that all updates share"):
        RoMeScore(rome(weights="tf-idf", idf_from="references")).update("a", "b")


def test_other_metrics_are_refused(tiny_metric):
    with pytest.raises(InputError, match="Expected a RoMe metric, but got one of kind 'transport'"):
        RoMeScore(tiny_metric())
