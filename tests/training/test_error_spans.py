"""Marking errors is learned: calibration, thresholds, and a run from tagged words to marked texts."""

import numpy as np
import pytest
import torch
from labelled_runs import fit, marked, over, write_tags
from pytorch_lightning import seed_everything
from scipy.optimize import minimize

from textmover import Scorer
from textmover.presets import build_metric, preset_config
from textmover.scoring import save_checkpoint
from textmover.training import MultiTaskModule, OptimizerConfig, RatingsModule, judge
from textmover.training.base_module import FROZEN_STATES
from textmover.training.export_after_fit import ExportOptions, finish_run
from textmover.training.tasks.error_spans import BINS, ODDS, REACH, best_threshold, fit_odds
from textmover.types import ErrorSpan


@pytest.fixture
def counts() -> torch.Tensor:
    """Right and wrong ones by log-odds, which overstate by two and are shifted."""
    generator = torch.Generator().manual_seed(3)
    odds = ODDS
    total = (2000 * torch.exp(-0.5 * (odds / 3) ** 2)).round()
    wrong = (total * (0.5 * odds - 0.8).sigmoid() + torch.rand(BINS, generator=generator)).floor().clamp(max=total)
    return torch.stack([total - wrong, wrong])


def test_scale_and_offset_are_those_of_maximum_likelihood(counts):
    odds = ODDS.numpy()

    def loss(given):
        values = given[0] * odds + given[1]
        pull = 0.5 * ((given[0] - 1) ** 2 + given[1] ** 2)
        return (counts[0].numpy() * np.logaddexp(0, values) + counts[1].numpy() * np.logaddexp(0, -values)).sum() + pull

    wanted = minimize(loss, [1.0, 0.0], method="BFGS").x
    found = fit_odds(counts.double())
    assert found == pytest.approx(wanted, abs=1e-3)
    assert found == pytest.approx((0.5, -0.8), abs=0.05)


def test_the_threshold_is_that_of_the_largest_correlation(counts):
    odds, (right, wrong) = ODDS, counts.double()

    def correlation(place: int) -> float:
        marked = torch.arange(BINS) >= place
        truth = torch.cat([torch.zeros(BINS), torch.ones(BINS)])
        weights, said = torch.cat([right, wrong]), torch.cat([marked, marked]).double()
        return float(np.nan_to_num(np.cov(truth, said, aweights=weights, ddof=0)[0, 1] / np.prod([
            np.sqrt(np.average((one - np.average(one, weights=weights)) ** 2, weights=weights)) for one in (truth, said)
        ])))  # fmt: skip

    threshold, mcc = best_threshold(counts.double(), 1.0, 0.0)
    all_of_them = [correlation(place) for place in range(1, BINS)]
    assert mcc == pytest.approx(max(all_of_them), abs=1e-7)
    edge = float(odds[1 + int(np.argmax(all_of_them))]) - REACH / (BINS - 1)
    assert threshold == pytest.approx(1 / (1 + np.exp(-edge)), abs=1e-9)


def test_all_right_leaves_the_odds_alone():
    assert fit_odds(torch.stack([torch.zeros(BINS), torch.zeros(BINS)]).double()) == (1.0, 0.0)


@pytest.mark.parametrize("label", [0, 1], ids=["right", "wrong"])
def test_where_all_are_right_or_all_wrong_the_threshold_is_one_half(counts, label):
    """Held-back texts may lack missing words; the lowest threshold marked every gap."""
    alone = torch.zeros_like(counts.double())
    alone[label] = counts[label]
    assert best_threshold(alone, *fit_odds(alone)) == (0.5, 0.0)


@pytest.fixture(scope="module")
def trained(tiny_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    data = marked(write_tags(folder / "tags.tsv", 260), held_back=0.25, batch_size=16)
    module = MultiTaskModule(
        overrides={"encoder": str(tiny_encoder), "layer": 1},
        optimizer=OptimizerConfig(learning_rate=1e-3, head_learning_rate=1e-2),
        bfloat16="no",
    )
    fit(module, data, epochs=6)
    module.finish()
    return module


def test_errors_are_marked_after_training(trained, tmp_path):
    values = trained.validation["held-back"].values
    assert values["mcc"] > 0.8
    assert values["gaps_mcc"] > 0.2
    save_checkpoint(trained.metric, tmp_path / "metric", card="")
    texts = ["the old dog seven warm tea", "she small water red book"], [
        "the old dog house warm tea", "she small water red book"
    ]  # fmt: skip
    found = Scorer.from_pretrained(tmp_path / "metric").errors(*texts)
    assert [(one.start, one.end) for one in found[0] if not one.missing] == [(12, 17)]
    assert not [one for one in found[1] if not one.missing]
    assert found.signature.entries["errors"].startswith("head@")
    again = Scorer(trained.metric).errors(*texts)
    assert [one.spans for one in again] == [one.spans for one in found], "as in training"


def test_probabilities_are_shares(trained):
    """Over many texts, words that are wrong with a probability of p are wrong in about p of cases."""
    (source,) = trained.trainer.datamodule.sources.values()
    items = source.parts["held-back"]
    found = Scorer(trained.metric).errors([one.hypothesis for one in items], [one.references for one in items])
    expected = sum(one.word_probabilities.sum() for one in found)
    happened = sum(isinstance(error, ErrorSpan) and not error.missing for one in items for error in one.errors)
    assert expected == pytest.approx(happened, rel=0.15)


def test_a_head_is_calibrated_to_its_final_weights(tiny_encoder, tmp_path):
    """Without a validation after the last step it marked nothing, or by the thresholds of an earlier epoch."""
    heads = []
    for judged in ({}, {"limit_val_batches": 0}, {"check_val_every_n_epoch": 2}):
        seed_everything(1)
        module = MultiTaskModule(overrides={"encoder": str(tiny_encoder), "freeze_layers": 3}, bfloat16="no")
        fit(module, marked(write_tags(tmp_path / "tags.tsv", 40)), epochs=3, **judged)
        module.finish()
        heads.append(module.metric.error_head.state_dict())
    for head in heads[1:]:
        assert {name: one.tolist() for name, one in head.items()} == {k: v.tolist() for k, v in heads[0].items()}


def test_a_head_is_calibrated_again_to_weights_that_are_part_untrained(tiny_encoder, tmp_path):
    module, data = over(tiny_encoder, MultiTaskModule), marked(write_tags(tmp_path / "tags.tsv", 40))
    finish_run(module, data, fit(module, data, epochs=1), ExportOptions(untrained_share=0.5), "")
    scales = module.metric.error_head.scales.clone()
    module.finish()
    assert torch.equal(scales, module.metric.error_head.scales)


def test_a_head_is_compared_with_the_one_that_training_starts_from(trained, tmp_path):
    save_checkpoint(trained.metric, tmp_path / "metric", card="")
    second = MultiTaskModule(metric=str(tmp_path / "metric"), bfloat16="no")
    (report,) = judge(second, trained.trainer.datamodule, samples=20).tasks
    assert report.before == "before"
    assert [row.before for row in report.rows] == pytest.approx([row.after.estimate for row in report.rows])


def test_a_head_that_nothing_teaches_is_left_out(trained, tmp_path, caplog):
    """The encoder changes under it: its marks would be wrong without a word."""
    save_checkpoint(trained.metric, tmp_path / "metric", card="")
    module = RatingsModule(metric=str(tmp_path / "metric"), bfloat16="no")
    assert module.metric.error_head is None
    assert not module.metric.config.mark_errors
    assert "drops the head that marks errors" in caplog.text


def test_a_frozen_encoder_keeps_its_scores(tiny_encoder, tmp_path):
    """Only the head learns: mean and baseline, which scores depend on, stay as they are."""
    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder), rescale=True))
    metric.fit(["the old dog", "she read a red book", "warm water in the house", "tea"] * 3)
    save_checkpoint(metric, tmp_path / "metric", card="")
    data = marked(write_tags(tmp_path / "tags.tsv", 40))
    module = MultiTaskModule(metric=str(tmp_path / "metric"), overrides={"freeze_layers": 3}, bfloat16="no")
    fit(module, data, epochs=1)
    module.finish()
    texts = ["the old dog seven", "she small red"], ["the old dog house", "she small water red"]
    before = Scorer.from_pretrained(tmp_path / "metric").score(*texts).scores
    assert Scorer(module.metric).score(*texts).scores.tolist() == before.tolist()


def test_a_frozen_encoder_reads_each_text_once_and_without_dropout(tiny_encoder, tmp_path, monkeypatch):
    heads, read = [], []
    for kept in (FROZEN_STATES, 0):
        monkeypatch.setattr("textmover.training.base_module.FROZEN_STATES", kept)
        seed_everything(1)
        module = MultiTaskModule(metric="twmd", overrides={"encoder": str(tiny_encoder), "freeze_layers": 3})
        data = marked(write_tags(tmp_path / "tags.tsv", 40))
        encode = module.metric.encoder.encode
        read.append([])
        watched = lambda one, now=read[-1], encode=encode: (now.extend(one.texts), encode(one))[1]  # noqa: E731
        monkeypatch.setattr(module.metric.encoder, "encode", watched)
        fit(module, data, epochs=3)
        heads.append([one.detach().clone() for one in module.metric.error_head.parameters()])
    assert len(read[0]) == len(set(read[0])) < len(read[1])
    for one, other in zip(*heads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
