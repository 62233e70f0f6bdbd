"""Figures as files: what they are, where they go, and what is refused."""

import math
import struct
import sys

import pytest

from textmover.report import Line, Panel, check_matplotlib, draw_panels, report_files
from textmover.types import InputError

X = ["0", "1", "2"]
LINES = [Line("one", [0.1, 0.5, 0.3], [0.0, 0.4, 0.2], [0.2, 0.6, 0.4], best=1), Line("other", [-0.2, math.nan, 0.1])]


def size(path):
    """Width and height of a PNG, by its header."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


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


def test_svg_and_pdf_are_drawn_by_suffix_and_the_same_each_time(tmp_path):
    for name, start in (("figure.svg", b"<?xml"), ("figure.pdf", b"%PDF")):
        draw(tmp_path / name)
        first = (tmp_path / name).read_bytes()
        assert first.startswith(start)
        draw(tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(tmp_path / "figure.svg")
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "textmover\[report\]", or leave the figure out'):
        check_matplotlib()
    with pytest.raises(InputError, match="Expected matplotlib for the figure"):
        draw(tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Expected to be able to write .*figure\.png"):
        draw(tmp_path / "file" / "figure.png")
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(InputError, match=r"Expected to be able to write .*taken\.png"):
        draw(tmp_path / "taken.png")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "taken.png"]
    with pytest.raises(InputError, match=r"end in \.png, \.svg, \.pdf, but got .*figure\.bmp"):
        draw(tmp_path / "figure.bmp")


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
