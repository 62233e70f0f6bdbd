import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from textmover.checkpoints.encoder_state import name_weights
from textmover.scoring import Scorer, load_metric, save_checkpoint

TEXTS = (["a cat sat in the street", "she will sing"], ["the cat sat on a street", "he can not sing"])


def change_run(path, **changes):
    torch.save({**torch.load(path, weights_only=True), **changes}, path)


@pytest.fixture
def trained(save_run):
    """The checkpoint of a run that started from a preset, and the metric that it holds."""
    return save_run(layer=2, temperature=0.1)


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_the_folder_scores_as_the_run_did(run, trained, tmp_path):
    path, metric = trained
    ended = run("export", path, "an out/metric").silent()
    assert ended.out == (
        "Exported to an out/metric. Score with it:\n"
        "  textmover score -i hypotheses.txt references.txt --model 'an out/metric'\n"
    )
    exported, expected = Scorer.from_pretrained("an out/metric").score(*TEXTS), Scorer(metric.eval()).score(*TEXTS)
    np.testing.assert_array_equal(exported.scores, expected.scores)
    name_weights(metric)
    assert exported.signature.entries == {**expected.signature.entries, "encoder": metric.encoder_identity}
    folder = tmp_path / "an out" / "metric"
    assert {one.name for one in folder.iterdir()} == {"config.json", "model.safetensors", "README.md", "encoder"}
    card = (folder / "README.md").read_text()
    for part in ("`twmd`", f"{metric.signature}`", "run.ckpt", "step 9 (epoch 1)", "temperature: 0.1", "layer: 2"):
        assert part in card


def test_a_run_that_started_from_a_checkpoint_needs_no_other_encoder(run, save_run, tmp_path, tiny_encoder):
    begun = load_metric("twmd", encoder=str(tiny_encoder), calibrate=True)
    start = save_checkpoint(begun, tmp_path / "start", card="# card\n")
    config = json.loads((start / "config.json").read_text())
    config["metric"]["encoder"] = "an-encoder-that-is-gone"
    (start / "config.json").write_text(json.dumps(config))
    name, metric = save_run(start=start, temperature=0.2)
    assert run("export", name, "metric").code == 0
    np.testing.assert_array_equal(
        Scorer.from_pretrained("metric").score(*TEXTS).scores, Scorer(metric).score(*TEXTS).scores
    )


def test_a_fitted_mean_is_exported(run, save_run):
    name, metric = save_run(start="twmd-b")
    assert run("export", name, "metric").code == 0
    assert load_metric("metric").signature.entries["centering"] == metric.signature.entries["centering"]


def test_what_a_run_says_of_its_data_is_on_the_card(run, trained, tmp_path):
    path, _ = trained
    about = torch.load(path, weights_only=True)["textmover"]
    change_run(
        path, textmover={**about, "data": {"training files": "mine.csv", "items": "40"}, "notices": ["Made up."]}
    )
    assert run("export", path, "whole").code == 0
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "## Data\n\n* training files: mine.csv\n* items: 40\n\n## Configuration" in card
    assert "\n\n**Made up.**\n\nSignature" in card
    assert run("export", path, "half", "--untrained", 0.5).code == 0
    card = (tmp_path / "half" / "README.md").read_text()
    assert "**Made up.**\n\n### Data\n\n* training files: mine.csv" in card
    assert "from the card of `run.ckpt`" in card


def test_a_folder_is_replaced_on_request_only(run, refused, trained, tmp_path):
    (tmp_path / "metric").mkdir()
    (tmp_path / "metric" / "notes.txt").write_text("mine")
    said = refused("export", trained[0], "metric")
    assert "Expected metric to be new or empty" in said
    assert "--overwrite" in said
    assert (tmp_path / "metric" / "notes.txt").read_text() == "mine"
    assert "holds other files" in refused("export", trained[0], "metric", "--overwrite")
    assert (tmp_path / "metric" / "notes.txt").read_text() == "mine"
    (tmp_path / "metric" / "notes.txt").unlink()
    for _ in range(2):
        assert run("export", trained[0], "metric", "--overwrite").code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["metric", "run.ckpt"]


# --- back-ends --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_back_ends_are_written_measured_and_found(run, checkpoint, real_backends, tmp_path, monkeypatch):
    """A folder becomes one that brings the graphs of its back-ends along, under the hashes of its configuration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = run(
        "export", checkpoint, "out", "--backend", "openvino", "--precision", "exact", "--precision", "int8"
    ).silent()
    measured = ended.out.splitlines()[2:]
    start = "openvino {}: largest deviation from torch on 8 pairs: of a score "
    assert [line.startswith(start.format(one)) for line, one in zip(measured, ("exact", "int8"), strict=True)]
    folder = tmp_path / "out"
    record = json.loads((folder / "backends" / "openvino-exact" / "backend.json").read_text())
    assert f"of a score {record['deviation']:.1e}, of a hidden state {record['states']:.1e} of" in measured[0]
    assert record["deviation"] <= 1e-5
    assert "backends/openvino-int8/model.xml" in json.loads((folder / "config.json").read_text())["files"]
    assert (folder / "README.md").read_text() == (checkpoint / "README.md").read_text()
    scorer = Scorer.from_pretrained(folder, device="cpu", precision="int8", backend="openvino")
    assert scorer.metric.runnable_encoder.runner.folder == folder / "backends" / "openvino-int8"
    assert not (tmp_path / "cache").exists()


def test_a_preset_becomes_a_folder(run, tmp_path, embedded):
    run("export", "bertscore-f1", "out").silent()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "# The metric `bertscore-f1`" in card
    assert "from the preset `bertscore-f1`" in card
    exported = Scorer.from_pretrained("out", device="cpu").score(*TEXTS)
    expected = Scorer.from_pretrained("bertscore-f1", device="cpu").score(*TEXTS)
    np.testing.assert_array_equal(exported.scores, expected.scores)


# --- what is said of back-ends ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_preparation_is_said_once_and_damage_too(run, texts, checkpoint, real_backends, tmp_path, monkeypatch):
    """Both are warnings, so that `--quiet` leaves them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def score():
        given = ("--model", checkpoint, "--device", "cpu", "--backend", "openvino", "--quiet", "--format", "json")
        ended = run("score", "-i", *texts, *given).ok()
        assert "|backend:openvino-" in json.loads(ended.out)["signature"]
        return ended.err

    preparing = "Preparing backend openvino (exact) for this encoder, once: this takes about ten seconds"
    said = score()
    assert said.startswith(preparing)
    assert said.count("\n") == 1
    assert score() == ""
    (model,) = (tmp_path / "cache" / "textmover" / "backends").glob("*/openvino-*-exact/model.bin")
    model.write_bytes(bytes(model.stat().st_size))
    said = score().splitlines()
    assert said[0] == f"{model.parent} is made again, since its file model.bin does not hold what was written."
    assert said[1].startswith(preparing)
    assert len(said) == 2
    assert score() == ""


@pytest.mark.slow
def test_a_broken_package_is_said_and_torch_scores(texts, checkpoint, tmp_path):
    """As the process of a user, in which nothing has imported the real one."""
    stub = tmp_path / "stubs" / "openvino"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('libopenvino.so.9: cannot open shared object file')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(stub.parent), *sys.path])}
    command = [sys.executable, "-m", "textmover", "score", "-i", *map(str, texts), "--model", str(checkpoint)]
    command += ["--device", "cpu", "--quiet"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 4
    assert ended.stderr.startswith("Backend openvino is skipped for ")
    assert "libopenvino.so.9: cannot open shared object file: reinstall it" in ended.stderr
    assert ended.stderr.count("\n") == 1


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state_dict": None}, "holds no `state_dict`"),
        ({"textmover": None}, "its entry `textmover` names no metric"),
        ({"state_dict": {"rating_mean": torch.zeros(())}}, "none of its weights are under `metric.`"),
        ({"state_dict": {"metric.other": torch.zeros(())}}, "to fit its configuration"),
        ({"textmover": {"start": "./gone", "config": {}}}, "was trained from it"),
        ({"textmover": {"start": "twmd", "config": {"temprature": 1}}}, "did you mean `temperature`?"),
    ],
)
def test_a_checkpoint_without_its_metric(refused, trained, changes, message):
    path, _ = trained
    change_run(path, **changes)
    said = refused("export", path, "metric")
    assert message in said


def test_an_encoder_that_is_gone_lists_what_was_tried(refused, trained):
    path, metric = trained
    config = {**metric.config.to_dict(), "encoder": "no-such-encoder-here"}
    change_run(path, textmover={"start": "twmd", "config": config})
    assert "'no-such-encoder-here' was not found (no folder" in refused("export", path, "metric")


@pytest.mark.parametrize(
    ("start", "options"),
    [("preset", ()), ("checkpoint", ()), ("preset", ("--adapter", 4)), ("checkpoint", ("--untrained", 0.5))],
)
def test_a_run_of_an_encoder_that_was_replaced(refused, run, tmp_path, tiny_encoder, start, options):
    from textmover.training.modules import RatingsModule

    encoder, path = shutil.copytree(tiny_encoder, tmp_path / "encoder"), tmp_path / "run.ckpt"

    def replace():
        state = load_file(encoder / "model.safetensors")
        other = {name: one + 0.1 if one.is_floating_point() else one for name, one in state.items()}
        save_file(other, encoder / "model.safetensors", metadata={"format": "pt"})

    def begin():
        metric = load_metric("twmd", encoder=str(encoder))
        return (
            "twmd" if start == "preset" else str(save_checkpoint(metric, tmp_path / "start", card="", overwrite=True))
        )

    module = RatingsModule(begin(), overrides={"encoder": str(encoder)} if start == "preset" else None)
    content = {"state_dict": module.state_dict(), "epoch": 0, "global_step": 1}
    module.on_save_checkpoint(content)
    torch.save(content, path)
    assert run("export", path, "before", *options).code == 0
    replace()
    begin()  # the checkpoint that training started from is made again, over the other encoder
    said = refused("export", path, "metric", *options)
    assert content["textmover"]["encoder"]["base"]["sha256"] in said
    assert f"but those in {encoder} have" in said
    assert f"restore that encoder to export {path}" in said
    assert not (tmp_path / "metric").exists()
    del content["textmover"]["encoder"]  # as earlier versions wrote it
    torch.save(content, path)
    assert run("export", path, "metric", *options).code == 0
