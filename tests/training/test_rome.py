import numpy as np
import pytest
import torch
from labelled_runs import fit

from runs import write_ratings
from textmover import Scorer
from textmover.checkpoints.loading import load_metric
from textmover.data import Columns, RatingsDataModule
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import save_checkpoint
from textmover.training import OptimizerConfig, RatingsModule


@pytest.mark.parametrize("scorer", ["new-paper", "new-monotone"])
def test_a_scorer_learns_from_ratings_as_any_metric_does(scorer, tiny_encoder, tmp_path):
    fields = {"encoder": str(tiny_encoder), "parser": "none", "features": ("semantic", "chrf")}
    untrained = RomeMetric.from_config(RomeConfig(**fields, scorer=scorer))
    start = save_checkpoint(untrained, tmp_path / "start", card="")
    trained = RatingsModule(
        str(start), bfloat16="no", optimizer=OptimizerConfig(head_learning_rate=2e-2), losses={"mse": 1.0}
    )
    ratings = write_ratings(tmp_path / "ratings.tsv", 160)
    data = RatingsDataModule([str(ratings)], columns=Columns(groups=("group",)), held_back=0.25, batch_size=16)
    weights = [one.detach().clone() for one in trained.metric.scorer.weights]
    fit(trained, data)
    assert any(not torch.equal(one, other) for one, other in zip(weights, trained.metric.scorer.weights, strict=True))
    found = trained.validation["held-back"].values
    assert found["pearson"] > 0.3
    folder = save_checkpoint(trained.metric, tmp_path / "trained", card="")
    part = data.parts["held-back"]
    texts = [one.hypothesis for one in part], [one.references for one in part]
    expected = Scorer(trained.metric).score(*texts).scores
    np.testing.assert_allclose(Scorer(load_metric(folder)).score(*texts).scores, expected, atol=1e-5)
