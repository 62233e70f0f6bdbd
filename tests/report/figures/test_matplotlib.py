"""Figures as files: what they are, where they go, and what is refused."""

import math
import struct

import pytest

from textmover.report import Line, Panel, draw_panels, report_files

X = ["0", "1", "2"]
LINES = [Line("one", [0.1, 0.5, 0.3], [0.0, 0.4, 0.2], [0.2, 0.6, 0.4], best=1), Line("other", [-0.2, math.nan, 0.1])]


def size(path):
    """Width and height of a PNG, by its header."""
    return struct.unpack(">II", path.read_bytes()[16:24])


def draw(path, panels=None, x=X, **options):
    draw_panels(panels or [Panel("a", LINES)], x, path, x_label="layer", y_label="cosine", **options)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_a_png_of_sensible_size_grows_with_its_panels(tmp_path, count):
    path = tmp_path / "new" / "figure.png"
    draw(path, [Panel(f"panel {index}", LINES) for index in range(count)], title="all")
    width, height = size(path)
    assert 700 < width < 2000
    assert 400 < height < 2000
    assert [one.name for one in path.parent.iterdir()] == ["figure.png"]


def test_many_lines_and_many_values(tmp_path):
    lines = [Line(f"a rather long name {index}", [index / 10] * 40) for index in range(12)]
    draw(tmp_path / "figure.png", [Panel("", lines)], x=[str(value) for value in range(40)])
    assert size(tmp_path / "figure.png")[1] > 500


def test_a_single_value_and_nothing_but_gaps(tmp_path):
    draw(tmp_path / "one.png", [Panel("", [Line("one", [0.5], best=0)])], x=["0"])
    draw(tmp_path / "none.png", [Panel("", [Line("one", [math.nan] * 3)])])
    assert size(tmp_path / "one.png") == size(tmp_path / "none.png")


def test_values_that_do_not_belong_together(tmp_path):
    with pytest.raises(ValueError, match="at least one panel"):
        draw_panels([], X, tmp_path / "figure.png", x_label="", y_label="")
    with pytest.raises(ValueError, match="3 values of the line 'one', but got 2"):
        draw(tmp_path / "figure.png", [Panel("", [Line("one", [1, 2])])])
    with pytest.raises(ValueError, match="3 values"):
        draw(tmp_path / "figure.png", [Panel("", [Line("one", [1, 2, 3], low=[1], high=[2, 3, 4])])])


@pytest.mark.parametrize(
    ("output", "table", "figure"),
    [
        ("layers", "layers.tsv", "layers.png"),
        ("layers.tsv", "layers.tsv", "layers.png"),
        ("layers.PNG", "layers.tsv", "layers.png"),
        ("to/layers.svg", "to/layers.tsv", "to/layers.svg"),
        ("roberta-1.5", "roberta-1.5.tsv", "roberta-1.5.png"),
        ("to/", "to/name.tsv", "to/name.png"),
        ("there", "there/name.tsv", "there/name.png"),
    ],
)
def test_where_table_and_figure_go(tmp_path, monkeypatch, output, table, figure):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert [str(one) for one in report_files(output, "name")] == [table, figure]
