"""The pages of compared and of ranked systems in a browser: no error, nothing that sticks out, light, dark, sorting."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from textmover.meta_evaluation import compare_systems, rank_systems
from textmover.report.comparison import ComparedSegment, render_comparison
from textmover.report.ranking import render_ranking

pytestmark = pytest.mark.slow

PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const table = document.querySelector("table.sortable");
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  const found = {
    width: innerWidth,
    needed: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    before: names(),
    scripts: document.scripts.length,
    directions: [...document.querySelectorAll(".texts [dir=auto]")].map((one) => getComputedStyle(one).direction),
  };
  const button = table.tHead.rows[0].cells[2].querySelector("button");
  button.click(); button.click();
  found.sorted = names();
  document.body.dataset.found = JSON.stringify(found);
  parent.postMessage(JSON.stringify(found), "*");
}, 100));
</script>"""

FRAME = """<!DOCTYPE html><title>frame</title><body style="margin:0"><script>
addEventListener("message", (event) => { document.body.dataset.found = event.data; });
</script><iframe src="page.html" style="border:0;width:360px;height:4000px"></iframe>"""
"""A browser without a head has no window as narrow as a phone, but a frame can be."""

NASTY = '<script>document.title="x"</script><b>'
LONG = "a-name-without-any-space-in-it-" * 8


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """A function that opens a page and gives its final state; the console must stay silent."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        pytest.skip("needs chromium")
    profile = tmp_path_factory.mktemp("profile")

    def run(folder, page, *options, framed=False):
        path = folder / "page.html"
        path.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
        if framed:
            path = folder / "frame.html"
            path.write_text(FRAME, encoding="utf-8")
        command = [binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", "--enable-logging=stderr"]
        command += ["--v=0", "--virtual-time-budget=3000", "--window-size=1280,2000", "--dump-dom"]
        ran = subprocess.run(
            [*command, *options, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        assert [line for line in ran.stderr.splitlines() if "CONSOLE" in line] == []
        found = re.search(r'data-found="([^"]+)"', ran.stdout)
        text = found[1]
        for entity, character in (("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
            text = text.replace(entity, character)
        return json.loads(text)

    return run


def compared(names, n=12):
    """A page of systems, of which each is better than the one before it."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=n)
    found = compare_systems(
        {name: base + place + 0.3 * rng.normal(size=n) for place, name in enumerate(names)}, samples=50, trials=50
    )
    kinds = ("a cat", "مرحبا بالعالم", NASTY, "x" * 400, "", "word " * 2000)
    segments = [ComparedSegment(place + 1, [kinds[place % 6]] * len(names), [kinds[2]]) for place in range(n)]
    return render_comparison(
        found,
        segments,
        lines=range(1, n + 1),
        shown=n,
        signature="metric:made-up|" + "x" * 300,
        versions="1",
        command="textmover compare " + "--long " * 50,
        remarks=["A remark."],
    )


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
    return render_ranking(tables, tables, about="About.", remarks=[["A remark."]] * 2, signatures={"scores": "x" * 300})


@pytest.mark.parametrize("framed", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("make", [compared, ranked])
@pytest.mark.parametrize("names", [("one", NASTY), ("one", LONG, *(f"s{place}" for place in range(10)))], ids=len)
def test_nothing_sticks_out_and_tables_can_be_sorted(browse, tmp_path, make, names, framed):
    page = make(names)
    scripts = page.count("<script")
    found = browse(tmp_path, page, framed=framed)
    assert found["width"] == (360 if framed else 1280)
    assert found["needed"] <= found["width"]
    assert found["paper"] == "rgb(255, 255, 255)"
    assert found["before"] == list(reversed(names))
    assert found["sorted"] == list(names)
    assert found["scripts"] == scripts + 1 == 2  # the page's own, and the probe
    if make is compared:
        assert "rtl" in found["directions"]
        assert "ltr" in found["directions"]


@pytest.mark.parametrize("make", [compared, ranked])
def test_dark_where_that_is_preferred(browse, tmp_path, make):
    found = browse(tmp_path, make(("a", "b")), "--blink-settings=preferredColorScheme=0")
    assert found["paper"] == "rgb(22, 24, 27)"
