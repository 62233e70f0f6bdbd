"""A checkpoint gives back its module with plain Lightning, whatever it was trained on."""

import shutil
from pathlib import Path

import pytest
import torch
from labelled_runs import fit, pairs, paraphrases, quiet_trainer, rated, write_pairs, write_paraphrases

from runs import write_ratings
from textmover import Scorer
from textmover.checkpoints.lightning_checkpoints import read_run_checkpoint
from textmover.data import LabelsDataModule, MixtureDataModule, ParaphrasesDataModule, RatingsDataModule
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import save_checkpoint
from textmover.training import (
    ClassificationModule,
    LoraConfig,
    MultiTaskModule,
    OptimizerConfig,
    RatingsModule,
    TaskOptions,
)
from textmover.types import InputError

TEXTS = ["old red cat sat", "on mat big"], ["young green dog ran", "on mat small"]
FAST = OptimizerConfig(learning_rate=2e-3, head_learning_rate=1e-2, layer_decay=0.9)


def ratings(folder: Path, **options) -> RatingsDataModule:
    return rated(write_ratings(folder / "ratings.tsv", 60), **options)


def labels(folder: Path) -> LabelsDataModule:
    return pairs(write_pairs(folder / "pairs.tsv", 40), batch_size=8)


def same(folder: Path) -> ParaphrasesDataModule:
    return paraphrases(write_paraphrases(folder / "same.tsv", 60))


def runs(folder: Path, encoder: Path) -> dict[str, tuple]:
    """Modules and their data by the kind of training."""
    overrides = {"encoder": str(encoder), "temperature": 0.1, "centering": "corpus"}
    common = {"overrides": overrides, "bfloat16": "no", "optimizer": FAST}
    rome = RomeConfig(encoder=str(encoder), parser="none", features=("semantic", "chrf"), scorer="new-monotone")
    start = folder / "start"
    options = {"people": TaskOptions(weight=0.5, losses={"mse": 2.0}), "nli": TaskOptions(hidden=4)}
    mixture = MixtureDataModule({"people": ratings(folder), "nli": labels(folder), "same": same(folder)})
    return {
        "ratings": lambda: (RatingsModule(**common, losses={"mse": 1.0}), ratings(folder)),
        "low rank": lambda: (RatingsModule(**common, lora=LoraConfig(rank=2)), ratings(folder)),
        "labels": lambda: (ClassificationModule(**common, hidden=4, class_weights="balanced"), labels(folder)),
        "paraphrases": lambda: (MultiTaskModule(**common), same(folder)),
        "all kinds": lambda: (MultiTaskModule(**common, tasks=options), mixture),
        "rome": lambda: (
            RatingsModule(str(save_checkpoint(RomeMetric.from_config(rome), start, card="")), bfloat16="no"),
            ratings(folder),
        ),
    }


@pytest.mark.parametrize("kind", ["ratings", "low rank", "labels", "paraphrases", "all kinds", "rome"])
def test_the_module_comes_back_and_validates_as_it_did(tmp_path, tiny_encoder, kind):
    module, data = runs(tmp_path, tiny_encoder)[kind]()
    path = tmp_path / "run.ckpt"
    fit(module, data, max_steps=3).save_checkpoint(path)
    loaded = type(module).load_from_checkpoint(path)
    assert loaded.hparams == module.hparams
    kept = read_run_checkpoint(path)["hyper_parameters"]
    assert kept["optimizer"]["learning_rate"] == module.optimizer_config.learning_rate
    assert kept["metric"] == module.start
    assert loaded.optimizer_config == module.optimizer_config
    assert loaded.lora == module.lora
    for name, tensor in module.metric.state_dict().items():
        assert torch.equal(tensor, loaded.metric.state_dict()[name]), name
    trainer = quiet_trainer()
    trainer.validate(module.eval(), data, verbose=False)
    expected = {name: found.values for name, found in module.validation.items()}
    trainer.validate(loaded, data, verbose=False)
    assert {name: found.values for name, found in loaded.validation.items()} == expected
    assert module.state_dict().keys() == loaded.state_dict().keys()
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    for one in (module, loaded):
        one.finish()
    assert Scorer(loaded.metric).score(*TEXTS).scores.tolist() == Scorer(module.metric).score(*TEXTS).scores.tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder: Path) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    module = RatingsModule(overrides={"encoder": str(tiny_encoder)}, bfloat16="no")
    fit(module, ratings(folder), max_steps=2).save_checkpoint(folder / "run.ckpt")
    return folder / "run.ckpt"


@pytest.fixture
def checkpoint(trained: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may change."""
    return shutil.copy(trained, tmp_path / "run.ckpt")


def test_arguments_can_be_changed_and_training_goes_on_from_the_weights(checkpoint, tmp_path):
    module = RatingsModule.load_from_checkpoint(checkpoint, optimizer={"learning_rate": 5e-4}, losses={"huber": 1.0})
    assert module.optimizer_config == OptimizerConfig(learning_rate=5e-4)
    before = module.metric.calibration.scale.clone()
    fit(module, ratings(tmp_path), epochs=1)
    assert module.options.losses == {"huber": 1.0}
    assert (module.metric.calibration.scale - before).abs() < before.abs()


PLACES = [None, "cpu", torch.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}, {}, lambda storage, _: storage]


@pytest.mark.parametrize("place", PLACES)
def test_the_module_goes_where_lightning_users_send_it(checkpoint, place):
    plain = RatingsModule.load_from_checkpoint(checkpoint).state_dict()
    loaded = RatingsModule.load_from_checkpoint(checkpoint, map_location=place)
    assert loaded.device == torch.device("cpu")
    assert all(torch.equal(one, loaded.state_dict()[name]) for name, one in plain.items())


@pytest.mark.parametrize("place", [{"cpu": "cuda:99"}, {"cpu": "nowhere"}, lambda storage, _: storage.cuda(99)])
def test_devices_that_are_not_here_are_one_sentence(checkpoint, place):
    with pytest.raises(InputError, match="`map_location` to give available devices, but got: ") as caught:
        RatingsModule.load_from_checkpoint(checkpoint, map_location=place)
    assert "\n" not in str(caught.value)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-200])
    with pytest.raises(InputError, match="to be the checkpoint of a training run"):
        RatingsModule.load_from_checkpoint(checkpoint, map_location=place)


def test_a_subclass_loads_what_its_base_has_trained_and_what_it_has(checkpoint, tiny_encoder, tmp_path):
    class Own(RatingsModule):
        def __init__(self, extra: int = 1, **options):
            super().__init__(**options)
            self.extra = extra

    assert Own.load_from_checkpoint(checkpoint).extra == 1
    module = Own(extra=2, overrides={"encoder": str(tiny_encoder)}, bfloat16="no")
    fit(module, ratings(tmp_path), max_steps=1).save_checkpoint(tmp_path / "own.ckpt")
    loaded = Own.load_from_checkpoint(tmp_path / "own.ckpt", optimizer={"learning_rate": 5e-4})
    assert (loaded.extra, loaded.overrides, loaded.optimizer_config.learning_rate) == (2, module.overrides, 5e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop("hyper_parameters"), "it is of an earlier version: turn it into a metric with"),
        (lambda content: content["textmover"].update(module="ClassificationModule"), "but got ClassificationModule"),
        (lambda content: content["textmover"].pop("config"), "names no metric"),
        (lambda content: content["textmover"]["config"].update(temperature=3.0), "its `temperature` is 3.0"),
        (lambda content: content["state_dict"].popitem(last=False), "Expected weights that fit"),
        (lambda content: content["hyper_parameters"].update(optimizer={"rate": 1}), "`optimizer` to have fields"),
    ],
)
def test_a_checkpoint_that_does_not_give_the_module_is_one_sentence(checkpoint, change, message):
    content = torch.load(checkpoint, weights_only=True)
    change(content)
    torch.save(content, checkpoint)
    with pytest.raises(InputError, match=message) as caught:
        RatingsModule.load_from_checkpoint(checkpoint)
    assert "\n" not in str(caught.value)
