"""The torchmetrics door: scores of the scorer, live models, collections that keep metrics apart."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from textmover import EncoderMemory
from textmover.metrics import RoMeScore, TextMoverBERTScore, TextMoverScore
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import Scorer, save_checkpoint
from textmover.types import InputError

PREDS = ["the small dog ran home", "she will buy a book", "tea", "go home", ""]
TARGET = [["a little dog runs home", "the dog ran"], ["she sold two books"], ["warm tea", "tea"], ["go home"], ["tea"]]


@pytest.fixture
def options(tiny_encoder):
    return {"encoder": str(tiny_encoder), "device": "cpu"}


def scored(metric: TextMoverScore, sizes) -> torch.Tensor:
    start = 0
    for size in sizes:
        metric.update(PREDS[start : start + size], TARGET[start : start + size])
        start += size
    return metric.compute()


@pytest.mark.parametrize("preset", ["twmd", "bertscore-r", "sbert"])
def test_scores_are_those_of_the_scorer(options, preset, tiny_encoder):
    found, mean = (scored(TextMoverScore(preset, reduction=one, **options), [5]) for one in ("none", "mean"))
    expected = Scorer.from_pretrained(preset, encoder=str(tiny_encoder)).score(PREDS, TARGET).scores
    assert found.tolist() == expected.tolist()
    assert mean == found.mean()
    assert found.dtype == mean.dtype == torch.float64


def test_fields_and_checkpoints_are_taken(options, tiny_metric, tmp_path):
    changed = scored(TextMoverScore("twmd", reduction="none", temperature=0.3, **options), [5])
    save_checkpoint(tiny_metric(temperature=0.3), tmp_path / "saved", card="")
    loaded = scored(TextMoverScore(tmp_path / "saved", reduction="none"), [5])
    assert changed.tolist() == loaded.tolist()


def test_single_texts_and_positions(options):
    metric = TextMoverScore("twmd", reduction="none", **options)
    metric.update("tea", "tea", positions=[3])
    assert metric.compute().shape == ()  # as everywhere in torchmetrics
    metric.update("go home", [["tea", "warm tea"]], positions=[1])
    values = metric.compute()
    assert values[1].item() == pytest.approx(1, abs=1e-6)
    assert values[0] < 0.99


def test_a_live_model_is_referred_to_and_not_registered(tiny_metric):
    model = tiny_metric(calibrate=True).train()
    metric = TextMoverScore(model)
    metric.update(PREDS, TARGET)
    owner = torch.nn.ModuleDict({"model": model, "metric": metric})
    assert set(owner.state_dict()) == {f"model.{name}" for name in model.state_dict()}
    assert model.training


def test_a_scorer_can_be_given(tiny_metric):
    scorer = Scorer(tiny_metric())
    metric = TextMoverScore(scorer)
    assert metric.scorer is scorer
    assert metric.higher_is_better
    assert not metric.is_differentiable


def test_metrics_that_agree_on_the_first_batch_stay_apart(options):
    """Identical texts have a 1 under every metric, which torchmetrics takes for a reason to share the states."""
    names = ("twmd", "bertscore-f1", "trwmd")
    same, other = ["tea", "go home"], ["tea now", "we go"]
    alone, together = ({name: TextMoverScore(name, reduction="none", **options) for name in names} for _ in range(2))
    collection = MetricCollection(together)
    for preds in (same, other):
        collection.update(preds, same)
    found = collection.compute()
    assert len(collection.compute_groups) == 3
    for name, metric in alone.items():
        metric.update(same, same)
        assert metric.compute().round(decimals=5).tolist() == [1, 1]
        metric.update(other, same)
        torch.testing.assert_close(found[name], metric.compute(), rtol=0, atol=0)
    assert len({tuple(values.tolist()) for values in found.values()}) == 3


def test_metrics_over_one_object_share_their_states(tiny_metric):
    model = tiny_metric()
    collection = MetricCollection(
        {"mean": TextMoverScore(model), "each": TextMoverScore(model, reduction="none"), "new": TextMoverScore("twmd",
         encoder=model.config.encoder, device="cpu")}
    )  # fmt: skip
    for rows in (slice(0, 2), slice(2, 5)):
        collection.update(PREDS[rows], TARGET[rows])
    assert sorted(map(sorted, collection.compute_groups.values())) == [["each", "mean"], ["new"]]
    found = collection.compute()
    assert found["mean"] == found["each"].mean()
    torch.testing.assert_close(found["new"], found["mean"], rtol=0, atol=1e-6)


def test_an_unpickled_collection_keeps_metrics_apart(options):
    names = ("twmd", "bertscore-f1")
    metrics = {name: pickle.loads(pickle.dumps(TextMoverScore(name, reduction="none", **options))) for name in names}
    collection = copy.deepcopy(MetricCollection(metrics))
    for preds in (["tea"], ["we go home"]):
        collection.update(preds, ["tea"])
    found = collection.compute()
    assert len(collection.compute_groups) == 2
    assert found["twmd"][1] != found["bertscore-f1"][1]


def test_bad_options_are_refused(options, tiny_metric):
    with pytest.raises(InputError, match="`reduction` to be one of 'mean', 'none'"):
        TextMoverScore("twmd", reduction="sum", **options)
    with pytest.raises(InputError, match="did you mean `temperature`"):
        TextMoverScore("twmd", temprature=1, **options)
    with pytest.raises(TypeError, match="only where the model is loaded by name, but got temperature"):
        TextMoverScore(tiny_metric(), temperature=1)
    with pytest.raises(TypeError, match="a name, a Scorer or a metric, but got Linear"):
        TextMoverScore(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("names", [("metric", "score"), ("score", "metric")])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(copy.deepcopy(one)))])
def test_a_copied_module_scores_with_its_own_copy_of_the_metric(tiny_metric, names, copied):
    holder, metric = torch.nn.Module(), tiny_metric()
    parts = {"metric": metric, "score": TextMoverScore(metric)}
    for name in names:  # modules are copied in the order of registration
        holder.add_module(name, parts[name])
    twin = copied(holder)
    assert twin.score.scorer.metric is twin.metric
    assert holder.score.scorer.metric is holder.metric
    assert holder.score.clone().scorer.metric is holder.metric
    assert copy.deepcopy(twin.score).scorer is twin.score.scorer


def test_idf_that_each_update_would_fit_is_refused_until_it_is_given(options, tiny_encoder, tmp_path):
    metric = TextMoverScore("bertscore-f1-idf", **options)
    with pytest.raises(InputError, match=r"`Scorer\.fit\(texts\)` .* a file of `textmover fit-idf` as `statistics`"):
        metric.update(PREDS, TARGET)
    scorer = Scorer.from_pretrained("bertscore-f1-idf", encoder=str(tiny_encoder)).fit([one[0] for one in TARGET])
    expected = scorer.score(PREDS, TARGET).scores.tolist()
    assert scored(TextMoverScore(scorer, reduction="none"), [2, 3]).tolist() == pytest.approx(expected, abs=1e-6)
    path = scorer.save_statistics(tmp_path / "idf.safetensors")
    given = TextMoverScore("bertscore-f1-idf", reduction="none", statistics=path, **options)
    assert scored(given, [2, 3]).tolist() == pytest.approx(expected, abs=1e-6)


def test_idf_of_an_earlier_call_is_no_given_one(tiny_metric):
    model = tiny_metric(weights="idf", idf_from="sides")
    Scorer(model).score(PREDS, TARGET)
    with pytest.raises(InputError, match="fits them on the texts of each call"):
        TextMoverScore(model).update(PREDS, TARGET)


# --- RoMe with its features -------------------------------------------------------------------------------------------


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


def test_what_hangs_on_the_updates_and_other_metrics_are_refused(rome, tiny_metric):
    with pytest.raises(InputError, match="Expected idf weights that all updates share"):
        RoMeScore(rome(weights="tf-idf", idf_from="references")).update("a", "b")
    with pytest.raises(InputError, match="Expected a RoMe metric, but got one of kind 'transport'"):
        RoMeScore(tiny_metric())


# --- collections that share one encoder -------------------------------------------------------------------------------


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
