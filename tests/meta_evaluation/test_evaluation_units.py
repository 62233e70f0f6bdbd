"""Evaluations with few units, with units without a value for a metric, and with means equal but for rounding."""

import dataclasses

import numpy as np
import pytest

from textmover.meta_evaluation import MetricScores, Protocol, averaged_correlation, evaluate, preferences_from_ratings
from textmover.meta_evaluation.agreement.resampled_agreement import SystemAgreement
from textmover.meta_evaluation.evaluation import select_rows, split_groups
from textmover.report.evaluation.tables import evaluation_entry
from textmover.report.evaluation.wording import remarks
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
    result = evaluate(judgements, metrics, protocol, samples=100, permutations=0)
    assert result.notes == (() if said is None else (f"Intervals are unreliable: {said}",))
    assert evaluate(judgements, metrics, protocol, samples=0, permutations=0).notes == ()


def test_references_are_called_so_where_items_are_not_known():
    judgements, metrics = made(4, 3)
    bare = dataclasses.replace(judgements, items=None, systems=None, preferences=None)
    (note,) = evaluate(bare, metrics, samples=30, permutations=0).notes
    assert note == "Intervals are unreliable: there are only 4 references to draw from."
    sourced = dataclasses.replace(bare, references=((),) * 12, sources=tuple(one for (one,) in bare.references))
    (note,) = evaluate(sourced, metrics, samples=30, permutations=0).notes
    assert note == "Intervals are unreliable: there are only 4 sources to draw from."


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


def sparse_system(items=12, samples=300):
    """Group "b" lacks system 0 but for its first item; also return the draws, counted by hand, that lack that item."""
    judgements, _ = made(items, 4, groups=2)
    names = np.array([label.startswith("1/") and label != "1/0" for label in judgements.items])
    judgements = judgements.select(np.flatnonzero(~(names & (np.array(judgements.systems) == "system 0"))))
    rng = np.random.default_rng(0)
    rng.integers(items, size=(samples, items))  # the draws of the first group
    lacking = (rng.integers(items, size=(samples, items)) != 0).all(axis=1)
    return judgements, int(lacking.sum())


@pytest.mark.parametrize("statistic", ["accuracy", "pearson"])
def test_draws_without_a_system_are_left_out_and_counted(statistic):
    """A perfect metric is right in every draw, and one that people contradict in one group has a mean of that group."""
    judgements, lacking = sparse_system()
    human, second = judgements.ratings["score"], np.array(judgements.groups) == "group 1"
    metrics = [MetricScores("perfect", human), MetricScores("half", np.where(second, -human, human))]
    result = evaluate(judgements, metrics, Protocol(statistic, "systems"), samples=300, permutations=0)
    assert (result.metrics[0].low, result.metrics[0].high) == pytest.approx((1, 1))
    half = result.metrics[1].value
    assert half == pytest.approx(0.5 if statistic == "accuracy" else 0)
    assert (result.metrics[1].low, result.metrics[1].high) == pytest.approx((half, half))
    assert result.undefined_samples == lacking > 50


def test_too_few_draws_with_all_groups_have_no_interval():
    """A group of three segments has no correlation in 1 of 9 draws: 30 such groups all have one in (8/9)³⁰ = 3 %."""
    judgements, metrics = made(3, 1, groups=30)
    result = evaluate(judgements, metrics, samples=300, permutations=0)
    assert np.isnan([(one.low, one.high) for one in result.metrics]).all()
    assert 250 < result.undefined_samples < 300
    (note,) = result.notes
    assert note.startswith(f"No intervals: {result.undefined_samples} of 300 bootstrap draws have no value in some")
    assert note in remarks(result)
    assert evaluation_entry(result, ())["notes"] == (note,)
