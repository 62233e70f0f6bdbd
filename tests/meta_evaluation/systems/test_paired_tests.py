"""Paired tests of two systems against loops over samples, as sacrebleu defines them."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import paired_bootstrap, paired_randomisation
from textmover.meta_evaluation.statistics import score_arrays
from textmover.meta_evaluation.systems.paired_tests import bootstrap_pairs, randomise_pairs
from textmover.types import InputError


def systems(n=40, gain=0.3, seed=0):
    rng = np.random.default_rng(seed)
    baseline = rng.normal(size=n)
    return baseline, baseline + gain + rng.normal(size=n)


class TestAgainstLoops:
    def test_bootstrap(self):
        baseline, system = systems()
        drawn = np.random.default_rng(7).choice(40, size=(200, 40), replace=True)
        means = np.array([[one[rows].mean() for one in (baseline, system)] for rows in drawn])
        distances = [abs(system - baseline) for baseline, system in means]
        centred = [one - sum(distances) / 200 for one in distances]
        exceeding = sum(one > abs(system.mean() - baseline.mean()) for one in centred)
        result = paired_bootstrap(baseline, system, samples=200, seed=7)
        assert result.p_value == pytest.approx((exceeding + 1) / 201)
        ordered = sorted(means[:, 1])
        assert result.mean == pytest.approx(np.mean(ordered))
        assert result.margin == pytest.approx((ordered[194] - ordered[5]) / 2)  # 200 // 40 = 5 on either side
        assert result.baseline_mean == pytest.approx(means[:, 0].mean())

    def test_randomisation(self):
        baseline, system = systems()
        keeps = np.random.default_rng(7).integers(2, size=(300, 40), dtype=bool)
        distances = [
            abs(np.where(keep, baseline, system).mean() - np.where(keep, system, baseline).mean()) for keep in keeps
        ]
        expected = (1 + sum(one > abs(system.mean() - baseline.mean()) for one in distances)) / 301
        result = paired_randomisation(baseline, system, samples=300, bootstrap_samples=0, seed=7)
        assert result.p_value == pytest.approx(expected)
        assert math.isnan(result.margin)

    def test_chunks_do_not_matter(self, monkeypatch):
        data = systems()
        whole = paired_bootstrap(*data), paired_randomisation(*data, samples=500)
        monkeypatch.setattr(score_arrays, "CHUNK_ENTRIES", 300)  # draws are those of a single call all the same
        assert (paired_bootstrap(*data), paired_randomisation(*data, samples=500)) == whole


class TestLaws:
    @pytest.mark.parametrize("test", [paired_bootstrap, paired_randomisation])
    def test_two_sided(self, test):
        baseline, system = systems()
        one, other = test(baseline, system), test(system, baseline)
        assert one.p_value == other.p_value
        assert one.difference == -other.difference
        assert (one.baseline, one.baseline_margin) == (other.system, other.margin)

    @pytest.mark.parametrize("test", [paired_bootstrap, paired_randomisation])
    def test_significance(self, test):
        assert test(*systems(200, 0.6)).p_value < 0.01
        baseline, _ = systems()
        assert test(baseline, baseline).p_value == 1
        assert test([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]).p_value == 1  # equal but for rounding

    @pytest.mark.parametrize("two_sided", [False, True])
    def test_a_single_segment_shows_nothing(self, two_sided):
        assert paired_bootstrap([1.0], [2.0], two_sided=two_sided).p_value == 1

    def test_randomisation_is_uniform_where_nothing_differs(self):
        p_values = [
            paired_randomisation(*systems(30, 0.0, seed), samples=199, bootstrap_samples=0).p_value
            for seed in range(300)
        ]
        assert stats.kstest(p_values, "uniform").pvalue > 0.01

    def test_the_two_sided_bootstrap_keeps_its_level_and_sacrebleus_does_not(self):
        rng = np.random.default_rng(4)
        data = [rng.normal(size=(2, 100)) for _ in range(400)]
        for two_sided, low, high in ((True, 0.02, 0.085), (False, 0.09, 0.2)):
            found = [paired_bootstrap(*one, samples=300, two_sided=two_sided).p_value for one in data]
            assert low < np.mean(np.array(found) <= 0.05) < high

    def test_margin_is_that_of_theory(self):
        _, system = systems(1000)
        result = paired_bootstrap(system, system + 1, samples=2000)
        assert result.margin == pytest.approx(1.96 * system.std() / math.sqrt(1000), rel=0.1)

    def test_seed_and_signature(self):
        data = systems()
        results = [paired_bootstrap(*data, seed=seed) for seed in (12345, 12345, 1)]
        assert results[0] == results[1] == paired_bootstrap(*data)
        assert results[0].mean != results[2].mean
        assert results[2].signature == "test:paired-bootstrap|samples:1000|seed:1"
        assert paired_randomisation(*data).signature == "test:paired-randomisation|samples:10000|seed:12345"


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (([1, 2], [1, 2, 3]), {}, "same segments, but got 2 and 3"),
        (([], []), {}, "but got 0 and 0"),
        (([1], [1]), {"samples": 0}, "(at least one trial|whole number from 20 to 1,000,000), but got 0"),
        (([1, 2], [1, math.nan]), {}, "finite scores of the system"),
    ],
)
@pytest.mark.parametrize("test", [paired_bootstrap, paired_randomisation])
def test_bad_input(test, scores, options, message):
    with pytest.raises(InputError, match=message):
        test(*scores, **options)


def test_pairs_tested_together_are_those_tested_alone():
    rng = np.random.default_rng(2)
    base = rng.normal(size=35)
    scores = [base + gain + rng.normal(size=35) for gain in (0.0, 0.2, 0.4, 0.4)]
    pairs = list(itertools.permutations(range(4), 2))
    for inclusive in (False, True):
        found = randomise_pairs(scores, pairs, samples=400, bootstrap_samples=50, seed=3, inclusive=inclusive)
        options = {"samples": 400, "bootstrap_samples": 50, "seed": 3, "inclusive": inclusive}
        assert found == [paired_randomisation(scores[one], scores[other], **options) for one, other in pairs]
    found = bootstrap_pairs(scores, pairs, samples=100, seed=3)
    assert found == [paired_bootstrap(scores[one], scores[other], samples=100, seed=3) for one, other in pairs]
