"""Values that somebody edited in a checkpoint's JSON: each is one sentence that names the file and the entry."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.classifier import load_classifier, save_classifier
from textmover.checkpoints.statistics_files import load_statistics, save_statistics
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.scoring import load_checkpoint, save_checkpoint
from textmover.types import InputError

MISSING = ...
TEXT, WHOLE, OBJECT = "to be text, but got", "to be a whole number, but got", "to be an object, but got"

METRIC = [
    ("metric", MISSING, "to hold `metric`"),
    ("metric", "twmd", OBJECT),
    ("metric.temperature", "0.1", "`temperature`"),
    ("metric.layer", "2", "`layer`"),
    ("metric.calibrate", "yes", "`calibrate`"),
    ("metric.matching", ["twmd"], "`matching`"),
    ("files", [], OBJECT),
    ("files.model@safetensors", 5, TEXT),
    ("encoder", MISSING, "to hold `encoder`"),
    ("encoder", "tiny", OBJECT),
    ("encoder.identity", MISSING, "to hold `encoder.identity`"),
    ("encoder.identity", 5, TEXT),
    ("encoder.depth", "3", WHOLE),
    ("encoder.depth", MISSING, "to hold `encoder.depth`"),
    ("encoder.layers", 3, "to be a list, but got"),
    ("encoder.layers.0", "3", WHOLE),
    ("encoder.layers.0", True, WHOLE),
    ("encoder.base", [], OBJECT),
    ("encoder.base.sha256", MISSING, "to hold `encoder.base.sha256`"),
    ("encoder.base.revision", 5, "to be text or null, but got"),
    ("encoder.base.commit", "0123", "describe a metric"),
]
ADAPTER = [
    ("adapter", 16, OBJECT),
    ("adapter.rank", "16", WHOLE),
    ("adapter.rank", None, WHOLE),
    ("adapter.error", "small", "to be a number, but got"),
    ("encoder", {}, "to hold `encoder.identity`"),
    ("encoder", {"identity": "x", "stored": "difference"}, "to hold `encoder.depth`"),
    ("encoder.base", MISSING, "to hold `encoder.base`"),
    ("encoder.base", None, OBJECT),
    ("encoder.base.name", None, TEXT),
    ("encoder.dtype", 16, TEXT),
    ("encoder.dtype", "float17", "describe a metric"),
]
CLASSIFIER = [
    ("classifier", ["no", "yes"], "`classifier` is missing or invalid"),
    ("classifier.classes", "yes", "to be a list, but got"),
    ("classifier.classes.0", 0, TEXT),
    ("classifier.dropout", "0.1", "to describe a classifier"),
    ("classifier.hidden", "0", "`hidden`"),
    ("metric", 5, "to be text or null, but got"),
    ("encoder", 5, "to be text or null, but got"),
    ("files.head@safetensors", None, TEXT),
    ("classifier.classes", ["one"], "at least two `classes`"),
    ("files", [], "`files` is missing or invalid"),
    ("format", "1", "in format 1, but got"),
    ("format", 9, "in format 1, but got format 9"),
    *(
        (key, MISSING, f"`{key}` is missing or invalid: give a folder")
        for key in ("kind", "format", "classifier", "metric", "encoder", "files")
    ),
]
CASES = [
    (kind, *case) for kind, of in (("metric", METRIC), ("adapter", ADAPTER), ("classifier", CLASSIFIER)) for case in of
]


@pytest.fixture(scope="module")
def saved(tiny_metric, tmp_path_factory):
    place, metric = tmp_path_factory.mktemp("edited"), tiny_metric()
    save_checkpoint(metric, place / "metric", card="")
    with torch.no_grad():
        next(metric.encoder.parameters()).add_(0.01)
    save_checkpoint(metric, place / "adapter", card="", adapter=AdapterConfig(rank=2))
    save_classifier(TextClassifier.untrained(metric, ClassifierConfig(("no", "yes"))), place / "classifier", card="")
    return place


def edited(entries, key, value):
    *path, last = [part.replace("@", ".") for part in key.split(".")]
    target = entries
    for part in path:
        target = target[int(part) if isinstance(target, list) else part]
    if value is MISSING:
        del target[last]
    else:
        target[int(last) if isinstance(target, list) else last] = value
    return entries


def refusal(act) -> str:
    with pytest.raises(InputError, match=r"^Expected .*, but ") as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("kind", "key", "value", "message"), CASES)
def test_an_edited_value_is_one_sentence(saved, tmp_path, kind, key, value, message):
    folder = shutil.copytree(saved / kind, tmp_path / kind)
    path = folder / "config.json"
    path.write_text(json.dumps(edited(json.loads(path.read_text()), key, value)))
    told = refusal(lambda: (load_classifier if kind == "classifier" else load_checkpoint)(folder))
    assert message in told
    assert str(folder) in told or key.startswith(("metric", "classifier"))
    if key.startswith("adapter."):
        assert message in refusal(lambda: adapter_report(folder))


@pytest.mark.parametrize("entries", [[], "x", 5, None, {}])
def test_json_of_another_kind_is_one_sentence(saved, tmp_path, entries):
    for kind, load in (("metric", load_checkpoint), ("classifier", load_classifier)):
        folder = shutil.copytree(saved / kind, tmp_path / kind)
        (folder / "config.json").write_text(json.dumps(entries))
        assert "is missing or invalid" in refusal(lambda: load(folder))  # noqa: B023


@pytest.mark.parametrize("basis", [[], {"mean": []}, {"mean": "x"}, {"mean": {"encoder": 5}}, {"idf": {}}, 5])
def test_statistics_with_an_edited_basis_are_one_sentence(tiny_metric, tmp_path, basis):
    metric, path = tiny_metric(centering="corpus"), tmp_path / "mean.safetensors"
    metric.fit(["a cat", "the old dog"])
    save_statistics(metric, path)
    with safe_open(str(path), framework="pt") as content:
        about, tensors = content.metadata(), {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    save_file(tensors, str(path), metadata={**about, "basis": json.dumps(basis)})
    refusal(lambda: load_statistics(tiny_metric(centering="corpus"), path))
