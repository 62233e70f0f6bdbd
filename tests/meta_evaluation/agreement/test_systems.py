"""System-level agreement against loops."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import soft_pairwise_accuracy, system_agreement, system_means
from textmover.meta_evaluation.agreement.systems import item_table, pairwise_p_values
from textmover.types import InputError


def judged(items=20, systems=6, seed=0, missing=0.0):
    """Scores of segments, in random order, some of them missing."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(items, systems)) + 0.3 * np.arange(systems)
    metric = human + rng.normal(size=(items, systems))
    kept = rng.permutation(np.flatnonzero(rng.random(items * systems) >= missing))
    item, system = np.unravel_index(kept, (items, systems))
    return metric.ravel()[kept], human.ravel()[kept], [f"i{one}" for one in item], [f"s{one}" for one in system]


class TestAgreement:
    @pytest.mark.parametrize("missing", [0.0, 0.4])
    def test_against_scipy(self, missing):
        metric, human, _, systems = judged(missing=missing)
        names = list(dict.fromkeys(systems))
        means = [[one[np.array(systems) == name].mean() for name in names] for one in (metric, human)]
        result = system_agreement(metric, human, systems)
        assert result.systems == tuple(names)
        np.testing.assert_allclose(result.metric_means, means[0])
        assert system_means(metric, systems) == pytest.approx(dict(zip(names, means[0], strict=True)))
        assert result.segments.sum() == len(metric)
        pairs = list(itertools.combinations(range(len(names)), 2))
        signs = np.sign([[side[i] - side[j] for i, j in pairs] for side in means])
        for name, expected in (
            ("pearson", stats.pearsonr(*means).statistic),
            ("kendall", stats.kendalltau(*means).statistic),
            ("accuracy", (signs[0] == signs[1]).mean()),
        ):
            assert system_agreement(metric, human, systems, statistic=name).value == pytest.approx(expected)

    def test_means_that_are_equal_but_for_rounding_are_ties(self):
        """The means of a and b are the same numbers added up in another order."""
        metric, human = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 5], [1, 1, 1, 1, 1, 1, 2]
        systems = ["a"] * 3 + ["b"] * 3 + ["c"]
        assert np.mean(metric[:3]) != np.mean(metric[3:6])
        assert system_agreement(metric, human, systems, statistic="accuracy").value == 1
        assert system_agreement(metric, human, systems, statistic="kendall").value == pytest.approx(1)
        assert system_agreement(human, metric, systems, statistic="accuracy").value == 1
        assert math.isnan(system_agreement(metric[:6] * 2, [1, 2] * 6, ["a"] * 3 + ["b"] * 3 + ["c"] * 6).value)

    @pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
    def test_means_that_differ_a_little_are_no_ties(self, scale):
        metric = scale * np.array([0.5, 0.5 + 1e-9, 0.5 + 2e-9])
        assert system_agreement(metric, [3, 2, 1], list("abc"), statistic="accuracy").value == 0

    def test_few_systems(self):
        assert math.isnan(system_agreement([1, 2], [1, 2], ["a", "b"]).value)
        assert system_agreement([1, 2], [1, 2], ["a", "b"], statistic="accuracy").value == 1
        assert math.isnan(system_agreement([1, 2], [1, 2], ["a", "a"], statistic="accuracy").value)


class TestSoftAccuracy:
    @pytest.mark.parametrize("missing", [0.0, 0.25])
    def test_against_an_exact_test(self, missing):
        """With all 2^8 exchanges the p-values are those of SciPy's exact test on the items that two systems share."""
        metric, _, items, systems = judged(items=8, systems=4, missing=missing, seed=1)
        names, cells = item_table(items, systems, len(metric))
        signs = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
        p_values = pairwise_p_values(metric, cells, signs)
        for value, (i, j) in zip(p_values, itertools.combinations(range(4), 2), strict=True):
            shared = (cells[i] >= 0) & (cells[j] >= 0)
            test = stats.permutation_test(
                (metric[cells[i][shared]], metric[cells[j][shared]]), lambda x, y: np.sum(x - y),
                permutation_type="samples", alternative="greater",
            )  # fmt: skip
            assert value == pytest.approx(test.pvalue, abs=1e-12)
        assert names == tuple(dict.fromkeys(systems))

    def test_pairs_without_items_are_named(self):
        items, systems = ["1", "2", "1", "2", "3"], ["a", "a", "b", "b", "c"]
        result = soft_pairwise_accuracy([1, 2, 3, 4, 5], [1, 2, 3, 5, 4], items, systems)
        assert result.pairs == 1
        assert result.undefined == (("a", "c"), ("b", "c"))
        assert math.isnan(soft_pairwise_accuracy([1, 2], [1, 2], ["1", "2"], ["a", "b"]).value)

    def test_seed(self):
        metric, human, items, systems = judged()
        results = [soft_pairwise_accuracy(metric, human, items, systems, seed=seed).value for seed in (0, 0, 1)]
        assert results[0] == results[1] != results[2]
        assert results[2] == pytest.approx(results[0], abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: soft_pairwise_accuracy([1, 2, 3], [1, 2, 3], ["1", "2", "2"], ["a"] * 3), "system 'a' for item '2'"),
        (lambda: system_agreement([1], [1], ["a"], statistic="cosine"), "accuracy, but got 'cosine'"),
        (lambda: soft_pairwise_accuracy([1, 2], [1, 2], ["1"] * 2, ["a", "b"], permutations=0), "one permutation"),
        (lambda: soft_pairwise_accuracy([1, 2], [1, 2], ["1", "1"], ["a"]), "but got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
