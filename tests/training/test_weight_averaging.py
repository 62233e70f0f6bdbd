"""Averaged weights: the formula step by step, what validation, checkpoints and export see, and resuming."""

import math
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import over, quiet_trainer, rated
from safetensors.torch import load_file
from torch.utils.data import DataLoader

from runs import logged, recipe, write_ratings, write_recipe
from textmover.cli.training.train import main
from textmover.training import RatingsModule
from textmover.training.callbacks import WeightAverage
from textmover.types import InputError

pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed.*")

STEPS = 14


def run(folder: Path, encoder: Path, *arguments: str, **average: Any) -> dict[int, dict[str, Any]]:
    """The checkpoints of every step of a run by ``train.py``; with averaging if there are options for it."""
    folder.mkdir(exist_ok=True)
    config = recipe(
        folder, encoder, write_ratings(folder / "ratings.tsv", 64), trainer__max_steps=STEPS, trainer__max_epochs=-1
    )
    every = {"dirpath": str(folder / "steps"), "filename": "{step}", "every_n_train_steps": 1, "save_top_k": -1}
    config["trainer"]["callbacks"].append(
        {"class_path": "pytorch_lightning.callbacks.ModelCheckpoint", "init_args": every}
    )
    if average:
        config["trainer"]["callbacks"].append(
            {"class_path": "textmover.training.callbacks.WeightAverage", "init_args": average}
        )
    assert main(["fit", "--config", str(write_recipe(folder / "recipe.yaml", config)), *arguments]) == 0
    return {step: load(folder / "steps" / f"step={step}.ckpt") for step in range(1, STEPS + 1)}


def load(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> tuple[Path, dict[int, dict[str, Any]]]:
    """Folder and checkpoints of a run with an exponential moving average."""
    folder = tmp_path_factory.mktemp("averaged")
    return folder, run(folder, tiny_encoder, decay=0.8)


# --- a metric trained by a recipe -------------------------------------------------------------------------------------


def test_every_checkpoint_holds_the_average_of_the_steps_so_far(averaged):
    _, seen = averaged
    expected = {name: one.double() for name, one in seen[1]["current_model_state"].items()}
    for step, checkpoint in seen.items():
        current, average = checkpoint["current_model_state"], checkpoint["state_dict"]
        assert average.keys() == current.keys()
        for name, value in current.items():
            if not value.is_floating_point():
                assert torch.equal(average[name], value), name
                continue
            if step > 1:
                expected[name] = 0.8 * expected[name] + 0.2 * value.double()
            torch.testing.assert_close(average[name].double(), expected[name], rtol=1e-5, atol=1e-6, msg=name)
    moving = {name for name in current if not torch.equal(average[name], current[name])}
    assert "metric.centering.statistic.mean" in moving
    assert "metric.calibration.offset" in moving
    assert any("encoder" in name for name in moving)


def test_training_itself_goes_on_as_without(averaged, tmp_path, tiny_encoder):
    plain = run(tmp_path, tiny_encoder)[STEPS]["state_dict"]
    trained = averaged[1][STEPS]["current_model_state"]
    for name, value in plain.items():
        assert torch.equal(trained[name], value), name


def test_the_best_checkpoint_and_the_export_are_averages(averaged):
    folder, seen = averaged
    best = load(folder / "checkpoints" / "best.ckpt")
    average = seen[best["global_step"]]["state_dict"]
    for name, value in average.items():
        assert torch.equal(best["state_dict"][name], value), name
    exported = load_file(folder / "metric" / "model.safetensors")
    for name, value in exported.items():
        assert torch.equal(average[f"metric.{name}"], value), name


def test_validation_saw_the_average(averaged):
    folder, _ = averaged
    best = folder / "checkpoints" / "best.ckpt"
    seen = [float(row["held-back/pearson"]) for row in logged(folder, "0") if "held-back/pearson" in row]
    assert main(["validate", "--config", str(folder / "recipe.yaml"), "--ckpt_path", str(best)]) == 0
    (row,) = logged(folder, "1")
    assert float(row["held-back/pearson"]) == pytest.approx(max(seen), abs=1e-6)


@pytest.mark.parametrize(
    "broken_at", [pytest.param(4, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.long)]
)
def test_a_resumed_run_averages_as_an_unbroken_one(averaged, tmp_path, tiny_encoder, broken_at):
    folder, unbroken = averaged
    (tmp_path / "steps").mkdir()
    for step in range(1, broken_at + 1):
        source = folder / "steps" / f"step={step}.ckpt"
        (tmp_path / "steps" / source.name).write_bytes(source.read_bytes())
    path = tmp_path / "steps" / f"step={broken_at}.ckpt"
    resumed = run(tmp_path, tiny_encoder, "--ckpt_path", str(path), decay=0.8)
    for part in ("state_dict", "current_model_state", "averaging_state"):
        for name, value in unbroken[STEPS][part].items():
            assert torch.equal(resumed[STEPS][part][name], value), (part, name)


@pytest.mark.long
def test_the_plain_mean_of_the_second_half(tmp_path, tiny_encoder):
    seen = run(tmp_path, tiny_encoder, decay=None, start=0.5)
    for step, checkpoint in seen.items():
        states = [seen[one]["current_model_state"] for one in range(STEPS // 2 + 1, step + 1)]
        for name, value in checkpoint["state_dict"].items():
            if not states:
                assert torch.equal(value, checkpoint["current_model_state"][name]), name
            elif value.is_floating_point():
                mean = torch.stack([one[name].double() for one in states]).mean(dim=0)
                torch.testing.assert_close(value.double(), mean, rtol=1e-5, atol=1e-6)


# --- a module of one weight -------------------------------------------------------------------------------------------


class Walk(pl.LightningModule):
    """A weight that goes from 0 up by 1 at every step, a count of the steps, and what validation saw."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.validated: list[float] = []

    def training_step(self, *_: Any) -> torch.Tensor:
        self.count += 1
        return -self.weight

    def validation_step(self, *_: Any) -> None:
        self.validated.append(self.weight.item())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1.0)


class GrowsInSetup(Walk):
    def setup(self, stage: str) -> None:
        self.more = torch.nn.Linear(1, 1)


class GrowsLater(Walk):
    def on_fit_start(self) -> None:
        self.more = torch.nn.Linear(1, 1)


def trainer(average: WeightAverage, **options: Any) -> pl.Trainer:
    return quiet_trainer(**{"max_epochs": 2, "callbacks": [average], **options})


def batches(count: int) -> DataLoader:
    return DataLoader([torch.zeros(1)] * count, batch_size=1)


@pytest.mark.parametrize(
    ("options", "validated"),
    [
        ({"decay": 0.5}, [0.25 * 1 + 0.25 * 2 + 0.5 * 3, (0.25 * 1 + 0.25 * 2 + 0.5 * 3) / 8 + 4 / 8 + 5 / 4 + 6 / 2]),
        ({"decay": None}, [2.0, 3.5]),
        ({"decay": None, "start": 0.5}, [3.0, 5.0]),
        ({"decay": None, "start": 0.34}, [3.0, 4.5]),
        ({"decay": 0.0}, [3.0, 6.0]),
    ],
)
def test_validation_sees_the_average_as_soon_as_there_is_one(options, validated):
    module, average = Walk(), WeightAverage(**options)
    trainer(average, num_sanity_val_steps=1).fit(module, batches(3), batches(1))
    assert module.validated == pytest.approx([0.0, *validated])  # the first is the sanity check
    assert module.weight.item() == pytest.approx(validated[-1])
    assert module.count.item() == 6


class Calibrates(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def on_validation_epoch_end(self) -> None:
        self.scale.copy_(self.weight.detach())


@pytest.mark.parametrize(("after", "scale"), [(3, 2.0), (2, 1.5)])
def test_what_a_module_calibrates_in_validation_is_of_the_average(after, scale):
    """The trained weights were calibrated, and a step after validation averaged the scale with the old one."""
    module = Calibrates()
    average = WeightAverage(decay=None)
    trainer(average, max_epochs=1, val_check_interval=after).fit(module, batches(3), batches(1))
    assert (module.weight.item(), module.scale.item()) == (2.0, scale)


def test_accumulated_batches_are_one_step():
    module = Walk()
    trainer(WeightAverage(decay=None), max_epochs=1, accumulate_grad_batches=2).fit(module, batches(6), batches(1))
    assert module.weight.item() == 2.0  # the mean of 1, 2, 3


def test_after_a_fit_other_weights_are_validated_as_they_are():
    module, average = Walk(), WeightAverage(decay=None)
    fitted = trainer(average, num_sanity_val_steps=0)
    fitted.fit(module, batches(3), batches(1))
    module.load_state_dict({"weight": torch.tensor(-7.0), "count": torch.tensor(0)})
    fitted.validate(module, batches(1), verbose=False)
    assert module.validated[-1] == module.weight.item() == -7.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 1.0}, "`decay` to be at least 0 and below 1, but got 1.0"),
        ({"decay": math.nan}, "`decay` to be at least 0 and below 1, but got nan"),
        ({"start": 1.0}, "`start` to be at least 0 and below 1, but got 1.0"),
        ({"start": -0.1}, "`start` to be at least 0 and below 1, but got -0.1"),
    ],
)
def test_values_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        WeightAverage(**options)


def test_a_share_of_endless_steps_is_refused():
    with pytest.raises(InputError, match="set max_epochs or max_steps"):
        trainer(WeightAverage(start=0.5), max_epochs=-1).fit(Walk(), batches(3), batches(1))


def test_a_module_that_grows_when_training_starts_is_refused():
    with pytest.raises(InputError, match="module's `setup`"):
        trainer(WeightAverage()).fit(GrowsLater(), batches(3), batches(1))


def test_a_module_may_grow_in_its_setup():
    module = GrowsInSetup()
    trainer(WeightAverage(decay=None)).fit(module, batches(3), batches(1))
    assert module.weight.item() == 3.5


def test_a_second_fit_averages_afresh():
    average = WeightAverage(decay=None)
    trainer(average).fit(Walk(), batches(3), batches(1))
    module = Walk()
    trainer(average, max_epochs=1).fit(module, batches(3), batches(1))
    assert module.weight.item() == 2.0


def test_strategies_that_shard_weights_are_refused():
    from pytorch_lightning.strategies import FSDPStrategy

    sharded = trainer(WeightAverage())
    sharded._accelerator_connector.strategy = FSDPStrategy()
    with pytest.raises(InputError, match="but got FSDPStrategy: leave the callback out"):
        WeightAverage().setup(sharded, Walk(), "fit")


def test_targets_that_are_scores_of_other_metrics_are_not_averaged(tmp_path, tiny_encoder):
    """They are computed when training starts, so that the copy of the module has none."""
    module = over(tiny_encoder, RatingsModule, signals={"untrained": 0.5, "chrf": 0.5})
    ratings = rated(write_ratings(tmp_path / "ratings.tsv", 40))
    average = WeightAverage(decay=None)
    trainer(average, max_epochs=-1, max_steps=3).fit(module, datamodule=ratings)
    values = module.tasks["ratings"].signal_values
    assert values.shape == (len(ratings.segments), 2)
    assert values.mean(dim=0).abs().max() < 1e-5
    assert values.square().mean(dim=0).sub(1).abs().max() < 1e-5


def test_averaged_weights_are_not_resumed_without_the_callback(tmp_path, tiny_encoder):
    data, path = rated(write_ratings(tmp_path / "ratings.tsv", 60)), tmp_path / "run.ckpt"
    trainer = quiet_trainer(max_steps=2, limit_val_batches=0, callbacks=[WeightAverage(0.5)])
    trainer.fit(over(tiny_encoder, RatingsModule), data)
    trainer.save_checkpoint(path)

    def resume(*callbacks: pl.Callback) -> None:
        trainer = quiet_trainer(max_steps=3, limit_val_batches=0, callbacks=[*callbacks])
        trainer.fit(over(tiny_encoder, RatingsModule), data, ckpt_path=path, weights_only=True)

    resume(WeightAverage(0.5))
    with pytest.raises(InputError, match="Expected the callback WeightAverage, since the run of the checkpoint"):
        resume()
