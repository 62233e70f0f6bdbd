"""Explanations as values: sums, stretches, fonts, files by suffix."""

import json
import sys

import numpy as np
import pytest

from textmover.report.explanation.parts import decomposition, grid_of
from textmover.report.figures.matplotlib_figures import fonts_for
from textmover.types import InputError

LONG = " ".join(f"word{place % 37}" for place in range(2000))


def test_both_sides_add_the_same(explained):
    found = explained("a cat sat here", "a small cat sat")
    assert found.adds("hypothesis").sum() == pytest.approx(found.adds("reference").sum())
    assert found.adds("hypothesis").sum() - 0.1 == pytest.approx(found.score)
    assert found.by_words == pytest.approx(found.score + 0.1)
    assert len(found.adds("hypothesis")) == 6
    assert decomposition(found) == (
        f"words {found.by_words:.4f} \N{MINUS SIGN} baseline 0.1000 = score {found.score:.4f}"
    )
    assert " - baseline" in decomposition(found, plain=True)


def test_closeness_is_the_mean_cosine_of_what_a_word_is_matched_with(explained):
    found = explained("a cat sat here", "a small cat sat")
    plan, place = found.matches[1].plan, 2
    expected = np.average(found.similarity[:, place], weights=plan[:, place])
    assert found.closeness("hypothesis")[place] == pytest.approx(expected)
    assert found.closeness("hypothesis")[-1] == 0  # takes no part
    assert np.all(explained("a", "b", matches=()).closeness("reference") == 0)


def test_long_texts_become_stretches_that_keep_mass_and_sums(explained):
    found = explained(LONG, " ".join(LONG.split()[:90]))
    grid = grid_of(found)
    assert len(grid.rows) <= 60
    assert len(grid.columns) <= 60
    assert (grid.words_to_a_row, grid.words_to_a_column) == (2, 34)
    for name, plan in grid.plans.items():
        whole = next(one.plan for one in found.matches if one.name == name)
        assert plan.sum() == pytest.approx(whole.sum())
    for lines, side in ((grid.rows, "reference"), (grid.columns, "hypothesis")):
        assert sum(one.adds for one in lines) == pytest.approx(found.adds(side).sum())
    assert np.all(grid.similarity <= found.similarity.max() + 1e-9)
    assert grid.columns[1].label == "word33 …"


def test_stretches_of_one_word_are_the_words(explained):
    found = explained("a cat sat", "the cat sat here")
    grid = grid_of(found)
    np.testing.assert_array_equal(grid.similarity, found.similarity)
    assert [one.label for one in grid.columns] == ["[start]", "a", "cat", "sat", "[end]"]
    assert [one.special for one in grid.columns] == [True, False, False, False, True]
    assert {one.label for one in grid.rows if one.unmatched} == {
        found.reference.words[place] for place in found.unmatched_reference
    }


def test_a_plan_that_is_not_there(explained):
    assert list(grid_of(explained("a", "b"), "recall").plans) == ["recall"]
    with pytest.raises(InputError, match="'recall' or 'precision', but got 'cost'"):
        grid_of(explained("a", "b"), "cost")


def test_fonts_have_what_they_can():
    fonts = fonts_for(frozenset("cat Ж\U0003fff0"))
    assert fonts.families[0] == "DejaVu Sans"
    assert fonts.lacking == {"\U0003fff0"}


def test_scripts_that_join_need_a_matplotlib_that_joins_them(monkeypatch):
    from textmover.report.figures import matplotlib_figures as fonts

    monkeypatch.setattr(fonts, "_supports_complex_scripts", lambda: False)
    fonts_for.cache_clear()
    assert set("مرحبا") <= fonts_for(frozenset("مرحبا cat")).lacking
    fonts_for.cache_clear()


def test_the_suffix_says_what_is_written(explained, tmp_path):
    found = explained("a cat", "the cat")
    half = explained("a cat \ud800", "the cat").save(tmp_path / "half.json")
    assert json.loads(half.read_text(encoding="utf-8"))["hypothesis"]["text"] == "a cat \ud800"
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a.html", b"<!DOCTYPE")):
        assert found.save(tmp_path / name) == tmp_path / name
        assert (tmp_path / name).read_bytes().strip().startswith(start)
    read = json.loads(found.save(str(tmp_path / "a.json")).read_text(encoding="utf-8"))
    assert read["contributions"] == found.contributions.tolist()
    assert read["hypothesis"]["adds"] == pytest.approx(found.adds("hypothesis").tolist())
    assert read["remainders"] == [{"name": "baseline", "value": -0.1, "how": "taken off"}]
    for name in ("a.bmp", "a"):
        with pytest.raises(InputError, match=r"\.html or \.json, but got"):
            found.save(tmp_path / name)
    with pytest.raises(InputError, match="Expected to be able to write"):
        found.save(tmp_path / "a.json" / "b.html")


def test_a_notebook_shows_the_page_in_a_frame(explained, monkeypatch):
    shown = explained("a <b>cat</b>", "the cat")._repr_html_()
    assert shown.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in shown
    assert "<b>cat" not in shown
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "<table>" in explained("a", "b")._repr_html_()
    with pytest.raises(InputError, match="Expected Jinja"):
        explained("a", "b").to_html()
