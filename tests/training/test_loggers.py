"""Loggers and stopping by configuration, and runs whose numbers are none."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from runs import logged, recipe, write_ratings, write_recipe
from textmover.cli.training.train import main as train
from textmover.data import RatingsDataModule
from textmover.data.training_sources import RatedSource
from textmover.training import RatingsModule
from textmover.training.trainer_checks import not_finite
from textmover.types import Segment


def run(folder: Path, encoder: Path, *arguments: str, more: list | None = None, **changes) -> int:
    config = recipe(folder, encoder, write_ratings(folder / "ratings.tsv"), **{"export": None, **changes})
    config["trainer"]["callbacks"] += more or []
    return train(["fit", "--config", str(write_recipe(folder / "recipe.yaml", config)), *arguments])


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("textmover: ")]
    assert len(lines) == 1, lines
    return lines[0]


# --- loggers and stopping ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wandb_offline_keeps_the_same_and_reaches_for_no_network(tmp_path, tiny_encoder, monkeypatch):
    pytest.importorskip("wandb", reason="needs wandb: pip install 'textmover[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    options = {"save_dir": str(tmp_path), "project": "textmover", "offline": True}
    logger = {"class_path": "pytorch_lightning.loggers.WandbLogger", "init_args": options}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WANDB_API_KEY", raising=False)
        assert run(tmp_path, tiny_encoder, trainer__max_epochs=1, trainer__logger=logger) == 0
    import wandb

    wandb.teardown()  # ``finish`` comes back before all is on disk
    (kept,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    written = kept.read_bytes()
    for name in (b"train/loss", b"held-back/pearson", b"held-back/kendall"):
        assert name in written


@pytest.mark.parametrize(("least", "epochs"), [(10.0, 3), pytest.param(-10.0, 6, marks=pytest.mark.long)])
def test_early_stopping_on_kendall_stops_where_nothing_is_gained(tmp_path, tiny_encoder, least, epochs):
    """No correlation grows by ten, so that patience ends it; by minus ten each one does."""
    options = {"monitor": "held-back/kendall", "mode": "max", "patience": 2, "min_delta": least}
    stopping = {"class_path": "pytorch_lightning.callbacks.EarlyStopping", "init_args": options}
    assert run(tmp_path, tiny_encoder, more=[stopping], trainer__max_epochs=6, trainer__limit_train_batches=3) == 0
    assert sum("held-back/kendall" in row for row in logged(tmp_path)) == epochs


@pytest.mark.filterwarnings("ignore:.*could not find the monitored key.*")  # by ModelCheckpoint
@pytest.mark.parametrize("looks_after_validation", [pytest.param(True, marks=pytest.mark.long), False])
def test_early_stopping_in_a_run_that_ends_before_its_first_validation(
    tmp_path, tiny_encoder, capsys, looks_after_validation
):
    options = {"monitor": "held-back/kendall", "mode": "max"}
    options |= {"check_on_train_epoch_end": False} if looks_after_validation else {}
    stopping = {"class_path": "pytorch_lightning.callbacks.EarlyStopping", "init_args": options}
    code = run(tmp_path, tiny_encoder, more=[stopping], trainer__max_steps=3, export=str(tmp_path / "metric"))
    assert code == (0 if looks_after_validation else 2)
    assert (tmp_path / "metric").exists() is looks_after_validation
    if not looks_after_validation:
        message = complaint(capsys)
        for words in ("`monitor` of EarlyStopping", "(train/loss", "got 'held-back/kendall'", "before the first valid"):
            assert words in message


@pytest.mark.long
def test_a_misspelt_monitor_of_early_stopping_is_told_with_what_there_is(tmp_path, tiny_encoder, capsys):
    options = {"monitor": "held-back/kendal", "mode": "max", "check_on_train_epoch_end": False}
    stopping = {"class_path": "pytorch_lightning.callbacks.EarlyStopping", "init_args": options}
    assert run(tmp_path, tiny_encoder, more=[stopping], trainer__max_epochs=1) == 2
    message = complaint(capsys)
    assert "held-back/kendall" in message
    assert "but got 'held-back/kendal'" in message


# --- numbers that are none --------------------------------------------------------------------------------------------


@pytest.fixture
def broken_at(monkeypatch: pytest.MonkeyPatch):
    """Has the loss times a factor from a step on, where the factor's gradient may be infinite though it is not."""

    def install(step: int, change) -> None:
        original = RatingsModule.build_task

        def build(self, source):
            task = original(self, source)
            loss = task.loss
            task.loss = lambda metric, batch: (
                change(loss(metric, batch)) if self.global_step == step else loss(metric, batch)
            )
            return task

        monkeypatch.setattr(RatingsModule, "build_task", build)

    return install


class InfiniteGradient(torch.autograd.Function):
    """The identity, whose gradient is infinite."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * math.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda loss: loss * math.nan, "a finite loss, but got nan at step 8"),
        pytest.param(
            lambda loss: loss + math.inf, "a finite loss, but got inf at step 8", marks=pytest.mark.long, id="inf"
        ),
        (InfiniteGradient.apply, "a gradient of finite norm, but got"),
    ],
)
def test_numbers_that_are_none_stop_the_run_and_name_the_batch_and_the_checkpoint(
    tmp_path, tiny_encoder, broken_at, monkeypatch, capsys, change, said
):
    whole = RatingsModule.build_task
    broken_at(8, change)
    assert run(tmp_path, tiny_encoder) == 2
    message = complaint(capsys)
    assert said in message
    assert "at step 8 (ratings: items [" in message
    quoted = re.search(r"of the training part, the first of them '([^']+)' and '([^']+)'\):", message)
    hypotheses = [line.split("\t")[2] for line in (tmp_path / "ratings.tsv").read_text().splitlines()[1:]]
    assert set(quoted.groups()) <= set(hypotheses), "whoever reads it finds the lines"
    resume = tmp_path / "checkpoints" / "resume.ckpt"
    assert message.endswith(f"the last good checkpoint, or an earlier one, or start again: --ckpt_path {resume}")
    kept = torch.load(resume, weights_only=True)
    assert kept["global_step"] == 5
    assert all(value.isfinite().all() for value in kept["state_dict"].values() if value.is_floating_point())
    if said.startswith("a finite loss, but got nan"):  # the run goes on from the checkpoint that was named
        monkeypatch.setattr(RatingsModule, "build_task", whole)
        assert run(tmp_path, tiny_encoder, "--ckpt_path", message.rsplit(" ", 1)[1]) == 0
        assert torch.load(resume, weights_only=True)["global_step"] > 8


def test_long_texts_of_a_batch_are_cut_and_control_characters_escaped(tiny_encoder):
    trained = RatingsModule(overrides={"encoder": str(tiny_encoder)})
    items = [Segment("long " * 30, ("r",), score=1.0), Segment("two\nlines", ("r",), score=2.0)]
    source = RatedSource("mine", items, {})
    trained.trainer = SimpleNamespace(datamodule=RatingsDataModule(["x.tsv"]), global_step=4)
    trained.data.sources = {"mine": source}
    for places, told in (([1, 0, 1], f"'two\\nlines' and '{('long ' * 12)}…'"), ([1], "'two\\nlines'")):
        trained._batch = source.collate([items[at] for at in places], places, len(places), trained.metric.tokenize)
        said = str(not_finite(trained, "a finite loss"))
        assert said == (
            f"Expected a finite loss at step 4 (mine: items {places} of the training part, the first of them {told}): "
            "lower the learning rate."
        )


def test_before_the_first_checkpoint_none_is_named(tmp_path, tiny_encoder, broken_at, capsys):
    broken_at(2, lambda loss: loss * math.nan)
    assert run(tmp_path, tiny_encoder) == 2
    message = complaint(capsys)
    assert "ckpt_path" not in message
    assert "at step 2" in message


def test_weights_that_are_none_do_not_replace_the_checkpoint(tmp_path, tiny_encoder, broken_at, capsys):
    """Without clipping nobody looks at the gradient, so that a step ruins the weights; step 10 would have kept them."""
    broken_at(9, InfiniteGradient.apply)
    assert run(tmp_path, tiny_encoder, "--model.init_args.gradient_clip", "null") == 2
    message = complaint(capsys)
    assert "finite weights, but got NaN" in message
    kept = torch.load(tmp_path / "checkpoints" / "resume.ckpt", weights_only=True)
    assert kept["global_step"] == 5
