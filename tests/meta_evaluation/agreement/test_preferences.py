"""DARR against counting by hand."""

import math

import numpy as np
import pytest

from textmover.meta_evaluation import darr_tau, grouped_darr_tau, preferences_from_ratings
from textmover.types import InputError


class TestTau:
    @pytest.mark.parametrize("levels", [2, 1000])
    def test_by_hand(self, levels):
        rng = np.random.default_rng(0)
        scores = rng.integers(levels, size=50)
        pairs = [rng.choice(50, size=2, replace=False) for _ in range(200)]
        concordant = sum(scores[better] > scores[worse] for better, worse in pairs)
        ties = sum(scores[better] == scores[worse] for better, worse in pairs)
        result = darr_tau(scores, pairs)
        assert result.tau == pytest.approx((2 * concordant - 200) / 200)
        assert (result.concordant, result.discordant, result.ties) == (concordant, 200 - concordant, ties)

    def test_no_preference(self):
        assert math.isnan(darr_tau([1, 2], []).tau)

    def test_groups(self):
        scores, groups = [1, 2, 3, 4, 5], ["a", "a", "b", "b", "c"]
        result = grouped_darr_tau(scores, [[1, 0], [0, 1], [3, 2]], groups)
        assert {group: one.concordant for group, one in result.items()} == {"a": 1, "b": 1, "c": 0}
        assert result["a"].tau == 0
        assert math.isnan(result["c"].tau)


class TestFromRatings:
    def test_against_a_loop(self):
        rng = np.random.default_rng(0)
        ratings, items = rng.integers(0, 101, size=40), rng.integers(6, size=40).astype(str).tolist()
        expected = {
            (i, j)
            for i in range(40)
            for j in range(40)
            if items[i] == items[j] and ratings[i] - ratings[j] >= 25
        }  # fmt: skip
        found = preferences_from_ratings(ratings, items)
        assert len(found) == len(expected)
        assert {tuple(pair) for pair in found.tolist()} == expected

    def test_exactly_25_points_count(self):
        assert preferences_from_ratings([50, 25, 26], ["s"] * 3).tolist() == [[0, 1]]

    @pytest.mark.parametrize(("better", "worse", "least"), [(0.7, 0.4, 0.3), (250 / 3, 175 / 3, 25), (0.9, 0.8, 0.1)])
    def test_rounding_errors_do_not_decide(self, better, worse, least):
        assert preferences_from_ratings([worse, better], ["s"] * 2, least=least).tolist() == [[1, 0]]
        assert not len(preferences_from_ratings([worse + 1e-9, better], ["s"] * 2, least=least))

    def test_missing_ratings(self):
        assert preferences_from_ratings([50, math.nan, 0], ["s"] * 3).tolist() == [[0, 2]]
        assert preferences_from_ratings([], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 3]], r"two of 3 rows \(counted from 0\), but 1 of 1 do not, the first \[0, 3\]"),
        ([[0, 1], [-1, 1]], r"but 1 of 2 do not, the first \[-1, 1\]"),
        ([[1, 1]], r"the first \[1, 1\]"),
        ([[0, 1, 2]], r"shape \[m, 2\], but got int64 \[1, 3\]"),
        ([[0.0, 1.0]], "but got float64"),
    ],
)
def test_bad_pairs(pairs, message):
    with pytest.raises(InputError, match=message):
        darr_tau([1, 2, 3], pairs)


def test_bad_input():
    with pytest.raises(InputError, match="finite metric scores"):
        darr_tau([1, math.nan], [[0, 1]])
    with pytest.raises(InputError, match=r"1 of 2 pairs cross groups, first rows \[1, 2\]"):
        grouped_darr_tau([1, 2, 3], [[0, 1], [1, 2]], ["a", "a", "b"])
    with pytest.raises(InputError, match="above 0, but got 0"):
        preferences_from_ratings([1, 2], ["a", "a"], least=0)
