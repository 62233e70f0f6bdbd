import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_f1_score, multiclass_matthews_corrcoef

from textmover.meta_evaluation.agreement.labels import (
    bootstrap_labels,
    bootstrap_share,
    confusion_matrix,
    label_statistics,
)
from textmover.types import InputError


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_statistics_are_those_of_torchmetrics(classes, seed):
    rng = np.random.default_rng(seed)
    true = rng.integers(classes, size=60)
    found = np.where(rng.random(60) < 0.6, true, rng.integers(classes, size=60))
    values = label_statistics(confusion_matrix(true, found, classes))
    preds, target = torch.from_numpy(found), torch.from_numpy(true)
    assert values["accuracy"] == pytest.approx((true == found).mean())
    assert values["macro_f1"] == pytest.approx(float(multiclass_f1_score(preds, target, classes)), abs=1e-6)
    assert values["matthews"] == pytest.approx(float(multiclass_matthews_corrcoef(preds, target, classes)), abs=1e-6)


def test_a_constant_prediction_has_no_correlation():
    values = label_statistics(confusion_matrix([0, 1, 1], [1, 1, 1], 3))
    assert values["matthews"] == 0
    assert values["macro_f1"] == pytest.approx((0 + 0.8) / 2), "a class that nobody has seen does not count"


def test_many_matrices_at_a_time():
    stacked = np.random.default_rng(0).integers(1, 9, size=(4, 3, 3))
    together = label_statistics(stacked)
    for place, one in enumerate(stacked):
        assert {name: float(value) for name, value in label_statistics(one).items()} == pytest.approx(
            {name: float(value[place]) for name, value in together.items()}
        )


def test_intervals_of_clusters_that_are_drawn_whole_are_wider():
    rng = np.random.default_rng(0)
    right = np.repeat(rng.random(40) < 0.7, 10)  # ten items each, all right or all wrong
    true, found = np.zeros(400, dtype=int), (~right).astype(int)
    alone = bootstrap_labels(true, found, 2, [str(n) for n in range(400)])["accuracy"]
    together = bootstrap_labels(true, found, 2, [str(n // 10) for n in range(400)])["accuracy"]
    shared = bootstrap_share(right, [str(n) for n in range(400)])
    assert shared.estimate == pytest.approx(right.mean())
    assert shared.high - shared.low == pytest.approx(alone.high - alone.low, rel=0.05)
    share = right.mean()
    assert alone.estimate == together.estimate == pytest.approx(share)
    assert alone.high - alone.low == pytest.approx(2 * 1.96 * (share * (1 - share) / 400) ** 0.5, rel=0.15)
    assert together.high - together.low == pytest.approx(2 * 1.96 * (share * (1 - share) / 40) ** 0.5, rel=0.2)


@pytest.mark.parametrize(
    ("labels", "predicted", "message"), [([0, 1], [0], "as many predictions"), ([0, 2], [0, 1], "classes from 0 to 1")]
)
def test_labels_that_do_not_fit_are_refused(labels, predicted, message):
    with pytest.raises(InputError, match=message):
        confusion_matrix(labels, predicted, 2)


def test_one_cluster_has_no_interval():
    for found in (
        bootstrap_labels([0, 1, 0], [0, 1, 1], 2, ["a"] * 3)["accuracy"],
        bootstrap_share([1.0, 1.0, 0.0], ["a"] * 3),
    ):
        assert found.estimate == pytest.approx(2 / 3)
        assert np.isnan([found.low, found.high]).all()
        assert found.clusters == (("all", 1),)
    assert np.isnan(bootstrap_share([], [])[:3]).all()
