import copy
import pickle

import numpy as np
import pytest
import torch

from textmover.checkpoints.loading import complete
from textmover.functional.cost import pairwise_similarity
from textmover.rome.config import RomeConfig
from textmover.rome.features.text_features import RomeFeatures
from textmover.rome.metric import RomeMetric
from textmover.scoring import Scorer
from textmover.types import CompositeMetric, InputError, SegmentMetric, TrainableMetric

HYPOTHESES = ["a cat sat on the street", "the dog", "", "the old town by the sea", "red red red", "?!"]
REFERENCES = [
    "the cat sat on a street",
    "a dog sat there",
    "the town",
    "the old town by the sea",
    "the red boat",
    "a cat",
]


def scores(metric, hypotheses=HYPOTHESES, references=REFERENCES):
    return Scorer(metric).score(hypotheses, references)


def test_it_is_what_every_door_expects(rome):
    for protocol in (SegmentMetric, TrainableMetric, CompositeMetric):
        assert isinstance(rome(), protocol)


def test_scores_and_components_of_pairs(rome):
    found = scores(rome(weights="uniform"))
    assert set(found.components) == {"semantic", "syntactic", "acceptability"}
    identical = HYPOTHESES.index("the old town by the sea")
    assert found.components["semantic"][identical] == pytest.approx(1, abs=1e-6)
    assert found.components["syntactic"][identical] == 1
    for name, values in found.components.items():
        assert ((values >= 0) & (values <= 1)).all(), name
    mean = np.mean(list(found.components.values()), axis=0)
    assert found.scores[[0, 1, 3, 4]] == pytest.approx(mean[[0, 1, 3, 4]], abs=1e-6)


def test_sides_without_words_score_0_and_are_counted(rome):
    found = scores(rome(weights="uniform"))
    assert found.scores[[2, 5]].tolist() == [0, 0]
    assert found.counts["empty"] == 2


def test_words_that_the_encoder_does_not_know_match_their_like_alone(rome):
    hypotheses, references = (
        ["the 龘 town", "the 龘 town", "龘", "龘", "a cat"],
        ["the 靐 town", "the 龘 town", "靐", "龘", "a cat"],
    )
    metric = rome(weights="uniform")
    found = scores(metric, hypotheses, references)
    assert found.components["semantic"][[1, 3, 4]] == pytest.approx(1, abs=1e-6)
    assert found.components["semantic"][[0, 2]] == pytest.approx([2 / 3, 0], abs=1e-6)
    assert found.scores[[2, 3]].tolist() == [0, 0]
    assert dict(found.counts) == {"empty": 2, "unknown": 4}
    alone = [scores(metric, [one], [other]).scores[0] for one, other in zip(hypotheses, references, strict=True)]
    assert alone == pytest.approx(found.scores.tolist(), abs=1e-6)
    assert Scorer(metric).explain(hypotheses[0], references[0]).similarity[1].max() == 0


def test_batches_and_threads_of_any_size_give_the_same(rome):
    metric = rome(weights="uniform")
    many = [f"{one} {number}" for number in range(20) for one in HYPOTHESES]
    references = REFERENCES * 20
    expected = scores(metric, many, references)
    for tokens in (16, 64, 10_000):
        found = Scorer(metric, batch_tokens=tokens).score(many, references)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_what_is_kept_of_texts_gives_what_tokens_give(rome):
    metric = rome(weights="uniform", features=("semantic", "syntactic", "acceptability", "length-ratio"))
    batches = [metric.tokenize(texts) for texts in (HYPOTHESES, REFERENCES)]
    direct = metric.pair_scores(*batches)
    features = [metric.text_features(batch) for batch in batches]
    packed = [one.pack(batch.lengths.numpy()) for one, batch in zip(features, batches, strict=True)]
    joined = [type(one).join([one.select([0, 1, 2]), one.select([3, 4, 5])]) for one in packed]
    places = [(0, row) for row in range(len(HYPOTHESES))]
    padded = [type(one).pad([one], places) for one in joined]
    assert all(isinstance(one, RomeFeatures) for one in padded)
    again = metric.pair_scores(*padded)
    assert torch.allclose(direct.score, again.score, atol=1e-6)
    for name, values in direct.components.items():
        assert torch.allclose(values, again.components[name], atol=1e-6), name
    assert packed[0].nbytes > packed[0].words.nbytes


def test_several_references_give_the_best_or_the_mean(rome):
    pairs = [("a cat sat", ["the dog", "a cat sat there"]), ("the sea", ["the sea", "red"])]
    for how, combine in (("best", np.max), ("mean", np.mean)):
        metric = rome(weights="uniform", multi_reference=how)
        found = scores(metric, [one for one, _ in pairs], [many for _, many in pairs])
        for row, (hypothesis, many) in enumerate(pairs):
            single = scores(metric, [hypothesis] * len(many), many)
            assert found.scores[row] == pytest.approx(combine(single.scores), abs=1e-6)


def test_idf_is_fitted_on_the_references_of_a_call(rome):
    metric = rome(idf_from="references")
    assert metric.fits_on_call
    before = scores(metric, ["the cat"], ["the dog"]).components["semantic"][0]
    within = scores(metric, ["the cat", "the", "the"], ["the dog", "the", "the sea"]).components["semantic"][0]
    assert before != pytest.approx(within, abs=1e-4)
    scorer = Scorer(metric)
    scorer.score(["the cat", "the", "the"], ["the dog", "the", "the sea"])
    assert scorer.fitted_metric.idf.documents == 3
    assert scorer.fitted_metric.idf.from_call
    assert not metric.idf.fitted  # the call keeps its table to itself


def test_idf_of_a_corpus_stays(rome):
    metric = rome()
    assert metric.needs_fit
    assert not metric.fits_on_call
    metric.fit(REFERENCES)
    assert not metric.needs_fit
    print_before = metric.idf.fingerprint
    scores(metric)
    assert metric.idf.fingerprint == print_before
    with pytest.raises(InputError, match="Expected texts to fit idf weights on, but got none"):
        metric.fit([])
    with pytest.raises(InputError, match="Expected a metric with statistics to fit"):
        rome(weights="uniform").fit(REFERENCES)
    with pytest.raises(InputError, match=r"`names` to hold 'idf', the only statistic of RoMe, but got \['mean'\]"):
        metric.fit(REFERENCES, names=["mean"])


def test_idf_counts_ways_to_write_the_same_letters_alike(rome):
    composed, decomposed = rome(), rome()
    composed.fit(["the café", "the cat", "the sea"])
    decomposed.fit(["the cafe\u0301", "the cat", "the sea"])
    assert composed.idf.fingerprint == decomposed.idf.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"layer": 1},  {"features": ("semantic", "acceptability")}, {"scorer": "new-paper"},
        {"scorer": "new-monotone"}, {"variant": "code"}, {"variant": "emd"}, {"delta": 0.95}, {"weights": "uniform"},
        {"weights": "idf"}, {"idf": "smooth"}, {"idf_from": "references"}, {"balanced": False}, {"theta": 0.99},
        {"ramp": 0.5}, {"change": 1.0}, {"relations": True}, {"punctuation": "keep"}, {"most_nodes": 2},
        {"multi_reference": "mean"},
        {"calibrate": True}, {"max_length": 5}, {"parser": "none", "features": ("semantic", "acceptability")},
        {"features": ("semantic", "syntactic", "acceptability", "chrf")}, {"dtype": "bfloat16"},
    ],
    ids=str,
)  # fmt: skip
def test_every_field_is_in_the_signature(rome, change):
    assert str(rome(**change).signature) != str(rome().signature)


def test_a_network_scores_what_its_features_say(rome):
    metric = rome(scorer="new-monotone", weights="uniform")
    found = scores(metric)
    features = torch.tensor(np.stack([found.components[name] for name in metric.config.features], axis=1))
    expected = metric.scorer(features.float()).detach().numpy()
    expected[[2, 5]] = 0
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert metric.range == (0.0, 1.0)


def test_training_moves_the_network_and_nothing_else(rome):
    metric = rome(scorer="new-paper", calibrate=True, weights="uniform").train()
    trained, frozen = (rome(scorer="new-paper", weights="uniform") for _ in range(2))
    batches = [metric.tokenize(texts) for texts in (HYPOTHESES, REFERENCES)]
    expected = frozen(*batches).components
    for name, values in trained.train()(*batches).components.items():
        assert torch.allclose(values, expected[name], atol=1e-6), name  # no dropout
    assert list(metric.encoder_parameters()) == []
    names = {name for name, _ in metric.head_parameters()}
    assert {"scorer.weights.0", "calibration.scale"} <= names
    result = metric(*(metric.tokenize(texts) for texts in (HYPOTHESES, REFERENCES)))
    result.score.sum().backward()
    assert all(one.grad is not None for one in metric.scorer.weights)
    assert all(one.grad is None for one in metric.reader.parameters())


def test_pairs_of_token_batches_are_read_once(rome):
    metric = rome(weights="uniform")
    batches = [metric.tokenize(texts) for texts in (HYPOTHESES, REFERENCES)]
    first = metric.pair_scores(*batches)
    read = len(metric.reader.parser.read)
    rows = [4, 0]
    second = metric.pair_scores(*(batch.select(rows) for batch in batches))
    assert len(metric.reader.parser.read) == read
    assert torch.equal(second.score, first.score[rows])


def test_acceptability_is_that_of_the_hypotheses_and_judged_once(rome, monkeypatch):
    metric = rome(weights="uniform")
    judged, predict = [], metric.acceptability.predict
    monkeypatch.setattr(metric.acceptability, "predict", lambda texts: judged.extend(texts) or predict(texts))
    found = scores(metric, ["the dog", "a cat", "the dog"], [["a", "b"], ["c"], ["d", "e"]])
    assert sorted(judged) == ["a cat", "the dog"]
    assert found.components["acceptability"][0] == found.components["acceptability"][2]
    expected = predict(["the dog", "a cat"]).numpy()
    np.testing.assert_allclose(found.components["acceptability"][:2], expected, atol=1e-6)


def test_scores_of_other_metrics_are_features(rome, tiny_metric):
    metric = rome(features=("semantic", "twmd"), weights="uniform")
    assert metric.wanted_metrics == {"twmd": "twmd"}
    with pytest.raises(InputError, match="Expected RoMe's parts to be loaded, but got no twmd"):
        scores(metric)
    metric.take_part("twmd", tiny_metric())
    found = scores(metric)
    expected = Scorer(tiny_metric()).score(HYPOTHESES, REFERENCES).scores
    np.testing.assert_allclose(found.components["twmd"], expected, atol=1e-6)
    with pytest.raises(InputError, match="Expected the feature 'twmd' to be a similarity that needs no corpus"):
        metric.take_part("twmd", tiny_metric(centering="corpus"))


def test_features_whose_names_differ_in_a_dot_alone_are_two(rome, tiny_metric):
    parts = {"runs/a.b": tiny_metric(temperature=1.0), "runs/a_b": tiny_metric(temperature=0.02)}
    metric = rome(features=("semantic", *parts), weights="uniform")
    for name, part in parts.items():
        metric.take_part(name, part)
    found = scores(metric).components
    for name, part in parts.items():
        np.testing.assert_allclose(found[name], Scorer(part).score(HYPOTHESES, REFERENCES).scores, atol=1e-6)


def test_without_a_parser_words_are_the_tokenizers(rome):
    metric = rome(parser="none", features=("semantic", "acceptability"), weights="uniform")
    found = scores(metric, ["the cat's boat"], ["the cat's boat"])
    assert found.components["semantic"][0] == pytest.approx(1, abs=1e-6)
    assert metric.text_features(metric.tokenize(["the cat's boat"])).texts[0].words == ("the", "cat", "'", "s", "boat")


def test_a_long_text_is_flagged(rome):
    found = scores(rome(most_nodes=3, weights="uniform"), ["a cat sat on the street"], ["a cat"])
    assert found.counts["long"] == 1


def test_words_behind_the_limit_of_the_encoder_change_no_match(rome):
    metric = rome(weights="uniform", max_length=16)
    texts = ["the old town by the sea " * 20, "a cat", "?!"], ["the red boat by the sea " * 30, "the cat", "?!"]
    hypotheses, references = (metric.text_features(metric.tokenize(side)) for side in texts)
    assert hypotheses.mask.shape[1] > hypotheses.mask.any(dim=0).sum() > 0
    features, _ = metric.pair_features(hypotheses, references)
    torch.testing.assert_close(features[:, 0], metric.semantic(hypotheses, references).value, rtol=0, atol=1e-6)


def test_words_behind_the_limit_are_not_compared_all_with_all(rome, monkeypatch):
    metric = rome(weights="uniform", max_length=16)
    widths = []
    monkeypatch.setattr(
        "textmover.rome.features.pairs.pairwise_similarity",
        lambda *sides: widths.extend(side.shape[1] for side in sides) or pairwise_similarity(*sides),
    )
    found = scores(metric, ["the old town " * 200, "a cat"], ["the red boat " * 300, "the cat"])
    assert max(widths) <= 16
    assert found.scores[1] == pytest.approx(scores(metric, ["a cat"], ["the cat"]).scores[0], abs=1e-6)


def test_an_untrained_scorer_says_so(rome, caplog):
    rome(scorer="new-paper")
    assert "The scorer new-paper is untrained" in caplog.text


def test_a_feature_that_is_neither_own_nor_a_metric_is_named(rome, tmp_path):
    config = rome().config.override(features=("semantic", "semantics"))
    with pytest.raises(InputError, match="`features` to be RoMe's own or metrics by name, but 'semantics' is neither"):
        complete(RomeMetric.from_config(config))


def test_copies_and_pickles_score_alike(rome):
    metric = rome(scorer="new-paper", weights="uniform")
    expected = scores(metric).scores
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        np.testing.assert_array_equal(scores(other).scores, expected)


def test_a_state_holds_what_was_learned_alone(rome):
    metric = rome(scorer="new-paper", calibrate=True)
    metric.fit(REFERENCES)
    state = metric.state_dict()
    assert {name.split(".")[0] for name in state} == {"scorer", "calibration", "idf"}
    other = rome(scorer="new-paper", calibrate=True)
    other.load_state_dict(state)
    assert str(other.signature) == str(metric.signature)


def test_networks_of_other_features_are_refused(rome, tmp_path):
    from textmover.rome.scorer.network import FeatureScorer, ScorerConfig, write_scorer

    write_scorer(FeatureScorer(ScorerConfig(("semantic", "chrf"))), tmp_path / "network.json")
    with pytest.raises(InputError, match=r"of the features semantic, syntactic, acceptability, but .* semantic, chrf"):
        rome(scorer=str(tmp_path / "network.json"))


def test_joining_references_and_mixed_sides_are_refused(rome):
    metric = rome(weights="uniform")
    batch = metric.tokenize(["a cat"])
    features = metric.text_features(batch)
    with pytest.raises(InputError, match="'best' or 'mean' for RoMe"):
        metric.join([features, features])
    with pytest.raises(TypeError, match="both as token batches or both as RoMe's features"):
        metric.pair_scores(batch, features)
    with pytest.raises(ValueError, match="as many hypotheses as references, but got 1 and 2"):
        metric.pair_scores(batch, metric.tokenize(["a", "b"]))


def test_a_classifier_of_another_kind_is_refused(rome, tiny_metric):
    metric = RomeMetric.from_config(rome().config)
    with pytest.raises(TypeError, match="Expected a TextClassifier, but got MetricModel"):
        metric.take_part("acceptability", tiny_metric())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"features": ()}, "Expected `features` to be one or more different names"),
        ({"features": ("semantic", "semantic")}, "Expected `features` to be one or more different names"),
        ({"parser": "none"}, "Expected a parser for the feature 'syntactic', but got parser='none'"),
        ({"parser": ""}, "Expected `parser` to be a name or a path"),
        ({"variant": "theirs"}, "Expected `variant` to be one of 'paper', 'code'"),
        ({"delta": 2.0}, "Expected `delta` to be a number between 0 and 1, but got 2.0"),
        ({"delta": "x"}, "Expected `delta` to be a number between 0 and 1, but got 'x'"),
        ({"theta": 2.0}, "Expected `theta` to be a cosine"),
        ({"most_nodes": 0}, "Expected `most_nodes` to be a whole number from 1 to"),
        ({"layer": "last"}, "Expected `layer` to be a whole number from -1,000 to 1,000 or null"),
        ({"multi_reference": "all"}, "Expected `multi_reference` to be one of 'best', 'mean'"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(InputError, match=message):
        RomeConfig(**fields)


def test_a_configuration_comes_back_and_unknown_fields_are_named():
    config = RomeConfig(features=["semantic", "chrf"], theta=0.5)
    assert RomeConfig.from_dict(config.to_dict()) == config
    with pytest.raises(InputError, match="did you mean `theta`"):
        config.override(tetha=0.5)
