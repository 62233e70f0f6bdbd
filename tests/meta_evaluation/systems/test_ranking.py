"""Ranked systems: p-values are those of SciPy's permutation test, ranks those of a loop over the rule."""

import itertools

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import (
    compare_systems,
    mean_over_groups,
    paired_bootstrap,
    paired_randomisation,
    rank_systems,
    ranking_agreement,
    soft_pairwise_accuracy,
    system_agreement,
)
from textmover.types import InputError


def made(gains=(0.0, 0.4, 0.05, 0.9), n=40, seed=0, missing=0.0):
    """Scores, systems and items of outputs, some of which are missing."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    rows = [
        (base[item] + gain + 0.7 * rng.normal(), f"s{system}", str(item))
        for system, gain in enumerate(gains)
        for item in range(n)
        if rng.random() >= missing
    ]
    scores, systems, items = zip(*rows, strict=True)
    return np.array(scores), list(systems), list(items)


def shared(scores, systems, items, one, other):
    """Scores of two systems on the items that both have."""
    by = {(system, item): score for score, system, item in zip(scores, systems, items, strict=True)}
    both = [item for item in dict.fromkeys(items) if (one, item) in by and (other, item) in by]
    return tuple(np.array([by[name, item] for item in both]) for name in (one, other))


def exact_p(first, second):
    """Two-sided p-value over every way to exchange the scores of some segments."""
    half = first - second
    signs = np.array(list(itertools.product((1, -1), repeat=len(half))))
    found = np.abs(signs @ half)
    return (found >= abs(half.sum()) - 1e-12).mean()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_p_values_are_those_of_scipy_on_the_shared_items(missing):
    given = made(missing=missing)
    (table,) = rank_systems(*given, trials=4000, samples=50)
    for one, other in table.pairs:
        first, second = shared(*given, table.systems[one], table.systems[other])
        assert table.shared[one, other] == len(first)
        test = stats.permutation_test(
            (first, second),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=4000,
            alternative="two-sided",
            rng=np.random.default_rng(1),
        )
        p_value = table.p_values[one, other]
        assert p_value == pytest.approx(test.pvalue, abs=0.03)  # both are estimates from 4000 draws
        assert table.p_values[other, one] == p_value


def test_p_values_of_few_items_are_exact():
    rng = np.random.default_rng(3)
    for differing in (3, 5, 8):
        first = rng.normal(size=10)
        second = first.copy()
        second[:differing] -= rng.uniform(0.5, 1, size=differing)  # all of them favour the first
        found = paired_randomisation(first, second, samples=20_000, bootstrap_samples=0, inclusive=True).p_value
        assert found == pytest.approx(exact_p(first, second), abs=0.01)
        assert found == pytest.approx(2 / 2**differing, abs=0.01)
        as_sacrebleu = paired_randomisation(first, second, samples=20_000, bootstrap_samples=0).p_value
        assert as_sacrebleu < 0.001 < found


def test_means_intervals_and_wins():
    given = made(missing=0.2)
    (table,) = rank_systems(*given, samples=400, trials=100)
    scores, systems, items = given
    for place, name in enumerate(table.systems):
        of = {item: score for score, system, item in zip(scores, systems, items, strict=True) if system == name}
        own = np.array([of[item] for item in dict.fromkeys(items) if item in of])
        assert table.means[place] == pytest.approx(own.mean())
        assert table.segments[place] == table.shared[place, place] == len(own)
        drawn = np.random.default_rng(12345).choice(len(own), size=(400, len(own)), replace=True)
        ordered = np.sort(own[drawn].mean(axis=1))
        assert (table.low[place], table.high[place]) == (ordered[10], ordered[389])
        won = met = 0.0
        for other in set(table.systems) - {name}:
            first, second = shared(scores, systems, items, name, other)
            won, met = won + (first > second).sum() + 0.5 * (first == second).sum(), met + len(first)
        assert table.wins[place] == pytest.approx(won / met)
    assert not table.complete


def brute_ranks(table, threshold=0.05):
    """The rule of the clusters, spelled out: a new one where a member is significantly better."""
    ranks, cluster, rank = {}, [], 1
    for one in table.order:
        if any(table.p_values[member, one] <= threshold for member in cluster):
            rank, cluster = rank + 1, []
        cluster.append(one)
        ranks[one] = rank
    return tuple(ranks[one] for one in range(len(table.systems)))


@pytest.mark.parametrize("test", ["randomisation", "bootstrap"])
@pytest.mark.parametrize("seed", range(4))
def test_ranks_follow_from_the_p_values(seed, test):
    (table,) = rank_systems(*made(gains=(0.0, 0.4, 0.1, 0.9, 0.5), seed=seed), samples=300, trials=300, test=test)
    assert table.complete
    assert table.ranks == brute_ranks(table)
    assert max(table.ranks) > 1


def test_on_complete_data_ranks_are_those_of_a_comparison():
    scores, systems, items = made(n=80)
    by_system = {name: scores[[system == name for system in systems]] for name in dict.fromkeys(systems)}
    (table,) = rank_systems(scores, systems, items, trials=500, samples=200)
    compared = compare_systems(by_system, trials=500, samples=200)
    assert table.ranks == compared.ranks
    np.testing.assert_allclose(table.means, compared.means)
    np.testing.assert_allclose(table.low, compared.low)
    for pair, (one, other) in zip(compared.pairs, table.pairs, strict=True):
        assert table.p_values[one, other] == pytest.approx(pair.randomisation.p_value, abs=2 / 501)


def test_the_bootstrap_test_is_the_paired_bootstrap():
    given = made()
    (table,) = rank_systems(*given, test="bootstrap", samples=200)
    expected = paired_bootstrap(*shared(*given, "s0", "s1"), samples=200, two_sided=True).p_value
    assert table.p_values[0, 1] == expected


def test_distances_are_better_if_they_are_small():
    scores, systems, items = made(gains=(0.0, 2.0))
    (table,) = rank_systems(scores, systems, items, samples=50, trials=200, higher_is_better=False)
    assert table.ranks == (1, 2)
    assert table.order == [0, 1]
    assert table.wins[0] > 0.9


def test_systems_that_share_too_little_are_not_told_apart():
    scores = [9.0] * 6 + [1.0] * 6
    items = [str(number) for number in [*range(6), *range(4, 10)]]
    (table,) = rank_systems(scores, ["a"] * 6 + ["b"] * 6, items, samples=20, trials=20, fewest=3)
    assert table.untested == [("a", "b")]
    assert table.ranks == (1, 1)
    (table,) = rank_systems(scores, ["a"] * 6 + ["b"] * 6, list("123456789012"), samples=20, trials=20)
    assert table.untested == [("a", "b")]
    assert table.shared[0, 1] == 2
    (table,) = rank_systems([1.0, 2.0, 3.0, 4.0], list("aabb"), list("1234"), samples=20, trials=20)
    assert np.isnan(table.wins).all()


def test_groups_are_ranked_by_themselves():
    one, other = made(seed=1), made(gains=(0.9, 0.0), seed=2)
    scores, systems, items = (np.concatenate([one[0], other[0]]), [*one[1], *other[1]], [*one[2], *other[2]])
    groups = ["x"] * len(one[0]) + ["y"] * len(other[0])
    tables = rank_systems(scores, systems, items, groups, samples=50, trials=200)
    assert [table.group for table in tables] == ["x", "y"]
    for table, alone in zip(tables, (one, other), strict=True):
        (expected,) = rank_systems(*alone, samples=50, trials=200)
        assert table.ranks == expected.ranks
        np.testing.assert_array_equal(table.p_values, expected.p_values)
    means = mean_over_groups(tables)
    assert {found.system for found in means} == {"s0", "s1"}  # the others are in one group alone
    assert [found.mean for found in means] == sorted((found.mean for found in means), reverse=True)
    first = next(found for found in means if found.system == "s0")
    assert first.mean == pytest.approx((tables[0].means[0] + tables[1].means[0]) / 2)
    assert first.rank == (tables[0].ranks[0] + tables[1].ranks[0]) / 2


def test_agreement_is_that_of_the_system_level():
    scores, systems, items = made()
    ratings = scores + np.random.default_rng(5).normal(size=len(scores))
    found = ranking_agreement(scores, ratings, systems, items, permutations=200, seed=1)
    for name in ("pearson", "kendall", "accuracy"):
        assert found[name] == system_agreement(scores, ratings, systems, statistic=name).value
    soft = soft_pairwise_accuracy(scores, ratings, items, systems, permutations=200, seed=1)
    assert found["soft-accuracy"] == soft.value
    falling = ranking_agreement(-scores, ratings, systems, items, permutations=200, seed=1, higher_is_better=False)
    assert falling == found


def long(table):
    """Scores, systems and items of rows by system; NaN where a system lacks an item."""
    cells = [(one, name, str(item)) for name, row in table.items() for item, one in enumerate(row) if not np.isnan(one)]
    return [list(one) for one in zip(*cells, strict=True)]


@pytest.mark.parametrize(("n", "ranks"), [(5, (1, 1)), (6, (2, 1))])
def test_few_segments_that_all_favour_one_system_are_no_proof(n, ranks):
    rows = {"a": np.arange(n) / 10, "b": np.arange(n) / 10 + 0.3}
    (table,) = rank_systems(*long(rows), trials=20_000, samples=20)
    assert table.p_values[0, 1] == pytest.approx(2 / 2**n, abs=0.006)  # 0.0625 and 0.031
    assert table.ranks == ranks


def test_a_higher_mean_of_easy_segments_wins_nothing():
    """The system with the better mean is worse on what both have."""
    hard, easy = np.linspace(0, 0.2, 12), np.linspace(0.8, 1, 12)
    rows = {"lucky": np.r_[hard, easy], "able": np.r_[hard + 0.1, np.full(12, np.nan)]}
    (table,) = rank_systems(*long(rows), samples=20, trials=500)
    assert table.p_values[0, 1] < 0.01
    assert table.order == [0, 1]
    assert table.ranks == (1, 1)
    assert table.wins.tolist() == [0, 1]


def test_what_meets_no_other_is_set_apart_by_nothing():
    gone = [np.nan]
    rows = {"a": [0.0] * 8 + gone * 8, "b": [1.0] * 12 + gone * 4, "c": gone * 12 + [2.0] * 4}
    (table,) = rank_systems(*long(rows), samples=20, trials=300)
    assert table.untested == [("a", "c"), ("b", "c")]
    assert table.order == [2, 1, 0]
    assert table.ranks == (2, 1, 1)  # b, which is not told from c, is better than a
    assert np.isnan(table.wins[2])


def test_equal_systems_share_everything():
    row = np.arange(10.0)
    (table,) = rank_systems(*long({"a": row, "b": row, "c": row}), samples=20, trials=20)
    assert table.ranks == (1, 1, 1)
    assert table.wins.tolist() == [0.5] * 3
    assert [table.p_values[pair] for pair in table.pairs] == [1.0] * 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scores": [1.0, np.nan]}, "finite"),
        ({"scores": [1.0]}, "a system and an item for each score"),
        ({"systems": ["a", "a"], "items": ["1", "2"]}, "at least two systems"),
        ({"systems": ["a", "a"]}, "one segment per system and item"),
        ({"samples": 0}, "`samples` to be at least 1"),
        ({"trials": 0}, "`trials` to be at least 1"),
        ({"fewest": 1}, "`fewest` to be at least 2"),
        ({"seed": -1}, "`seed` to be at least 0"),
        ({"test": "t"}, "`test` to be randomisation or bootstrap"),
        ({"scores": [], "systems": [], "items": []}, "a system and an item for each score"),
    ],
)
def test_what_cannot_be_ranked_is_refused(changed, said):
    given = {"scores": [1.0, 2.0], "systems": ["a", "b"], "items": ["1", "1"], **changed}
    with pytest.raises(InputError, match=said):
        rank_systems(**given)
