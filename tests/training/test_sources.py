"""Training with sources: beside references, in place of them, and left out at random."""

import json

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import over, quiet_trainer, rated

from runs import write_ratings
from textmover import Scorer
from textmover.data import Columns
from textmover.scoring import save_checkpoint
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.reports.fit_report import judge
from textmover.training.tasks.ratings import segment_scores
from textmover.types import InputError


@pytest.fixture
def ratings(tmp_path):
    """Rated segments whose source is the reference in other words; each fourth has no reference."""
    path = tmp_path / "rows.jsonl"
    lines = write_ratings(tmp_path / "ratings.tsv", 160).read_text().splitlines()[1:]
    rows = []
    for number, line in enumerate(lines):
        group, reference, hypothesis, score = line.split("\t")
        source = " ".join(reversed(reference.split()))
        kept = "" if number % 4 == 0 else reference
        hypothesis = source if number == 5 else hypothesis  # a copy
        rows.append({"group": group, "reference": kept, "hypothesis": hypothesis, "score": float(score), "src": source})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fitted(encoder, ratings, *, references=("reference",), epochs=1, overrides=None, **options):
    pl.seed_everything(0, verbose=False)
    columns = Columns(references=references, source="src", groups=("group",))
    data = rated(ratings, columns=columns)
    optimizer = OptimizerConfig(learning_rate=2e-3)
    trained = over(encoder, RatingsModule, overrides=overrides or {}, optimizer=optimizer, **options)
    quiet_trainer(max_epochs=epochs).fit(trained, data)
    return trained, data


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
@pytest.mark.parametrize("mode", ["source", "both"])
def test_a_trained_metric_scores_as_it_was_trained(tiny_multilingual, ratings, tmp_path, mode):
    fields = {"mode": mode, "fallback": mode == "both"}
    references = () if mode == "source" else ("reference",)
    options = {"mask_references": 0.3, "mask_sources": 0.2} if mode == "both" else {}
    options |= {"references": references, "epochs": 3 if mode == "source" else 6}
    trained, data = fitted(tiny_multilingual, ratings, overrides=fields, **options)
    trained.finish()
    (part,) = judge(trained, data, samples=20).parts
    assert part.gains["pearson"].estimate > 0.2
    assert part.compared == ("source" if mode == "source" else "reference")
    source = next(iter(data.sources.values()))
    segments = source.items[:12]
    batch = source.collate(segments, range(12), 12, trained.metric.tokenize)
    hypotheses = [one.hypothesis for one in segments]
    expected = segment_scores(trained.metric.eval(), batch).tolist()
    folder = save_checkpoint(trained.metric, tmp_path / "metric", card="")
    scorer = Scorer.from_pretrained(folder, backend="torch")
    found = scorer.score(hypotheses, [one.compared for one in segments]).scores
    assert found == pytest.approx(expected, abs=1e-3)
    if mode == "both":
        (copy,) = np.flatnonzero(scorer.score(hypotheses, [one.compared for one in segments]).flags["copied"])
        assert trained.metric.combination.logit.item() != 0
        weights = dict(trained.metric.combination.named_parameters())
        assert set(weights) == {"logit", "source.scale", "source.offset"}
        alone = scorer.score(hypotheses, None, [one.source for one in segments]).scores
        masked = segment_scores(trained.metric, batch, (1.0, 0.0)).tolist()
        assert np.delete(alone, copy) == pytest.approx(np.delete(masked, copy), abs=1e-3)
        assert masked[copy] == pytest.approx(found[copy], abs=1e-3)  # judged by its reference nevertheless
        rows = [place for place, one in enumerate(segments) if one.references]
        plain = scorer.score([hypotheses[row] for row in rows], [segments[row].references for row in rows]).scores
        masked = segment_scores(trained.metric, batch, (0.0, 1.0))[rows].tolist()
        assert plain == pytest.approx(masked, abs=1e-3)


def test_half_of_the_references_are_left_out_at_random(tiny_metric, tiny_multilingual):
    from textmover.data.training_sources import RatedSource
    from textmover.types import Segment

    metric = tiny_metric(encoder=str(tiny_multilingual), mode="both")
    segments = [Segment(f"cat {n}", (f"the dog {n}",), 1.0, f"a bird sat {n}") for n in range(64)]
    source = RatedSource("ratings", segments, {}, mode="both")
    batch = source.collate(segments, range(64), 64, metric.tokenize)
    assert len(batch.owners) == 128
    whole, masked = segment_scores(metric, batch), segment_scores(metric, batch, (0.5, 0.0))
    share = (whole != masked).float().mean()
    assert 0.25 < float(share) < 0.75
    encoded: list[int] = []
    hook = metric.encoder.register_forward_pre_hook(lambda _, given: encoded.append(len(given[0])))
    segment_scores(metric, batch, (1.0, 0.0))
    hook.remove()
    assert sum(encoded) == 2 * 64  # what is hidden is not encoded
    metric.train()
    segment_scores(metric, batch, (0.5, 0.5)).sum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in metric.combination.parameters())
    assert torch.isfinite(next(metric.encoder.parameters()).grad).all()


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        ({"mode": "both"}, {}, r"a reference in column 'reference' of .*, line \d+, since `mode` is 'both'"),
        ({}, {}, r"a reference in column 'reference' of .*, line \d+, since `mode` is 'ref"),
        ({"mode": "source"}, {"mask_references": 0.7, "mask_sources": 0.6}, "a sum of at most 1, but got 0.7 and 0.6"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tiny_multilingual, ratings, overrides, options, message):
    with pytest.raises(InputError, match=message):
        fitted(tiny_multilingual, ratings, overrides=overrides, **options)
