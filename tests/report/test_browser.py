"""Pages in a browser: no error, nothing that sticks out, light and dark, sorting, words that light up, and print."""

import base64
import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from textmover.meta_evaluation import compare_systems, rank_systems
from textmover.readers.row_streams import Row
from textmover.report import ReportHead, render_report
from textmover.report.explanation.explanations import ExplainedLine
from textmover.report.explanation.page import render_explanations
from textmover.report.systems import comparison, ranking
from textmover.types import ErrorSpan, TextErrors

pytestmark = pytest.mark.slow

wide_and_narrow = pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])

NASTY = '<script>document.title="x"</script><b>'
LONG = "a-name-without-any-space-in-it-" * 8


def test_the_console_is_listened_to(probe):
    with pytest.raises(AssertionError, match="on purpose"):
        probe("<p>Loud.</p><script>throw new Error('on purpose')</script>")


def test_dark_where_that_is_preferred(probe, evaluated, explained):
    names = "a", "b"
    for page in (evaluated, compared(names), ranked(names), explained("a small cat", "the cat").to_html()):
        probe(page, dark=True)


# --- evaluations ------------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluated(section, aligned):
    return render_report(ReportHead("today", "a command " * 20), [aligned(section(3, 60, 6, baseline="twmd-b"))])


EVALUATION = """
  found.buttons = document.querySelectorAll("table.sortable button").length;
  const table = document.querySelector("main table.sortable");
  const column = (place) => [...table.tBodies[0].rows].map((row) => row.cells[place].textContent.trim());
  found.before = column(1);
  const button = table.tHead.rows[0].cells[1].querySelector("button");
  button.click(); button.click();
  found.sorted = column(1);
  found.aria = table.tHead.rows[0].cells[1].getAttribute("aria-sort");
  const pair = document.querySelector("[data-aligned]");
  const words = [...pair.querySelectorAll('[data-side="h"] .w')];
  const partners = () => [...pair.querySelectorAll('[data-side="r"] .to')].map((word) => word.firstChild.data);
  found.stops = words.filter((word) => word.tabIndex === 0).length;
  words[0].focus();
  found.first = partners();
  words[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  found.second = partners();
  found.focused = document.activeElement === words[1];
  words[1].blur();
  found.after = partners();
  words[2].click();
  found.pinned = partners();
"""


@wide_and_narrow
def test_tables_of_an_evaluation_can_be_sorted_and_words_light_up(probe, evaluated, narrow):
    found = probe(evaluated, EVALUATION, narrow=narrow)
    assert found["buttons"] == 5 + 3  # metric, value, interval, rank, baseline, and the groups
    values = [float(one) for one in found["before"]]
    assert values == sorted(values, reverse=True)
    assert [float(one) for one in found["sorted"]] == values[::-1]
    assert found["aria"] == "ascending"
    assert found["stops"] == 1
    assert found["focused"]
    assert found["first"] != found["second"]
    assert all(1 <= len(found[which]) <= 2 for which in ("first", "second", "pinned"))
    assert found["after"] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_screenshots_are_not_blank(probe, evaluated, dark):
    data = probe.show(evaluated, dark=dark, height=3000).get_screenshot_as_png()
    assert struct.unpack(">II", data[16:24]) == (1280, 3000)
    assert len(data) > 100_000


def test_print_has_pages(probe, evaluated):
    data = base64.b64decode(probe.show(evaluated).print_page())
    assert data.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 12


# --- systems ----------------------------------------------------------------------------------------------------------


def compared(names, n=12):
    """A page of systems, of which each is better than the one before it."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=n)
    found = compare_systems(
        {name: base + place + 0.3 * rng.normal(size=n) for place, name in enumerate(names)}, samples=50, trials=50
    )
    kinds = ("a cat", "مرحبا بالعالم", NASTY, "x" * 400, "", "word " * 2000)
    segments = [Row(place + 1, (kinds[place % 6],) * len(names), (kinds[2],)) for place in range(n)]
    command = "textmover compare " + "--long " * 50
    signature = "metric:made-up|" + "x" * 300
    return comparison.as_html(comparison.Comparison(found, segments, range(1, n + 1), signature, n, command))


def ranked(names, n=12):
    """A page of the same in two groups, with human scores."""
    rng = np.random.default_rng(0)
    rows = [
        (place + 0.3 * rng.normal(), name, str(item), group)
        for group in ("de-en", LONG)
        for place, name in enumerate(names)
        for item in range(n)
    ]
    tables = rank_systems(*map(list, zip(*rows, strict=True)), samples=50, trials=50)
    agreement = [dict.fromkeys(ranking.AGREEMENT, 0.5)] * 2
    return ranking.as_html(ranking.Ranking(tables, "x" * 300, "", "bootstrap", 5, people=tables, agreement=agreement))


SYSTEMS = """
  for (const one of document.querySelectorAll("details")) one.open = true;
  const table = document.querySelector("table.sortable");
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  found.before = names();
  found.scripts = document.scripts.length;
  found.directions = [...document.querySelectorAll(".texts [dir=auto]")].map((one) => getComputedStyle(one).direction);
  const button = table.tHead.rows[0].cells[2].querySelector("button");
  button.click(); button.click();
  found.sorted = names();
"""


@wide_and_narrow
@pytest.mark.parametrize("make", [compared, ranked])
@pytest.mark.parametrize("names", [("one", NASTY), ("one", LONG, *(f"s{place}" for place in range(10)))], ids=len)
def test_tables_of_systems_can_be_sorted(probe, make, names, narrow):
    page = make(names)
    found = probe(page, SYSTEMS, narrow=narrow)
    assert found["before"] == list(reversed(names))
    assert found["sorted"] == list(names)
    assert found["scripts"] == page.count("<script") == 1
    assert make is ranked or {"rtl", "ltr"} <= set(found["directions"])


RIGHT_TO_LEFT = """
  const words = [...document.querySelectorAll('[data-aligned] .side[data-side="h"]')].map((side) =>
    [...side.querySelectorAll(".w")]).find((words) => words.length > 2);
  const go = (key) => {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return words.indexOf(document.activeElement);
  };
  words[0].focus();
  found.places = [go("ArrowLeft"), go("ArrowDown"), go("ArrowRight"), go("ArrowUp")];
"""


def test_arrows_follow_the_direction_in_which_a_text_is_read(probe, section, aligned):
    def hebrew(judgements, scores):
        texts = tuple(text.replace("the", "\u05d0\u05d1") + " \u05d2" for text in judgements.hypotheses)
        return replace(judgements, hypotheses=tuple(f"\u05d0 {text}" for text in texts)), scores

    page = render_report(ReportHead("today"), [aligned(section(1, 20, 1, change=hebrew))])
    assert probe(page, RIGHT_TO_LEFT)["places"] == [1, 2, 1, 0]


AT_THE_RIGHT = """
  const gap = (one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return one.parentElement.getBoundingClientRect().right - range.getBoundingClientRect().right;
  };
  const texts = [...document.querySelectorAll(".texts .text [dir=auto], .errors[dir=auto], .words")];
  const short = texts.filter((one) => one.textContent.length < 30);
  const of = (kind) => short.filter((one) => getComputedStyle(one).direction === kind).map(gap);
  found.gaps = [of("rtl"), of("ltr")];
"""


BESIDE = """
  found.gaps = [...document.querySelectorAll(".texts dt .swatch")].map((dot) => {
    const name = document.createRange();
    name.selectNodeContents(dot.nextSibling);
    return dot.getBoundingClientRect().bottom - name.getClientRects()[0].bottom;
  });
"""


def test_a_long_name_begins_beside_its_dot(probe):
    page = compared(("a", "a_system_with_" + "a_long_name_" * 5))
    gaps = probe(page, BESIDE)["gaps"]
    assert len(gaps) > 1
    assert max(map(abs, gaps)) < 12  # pixels; a line is 22 high


def test_texts_read_from_right_to_left_stand_at_the_right(probe, explained):
    errors = TextErrors("\u05e9\u05dc\u05d5\u05dd cat", (ErrorSpan(5, 8),))
    for page, count in ((compared(("a", "b")), 2), (explained(errors.text, "a cat", errors=errors).to_html(), 2)):
        turned, others = probe(page, AT_THE_RIGHT)["gaps"]
        assert len(turned) >= count
        assert max(turned) < 30 < min(others)


# --- explanations -----------------------------------------------------------------------------------------------------

EXPLANATION = """
  found.list = document.querySelectorAll(".lines li").length;
  const pair = document.querySelector("[data-explained]");
  const side = (kind) => [...pair.querySelectorAll(`[data-side="${kind}"] .w`)];
  const own = side("h"), others = side("r");
  const mates = () => [...pair.querySelectorAll(".mate b")].map((one) => one.textContent);
  const said = () => pair.querySelector(".said").textContent;
  const paths = () => pair.querySelectorAll(".weave path").length;
  found.atRest = paths();
  found.stops = own.filter((word) => word.tabIndex === 0).length;
  own[0].focus();
  const key = (name) => {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  };
  key("ArrowRight"); key("ArrowRight"); key("ArrowRight");
  found.focused = document.activeElement.querySelector("b").textContent;
  found.byKey = mates();
  found.said = said();
  found.lit = paths();
  key("Escape");
  found.afterEscape = mates();
  document.activeElement.blur();
  own[3].click();
  found.byClick = mates();
  own[3].click();
  found.afterSecondClick = mates();
  others[2].dispatchEvent(new PointerEvent("pointerover", { pointerType: "mouse", bubbles: true }));
  found.byPointer = mates();
  pair.querySelector(".weave").dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" }));
  found.afterPointer = mates();
  for (const one of document.querySelectorAll("details")) one.open = true;
  await new Promise((done) => setTimeout(done, 100));
  found.cells = pair.querySelectorAll("[data-map] rect").length;
  const button = document.querySelector("[data-order]");
  if (button) {
    button.click();
    found.order = [...document.querySelectorAll(".lines li")].map((one) => Number(one.dataset.value));
    found.articles = [...document.querySelectorAll("article")].map((one) => one.id);
    found.links = [...document.querySelectorAll(".lines a")].map((one) => one.hash.slice(1));
  }
  found.rtl = [...document.querySelectorAll(".words")].map((one) => getComputedStyle(one).direction);
"""


@wide_and_narrow
def test_words_light_up_by_every_means(probe, explained, narrow):
    page = explained("a small cat sat", "the cat sat there, " + "x" * 300).to_html()
    found = probe(page, EXPLANATION, narrow=narrow)
    assert found["stops"] == 1
    assert found["focused"] == "cat"
    assert "cat" in found["byKey"]
    assert "cat\u2069 adds +0." in found["said"]
    assert found["lit"] == len(found["byKey"]) > 0
    assert found["byClick"] == found["byKey"]
    assert found["byPointer"][0] == "cat"
    assert found["afterEscape"] == found["afterSecondClick"] == found["afterPointer"] == []
    assert found["cells"] == 5 * 6  # all but those of the ends, which are compared with nothing


def test_threads_at_rest_only_where_they_can_be_told_apart(probe, explained):
    """Of texts of at most two rows each."""
    for length, drawn in ((1, True), (60, False)):
        page = explained("a small cat sat", "the cat sat there, " + "xxxxxxxxx " * length).to_html()
        assert (probe(page, EXPLANATION)["atRest"] > 0) == drawn


@wide_and_narrow
def test_several_lines_can_be_ordered_and_run_their_way(probe, explained, narrow):
    texts = ["a small cat sat", "مرحبا بالعالم cat", '<script>document.title="x"</script> a b', "a cat sat there " * 60]
    lines = [
        ExplainedLine(explained(text, "the cat sat there", seed=place), place + 1) for place, text in enumerate(texts)
    ]
    found = probe(render_explanations(lines), EXPLANATION, narrow=narrow)
    assert found["list"] == 4
    assert found["order"] == sorted(one.found.score for one in lines)
    assert found["articles"] == found["links"]
    assert found["rtl"].count("rtl") == 1
