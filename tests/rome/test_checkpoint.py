import json

import numpy as np
import pytest

from textmover.checkpoints.classifier import classifier_folder, save_classifier
from textmover.checkpoints.loading import load_checkpoint, load_metric
from textmover.checkpoints.saving import save_checkpoint
from textmover.modules.classifier import TextClassifier
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import Scorer
from textmover.types import InputError

HYPOTHESES, REFERENCES = ["a cat sat", "the dog", "red boat"], ["the cat sat there", "the dog", "blue sky"]


@pytest.fixture
def fields(tiny_encoder):
    return {"encoder": str(tiny_encoder), "parser": "none", "features": ("semantic", "length-ratio")}


def test_a_trained_scorer_comes_back(fields, tmp_path):
    metric = RomeMetric.from_config(RomeConfig(**fields, scorer="new-monotone")).eval()
    metric.fit(REFERENCES)
    metric.scorer.offset.data.fill_(0.7)
    expected = Scorer(metric).score(HYPOTHESES, REFERENCES)
    folder = save_checkpoint(metric, tmp_path / "rome", card="# rome\n")
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    back = Scorer(load_checkpoint(folder)).score(HYPOTHESES, REFERENCES)
    np.testing.assert_array_equal(back.scores, expected.scores)
    assert str(back.signature) == str(expected.signature)
    assert back.components.keys() == {"semantic", "length-ratio"}


def test_overrides_of_a_checkpoint(fields, tmp_path):
    metric = RomeMetric.from_config(RomeConfig(**fields, scorer="new-paper", weights="uniform")).eval()
    folder = save_checkpoint(metric, tmp_path / "rome", card="")
    assert load_checkpoint(folder, delta=0.9).config.delta == 0.9
    assert load_checkpoint(folder, calibrate=True).calibration is not None
    with pytest.raises(InputError, match="keep the features of its training, but got `features`"):
        load_checkpoint(folder, features=("semantic",))
    with pytest.raises(InputError, match="did you mean `delta`"):
        load_checkpoint(folder, detla=0.9)


def test_a_trained_scorer_tells_of_other_features(fields, classifier, tmp_path, caplog):
    """A classifier that was trained anew in its folder, or another variant, changed scores without a word."""
    said = "The scorer new-paper was trained on features that differ in "

    def saved(metric, name):
        caplog.clear()
        return save_checkpoint(metric.eval(), tmp_path / name, card="")

    save_classifier(classifier, tmp_path / "classifier", card="")
    fields |= {"features": ("semantic", "acceptability"), "acceptability": str(tmp_path / "classifier")}
    metric = RomeMetric.from_config(RomeConfig(**fields, scorer="new-paper", weights="uniform"))
    metric.take_part("acceptability", classifier)
    folder = saved(metric, "rome")
    load_metric(folder)
    assert said not in caplog.text
    changed = load_metric(folder, variant="align")
    assert f"{said}variant," in caplog.text
    saved(changed, "exported")
    assert f"{said}variant," in caplog.text
    changed.scorer.offset.data.fill_(0.7)
    saved(changed, "trained")
    assert said not in caplog.text
    other = TextClassifier.untrained(classifier.metric, classifier.config)
    save_classifier(other, tmp_path / "classifier", card="", overwrite=True)
    load_metric(folder)
    assert f"{said}acceptability," in caplog.text


def test_what_is_not_finite_replaces_nothing(fields, tmp_path):
    metric = RomeMetric.from_config(RomeConfig(**fields, scorer="new-paper")).eval()
    folder = save_checkpoint(metric, tmp_path / "rome", card="")
    before = (folder / "model.safetensors").read_bytes()
    metric.scorer.offset.data.fill_(float("nan"))
    with pytest.raises(InputError, match=r"finite weights to save, but scorer\.offset holds NaN"):
        save_checkpoint(metric, folder, card="", overwrite=True)
    assert (folder / "model.safetensors").read_bytes() == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_of_another_network_is_refused(fields, tmp_path):
    metric = RomeMetric.from_config(RomeConfig(**fields, scorer="new-paper", weights="uniform"))
    folder = save_checkpoint(metric, tmp_path / "rome", card="")
    entries = json.loads((folder / "config.json").read_text())
    entries["network"]["hidden"] = [7]
    (folder / "config.json").write_text(json.dumps(entries))
    with pytest.raises(InputError, match=r"model\.safetensors to fit config\.json, but got"):
        load_checkpoint(folder)


def test_classifier_and_metrics_are_loaded_by_name(fields, classifier, tiny_metric, tmp_path):
    save_classifier(classifier, tmp_path / "classifier", card="")
    save_checkpoint(tiny_metric(matching="trwmd"), tmp_path / "trwmd", card="")
    chosen = ("semantic", "acceptability", str(tmp_path / "trwmd"))
    config = RomeConfig(
        **{**fields, "features": chosen},
        acceptability=str(tmp_path / "classifier"),
        scorer="new-paper",
        weights="uniform",
    )
    metric = RomeMetric.from_config(config)
    metric.take_part("acceptability", classifier)
    metric.take_part(chosen[2], tiny_metric(matching="trwmd"))
    folder = save_checkpoint(metric, tmp_path / "rome", card="")
    back = load_metric(folder)
    assert not back.wanted_classifiers
    assert not back.wanted_metrics
    expected = Scorer(metric.eval()).score(HYPOTHESES, REFERENCES).scores
    np.testing.assert_allclose(Scorer(back).score(HYPOTHESES, REFERENCES).scores, expected, atol=1e-6)


def test_a_classifier_that_is_nowhere_is_named():
    with pytest.raises(InputError, match="Expected a classifier's folder, or one of the released ones"):
        classifier_folder("nowhere")


# --- folders that name folders ----------------------------------------------------------------------------------------


@pytest.fixture
def named(fields, tmp_path):
    """A checkpoint of RoMe, by its name; the metrics or the classifier that it names are given."""

    def named(name, *metrics, **others):
        folder = save_checkpoint(
            RomeMetric.from_config(RomeConfig(**fields, weights="uniform")).eval(), tmp_path / name, card=""
        )
        entries = json.loads((folder / "config.json").read_text())
        entries["metric"] |= {"features": ["semantic", *(str(tmp_path / one) for one in metrics)], **others}
        (folder / "config.json").write_text(json.dumps(entries))
        return folder

    return named


@pytest.mark.parametrize("chain", ["a", "ab", "abc"])
def test_checkpoints_that_contain_themselves_are_refused(named, chain):
    folders = [named(one, other) for one, other in zip(chain, chain[1:] + chain[:1], strict=True)]
    with pytest.raises(InputError, match="Expected checkpoints that do not contain themselves") as caught:
        load_metric(folders[0])
    assert "\n" not in str(caught.value)


def test_a_classifier_on_a_metric_that_names_it_is_refused(named, classifier, tmp_path):
    folder = named("rome", acceptability=str(tmp_path / "classifier"), features=["semantic", "acceptability"])
    own = save_classifier(classifier, tmp_path / "classifier", card="")
    entries = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**entries, "metric": str(folder)}))
    with pytest.raises(InputError, match="Expected checkpoints that do not contain themselves"):
        load_metric(folder)


def test_checkpoints_inside_one_another_have_an_end(named):
    for one, other in zip("dcba", "edcb", strict=True):
        named(one, other)
    named("e")
    with pytest.raises(InputError, match="contain others more than 4 deep"):
        load_metric(named("a0", "a"))


def test_a_metric_called_like_an_entry_of_the_signature_changes_none(fields, tiny_metric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tiny_metric(), tmp_path / "encoder", card="")
    metric = load_metric("rome", **{**fields, "features": ("semantic", "encoder")}, scorer="mean", weights="uniform")
    entries = metric.signature.entries
    assert entries["encoder"].startswith("tiny@")
    assert len(entries["feature-encoder"]) == 8
