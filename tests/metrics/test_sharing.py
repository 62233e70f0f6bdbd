"""Metrics of a collection share one encoder."""

import copy
import pickle

import pytest
import torch
from torchmetrics import MetricCollection

from textmover import EncoderMemory, TextMoverBERTScore, TextMoverScore

BATCHES = [
    (["the small dog ran", "tea", "go home"], ["a little dog runs home", "cold water", "go home"]),
    (["tea", "she will buy a book"], ["she sold it", "a little dog runs home"]),
]


@pytest.fixture
def build(tiny_encoder):
    common = {"encoder": str(tiny_encoder), "device": "cpu", "reduction": "none"}

    def build(memory: EncoderMemory | None) -> MetricCollection:
        return MetricCollection(
            {
                "twmd": TextMoverScore("twmd", temperature=0.1, memory=memory, **common),
                "bertscore": TextMoverScore("bertscore-f1", layer=2, memory=memory, **common),
                "mover": TextMoverScore("moverscore-wmd2", last_layers=2, weights="uniform", memory=memory, **common),
            }
        )

    return build


def fed(metrics: MetricCollection) -> dict[str, torch.Tensor]:
    for batch in BATCHES:
        metrics.update(*batch)
    return metrics.compute()


def test_collections_and_their_copies_score_as_each_metric_alone(build):
    metrics, expected = build(EncoderMemory()), fed(build(None))
    for double in (lambda one: one, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        other = double(metrics)
        other.reset()
        encoders = [one.scorer.metric.encoder for one in other.values()]
        assert len({id(one.model) for one in encoders}) == 1
        for name, scores in fed(other).items():
            torch.testing.assert_close(scores, expected[name], rtol=0, atol=1e-6)


def test_what_comes_out_of_a_pickle_has_no_memory_as_the_documentation_says(build):
    metrics = build(EncoderMemory())
    pickled = pickle.loads(pickle.dumps(metrics))
    for other, shares in ((copy.deepcopy(metrics), True), (metrics.clone(), True), (pickled, False)):
        states = [one.scorer.metric.encoder._states for one in other.values()]
        assert (None not in states and len(set(map(id, states))) == 1) == shares


def test_bert_score_shares_too(tiny_encoder):
    memory = EncoderMemory()
    ours = TextMoverScore("twmd", encoder=str(tiny_encoder), device="cpu", memory=memory)
    theirs = TextMoverBERTScore(str(tiny_encoder), device="cpu", memory=memory)
    assert ours.scorer.metric.encoder.model is theirs.scorer.metric.encoder.model
