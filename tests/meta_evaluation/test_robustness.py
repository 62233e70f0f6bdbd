"""Robustness against counting by hand, SciPy, and laws that hold whatever the scores."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.agreement.labels import bootstrap_share
from textmover.meta_evaluation.robustness import Versions, robustness
from textmover.types import InputError

KEEPING = ("synonym", "passive")
PLAN = {"drop": (1, 2), "swap": (1,), "synonym": (1, 2), "passive": (1,), "unrelated": (1,)}
TEXTS = 30


@pytest.fixture(scope="module")
def versions() -> Versions:
    """Versions of which every kind but the yardstick lacks some texts."""
    rng = np.random.default_rng(3)
    rows = [
        (text, kind, degree, min(1.0, 0.1 * degree + rng.random() / 2))
        for text, (kind, degrees) in itertools.product(range(TEXTS), PLAN.items())
        for degree in degrees
        if kind == "unrelated" or rng.random() < 0.7
    ]
    owners, kinds, degrees, severities = zip(*rows, strict=True)
    return Versions(TEXTS, np.array(owners), kinds, degrees, np.array(severities))


@pytest.fixture(scope="module")
def scores(versions) -> MetricScores:
    """Scores that fall with severity, with noise, and in tens of ties."""
    rng = np.random.default_rng(4)
    values = 0.9 - 0.5 * versions.severities + 0.2 * rng.normal(size=len(versions))
    return MetricScores("a", np.concatenate([np.full(TEXTS, 1.0), np.round(values, 1)]))


def judged(versions, scores, **options):
    (metric,) = robustness(versions, [scores], keeping=KEEPING, **{"samples": 200, **options}).metrics
    return metric


def by_hand(versions, scores):
    """Owner, kind, degree, drop of every version."""
    drops = [float(scores.scores[one] - scores.scores[TEXTS + row]) for row, one in enumerate(versions.owners)]
    return list(zip(versions.owners.tolist(), versions.kinds, versions.degrees, drops, strict=True))


def test_drops_and_shares_are_those_counted_by_hand(versions, scores):
    rows = by_hand(versions, scores)
    worst = {owner: drop for owner, kind, _, drop in rows if kind == "unrelated"}
    metric = judged(versions, scores)
    assert [one.kind for one in metric.kinds] == list(dict.fromkeys(versions.kinds))
    assert metric.unit == pytest.approx(np.mean(list(worst.values())))
    for one in (*metric.kinds, *metric.by_degree):
        mine = [row for row in rows if row[1] == one.kind and one.degree in (None, row[2])]
        drops = [drop for *_, drop in mine]
        assert (one.versions, one.texts) == (len(mine), len({owner for owner, *_ in mine}))
        assert one.drop.estimate == pytest.approx(np.mean(drops))
        assert one.share.estimate == pytest.approx(sum(drops) / sum(worst[owner] for owner, *_ in mine))
        assert one.below.estimate == pytest.approx(np.mean([drop > 1e-9 for drop in drops]))
        assert one.drop.low < one.drop.estimate < one.drop.high
        assert one.keeping == (one.kind in KEEPING)
    assert {(one.kind, one.degree) for one in metric.by_degree} == {
        (kind, degree) for kind in ("drop", "synonym") for degree in (1, 2)
    }


def test_pairs_and_auc_take_the_mildest_versions(versions, scores):
    rows = by_hand(versions, scores)
    mildest = {kind: min(degree for _, other, degree, _ in rows if other == kind) for kind in PLAN}
    mild = [row for row in rows if row[2] == mildest[row[1]]]
    kept = [row for row in mild if row[1] in KEEPING]
    metric = judged(versions, scores)
    for one in metric.kinds:
        if one.keeping:
            assert (one.pairs, math.isnan(one.below_keeping.estimate), math.isnan(one.auc.estimate)) == (0, True, True)
            continue
        mine = [row for row in mild if row[1] == one.kind]
        pairs = [(a[3], b[3]) for a, b in itertools.product(mine, kept) if a[0] == b[0]]
        assert one.pairs == len(pairs)
        assert one.below_keeping.estimate == pytest.approx(np.mean([a > b + 1e-9 for a, b in pairs]))
        # The Mann-Whitney statistic over all pairs is the AUC, ties counted one half; rounded, so that ties are ties.
        mine, others = (np.round([row[3] for row in part], 6) for part in (mine, kept))
        assert one.auc.estimate == pytest.approx(stats.mannwhitneyu(mine, others).statistic / len(mine) / len(others))
        assert one.auc.low <= one.auc.estimate <= one.auc.high
    harmful = [one for one in metric.kinds if one.kind in ("drop", "swap")]
    assert metric.auc.estimate == pytest.approx(np.mean([one.auc.estimate for one in harmful]))
    assert metric.harmful.estimate == pytest.approx(np.mean([one.share.estimate for one in harmful]))
    assert metric.below_keeping.estimate == pytest.approx(np.mean([one.below_keeping.estimate for one in harmful]))


def test_correlation_with_severity_is_scipys(versions, scores):
    metric = judged(versions, scores)
    given = scores.scores[TEXTS:]
    for one in (*metric.kinds, None):
        rows = [row for row, kind in enumerate(versions.kinds) if one is None or kind == one.kind]
        found = metric if one is None else one
        goodness = -versions.severities[rows]
        assert found.spearman.estimate == pytest.approx(stats.spearmanr(given[rows], goodness).statistic)
        assert found.kendall == pytest.approx(stats.kendalltau(given[rows], goodness).statistic)
        assert found.spearman.low < found.spearman.estimate < found.spearman.high
    equal = replace(versions, severities=np.full(len(versions), 0.5))
    assert math.isnan(judged(equal, scores).spearman.estimate)


def test_the_unit_of_a_metric_does_not_matter_and_distances_are_turned_round(versions, scores):
    metric = judged(versions, scores)
    other = judged(versions, MetricScores("b", 100 - 40 * scores.scores, higher_is_better=False))
    assert other.unit == pytest.approx(40 * metric.unit)
    for one, two in zip(metric.kinds, other.kinds, strict=True):
        assert two.drop[:3] == pytest.approx([40 * value for value in one.drop[:3]])
        for name in ("share", "below", "below_keeping", "auc", "spearman"):
            assert getattr(two, name)[:3] == pytest.approx(getattr(one, name)[:3], nan_ok=True), name


def test_intervals_are_those_of_drawing_texts(versions, scores):
    metric = judged(versions, scores, samples=4000)
    one = next(each for each in metric.kinds if each.kind == "drop")
    rows = [row for row in by_hand(versions, scores) if row[1] == "drop"]
    expected = bootstrap_share(
        [float(drop > 1e-9) for *_, drop in rows], [str(owner) for owner, *_ in rows], samples=4000
    )
    assert one.below.estimate == pytest.approx(expected.estimate)
    assert (one.below.low, one.below.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    assert judged(versions, scores, seed=5).auc == judged(versions, scores, seed=5).auc
    assert judged(versions, scores, seed=5).auc != judged(versions, scores, seed=6).auc


def test_a_metric_that_sees_nothing_and_one_that_sees_everything(versions):
    blind = judged(versions, MetricScores("blind", np.ones(TEXTS + len(versions))))
    assert blind.unit == 0
    assert {one.below.estimate for one in blind.kinds} == {0.0}
    assert all(math.isnan(one.share.estimate) for one in blind.kinds)  # a unit that does not drop measures nothing
    assert blind.auc.estimate == 0.5
    rounding = 1e-9 * np.random.default_rng(0).normal(size=len(versions))
    harm = np.array([float(kind not in KEEPING) for kind in versions.kinds])
    perfect = judged(versions, MetricScores("perfect", np.concatenate([np.ones(TEXTS), 1 - harm + rounding])))
    assert (perfect.auc.estimate, perfect.below_keeping.estimate) == (1.0, 1.0)
    assert (perfect.harmful.estimate, perfect.keeping.estimate) == pytest.approx((1.0, 0.0), abs=1e-8)
    # What differs by rounding alone is equal.
    assert {one.below.estimate for one in perfect.kinds if one.keeping} == {0.0}


def test_without_yardstick_without_kept_kinds_and_with_one_text():
    few = Versions(2, np.array([0, 1, 0]), ("drop", "drop", "entity"), (1, 1, 1), np.array([0.2, 0.4, 0.3]))
    (metric,) = robustness(few, [MetricScores("a", [1, 1, 0.5, 0.7, 0.2])], samples=50).metrics
    assert math.isnan(metric.unit)
    assert math.isnan(metric.kinds[0].share.estimate)
    assert metric.kinds[0].drop.estimate == pytest.approx(0.4)
    assert all(math.isnan(value) for value in (*metric.auc[:3], *metric.keeping[:3], *metric.below_keeping[:3]))
    entity = metric.kinds[1]  # of one text: every draw that has it is the same
    assert entity.drop.estimate == pytest.approx(0.8)
    assert np.isnan([entity.drop.low, entity.drop.high]).all()


def test_a_mean_with_a_kind_that_cannot_be_drawn_has_no_interval():
    rows = [(0, "synonym", 0.9), (0, "swap", 0.95), (1, "swap", 0.5), (0, "entity", 0.2)]
    owners, kinds, scores = zip(*rows, strict=True)
    few = Versions(2, np.array(owners), kinds, (1,) * len(rows), np.full(len(rows), 0.1))
    (metric,) = robustness(few, [MetricScores("a", [1, 1, *scores])], keeping=KEEPING, samples=50).metrics
    assert metric.auc.estimate == pytest.approx((0.5 + 1) / 2)  # swap: 1 of 2; entity, of the text of synonym alone: 1
    assert np.isnan([metric.auc.low, metric.auc.high]).all()


def test_a_mean_over_kinds_counts_draws_that_have_all_of_them():
    """One kind drops like an unrelated text, one of two texts not at all: their mean is .5, in any draw that has it."""
    rows = [(text, kind, drop) for text in range(10) for kind, drop in (("unrelated", 1), ("swap", 1))]
    owners, kinds, drops = zip(*rows, (0, "entity", 0), (1, "entity", 0), strict=True)
    rare = Versions(10, np.array(owners), kinds, (1,) * 22, np.full(22, 0.1))
    (metric,) = robustness(rare, [MetricScores("a", [1] * 10 + [1 - drop for drop in drops])], samples=1000).metrics
    assert metric.harmful[:3] == (0.5, 0.5, 0.5)
    assert metric.harmful.undefined == pytest.approx(1000 * 0.8**10, rel=0.3)


def test_several_metrics_keep_their_order_and_do_not_touch_one_another(versions, scores):
    second = MetricScores("b", -scores.scores, signature="s")
    found = robustness(versions, [scores, second], keeping=KEEPING, samples=50)
    assert [one.name for one in found.metrics] == ["a", "b"]
    assert found.metrics[1].signature == "s"
    assert found.metrics[0].auc == judged(versions, scores, samples=50).auc
    assert (found.texts, found.versions, found.samples) == (TEXTS, len(versions), 50)


def test_bad_input(versions, scores):
    with pytest.raises(InputError, match="Expected scores of a for 30 texts and"):
        robustness(versions, [MetricScores("a", scores.scores[:-1])])
    with pytest.raises(InputError, match="NaN or infinity"):
        robustness(versions, [MetricScores("a", np.full(len(scores.scores), math.nan))])
    with pytest.raises(InputError, match="`samples` to be a whole number from 20 to 1,000,000, but got 19"):
        robustness(versions, [scores], samples=19)
    with pytest.raises(InputError, match="Expected owners from 0 to 1, but got 0 to 2"):
        Versions(2, np.array([0, 2]), ("a", "a"), (1, 1), np.zeros(2))
    with pytest.raises(InputError, match="at least one version"):
        Versions(2, np.array([], dtype=int), (), (), np.zeros(0))
    with pytest.raises(InputError, match="give one of each per version"):
        Versions(2, np.array([0, 1]), ("a",), (1, 1), np.zeros(2))
