"""Evaluations under every protocol against the single functions and loops, and what they leave out."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import (
    STATISTICS,
    MetricScores,
    Protocol,
    averaged_correlation,
    bootstrap_interval,
    calibrate_ties,
    darr_tau,
    evaluate,
    preferences_from_ratings,
    soft_pairwise_accuracy,
    system_agreement,
)
from textmover.types import InputError, Judgements

PROTOCOLS = [Protocol(statistic, level) for statistic, levels in STATISTICS.items() for level in levels]
GROUPS, ITEMS, SYSTEMS = 2, 10, 4


def judged(seed=0, rounded=False):
    """Two groups of ten items with outputs of four systems each, in random order, and three metrics."""
    rng = np.random.default_rng(seed)
    n = GROUPS * ITEMS * SYSTEMS
    group, item, system = np.unravel_index(rng.permutation(n), (GROUPS, ITEMS, SYSTEMS))
    human = 40 * rng.normal(size=n) + 10 * system
    if rounded:
        human = (human / 30).round()
    noise = human.std() * rng.normal(size=(3, n)) * [[0.8], [1.6], [2.4]]
    items = tuple(f"item {one}" for one in item)
    groups = tuple(f"group {one}" for one in group)
    labels = [f"{one} {other}" for one, other in zip(groups, items, strict=True)]
    judgements = Judgements(
        name="set",
        hypotheses=("x",) * n,
        references=tuple((one,) for one in labels),
        ratings={"score": human},
        groups=groups,
        items=items,
        systems=tuple(f"system {one}" for one in system),
        preferences=preferences_from_ratings(human, labels, least=0.5 if rounded else 25),
    )
    return judgements, [MetricScores(name, human + one) for name, one in zip("abc", noise, strict=True)]


def members_of(judgements, level):
    if level == "pooled":
        return {"all": np.arange(len(judgements))}
    return {name: np.flatnonzero(np.array(judgements.groups) == name) for name in dict.fromkeys(judgements.groups)}


def expected_value(judgements, scores, protocol, rows):
    """The value within one group, from the single functions."""
    human, metric = judgements.ratings["score"][rows], scores[rows]
    items = [judgements.items[row] for row in rows]
    systems = [judgements.systems[row] for row in rows]
    units = {"per-item": items, "per-system": systems}.get(protocol.level)
    if protocol.statistic == "darr":
        return darr_tau(scores, [pair for pair in judgements.preferences if pair[0] in rows]).tau
    if protocol.statistic == "soft-accuracy":
        return soft_pairwise_accuracy(metric, human, items, systems).value
    if protocol.level == "systems":
        return system_agreement(metric, human, systems, statistic=protocol.statistic).value
    if protocol.statistic in ("acc23", "tau23"):
        return getattr(calibrate_ties(metric, human, units).agreement, protocol.statistic)
    return averaged_correlation(metric, human, units, statistic=protocol.statistic).value


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
class TestEveryProtocol:
    @pytest.mark.parametrize("rounded", [False, True])
    def test_values(self, protocol, rounded):
        judgements, metrics = judged(rounded=rounded)
        result = evaluate(
            judgements, metrics, protocol, samples=0, permutations=0 if protocol.statistic != "soft-accuracy" else 1000
        )
        members = members_of(judgements, protocol.level)
        for metric, one in zip(metrics, result.metrics, strict=True):
            values = {name: expected_value(judgements, metric.scores, protocol, rows) for name, rows in members.items()}
            assert one.by_group == pytest.approx(values, abs=1e-12)
            assert one.value == pytest.approx(np.mean(list(values.values())), abs=1e-12)
            assert math.isnan(one.low)
            assert math.isnan(one.high)
        assert result.n == len(judgements)
        assert result.groups == {name: len(rows) for name, rows in members.items()}

    def test_intervals_and_tests(self, protocol):
        judgements, metrics = judged()
        result = evaluate(judgements, metrics, protocol, baseline="b", samples=300, permutations=200)
        if protocol.statistic == "soft-accuracy":
            assert np.isnan(result.p_values).all()
            assert all(math.isnan(one.low) and one.rank is None for one in result.metrics)
            assert result.notes == (
                "No intervals: soft accuracy has no bootstrap.",
                "No tests: soft accuracy has no permutation test.",
            )
            return
        for one in result.metrics:
            # With four systems a drawn correlation varies too little or too much for a stricter bound.
            assert one.low <= one.value + 0.05
            assert one.value - 0.05 <= one.high
            assert one.low < one.high
        if protocol.statistic in ("acc23", "tau23") and protocol.level in ("per-group", "pooled"):
            assert np.isnan(result.p_values).all()
            assert "a single unit" in result.notes[0]
            return
        best, _, worst = result.metrics
        few = [one for one in result.notes if "Intervals are unreliable: fewer than 10 " in one]
        assert list(result.notes) == few
        # Systems are four in each group; of the ten items one has no preference.
        assert len(few) == (protocol.level == "per-system" or str(protocol) == "darr per-group")
        assert best.better is (best.gain > 0)
        assert best.p_value == (result.p_values[0, 1] if best.gain > 0 else result.p_values[1, 0])
        assert 0 < result.p_values[0, 2] <= 1
        if protocol.level not in ("systems", "per-system"):
            assert best.rank == 1 < worst.rank
        assert math.isnan(result.metric("b").gain)

    def test_distances_are_negated(self, protocol):
        judgements, metrics = judged(rounded=True)
        turned = [MetricScores(one.name, -one.scores, higher_is_better=False) for one in metrics]
        options = {"samples": 20, "permutations": 20}
        one, other = (evaluate(judgements, scores, protocol, **options) for scores in (metrics, turned))
        for before, after in zip(one.metrics, other.metrics, strict=True):
            assert (before.value, before.low, before.high) == pytest.approx(
                (after.value, after.low, after.high), nan_ok=True
            )
        np.testing.assert_array_equal(one.p_values, other.p_values)


class TestIntervals:
    @pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall", "kendall-c"])
    def test_same_as_alone(self, statistic):
        judgements, metrics = judged()
        result = evaluate(judgements, metrics, Protocol(statistic), samples=50, seed=3, permutations=0)
        for metric, one in zip(metrics, result.metrics, strict=True):
            human = judgements.ratings["score"]
            clusters = [references[0] for references in judgements.references]
            alone = bootstrap_interval(
                metric.scores, human, judgements.groups, statistic=statistic, samples=50, seed=3, clusters=clusters
            )
            assert (one.value, one.low, one.high) == pytest.approx(alone[:3], abs=1e-12)

    def test_same_by_references_and_by_sources_as_by_items(self):
        judgements, metrics = judged()
        without = dataclasses.replace(judgements, items=None)
        bare = dataclasses.replace(without, references=((),) * len(judgements))
        by_source = dataclasses.replace(bare, sources=tuple(references[0] for references in judgements.references))
        sets = (judgements, without, by_source, bare)
        results = [evaluate(one, metrics, samples=50, permutations=0).metrics[0] for one in sets]
        assert results[0].low == results[1].low == results[2].low != results[3].low

    @pytest.mark.parametrize("statistic", ["acc23", "tau23"])
    def test_pairwise_draws_by_hand(self, statistic):
        """Of a drawn sample, only pairs of different segments are compared, with the thresholds kept."""
        judgements, metrics = judged(rounded=True)
        one_group = judgements.select(np.arange(12))
        alone = dataclasses.replace(one_group, items=None, references=((),) * 12, groups=("all",) * 12)
        scores = metrics[0].scores[:12]
        result = evaluate(alone, [MetricScores("a", scores)], Protocol(statistic), samples=30, permutations=0)
        epsilon = result.metrics[0].epsilons["all"]
        rng, human, values = np.random.default_rng(0), alone.ratings["score"], []
        drawn = rng.integers(12, size=(30, 12))
        for rows in drawn:
            agrees = [
                (0 if abs(scores[i] - scores[j]) <= epsilon else np.sign(scores[i] - scores[j]))
                == np.sign(human[i] - human[j])
                for place, i in enumerate(rows)
                for j in rows[:place]
                if i != j
            ]
            values.append(np.mean(agrees) if statistic == "acc23" else 2 * np.mean(agrees) - 1)
        assert result.metrics[0].low == pytest.approx(np.quantile(values, 0.025))
        assert result.metrics[0].high == pytest.approx(np.quantile(values, 0.975))

    def test_width_per_item_is_that_of_theory(self):
        judgements, metrics = judged()
        result = evaluate(judgements, metrics, Protocol("pearson", "per-item"), samples=4000, permutations=0)
        by_unit = [
            list(averaged_correlation(metrics[2].scores[rows], judgements.ratings["score"][rows],
                                      [judgements.items[row] for row in rows]).by_unit.values())
            for rows in members_of(judgements, "per-item").values()
        ]  # fmt: skip
        error = math.sqrt(sum(np.var(one) / len(one) for one in by_unit)) / 2
        assert result.metrics[2].high - result.metrics[2].low == pytest.approx(2 * 1.96 * error, rel=0.1)

    def test_system_draws_by_hand(self):
        """One item drawn means all its outputs drawn."""
        judgements, metrics = judged()
        rows = np.flatnonzero(np.array(judgements.groups) == judgements.groups[0])
        group = judgements.select(rows)
        scores = metrics[1].scores[rows]
        result = evaluate(group, [MetricScores("b", scores)], Protocol("pearson", "systems"), samples=40)
        names, rng = list(dict.fromkeys(group.items)), np.random.default_rng(0)
        values = []
        for drawn in rng.integers(ITEMS, size=(40, ITEMS)):
            taken = [row for number in drawn for row in range(len(rows)) if group.items[row] == names[number]]
            systems = [group.systems[row] for row in taken]
            values.append(system_agreement(scores[taken], group.ratings["score"][taken], systems).value)
        expected = np.quantile(values, [0.025, 0.975])
        assert (result.metrics[0].low, result.metrics[0].high) == pytest.approx(tuple(expected))

    def test_one_thing_to_draw(self):
        judgements, metrics = judged()
        same = dataclasses.replace(judgements, items=("one",) * len(judgements))
        result = evaluate(same, metrics, permutations=0)
        assert math.isnan(result.metrics[0].low)
        assert result.notes == (f"No intervals: group {judgements.groups[0]} has a single cluster to resample.",)


class TestTests:
    @pytest.mark.parametrize("protocol", [one for one in PROTOCOLS if one.statistic != "soft-accuracy"], ids=str)
    def test_uniform_where_nothing_differs(self, protocol):
        p_values = []
        for seed in range(60):
            judgements, metrics = judged(seed, rounded=protocol.statistic in ("acc23", "tau23"))
            human, rng = judgements.ratings["score"], np.random.default_rng((seed, 1))
            spread = human.std()
            two = [MetricScores(name, human + spread * rng.normal(size=len(human))) for name in "ab"]
            result = evaluate(judgements, two, protocol, samples=0, permutations=60)
            if np.isnan(result.p_values).all():
                return  # no test under this protocol
            p_values.append(result.p_values[0, 1])
            assert len(metrics) == 3
        assert np.mean(np.array(p_values) <= 0.1) < 0.24  # of 60, P(more) < .001
        assert np.mean(np.array(p_values) >= 0.5) > 0.28

    @pytest.mark.parametrize("protocol", ["darr pooled", "pearson pooled", "pearson systems", "accuracy systems"])
    def test_by_loop(self, protocol):
        judgements, metrics = judged(rounded=protocol == "darr pooled")
        statistic, level = protocol.split()
        if level == "systems":
            rows = np.flatnonzero(np.array(judgements.groups) == judgements.groups[0])
            judgements, metrics = judgements.select(rows), [MetricScores(one.name, one.scores[rows]) for one in metrics]

        def value(scores):
            if statistic == "darr":
                return darr_tau(scores, judgements.preferences).tau
            if level == "pooled":
                return averaged_correlation(scores, judgements.ratings["score"]).value
            return system_agreement(scores, judgements.ratings["score"], judgements.systems, statistic=statistic).value

        result = evaluate(judgements, metrics[:2], Protocol(statistic, level), samples=0, permutations=80, seed=4)
        signs = np.random.default_rng((4, 1)).integers(2, size=(80, len(judgements)), dtype=np.int8)
        scaled = stats.zscore([one.scores for one in metrics[:2]], axis=1)
        found = []
        for row in np.concatenate([np.ones((1, len(judgements))), signs]):
            one, other = np.where(row > 0, scaled, scaled[::-1])
            found.append(value(one) - value(other))
        assert result.p_values[0, 1] == pytest.approx((1 + sum(np.array(found[1:]) >= found[0] - 1e-9)) / 81)
        if statistic == "darr":
            assert result.metrics[0].value - result.metrics[1].value == pytest.approx(found[0])

    def test_ties_exchange_whole_items(self):
        judgements, metrics = judged(rounded=True)
        result = evaluate(judgements, metrics, Protocol("acc23", "per-item"), samples=0, permutations=500)
        assert result.p_values[0, 2] < 0.05 < 0.9 < result.p_values[2, 0]


class TestLeftOut:
    def test_missing_rows_go_for_all(self):
        judgements, metrics = judged()
        judgements.ratings["score"][[0, 1]] = math.nan
        metrics[0].scores[[1, 2, 3]] = math.nan
        result = evaluate(judgements, metrics, samples=0, permutations=0)
        assert result.missing == {"rating": 2, "a": 3}
        assert (result.left_out, result.n) == (4, 76)
        alone = evaluate(judgements.select(np.arange(4, 80)), [MetricScores("b", metrics[1].scores[4:])], samples=0)
        assert result.metric("b").value == alone.metrics[0].value

    def test_lost_preferences(self):
        judgements, metrics = judged()
        row = int(judgements.preferences[0, 0])
        metrics[0].scores[row] = math.nan
        judgements.ratings["score"][:] = math.nan  # not looked at
        result = evaluate(judgements, metrics, Protocol("darr"), samples=0, permutations=0)
        assert result.lost_preferences == (judgements.preferences == row).any(axis=1).sum()
        assert result.missing == {"a": 1}
        assert result.dimension is None
        torn = dataclasses.replace(judgements, groups=tuple(map(str, range(80))))
        with pytest.raises(InputError, match="no preference"):
            evaluate(torn, metrics, Protocol("darr"))
        assert evaluate(torn, metrics, Protocol("darr", "pooled"), samples=0).metrics[0].units > 0

    def test_groups_are_named(self):
        judgements, metrics = judged()
        groups = np.array(judgements.groups, dtype=object)
        groups[:2], groups[2:6], groups[6:10] = "short", "same", "flat"
        judgements.ratings["score"][2:6] = 5.0
        metrics[1].scores[6:10] = 0.3
        result = evaluate(dataclasses.replace(judgements, groups=tuple(groups)), metrics, samples=20, permutations=10)
        assert result.excluded == (
            ("short", "fewer than 3 segments", 2),
            ("same", "all ratings are equal", 4),
            ("flat", "b: its scores are all equal", 4),
        )
        assert list(result.groups) == ["group 0", "group 1"] or list(result.groups) == ["group 1", "group 0"]
        assert result.n == 70
        assert math.isnan(result.metric("b").by_group["flat"])
        assert not math.isnan(result.metric("a").by_group["flat"])

    @pytest.mark.parametrize(
        ("statistic", "reason"),
        [("soft-accuracy", "all ratings are equal"), *((one, "the mean ratings of its systems are all equal")
                                                       for one in ("pearson", "accuracy"))],
    )  # fmt: skip
    def test_a_group_of_equal_ratings_orders_no_systems(self, statistic, reason):
        judgements, metrics = judged()
        ratings = np.where(np.array(judgements.groups) == "group 0", 3.0, judgements.ratings["score"])
        equal = dataclasses.replace(judgements, ratings={"score": ratings})
        result = evaluate(equal, metrics, Protocol(statistic, "systems"), samples=20, permutations=20)
        assert result.excluded == (("group 0", reason, 40),)

    def test_a_metric_without_any_value_spares_the_others(self):
        judgements, metrics = judged()
        constant = MetricScores("constant", np.full(len(judgements), 0.3))
        options = {"samples": 20, "permutations": 20, "baseline": "a"}
        result = evaluate(judgements, [*metrics, constant], **options)
        alone = evaluate(judgements, metrics, **options)
        assert result.excluded == (("constant", "its scores are all equal", 80),)
        last = result.metrics[-1]
        assert math.isnan(last.value)
        assert math.isnan(last.low)
        assert math.isnan(last.p_value)
        assert (last.rank, last.better) == (None, None)
        assert result.ranked()[-1] is last
        assert [(one.value, one.low, one.rank) for one in result.metrics[:3]] == [
            (one.value, one.low, one.rank) for one in alone.metrics
        ]
        np.testing.assert_array_equal(result.p_values[:3, :3], alone.p_values)

    def test_nothing_but_constant_metrics(self):
        judgements, _ = judged()
        result = evaluate(judgements, [MetricScores(name, np.ones(80)) for name in "ab"], baseline="a")
        assert all(math.isnan(one.value) and math.isnan(one.low) and one.rank is None for one in result.metrics)
        assert [one.name for one in result.excluded] == ["a", "b"]

    def test_units_are_named(self):
        judgements, metrics = judged()
        items = np.array([f"{one}{other}" for one, other in zip(judgements.groups, judgements.items, strict=True)])
        flat, same = (np.flatnonzero(items == name) for name in dict.fromkeys(items.tolist()[:2]))
        metrics[0].scores[flat] = 0.5
        judgements.ratings["score"][same] = 7.0
        result = evaluate(judgements, metrics, Protocol("pearson", "per-item"), samples=20, permutations=20)
        names = [f"{judgements.groups[rows[0]]} / {judgements.items[rows[0]]}" for rows in (flat, same)]
        assert result.metric("a").undefined == (names[0],)
        assert (result.metric("a").undefined_segments, result.metric("b").undefined_segments) == (4, 0)
        assert (result.metric("a").units, result.metric("b").units) == (18, 19)
        assert result.excluded == ((names[1], "all ratings are equal", 4),)

    def test_pairs_of_systems_are_named(self):
        judgements, metrics = judged()
        lonely = [row for row in range(80) if judgements.systems[row] == "system 0"]
        items = tuple(f"{one} alone" if row in lonely else one for row, one in enumerate(judgements.items))
        result = evaluate(dataclasses.replace(judgements, items=items), metrics, Protocol("soft-accuracy", "systems"))
        assert len(result.excluded) == 6
        assert all(one.reason == "no item in common" and "system 0" in one.name for one in result.excluded)
        assert result.metrics[0].units == 6


class TestBadInput:
    def test_metrics(self):
        judgements, metrics = judged()
        for scores, message in (
            ([], "at least one metric"),
            ([metrics[0], metrics[0], metrics[1]], "different names, but got a twice"),
            ([MetricScores("d", np.arange(3))], "Expected 80 scores of 'd', one for each text of set, but got 3"),
            ([MetricScores("d", np.full(80, math.nan))], r"but got none of 80 \(missing: d for 80\)"),
        ):
            with pytest.raises(InputError, match=message):
                evaluate(judgements, scores)
        for scores, message in (
            ([1, 2, math.inf], "infinity for 1 of 3 segments"),
            ([[1, 2]], r"of shape \[n\], but got \[1, 2\]"),
            (["x"], "scores of 'd' to be numbers"),
        ):
            with pytest.raises(InputError, match=message):
                MetricScores("d", scores)

    def test_options(self):
        judgements, metrics = judged()
        for options, message in (
            ({"baseline": "z"}, "baseline to be a, b, c, but got 'z'"),
            ({"samples": -1}, "`samples` to be at least 0, but got -1"),
            ({"permutations": -1}, "`permutations` to be at least 0"),
            ({"level": 95}, "between 0 and 1, but got 95"),
            ({"dimension": "fluency"}, "dimension to be score, but got 'fluency'"),
        ):
            with pytest.raises(InputError, match=message):
                evaluate(judgements, metrics, **options)
        with pytest.raises(InputError, match="a, b, c, but got 'z'"):
            evaluate(judgements, metrics, samples=0, permutations=0).metric("z")

    def test_ratings(self):
        judgements, metrics = judged()
        two = dataclasses.replace(judgements, ratings={"x": np.arange(80.0), "y": np.arange(80.0)})
        with pytest.raises(InputError, match="ratings of set, which has x, y: name one"):
            evaluate(two, metrics)
        assert evaluate(two, metrics, dimension="y", samples=0, permutations=0).dimension == "y"
        judgements.ratings["score"][3] = math.inf
        with pytest.raises(InputError, match="infinity for 1"):
            evaluate(judgements, metrics)

    def test_nothing_left(self):
        judgements, metrics = judged()
        alone = dataclasses.replace(judgements, groups=tuple(map(str, range(80))))
        with pytest.raises(InputError, match=r"none .0: fewer than 3 segments; 1: "):
            evaluate(alone, metrics)
        flat = [MetricScores(name, np.where(np.array(judgements.groups) == f"group {number}", 0.1, one.scores))
                for number, (name, one) in enumerate(zip("ab", metrics, strict=False))]  # fmt: skip
        with pytest.raises(InputError, match=r"every metric has a value, but got none: group .*all equal"):
            evaluate(judgements, flat)
