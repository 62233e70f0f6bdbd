"""Checks of scores, groups, batches, chunks and rounding."""

import math

import numpy as np
import pytest

from textmover.meta_evaluation.statistics import score_arrays
from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.meta_evaluation.statistics.score_arrays import (
    chunks,
    finite_scores,
    restore_ties,
    standard_scores,
)
from textmover.types import InputError

NAN = float("nan")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([NAN] * 9, r"for 9 of 9 segments \(counted from 0: 0, 1, 2, 3, 4, …\)"),
        *((one, "Expected metric scores") for one in (["a", "b"], [[1.0], [2.0]], 3.0, [None, object()])),
    ],
)
def test_what_is_not_a_list_of_finite_numbers(scores, message):
    with pytest.raises(InputError, match=message):
        finite_scores(scores, "metric scores")


def test_scores_are_float64():
    assert finite_scores(np.float32([0.1]), "x").dtype == np.float64


class TestStandardScores:
    @pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
    def test_mean_and_deviation(self, scale):
        x = scale * np.random.default_rng(0).normal(size=50)
        result = standard_scores(x)
        assert result.mean() == pytest.approx(0, abs=1e-12)
        assert result.std() == pytest.approx(1)
        assert correlation(result, x) == pytest.approx(1)

    def test_ties_stay_ties(self):
        x = np.random.default_rng(0).integers(4, size=100) / 7
        assert len(set(standard_scores(x))) == 4

    def test_nothing_varies(self):
        assert standard_scores([0.1] * 3).tolist() == [0, 0, 0]
        assert standard_scores([]).tolist() == []


def test_means_are_equal_within_rounding_of_their_own_terms():
    noise = 1e-16
    means = np.array([[1 + 2 * noise, 0.0, 1, 1 - noise, math.nan], [1e6, 1e6 + 1e-7, noise, 0, -1]])
    sizes = np.array([[1.0] * 5, [1e6, 1e6, 1, 1, 1]])
    assert len(set(means[0].tolist())) == 5
    found = restore_ties(means, sizes)
    np.testing.assert_array_equal(found[0], [1 - noise, 0, 1 - noise, 1 - noise, math.nan])
    np.testing.assert_array_equal(found[1], [1e6, 1e6, 0, 0, -1])
    assert restore_ties(np.array([1e-14, 2e-14]), np.array([1e-13, 1e-13])).tolist() == [1e-14, 2e-14]
    assert restore_ties(np.zeros((3, 0)), np.zeros(0)).shape == (3, 0)


def test_chunks_cover_all_rows(monkeypatch):
    monkeypatch.setattr(score_arrays, "CHUNK_ENTRIES", 10)
    for count, entries in ((0, 3), (7, 3), (9, 3), (5, 100), (4, 0)):
        assert [row for part in chunks(count, entries) for row in range(count)[part]] == list(range(count))
