"""Which segments are shown, and how long texts and alignments are cut."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import MetricScores
from textmover.report import Alignment, Link, largest_disagreements
from textmover.report.evaluation.disagreements import WORDS, fold_limit, shown_alignment, shown_text
from textmover.types import InputError, Judgements


def judgements(ratings, groups):
    n = len(ratings)
    return Judgements(
        "a", tuple(f"h{i}" for i in range(n)), tuple((f"r{i}",) for i in range(n)), {"s": ratings}, tuple(groups)
    )


def test_differences_are_those_of_z_scores_within_groups():
    rng = np.random.default_rng(0)
    ratings, scores = rng.normal(size=30), rng.normal(size=30)
    ratings[4], scores[7] = np.nan, np.nan
    groups = ["a"] * 12 + ["b"] * 18
    for higher in (True, False):
        found = largest_disagreements(
            judgements(ratings, groups), [MetricScores("m", scores, higher)], dimension="s", count=4
        )
        expected = np.full(30, np.nan)
        for rows in (np.arange(12), np.arange(12, 30)):
            known = rows[np.isfinite(ratings[rows]) & np.isfinite(scores[rows])]
            expected[known] = (1 if higher else -1) * stats.zscore(scores[known]) - stats.zscore(ratings[known])
        order = np.argsort(np.where(np.isnan(expected), 0, expected))
        assert [one.row for one in found] == [*order[::-1][:4].tolist(), *order[:4].tolist()]
        for one in found:
            assert one.difference == pytest.approx(expected[one.row])
            assert (one.hypothesis, one.references) == (f"h{one.row}", (f"r{one.row}",))
            assert (one.score, one.rating) == (scores[one.row], ratings[one.row])


def test_items_and_systems_are_named_where_they_are_known():
    made = judgements(np.arange(3.0), "aaa")
    metric = MetricScores("m", np.array([2.0, 1, 0]))
    (high, low) = largest_disagreements(
        replace(made, items=("i", "j", "k"), systems=("x", "y", "z")), [metric], dimension="s", count=1
    )
    assert [(one.item, one.system) for one in (high, low)] == [("i", "x"), ("k", "z")]
    (high, low) = largest_disagreements(made, [metric], dimension="s", count=1)
    assert (high.item, high.system) == (None, None)


def test_groups_in_which_nothing_differs_have_no_part():
    ratings = np.array([1.0, 2, 3, 5, 5, 5, 1, 2, 3])
    scores = np.array([3.0, 2, 1, 1, 2, 3, 4, 4, 4])
    found = largest_disagreements(judgements(ratings, "aaabbbccc"), [MetricScores("m", scores)], dimension="s")
    assert {one.group for one in found} == {"a"}
    assert largest_disagreements(judgements(ratings, "x" * 9), [MetricScores("m", ratings)], dimension="s") == []


def test_scores_of_another_length_are_refused():
    with pytest.raises(InputError, match="Expected 3 scores of 'm'"):
        largest_disagreements(judgements(np.arange(3.0), "aaa"), [MetricScores("m", np.arange(2.0))], dimension="s")


@pytest.mark.parametrize("link", [(2, 0, 1, 1), (0, 1, 1, 1), (-1, 0, 1, 1), (0, 0, 0, 1), (0, 0, float("nan"), 1)])
def test_links_that_lead_nowhere_are_refused(link):
    with pytest.raises(InputError, match="Expected links between 2 and 1 word "):
        Alignment(("a", "b"), ("c",), (Link(*link),))


def test_words_name_their_strongest_partner_and_light_up_the_others():
    alignment = Alignment(
        ("The", "kitten", "sat"),
        ("A", "cat", "sat", "the"),
        (
            Link(1, 1, 0.5, 0.71),
            Link(1, 0, 0.2, 0.3),
            Link(1, 3, 0.03, 0.2),
            Link(0, 3, 0.4, 1.0),
            Link(2, 1, 0.6, 0.2),
        ),
    )
    hypothesis, reference = shown_alignment(alignment, 100)
    assert [(word.text, word.partner, word.similarity, word.level, word.links) for word in hypothesis.words] == [
        ("The", "", "", 4, "3:100"),  # the same word but for its capital
        ("kitten", "cat", ".71", 3, "1:100 0:40"),  # the link of weight 0.03 is too weak to show
        ("sat", "cat", ".20", 1, "1:100"),
    ]
    assert [(word.text, word.partner, word.links) for word in reference.words] == [
        ("A", "kitten", "1:100"),
        ("cat", "sat", "2:100 1:83"),
        ("sat", "", ""),
        ("the", "", "0:100"),
    ]
    assert reference.words[2].level == 0


def test_a_long_alignment_is_cut_and_links_beyond_the_cut_do_not_light_up():
    words = tuple(f"w{i}" for i in range(200))
    other = tuple(f"v{i}" for i in range(200))
    links = tuple(Link(i, 199 - i, 1.0, 0.5) for i in range(200))
    hypothesis, _ = shown_alignment(Alignment(words, other, links), 50)
    assert len(hypothesis.words) == WORDS
    assert hypothesis.words[0].partner == "v199"
    assert hypothesis.words[0].links == ""
    assert hypothesis.more == "140 more words"
    assert hypothesis.rest == " ".join(words[WORDS:])[:50]
    assert hypothesis.lost == len(" ".join(words[WORDS:])) - 50


@pytest.mark.parametrize("text", ["", "short", "word " * 3000, "字" * 3000, " " + "a" * 480 + " b"])
def test_nothing_of_a_text_is_lost_between_start_and_rest(text):
    shown = shown_text(text, 10**6)
    assert "".join((shown.start + shown.rest).split()) == "".join(text.split())
    assert (shown.more != "") == (shown.rest != "")
    assert shown.lost == 0
    assert len(shown.start) <= 483


@pytest.mark.parametrize("budget", [0, 7, 100, 10**6])
def test_folds_keep_to_the_budget_and_use_it(budget):
    rng = np.random.default_rng(budget)
    sizes = rng.integers(0, 50, size=40).tolist()
    limit = fold_limit(sizes, budget)
    assert sum(min(size, limit) for size in sizes) <= budget
    if limit < max(sizes):
        assert sum(min(size, limit + 1) for size in sizes) > budget
