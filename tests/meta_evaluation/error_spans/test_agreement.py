"""Agreement of a set: groups, kinds, calibration, intervals and tests."""

import numpy as np
import pytest

from textmover.meta_evaluation import compare_errors, judge_errors
from textmover.meta_evaluation.error_spans.agreement import all_figures
from textmover.types import InputError
from textmover.types.error_spans import ErrorSpan, MarkedSegment, TextErrors

TEXT = "aa bb cc dd ee"
WORDS = tuple((3 * place, 3 * place + 2) for place in range(5))


def judged(seed: int, right: float, size: int = 60, groups=("x", "y")):
    """Gold, and errors that agree with it for a share of the words."""
    rng = np.random.default_rng(seed)
    gold, found = [], []
    for number in range(size):
        tags = rng.random(5) < 0.3
        guess = np.where(rng.random(5) < right, tags, ~tags)
        probabilities = np.where(guess, 0.8, 0.2) + rng.uniform(-0.1, 0.1, 5)
        errors, marks = (
            tuple(ErrorSpan(*WORDS[place]) for place in np.flatnonzero(one).tolist()) for one in (tags, guess)
        )
        keys = {"lp": groups[number % len(groups)], "kind": ("number", "name")[number % 2]}
        gold.append(MarkedSegment(TEXT, errors, words=WORDS, groups=keys))
        found.append(TextErrors(TEXT, marks, WORDS, probabilities, np.zeros(6)))
    return gold, found


def test_figures_are_means_over_groups():
    gold, found = judged(0, 0.8)
    together = judge_errors(gold, found, "lp", samples=20)
    assert dict(together.groups) == {"x": 30, "y": 30}
    for name, one in together.figures.items():
        parts = [together.by_group[group][name] for group in "xy"]
        assert one.estimate == pytest.approx(np.nanmean(parts) if not np.isnan(parts).all() else np.nan, nan_ok=True)
    alone = [place for place, one in enumerate(gold) if one.groups["lp"] == "x"]
    of_x = judge_errors([gold[place] for place in alone], [found[place] for place in alone], samples=0)
    assert of_x.figures["mcc_words"].estimate == together.by_group["x"]["mcc_words"]
    assert np.isnan(of_x.figures["mcc_words"].low)
    assert "60 segments, mean over 2 groups" in repr(together)


def test_a_group_without_errors_is_left_out_of_what_it_has_none_of():
    gold, found = judged(0, 0.8)
    gold = [MarkedSegment(TEXT, () if one.groups["lp"] == "y" else one.errors, groups=one.groups) for one in gold]
    result = judge_errors(gold, found, "lp", samples=20)
    assert result.figures["recall"].excluded == ("y",)
    assert result.figures["recall"].estimate == result.by_group["x"]["recall"]
    assert result.figures["precision"].excluded == ()


def test_recall_and_precision_by_kind():
    gold = [
        MarkedSegment("in 1990 he left", (ErrorSpan(3, 7),), groups={"kind": "number"}),
        MarkedSegment("in 1991 he left", (ErrorSpan(3, 7),), groups={"kind": "number"}),
        MarkedSegment("he left", (ErrorSpan(2, 2),), groups={"kind": "dropped"}),
        MarkedSegment("he left", ()),
    ]
    marks = [[(3, 7)], [(8, 10)], [(3, 7), (0, 2), (7, 7)], [(0, 2)]]
    found = [
        TextErrors(one.hypothesis, tuple(ErrorSpan(*span) for span in several))
        for one, several in zip(gold, marks, strict=True)
    ]
    kinds = judge_errors(gold, found, samples=0).by_kind
    values = {name: (one.errors, one.recall.estimate, one.precision.estimate) for name, one in kinds.items()}
    assert values == {"number": (2, 0.5, 0.5), "dropped": (1, 1.0, 1.0)}
    assert judge_errors(gold, found, samples=0).figures["precision"].estimate == pytest.approx(4 / 6)


def test_calibration_error_follows_from_the_curve():
    gold, found = judged(1, 0.8)
    result = judge_errors(gold, found, bins=4, samples=50)
    curve = result.calibration["words"]
    assert result.figures["ece"].estimate == pytest.approx(curve.error)
    apart = abs(curve.wrong - curve.probability)
    assert curve.error == pytest.approx((curve.counts * apart).sum() / curve.counts.sum())
    assert curve.counts.sum() == 300
    assert result.calibration["gaps"].wrong.tolist() == [0.0]
    assert result.figures["ece"].low < result.figures["ece"].estimate < result.figures["ece"].high


def test_errors_without_probabilities_have_no_calibration():
    gold, found = judged(1, 0.8)
    result = judge_errors(gold, [TextErrors(TEXT, one.spans) for one in found], samples=0)
    assert np.isnan([result.figures["ece"].estimate, result.calibration["words"].average_precision]).all()
    assert result.figures["mcc_words"].estimate == judge_errors(gold, found, samples=0).figures["mcc_words"].estimate


def test_intervals_cover_about_as_often_as_they_say():
    truth = judge_errors(*judged(99, 0.8, 3_000), samples=0).figures
    hits = {"mcc_words": 0, "span_f1": 0}
    for seed in range(40):
        found = judge_errors(*judged(seed, 0.8), samples=200, level=0.9).figures
        for name in hits:
            hits[name] += found[name].low <= truth[name].estimate <= found[name].high
    assert all(31 <= count <= 40 for count in hits.values()), hits


def test_draws_of_the_bootstrap_are_those_of_drawn_segments():
    gold, found = judged(2, 0.8, 30)
    result = judge_errors(gold, found, samples=500)
    rng = np.random.default_rng(5)
    drawn = [all_figures(result.sums[rng.integers(30, size=30)].sum(axis=0))["mcc_words"] for _ in range(500)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (result.figures["mcc_words"].low, result.figures["mcc_words"].high) == pytest.approx((low, high), abs=0.03)


def test_a_better_metric_is_significantly_better_and_a_copy_is_not():
    gold, good = judged(3, 0.95, 100)
    _, bad = judged(3, 0.7, 100)
    agreements = [judge_errors(gold, one, "lp", samples=0) for one in (good, bad, good)]
    tests = compare_errors(agreements, permutations=199)
    assert "ece" not in tests
    assert tests["mcc_words"][0, 1] <= 0.02
    assert tests["mcc_words"][1, 0] >= 0.98
    assert tests["span_f1"][0, 2] == tests["span_f1"][2, 0] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda gold, found: judge_errors([], []), "at least one segment, but got none"),
        (lambda gold, found: judge_errors(gold, found[1:]), "errors of 60 texts, but got those of 59"),
        (lambda gold, found: judge_errors(gold, found, "system"), "text 0 .* group 'system', but got lp, kind"),
        (lambda gold, found: judge_errors(gold, found, samples=-1), "whole number from 20 to 1,000,000, but got -1"),
        (lambda gold, found: judge_errors(gold, found, level=1.5), "confidence level between 0 and 1, but got 1.5"),
        (lambda gold, found: judge_errors(gold, found, bins=0), "at least one bin, but got 0"),
        (
            lambda gold, found: compare_errors([judge_errors(gold, found), judge_errors(gold[1:], found[1:])]),
            "on the same segments and groups",
        ),
        (
            lambda gold, found: compare_errors([judge_errors(gold, found)] * 2, permutations=0),
            "at least one permutation",
        ),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        change(*judged(0, 0.8))
