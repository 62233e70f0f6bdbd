"""Calibration: against scikit-learn and brute force."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from textmover.meta_evaluation.error_spans.agreement import calibration_error, cells_of, reliability


def drawn(seed: int, ties: bool):
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(8, size=500) / 8 if ties else rng.random(500)
    return probabilities, rng.random(500) < probabilities**2


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_average_precision_is_that_of_scikit_learn(seed, ties):
    probabilities, wrong = drawn(seed, ties)
    found = reliability(cells_of(probabilities, wrong)[0])
    assert found.average_precision == pytest.approx(average_precision_score(wrong, probabilities))


@pytest.mark.parametrize("bins", [1, 5, 10])
def test_bins_without_ties_are_those_of_sorting(bins):
    probabilities, wrong = drawn(0, ties=False)
    order = np.argsort(probabilities)
    parts = np.split(order, bins)
    found = reliability(cells_of(probabilities, wrong)[0], bins)
    assert found.counts.tolist() == [500 / bins] * bins
    assert found.probability == pytest.approx([probabilities[part].mean() for part in parts])
    assert found.wrong == pytest.approx([wrong[part].mean() for part in parts])
    assert found.error == pytest.approx(np.mean([abs(wrong[one].mean() - probabilities[one].mean()) for one in parts]))


def test_equal_probabilities_share_a_bin():
    probabilities, wrong = drawn(1, ties=True)
    found = reliability(cells_of(probabilities, wrong)[0], 20)
    assert found.probability.tolist() == sorted(set(probabilities))
    assert found.counts.sum() == 500


def test_order_does_not_matter_and_cells_may_be_joined():
    probabilities, wrong = drawn(2, ties=True)
    cells = cells_of(probabilities, wrong)[0]
    assert [one.tolist() for one in cells] == [one.tolist() for one in cells_of(probabilities[::-1], wrong[::-1])[0]]
    found = reliability(cells)
    assert found.error == pytest.approx(calibration_error(np.stack(cells, axis=-1)), abs=1e-12)


def test_right_probabilities_have_no_error():
    probabilities = np.repeat([0.1, 0.5, 0.9], 100)
    wrong = np.concatenate([np.arange(100) < share for share in (10, 50, 90)])
    assert reliability(cells_of(probabilities, wrong)[0], 3).error == pytest.approx(0)
    assert reliability(cells_of(1 - probabilities, wrong)[0], 3).error == pytest.approx(2 / 3 * 0.8)


def test_nothing_to_judge():
    found = reliability(cells_of([], [])[0])
    assert np.isnan([found.error, found.average_precision]).all()
    assert found.counts.tolist() == []
    assert np.isnan(reliability(cells_of([0.2], [False])[0]).average_precision)
