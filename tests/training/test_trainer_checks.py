"""Trainers that the modules cannot work with are refused, in plain Lightning as on the command line."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import quiet_trainer, rated
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import AsyncCheckpointIO, TorchCheckpointIO

from runs import write_ratings
from textmover.checkpoints.lightning_checkpoints import checksum_of
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.trainer_checks import ResumeHint, check_moved, check_precision, chosen_accelerator
from textmover.types import InputError


def fit(folder: Path, encoder: Path, config: OptimizerConfig | None = None, **options: object) -> RatingsModule:
    module = RatingsModule(overrides={"encoder": str(encoder)}, bfloat16="no", optimizer=config or OptimizerConfig())
    data = rated(write_ratings(folder / "ratings.tsv", 40), held_back=0.4, validation_batch_size=4)
    quiet_trainer(**{"max_epochs": 1, "num_sanity_val_steps": 0, **options}).fit(module, datamodule=data)
    return module


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_a_precision_that_transport_is_wrong_in(tmp_path, tiny_encoder, precision):
    with pytest.raises(InputError, match=f"32-true or bf16-mixed, but got {precision}"):
        fit(tmp_path, tiny_encoder, precision=precision)


@pytest.mark.parametrize("precision", ["16-mixed", 16, "16", "16-true", 64, "transformer-engine"])
def test_precisions_that_are_refused(precision):
    with pytest.raises(InputError, match=f"but got {precision}"):
        check_precision(precision)


@pytest.mark.parametrize(("mac", "taken"), [(True, "cpu"), (False, "auto")])
def test_ratings_are_not_taken_to_a_device_without_float64(monkeypatch, mac, taken):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mac)
    assert [chosen_accelerator(named) for named in ("auto", "cpu", "gpu")] == [taken, "cpu", "gpu"]
    with pytest.raises(InputError, match="got mps, which has no float64"):
        chosen_accelerator("mps")


def test_samplers_of_lightning_are_refused_where_batches_are_shared(monkeypatch, tmp_path, tiny_encoder):
    assert fit(tmp_path, tiny_encoder, use_distributed_sampler=True).moved, "one process has no sampler"
    monkeypatch.setattr(pl.Trainer, "world_size", 2)
    with pytest.raises(InputError, match=r"use_distributed_sampler to be False with 2 processes, but got True: set it"):
        fit(tmp_path, tiny_encoder, use_distributed_sampler=True)


@pytest.mark.parametrize("limit", [1, 2, 0.5])
def test_parts_are_judged_as_a_whole(tmp_path, tiny_encoder, limit):
    with pytest.raises(InputError, match=rf"all of held-back, .*limit_val_batches is {limit} of \d+ batches"):
        fit(tmp_path, tiny_encoder, limit_val_batches=limit)


@pytest.mark.parametrize("options", [{"limit_val_batches": 0}, {"limit_val_batches": 9}, {"fast_dev_run": True}])
def test_limits_that_leave_all_or_nothing(tmp_path, tiny_encoder, options):
    assert fit(tmp_path, tiny_encoder, **options).moved


@pytest.mark.parametrize("steps", [1, 2])
def test_a_run_of_one_step_changes_weights(tmp_path, tiny_encoder, steps):
    """Accumulation above the number of batches leaves one step, which warm-up must not have at rate 0."""
    module = fit(tmp_path, tiny_encoder, OptimizerConfig(warmup=1.0), max_epochs=steps, accumulate_grad_batches=99)
    assert module.global_step == steps
    check_moved(module)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (OptimizerConfig(learning_rate=0.0, head_learning_rate=0.0), {}),
        (OptimizerConfig(), {"limit_train_batches": 0, "limit_val_batches": 0}),
        (OptimizerConfig(), {"max_steps": 0}),
    ],
)
def test_a_run_that_changes_nothing_is_known(tmp_path, tiny_encoder, config, options):
    module = fit(tmp_path, tiny_encoder, config, **options)
    with pytest.raises(InputError, match="Expected an optimiser step to change a weight, but none of"):
        check_moved(module)


class Own(TorchCheckpointIO):
    """A writer of one's own, which stays."""


@pytest.mark.parametrize("plugins", [[], [AsyncCheckpointIO()], [Own()]], ids=["none", "async", "own"])
def test_plain_lightning_writes_checkpoints_with_a_checksum(tmp_path, tiny_encoder, plugins):
    fit(tmp_path, tiny_encoder, enable_checkpointing=True, default_root_dir=tmp_path, plugins=plugins)
    (written,) = tmp_path.rglob("*.ckpt")
    assert (checksum_of(written) is None) is any(isinstance(one, Own) for one in plugins)
    assert torch.load(written, weights_only=True)["textmover"]["moved"]


@pytest.mark.parametrize("written", [["best"], ["best", "last"], ["resume", "best"], ["last", "weights"]])
def test_an_interruption_names_the_last_checkpoint_or_the_best(tmp_path, caplog, written):
    for number, name in enumerate(written):
        (tmp_path / f"{name}.ckpt").touch()
        os.utime(tmp_path / f"{name}.ckpt", (number, number))
    best = ModelCheckpoint(tmp_path, monitor="held-back/pearson", save_last=True)
    best.best_model_path, best.last_model_path = str(tmp_path / "best.ckpt"), str(tmp_path / "last.ckpt")
    resume, weights = ModelCheckpoint(tmp_path), ModelCheckpoint(tmp_path, save_weights_only=True)
    resume.best_model_path, weights.best_model_path = str(tmp_path / "resume.ckpt"), str(tmp_path / "weights.ckpt")
    trainer = SimpleNamespace(callbacks=[best, resume, weights], ckpt_path=None, global_step=7)
    caplog.set_level("INFO", logger="textmover")
    ResumeHint().on_exception(trainer, None, KeyboardInterrupt())
    wanted = next(name for name in ("last", "resume", "best") if name in written)
    assert caplog.text.strip().endswith(f"--ckpt_path {tmp_path / wanted}.ckpt")
