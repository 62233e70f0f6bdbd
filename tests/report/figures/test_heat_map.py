"""The heat map as a file: what it shows, and what is refused."""

import math
import re

import pytest

from textmover.report.figures.matplotlib import HeatGroup, draw_heat_map, shade

GROUPS = [
    HeatGroup("changes that harm", ["drop", "swap"], [[0.25, 0.126], [math.nan, -0.3]]),
    HeatGroup("changes that keep", ["synonym"], [[1.4, 0.0]]),
]


def draw(path, groups=GROUPS, columns=("a metric of a very long name", "chrf")):
    draw_heat_map(groups, columns, path, title="all", low="like the text", high="like another")


def texts(path):
    """The texts of an SVG: matplotlib writes each as a comment beside its outlines."""
    return [one.strip() for one in re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))]


def test_every_number_and_name_is_there(tmp_path):
    draw(tmp_path / "map.svg")
    found = texts(tmp_path / "map.svg")
    wanted = ["drop", "swap", "synonym", "chrf", "a metric of a very long name", "changes that harm", "all"]
    assert set(wanted) <= set(found)
    assert {"0.25", "0.13", "\N{EN DASH}", "\N{MINUS SIGN}0.30", "1.40", "0.00"} <= set(found)
    assert any("0: like the text    1: like another" in one for one in found)


def test_no_label_is_cut(inside):
    from textmover.report.figures.matplotlib import _heat_figure

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


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(ValueError, match="at least one row"):
        draw(tmp_path / "map.png", [])
    with pytest.raises(ValueError, match="Expected 1 values"):
        draw(tmp_path / "map.png", columns=("a",))
