"""The report page in a browser: no error, nothing that sticks out, light and dark, sorting, words, and print."""

import re
import struct
from dataclasses import replace

import pytest

from textmover.report import ReportHead, write_report

pytestmark = pytest.mark.slow

PROBE = """
addEventListener("load", () => {
  const found = {
    width: innerWidth,
    needed: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    buttons: document.querySelectorAll("table.sortable button").length,
  };
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
  document.body.dataset.found = JSON.stringify(found);
  parent.postMessage(JSON.stringify(found), "*");
});
"""


@pytest.fixture
def page(section, align, tmp_path):
    made = section(3, 60, 6, baseline="twmd-b")
    found = [replace(one, alignment=align(one.hypothesis, one.references[0])) for one in made.disagreements]
    return write_report(tmp_path, ReportHead("today", "a command " * 20), [replace(made, disagreements=found)])


def test_the_console_is_listened_to(browse, tmp_path):
    path = tmp_path / "loud.html"
    path.write_text("<script>throw new Error('on purpose')</script>")
    browse(path, "--dump-dom", silent=False)


@pytest.mark.parametrize("framed", [False, True], ids=["wide", "narrow"])
def test_the_page_fits_and_works(probe, page, framed):
    found = probe(page.read_text(encoding="utf-8"), PROBE, framed=framed)
    assert found["width"] == (360 if framed else 1280)
    assert found["needed"] <= found["width"]
    assert found["paper"] == "rgb(255, 255, 255)"
    assert found["buttons"] == 5 + 3  # metric, value, interval, rank, baseline, and the groups
    values = [float(one) for one in found["before"]]
    assert values == sorted(values, reverse=True)
    assert [float(one) for one in found["sorted"]] == values[::-1]
    assert found["aria"] == "ascending"
    assert found["stops"] == 1
    assert found["focused"]
    assert 1 <= len(found["first"]) <= 2
    assert 1 <= len(found["second"]) <= 2
    assert found["first"] != found["second"]
    assert found["after"] == []
    assert 1 <= len(found["pinned"]) <= 2


def test_dark_where_that_is_preferred(probe, page):
    found = probe(page.read_text(encoding="utf-8"), PROBE, "--blink-settings=preferredColorScheme=0")
    assert found["paper"] == "rgb(22, 24, 27)"


@pytest.mark.parametrize("options", [[], ["--blink-settings=preferredColorScheme=0"]], ids=["light", "dark"])
def test_screenshots_are_not_blank(browse, page, tmp_path, options):
    picture = tmp_path / "page.png"
    browse(page, f"--screenshot={picture}", "--window-size=1280,3000", *options)
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1280, 3000)
    assert len(data) > 100_000


def test_print_has_pages(browse, page, tmp_path):
    path = tmp_path / "page.pdf"
    browse(page, f"--print-to-pdf={path}", "--no-pdf-header-footer")
    data = path.read_bytes()
    assert data.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 12
