"""Presets: the published choices, and what their names lead to."""

import pytest

from textmover.modules import MetricConfig, MetricModel
from textmover.modules.config import DEFAULT_ENCODER
from textmover.presets import KINDS, PRESETS, build_metric, preset_config
from textmover.types import InputError

OPENING = ("first", "first")
TARGETS = ("targets", "targets")
TABLE = {  # matching, temperature, special tokens per side, centring, normalised, score
    "twmd": ("twmd", 0.02, OPENING, "none", True, "f"),
    "twmd-b": ("twmd", 0.1, OPENING, "corpus", True, "f"),
    "trwmd": ("trwmd", 0.02, OPENING, "none", True, "f"),
    "trwmd-b": ("trwmd", 0.15, OPENING, "corpus", True, "f"),
    "bertscore-f1": ("bertscore", None, TARGETS, "none", False, "f"),
    "bertscore-p": ("bertscore", None, TARGETS, "none", False, "precision"),
    "bertscore-r": ("bertscore", None, TARGETS, "none", False, "recall"),
    "sbert": ("sbert", None, OPENING, "none", True, "f"),
    "wordset-cka": ("wordset-cka", None, OPENING, "dimension", True, "f"),
}


def test_every_preset_is_in_the_table():
    assert set(TABLE) == set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_make_the_published_choices(name):
    config = preset_config(name)
    matching, temperature, special, centering, normalize, score = TABLE[name]
    assert (config.matching, config.centering, config.normalize, config.score) == (
        matching,
        centering,
        normalize,
        score,
    )
    assert (config.hypothesis_special_tokens, config.reference_special_tokens) == special
    if temperature is not None:
        assert (config.temperature, config.iterations, config.tolerance) == (temperature, 1, None)
    assert (config.encoder, config.layer, config.value) == (DEFAULT_ENCODER, None, "transport")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_tell_their_formula_and_source(name):
    assert PRESETS[name].formula
    assert any(character.isdigit() for character in PRESETS[name].source)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_built_and_differs_from_the_others(name, tiny_encoder):
    metric = build_metric(preset_config(name, encoder=str(tiny_encoder)))
    assert isinstance(metric, KINDS["transport"])
    assert metric.needs_fit == (metric.config.centering == "corpus")
    others = [preset_config(other) for other in PRESETS if other != name]
    assert preset_config(name) not in others


def test_every_field_can_be_overridden():
    changed = {"temperature": 0.3, "layer": 1, "encoder": "x/y", "score": "recall", "calibrate": True}
    config = preset_config("twmd", **changed)
    assert config == MetricConfig(**changed)
    assert preset_config("twmd") == MetricConfig()


@pytest.mark.parametrize(
    ("name", "near"),
    [("twdm", "twmd"), ("bertscore", "bertscore-r"), ("BERTScore-F1", None), ("zzz", None), ("", None)],
)
def test_an_unknown_preset_is_refused_with_the_nearest_and_the_list(name, near):
    with pytest.raises(InputError) as caught:
        preset_config(name)
    message = str(caught.value)
    assert repr(name) in message
    assert ("Did you mean" in message) == (near is not None)
    assert all(preset in message for preset in PRESETS)


def test_an_unknown_field_is_refused():
    with pytest.raises(InputError, match="did you mean `temperature`"):
        preset_config("twmd", temparature=0.1)


def test_a_metric_is_built_from_a_mapping(tiny_encoder):
    metric = build_metric({"matching": "trwmd", "encoder": str(tiny_encoder)})
    assert isinstance(metric, MetricModel)
    assert metric.config.matching == "trwmd"
    with pytest.raises(InputError, match="`kind`"):
        build_metric({"kind": "other"})
