"""The heat map of an explanation: what it shows, that it stays bounded, and what is refused."""

import numpy as np
import pytest

from textmover.report.explanation.figure import explanation_figure

SHORT = ("a small cat sat here", "the cat sat there quietly")
LONG = " ".join(f"word{place % 37}" for place in range(2000))


def shown(figure) -> list[str]:
    return [one.get_text() for axes in figure.axes for one in axes.texts] + [one.get_text() for one in figure.texts]


def test_words_numbers_and_sums_are_there(explained):
    found = explained(*SHORT)
    texts = shown(explanation_figure(found))
    assert {"small", "sat", "quietly", "[start]"} <= {one.removeprefix("× ") for one in texts}
    assert f"score {found.score:.4f}" in texts
    assert any("baseline 0.1000 = score" in one for one in texts)
    assert {f"{value:.3f}" for value in found.adds("hypothesis") if value > 0.001} <= set(texts)
    alone = {f"× {found.reference.words[place]}" for place in found.unmatched_reference}
    assert alone
    assert alone <= set(texts)


@pytest.mark.parametrize(("plans", "chosen", "names"), [(2, None, 2), (2, "precision", 1), (1, None, 1)])
def test_two_plans_share_discs(explained, plans, chosen, names):
    texts = shown(explanation_figure(explained(*SHORT, plans=plans), plan=chosen))
    assert sum(one.startswith("moved") for one in texts) == names
    assert ("moved" in texts) == (names == 1)


PAIRS = [("a", "b"), SHORT, (LONG[:280], LONG[:60]), (LONG[:2000], "a b"), ("", "a cat"), (LONG[:2000], LONG[:2000])]


@pytest.mark.parametrize("pair", PAIRS)
def test_everything_is_within_the_picture_which_is_bounded(explained, inside, pair):
    figure = explanation_figure(explained(*pair))
    assert max(figure.get_size_inches()) < 16
    inside(figure)


def test_words_that_were_compared_with_nothing_have_no_colour(explained):
    found = explained(*SHORT)
    (cells,) = (image for axes in explanation_figure(found).axes for image in axes.images)
    white = (cells.get_array() == 1).all(axis=2)
    assert white[-1].all()
    assert white[:, -1].all()
    assert not white[0, :-1].all()


def test_stretches_are_said(explained):
    texts = shown(explanation_figure(explained(LONG, "a b")))
    assert any("Each column stands for 34 of 2,002 words" in one for one in texts)
    assert not any("Each row" in one for one in texts)


def test_words_without_a_font_are_numbered_but_for_an_svg(explained, tmp_path):
    found = explained("a \U0003fff0 $x$ cat", "the cat_{x}")
    figure = explanation_figure(found, tmp_path / "a.png")
    texts = shown(figure)
    assert any(one.endswith("#3") for one in texts)
    assert any("no font here can show" in one for one in texts)
    assert {"$x$", "cat_{x}"} <= {one.removeprefix("× ") for one in texts}
    explanation_figure(found, tmp_path / "a.svg")
    written = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "\U0003fff0" in written
    assert "$x$" in written


def test_a_notebook_shows_the_figure_without_pyplot(explained):
    """What IPython asks a value for: a picture, and its size on the page."""
    figure = explained("a small cat", "a cat").draw()
    png, size = figure._repr_png_()
    assert png.startswith(b"\x89PNG\r\n")
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    assert (width, height) == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
    assert size["width"] / size["height"] == pytest.approx(np.divide(*figure.get_size_inches()), abs=0.01)
