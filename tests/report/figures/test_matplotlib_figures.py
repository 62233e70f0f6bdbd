"""Figures as files: what they are and show, where they go, and what is refused."""

import math
import re
import struct

import pytest

from textmover.report import Line, Panel, draw_panels, report_files
from textmover.report.figures.matplotlib_figures import HeatGroup, _heat_figure, draw_heat_map, shade

X = ["0", "1", "2"]
LINES = [Line("one", [0.1, 0.5, 0.3], [0.0, 0.4, 0.2], [0.2, 0.6, 0.4], best=1), Line("other", [-0.2, math.nan, 0.1])]


def size(path):
    """Width and height of a PNG, by its header."""
    return struct.unpack(">II", path.read_bytes()[16:24])


def draw(path, panels=None, x=X, **options):
    draw_panels(panels or [Panel("a", LINES)], x, path, x_label="layer", y_label="cosine", **options)


@pytest.mark.parametrize("count", [1, 3, 5])  # one, the widest row, and rows of two with a gap
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


# --- heat maps --------------------------------------------------------------------------------------------------------

GROUPS = [
    HeatGroup("changes that harm", ["drop", "swap"], [[0.25, 0.126], [math.nan, -0.3]]),
    HeatGroup("changes that keep", ["synonym"], [[1.4, 0.0]]),
]


def draw_map(path, groups=GROUPS, columns=("a metric of a very long name", "chrf")):
    draw_heat_map(groups, columns, path, title="all", low="like the text", high="like another")


def texts(path):
    """The texts of an SVG: matplotlib writes each as a comment beside its outlines."""
    return [one.strip() for one in re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))]


def test_every_number_and_name_is_there(tmp_path):
    draw_map(tmp_path / "map.svg")
    found = texts(tmp_path / "map.svg")
    wanted = ["drop", "swap", "synonym", "chrf", "a metric of a very long name", "changes that harm", "all"]
    assert set(wanted) <= set(found)
    assert {"0.25", "0.13", "\N{EN DASH}", "\N{MINUS SIGN}0.30", "1.40", "0.00"} <= set(found)
    assert any("0: like the text    1: like another" in one for one in found)


def test_no_label_is_cut(inside):
    names = [f"kind of change number {row}" for row in range(17)]
    columns = [f"models/metric-{column}-of-a-long-name" for column in range(8)]
    inside(_heat_figure([HeatGroup("a", names, [[0.5] * 8] * 17)], columns, "title", "low", "high"), ticks=True)


def test_shades_darken_up_to_one_turn_orange_below_zero_and_can_be_read(contrast):
    steps = [shade(value / 20) for value in range(21)]
    assert len({one.fill for one in steps}) == 8
    brightness = [contrast(one.fill, "#000000") for one in steps]
    assert brightness == sorted(brightness, reverse=True)
    assert shade(1.7) == shade(1.0)
    assert shade(-0.2).fill not in {one.fill for one in steps}
    assert all(contrast(shade(value).text, shade(value).fill) >= 4.5 for value in (-2, -0.6, -0.1, 0, 0.3, 0.6, 1))


def test_maps_that_cannot_be_drawn(tmp_path):
    with pytest.raises(ValueError, match="at least one row"):
        draw_map(tmp_path / "map.png", [])
    with pytest.raises(ValueError, match="Expected 1 values"):
        draw_map(tmp_path / "map.png", columns=("a",))
