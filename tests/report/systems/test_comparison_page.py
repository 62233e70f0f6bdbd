"""Pages of compared and of ranked systems: what they say, what they escape, and that they need nothing else."""

import re
from dataclasses import replace

import numpy as np
import pytest

from textmover.meta_evaluation import compare_systems, rank_systems
from textmover.readers.row_streams import Row
from textmover.report.systems.comparison import MOST_BARS, Comparison, as_html, bars_of, difference_plot
from textmover.report.systems.ranking import AGREEMENT, Ranking
from textmover.report.systems.ranking import as_html as ranking_page

NASTY = '<script>alert(1)</script> & "quoted" مرحبا'


def made(names=("one", "two"), n=50, seed=0, step=0.4):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    scores = {name: base + step * place + 0.5 * rng.normal(size=n) for place, name in enumerate(names)}
    return compare_systems(scores, samples=100, trials=200)


def page(found, segments=(), *, shown=3, command=""):
    return as_html(Comparison(found, segments, range(1, found.scores.shape[1] + 1), "a:1|b:2", shown, command))


def texts(found, *shown):
    systems = len(found.systems)
    return [
        Row(place + 1, (shown or ("a text",)) * systems, ("a reference",)) for place in range(found.scores.shape[1])
    ]


def visible(html):
    return re.sub(r"<[^>]+>", " ", html)


def test_what_is_known_stands_on_the_page(check):
    found = made(n=20)
    text = page(found, texts(found), command="textmover compare x")
    check(text)
    assert f"{found.means[1]:.4f}" in text
    (pair,) = found.pairs
    for said in (f"+{pair.bootstrap.difference:.4f}", pair.bootstrap.signature, "Only 20 segments", "two is better."):
        assert said in text
    shown = re.sub(r"\s+", " ", visible(text))
    assert f"{pair.wins} better {pair.ties} equal {pair.losses} worse" in shown
    assert text.count('<div dir="auto">a text</div>') == 6  # two systems, three segments
    assert page(found, texts(found)) == page(found, texts(found))


def test_texts_and_names_are_shown_as_they_are(check):
    found = made((NASTY, "b"))
    segments = [Row(place + 1, (NASTY, ""), (NASTY,)) for place in range(50)]
    text = page(found, segments, command=NASTY)
    check(text)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "(empty text)" in text
    assert 'dir="auto"' in text


def test_names_read_from_right_to_left_are_isolated():
    names = ("\u05d0", "\u05d0\u05d1 2", "c")
    text = page(made(names, n=200, step=0))
    isolated = {one: f"\u2068{one}\u2069" if one != "c" else one for one in names}
    assert re.search(rf"<h3>{isolated[names[1]]} against {isolated[names[0]]}</h3>", text)
    best = re.search(r"Best: (.*?)\. Not significantly better than: (.*), (.*)\.", text)
    assert sorted(best.groups()) == sorted(isolated.values())
    many = page(made((*names, "d"), n=40))
    assert f'title="{isolated[names[1]]} − {isolated[names[0]]}">' in many
    assert f"<title>{isolated[names[0]]} and c: compared</title>" in page(made(("\u05d0", "c")))


def test_long_texts_are_folded():
    found = made()
    text = page(found, texts(found, "word " * 2000), shown=1)
    assert "more words</summary>" in text
    assert len(text) < 200_000


def test_scores_without_texts_need_no_references(check):
    text = page(made(), (), shown=2)
    check(text)
    assert "Where they differ most" in text
    assert "reference</dt>" not in text


def test_many_systems_have_a_table_that_can_be_sorted():
    few, many = page(made("abc")), page(made([f"s{place}" for place in range(6)]))
    assert few.count('class="sortable') == 1
    assert many.count('class="sortable') == 2
    assert many.count('class="duel"') == 15
    assert many.count("<details><summary>segment by segment") == 15
    assert "<details><summary>segment by segment" not in few


def test_equal_systems():
    same = np.arange(5.0)
    found = compare_systems({"a": same, "b": same}, samples=20, trials=9)
    text = page(found, texts(found))
    assert "Neither test finds a significant difference." in text
    assert "Where they differ most" not in text
    assert "nan" not in visible(text)


def test_bars_are_the_differences_in_order():
    gaps = np.array([0.1, -0.5, 0.3])
    assert bars_of(gaps).tolist() == [0.3, 0.1, -0.5]
    many = np.random.default_rng(0).normal(size=1001)
    bars = bars_of(many)
    assert len(bars) == MOST_BARS
    assert (np.diff(bars) <= 0).all()
    picture = difference_plot(gaps, "a", "b", (-0.5, 0.3))
    assert (picture.count('class="gain"'), picture.count('class="loss"')) == (2, 1)
    assert "from 0.300 to −0.500" in picture


def test_pictures_share_a_scale():
    places = [float(one) for one in re.findall(r'class="interval".*?cx="([\d.]+)"', page(made("abc")))]
    assert places == sorted(places, reverse=True)
    assert len(set(places)) == 3


# --- ranked -----------------------------------------------------------------------------------------------------------


def ranked(names=("A", "B", "C"), groups=("x", "y"), size=20):
    rng = np.random.default_rng(0)
    rows = [
        (place + 0.3 * rng.normal(), name, str(item), group)
        for group in groups
        for place, name in enumerate(names)
        for item in range(size)
    ]
    return rank_systems(*map(list, zip(*rows, strict=True)), samples=50, trials=100)


def rank_page(tables, people=(), **options):
    agreement = [dict.fromkeys(AGREEMENT, 0.5)] * len(people)
    return ranking_page(
        Ranking(tables, "a:1|b:2", "c:3", "bootstrap", 5, people=people, agreement=agreement, **options)
    )


def test_ranked_systems_stand_in_their_order(check):
    tables = ranked()
    text = rank_page(tables, tables)
    check(text)
    body = text[text.index('<section id="group-1">') :]
    assert body.index('title="C"') < body.index('title="B"') < body.index('title="A"')
    assert text.count('class="opens"') >= 4  # each rank is set apart, in two tables and two matrices
    assert text.count("human rank") == 3  # two groups and their mean
    assert f"{tables[0].means[2]:.4f}" in text
    assert text.count("Tests of fewer than 30 segments say little.") == 2


def test_means_over_groups_and_nothing_of_one():
    tables = ranked()
    text = rank_page([replace(one, means=-one.means, higher_is_better=False) for one in tables])
    assert "Mean over groups" in text
    assert "Means are over 2 groups, of all 3 systems." in text
    assert re.search(r'title="C">C</th><td[^>]*>1.00</td><td[^>]*>−2.0\d+</td>', text)
    alone = rank_page(tables[:1])
    assert "Mean over groups" not in alone
    assert "<nav" not in alone


def test_names_of_systems_and_groups_are_escaped(check):
    text = rank_page(ranked((NASTY, "b"), (NASTY, "")))
    check(text)
    assert "<script>alert" not in text
    assert "(empty)" in text


def test_untested_systems_have_a_dash():
    rng = np.random.default_rng(0)
    systems = [name for name in "abc" for _ in range(6)]
    items = [*map(str, range(6)), *map(str, range(6)), *map(str, range(10, 16))]
    (table,) = rank_systems(rng.normal(size=18), systems, items, samples=20, trials=20)
    text = rank_page([table])
    assert text.count("<td>–</td>") == 4
    assert "nan" not in visible(text)


@pytest.mark.parametrize("size", [2, 40])
def test_no_matrix_of_two_systems_or_very_many(size):
    tables = ranked([f"s{place}" for place in range(size)], ("x",), 5)
    assert "p-values of each two systems" not in rank_page(tables)
