"""Evaluations with few units, with units without a value for a metric, and with means equal but for rounding."""

import dataclasses

import numpy as np
import pytest

from textmover.meta_evaluation import MetricScores, Protocol, averaged_correlation, evaluate, preferences_from_ratings
from textmover.meta_evaluation.agreement.group_agreement import SystemAgreement
from textmover.meta_evaluation.evaluation import select_rows, split_groups
from textmover.types import Judgements


def made(items, systems, groups=1, *, known=True, seed=0):
    """Groups of so many items with outputs of so many systems each, and two metrics."""
    rng = np.random.default_rng(seed)
    n = items * systems * groups
    group, item, system = np.unravel_index(np.arange(n), (groups, items, systems))
    human = 40 * rng.normal(size=n)
    labels = tuple(f"{one}/{other}" for one, other in zip(group, item, strict=True))
    judgements = Judgements(
        name="set",
        hypotheses=("x",) * n,
        references=tuple((one,) for one in labels) if known else ((),) * n,
        ratings={"score": human},
        groups=tuple(f"group {one}" for one in group),
        items=labels if known else None,
        systems=tuple(f"system {one}" for one in system),
        preferences=preferences_from_ratings(human, labels, least=1),
    )
    return judgements, [MetricScores(name, human + 30 * rng.normal(size=n)) for name in "ab"]


BARE = {"systems": 1, "known": False}


@pytest.mark.parametrize(
    ("protocol", "size", "said"),
    [
        (Protocol(), {"items": 9, **BARE}, "there are only 9 segments to draw from."),
        (Protocol(), {"items": 10, **BARE}, None),
        (Protocol(), {"items": 9, "systems": 4}, "there are only 9 items to draw from."),
        (Protocol("pearson", "pooled"), {"items": 3, **BARE}, "there are only 3 segments to draw from."),
        (Protocol("pearson", "per-system"), {"items": 20, "systems": 2}, "there are only 2 systems to draw from."),
        (Protocol("acc23", "per-item"), {"items": 2, "systems": 4}, "there are only 2 items to draw from."),
        (Protocol("kendall", "systems"), {"items": 9, "systems": 4}, "there are only 9 items to draw from."),
        (Protocol("darr"), {"items": 9, "systems": 4}, "there are only 9 items to draw from."),
        (Protocol("darr"), {"items": 10, "systems": 4}, None),
        (
            Protocol(),
            {"items": 3, "systems": 1, "groups": 4},
            "fewer than 10 items to draw from in 4 of 4 groups, only 3 in group 0.",
        ),
    ],
    ids=str,
)
def test_few_to_draw_are_said(protocol, size, said):
    judgements, metrics = made(**size)
    result = evaluate(judgements, metrics, protocol, samples=30, permutations=0)
    assert result.notes == (() if said is None else (f"Intervals are unreliable: {said}",))
    assert evaluate(judgements, metrics, protocol, samples=0, permutations=0).notes == ()


def test_references_are_called_so_where_items_are_not_known():
    judgements, metrics = made(4, 3)
    bare = dataclasses.replace(judgements, items=None, systems=None, preferences=None)
    (note,) = evaluate(bare, metrics, samples=30, permutations=0).notes
    assert note == "Intervals are unreliable: there are only 4 references to draw from."


@pytest.mark.parametrize("statistic", ["pearson", "kendall"])
@pytest.mark.parametrize("permutations", [0, 50])
def test_gains_are_over_the_units_that_the_test_compares(statistic, permutations):
    """Two items on which one metric has no value are in neither its gain nor its p-value."""
    judgements, metrics = made(10, 4, 2)
    items = np.array(judgements.items)
    for name in ("0/0", "1/3"):
        metrics[0].scores[items == name] = 0.5
    protocol = Protocol(statistic, "per-item")
    result = evaluate(judgements, metrics, protocol, baseline="b", permutations=permutations, samples=0)
    gains = []
    for group in dict.fromkeys(judgements.groups):
        rows = np.flatnonzero(np.array(judgements.groups) == group)
        human, units = judgements.ratings["score"][rows], items[rows].tolist()
        one, other = (
            averaged_correlation(metric.scores[rows], human, units, statistic=statistic).by_unit for metric in metrics
        )
        gains.append(np.nanmean([one[unit] - other[unit] for unit in one]))
    metric = result.metric("a")
    assert metric.gain == pytest.approx(np.mean(gains))
    assert abs(metric.gain - (metric.value - result.metric("b").value)) > 1e-3


def test_a_metric_on_another_scale_is_no_better():
    judgements, (metric, _) = made(10, 4)
    scaled = [MetricScores(f"{factor} times", factor * metric.scores) for factor in (0.1, 3.0, 7.7)]
    result = evaluate(judgements, [metric, *scaled], baseline="a", samples=0, permutations=50)
    assert {(one.gain, one.better, one.p_value) for one in result.metrics[1:]} == {(0.0, None, 1.0)}


def test_means_that_are_equal_but_for_rounding_are_ties_in_draws_and_tests_too():
    """Two systems have the same score for the same item, in files of another order, and people find both equal."""
    size = 12
    rng = np.random.default_rng(0)
    order = rng.permutation(size)
    items = np.concatenate([np.arange(size), order, np.arange(size)])
    systems = np.repeat(list("abc"), size)
    judgements = Judgements(
        name="set",
        hypotheses=("x",) * 3 * size,
        references=(("r",),) * 3 * size,
        ratings={"score": np.repeat([1.0, 1.0, 2.0], size)},
        groups=("all",) * 3 * size,
        items=tuple(f"i{item}" for item in items),
        systems=tuple(systems),
    )
    columns = [rng.normal(size=size)[items] + 9 * (systems == "c") for _ in range(4)]
    metrics = [MetricScores(f"m{number}", column) for number, column in enumerate(columns)]
    protocol = Protocol("accuracy", "systems")
    result = evaluate(judgements, metrics, protocol, samples=200, permutations=50)
    assert [(metric.value, metric.low, metric.high) for metric in result.metrics] == [(1, 1, 1)] * 4
    (group,) = split_groups(select_rows(judgements, metrics, protocol, None), protocol)
    unchanged = SystemAgreement(group, protocol).swapped(np.ones((1, 3 * size)))
    assert not unchanged.any()
    found = SystemAgreement(group, protocol).draws(200, np.random.default_rng(0))
    assert (found == 1).all()
