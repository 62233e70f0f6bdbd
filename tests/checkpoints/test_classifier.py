import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from textmover import Scorer
from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.classifier import load_classifier, save_classifier
from textmover.checkpoints.hub import released_metrics
from textmover.checkpoints.saving import METRIC_USAGE
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.rome.features.acceptability import AcceptabilityModel
from textmover.scoring import save_checkpoint
from textmover.types import InputError

TEXTS, OTHERS = ["the cat sat", "a dog"], ["a cat sat", "no dog at all"]


@pytest.fixture
def classifier(tiny_metric):
    torch.manual_seed(0)
    metric = tiny_metric(temperature=0.1)
    with torch.no_grad():  # as if it were trained
        for name, one in metric.encoder.named_parameters():
            if name.endswith("query.weight"):
                one.add_(0.3 * torch.randn(len(one), 1) @ torch.randn(1, one.shape[1]))
    return TextClassifier.untrained(metric, ClassifierConfig(("no", "yes"), "joint", hidden=4)).eval()


@pytest.mark.parametrize("adapter", [None, AdapterConfig(rank=2, dtype="float32")])
def test_a_classifier_is_the_same_from_its_own_folder(classifier, adapter, tmp_path):
    save_classifier(classifier, tmp_path / "cola", card="# A classifier", adapter=adapter)
    loaded = load_classifier(tmp_path / "cola")
    assert loaded.config == classifier.config
    assert not loaded.training
    assert (loaded.predict(TEXTS, OTHERS) - classifier.predict(TEXTS, OTHERS)).abs().max() < 1e-6
    names = {path.relative_to(tmp_path / "cola").as_posix() for path in (tmp_path / "cola").rglob("*")}
    assert {"config.json", "head.safetensors", "README.md", "metric/model.safetensors"} <= names
    assert ("metric/encoder" in names) is (adapter is None)
    assert not [name for name in names if name.endswith((".bin", ".pt", ".ckpt"))]


@pytest.mark.parametrize(("card", "told"), [("", "the classifier in the folder above"), ("# Mine", "# Mine")])
def test_the_metric_within_has_a_card(classifier, card, told, tmp_path):
    save_classifier(classifier, tmp_path / "cola", card=card)
    assert told in (tmp_path / "cola" / "metric" / "README.md").read_text()


def test_a_classifier_that_names_its_metric_holds_its_head_alone_and_may_move_with_it(classifier, tmp_path):
    run = tmp_path / "run"
    save_checkpoint(classifier.metric, run / "metric", card="")
    save_classifier(classifier, run / "metric-labels", card="", metric="../metric")
    run.rename(tmp_path / "elsewhere")
    folder = tmp_path / "elsewhere" / "metric-labels"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 10_000
    with pytest.raises(InputError, match="but it holds a classifier: give the folder of the metric"):
        Scorer.from_pretrained(folder)
    expected = classifier.predict(TEXTS, OTHERS)
    assert torch.equal(load_classifier(folder).predict(TEXTS, OTHERS), expected)
    there = str(tmp_path / "elsewhere" / "metric")
    assert torch.equal(load_classifier(folder, metric=there).predict(TEXTS, OTHERS), expected)


@pytest.mark.parametrize("encoding", ["joint", "single"])
def test_the_card_says_how_to_tell_classes(tiny_metric, tmp_path, encoding):
    classifier = TextClassifier.untrained(tiny_metric(), ClassifierConfig(("no", "yes"), encoding))
    card = f"# A card\n\n{METRIC_USAGE}\n## Data\n"
    save_classifier(classifier, tmp_path / "cola", card=card)
    found = (tmp_path / "cola" / "README.md").read_text()
    assert found.startswith("# A card\n\n```python\n")
    assert found.endswith("\n\nThe classes are, in this order: no, yes.\n\n## Data\n")
    assert "Scorer" not in found
    code = found.split("```")[1].removeprefix("python\n").replace("path/to/this/folder", str(tmp_path / "cola"))
    *imports, call = code.strip().splitlines()
    names = {}
    exec("\n".join(imports), names)
    assert eval(call, names).shape == (1, 2)
    assert (tmp_path / "cola" / "metric" / "README.md").read_text() == card


def test_a_metric_with_other_weights_is_refused(classifier, tiny_metric, tmp_path):
    save_checkpoint(tiny_metric(), tmp_path / "other", card="")
    with pytest.raises(InputError, match="with weights of the hash"):
        save_classifier(classifier, tmp_path / "labels", card="", metric="../other")
    entries = json.loads((save_classifier(classifier, tmp_path / "labels", card="") / "config.json").read_text())
    (tmp_path / "labels" / "config.json").write_text(json.dumps({**entries, "metric": "../other"}))
    with pytest.raises(InputError, match="with weights of the hash"):
        load_classifier(tmp_path / "labels")


def test_a_classifier_without_its_metric_says_where_to_put_it(classifier, tmp_path):
    save_checkpoint(classifier.metric, tmp_path / "metric", card="")
    folder = save_classifier(classifier, tmp_path / "metric-labels", card="", metric="../metric")
    moved = shutil.copytree(folder, tmp_path / "away" / "labels")
    place = re.escape(str(moved))
    message = rf"Expected {place}/\.\./metric .* in {place} stands on this metric: put it there"
    with pytest.raises(InputError, match=message):
        load_classifier(moved)
    assert load_classifier(moved, metric=str(tmp_path / "metric")).config == classifier.config


def test_damaged_and_other_folders_are_refused(classifier, tmp_path):
    folder = save_classifier(classifier, tmp_path / "labels", card="")
    with pytest.raises(InputError, match=r"holds no config\.json"):
        load_classifier(tmp_path)
    with pytest.raises(InputError, match="to be a classifier, but it holds a metric: give the folder beside it"):
        load_classifier(folder / "metric")
    head = folder / "head.safetensors"
    head.write_bytes(head.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="to have its hash in config"):
        load_classifier(folder)


@pytest.mark.parametrize("named", [False, True])
def test_a_classifier_that_predicts_nan_is_not_saved(classifier, tmp_path, named):
    metric = save_checkpoint(classifier.metric, tmp_path / "metric", card="")
    with torch.no_grad():
        next(classifier.head.parameters())[0, 0] = float("nan")
    with pytest.raises(InputError, match="finite probabilities from the classifier that was written, but got NaN"):
        save_classifier(classifier, tmp_path / "cola", card="", metric=str(metric) if named else None)
    assert [one.name for one in tmp_path.iterdir()] == ["metric"]


def test_nothing_else_is_replaced(classifier, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("keep")
    with pytest.raises(InputError, match="holds other files"):
        save_classifier(classifier, tmp_path / "notes", card="", overwrite=True)
    save_classifier(classifier, tmp_path / "labels", card="")
    with pytest.raises(InputError, match="--overwrite"):
        save_classifier(classifier, tmp_path / "labels", card="")
    save_classifier(classifier, tmp_path / "labels", card="new", overwrite=True)
    assert (tmp_path / "labels" / "README.md").read_text() == "new"
    with pytest.raises(InputError, match="`adapter` or `metric`"):
        save_classifier(classifier, tmp_path / "more", card="", metric="x", adapter=AdapterConfig())


# --- the released classifier ------------------------------------------------------------------------------------------

RELEASED = Path(__file__).resolve().parents[2] / "checkpoints" / "textmover-acceptability"
FINE = [
    "The old bridge was closed to traffic on Monday.",
    "Her brother has been working in the garden since noon.",
    "I do not know where they found the letters.",
    "Two dogs ran along the beach.",
]
BROKEN = [
    "Bridge bridge bridge was closed closed.",
    "Her brother have been work in garden the since noon.",
    "I do not know where they the found letters of.",
    "Dogs two ran beach along the ran.",
]


def test_the_released_classifier_is_small_and_stands_alone():
    assert sum(path.stat().st_size for path in RELEASED.rglob("*")) <= 3e6
    report = adapter_report(RELEASED / "metric")
    assert report.base == "sentence-transformers/all-MiniLM-L6-v2"
    config = json.loads((RELEASED / "config.json").read_text())
    assert config["metric"] is None
    assert config["classifier"]["classes"] == ["unacceptable", "acceptable"]
    assert config["classifier"]["encoding"] == "single"


def test_the_released_classifier_is_found_by_name_and_tells_sentences_from_broken_ones(embedded):
    assert "textmover-acceptability" not in released_metrics()
    model = AcceptabilityModel(load_classifier("textmover-acceptability"))
    fine, broken = model.predict(FINE), model.predict(BROKEN)
    assert fine.min() > 0.5 > broken.max()
    assert (model.predict([FINE[0], *BROKEN])[0] - fine[0]).abs() < 1e-6


def test_the_card_of_the_released_classifier_tells_data_terms_figures_and_command():
    card = (RELEASED / "README.md").read_text(encoding="utf-8")
    for heading in ("How well it tells", "Data and their terms", "Made with"):
        assert f"\n## {heading}\n" in card
    for part, number in (("in domain", 527), ("out of domain", 516), ("both", 1043)):
        figures = re.search(rf"^\| {part} \| {number} \| .* \| \*\*(0\.\d+)\*\* \(", card, re.MULTILINE)
        assert float(figures[1]) > 0.1
    command = re.search(r"^python benchmarks/release_acceptability\.py (\S+)$", card, re.MULTILINE)
    assert (RELEASED.parents[1] / command[1]).is_file()
    assert "no explicit licence" in card
