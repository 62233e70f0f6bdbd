"""Every field of the configuration is read, checked and kept."""

import functools
import json
import re
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

import pytest
import torch

from textmover.checkpoints.adapter import AdapterConfig
from textmover.modules import MetricConfig, MetricModel
from textmover.modules.classifier import ClassifierConfig
from textmover.modules.config import DEFAULT_ENCODER
from textmover.modules.encoder.lora import LoraConfig
from textmover.rome.config import RomeConfig
from textmover.rome.features.syntactic import SyntacticOptions
from textmover.rome.scorer.network import ScorerConfig
from textmover.scoring import Scorer
from textmover.types import InputError

HYPOTHESES = ["the small dog, running to the old house in the evening!", "she will buy a book", "tea ✅"]
REFERENCES = [
    ["a little dog runs home at night", "the dog ran to the old house"],
    ["she will not sell the book today", "he bought two books in town"],
    ["warm tea ❌", "a cold drink of water"],
]


@dataclass(frozen=True)
class Case:
    """A field, another value for it, the rest of the configuration, and where the difference must be seen."""

    field: str
    value: Any
    seen_in: tuple[str, ...] = ("scores", "signature")
    base: dict[str, Any] = field(default_factory=dict)


ROUTING = {"aggregation": "routing", "last_layers": 4, "routing_tolerance": 1e-9}
LAZY = {"matching": "lazy-emd", "normalize": False, "temperature": 0.1, "tolerance": 1e-6}

CASES = [
    Case("kind", "joint", ("error",)),
    *(Case("matching", name) for name in ("trwmd", "bertscore", "emd", "sbert", "sbert-pooled", "wordset-cka")),
    *(Case("matching", name, base={"normalize": False}) for name in ("lazy-emd", "sinkhorn-divergence")),
    Case("encoder", "OTHER"),
    Case("revision", "v9", ("error",), {"encoder": "all-MiniLM-L6-v2"}),
    *(Case("layer", number) for number in (0, 1)),
    *(
        Case("aggregation", name, base={"last_layers": 3})
        for name in ("power-means", "scalar-mix", "side-by-side", "routing")
    ),
    Case("aggregation", "side-by-side", base={"aggregation": "scalar-mix", "layers": [0, 2]}),
    Case("layers", [0, 2], base={"aggregation": "side-by-side", "last_layers": 2}),
    Case("last_layers", 3, base={"aggregation": "power-means", "last_layers": 2}),
    Case("layer", 2, base={"aggregation": "scalar-mix", "last_layers": 2}),
    Case("powers", (2.0, "-inf"), base={"aggregation": "power-means", "last_layers": 3}),
    Case("routing_kernel", "epanechnikov", base=ROUTING),
    Case("routing_step", 3.0, base=ROUTING),
    Case("routing_tolerance", 0.5, base=ROUTING),
    Case("routing_iterations", 1, base=ROUTING),
    *(Case("subwords", name) for name in ("first", "mean")),
    Case("punctuation", "drop"),
    *(Case("stop_words", words) for words in ("english", "the ran")),
    *(Case("ngram", size) for size in (2, "sentence")),
    Case("unknown_tokens", "alike"),
    Case("numbers", "equal", base={"multi_reference": "mean"}),
    Case("numbers", "equal", ("error",), {"encoder": "VECTORS"}),
    Case("unknown_words", "zero", ("scores", "signature"), {"encoder": "VECTORS"}),
    Case("unknown_words", "error", ("error",), {"encoder": "VECTORS"}),
    Case("weights", "idf", base={"idf_from": "references"}),
    Case("weights", "tf-idf", base={"idf_from": "references", "weights": "idf"}),
    Case("weights", "idf", ("error",)),
    Case("weights", "learned", ("signature", "trained")),
    Case("idf", "plus-one", base={"weights": "idf", "idf_from": "references"}),
    Case("idf_from", "sides", base={"weights": "idf", "idf_from": "references"}),
    Case("idf_from", "corpus", ("error",), {"weights": "idf", "idf_from": "references"}),
    *(Case("cost", name, base={"matching": "emd"}) for name in ("squared-euclidean", "euclidean")),
    *(Case("output", name, base={"matching": "emd", "normalize": False}) for name in ("inverse", "distance")),
    Case("order_penalty", 0.3, base={"matching": "emd"}),
    Case("hypothesis_penalty", 0.2, base=LAZY),
    Case("hypothesis_penalty", "inf", base={**LAZY, "hypothesis_penalty": 0.3}),
    Case("reference_penalty", 0, base=LAZY),
    Case("measure", "product", base={**LAZY, "reference_penalty": 0.3, "hypothesis_penalty": 0.3}),
    Case("temperature", 0.2, base={**LAZY, "reference_penalty": 0.3}),
    Case("alpha", 0.9, base={"temperature": 0.2}),
    Case("alpha", 0.0, base={"matching": "bertscore"}),
    Case("error_norm", 3.0, base={"temperature": 0.2}),
    Case("error_norm", 2.0, base={"matching": "bertscore"}),
    Case("same_token_loss", 2.0, base={"temperature": 0.2}),
    *(Case("same_token_loss", 2.0, base={"matching": name}) for name in ("bertscore", "trwmd")),
    Case("rescale", True, ("error", "signature")),
    Case("max_length", 6),
    Case("long_texts", "window", base={"max_length": 6}),
    Case("long_texts", "error", ("signature", "error"), {"max_length": 6}),
    Case("dtype", "bfloat16", ("scores", "signature", "dtype")),
    Case("freeze_layers", 0, ("trained",)),
    Case("freeze_layers", 2, ("trained",), {"freeze_layers": 1}),
    *(Case("centering", name) for name in ("dimension", "sentence", "batch")),
    Case("centering", "corpus", ("signature", "error")),
    *(Case("hypothesis_special_tokens", name) for name in ("keep", "drop", "targets")),
    *(Case("reference_special_tokens", name) for name in ("keep", "drop")),
    Case("reference_special_tokens", "targets", base={"matching": "trwmd"}),
    Case("temperature", 0.2),
    Case("temperature", 0.2, base={"matching": "trwmd"}),
    Case("learn_temperature", True, ("trained",)),
    Case("iterations", 7, base={"temperature": 0.2}),
    Case("tolerance", 1e-4, base={"temperature": 0.2}),
    Case("max_iterations", 1, base={"temperature": 0.02, "tolerance": 1e-9}),
    Case("value", "objective", base={"temperature": 0.2}),
    Case("normalize", False),
    *(Case("score", name) for name in ("precision", "recall")),
    *(Case("multi_reference", name) for name in ("mean", "all")),
    Case("mode", "source", ("error", "signature", "trained"), {"encoder": "MANY"}),
    Case("mode", "both", ("signature", "error"), {"encoder": "MANY", "mode": "source"}),
    Case("mode", "both", ("error",)),
    Case("fallback", True, ("signature", "trained"), {"encoder": "MANY"}),
    Case("target_language", "de"),
    Case("calibrate", True, ("signature", "trained", "range")),
    Case("mark_errors", True, ("trained",)),
]


@functools.cache
def observe(config: str) -> dict[str, Any]:
    """What a configuration, written as JSON, leads to, as far as it gets."""
    config, seen = json.loads(config), {"error": None}
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


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Static vectors of some of the words."""
    folder = tmp_path_factory.mktemp("vectors")
    words = ["the", "dog", "small", "old", "she", "book", "tea", "warm", "water"]
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(len(words), 6, generator=generator).tolist()
    file = folder / "vectors.txt"
    file.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield file


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.field}={case.value}")
def test_a_changed_field_is_seen(case, tiny_encoder, tiny_multilingual, other_encoder, vectors):
    value = str(other_encoder) if case.value == "OTHER" else case.value
    base = {"encoder": str(tiny_encoder), **case.base}
    base["encoder"] = {"VECTORS": str(vectors), "MANY": str(tiny_multilingual)}.get(base["encoder"], base["encoder"])
    before, after = observe(json.dumps(base)), observe(json.dumps({**base, case.field: value}))
    for place in case.seen_in:
        assert before.get(place) != after.get(place)


def test_each_field_has_a_case():
    assert {case.field for case in CASES} == {entry.name for entry in fields(MetricConfig)}


def test_what_moves_a_score_is_in_the_signature():
    assert [case for case in CASES if "scores" in case.seen_in and "signature" not in case.seen_in] == []


BAD_VALUES = {
    "matching": ["wmd", ["twmd"]],
    "centering": ["mean"],
    "hypothesis_special_tokens": [True],
    "reference_special_tokens": ["none"],
    "long_texts": ["cut"],
    "dtype": ["int8"],
    "weights": [None],
    "value": ["cost"],
    "score": ["f1"],
    "multi_reference": ["max"],
    "learn_temperature": ["yes"],
    "normalize": [None],
    "calibrate": [2],
    "mark_errors": [2],
    "temperature": [0, -0.1, float("inf"), float("nan"), "0.1", True, None],
    "tolerance": [0.0, "small"],
    "iterations": [0, 1.0, True],
    "max_iterations": [0],
    "max_length": [2, 128.0],
    "freeze_layers": [-1, False],
    "layer": [1.5, True, "last"],
    "layers": [[], 2, "6,12", [1, 1], [-1], [1.5]],
    "encoder": ["", 3],
    "revision": [1234567, ""],
    "aggregation": ["mean"],
    "last_layers": [0],
    "powers": [(), ("big",), (float("nan"),), None],
    "routing_kernel": ["flat"],
    "routing_step": [0.0],
    "routing_tolerance": [float("inf")],
    "routing_iterations": [0],
    "subwords": ["last"],
    "punctuation": [False],
    "stop_words": ["", ["the"]],
    "target_language": ["", "english", "EN", "é1", 3],
    "ngram": [0, "text", 1.5],
    "numbers": ["apart", True],
    "unknown_words": ["skip"],
    "idf": ["log"],
    "idf_from": ["call"],
    "cost": ["manhattan"],
    "output": ["score"],
    "hypothesis_penalty": [-0.1],
    "reference_penalty": ["infinite", float("nan")],
    "measure": ["kl"],
    "order_penalty": [-1.0],
    "alpha": [1.5, -0.1],
    "error_norm": [0.5, 65.0, float("inf"), "3"],
    "same_token_loss": [0.9, 65.0, float("nan"), "2", True],
    "rescale": [1.5],
}


@pytest.mark.parametrize(("name", "value"), [(name, one) for name, bad in BAD_VALUES.items() for one in bad])
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=rf"^Expected `{name}` to be .*, but got "):
        MetricConfig(**{name: value})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"matching": "lazy-emd"}, "`normalize` to be false with matching='lazy-emd'"),
        ({"matching": "sinkhorn-divergence"}, "`normalize` to be false with matching='sinkhorn-divergence'"),
        ({"matching": "emd", "output": "distance"}, "`normalize` to be false with output='distance'"),
        ({**LAZY, "hypothesis_penalty": 0, "reference_penalty": 0}, "a penalty above 0 on one side"),
        ({**LAZY, "temperature": 0, "reference_penalty": 0.2}, 'penalties of 0 or "inf" where the `temperature`'),
        ({**LAZY, "temperature": 0, "learn_temperature": True}, "a `temperature` above 0 to learn it"),
        ({**LAZY, "output": "distance", "rescale": True}, "`rescale` to be false with output='distance'"),
        ({"error_norm": 3.0, "value": "objective"}, "`error_norm` to be 1 with a `tolerance`"),
        ({"same_token_loss": 2.0, "ngram": 2}, "`same_token_loss` to be 1 where tokens are pooled"),
        ({"same_token_loss": 2.0, "subwords": "mean"}, "`same_token_loss` to be 1 where tokens are pooled"),
        ({**LAZY, "temperature": -1}, "`temperature` to be a finite number of at least 0"),
    ],
)
def test_combinations_without_a_meaning_are_refused(config, message):
    with pytest.raises(InputError, match=f"^Expected {re.escape(message)}"):
        MetricConfig(**config)


@pytest.mark.parametrize(
    ("matching", "change"),
    [
        ("bertscore", {"temperature": 0.3}),
        ("sbert", {"score": "recall"}),
        ("twmd", {"cost": "euclidean"}),
        ("trwmd", {"iterations": 3}),
        ("emd", {"hypothesis_penalty": 0.3}),
        ("twmd", {"order_penalty": 0.3}),
        ("emd", {"alpha": 0.3}),
        ("emd", {"same_token_loss": 2.0}),
    ],
)
def test_an_override_that_nothing_reads_is_refused(matching, change):
    (name,) = change
    config = MetricConfig(matching=matching)
    with pytest.raises(InputError, match=f"that matching='{matching}' reads, but got `{name}`, which .* read"):
        config.override(**change)
    assert config.override(**{name: getattr(config, name)}) == config


@pytest.mark.parametrize(
    "fields",
    [{"aggregation": "power-means", "last_layers": 5}, {"layer": 1, "aggregation": "scalar-mix", "last_layers": 3}],
)
def test_more_layers_than_there_are_are_refused(tiny_metric, fields):
    with pytest.raises(InputError, match=r"`last_layers` to be at most [24], the layers up to"):
        tiny_metric(**fields)
    with pytest.raises(InputError, match=r"`layers` to be between 0 and \d for .*, but got 9"):
        tiny_metric(aggregation="side-by-side", layers=[1, 9])
    with pytest.raises(InputError, match="Expected `layer` or `layers`"):
        MetricConfig(layer=2, layers=[1, 2], aggregation="routing")
    with pytest.raises(InputError, match="Expected an `aggregation` of several layers with `layers`, but got 'single'"):
        MetricConfig(layers=[1, 2])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"powers": (3.0,)}, "aggregation='single'"),
        ({"last_layers": 2}, "aggregation='single'"),
        ({"last_layers": 2, "aggregation": "scalar-mix", "layers": [0, 1]}, "layers=[0, 1]"),
        ({"routing_step": 2.0}, "aggregation='single'"),
        ({"idf": "plus-one"}, "weights='uniform'"),
        ({"idf_from": "sides"}, "weights='uniform'"),
        ({"alpha": 0.3, "score": "recall"}, "score='recall'"),
        ({"error_norm": 2.0, "score": "recall"}, "score='recall'"),
        ({"max_iterations": 5}, "tolerance=None"),
        ({"iterations": 5, "tolerance": 1e-3}, "tolerance=0.001"),
    ],
)
def test_an_override_without_effect_is_warned_of(change, why, caplog):
    changed = MetricConfig().override(**change)
    assert changed == MetricConfig(**change)
    assert [record.getMessage() for record in caplog.records] == [f"`{next(iter(change))}` has no effect with {why}."]


@pytest.mark.parametrize("layer", [-5, 4, 99])
def test_a_layer_that_the_encoder_lacks_is_refused(tiny_metric, layer):
    with pytest.raises(InputError, match=rf"`layer` to be between 0 and 3 .* but got {layer}: choose"):
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
        MetricConfig(**LAZY, hypothesis_penalty="inf", reference_penalty=0.3, output="distance"),
        MetricConfig(aggregation="power-means", powers=["-inf", 1, 3.0, "inf"], ngram="sentence"),
    ],
)
def test_dictionaries_and_json_give_the_same_configuration_back(config):
    assert MetricConfig.from_dict(config.to_dict()) == config
    assert MetricConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert list(config.to_dict()) == [entry.name for entry in fields(MetricConfig)]


def test_absent_keys_take_their_defaults():
    assert MetricConfig.from_dict({}) == MetricConfig()
    assert MetricConfig().encoder == DEFAULT_ENCODER


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temprature", "did you mean `temperature`?"),
        ("layerz", "did you mean `layer`?"),
        ("zz", "the fields are kind,"),
    ],
)
@pytest.mark.parametrize("door", ["override", "from_dict"])
def test_an_unknown_field_is_refused_with_the_nearest(door, name, hint):
    change = MetricConfig().override if door == "override" else lambda **values: MetricConfig.from_dict(values)
    with pytest.raises(InputError) as caught:
        change(**{name: 1})
    assert f"got `{name}`: {hint}" in str(caught.value)


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        MetricConfig().temperature = 1.0


# --- bounds -----------------------------------------------------------------------------------------------------------


def whole_fields(config_class):
    """Fields that take whole numbers, by their annotations."""
    hints = get_type_hints(config_class)
    return [one.name for one in fields(config_class) if int in (hints[one.name], *get_args(hints[one.name]))]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MetricConfig(), 8),
        (RomeConfig(), 3),
        (SyntacticOptions(), 1),
        (ClassifierConfig(("a", "b")), 1),
        (AdapterConfig(), 1),
        (LoraConfig(), 1),
    ],
)
def test_every_whole_number_of_a_configuration_is_bounded(config, expected):
    names = whole_fields(type(config))
    assert len(names) == expected, names
    for name in names:
        for value in (10**12, -(10**12), 2.5, True, "3"):
            with pytest.raises(InputError, match=f"`{name}` to be a (whole )?number"):
                replace(config, **{name: value})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MetricConfig(aggregation="power-means", powers=(1.0,) * 101), "`powers`, as their number, .* got 101"),
        (lambda: RomeConfig(features=tuple(map(str, range(33)))), "`features`, as their number, .* got 33"),
        (lambda: ScorerConfig(("a",), (10**9,)), "`hidden` to be a whole number from 1 to 4,096"),
        (lambda: ScorerConfig(("a",), (2,) * 9, ("relu",) * 9), "`activations`, as their number, .* got 9"),
    ],
)
def test_lists_of_a_configuration_are_bounded(build, message):
    with pytest.raises(InputError, match=message):
        build()
