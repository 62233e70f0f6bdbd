import numpy as np
import pytest
import torch
from labelled_runs import fit, rated, scores_of

from runs import write_ratings
from textmover.checkpoints.loading import load_metric
from textmover.data import Columns
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
    data = rated(write_ratings(tmp_path / "ratings.tsv", 160), columns=Columns(groups=("group",)), batch_size=16)
    weights = [one.detach().clone() for one in trained.metric.scorer.weights]
    fit(trained, data)
    assert any(not torch.equal(one, other) for one, other in zip(weights, trained.metric.scorer.weights, strict=True))
    found = trained.validation["held-back"].values
    assert found["pearson"] > 0.3
    folder = save_checkpoint(trained.metric, tmp_path / "trained", card="")
    before, after = (scores_of(one, data.parts["held-back"]) for one in (trained.metric, load_metric(folder)))
    np.testing.assert_allclose(after, before, atol=1e-5)
