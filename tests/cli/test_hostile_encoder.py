"""Python code in the folder of an encoder never runs, and nobody is asked whether it may."""

import io
import json
import shutil
import sys

import pytest
import yaml

from textmover import Scorer
from textmover.modules.encoder.source import file_sha256
from textmover.modules.word_neighbours import load_neighbours
from textmover.scoring import load_metric, save_checkpoint
from textmover.types import InputError

CODE = """
import pathlib
pathlib.Path({mark!r}).touch()
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
class HostileConfig(BertConfig):
    model_type = "hostile"
class HostileModel(BertModel):
    config_class = HostileConfig
class HostileTokenizer(PreTrainedTokenizerFast):
    pass
"""
REASON = "it needs Python code of its own, which never runs"
ROME = {"parser": "none", "weights": "uniform", "features": ["semantic"], "scorer": "mean"}


@pytest.fixture
def mark(tmp_path):
    """The file that hostile code would write."""
    return tmp_path / "ran"


@pytest.fixture
def infect(mark):
    """Gives the folder of an encoder a type, a configuration and a tokenizer of its own, in Python."""

    def infect(folder, **entries):
        (folder / "hostile.py").write_text(CODE.format(mark=str(mark)))
        classes = {"AutoConfig": "hostile.HostileConfig", "AutoModel": "hostile.HostileModel"}
        tokenizer = {"AutoTokenizer": [None, "hostile.HostileTokenizer"]}
        for name, new in (
            ("config.json", {"model_type": "hostile", "auto_map": classes, **entries}),
            ("tokenizer_config.json", {"tokenizer_class": "HostileTokenizer", "auto_map": tokenizer}),
        ):
            path = folder / name
            path.write_text(json.dumps({**json.loads(path.read_text()), **new}))
        return folder

    return infect


@pytest.fixture
def encoder(tmp_path, tiny_encoder, infect):
    return infect(shutil.copytree(tiny_encoder, tmp_path / "hostile"))


@pytest.fixture
def checkpoint(tmp_path, tiny_encoder, infect):
    """A metric whose encoder needs code, with hashes that fit."""
    folder = save_checkpoint(load_metric("twmd", encoder=str(tiny_encoder)), tmp_path / "metric", card="")
    infect(folder / "encoder")
    entries = json.loads((folder / "config.json").read_text())
    entries["files"] = {name: file_sha256(folder / name) for name in entries["files"]}
    (folder / "config.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture
def recipe(tmp_path, encoder, load_script):
    runs = load_script("tests/training/runs.py")
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(runs.recipe(tmp_path, encoder, runs.write_ratings(tmp_path / "ratings.tsv"))))
    return path


COMMANDS = {
    "--encoder": "score -i texts texts --encoder {encoder}",
    "--model": "score -i texts texts --model {checkpoint}",
    "standard input": "score -i - texts --encoder {encoder}",
    "explain": "explain yes yes --encoder {encoder}",
    "analyse-layers": "analyse-layers --data - --encoder {encoder}",
    "train": "train fit --config {recipe}",
    "export": "export {checkpoint} out",
    "RoMe's features": "score -i texts texts --model rome --features semantic,{checkpoint} --parser none --scorer mean",
    "perturb": "perturb -i texts --neighbours {encoder}",
}


@pytest.mark.parametrize("door", COMMANDS)
def test_no_command_runs_it_or_asks(run, request, tmp_path, mark, monkeypatch, door):
    names = [one for one in ("encoder", "checkpoint", "recipe") if f"{{{one}}}" in COMMANDS[door]]
    words = COMMANDS[door].format(**{one: request.getfixturevalue(one) for one in names}).split()
    (tmp_path / "texts").write_text("y\nyes\n1\n" * 14)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\nyes\n1\n" * 14)))
    ended = run(*words)
    assert not mark.exists()
    assert ended.code == 2, ended
    assert REASON in ended.err
    assert "[y/N]" not in ended.out + ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "load",
    [
        lambda encoder: Scorer.from_pretrained("twmd", encoder=str(encoder)),
        lambda encoder: Scorer.from_pretrained("rome", encoder=str(encoder), **ROME),
        lambda encoder: load_neighbours(str(encoder)),
    ],
)
def test_python_refuses_it(encoder, mark, monkeypatch, load):
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n" * 9))
    with pytest.raises(InputError, match=REASON):
        load(encoder)
    assert not mark.exists()


def test_a_known_type_is_read_without_its_code(tmp_path, tiny_encoder, infect, mark):
    folder = infect(shutil.copytree(tiny_encoder, tmp_path / "known"), model_type="bert")
    scored = [
        Scorer.from_pretrained("twmd", encoder=str(one)).score("a cat", "the dog") for one in (folder, tiny_encoder)
    ]
    assert scored[0].scores.tolist() == scored[1].scores.tolist()
    assert not mark.exists()
