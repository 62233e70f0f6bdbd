import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from runs import recipe, write_ratings, write_recipe
from textmover.cli.training.train import main as train
from textmover.training.reports.learning_curves import LearningCurves, _figure, smoothed
from textmover.types import InputError

RUNS = Path(__file__).parents[1] / "runs.py"


def arguments_of(folder: Path, encoder: Path, **changes) -> list[str]:
    config = recipe(folder, encoder, write_ratings(folder / "ratings.tsv"), export=None, **changes)
    options = {"folder": str(folder / "curves")}
    config["trainer"]["callbacks"].append(
        {"class_path": "textmover.training.reports.learning_curves.LearningCurves", "init_args": options}
    )
    return ["fit", "--config", str(write_recipe(folder / "recipe.yaml", config))]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def column(table: list[dict[str, str]], name: str) -> dict[int, float]:
    return {int(row["step"]): float(row[name]) for row in table if row[name]}


@pytest.mark.parametrize("accumulated", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_table_says_what_a_logger_was_told_and_the_picture_is_one(tmp_path, tiny_encoder, accumulated):
    changes = {"trainer__max_epochs": 2, "trainer__accumulate_grad_batches": accumulated}
    assert train(arguments_of(tmp_path, tiny_encoder, **changes)) == 0
    found = rows(tmp_path / "curves" / "curves.csv")
    logged = rows(next(tmp_path.glob("log/version_*/metrics.csv")))
    if accumulated == 1:  # the logger knows the last batch of a step alone
        losses = {int(row["step"]) + 1: float(row["train/loss"]) for row in logged if row["train/loss"]}
        assert column(found, "train/loss") == pytest.approx(losses, rel=1e-6)
    assert len(column(found, "train/loss")) == len(found)
    for name in ("pearson", "spearman", "kendall"):
        wanted = [float(row[f"held-back/{name}"]) for row in logged if row[f"held-back/{name}"]]
        assert len(wanted) == 2
        assert list(column(found, f"held-back/{name}").values()) == pytest.approx(wanted, rel=1e-6)
    encoder, head = (column(found, f"learning rate/{name}") for name in ("encoder", "head"))
    assert max(encoder.values()) == pytest.approx(2e-3, rel=0.2)
    assert max(head.values()) == pytest.approx(1e-3, rel=0.2)
    assert {row["epoch"] for row in found} == {"1", "2"}
    assert (tmp_path / "curves" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_accumulated_batches_give_the_mean_of_their_losses(tmp_path, tiny_encoder, monkeypatch):
    from textmover.training import RatingsModule

    said, original = [], RatingsModule.training_step

    def remember(self, batch, number):
        loss = original(self, batch, number)
        said.append((self.global_step + 1, loss.item()))
        return loss

    monkeypatch.setattr(RatingsModule, "training_step", remember)
    assert train(arguments_of(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__accumulate_grad_batches=3)) == 0
    steps = {step for step, _ in said}
    wanted = {step: np.mean([loss for of, loss in said if of == step]) for step in steps}
    assert max(sum(of == step for of, _ in said) for step in steps) == 3
    assert column(rows(tmp_path / "curves" / "curves.csv"), "train/loss") == pytest.approx(wanted, rel=1e-5)


def test_a_step_takes_the_mean_of_the_gradients_of_its_batches(tmp_path, tiny_encoder, monkeypatch):
    from textmover.training import RatingsModule

    gradients, compared, original = [], [], RatingsModule.training_step

    def remember(self, batch, number):
        loss = original(self, batch, number)
        weight = self.metric.encoder.model.encoder.layer[0].output.dense.weight
        gradients.append(torch.autograd.grad(loss, weight, retain_graph=True)[0])
        return loss

    def compare(self, optimizer):
        found = self.metric.encoder.model.encoder.layer[0].output.dense.weight.grad
        torch.testing.assert_close(found, torch.stack(gradients).sum(dim=0) / 3, rtol=1e-4, atol=1e-6)
        compared.append(len(gradients))
        gradients.clear()

    monkeypatch.setattr(RatingsModule, "training_step", remember)
    monkeypatch.setattr(RatingsModule, "on_before_optimizer_step", compare)
    assert train(arguments_of(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__accumulate_grad_batches=3)) == 0
    assert compared[0] == 3


@pytest.mark.long
def test_a_resumed_run_has_the_curves_of_an_unbroken_one(tmp_path, tiny_encoder):
    def run(folder: Path, step: int, *more: str) -> int:
        folder.mkdir(exist_ok=True)
        command = [sys.executable, str(RUNS), str(step), "SIGKILL", *arguments_of(folder, tiny_encoder), *more]
        return subprocess.run(command, check=False, capture_output=True, timeout=240).returncode

    assert run(tmp_path / "one", -1) == 0
    assert run(tmp_path / "two", 17) == -signal.SIGKILL
    assert not (tmp_path / "two" / "curves").exists()
    assert run(tmp_path / "two", -1, "--ckpt_path", str(tmp_path / "two" / "checkpoints" / "resume.ckpt")) == 0
    first, second = ((tmp_path / name / "curves" / "curves.csv").read_text() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize("end", [KeyboardInterrupt, pytest.param(ValueError, marks=pytest.mark.long)])
def test_what_there_is_is_written_when_a_run_breaks_off(tmp_path, tiny_encoder, monkeypatch, end):
    from textmover.training import RatingsModule

    original = RatingsModule.training_step

    def stop(self, batch, number):
        if self.global_step == 7:
            raise end
        return original(self, batch, number)

    monkeypatch.setattr(RatingsModule, "training_step", stop)
    if end is KeyboardInterrupt:
        before = signal.getsignal(signal.SIGINT)
        assert train(arguments_of(tmp_path, tiny_encoder)) == 130
        signal.signal(signal.SIGINT, before)
    else:
        with pytest.raises(end):
            train(arguments_of(tmp_path, tiny_encoder))
    assert list(column(rows(tmp_path / "curves" / "curves.csv"), "train/loss")) == list(range(1, 8))
    assert (tmp_path / "curves" / "curves.png").exists()


@pytest.mark.long
def test_the_folder_is_that_of_the_logger_or_the_root(tmp_path, tiny_encoder):
    arguments = arguments_of(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__limit_train_batches=2)
    text = (tmp_path / "recipe.yaml").read_text().replace(f"folder: {tmp_path / 'curves'}", "picture: false")
    (tmp_path / "recipe.yaml").write_text(text)
    assert train(arguments) == 0
    (table,) = tmp_path.rglob("curves.csv")
    assert table.parent == tmp_path / "log" / "version_0"
    assert train([*arguments, "--trainer.logger", "false"]) == 0
    assert (tmp_path / "curves.csv").exists()
    assert not list(tmp_path.rglob("curves.png"))


@pytest.mark.parametrize("lacking", ["matplotlib", "a folder"])
def test_curves_that_can_never_be_written_end_the_run_before_it_begins(
    tmp_path, tiny_encoder, monkeypatch, capsys, lacking
):
    if lacking == "matplotlib":
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        said = 'pip install "textmover[report]"'
    else:
        (tmp_path / "curves").write_text("a file")
        said = f"`folder` to be a folder, but got the file {tmp_path / 'curves'}"
    assert train(arguments_of(tmp_path, tiny_encoder)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "checkpoints" / "resume.ckpt").exists()


@pytest.mark.parametrize("installed", [True, False])
def test_a_picture_is_drawn_where_it_can_be(tmp_path, tiny_encoder, monkeypatch, capsys, installed):
    if not installed:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = arguments_of(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__limit_train_batches=2)
    text = (tmp_path / "recipe.yaml").read_text().replace("folder: ", "picture: auto\n      folder: ")
    (tmp_path / "recipe.yaml").write_text(text)
    assert train(arguments) == 0
    assert len(rows(tmp_path / "curves" / "curves.csv")) == 2
    assert (tmp_path / "curves" / "curves.png").exists() is installed
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Learning curves: a table and no")]
    assert len(said) == (not installed)
    assert all('pip install "textmover[report]"' in line for line in said)


def test_curves_that_cannot_be_written_lose_no_training(tmp_path, tiny_encoder, capsys, monkeypatch):
    def full(path):
        raise InputError(f"Expected to be able to write {path}, but got: No space left on device.")

    monkeypatch.setattr("textmover.training.reports.learning_curves.atomic_file", full)
    arguments = arguments_of(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__limit_train_batches=2)
    assert train([*arguments, "--export", str(tmp_path / "metric")]) == 0
    assert "The learning curves are not written. Expected to be able to write" in capsys.readouterr().err
    assert (tmp_path / "metric" / "config.json").exists()


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [1, 3, 20.5])
def test_the_moving_average_is_that_of_pandas(span):
    values = np.random.default_rng(0).normal(size=50)
    wanted = pd.Series(values).ewm(span=span, adjust=True).mean().to_numpy()
    assert smoothed(values.tolist(), span) == pytest.approx(wanted, rel=1e-12)


def test_the_state_survives_a_file_that_holds_no_pickle(tmp_path):
    curves = LearningCurves(picture=False)
    curves.values = {"train/loss": {1: 0.1, 2: float("nan")}, "held-back/pearson": {}}
    torch.save(curves.state_dict(), tmp_path / "state.pt")
    other = LearningCurves(picture=False)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert str(other.values) == str(curves.values)


def lines_of(values: dict[str, dict[int, float]], smoothing: float = 0.05) -> dict[str, list]:
    figure = _figure(values, smoothing)
    return {axes.get_title(): axes.get_lines() for axes in figure.axes if axes.get_visible()}


def test_a_panel_for_each_kind_with_units():
    values = {
        "train/a/loss": {1: 1.0, 2: 0.5, 4: 0.3, 5: 0.2},
        "train/b/loss": {3: 2.0},
        "a/held-back/pearson": {3: 0.4, 5: 0.6},
        "b/held-back/accuracy": {3: 0.4, 5: float("nan")},
        "learning rate/encoder": {1: 0.0, 5: 1e-4},
        "epoch": {1: 1, 5: 1},
    }
    figure = _figure(values, 0.5)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    kept = [f"{name} (kept from training)" for name in ("a/held-back", "b/held-back")]
    assert titles == ["training loss", *kept, "learning rate"]
    assert {axes.get_xlabel() for axes in figure.axes} == {"optimiser step"}
    raw, smooth, single = figure.axes[0].get_lines()
    assert raw.get_ydata().tolist() == [1.0, 0.5, 0.3, 0.2]
    assert smooth.get_ydata() == pytest.approx(smoothed([1.0, 0.5, 0.3, 0.2], 3))
    assert single.get_label() == "b"
    assert "pearson, best 0.600 at 5" in figure.axes[1].get_legend_handles_labels()[1]
    assert figure.axes[3].get_yscale() == "log"


def test_rates_of_many_layers_name_the_first_and_the_last():
    rates = {f"learning rate/encoder layer {layer}": {1: 1e-4, 2: 1e-5} for layer in range(12, -1, -1)}
    figure = _figure({**rates, "learning rate/head": {1: 1e-3, 2: 1e-4}}, 0.05)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["encoder layer 12", "encoder layer 0", "head"]
    assert len({line.get_color() for line in figure.axes[0].get_lines()}) == 14


def test_nothing_but_infinite_losses_can_be_drawn():
    assert lines_of({"train/loss": {1: float("inf"), 2: float("nan")}})["training loss"] == []


@pytest.mark.parametrize(
    ("option", "values", "expected"),
    [("smoothing", [-0.1, 1.5], "between 0 and 1"), ("picture", ["always", None, 1], "true, false or auto")],
)
def test_options_out_of_range(option, values, expected):
    for value in values:
        with pytest.raises(InputError, match=f"`{option}` to be {expected}"):
            LearningCurves(**{option: value})


def test_nothing_is_written_where_nothing_was_collected(tmp_path):
    curves = LearningCurves(str(tmp_path), picture=False)
    curves._place = tmp_path
    curves.write(None)
    assert os.listdir(tmp_path) == []
