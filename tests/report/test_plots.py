"""Colours, scales and plots of the report page against brute force, NumPy and WCAG."""

import itertools
import math
import re

import numpy as np
import pytest

from textmover.report.explanation import figure as explanation_figure
from textmover.report.figures import evaluation_plots as plots
from textmover.report.figures.colours import INK, PAPER, metric_colours, shades
from textmover.report.figures.scales import axis_labels, nice_ticks, padded
from textmover.report.templating import template_text
from textmover.types import SEVERITIES

THEMES = {"light": 0, "dark": 1}


def numbers_of(path):
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path)]


# --- colours ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_numbers_can_be_read_on_every_step_of_a_heat_map(contrast, theme):
    below, above = shades("below", theme), shades("above", theme)
    for shade in (*shades("sequential", theme), *below, *above):
        assert contrast(shade.fill, shade.text) >= 7
    fills = [shade.fill for shade in shades("sequential", theme)]
    with_paper = [contrast(fill, PAPER[theme]) for fill in fills]
    assert with_paper == sorted(with_paper)
    assert len(set(fills)) == len(fills)


def style_colours(theme):
    """Colours by name as the style sheets have them: the first block is light, that of the media query dark."""
    found = {}
    for sheet in ("style.css", "explanation.css", "marks.css"):
        light, _, dark = template_text(sheet).partition("prefers-color-scheme: dark")
        found |= dict(re.findall(r"--(\w+): (#\w{6})", light))
        if theme == "dark":
            found |= dict(re.findall(r"--(\w+): (#\w{6})", dark))
    return found


@pytest.mark.parametrize("theme", THEMES)
def test_all_text_of_a_page_can_be_read(contrast, theme):
    """WCAG's AAA: 7 to 1, on paper, on tinted rows, and on punctuation, whose shade is covered by paper."""
    colours = style_colours(theme)
    assert (colours["ink"], colours["paper"]) == (INK[theme], PAPER[theme])
    for ink in ("ink", "quiet", "accent", "fall"):
        assert contrast(colours[ink], colours["paper"]) >= 7, ink
        assert contrast(colours[ink], colours["tint"]) >= 7 or ink == "fall"
    assert all(contrast(colours[severity], colours["paper"]) >= 4.5 for severity in SEVERITIES)
    for shade in shades("sequential", theme):
        channels = [[int(one[place : place + 2], 16) for place in (1, 3, 5)] for one in (PAPER[theme], shade.fill)]
        covered = "#" + "".join(
            f"{round(0.65 * paper + 0.35 * fill):02x}" for paper, fill in zip(*channels, strict=True)
        )
        assert contrast(INK[theme], covered) >= 7
    if theme == "light":
        assert min(contrast(one, PAPER[theme]) for one in (explanation_figure.QUIET, explanation_figure.UNMATCHED)) >= 7


@pytest.mark.parametrize("theme", THEMES)
def test_names_of_metrics_can_be_read_in_their_colours(contrast, theme):
    pairs = metric_colours(1000)[:130]
    assert len(set(pairs)) == 130
    colours = [pair[THEMES[theme]] for pair in pairs]
    assert min(contrast(colour, PAPER[theme]) for colour in colours) >= 4.5
    assert contrast(INK[theme], PAPER[theme]) > 12


@pytest.mark.parametrize("theme", THEMES)
def test_colours_of_metrics_are_told_apart(theme):
    """Distances in OKLab; .02 is about what people see side by side."""

    def oklab(colour):
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        cones = np.cbrt(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
            @ np.array(linear)
        )
        return [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ] @ cones

    for count, least in ((4, 0.14), (15, 0.075), (30, 0.04)):
        places = [oklab(pair[THEMES[theme]]) for pair in metric_colours(count)]
        assert min(math.dist(one, other) for one, other in itertools.combinations(places, 2)) > least


# --- scales -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2, 3, 5, 7])
@pytest.mark.parametrize("low", [-1234.5, -4.2, -0.37, 0.0, 1e-5, 3.0])
@pytest.mark.parametrize("width", [2e-4, 0.13, 1.0, 7.7, 9.1, 4321.0])
def test_ticks_are_round_even_and_within(low, width, most):
    ticks = nice_ticks(low, low + width, most)
    assert min(2, most - 1) <= len(ticks) <= most  # one alone does not tell the scale
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    steps = np.diff(ticks)
    if len(steps):
        leading = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
        assert round(leading, 6) in (1, 2, 4, 5, 10)
        assert steps == pytest.approx(steps[0], rel=1e-6)
    labels = axis_labels(ticks)
    assert len(set(labels)) == len(ticks)


@pytest.mark.parametrize(("low", "width"), [(1e6, 7.0), (123456789.0, 3.0), (0.5, 3e-6), (-2e6, 9e3), (1.0, 3e-7)])
def test_labels_of_close_ticks_differ(low, width):
    ticks = nice_ticks(low, low + width, 4)
    assert [float(label.replace("\N{MINUS SIGN}", "-")) for label in axis_labels(ticks)] == ticks


def test_a_range_has_room_also_if_values_are_equal_missing_or_all_nan():
    for values in ([], [math.nan], [0.0], [5.0] * 3, [-1e300], [0.1, 0.1 + 1e-17], [1.0, math.nan]):
        low, high = padded(values, 0.05)
        assert math.isfinite(low)
        assert low < high


# --- hexagons ---------------------------------------------------------------------------------------------------------


def test_every_point_is_counted_in_the_hexagon_with_the_closest_centre():
    rng = np.random.default_rng(0)
    x, y, radius = rng.uniform(-20, 60, 400), rng.uniform(-15, 40, 400), 3.1
    centres, counts = plots.hexagon_counts(np.stack([x, y], axis=1), radius)
    expected = {}
    for px, py in zip(x, y, strict=True):
        lattice = [
            ((column + row % 2 / 2) * math.sqrt(3) * radius, row * 1.5 * radius)
            for row in range(round(py / 1.5 / radius) - 2, round(py / 1.5 / radius) + 3)
            for column in range(round(px / 1.7 / radius) - 3, round(px / 1.7 / radius) + 4)
        ]
        best = min(lattice, key=lambda centre: math.dist(centre, (px, py)))
        key = tuple(round(one, 6) for one in best)
        expected[key] = expected.get(key, 0) + 1
    places = [tuple(round(one, 6) for one in centre) for centre in centres.tolist()]
    found = dict(zip(places, counts.tolist(), strict=True))
    assert found == expected


@pytest.mark.parametrize("most", [1, 2, 5, 6, 7, 30, 100, 5000, 1_000_000])
def test_steps_of_density_cover_all_counts(most):
    steps = plots.density_steps(most)
    assert steps[0] == 1
    assert steps == sorted(set(steps))
    assert len(steps) <= 6
    assert steps[-1] <= most
    assert len(plots.step_labels(steps)) == len(steps)


# --- plots ------------------------------------------------------------------------------------------------------------


def drawn_trend(picture):
    return numbers_of(re.search(r'class="trend" d="([^"]+)"', picture)[1])


@pytest.mark.parametrize("count", [40, 900])
def test_a_scatter_plot_shows_every_segment_the_trend_and_r(count):
    rng = np.random.default_rng(1)
    ratings = rng.normal(size=count)
    scores = 0.3 * ratings + 0.2 * rng.normal(size=count)
    picture = plots.Scatter("m & m", ratings, scores).draw([1, 2, 4])
    r = np.corrcoef(ratings, scores)[0, 1]
    assert f">r {r:.2f}</text>" in picture
    assert f"m &amp; m against human ratings, {count} segments" in picture
    assert ">human rating</text>" in picture
    assert ">score</text>" in picture
    assert picture.count("<circle") == (40 if count == 40 else 0)
    x1, y1, x2, y2 = drawn_trend(picture)
    # Undo the scales: 3 % room across 42 to 196, 4 % up 156 to 6.
    slope, level = np.polyfit(ratings, scores, 1)
    for x, y in ((x1, y1), (x2, y2)):
        rating = ratings.min() + ((x - 42) / 154 * 1.06 - 0.03) * np.ptp(ratings)
        score = scores.min() + ((156 - y) / 150 * 1.08 - 0.04) * np.ptp(scores)
        assert score == pytest.approx(level + slope * rating, abs=0.01 * np.ptp(scores))
    if count == 900:
        drawn = sum(path.count("M") for path in re.findall(r'class="hex l\d" d="([^"]+)"', picture))
        assert 50 < drawn < 500


def test_the_axis_of_a_distance_is_turned_round():
    ratings = np.arange(10.0)
    falling = plots.Scatter("d", ratings, -ratings, higher_is_better=False).draw([1])
    assert ">r 1.00</text>" in falling
    x1, y1, x2, y2 = drawn_trend(falling)
    assert x1 < x2
    assert y1 > y2  # upwards on the screen
    assert drawn_trend(plots.Scatter("s", ratings, ratings).draw([1])) == [x1, y1, x2, y2]


def test_a_trend_stays_within_its_frame():
    ratings = np.concatenate([np.zeros(50), [1.0, 1.0, -30.0]])
    scores = np.concatenate([np.zeros(50), [40.0, 40.0, 0.0]])
    _, y1, _, y2 = drawn_trend(plots.Scatter("m", ratings, scores).draw([1]))
    assert all(6 <= y <= 156 for y in (y1, y2))


def test_lone_outliers_do_not_squash_the_cloud_and_are_counted():
    rng = np.random.default_rng(2)
    ratings, scores = rng.normal(size=1000), rng.normal(size=1000)
    scores[:3], ratings[3], ratings[0] = 300.0, -90.0, 3.0
    assert plots.shown_range(scores)[1] < 5 < 300
    assert plots.shown_range(ratings)[0] > -5
    lost = sum(
        not (low <= x <= high and first <= y <= last)
        for (low, high), (first, last) in [(plots.shown_range(ratings), plots.shown_range(scores))]
        for x, y in zip(ratings, scores, strict=True)
    )
    assert 4 <= lost <= 12
    assert plots.outside_words(scores, ratings) == f"{lost} of 1,000 lie outside"
    picture = plots.Scatter("ter", ratings, scores).draw([1])
    assert f">r {np.corrcoef(ratings, scores)[0, 1]:.2f}<" in picture  # of all of them
    assert all(42 <= x <= 196 for x in drawn_trend(picture)[::2])
    paths = re.findall(r'class="hex l\d" d="([^"]+)"', picture)
    ups = [float(y) for path in paths for y in re.findall(r"M[\d.]+ (-?[\d.]+)", path)]
    assert min(ups) < 30  # the cloud fills its frame
    assert max(ups) > 120
    assert plots.Scatter("ter", ratings, scores).densest < 50
    assert "from −" in plots.distribution_plot("ter", scores)
    assert "to 300.000" in plots.distribution_plot("ter", scores)


def test_without_lone_outliers_every_segment_is_shown():
    rng = np.random.default_rng(3)
    for values in (
        rng.normal(size=1000),
        rng.exponential(size=1000),
        np.append(np.zeros(999), 1.0),
        np.append(np.zeros(40), 9.0),
    ):
        assert plots.shown_range(values) == (values.min(), values.max())
        assert plots.outside_words(values) == ""


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0], [0.1, 0.2]])
def test_plots_of_next_to_nothing(values):
    scores = np.array(values)
    for picture in (
        plots.Scatter("m", scores, scores).draw([1]),
        plots.Scatter("m", np.arange(float(len(scores))), scores, higher_is_better=False).draw([1]),
        plots.distribution_plot("m", scores),
    ):
        assert picture.startswith("<svg")
        assert "nan" not in picture
        assert "inf" not in picture


def test_a_distribution_has_the_heights_of_a_histogram():
    scores = np.array([0.0] * 4 + [1.0] * 2 + [0.51])
    path = re.search(r'class="area" d="([^"]+)"', plots.distribution_plot("m", scores))[1]
    heights = [76 - float(one) for one in re.findall(r"V([\d.]+)H", path)]
    assert [round(height / 70, 3) for height in heights if height] == [1.0, 0.25, 0.5]


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_names_beside_lines_do_not_overlap_and_keep_their_order(seed):
    rng = np.random.default_rng(seed)
    places = rng.choice([rng.uniform(0, 200, 12), rng.normal(100, 3, 12)]).tolist()
    found = plots.avoid_overlaps(places, 14, 0, 220)
    ordered = [found[index] for index in np.argsort(places, kind="stable")]
    assert all(after - before >= 14 - 1e-9 for before, after in itertools.pairwise(ordered))
    assert min(found) >= -1e-9
    assert max(found) <= 220 + 1e-9


def test_lines_have_gaps_where_there_is_no_value():
    lines = [plots.BinLine("gap", 0, [0.1, math.nan, 0.3, 0.4]), plots.BinLine("none", 1, [math.nan] * 4)]
    picture = plots.line_plot(lines, [("a<b", "n 1")] * 4, title="t", axis="", span=plots.value_range(lines))
    (path,) = re.findall(r'class="line" d="([^"]+)"', picture)
    assert path.count("M") == 2
    assert path.count("L") == 1
    assert picture.count("<circle") == 3
    assert "a&lt;b" in picture
    assert ">none<" not in picture


def test_muted_lines_lie_behind_and_have_no_intervals():
    ends = [(0.3, 0.7), (math.nan, math.nan)]
    front, back = (
        plots.BinLine("front", 0, [0.5, 0.6], ends),
        plots.BinLine("back", 1, [0.9, 0.6], [(-5.0, 5.0)] * 2, muted=True),
    )
    span = plots.value_range([front, back])
    picture = plots.line_plot([front, back], [("a", "b")] * 2, title="t", axis="", span=span)
    assert picture.index('class="series m1 muted"') < picture.index('class="series m0"')
    assert picture.count('class="whisker"') == 1
    low, high = plots.value_range([front, back])
    assert -0.5 < low < 0.3
    assert 0.9 < high < 1.5


def test_pictures_can_share_a_scale():
    heights = []
    for values in ([0.1, 0.2], [0.1, 0.9]):
        picture = plots.line_plot([plots.BinLine("m", 0, values)], [("a",)] * 2, title="t", axis="", span=(0.0, 1.0))
        heights.append(float(re.search(r'<circle cx="[\d.]+" cy="([\d.]+)"', picture)[1]))
    assert heights[0] == heights[1]


def test_a_single_bin_and_long_names():
    line = plots.BinLine("x" * 60, 0, [0.5])
    picture = plots.line_plot([line], [("all", "n 3")], title="t", axis="Kendall's τ-b", span=plots.value_range([line]))
    assert ">Kendall&#x27;s τ-b</text>" in picture
    assert "x" * 17 + "…" in picture
    assert "nan" not in picture
