import math

import pytest

from textmover.scoring.error_spans.spans import WORD_OVERLAP, word_overlap_errors
from textmover.types import ErrorSpan, MarkedSegment

TEXTS = [
    f"In {1900 + number} the {kind} man moved from Berlin to Paris." for number, kind in enumerate(("old", "rich"))
]


def test_made_errors_are_found_by_overlap_with_the_sentence(script, capsys):
    script.by_kind({}, TEXTS * 5, [0, 1], 0.0)
    lines = capsys.readouterr().out.splitlines()
    headers, overlap = (lines[place].strip("| ").split(" | ") for place in (-4, -1))
    cells = dict(zip(headers, overlap, strict=True))
    assert (cells["metric"], cells["number"]) == (WORD_OVERLAP, "1.000 / 1.000 ± 0.000")


def test_figures_of_pairs(script):
    words = ((0, 1), (2, 5), (6, 9))
    marked = "a cat sat", (ErrorSpan(2, 5), ErrorSpan(9, 9)), ("a dog sat there",), None, words, False
    gold = [MarkedSegment(*marked, {"lp": lp}) for lp in ("de-en", "et-en")]
    marked = {WORD_OVERLAP: word_overlap_errors([one.hypothesis for one in gold], [one.references for one in gold])}
    ((name, *cells),) = script.by_pair(gold, marked)
    assert (name, cells[:2]) == (WORD_OVERLAP, ["1.000 / 1.000"] * 2)
    assert float(cells[-1]) == pytest.approx(0)
    assert not math.isnan(float(cells[-2]))
