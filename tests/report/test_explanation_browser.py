"""The page of explanations in a browser: words light up by every means, nothing sticks out, light and dark."""

import pytest

from textmover.report.explanation.explanation import ExplainedLine
from textmover.report.explanation.page import render_explanations

pytestmark = pytest.mark.slow

PROBE = """
addEventListener("load", () => setTimeout(() => {
  const found = {
    width: innerWidth,
    needed: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    list: document.querySelectorAll(".lines li").length,
  };
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
  setTimeout(() => {
    found.cells = pair.querySelectorAll("[data-map] rect").length;
    found.neededOpen = document.documentElement.scrollWidth;
    const button = document.querySelector("[data-order]");
    if (button) {
      button.click();
      found.order = [...document.querySelectorAll(".lines li")].map((one) => Number(one.dataset.value));
      found.articles = [...document.querySelectorAll("article")].map((one) => one.id);
      found.links = [...document.querySelectorAll(".lines a")].map((one) => one.hash.slice(1));
    }
    found.rtl = [...document.querySelectorAll(".words")].map((one) => getComputedStyle(one).direction);
    document.body.dataset.found = JSON.stringify(found);
    parent.postMessage(JSON.stringify(found), "*");
  }, 100);
}, 100));
"""


@pytest.mark.parametrize("framed", [False, True], ids=["wide", "narrow"])
def test_words_light_up_by_every_means_and_nothing_sticks_out(probe, explained, framed):
    page = explained("a small cat sat", "the cat sat there, " + "x" * 300).to_html()
    found = probe(page, PROBE, framed=framed)
    assert found["width"] == (360 if framed else 1280)
    assert found["needed"] <= found["width"]
    assert found["neededOpen"] <= found["width"]
    assert found["paper"] == "rgb(255, 255, 255)"
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
        assert (probe(page, PROBE)["atRest"] > 0) == drawn


def test_dark_where_that_is_preferred(probe, explained):
    page = explained("a small cat sat", "the cat sat there").to_html()
    assert probe(page, PROBE, "--blink-settings=preferredColorScheme=0")["paper"] == "rgb(22, 24, 27)"


@pytest.mark.parametrize("framed", [False, True], ids=["wide", "narrow"])
def test_several_lines_can_be_ordered_and_run_their_way(probe, explained, framed):
    texts = ["a small cat sat", "مرحبا بالعالم cat", '<script>document.title="x"</script> a b', "a cat sat there " * 60]
    lines = [
        ExplainedLine(explained(text, "the cat sat there", seed=place), place + 1) for place, text in enumerate(texts)
    ]
    found = probe(render_explanations(lines), PROBE, framed=framed)
    assert found["neededOpen"] <= found["width"]
    assert found["list"] == 4
    assert found["order"] == sorted(one.found.score for one in lines)
    assert found["articles"] == found["links"]
    assert found["rtl"].count("rtl") == 1
