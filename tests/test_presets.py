"""Presets: the published choices, and what their names lead to."""

import pytest

from textmover.modules import MetricConfig, MetricModel
from textmover.modules.config import DEFAULT_ENCODER
from textmover.presets import KINDS, PRESETS, build_metric, preset_config
from textmover.types import InputError

INFINITE = float("inf")
GREEDY = {
    "matching": "bertscore",
    "special": "targets",
    "normalize": False,
    "aggregation": "single",
    "weights": "uniform",
    "alpha": 0.5,
    "score": "f",
}
IDF = {"weights": "idf", "idf": "smooth", "idf_from": "references"}
MOVER_TOKENS = {
    "special": "keep",
    "subwords": "first",
    "punctuation": "drop",
    "stop_words": "keep",
    "weights": "idf",
    "idf": "smooth",
    "idf_from": "sides",
    "normalize": False,
}
MOVER = {
    **MOVER_TOKENS,
    "matching": "emd",
    "cost": "squared-euclidean",
    "output": "similarity",
    "aggregation": "power-means",
    "last_layers": 5,
    "powers": (-INFINITE, 1.0, INFINITE),
    "order_penalty": 0.0,
}
LAZY = {
    "matching": "lazy-emd",
    "special": "drop",
    "temperature": 0.009,
    "cost": "cosine",
    "output": "distance",
    "measure": "entropy",
    "normalize": False,
    "weights": "uniform",
}
CHEN = {"special": "first", "normalize": True, "iterations": 1, "tolerance": None, "value": "transport", "score": "f"}
HMD = {**MOVER_TOKENS, "matching": "bertscore", "aggregation": "single"}
SCORES = {"p": "precision", "r": "recall", "f1": "f"}
NGRAMS = {"wmd1": 1, "wmd2": 2, "smd": "sentence"}
TABLE = {
    "sbert": {**CHEN, "matching": "sbert", "centering": "none"},
    "sbert-pooled": {"matching": "sbert-pooled", "special": "keep", "normalize": True},
    "wordset-cka": {**CHEN, "matching": "wordset-cka", "centering": "dimension"},
    **{f"bertscore-{end}": {**GREEDY, "score": score} for end, score in SCORES.items()},
    **{f"bertscore-{end}-idf": {**GREEDY, **IDF, "score": score} for end, score in SCORES.items()},
    "yisi-1": {**GREEDY, **IDF, "idf": "plus-one", "alpha": 0.7},
    "f-alpha": {**GREEDY, "alpha": 0.48},
    "rwmd": {**GREEDY, "score": "recall"},
    "wmd": {"matching": "emd", "special": "first", "cost": "cosine", "output": "similarity", "normalize": False},
    **{f"moverscore-{name}": {**MOVER, "ngram": size} for name, size in NGRAMS.items()},
    "moverscore-v2": {
        **MOVER_TOKENS,
        "matching": "emd",
        "cost": "euclidean",
        "output": "inverse",
        "aggregation": "single",
        "layer": -1,
        "ngram": 1,
    },
    **{f"hmd-{end}": {**HMD, "score": score} for end, score in SCORES.items()},
    "lazy-emd-en": {**LAZY, "hypothesis_penalty": 0.23, "reference_penalty": 0.31},
    "lazy-emd-zh": {**LAZY, "hypothesis_penalty": 0.018, "reference_penalty": 0.97},
    "lazy-emd-other": {**LAZY, "hypothesis_penalty": 0.009, "reference_penalty": 0.95},
    "twmd": {**CHEN, "matching": "twmd", "temperature": 0.02, "centering": "none"},
    "twmd-b": {**CHEN, "matching": "twmd", "temperature": 0.1, "centering": "corpus"},
    "trwmd": {**CHEN, "matching": "trwmd", "temperature": 0.02, "centering": "none"},
    "trwmd-b": {**CHEN, "matching": "trwmd", "temperature": 0.15, "centering": "corpus"},
    "sinkhorn-divergence": {
        "matching": "sinkhorn-divergence",
        "special": "first",
        "output": "distance",
        "normalize": False,
    },
}
"""What the papers and the authors' code choose; `special` stands for both sides."""

SAME = {"rwmd": "bertscore-r"}
"""Two names of one metric."""

TRANSPORT = [name for name, one in PRESETS.items() if one.config.kind == "transport"]


def test_every_preset_is_in_the_table():
    assert set(TABLE) == set(TRANSPORT)


@pytest.mark.parametrize("name", TRANSPORT)
def test_presets_make_the_published_choices(name):
    config = preset_config(name)
    expected = dict(TABLE[name])
    special = expected.pop("special")
    assert {field: getattr(config, field) for field in expected} == expected
    assert config.hypothesis_special_tokens == config.reference_special_tokens == special
    assert (config.encoder, config.layer) == (DEFAULT_ENCODER, expected.get("layer"))
    assert PRESETS[name].higher_is_better == (expected.get("output") != "distance")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_tell_their_formula_and_source(name):
    assert PRESETS[name].formula
    assert any(character.isdigit() for character in PRESETS[name].source)


@pytest.mark.parametrize("name", TRANSPORT)
def test_each_preset_is_built_and_differs_from_the_others(name, tiny_encoder):
    fewer = {"last_layers": 4} if preset_config(name).aggregation != "single" else {}  # it has four
    metric = build_metric(preset_config(name, encoder=str(tiny_encoder), **fewer))
    assert isinstance(metric, KINDS["transport"])
    assert metric.needs_fit == (metric.config.centering == "corpus" or metric.config.weights == "idf")
    assert metric.fits_on_call == (metric.config.weights == "idf")
    same = [other for other in PRESETS if other != name and preset_config(other) == preset_config(name)]
    assert same == [other for pair in SAME.items() if name in pair for other in pair if other != name]


def test_every_field_can_be_overridden():
    changed = {"temperature": 0.3, "layer": 1, "encoder": "x/y", "score": "recall", "calibrate": True}
    config = preset_config("twmd", **changed)
    assert config == MetricConfig(**changed)
    assert preset_config("twmd") == MetricConfig()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("twdm", "twmd"),
        ("bertscore", "bertscore-f1"),
        ("BERT_Score", "bertscore-f1"),
        ("berscore", "bertscore-f1"),
        ("lazi", "lazy-emd-en"),
        ("BERTScore-F1", "bertscore-f1"),
        ("hmd", "hmd-f1"),
        ("zzz", None),
        ("", None),
    ],
)
def test_an_unknown_preset_is_refused_with_the_nearest_and_the_command_that_lists(name, near):
    with pytest.raises(InputError) as caught:
        preset_config(name)
    message = str(caught.value)
    assert repr(name) in message
    assert (f"Did you mean {near!r}?" in message) if near else ("Did you mean" not in message)
    assert "`textmover list` shows all names" in message


def test_an_unknown_field_is_refused():
    with pytest.raises(InputError, match="did you mean `temperature`"):
        preset_config("twmd", temparature=0.1)


def test_a_metric_is_built_from_a_mapping(tiny_encoder):
    metric = build_metric({"matching": "trwmd", "encoder": str(tiny_encoder)})
    assert isinstance(metric, MetricModel)
    assert metric.config.matching == "trwmd"
    with pytest.raises(InputError, match="`kind`"):
        build_metric({"kind": "other"})
