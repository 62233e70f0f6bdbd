import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from runs import recipe, write_ratings, write_recipe
from safetensors.torch import load_file, save_file

from textmover.data import RatingsDataModule
from textmover.training import OptimizerConfig, RandomState, RatingsModule
from textmover.types import InputError

RUNS = Path(__file__).with_name("runs.py")


@pytest.fixture(scope="module")
def run(programs: Path):
    """Run a training that a signal may end at a step."""

    def run(step: int, *arguments: str, by: str = "SIGKILL") -> subprocess.CompletedProcess[str]:
        command = [programs / "python", RUNS, str(step), by, "fit", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    return run


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / "resume.ckpt", weights_only=True)["state_dict"]


def arguments_of(folder: Path, encoder: Path) -> list[str]:
    """A run of 35 steps: eleven or twelve to an epoch, a checkpoint every five, dropout on."""
    ratings = write_ratings(folder / "ratings.tsv")
    config = recipe(folder, encoder, ratings, trainer__max_steps=35, trainer__max_epochs=-1, export=None)
    return ["--config", str(write_recipe(folder / "recipe.yaml", config))]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, run) -> dict[str, torch.Tensor]:
    """Weights of a run that nothing stops."""
    folder = tmp_path_factory.mktemp("unbroken")
    finished = run(-1, *arguments_of(folder, tiny_encoder))
    assert finished.returncode == 0, finished.stderr
    return weights(folder)


@pytest.mark.xdist_group("one unbroken run")
@pytest.mark.parametrize(
    "killed_at",
    [pytest.param(8, marks=pytest.mark.slow), *(pytest.param(step, marks=pytest.mark.long) for step in (17, 23))],
)
def test_a_run_killed_in_the_middle_of_an_epoch_and_resumed_ends_with_the_weights_of_an_unbroken_one(
    tmp_path: Path, tiny_encoder: Path, run, unbroken: dict[str, torch.Tensor], killed_at: int
) -> None:
    arguments = arguments_of(tmp_path, tiny_encoder)
    broken = run(killed_at, *arguments)
    assert broken.returncode == -signal.SIGKILL, broken.stderr
    resume = tmp_path / "checkpoints" / "resume.ckpt"
    assert torch.load(resume, weights_only=True)["global_step"] == killed_at // 5 * 5
    finished = run(-1, *arguments, "--ckpt_path", str(resume))
    assert finished.returncode == 0, finished.stderr
    resumed = weights(tmp_path)
    assert unbroken.keys() == resumed.keys()
    for name, tensor in unbroken.items():
        assert torch.equal(tensor, resumed[name]), name


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, tiny_encoder: Path, run, sent: str, code: int) -> None:
    config = recipe(tmp_path, tiny_encoder, write_ratings(tmp_path / "ratings.tsv"))
    ended = run(8, "--config", str(write_recipe(tmp_path / "recipe.yaml", config)), by=sent)
    assert ended.returncode == code, ended.stderr
    assert f"--ckpt_path {tmp_path / 'checkpoints' / 'resume.ckpt'}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "metric").exists()


class Rates(pl.Callback):
    """Keeps the settings of all groups at every step, and may write a checkpoint after one."""

    def __init__(self, keep: Path | None = None, at: int = 4) -> None:
        self.seen: list[list[tuple[float, float, float]]] = []
        self.keep, self.at = keep, at

    def on_train_batch_start(self, trainer: pl.Trainer, *_: object) -> None:
        groups = trainer.optimizers[0].param_groups
        self.seen.append([(one["lr"], one["weight_decay"], one["betas"][0]) for one in groups])

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if self.keep is not None and trainer.global_step == self.at:
            trainer.save_checkpoint(self.keep)


def fit(folder: Path, encoder: Path, watch: Rates, config: OptimizerConfig, path: Path | None = None) -> None:
    """Eight steps, or those that a checkpoint has left of them."""
    pl.seed_everything(0, verbose=False)
    overrides = {"encoder": str(encoder), "temperature": 0.1}
    module = RatingsModule(overrides=overrides, bfloat16="no", optimizer=config)
    data = RatingsDataModule([str(write_ratings(folder / "ratings.tsv", 60))], held_back=0.25, batch_size=8)
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=8, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False, limit_val_batches=0,
        callbacks=[RandomState(), watch],
    )  # fmt: skip
    trainer.fit(module, datamodule=data, ckpt_path=path, weights_only=True)


def test_a_resumed_run_takes_the_rates_of_its_own_recipe(tmp_path: Path, tiny_encoder: Path) -> None:
    fast = OptimizerConfig(learning_rate=1e-3, head_learning_rate=1e-2, weight_decay=0.5, beta1=0.8, layer_decay=0.5)
    slow = OptimizerConfig(learning_rate=1e-6, head_learning_rate=1e-5, beta1=0.7, layer_decay=0.9, schedule="cosine")
    first, same, other, whole = Rates(tmp_path / "four.ckpt"), Rates(), Rates(), Rates()
    fit(tmp_path, tiny_encoder, first, fast)
    fit(tmp_path, tiny_encoder, same, fast, tmp_path / "four.ckpt")
    assert same.seen == first.seen[4:]
    fit(tmp_path, tiny_encoder, other, slow, tmp_path / "four.ckpt")
    fit(tmp_path, tiny_encoder, whole, slow)
    assert other.seen == whole.seen[4:]
    assert other.seen != first.seen[4:]


def test_a_checkpoint_of_layers_at_one_rate_is_no_start_for_rates_by_layer(tmp_path: Path, tiny_encoder: Path) -> None:
    alike, apart = OptimizerConfig(), OptimizerConfig(thaw=0.1)
    fit(tmp_path, tiny_encoder, Rates(tmp_path / "four.ckpt"), alike)
    with pytest.raises(InputError, match="as this recipe does, but it trains all layers at one rate"):
        fit(tmp_path, tiny_encoder, Rates(), apart, tmp_path / "four.ckpt")


# --- another encoder under the same name ------------------------------------------------------------------------------


@pytest.fixture
def replaced(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A folder whose encoder a run was trained from, to ``four.ckpt``; other weights of these shapes lie there now."""
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    fit(tmp_path, encoder, Rates(tmp_path / "four.ckpt"), OptimizerConfig())
    state = load_file(encoder / "model.safetensors")
    other = {name: one + 0.1 if one.is_floating_point() else one for name, one in state.items()}
    save_file(other, encoder / "model.safetensors", metadata={"format": "pt"})
    return encoder


def without_encoder(path: Path) -> None:
    """The checkpoint as earlier versions wrote it."""
    content = torch.load(path, weights_only=True)
    del content["textmover"]["encoder"]
    torch.save(content, path)


def test_no_run_goes_on_over_other_weights_in_the_place_of_its_encoder(tmp_path: Path, replaced: Path) -> None:
    there = torch.load(tmp_path / "four.ckpt", weights_only=True)["textmover"]["encoder"]["base"]["sha256"]
    with pytest.raises(InputError, match=f"to have weights of the hash {there}, but those in {replaced} have .*start"):
        fit(tmp_path, replaced, Rates(), OptimizerConfig(), tmp_path / "four.ckpt")


def test_no_run_goes_on_over_another_tokenizer(tmp_path: Path, tiny_encoder: Path) -> None:
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    fit(tmp_path, encoder, Rates(tmp_path / "four.ckpt"), OptimizerConfig())
    path = encoder / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(InputError, match=f"to have a tokenizer of the hash .* but that in {encoder} has"):
        fit(tmp_path, encoder, Rates(), OptimizerConfig(), tmp_path / "four.ckpt")


def test_a_run_of_an_earlier_version_goes_on_whatever_its_encoder_is(tmp_path: Path, replaced: Path) -> None:
    without_encoder(tmp_path / "four.ckpt")
    watch = Rates()
    fit(tmp_path, replaced, watch, OptimizerConfig(), tmp_path / "four.ckpt")
    assert len(watch.seen) == 4


@pytest.mark.parametrize(
    ("field", "size", "told"), [("intermediate_size", 96, "size mismatch"), ("num_hidden_layers", 2, "key")]
)
def test_weights_of_another_shape_are_one_sentence(
    tmp_path: Path, tiny_encoder: Path, field: str, size: int, told: str
) -> None:
    from transformers import BertConfig, BertModel

    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    fit(tmp_path, encoder, Rates(tmp_path / "four.ckpt"), OptimizerConfig())
    without_encoder(tmp_path / "four.ckpt")
    config = json.loads((encoder / "config.json").read_text())
    BertModel(BertConfig(**{**config, field: size})).save_pretrained(encoder)
    with pytest.raises(InputError, match=f"but got: .*{told}.*put back the encoder that it was trained from") as caught:
        fit(tmp_path, encoder, Rates(), OptimizerConfig(), tmp_path / "four.ckpt")
    assert "\n" not in str(caught.value)


def test_nothing_is_hashed_for_a_checkpoint(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = RatingsModule(overrides={"encoder": str(tiny_encoder)})
    for place in ("base_encoder", "encoder_source"):
        monkeypatch.setattr(f"textmover.modules.{place}.file_sha256", None)
    content = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(content)
    module.on_load_checkpoint(content)
    assert len(content["textmover"]["encoder"]["base"]["sha256"]) == 64


def test_dropout_is_on_in_training(tiny_encoder: Path) -> None:
    from textmover.presets import build_metric, preset_config

    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder)))
    metric.train()
    tokens = metric.tokenize(["the old dog ran"])
    assert not torch.equal(metric.token_vectors(tokens), metric.token_vectors(tokens))
