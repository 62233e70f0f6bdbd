"""Every field of the configuration is read, checked and kept."""

import json
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any

import pytest
import torch

from textmover.modules import MetricConfig, MetricModel
from textmover.modules.config import DEFAULT_ENCODER
from textmover.scoring import Scorer
from textmover.types import InputError

HYPOTHESES = ["the small dog ran to the old house in the evening", "she will buy a book", "tea"]
REFERENCES = [
    ["a little dog runs home at night", "the dog ran to the old house"],
    ["she will not sell the book today", "he bought two books in town"],
    ["warm tea", "a cold drink of water"],
]


@dataclass(frozen=True)
class Case:
    """A field, another value for it, the rest of the configuration, and where the difference must be seen."""

    field: str
    value: Any
    seen_in: tuple[str, ...] = ("scores", "signature")
    base: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("kind", "joint", ("error",)),
    *(Case("matching", name) for name in ("trwmd", "bertscore", "sbert", "wordset-cka")),
    Case("encoder", "OTHER"),
    Case("revision", "v9", ("error",), {"encoder": "all-MiniLM-L6-v2"}),
    Case("layer", 0),
    Case("layer", 1),
    Case("max_length", 6),
    Case("long_texts", "error", ("signature", "error"), {"max_length": 6}),
    Case("dtype", "bfloat16", ("scores", "signature", "dtype")),
    Case("freeze_layers", 0, ("trained",)),
    Case("freeze_layers", 2, ("trained",), {"freeze_layers": 1}),
    *(Case("centering", name) for name in ("dimension", "sentence", "batch")),
    Case("centering", "corpus", ("signature", "error")),
    *(Case("hypothesis_special_tokens", name) for name in ("keep", "drop", "targets")),
    *(Case("reference_special_tokens", name) for name in ("keep", "drop")),
    Case("reference_special_tokens", "targets", base={"matching": "trwmd"}),
    Case("weights", "idf", ("error",)),
    Case("temperature", 0.2),
    Case("temperature", 0.2, base={"matching": "trwmd"}),
    Case("learn_temperature", True, ("trained",)),
    Case("iterations", 7, base={"temperature": 0.2}),
    Case("tolerance", 1e-4, base={"temperature": 0.2}),
    Case("value", "objective", base={"temperature": 0.2}),
    Case("normalize", False),
    Case("score", "precision"),
    Case("score", "recall"),
    Case("multi_reference", "mean"),
    Case("calibrate", True, ("signature", "trained", "range")),
]


def observe(config: dict[str, Any]) -> dict[str, Any]:
    """What a configuration leads to, as far as it gets."""
    seen: dict[str, Any] = {"error": None}
    try:
        metric = MetricModel.from_config(MetricConfig(**config)).eval()
        seen["signature"] = str(metric.signature)
        seen["trained"] = {name for name, parameter in metric.named_parameters() if parameter.requires_grad}
        seen["dtype"] = {parameter.dtype for parameter in metric.encoder.parameters()}
        seen["range"] = metric.range
        seen["scores"] = Scorer(metric).score(HYPOTHESES, REFERENCES).scores.tolist()
    except InputError as error:
        seen["error"] = str(error)
    return seen


@pytest.fixture(scope="module")
def other_encoder(tiny_encoder, tmp_path_factory):
    """The tiny encoder with other weights."""
    from transformers import AutoModel, AutoTokenizer

    folder = tmp_path_factory.mktemp("encoder") / "other"
    model = AutoModel.from_pretrained(tiny_encoder)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.field}={case.value}")
def test_a_changed_field_is_seen(case, tiny_encoder, other_encoder):
    value = str(other_encoder) if case.value == "OTHER" else case.value
    base = {"encoder": str(tiny_encoder), **case.base}
    before, after = observe(base), observe({**base, case.field: value})
    for place in case.seen_in:
        assert before.get(place) != after.get(place)


def test_each_field_has_a_case():
    assert {case.field for case in CASES} == {entry.name for entry in fields(MetricConfig)}


def test_what_moves_a_score_is_in_the_signature():
    assert [case for case in CASES if "scores" in case.seen_in and "signature" not in case.seen_in] == []


def test_the_revision_reaches_the_search(tiny_encoder):
    seen = observe({"encoder": "all-MiniLM-L6-v2", "revision": "v9"})
    assert "the embedded package holds no revision v9" in seen["error"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("matching", "wmd"),
        ("matching", ["twmd"]),
        ("centering", "mean"),
        ("hypothesis_special_tokens", True),
        ("reference_special_tokens", "none"),
        ("long_texts", "cut"),
        ("dtype", "int8"),
        ("weights", None),
        ("value", "cost"),
        ("score", "f1"),
        ("multi_reference", "max"),
        ("learn_temperature", "yes"),
        ("normalize", None),
        ("calibrate", 2),
        ("temperature", 0),
        ("temperature", -0.1),
        ("temperature", float("inf")),
        ("temperature", float("nan")),
        ("temperature", "0.1"),
        ("temperature", True),
        ("temperature", None),
        ("tolerance", 0.0),
        ("tolerance", "small"),
        ("iterations", 0),
        ("iterations", 1.0),
        ("iterations", True),
        ("max_length", 2),
        ("max_length", 128.0),
        ("freeze_layers", -1),
        ("freeze_layers", False),
        ("layer", 1.5),
        ("layer", True),
        ("layer", "last"),
        ("encoder", ""),
        ("encoder", 3),
        ("revision", 1234567),
        ("revision", ""),
    ],
)
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=rf"^Expected `{name}` to be .*, but got "):
        MetricConfig(**{name: value})


@pytest.mark.parametrize("layer", [-5, 4, 99])
def test_a_layer_that_the_encoder_lacks_is_refused(tiny_metric, layer):
    with pytest.raises(InputError, match=rf"`layer` to be between 0 and 3 .* but got {layer}\."):
        tiny_metric(layer=layer)


def test_a_length_beyond_the_encoder_is_refused(tiny_metric):
    with pytest.raises(InputError, match=r"`max_length` to be at most 128 .* but got 129\."):
        tiny_metric(max_length=129)


@pytest.mark.parametrize(
    "config",
    [
        MetricConfig(),
        MetricConfig(matching="trwmd", layer=-1, temperature=0.1, tolerance=None, max_length=64, calibrate=True),
        MetricConfig(encoder="roberta-base", revision="abc", freeze_layers=0, tolerance=1e-6, score="recall"),
    ],
)
def test_dictionaries_and_json_give_the_same_configuration_back(config):
    assert MetricConfig.from_dict(config.to_dict()) == config
    assert MetricConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert list(config.to_dict()) == [entry.name for entry in fields(MetricConfig)]


def test_absent_keys_take_their_defaults():
    assert MetricConfig.from_dict({}) == MetricConfig()
    assert MetricConfig().encoder == DEFAULT_ENCODER


def test_override_changes_named_fields_alone():
    config = MetricConfig()
    changed = config.override(temperature=0.3, score="recall")
    assert changed == MetricConfig(temperature=0.3, score="recall")
    assert config == MetricConfig()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temprature", "did you mean `temperature`?"),
        ("layers", "did you mean `layer`?"),
        ("zz", "the fields are kind,"),
    ],
)
@pytest.mark.parametrize("door", ["override", "from_dict"])
def test_an_unknown_field_is_refused_with_the_nearest(door, name, hint):
    change = MetricConfig().override if door == "override" else lambda **values: MetricConfig.from_dict(values)
    with pytest.raises(InputError) as caught:
        change(**{name: 1})
    assert f"got `{name}`: {hint}" in str(caught.value)


def test_override_checks_values():
    with pytest.raises(InputError, match="`iterations`"):
        MetricConfig().override(iterations=0)


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        MetricConfig().temperature = 1.0
