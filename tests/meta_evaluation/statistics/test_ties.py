"""Pairs with ties and the calibration of ε against brute force."""

import itertools
import math

import numpy as np
import pytest

from textmover.meta_evaluation import calibrate_ties, pair_counts, tie_agreement
from textmover.meta_evaluation.statistics import score_arrays, ties
from textmover.types import InputError


def counts_by_hand(x, y, epsilon=0.0):
    """C, D, T_both, T_h, T_m by a loop over pairs."""
    found = [0] * 5
    for i, j in itertools.combinations(range(len(x)), 2):
        metric = 0 if abs(x[i] - x[j]) <= epsilon else np.sign(x[i] - x[j])
        human = np.sign(y[i] - y[j])
        if metric and human:
            found[0 if metric == human else 1] += 1
        else:
            found[2 if metric == human else 3 if human == 0 else 4] += 1
    return tuple(found)


def best_by_hand(x, y, units):
    """Best mean acc23 over units among all candidates for ε, and the smallest ε that reaches it."""
    candidates = {0.0} | {abs(a - b) for a, b in itertools.product(x, x)}
    results = {}
    for epsilon in candidates:
        accuracies = []
        for unit in dict.fromkeys(units):
            inside = [row for row, name in enumerate(units) if name == unit]
            if len(inside) > 1:
                found = counts_by_hand(x[inside], y[inside], epsilon)
                accuracies.append((found[0] + found[2]) / sum(found))
        results[epsilon] = np.mean(accuracies)
    best = max(results.values())
    return best, min(epsilon for epsilon, value in results.items() if value > best - 1e-12)


class TestCounts:
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.0])
    @pytest.mark.parametrize("levels", [2, 5, 1000])
    @pytest.mark.parametrize("n", [1, 2, 3, 25])
    def test_by_hand(self, n, levels, epsilon):
        x, y = np.random.default_rng(n).integers(levels, size=(2, n)) / 7
        result = pair_counts(x, y, epsilon=epsilon)
        assert tuple(result) == counts_by_hand(x, y, epsilon)
        c, d, both, h, m = result
        expected = np.array([c + both, c + both - d - h - m]) / sum(result) if n > 1 else [math.nan] * 2
        assert (result.acc23, result.tau23) == pytest.approx(tuple(expected), nan_ok=True)

    def test_chunks_do_not_matter(self, monkeypatch):
        x, y = np.random.default_rng(0).integers(5, size=(2, 30))
        whole, averaged = pair_counts(x, y), tie_agreement(x, y, ["a"] * 20 + ["b"] * 10)
        monkeypatch.setattr(score_arrays, "CHUNK_ENTRIES", 7)
        assert pair_counts(x, y) == whole
        assert tie_agreement(x, y, ["a"] * 20 + ["b"] * 10) == averaged


class TestAgreement:
    def test_mean_over_unequal_units(self):
        rng = np.random.default_rng(0)
        x, y = rng.integers(4, size=(2, 30)) / 3
        units = rng.choice(["a", "b", "c", "d"], p=[0.6, 0.2, 0.1, 0.1], size=30).tolist()
        inside = [[row for row in range(30) if units[row] == name] for name in dict.fromkeys(units)]
        expected = np.mean([pair_counts(x[part], y[part], epsilon=0.4).acc23 for part in inside if len(part) > 1])
        result = tie_agreement(x, y, units, epsilon=0.4)
        assert result.acc23 == pytest.approx(expected)
        assert result.tau23 == pytest.approx(2 * expected - 1)
        assert result.pairs == sum(math.comb(len(part), 2) for part in inside)

    def test_single_segments_are_named(self):
        result = tie_agreement([1, 2, 3], [1, 2, 3], ["a", "b", "a"])
        assert (result.acc23, result.units, result.undefined) == (1.0, 1, ("b",))
        assert math.isnan(tie_agreement([1, 2], [1, 2], ["a", "b"]).acc23)


class TestCalibration:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("levels", [3, 8, 1000])
    @pytest.mark.parametrize("grouped", [False, True])
    def test_against_brute_force(self, seed, levels, grouped):
        rng = np.random.default_rng(seed)
        human = rng.integers(3, size=24).astype(float)
        metric = human + (rng.integers(levels, size=24) / levels * 3)
        units = rng.choice(["a", "b", "c"], p=[0.7, 0.2, 0.1], size=24).tolist() if grouped else ["all"] * 24
        result = calibrate_ties(metric, human, units)
        best, smallest = best_by_hand(metric, human, units)
        assert result.agreement.acc23 == pytest.approx(best, abs=1e-12)
        assert result.epsilon == pytest.approx(smallest, abs=1e-12)
        assert result.uncalibrated == tie_agreement(metric, human, units)

    def test_sampled(self):
        rng = np.random.default_rng(0)
        human = rng.integers(4, size=300)
        metric = human + rng.normal(size=300)
        units = (np.arange(300) % 3).astype(str).tolist()
        exact = calibrate_ties(metric, human, units).agreement.acc23
        sampled = [calibrate_ties(metric, human, units, pair_rate=0.2, seed=seed) for seed in (0, 0, 1)]
        assert sampled[0] == sampled[1]
        assert sampled[0].epsilon != sampled[2].epsilon
        for one in sampled:
            assert exact - 0.02 < one.agreement.acc23 <= exact
            assert one.agreement == tie_agreement(metric, human, units, epsilon=one.epsilon)

    @pytest.mark.parametrize("size", [2, 3, 7, 40])
    def test_sampled_pairs_are_pairs(self, size):
        unit = np.arange(100, 100 + size)
        seen = set()
        for seed in range(60):
            for first, second in ties._pairs([unit], 0.5, np.random.default_rng(seed)):
                pairs = list(zip(first.tolist(), second.tolist(), strict=True))
                assert len(set(pairs)) == len(pairs)
                seen.update(pairs)
        assert seen == {(i, j) for j, i in itertools.combinations(unit.tolist(), 2)}


@pytest.mark.parametrize(
    ("function", "human", "options", "message"),
    [
        (pair_counts, [1, 2], {"epsilon": -1}, "at least 0, but got -1"),
        (tie_agreement, [1, 2], {"epsilon": math.nan}, "at least 0, but got nan"),
        *((calibrate_ties, [1, 2], {"pair_rate": rate}, "above 0 and at most 1") for rate in (0, 1.5, math.nan)),
        (calibrate_ties, [1, math.inf], {}, "finite human scores"),
    ],
)
def test_bad_input(function, human, options, message):
    with pytest.raises(InputError, match=message):
        function([1, 2], human, **options)


def test_too_many_pairs(monkeypatch):
    monkeypatch.setattr(ties, "MOST_PAIRS", 10)
    x = np.arange(6)
    with pytest.raises(InputError, match=r"at most 10 pairs .* but got 15: choose a `pair_rate` of 0.67"):
        calibrate_ties(x, x)
    assert calibrate_ties(x, x, pair_rate=0.6).agreement.acc23 == 1
