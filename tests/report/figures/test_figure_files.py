"""Figures as files, whatever they draw: the same bytes each time, markup of no name, and what is refused."""

import struct
import sys

import pytest

from textmover.report import Line, Panel, check_matplotlib, draw_panels
from textmover.report.figures.matplotlib_figures import HeatGroup, draw_heat_map
from textmover.types import InputError

KINDS = ("panels", "heat map", "explanation")
STARTS = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(params=KINDS)
def draw(request, explained):
    """A function that draws into a path."""
    name = "<script>alert(1)</script> a&b"

    def drawn(path):
        if request.param == "panels":
            draw_panels([Panel(name, [Line(name, [0.1, 0.5], best=1)])], ["0", name], path, x_label="x", y_label="y")
        elif request.param == "heat map":
            draw_heat_map([HeatGroup(name, [name], [[0.5]])], [name], path, title="t", low="a", high="b")
        else:
            explained(name, "x").draw(path)

    return drawn


def test_suffixes_say_what_is_drawn_with_the_same_bytes_each_time(draw, tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    for suffix, start in STARTS.items():
        path = tmp_path / "new" / f"figure{suffix}"
        draw(path)
        first = path.read_bytes()
        assert first.startswith(start)
        draw(path)
        assert path.read_bytes() == first
        if suffix == ".png":
            assert min(struct.unpack(">II", first[16:24])) > 200
            assert first[-8:-4] == b"IEND"
        elif suffix == ".svg":
            assert b"<script" not in first
            assert b"a&amp;b" in first
    assert sorted(one.suffix for one in path.parent.iterdir()) == sorted(STARTS)
    assert dict(matplotlib.rcParams) == before


def test_places_that_cannot_be_written(draw, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "taken.png").mkdir()
    for place in ("file/figure.png", "taken.png"):
        with pytest.raises(InputError, match=rf"Expected to be able to write .*{place.rpartition('/')[2]}"):
            draw(tmp_path / place)
    with pytest.raises(InputError, match=r"end in \.png, \.svg, \.pdf, but got .*figure\.bmp"):
        draw(tmp_path / "figure.bmp")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "taken.png"]


def test_without_matplotlib(draw, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "textmover\[report\]", or leave the figure out'):
        check_matplotlib()
    with pytest.raises(InputError, match="Expected matplotlib for the figure"):
        draw(tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []
