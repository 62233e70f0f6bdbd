"""Checkpoints that ``train`` goes on from: local files of tensors and plain values, whichever way they are named."""

import argparse
import pickle
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from labelled_runs import quiet_trainer
from pytorch_lightning.plugins.io import AsyncCheckpointIO

from runs import recipe, write_ratings, write_recipe
from textmover.checkpoints.lightning_checkpoints import write_run_checkpoint
from textmover.cli.main import main as textmover
from textmover.cli.training.train import main as train
from textmover.data import RatingsDataModule
from textmover.training import RatingsModule
from textmover.types import InputError


class Mark:
    """Would leave a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return open, (str(self.place), "w")


def lightning(**changes: object) -> dict[str, object]:
    """The outline of a checkpoint of Lightning."""
    version = {"pytorch-lightning_version": "2.6.0"}
    return {"epoch": 0, "global_step": 1, **version, "state_dict": {}, "loops": {}, **changes}


@pytest.fixture
def config(tmp_path: Path, tiny_encoder: Path) -> dict:
    return recipe(tmp_path, tiny_encoder, write_ratings(tmp_path / "ratings.tsv"), trainer__max_epochs=1)


@pytest.fixture
def refused(tmp_path: Path, complaint: Callable[..., str]) -> Callable[..., str]:
    """Runs a command that has to end with one sentence, without a file that unpickling would leave."""

    def refused(*arguments: object, **how: object) -> str:
        said = complaint(*arguments, **how)
        assert not (tmp_path / "mark").exists(), "code of the checkpoint ran"
        return said

    return refused


# --- ways to name a checkpoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which its files are served."""
    folder = tmp_path_factory.mktemp("served")
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def evil(request, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A checkpoint that would leave a mark, and what is said of it."""
    folder, address = served
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    torch.save(lightning(extra=Mark(tmp_path / "mark")), folder / "evil.ckpt")
    if getattr(request, "param", "local") == "http":
        return f"{address}/evil.ckpt", "but only local files are read"
    return str(folder / "evil.ckpt"), "runs code on"


DOORS = {
    "option": "fit --config plain.yaml --ckpt_path {path}",
    "abbreviation": "fit --config plain.yaml --ckpt_pat={path}",
    "recipe": "fit --config named.yaml",
    "second recipe": "fit --config plain.yaml --config second.yaml",
    "recipe before the command": "--config whole.yaml fit --config plain.yaml",
    "environment": "fit --config plain.yaml",
    "validate": "validate --config named.yaml",
    "validate by option": "validate --config plain.yaml --ckpt_path {path}",
}
"""Arguments by the way in which they name a checkpoint."""


@pytest.mark.parametrize(
    ("door", "evil"), [*((door, "local") for door in DOORS), ("option", "http")], indirect=["evil"]
)
def test_no_door_runs_code_of_a_checkpoint(tmp_path, config, refused, monkeypatch, evil, door):
    path, reason = evil
    monkeypatch.chdir(tmp_path)
    named = {"plain": config, "named": {**config, "ckpt_path": path}, "second": {"ckpt_path": path}}
    for name, content in {**named, "whole": {"fit": {"ckpt_path": path}}}.items():
        write_recipe(tmp_path / f"{name}.yaml", content)
    if door == "environment":
        monkeypatch.setenv("JSONARGPARSE_DEFAULT_ENV", "true")
        monkeypatch.setenv("PL_FIT__CKPT_PATH", path)
    said = refused(*DOORS[door].format(path=path).split())
    assert path in said
    assert (reason if door != "abbreviation" else "Expected known options") in said


@pytest.mark.parametrize("evil", ["local", "http"], indirect=True)
def test_no_search_or_export_runs_code_of_a_checkpoint(tmp_path, config, refused, evil):
    path, reason = evil
    said = refused("export", path, tmp_path / "out", main=textmover)
    assert path in said
    assert reason in said
    assert not (tmp_path / "out").exists()
    recipe = write_recipe(tmp_path / "named.yaml", {**config, "ckpt_path": path})
    space = write_recipe(tmp_path / "space.yaml", {"model.init_args.losses.mse": {"choices": [1.0, 2.0]}})
    asked = ("search", "--config", recipe, "--space", space, "--output", tmp_path / "found", "--trials", 1)
    assert reason in refused(*asked, main=textmover)


@pytest.mark.parametrize("call", ["fit", "fit behind a plugin", "validate", "load_from_checkpoint"])
def test_no_call_in_python_runs_code_of_a_checkpoint(tmp_path, tiny_encoder, evil, call):
    path, reason = evil
    module = RatingsModule(overrides={"encoder": str(tiny_encoder)}, bfloat16="no")
    data = RatingsDataModule([str(write_ratings(tmp_path / "ratings.tsv"))], held_back=0.25)
    plugins = [AsyncCheckpointIO()] if call == "fit behind a plugin" else None
    trainer = quiet_trainer(max_steps=1, default_root_dir=tmp_path, plugins=plugins)
    run = {
        "load_from_checkpoint": partial(RatingsModule.load_from_checkpoint, path),
        "fit": partial(trainer.fit, module, datamodule=data, ckpt_path=path),
        "validate": partial(trainer.validate, module, datamodule=data, ckpt_path=path),
    }[call.split()[0]]
    with pytest.raises(InputError, match=reason):
        run(weights_only=False)
    with pytest.raises(InputError, match="arguments of a data module, but got a checkpoint"):
        RatingsDataModule.load_from_checkpoint(path, weights_only=False)
    assert not (tmp_path / "mark").exists()


# --- files of other kinds ---------------------------------------------------------------------------------------------


KINDS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not a checkpoint"),
    "npz": lambda path: (np.savez(f"{path}.npz", weight=np.zeros(3)), Path(f"{path}.npz").rename(path)),
    "zip": lambda path: zipfile.ZipFile(path, "w").writestr("readme.txt", "text"),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"state_dict": {}})),
    "legacy": lambda path: torch.save(lightning(), path, _use_new_zipfile_serialization=False),
    "list": lambda path: torch.save([1, 2], path),
    "tensor": lambda path: torch.save(torch.zeros(2), path),
    "bare state": lambda path: torch.save({"weight": torch.zeros(2)}, path),
    "no version": lambda path: torch.save({"state_dict": {}, "textmover": {"start": "twmd", "config": {}}}, path),
    "old lightning": lambda path: torch.save(lightning(), path),
    "other project": lambda path: torch.save(lightning(hyper_parameters={"lr": 1}, textmover=None), path),
    "namespace": lambda path: torch.save(lightning(hparams=argparse.Namespace(lr=1)), path),
    "cut": lambda path: (torch.save(lightning(), path), path.write_bytes(path.read_bytes()[:-60])),
    "folder": Path.mkdir,
}
"""Writers of files that are no checkpoints of a run."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_one_sentence(tmp_path, config, refused, kind):
    path = tmp_path / "other.ckpt"
    KINDS[kind](path)
    file = write_recipe(tmp_path / "recipe.yaml", config)
    for command in ("fit", "validate") if kind in ("text", "folder", "bare state") else ():
        said = refused(command, "--config", file, "--ckpt_path", path)
        assert str(path) in said
        assert not (tmp_path / "checkpoints").exists()
    with pytest.raises(InputError, match=r"other\.ckpt"):
        RatingsModule.load_from_checkpoint(path)
    if kind not in ("folder", "no version"):  # what `export` asks for is less: weights and their configuration
        assert str(path) in refused("export", path, tmp_path / "out", main=textmover)


@pytest.mark.parametrize("word", ["best", "hpc", "registry:a/model", "s3://bucket/run.ckpt", "file:///run.ckpt"])
def test_words_that_name_no_file_are_one_sentence(tmp_path, config, refused, word):
    refused("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config), "--ckpt_path", word)


# --- damage, other data, and runs beside one another ------------------------------------------------------------------


def test_every_command_refuses_a_checkpoint_with_a_flipped_bit(tmp_path, fitted, refused):
    folder, config, _ = fitted
    damaged = bytearray((folder / "checkpoints" / "best.ckpt").read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path = tmp_path / "damaged.ckpt"
    path.write_bytes(damaged)
    file = write_recipe(tmp_path / "recipe.yaml", config)
    for command in ("fit", "validate"):
        assert "damaged.ckpt to have the checksum that training wrote" in refused(
            command, "--config", file, "--ckpt_path", path
        )
    out = tmp_path / "out"
    for command in (("export", path, out), ("export", folder / "metric", out, "--average", path)):
        assert "damaged.ckpt to have the checksum that training wrote" in refused(*command, main=textmover)
    assert not out.exists()


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`.*")
def test_another_batch_size_is_refused_unless_it_is_wanted(fitted, refused, tmp_path):
    folder, config, _ = fitted
    file = write_recipe(tmp_path / "recipe.yaml", {**config, "export": str(tmp_path / "metric")})
    changes = ("--data.init_args.batch_size", 4, "--trainer.default_root_dir", tmp_path, "--trainer.logger", "false")
    asked = ("fit", "--config", file, "--ckpt_path", folder / "checkpoints" / "resume.ckpt", *changes)
    assert "`ratings: batch_size` is 4 and was 8" in refused(*asked)
    more = ("--resume_other_data", "true", "--trainer.max_epochs", "4", "--trainer.callbacks", "[]")
    assert train([str(one) for one in (*asked, *more)]) == 0
    assert (tmp_path / "metric" / "config.json").is_file()


def test_relative_checkpoints_follow_the_root_of_each_run(tmp_path, config, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for callback in config["trainer"]["callbacks"]:
        callback["init_args"]["dirpath"] = "checkpoints"
    config["trainer"] |= {"default_root_dir": "runs/one", "logger": False, "limit_train_batches": 1}
    config["trainer"]["callbacks"][1]["init_args"]["every_n_train_steps"] = 1
    file = write_recipe(tmp_path / "recipe.yaml", {**config, "export": None})
    for root in ("runs/one", "runs/two"):
        assert train(["fit", "--config", str(file), "--trainer.default_root_dir", root]) == 0
        assert sorted(one.name for one in Path(root, "checkpoints").iterdir()) == ["best.ckpt", "resume.ckpt"]
    config["trainer"]["callbacks"][0]["init_args"]["dirpath"] = "runs/one/kept"  # below the root already
    assert train(["fit", "--config", str(write_recipe(file, {**config, "export": None}))]) == 0
    assert Path("runs/one/kept/best.ckpt").is_file()
    assert not Path("checkpoints").exists()


def test_no_run_exports_the_best_weights_of_another(tmp_path, config, refused, monkeypatch):
    """Two seeds beside one another, in one folder."""
    original = RatingsModule.on_train_end

    def on_train_end(self):
        other = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)
        write_run_checkpoint({**other, "global_step": 99}, tmp_path / "checkpoints" / "best.ckpt")
        return original(self)

    monkeypatch.setattr(RatingsModule, "on_train_end", on_train_end)
    config["trainer"]["limit_train_batches"] = 2
    said = refused("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config))
    assert "best.ckpt to hold weights of this run, but another run has overwritten it" in said
    assert not (tmp_path / "metric").exists()


@pytest.mark.parametrize("changes", [{"max_epochs": 0}, {"limit_train_batches": 0, "limit_val_batches": 0}])
def test_a_run_that_trains_nothing_exports_nothing(tmp_path, config, refused, changes):
    config["trainer"] |= {**changes, "callbacks": []}
    said = refused("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config))
    assert "Expected an optimiser step to change a weight, but none of 0 did" in said
    assert not (tmp_path / "metric").exists()
