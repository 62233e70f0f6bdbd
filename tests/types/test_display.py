"""Results show themselves in a few lines: no matrices, no markup of others, no more rows than fit a screen."""

from __future__ import annotations

import re

import numpy as np
import pytest

from textmover.data.table_check import check_table
from textmover.meta_evaluation import MetricScores, Protocol, compare_systems, evaluate, rank_systems
from textmover.meta_evaluation.agreement.breakdown import agreement_by_length
from textmover.meta_evaluation.agreement.systems import system_agreement
from textmover.meta_evaluation.robustness import Versions, robustness
from textmover.readers.tables import named_tables
from textmover.runs.score_summary import Summary
from textmover.scoring import Scorer
from textmover.scoring.engine.pair_results import unusual
from textmover.types import Judgements, SegmentScores, Shown, Signature, View
from textmover.types.error_spans import MarkedTexts, TextErrors

VALUES = np.arange(40.0) / 40


def judged() -> Judgements:
    return Judgements("a <set>", ("h",) * 40, (("r",),) * 40, {"score": VALUES}, ("all",) * 40)


@pytest.fixture(scope="module")
def results(tiny_metric) -> dict[str, object]:
    scorer = Scorer(tiny_metric(temperature=0.1))
    explanation = scorer.explain("the small dog ran to the old house <b>", "a little dog runs home at night")
    choices = scorer.mbr([["a cat", "the <b>cat"]] * 30)
    evaluation = evaluate(judged(), [MetricScores("m", VALUES[::-1])], Protocol())
    return {
        "scorer": scorer,
        "scores": scorer.score(["the small dog"] * 30, ["a dog"] * 30),
        "signature": scorer.signature,
        "explanation": explanation,
        "side": explanation.hypothesis,
        "match": explanation.matches[0],
        "choices": choices,
        "choice": choices.choices[0],
        "compared": compare_systems({"A": VALUES, "<B>": VALUES + 0.3}, samples=50, trials=50),
        "ranked": rank_systems(VALUES, ["a", "b"] * 20, [str(n // 2) for n in range(40)])[0],
        "judgements": judged(),
        "evaluation": evaluation,
        "agreement": evaluation.metrics[0],
        "metric scores": MetricScores("m", VALUES),
        "systems": system_agreement(VALUES, VALUES, ["a", "b", "<b>", "c"] * 10),
        "bin": agreement_by_length([VALUES], VALUES, range(40), bins=2)[0],
        "robustness": robustness(
            Versions(20, np.arange(20), ("drop", "unrelated") * 10, (1,) * 20, np.ones(20)), [MetricScores("m", VALUES)]
        ),
    }


EXPECTED = {
    "scorer": r"Scorer\(twmd, tiny@\w{8}, torch, exact\)",
    "scores": r"(?s)30 scores, mean 0\.\d{4}\nsegment +score +precision +recall +f\n1 .*\n12 .*\n… 18 more",
    "signature": r"Signature\(textmover:.*\|precision:exact\)",
    "explanation": r"(?s)score 0\.\d{4}  \(.*\)\nword +matched with +cosine +adds\n.*dog  ",
    "side": r"(?s)the small dog ran to the old house <b>\nword +weight\n",
    "match": r"recall \d\.\d{4} from a plan of \d+ × \d+ words",
    "choices": r"(?s)30 choices\nsegment .*… 18 more",
    "choice": r"candidate 1 of 2, utility \d\.\d{4}: a cat",
    "compared": r"(?s)2 systems on 40 segments; both tests .* in 1 of 1 pair\nsystem .*\n<B> +1 +0\.7875 ",
    "ranked": r"(?s)2 systems\nsystem +rank +mean +low +high +segments\n",
    "judgements": r"(?s)a <set>: 40 texts\nratings +number +lowest +highest\nscore +40 +0\.0000 +0\.9750",
    "evaluation": r"(?s)a <set>, score: pearson.*, 40 segments\nmetric +agreement +low +high +rank\nm +-1\.0000 +- +-",
    "agreement": r"(?s)m: -1\.0000\ngroup +value\nall +-1\.0000",
    "systems": r"(?s)agreement 1\.0000 on 4 systems\nsystem +metric +people +segments\na +0\.4500 +0\.4500 +10",
    "bin": r"(?s)0 to 19: 20 segments, 1 of 1 group\nmetric +agreement +low +high\n1 +1\.0000 +- +-",
    "robustness": r"(?s)20 versions of 20 texts\nmetric +harmful +preserving +AUC +pairs in order\nm ",
    "metric scores": r"m: 40 scores, mean 0\.4875",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_result_is_a_few_lines_and_a_table(results, name):
    shown = results[name]
    assert isinstance(shown.view(), View)
    assert re.match(EXPECTED[name], repr(shown)), repr(shown)
    assert len(repr(shown).splitlines()) <= 15
    assert "array(" not in repr(shown)
    if name != "signature":  # whose text machines read
        assert str(shown) == repr(shown)
    page = shown._repr_html_()
    assert "<b>" not in page
    assert ("<table>" in page) is (name not in ("match", "choice", "metric scores", "explanation"))
    assert ("<iframe" in page) is (name == "explanation")


def test_zero_has_no_minus_sign():
    scores = SegmentScores.from_values({"score": np.array([-1e-5, 0.0])}, Signature({}), {})
    compared = compare_systems({"a": [-1e-5, 0.0], "b": [0.0, 0.0]}, samples=20, trials=20)
    shown = (scores, compared, MetricScores("m", [-1e-5]))
    assert [repr(one) for one in shown if "-0.0" in repr(one)] == []


def test_cells_are_one_line_and_harmless():
    class Odd(Shown):
        def view(self) -> View:
            return View("odd", ("a",), [("x\n\x1b[31m" + "y" * 99,), (float("nan"),)])

    first = repr(Odd()).splitlines()[2]
    assert first.startswith("x �[31my")
    assert len(first) == 60
    assert repr(Odd()).splitlines()[3] == "-"


class Texts(Shown):
    """A result that shows a text in its headline, a note and a cell."""

    def __init__(self, text: str) -> None:
        self.text = text

    def view(self) -> View:
        return View(self.text, ("a",), [(self.text,)], notes=(self.text,))


@pytest.mark.parametrize("shown", [Texts("a\x1b[31m\ud800\u202eb"), TextErrors("a\x1b[31m\ud800\u202eb", ())])
def test_no_control_character_of_a_text_is_shown(shown):
    for found in (repr(shown), shown._repr_html_()):
        assert not {"\x1b", "\ud800", "\u202e"} & set(found)
        assert "a�[31m��b" in found


def test_joiners_within_words_are_shown():
    word = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"  # Persian, with a zero-width non-joiner
    assert repr(Texts(word)).count(word) == 3
    assert Texts(word)._repr_html_().count(word) == 3


def test_each_text_of_a_notebook_runs_in_its_own_direction():
    hebrew = "\u05e9\u05dc\u05d5\u05dd."
    page = "".join(one._repr_html_() for one in (Texts(hebrew), MarkedTexts((TextErrors(hebrew, ()),), Signature({}))))
    assert page.count(f'<td dir="auto">{hebrew}</td>') == 2
    assert f'<p dir="auto">{hebrew}</p>' in TextErrors(hebrew, ())._repr_html_()


def test_no_scores_are_shown_too():
    empty = SegmentScores(np.zeros(0), None, None, None, Signature({"a": "b"}))
    assert repr(empty) == "0 scores, mean nan"
    assert empty._repr_html_() == "<p>0 scores, mean nan</p>"


ROW = {"hypothesis": "a cat", "reference": "the cat", "score": 3, "annotator": "a1"}
ABOUT_TWO = MetricScores("m", VALUES[:2])
ONE = {
    "scores": lambda: repr(SegmentScores(np.zeros(1), None, None, None, Signature({"a": "b"}))),
    "judgements": lambda: repr(Judgements("a set", ("h",), (("r",),), {"score": np.ones(1)}, ("all",), preferences=[])),
    "metric scores": lambda: repr(MetricScores("m", np.ones(1))),
    "compared": lambda: repr(compare_systems({"A": np.ones(1), "B": np.zeros(1)}, samples=20, trials=9)),
    "versions": lambda: repr(robustness(Versions(1, np.zeros(1), ("unrelated",), (1,), np.ones(1)), [ABOUT_TWO])),
    "table": lambda: repr(check_table(named_tables([ROW], "rows")["the rows of `rows`"])),
    "flagged": lambda: unusual("truncated", 1),
    "summary": lambda: "\n".join(Summary(1, 0, "", (0.5,), {"empty": 1}, (), systems=("a",)).said(signature=True)),
}  # fmt: skip
"""Texts about one of each thing."""


@pytest.mark.parametrize("name", ONE)
def test_one_is_singular(name):
    text = ONE[name]()
    assert re.search(r"\b1 [a-z]+", text)
    assert not re.search(r"\b1 ([a-z]+s|preferences)\b", text), text
