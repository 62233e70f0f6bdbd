import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import fit as train
from labelled_runs import over, quiet_trainer, rated, scores_of
from safetensors.torch import load_file, save_file
from scipy.stats import pearsonr

from data_files import write_table
from runs import write_ratings
from textmover import Scorer
from textmover.checkpoints.adapter import AdapterConfig
from textmover.data import Columns, RatingsDataModule
from textmover.data.training_sources import RatedSource, RatingBatch
from textmover.scoring import save_checkpoint
from textmover.scoring.lexical import lexical_scores
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.reports.fit_report import judge
from textmover.training.tasks.ratings import check_batches, segment_scores
from textmover.types import InputError, Segment


def module(encoder: Path, **options) -> RatingsModule:
    return over(encoder, RatingsModule, **{"optimizer": OptimizerConfig(learning_rate=2e-3), **options})


def fit(trained: RatingsModule, ratings: Path, epochs: int = 3, seed: int = 0, **options) -> RatingsDataModule:
    data = rated(ratings, columns=Columns(groups=("group",)), group="group", **options)
    train(trained, data, epochs, seed=seed)
    return data


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_ratings(tmp_path / "ratings.tsv", 240)


@pytest.mark.filterwarnings("ignore:.*no `val_dataloader`", "ignore:.*does not have many workers", "ignore:.*LeafSpec")
def test_a_data_frame_trains_in_plain_python(tiny_encoder, ratings, tmp_path):
    """The lines of docs/training.md."""
    data = RatingsDataModule(pd.read_csv(ratings, sep="\t"), columns=Columns(groups=("group",)), held_back=0.25)
    trained = module(tiny_encoder)
    once = {"max_epochs": 1, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with pytest.raises(InputError, match=r"textmover\.data, but got NoneType: .*fit\(module, data\)"):
        pl.Trainer(**once).fit(trained)
    pl.Trainer(**once).fit(trained, data)
    trained.finish()
    report = judge(trained, data, samples=20)
    assert re.match(r"Agreement on parts kept .*\npart .*\nheld-back +\d+ +pearson ", repr(report))
    card = report.card()
    assert "the data frame" in card
    assert "yaml" not in card
    folder = save_checkpoint(trained.metric, tmp_path / "metric", card=card)
    assert trained.moved
    assert Scorer.from_pretrained(folder, backend="torch").score("a cat", "a dog").scores.shape == (1,)


@pytest.mark.parametrize(
    "losses",
    [
        {"mse": 1.0, "pearson": 1.0},
        *(pytest.param({name: 1.0}, marks=pytest.mark.long) for name in ("mse", "pearson", "huber", "pairwise")),
    ],
)
def test_training_raises_the_agreement_on_held_back_references(tiny_encoder: Path, ratings: Path, losses) -> None:
    trained = module(tiny_encoder, losses=losses, overrides={"centering": "corpus"})
    report = judge(trained, fit(trained, ratings, epochs=4), samples=50)
    (part,) = report.parts
    assert part.gains["pearson"].estimate > 0.05, part.gains["pearson"]


def test_validation_tells_each_group_and_the_mean_and_scores_are_on_the_scale(tiny_encoder, ratings, caplog) -> None:
    trained = module(tiny_encoder)
    with caplog.at_level(logging.INFO, "textmover"):
        data = fit(trained, ratings, epochs=2)
    human = RatedSource.ratings_of(data.segments)
    texts = [one.hypothesis for one in data.segments], [one.references for one in data.segments]
    found = Scorer(trained.metric).score(*texts)
    assert abs(found.scores.mean() - human.mean()) < 0.25 * human.std()
    assert found.f.max() <= 1 + 1e-6
    (table,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Epoch 1")]
    for word in ("g0", "g1", "g2", "mean", "Pearson", "Spearman", "Kendall"):
        assert word in table
    part = data.parts["held-back"]
    scores = scores_of(trained.metric, part)
    of_group = np.array([one.groups["group"] == "g1" for one in part])
    expected = pearsonr(scores[of_group], RatedSource.ratings_of(part)[of_group]).statistic
    assert trained.validation["held-back"].details["g1"].pearson == pytest.approx(expected, abs=1e-5)


def test_a_signal_costs_one_minus_its_correlation_within_the_batch(tiny_encoder: Path, ratings: Path) -> None:
    """The loss of a step, beside the same by hand with SciPy: 0.7 (1 - r(scores, chrF)) and half the squared error."""
    trained = module(tiny_encoder, losses={"mse": 0.5}, signals={"chrf": 0.7})
    data = fit(trained, ratings, epochs=1)
    task, human = trained.tasks["ratings"], RatedSource.ratings_of(data.segments)
    batch = next(iter(data.train_dataloader()))
    trained.eval()  # without dropout
    rows = [data.segments[place] for place in batch.positions.tolist()]
    with torch.no_grad():
        lost = task.loss(trained.metric, batch).item()
        scores = segment_scores(trained.metric, batch).double().numpy()
    teacher = lexical_scores("chrf", [one.hypothesis for one in rows], [one.references for one in rows]).scores
    error = np.square((scores - RatedSource.ratings_of(rows)) / human.std(ddof=1)).mean()
    assert lost == pytest.approx(0.5 * error + 0.7 * (1 - pearsonr(scores, teacher).statistic), abs=1e-5)


@pytest.mark.parametrize("adapter", [None, AdapterConfig(rank=1)])
def test_a_stage_is_not_gone_on_from_with_another_encoder(tiny_encoder: Path, tmp_path: Path, adapter) -> None:
    other = shutil.copytree(tiny_encoder, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: one + 1 for name, one in weights.items()}, other / "model.safetensors", metadata={"format": "pt"})
    stage = save_checkpoint(module(tiny_encoder).metric, tmp_path / "stage", card="", adapter=adapter)
    with pytest.raises(InputError, match="encoder"):
        RatingsModule(metric=str(stage), overrides={"encoder": str(other)})


def test_a_learned_temperature_moves_and_is_saved(tiny_encoder: Path, ratings: Path, tmp_path: Path) -> None:
    trained = module(
        tiny_encoder, overrides={"learn_temperature": True}, optimizer=OptimizerConfig(head_learning_rate=0.05)
    )
    fit(trained, ratings, epochs=1)
    folder = save_checkpoint(trained.metric, tmp_path / "metric", card="")
    saved = json.loads((folder / "config.json").read_text())["metric"]["temperature"]
    assert saved != 0.1
    assert saved == pytest.approx(trained.metric.matching.temperature.value)
    fixed = Scorer.from_pretrained(folder, learn_temperature=False).score("the old dog", "the young dog").scores
    live = Scorer.from_pretrained(folder).score("the old dog", "the young dog").scores
    assert fixed == pytest.approx(live, abs=1e-5)


def test_training_goes_on_from_a_checkpoint_folder_without_a_head(
    tiny_encoder: Path, ratings: Path, tmp_path: Path
) -> None:
    from textmover.presets import build_metric, preset_config

    save_checkpoint(build_metric(preset_config("twmd", encoder=str(tiny_encoder))), tmp_path / "start", card="")
    trained = RatingsModule(str(tmp_path / "start"), {"centering": "corpus"}, bfloat16="no")
    fit(trained, ratings, epochs=1)
    assert trained.metric.centering.statistic.fitted


def test_several_references_train_on_the_best_of_them(tiny_encoder: Path, tmp_path: Path) -> None:
    rows = [
        f"g{n % 3}\tthe {w} dog\tthe {w} cat\tthe {w} cat\t{n % 7}" for n, w in enumerate(["old", "young", "red"] * 20)
    ]
    path = write_table(tmp_path / "several.tsv", "group\treference\tother\thypothesis\tscore", rows)
    data = RatingsDataModule([path], columns=Columns(references=("reference", "other")), validation=[path])
    trained = module(tiny_encoder)
    quiet_trainer(max_steps=2, limit_val_batches=0).fit(trained, datamodule=data)
    batch = next(iter(data.val_dataloader()[0]))
    trained.eval()
    with torch.no_grad():
        scores = segment_scores(trained.metric, batch)
    expected = scores_of(trained.metric, data.parts["held-back"])
    assert scores.numpy() == pytest.approx(expected[batch.positions.numpy()], abs=1e-5)


def test_segments_without_references_keep_their_places_beside_others_with_several():
    """There are as many references as segments, but the first has both, and the second has its source alone."""
    batch = RatingBatch(
        hypotheses=None, references=None, positions=torch.arange(2), source="ratings", joint=2,
        owners=torch.tensor([0, 0, 0, 1]), of_source=torch.tensor([False, False, True, True]), ratings=torch.zeros(2),
    )  # fmt: skip
    scores = SimpleNamespace(score=torch.tensor([0.2, 0.9, 0.3, 0.4]))
    metric = MagicMock(multi_reference="best", combine=lambda *sides: torch.stack(sides), return_value=scores)
    references, sources = segment_scores(metric, batch)
    assert references.tolist() == pytest.approx([0.9, float("nan")], nan_ok=True)
    assert sources.tolist() == pytest.approx([0.3, 0.4])


def test_training_on_several_references_as_one_text_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    rows = (f"the old dog\tthe dog {n}\ta dog {n}\t{n}" for n in range(20))
    path = write_table(tmp_path / "several.tsv", "hypothesis\treference\tother\tscore", rows)
    data = RatingsDataModule([path], columns=Columns(references=("reference", "other")), validation=[path])
    with pytest.raises(InputError, match="multi_reference 'best' or 'mean' to train on several references"):
        quiet_trainer(max_steps=1).fit(module(tiny_encoder, overrides={"multi_reference": "all"}), datamodule=data)


def test_equal_ratings_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    path = write_ratings(tmp_path / "equal.tsv", 140)  # the deviation of 140 times 29.1 is 1e-14
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *(line.rsplit("\t", 1)[0] + "\t29.1" for line in lines[1:])]) + "\n")
    with pytest.raises(InputError, match=r"differ in the held-back part of .*all \d+ are equal there"):
        fit(module(tiny_encoder), path, epochs=1)
    other = write_ratings(tmp_path / "other.tsv")
    with pytest.raises(InputError, match="all ratings to train on are equal"):
        fit(module(tiny_encoder), path, epochs=1, validation=[str(other)], scales="as-is")


# --- batches that are too small to learn from -------------------------------------------------------------------------


def source_of(rows: int, size: int, groups: list[str] | None = None) -> RatedSource:
    items = [Segment("h", ("r",), score=float(n)) for n in range(rows)]
    return RatedSource("mine", items, {}, batch_size=size, batch_groups=groups)


@pytest.mark.parametrize(
    ("losses", "signals", "size", "least"),
    [
        ({"pearson": 1.0}, {}, 2, 3),
        *(({name: 1.0}, {}, 1, 2) for name in ("pairwise", "listwise", "cosent", "hinge")),
        ({"mse": 0.0, "cosent": {"scale": 2.0}, "pearson": 1.0}, {}, 1, 2),
        ({"mse": 0.0}, {"chrf": 1.0}, 2, 3),
    ],
)
def test_batches_too_small_for_every_loss_are_refused(losses, signals, size, least, caplog) -> None:
    with pytest.raises(InputError, match=f"`batch_size` of the source mine to be at least {least}, .* but got {size}"):
        check_batches(source_of(9, size), losses, signals)
    groups = [f"g{n // size}" for n in range(9)]
    with pytest.raises(InputError, match=f"leave at least {least} segments of the source mine together"):
        check_batches(source_of(9, 16, groups), losses, signals)
    check_batches(source_of(9, least), losses, signals)
    check_batches(source_of(9, size), {**losses, "huber": 0.1}, signals)


@pytest.mark.parametrize(("alone", "warned"), [(20, True), (18, True), (17, False)])
def test_groups_of_one_row_each_are_told_once(alone: int, warned: bool, caplog) -> None:
    groups = [f"g{n}" for n in range(alone)] + ["rest"] * (20 - alone)
    with caplog.at_level(logging.WARNING, "textmover"):
        check_batches(source_of(20, 8, groups), {"mse": 1.0, "hinge": 1.0, "pearson": 0.0}, {})
    said = [one.getMessage() for one in caplog.records]
    assert said == (
        [
            f"hinge learns nothing from {alone} of the 20 segments of mine, which are in batches of fewer than 2: "
            "raise `batch_size`, or name a column with fewer values as `batch_group`."
        ]
        if warned
        else []
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"losses": {"pearsn": 1.0}}, "pearsn"),
        ({"losses": {"mse": 0.0}, "signals": {"untrained": -1.0}}, "weight of the signal 'untrained'"),
        *(
            ({"gradient_clip": most}, f"to be a finite number above 0, but got {most}: null .None. leaves gradients")
            for most in (0.0, -1.0, float("nan"), float("inf"))
        ),
    ],
)
def test_numbers_that_nothing_is_learned_with_are_refused(tiny_encoder: Path, options, message) -> None:
    with pytest.raises(InputError, match=message):
        module(tiny_encoder, **options)


def test_signals_alone_and_no_clipping_are_allowed(tiny_encoder: Path) -> None:
    assert module(tiny_encoder, losses={"mse": 0.0}, signals={"chrf": 1.0}).options.signals == {"chrf": 1.0}
    assert module(tiny_encoder, gradient_clip=None).gradient_clip is None


def test_a_file_as_the_metric_to_start_from_is_told_how_to_become_one(tmp_path: Path) -> None:
    (tmp_path / "run.ckpt").write_bytes(b"of a run")
    with pytest.raises(InputError, match=r"run\.ckpt is a file: .*textmover export"):
        RatingsModule(str(tmp_path / "run.ckpt"))
