"""A module meets other data than those it was set up with: their ratings count, and what was learned stays."""

import logging
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import marked, over, pairs, quiet_trainer, rated, scores_of, write_pairs, write_tags

from data_files import write_table
from runs import write_ratings
from textmover.data import RatingsDataModule
from textmover.training import ClassificationModule, MultiTaskModule, RatingsModule, judge
from textmover.training.callbacks import WeightAverage
from textmover.types import InputError


def data(folder: Path, seed: int, n: int = 60, times: float = 1.0) -> RatingsDataModule:
    """Ratings of their own, multiplied by a number."""
    lines = write_ratings(folder / "plain.tsv", n, seed=seed).read_text().splitlines()
    cells = [line.split("\t") for line in lines[1:]]
    rows = ["\t".join([*cell[:-1], f"{float(cell[-1]) * times}"]) for cell in cells]
    return rated(Path(write_table(folder / f"{seed}.tsv", lines[0], rows)))


@pytest.fixture
def module(tiny_encoder: Path) -> RatingsModule:
    pl.seed_everything(0, verbose=False)
    return over(tiny_encoder, RatingsModule)


def fit(module: RatingsModule, ratings: RatingsDataModule, **options) -> RatingsModule:
    start = options.pop("ckpt_path", None)
    trainer = quiet_trainer(**{"max_steps": 2, "limit_val_batches": 0, **options})
    trainer.fit(module, ratings, ckpt_path=start, weights_only=True)
    return module


def ratings_of(ratings: RatingsDataModule) -> torch.Tensor:
    return torch.tensor([one.score for one in ratings.segments], dtype=torch.float64)


def check_fitted_to(module: RatingsModule, ratings: RatingsDataModule) -> None:
    human, task = ratings_of(ratings), module.tasks["ratings"]
    assert torch.allclose(task.rating_mean, human.mean())
    assert torch.allclose(task.rating_deviation, human.std())
    assert scores_of(module.metric, ratings.segments).mean() == pytest.approx(float(human.mean()), rel=0.1)


def test_other_data_are_judged_by_their_own_ratings_and_change_nothing(tmp_path, module):
    first, second = data(tmp_path, 0), data(tmp_path, 1, n=80)
    before = {name: tensor.clone() for name, tensor in fit(module, first).state_dict().items()}
    quiet_trainer().validate(module, second, verbose=False)
    part = second.parts["held-back"]
    by_hand = np.corrcoef(scores_of(module.metric, part), [one.score for one in part])[0, 1]
    assert module.validation["held-back"].values["pearson"] == pytest.approx(by_hand, abs=1e-6)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def made(folder: Path, kind: str, seed: int):
    """Data of labels or of marked errors."""
    path = folder / f"{kind}{seed}.tsv"
    return pairs(write_pairs(path, 60, seed=seed)) if kind == "labels" else marked(write_tags(path, 60, seed=seed))


@pytest.mark.parametrize("kind", ["labels", "errors"])
def test_other_data_without_ratings_change_nothing_either(tmp_path, tiny_encoder, kind):
    """Neither the corpus mean nor thresholds are fitted to data that are only judged."""
    module, path = over(tiny_encoder, MultiTaskModule, overrides={"centering": "corpus"}), tmp_path / "run.ckpt"
    trainer = quiet_trainer(max_steps=3)
    trainer.fit(module, made(tmp_path, kind, 0))
    trainer.save_checkpoint(path)
    before = {name: tensor.clone() for name, tensor in module.metric.state_dict().items()}
    quiet_trainer().validate(module, made(tmp_path, kind, 1), verbose=False)
    module.finish()
    loaded = MultiTaskModule.load_from_checkpoint(path)
    loaded.finish()  # has no trainer, and no data
    for name, tensor in before.items():
        assert torch.equal(module.metric.state_dict()[name], tensor), name
        assert torch.equal(loaded.metric.state_dict()[name], tensor), name


def test_the_ratings_of_the_data_that_are_fitted_set_the_scale(tmp_path, module, caplog):
    first, second = data(tmp_path, 0), data(tmp_path, 1, times=0.05)
    check_fitted_to(fit(module, first), first)
    with caplog.at_level(logging.INFO, "textmover"):
        check_fitted_to(fit(module, second), second)
    assert "The training data have changed" in caplog.text
    caplog.clear()
    scale = module.metric.calibration.scale.detach().clone()
    quiet_trainer().validate(module, first, verbose=False)
    fit(module, second, max_steps=0)
    assert torch.equal(module.metric.calibration.scale, scale)  # learned on these data, and kept
    assert "have changed" not in caplog.text


@pytest.mark.parametrize("by", ["load_from_checkpoint", "ckpt_path"])
def test_a_checkpoint_goes_on_with_its_scale_on_its_data_alone(tmp_path, tiny_encoder, module, by):
    first, second, path = data(tmp_path, 0), data(tmp_path, 1, times=0.05), tmp_path / "run.ckpt"
    trainer = quiet_trainer(max_steps=2, limit_val_batches=0)
    trainer.fit(module, first)
    trainer.save_checkpoint(path)
    scale = module.metric.calibration.scale.detach().clone()

    def resumed(ratings: RatingsDataModule, steps: int) -> RatingsModule:
        if by == "load_from_checkpoint":
            return fit(RatingsModule.load_from_checkpoint(path), ratings, max_steps=steps)
        ratings.resume_other_data = True
        return fit(over(tiny_encoder, RatingsModule), ratings, ckpt_path=path, max_steps=2 + steps)

    kept = resumed(data(tmp_path, 0), 0)
    assert torch.equal(kept.metric.calibration.scale, scale)
    check_fitted_to(resumed(second, 2), second)


def test_an_average_of_weights_takes_over_the_scale_of_other_data(tmp_path, tiny_encoder, module):
    first, second, path = data(tmp_path, 0), data(tmp_path, 1, times=0.05), tmp_path / "run.ckpt"
    options = {"limit_val_batches": 0, "max_steps": 4}
    trainer = quiet_trainer(callbacks=[WeightAverage(decay=0.9)], **options)
    trainer.fit(module, first)
    trainer.save_checkpoint(path)
    second.resume_other_data = True
    options = {"callbacks": [WeightAverage(decay=0.9)], **options, "max_steps": 6}
    check_fitted_to(fit(over(tiny_encoder, RatingsModule), second, ckpt_path=path, **options), second)


def test_a_classifier_is_kept_for_data_of_its_classes(tmp_path, tiny_encoder):
    first, second = (pairs(write_pairs(tmp_path / f"{seed}.tsv", 60, seed=seed)) for seed in (0, 1))
    module = over(tiny_encoder, ClassificationModule)
    quiet_trainer(max_steps=2, limit_val_batches=0).fit(module, first)
    before = {name: tensor.clone() for name, tensor in module.tasks.state_dict().items()}
    quiet_trainer().validate(module, second, verbose=False)
    for name, tensor in module.tasks.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_classifier_meets_its_classes_in_their_order_alone(tmp_path, tiny_encoder):
    path, table = tmp_path / "run.ckpt", write_pairs(tmp_path / "pairs.tsv", 60)
    module, first, other = over(tiny_encoder, ClassificationModule), pairs(table), pairs(table)
    other.names = replace(other.names, classes=other.names.classes[::-1])
    other.resume_other_data = True
    trainer = quiet_trainer(max_steps=1, limit_val_batches=0)
    trainer.fit(module, first)
    trainer.save_checkpoint(path)
    message = f"in this order: {', '.join(first.names.classes)}, but got {', '.join(other.names.classes)}"
    for refused, start in (
        (module, None),
        (over(tiny_encoder, ClassificationModule), path),
        (ClassificationModule.load_from_checkpoint(path), None),
    ):
        with pytest.raises(InputError, match=message):
            fit(refused, other, ckpt_path=start)


@pytest.mark.parametrize("centering", ["none", "corpus"])
def test_judging_needs_neither_a_trainer_nor_data_that_are_set_up(tmp_path, tiny_encoder, centering):
    pl.seed_everything(0, verbose=False)
    module, path = over(tiny_encoder, RatingsModule, overrides={"centering": centering}), tmp_path / "run.ckpt"
    trainer = quiet_trainer(max_steps=2, limit_val_batches=0)
    trainer.fit(module, data(tmp_path, 0))
    trainer.save_checkpoint(path)
    expected = judge(module, data(tmp_path, 0), samples=20)
    assert [part.name for part in expected.parts] == ["held-back"]
    found = judge(RatingsModule.load_from_checkpoint(path), data(tmp_path, 0), samples=20)
    assert found.card() == expected.card()


def test_a_module_that_was_never_fitted_is_judged_as_it_is(tmp_path, module):
    (part,) = judge(module, data(tmp_path, 0), samples=20).parts
    assert part.gains["pearson"].estimate == pytest.approx(0, abs=1e-6)


def test_a_fitted_module_and_its_data_pickle(tmp_path, module):
    ratings = data(tmp_path, 0)
    fit(module, ratings)
    copied, copied_data = pickle.loads(pickle.dumps((module, ratings)))
    assert ratings_of(copied_data).tolist() == ratings_of(ratings).tolist()
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, copied.state_dict()[name]), name
