"""Where exported graphs are kept, and which of them are taken."""

import json
import logging
import pickle
import re
import shutil

import pytest
import torch

from textmover.scoring import Scorer, save_checkpoint
from textmover.scoring.backends import BackendError, artefacts, attach, names, preparation, prepare
from textmover.scoring.backends.artefacts import RECORD, cache_folder, encoder_hash
from textmover.types import InputError

TEXTS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]


@pytest.fixture
def made(tiny_metric, real_backends, tmp_path, monkeypatch, caplog):
    """An artefact in a cache of its own, and the metric that it is of."""
    metric = tiny_metric()
    attach(metric, "openvino", "exact")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shutil.copytree(real_backends / "textmover", tmp_path / "textmover")
    caplog.set_level(logging.INFO)
    caplog.clear()
    return cache_folder() / encoder_hash(metric.encoder)[:16] / "openvino-exact", metric


def change(folder, **entries):
    path = folder / RECORD
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("textmover")]


def test_the_record_says_what_it_is_and_how_far_it_deviates(made):
    folder, metric = made
    entries = json.loads((folder / RECORD).read_text())
    assert entries["format"] == artefacts.FORMAT
    assert entries["backend"] == "openvino"
    assert entries["version"] == names.version("openvino")
    assert entries["encoder"] == encoder_hash(metric.encoder)
    assert entries["layers"] == list(metric.encoder.layers)
    assert 0 <= entries["deviation"] <= 1e-5
    assert 0 < entries["states"] <= 1e-5


def test_it_is_made_once(made, caplog):
    folder, metric = made
    before = (folder / "model.xml").stat().st_mtime_ns
    attach(metric, "openvino", "exact")
    assert (folder / "model.xml").stat().st_mtime_ns == before
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"version": "2019.1"}, r"ignored, since it was made for another version \(2019.1\)"),
        ({"format": 99}, r"ignored, since it was made for another format \(99\)"),
        ({"encoder": "0" * 64}, "ignored, since it was made for another encoder"),
        ({"layers": [1]}, "ignored, since it was made for another layers"),
    ],
)
def test_one_of_another_kind_is_ignored(made, caplog, entries, message):
    folder, metric = made
    wanted = preparation._wanted(metric.encoder, "openvino", "exact")
    assert artefacts.find(folder, wanted) is not None
    change(folder, **entries)
    assert artefacts.find(folder, wanted) is None
    (line,) = said(caplog)
    assert re.search(message, line)


def test_one_of_another_version_is_made_anew(made, caplog):
    folder, metric = made
    change(folder, version="2019.1")
    attach(metric, "openvino", "exact")
    lines = said(caplog)
    assert "ignored" in lines[0]
    assert lines[1] == f"Preparing backend openvino (exact), once for this encoder; it is kept in {folder}."
    assert json.loads((folder / RECORD).read_text())["version"] == names.version("openvino")


def test_a_record_that_cannot_be_read_is_ignored(made, caplog):
    folder, metric = made
    (folder / RECORD).write_text("{")
    assert artefacts.find(folder, preparation._wanted(metric.encoder, "openvino", "exact")) is None
    assert "its record cannot be read" in said(caplog)[0]


def test_a_damaged_one_is_made_anew(made, caplog):
    folder, metric = made
    (folder / "model.xml").write_text("{")
    attach(metric, "openvino", "exact")
    assert "ignored" in said(caplog)[0]
    assert metric.encoder.runner is not None


def test_a_cache_that_cannot_be_written_is_said_and_does_without(tiny_metric, tmp_path, monkeypatch, caplog):
    (tmp_path / "textmover").write_text("a file where the cache's folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    metric = tiny_metric()
    attach(metric, "openvino", "exact")
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "cannot be kept, so it will be made anew in each process" in warning
    assert metric.encoder.runner is not None
    batch = metric.tokenize(TEXTS[0])
    with torch.inference_mode():
        again = pickle.loads(pickle.dumps(metric))
        torch.testing.assert_close(again.encoder(batch), metric.encoder(batch))


def test_relative_names_of_the_cache_do_not_count(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert cache_folder().is_absolute()


def test_a_pickle_whose_artefact_is_gone_says_so(made):
    folder, metric = made
    attach(metric, "openvino", "exact")
    pickled = pickle.dumps(metric.encoder.runner)
    shutil.rmtree(folder)
    with pytest.raises(BackendError, match="to hold a graph for OpenVINO"):
        pickle.loads(pickled)


def test_the_hash_is_of_weights_and_layers(tiny_metric):
    metric = tiny_metric()
    first = encoder_hash(metric.encoder)
    assert encoder_hash(tiny_metric(matching="bertscore").encoder) == first
    assert encoder_hash(tiny_metric(layer=2).encoder) != first
    with torch.no_grad():
        next(metric.encoder.parameters()).add_(1e-3)
    assert encoder_hash(metric.encoder) != first


def test_a_checkpoint_brings_its_artefact_along(tiny_metric, real_backends, tmp_path, monkeypatch, caplog):
    metric = tiny_metric()
    folder = save_checkpoint(
        metric, tmp_path / "metric", card="# card\n", add=lambda beside: prepare(metric, "openvino", "exact", beside)
    )
    files = json.loads((folder / "config.json").read_text())["files"]
    assert {"backends/openvino-exact/model.xml", "backends/openvino-exact/backend.json"} <= set(files)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with caplog.at_level(logging.INFO):
        scorer = Scorer.from_pretrained(folder, device="cpu")
    assert scorer.metric.encoder.runner.folder == folder / "backends" / "openvino-exact"
    assert not (tmp_path / "cache").exists()
    assert not [line for line in said(caplog) if "Preparing" in line]
    (folder / "backends" / "openvino-exact" / "model.xml").write_text("exchanged")
    with pytest.raises(InputError, match=r"model.xml to have the hash"):
        Scorer.from_pretrained(folder, device="cpu")
