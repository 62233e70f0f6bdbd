import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import (
    fit,
    losses_and_gradients,
    marked,
    missing_gradients,
    over,
    pairs,
    paraphrases,
    quiet_trainer,
    rated,
    scores_of,
    write_pairs,
    write_paraphrases,
    write_sentences,
    write_tags,
)

from runs import logged, recipe, write_ratings, write_recipe
from textmover import Scorer
from textmover.data import Columns, MixtureDataModule
from textmover.data.paraphrases import ParaphraseSource
from textmover.data.split import is_held_back
from textmover.functional.losses import contrastive_loss
from textmover.scoring import save_checkpoint
from textmover.training import MultiTaskModule, OptimizerConfig, RandomState, RatingsModule, TaskOptions
from textmover.training.reports.fit_report import judge
from textmover.training.tasks.paraphrases import ContrastiveTask, all_scores
from textmover.types import InputError

module = partial(over, kind=MultiTaskModule)


def all_kinds(folder: Path, n: int = 40) -> MixtureDataModule:
    ratings = write_ratings(folder / "ratings.tsv", n)
    return MixtureDataModule(
        {
            "nli": pairs(write_pairs(folder / "pairs.tsv", n), batch_size=8),
            "people": rated(ratings, columns=Columns(groups=("group",))),
            "same": paraphrases(write_paraphrases(folder / "same.tsv", n), negatives=1),
            "more": rated(ratings),
            "errors": marked(write_tags(folder / "tags.tsv", n)),
        }
    )


def test_partners_are_found_more_often_after_training_than_before(tiny_encoder, tmp_path):
    data = paraphrases(write_paraphrases(tmp_path / "same.tsv", 90), held_back=0.4, validation_batch_size=8)
    overrides = {"centering": "corpus", "layer": 1}  # low, where words are still themselves
    trained = module(tiny_encoder, overrides=overrides, optimizer=OptimizerConfig(learning_rate=1e-2))
    fit(trained, data, epochs=4)
    trained.finish()
    (report,) = judge(trained, data, samples=100).tasks
    (row,) = report.rows
    assert row.after.estimate == pytest.approx(trained.validation["held-back"].values["recall"])
    assert row.after.low > row.before, row
    assert "up to 8" in report.note
    assert "Nobody judged the negatives" in data.notices[0]


@pytest.mark.slow
def test_all_kinds_are_learned_in_one_run_and_every_parameter_has_a_gradient(tiny_encoder, tmp_path):
    kind, missing = missing_gradients(MultiTaskModule)
    options = {
        "nli": TaskOptions(weight=0.5, encoding="separate"),
        "people": TaskOptions(losses={"mse": 1.0}, signals={"untrained": 0.1}),
        "same": TaskOptions(temperature=0.1),
    }
    trained = over(tiny_encoder, kind, tasks=options, optimizer=OptimizerConfig())
    data = all_kinds(tmp_path)
    fit(trained, data, epochs=1)
    assert not missing
    assert set(trained.validation) == {f"{name}/held-back" for name in ("nli", "people", "same", "more", "errors")}
    assert trained.tasks["people"].head is None, "it sets the scale"
    assert trained.tasks["more"].head is not None
    assert trained.tasks["nli"].head.config.encoding == "separate"
    assert (trained.tasks["same"].temperature, trained.tasks["people"].losses) == (0.1, {"mse": 1.0})
    trained.finish()
    report = judge(trained, data, samples=20)
    assert [part.name for part in report.parts] == ["people/held-back", "more/held-back"]
    assert len(report.tables()) == 4
    card = report.card("")
    for words in ("Agreement with the ratings", "Classes predicted", "Partners found", "Errors marked"):
        assert words in card
    assert trained.metric.config.calibrate
    assert trained.metric.config.mark_errors
    ratings = [one.score for one in data.sources["people"].items]
    scores = scores_of(trained.metric, data.sources["people"].parts["held-back"])
    assert abs(scores.mean() - np.mean(ratings)) < np.std(ratings), "the scale is that of the ratings"


def test_a_weight_scales_the_gradient_and_not_what_is_logged(tiny_encoder, tmp_path):
    found = []
    for weight in (1.0, 3.0):
        pl.seed_everything(0, verbose=False)
        trained = module(tiny_encoder, tasks={"labels": TaskOptions(weight=weight, dropout=0.0)})
        data = pairs(write_pairs(tmp_path / "pairs.tsv", 60))
        fit(trained, data, epochs=0)
        trained.setup("fit")
        trained.eval()
        source = data.sources["labels"]
        logged = {}
        trained.log = lambda name, value, logged=logged, **_: logged.update({name: float(value)})
        batch = source.collate(source.items[:4], [0, 1, 2, 3], 4, trained.metric.tokenize)
        found.append((trained.training_step(batch, 0).item(), logged["train/loss"]))
    assert found[1][0] == pytest.approx(3 * found[0][0])
    assert found[1][1] == pytest.approx(found[0][1])


@pytest.fixture
def task_and_batch(tiny_metric, tmp_path):
    def make(count=0, size=6, **fields):
        data = paraphrases(write_paraphrases(tmp_path / "same.tsv", 40), negatives=count)
        data.setup()
        source: ParaphraseSource = data.sources["paraphrases"]
        metric = tiny_metric(temperature=0.1, **fields)
        return (
            ContrastiveTask(source, temperature=0.2),
            metric,
            source.collate(source.items[:size], range(size), size, metric.tokenize),
        )

    return make


def test_all_scores_are_those_of_the_pairs_one_by_one(task_and_batch):
    for fields in ({}, {"calibrate": True}, {"matching": "emd", "output": "distance", "normalize": False}):
        _, metric, batch = task_and_batch(**fields)
        features = [metric.text_features(one) for one in (batch.hypotheses, batch.references)]
        scores = all_scores(metric, *features)
        plain = (
            metric
            if not fields.get("calibrate")
            else type(metric)(metric.config.override(calibrate=False), metric.parts)
        )
        scorer = Scorer(plain.eval())
        sign = 1 if scorer.metric.higher_is_better else -1
        texts = batch.hypotheses.texts, batch.references.texts
        for row, first in enumerate(texts[0]):
            expected = sign * scorer.score([first] * 6, list(texts[1])).scores
            assert scores[row].detach().numpy() == pytest.approx(expected, abs=1e-5)
        assert metric.calibration is None or fields["calibrate"], "the head is put back"


def test_the_loss_leaves_out_pairs_of_one_cluster(task_and_batch):
    task, metric, batch = task_and_batch()
    batch.clusters[3] = batch.clusters[1]
    features = [metric.text_features(one) for one in (batch.hypotheses, batch.references)]
    scores = all_scores(metric, *features)
    exclude = torch.eye(6, dtype=torch.bool)
    exclude[1, 3] = exclude[3, 1] = True
    assert task.loss(metric, batch).item() == pytest.approx(contrastive_loss(scores, 0.2, exclude=exclude).item())
    assert task.loss(metric, batch).item() < contrastive_loss(scores, 0.2).item()


def test_mined_negatives_are_negatives_in_both_directions(task_and_batch):
    task, metric, batch = task_and_batch(count=2)
    sides = batch.hypotheses, batch.references, batch.negatives
    one, two, mined = (metric.text_features(side) for side in sides)
    with torch.no_grad():
        rows = (torch.cat([all_scores(metric, one, two), all_scores(metric, one, mined)], dim=1) / 0.2).numpy()
        columns = (torch.cat([all_scores(metric, one, two), all_scores(metric, mined, two)]) / 0.2).numpy().T
    owners, others = batch.clusters[:, 0].numpy(), batch.clusters[:, 1:].flatten().numpy()
    total = 0.0
    for place in range(6):
        allowed = np.concatenate([owners, others]) != owners[place]
        allowed[place] = True
        for logits in (rows[place], columns[place]):
            total += np.log(np.exp(logits[allowed]).sum()) - logits[place]
    assert task.loss(metric, batch).item() == pytest.approx(total / 12, abs=1e-4)


def test_partners_are_told_by_the_highest_score_among_other_clusters(task_and_batch, monkeypatch):
    task, metric, batch = task_and_batch(size=4)
    scores = torch.tensor([[3.0, 1, 2, 0], [2, 1, 9, 1], [0, 0, 5, 5], [1, 0, 0, 2]])
    monkeypatch.setattr("textmover.training.tasks.paraphrases.all_scores", lambda *_: scores)
    assert task.outcome(metric, batch).tolist() == [1, 0, 0, 1], "a tie is not found"
    batch.clusters[:, 0] = torch.tensor([0, 1, 1, 3])
    assert task.outcome(metric, batch).tolist() == [1, 0, 0, 1]
    batch.clusters[:, 0] = 7
    assert task.outcome(metric, batch).tolist() == [-1] * 4


def test_partners_without_others_to_be_told_from_have_no_recall(task_and_batch):
    task, metric, batch = task_and_batch(size=4)
    batch.clusters[:, 0] = 7
    task.source.parts = {"held-back": task.source.items[:4]}
    batch.positions[:] = torch.arange(4)
    task.start_judging(torch.device("cpu"))
    task.collect("held-back", metric, batch)
    found = task.judge("held-back")
    assert math.isnan(found.values["recall"])
    assert "undefined, since no batch holds negatives" in found.table


@pytest.mark.long
def test_negatives_are_mined_by_the_metric(tiny_encoder, tmp_path):
    data = paraphrases(write_paraphrases(tmp_path / "same.tsv", 30), negatives=2, mining="metric")
    trained = module(tiny_encoder)
    fit(trained, data, epochs=1)
    source = data.sources["paraphrases"]
    assert "by metric" in source.describe()["mined negatives"]
    scorer = Scorer(trained.untrained())
    firsts = [item.texts[0] for item in source.items]
    better = []
    for item in source.items[:8]:
        negatives = {negative.texts[0] for negative in item.negatives}
        assert len(negatives - {item.texts[0]}) == 2
        scores = scorer.score([item.texts[0]] * len(firsts), firsts).scores
        chosen = [scores[firsts.index(text)] for text in negatives]
        better.append(np.mean(scores[[text != item.texts[0] for text in firsts]] < min(chosen)))
    assert np.mean(better) > 0.7, "they are among the hardest"


@pytest.mark.long
def test_two_processes_have_the_losses_and_gradients_of_one(tiny_encoder, tmp_path):
    """Batches of seven: the shares differ in size, and their texts in length."""
    write_pairs(tmp_path / "pairs.tsv", 40)
    write_paraphrases(tmp_path / "same.tsv", 40)
    losses_and_gradients(0, 1, tmp_path, tiny_encoder)
    torch.multiprocessing.spawn(losses_and_gradients, args=(2, tmp_path, tiny_encoder), nprocs=2)
    expected = torch.load(tmp_path / "found0of1.pt", weights_only=True)
    for rank in range(2):
        found = torch.load(tmp_path / f"found{rank}of2.pt", weights_only=True)
        for one, wanted in zip(found, expected, strict=True):
            assert torch.allclose(one, wanted, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"other": TaskOptions()}, "the sources paraphrases, but got 'other'"),
        ({"paraphrases": TaskOptions(encoding="joint")}, "`encoding`: leave it out"),
        ({"paraphrases": TaskOptions(temperature=0.0)}, "`temperature`"),
    ],
)
def test_options_that_do_not_fit_a_source_are_refused(tiny_encoder, tmp_path, options, message):
    data = paraphrases(write_paraphrases(tmp_path / "same.tsv", 40))
    with pytest.raises(InputError, match=message):
        fit(module(tiny_encoder, tasks=options), data, epochs=1)


def test_a_source_with_batches_too_small_for_its_losses_is_named(tiny_encoder, tmp_path):
    data = all_kinds(tmp_path)
    data.members["more"].batch_size = 1
    tasks = {"people": TaskOptions(losses={"pairwise": 1.0}), "more": TaskOptions(losses={"pairwise": 1.0})}
    with pytest.raises(InputError, match="`batch_size` of the source more to be at least 2"):
        fit(module(tiny_encoder, tasks=tasks), data, epochs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 0.0}, "`weight`"),
        ({"losses": {"pearsn": 1.0}}, "pearsn"),
        ({"losses": {"mse": 0.0}}, "all weights are 0"),
        ({"losses": {"mse": 0.0, "hinge": {"weight": 0.0}}, "signals": {"untrained": 0.0}}, "all weights are 0"),
        ({"losses": {"mse": -1.0}}, "weight of the loss `mse`"),
        *(({"signals": {"chrf": weight}}, "the signal 'chrf'") for weight in (-1.0, math.nan, math.inf)),
        ({"mask_references": 0.7, "mask_sources": 0.6}, "a sum of at most 1, but got 0.7 and 0.6"),
        *(({"mask_sources": share}, "shares of at least 0") for share in (-0.1, math.nan)),
        ({"label_smoothing": 1.0}, "`label_smoothing`"),
        ({"dropout": 1.0}, "`dropout`"),
    ],
)
def test_options_that_fit_nothing_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TaskOptions(**options)


def test_batches_of_one_cluster_have_no_share_of_partners_found(tiny_encoder, tmp_path):
    """The held-back part is two stars of paraphrases of unlike length, so that each is a batch by itself."""
    words = ["cat", "dog", "boy", "girl", "man", "woman", "friend", "child"]
    texts = [f"the {one} {other}" for one in words for other in words]
    short, long, *_ = (text for text in texts if is_held_back(text, 0.2))
    rows = [(short, f"young {word}") for word in words[:4]]
    rows += [(long, f"young old red blue big small {word}") for word in words[:4]]
    for number, text in enumerate(text for text in texts if not is_held_back(text, 0.2)):
        rows.append((text, f"when {text} {number}"))
    file = tmp_path / "same.tsv"
    file.write_text("first\tsecond\n" + "".join(f"{first}\t{second}\n" for first, second in rows))
    data = MixtureDataModule(
        {
            "same": paraphrases(file, held_back=0.2, validation_batch_size=4),
            "nli": pairs(write_pairs(tmp_path / "pairs.tsv", 40)),
        }
    )
    trained = module(tiny_encoder)
    fit(trained, data, epochs=-1, max_steps=1)
    partners = next(one for one in judge(trained, data, samples=20).tasks if one.title == "Partners found")
    assert len(data.sources["same"].parts["held-back"]) == 8
    (row,) = partners.rows
    assert row.items == 0
    assert all(math.isnan(value) for value in (row.before, *row.after[:3]))
    assert "| nan |" in partners.markdown()
    assert "batch of up to 4." in partners.note, "the batches of labels are another matter"


def test_texts_that_are_read_together_have_no_features_to_learn_from(tiny_encoder, tmp_path):
    data = paraphrases(write_paraphrases(tmp_path / "same.tsv", 40))
    with pytest.raises(InputError, match="centering='batch'"):
        fit(module(tiny_encoder, overrides={"centering": "batch"}), data, epochs=1)


def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(tiny_encoder, tmp_path):
    """Stopped in the middle of an epoch; all kinds of tasks, dropout on, the order of batches taken up again."""

    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 7:
                trainer.save_checkpoint(tmp_path / "seven.ckpt")

    def run(*callbacks, **options):
        pl.seed_everything(1, verbose=False)
        trained = module(tiny_encoder, overrides={"centering": "corpus"})
        trainer = quiet_trainer(max_steps=12, limit_val_batches=0, callbacks=[RandomState(), *callbacks])
        trainer.fit(trained, datamodule=all_kinds(tmp_path), **options)
        return trained.state_dict()

    unbroken = run(Stop())
    resumed = run(ckpt_path=str(tmp_path / "seven.ckpt"), weights_only=True)
    assert unbroken.keys() == resumed.keys()
    for name, tensor in unbroken.items():
        assert torch.equal(tensor, resumed[name]), name


def test_a_calibration_that_no_ratings_follow_is_told(tiny_encoder, tmp_path, caplog):
    """The encoder changes under it: scores left the scale of the ratings without a word."""
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 60))
    for fields, told in (({"calibrate": True}, 1), ({"calibrate": True, "freeze_layers": 3}, 0), ({}, 0)):
        caplog.clear()
        module = over(tiny_encoder, MultiTaskModule, overrides=fields)
        fit(module, data, epochs=1, max_steps=1)
        assert caplog.text.count("keeps the calibration of its training although no ratings are trained on") == told


def test_labels_are_not_learned_with_rome(tiny_encoder, tmp_path):
    overrides = {"parser": "none", "features": ["semantic"], "scorer": "new-paper", "weights": "uniform"}
    module = MultiTaskModule("rome", overrides={"encoder": str(tiny_encoder), **overrides}, bfloat16="no")
    with pytest.raises(InputError, match="Expected a transport metric to classify with, but got a RomeMetric"):
        fit(module, pairs(write_pairs(tmp_path / "pairs.tsv", 60)), epochs=1)


@pytest.mark.long
def test_stages_are_chained_by_checkpoints(tiny_encoder, tmp_path):
    first = module(tiny_encoder, overrides={"centering": "corpus"})
    fit(first, pairs(write_pairs(tmp_path / "pairs.tsv", 90)), epochs=1)
    first.finish()
    save_checkpoint(first.metric, tmp_path / "first", card="")
    second = RatingsModule(str(tmp_path / "first"), bfloat16="no")
    name = "encoder.model.embeddings.word_embeddings.weight"
    assert torch.equal(second.metric.state_dict()[name], first.metric.state_dict()[name])
    ratings = rated(write_ratings(tmp_path / "ratings.tsv"))
    fit(second, ratings, epochs=1)
    report = judge(second, ratings, samples=20)
    assert report.start == str(tmp_path / "first")
    assert not report.tasks
    assert not torch.equal(second.metric.state_dict()[name], first.metric.state_dict()[name])


@pytest.mark.slow
def test_train_py_fits_exports_and_keeps_the_classifier(tiny_encoder, tmp_path, capsys):
    from textmover.checkpoints.classifier import load_classifier
    from textmover.cli.training.train import main as train

    config = recipe(tmp_path, tiny_encoder, tmp_path / "none.tsv", trainer__max_epochs=1)
    config["trainer"]["callbacks"][0]["init_args"]["monitor"] = "good/held-back/matthews"
    config["model"] = {
        "class_path": "textmover.training.MultiTaskModule",
        "init_args": {
            "overrides": {"encoder": str(tiny_encoder), "temperature": 0.1, "centering": "corpus"},
            "tasks": {"good": {"pooling": "cls", "class_weights": "balanced"}, "same": {"weight": 0.5}},
            "classifiers": True,
            "bfloat16": "no",
        },
    }
    sentences, same = write_sentences(tmp_path / "good.tsv", 90), write_paraphrases(tmp_path / "same.tsv", 60)
    config["data"] = {
        "class_path": "textmover.data.MixtureDataModule",
        "init_args": {
            "sources": {
                "good": {
                    "class_path": "textmover.data.LabelsDataModule",
                    "init_args": {"train": [str(sentences)], "task": "cola", "held_back": 0.3},
                },
                "same": {
                    "class_path": "textmover.data.ParaphrasesDataModule",
                    "init_args": {"train": [str(same)], "columns": {"texts": ["first", "second"]}, "held_back": 0.3},
                },
            },
            "temperature": 2.0,
        },
    }
    assert train(["fit", "--config", str(write_recipe(tmp_path / "recipe.yaml", config))]) == 0
    out, err = capsys.readouterr()
    assert f"Classifier: {tmp_path / 'metric-good'}" in err
    for words in ("Classes predicted", "matthews", "Partners found", "recall@1", "Nobody judged", "textmover score -i"):
        assert words in out
    assert Scorer.from_pretrained(tmp_path / "metric").score("a cat", "a cat").mean == pytest.approx(1, abs=1e-5)
    assert load_classifier(tmp_path / "metric-good").predict(["good cat"]).shape == (1, 2)
    assert not (tmp_path / "metric-same").exists()
    card = (tmp_path / "metric" / "README.md").read_text()
    assert "| good/held-back |" in card
    assert "Agreement with the ratings" not in card
    # A step logs the loss of its own source, not the last ones of the others.
    rows = logged(tmp_path)
    told = {int(row["step"]): {name for name in row if name.endswith("/loss")} for row in rows if "step" in row}
    losses = [names for names in told.values() if names]
    assert {"train/good/loss"} in losses
    assert {"train/same/loss"} in losses
    assert all(len(names) == 1 for names in losses)
    assert len(losses) == len(told) - 1 > 2  # the one left tells what was held back


def test_a_source_of_another_kind_is_named():
    with pytest.raises(InputError, match="Expected drawn to be ratings, labels, paraphrases or errors, but got Simple"):
        MultiTaskModule.build_task(None, SimpleNamespace(name="drawn"))
