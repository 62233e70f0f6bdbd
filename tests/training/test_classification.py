import logging
from functools import partial

import numpy as np
import pytest
import torch
from labelled_runs import fit, missing_gradients, over, pairs, rated, write_pairs, write_sentences

from runs import write_ratings
from textmover.checkpoints.classifier import load_classifier
from textmover.data import LabelsDataModule, MixtureDataModule
from textmover.data.labelled import LabelledSource, LabelledText
from textmover.training import ClassificationModule
from textmover.training.reports.fit_report import judge
from textmover.training.tasks.classification import loss_weights
from textmover.types import InputError

module = partial(over, kind=ClassificationModule)


@pytest.mark.parametrize("encoding", ["joint", pytest.param("separate", marks=pytest.mark.long)])
def test_classes_of_pairs_are_learned_and_the_report_says_so(tiny_encoder, tmp_path, encoding, caplog):
    trained = module(tiny_encoder, encoding=encoding, overrides={"centering": "corpus"})
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 360))
    with caplog.at_level(logging.INFO, "textmover"):
        fit(trained, data)
    assert trained.validation["held-back"].values["accuracy"] > 0.7
    assert "contradiction" in caplog.text
    assert "recall" in caplog.text
    trained.finish()
    (report,) = judge(trained, data, samples=50).tasks
    found = {row.statistic: row for row in report.rows}
    assert found["accuracy"].after.estimate == trained.validation["held-back"].values["accuracy"]
    assert 0.2 < found["accuracy"].before < 0.5
    assert found["matthews"].before == 0
    assert found["accuracy"].after.low > found["accuracy"].before
    assert report.table().row_count == 3
    assert "| held-back |" in judge(trained, data, samples=50).card("recipe")


@pytest.mark.long
def test_classes_of_sentences_are_learned_and_shuffled_ones_are_not(tiny_encoder, tmp_path):
    found = []
    for shuffled in (False, True):
        trained = module(tiny_encoder, pooling="cls", hidden=8, label_smoothing=0.1, class_weights="balanced")
        path = write_sentences(tmp_path / f"{shuffled}.tsv", 320, shuffled=shuffled)
        fit(trained, LabelsDataModule([str(path)], "cola", held_back=0.3, batch_size=16), epochs=4)
        found.append(trained.validation["held-back"].values["matthews"])
    assert found[0] > 0.5
    assert abs(found[1]) < 0.25


def test_the_corpus_mean_follows_the_trained_weights(tiny_encoder, tmp_path):
    trained = module(tiny_encoder, overrides={"centering": "corpus"})
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 120))
    fit(trained, data, epochs=1)
    texts = data.training_texts(2000)
    trained.metric.eval()
    with torch.no_grad():
        batch = trained.metric.tokenize(texts)
        expected = trained.metric.token_vectors(batch)[batch.mask].mean(dim=0)
    mean = trained.metric.centering.statistic.mean
    before = trained.untrained().centering.statistic.mean
    assert (mean - expected).abs().max() < 1e-4
    assert (mean - before).abs().max() > 1e-2


def test_every_parameter_has_a_gradient_also_of_heads_that_are_not_used(tiny_encoder, tmp_path):
    """Distributed training waits for all of them at every step."""
    kind, missing = missing_gradients(ClassificationModule)
    overrides = {"learn_temperature": True, "calibrate": True}
    trained = over(tiny_encoder, kind, overrides=overrides)
    paths = [write_pairs(tmp_path / f"{name}.tsv", 60, seed=place) for place, name in enumerate("ab")]
    mixture = MixtureDataModule({path.stem: pairs(path) for path in paths})
    fit(trained, mixture, epochs=1)
    assert set(trained.validation) == {"a/held-back", "b/held-back"}
    assert not missing
    fit(single := over(tiny_encoder, kind, overrides=overrides), pairs(paths[0]), epochs=1)
    assert single.validation
    assert not missing


def test_the_loss_is_that_of_the_weighted_cross_entropy(tiny_encoder, tmp_path):
    trained = module(tiny_encoder, class_weights={"neutral": 3.0}, dropout=0.0)
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 60))
    fit(trained, data, epochs=1)
    trained.eval()
    (task,), source = trained.tasks.values(), data.sources["labels"]
    batch = source.collate(source.items[:7], list(range(7)), 7, trained.metric.tokenize)
    with torch.no_grad():
        logits = task.classifier(trained.metric)(*batch.texts)
        logs = logits.log_softmax(dim=1).numpy()
        loss = task.loss(trained.metric, batch).item()
    weights = np.array([1.0, 3.0, 1.0])[batch.labels]
    expected = -(weights * logs[np.arange(7), batch.labels]).sum() / weights.sum()
    assert loss == pytest.approx(expected, abs=1e-5)


def test_class_weights():
    items = [LabelledText(("a",), label) for label in (0, 0, 0, 1)]
    source = LabelledSource("labels", items, {}, classes=("x", "y"))
    weights = loss_weights(source, "balanced")
    assert weights.tolist() == pytest.approx([4 / 6, 2])
    assert sum(weights[item.label] for item in items) == pytest.approx(4)
    assert loss_weights(source, None) is None
    for wrong, message in (({"z": 1.0}, "for the classes x, y"), ({"x": 0.0}, "above 0"), ("equal", "balanced or")):
        with pytest.raises(InputError, match=message):
            loss_weights(source, wrong)
    with pytest.raises(InputError, match="got none of 'y'"):
        loss_weights(LabelledSource("labels", items[:3], {}, classes=("x", "y")), "balanced")


def test_a_source_of_ratings_is_refused(tiny_encoder, tmp_path):
    with pytest.raises(InputError, match="use MultiTaskModule"):
        fit(module(tiny_encoder), rated(write_ratings(tmp_path / "ratings.tsv", 60)), epochs=1)


def test_encoders_that_cannot_be_are_refused(tmp_path):
    vectors = tmp_path / "tiny.vec"
    vectors.write_text("3 2\ncat 1 0\ndog 0 1\ngood 1 1\n")
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 60))
    trained = ClassificationModule("wmd", {"encoder": str(vectors)}, bfloat16="no")
    with pytest.raises(InputError, match="pretrained encoder"):
        fit(trained, data, epochs=1)


def test_the_classifier_beside_the_metric_tells_what_the_task_tells(tiny_encoder, tmp_path):
    from textmover.scoring import save_checkpoint

    trained = module(tiny_encoder, classifiers=True)
    data = pairs(write_pairs(tmp_path / "pairs.tsv", 90))
    fit(trained, data, epochs=1)
    trained.finish()
    save_checkpoint(trained.metric, tmp_path / "metric", card="")
    trained.export_beside(tmp_path / "metric", judge(trained, data, samples=20).card("recipe"))
    card = (tmp_path / "metric-labels" / "README.md").read_text()
    assert card.splitlines()[2:6] == [
        "tags: [textmover, text-classification]",
        "---",
        "",
        "# A text classifier trained from `twmd`",
    ]
    assert "text-generation" not in card
    part = data.sources["labels"].parts["held-back"]
    loaded = load_classifier(tmp_path / "metric-labels")
    assert loaded.config.classes == ("entailment", "neutral", "contradiction")
    predicted = loaded.predict(*zip(*(item.texts for item in part), strict=True)).argmax(dim=1)
    right = (predicted.numpy() == [item.label for item in part]).mean()
    assert right == pytest.approx(trained.validation["held-back"].values["accuracy"])
