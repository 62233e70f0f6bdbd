"""The pages of compared and of ranked systems in a browser: no error, nothing that sticks out, light, dark, sorting."""

import numpy as np
import pytest

from textmover.meta_evaluation import compare_systems, rank_systems
from textmover.readers.row_streams import Row
from textmover.report.systems import comparison, ranking
from textmover.report.systems.comparison import Comparison

pytestmark = pytest.mark.slow

PROBE = """
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
"""

NASTY = '<script>document.title="x"</script><b>'
LONG = "a-name-without-any-space-in-it-" * 8


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
    return comparison.as_html(Comparison(found, segments, range(1, n + 1), signature, n, command))


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


@pytest.mark.parametrize("framed", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("make", [compared, ranked])
@pytest.mark.parametrize("names", [("one", NASTY), ("one", LONG, *(f"s{place}" for place in range(10)))], ids=len)
def test_nothing_sticks_out_and_tables_can_be_sorted(probe, make, names, framed):
    page = make(names)
    scripts = page.count("<script")
    found = probe(page, PROBE, framed=framed)
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
def test_dark_where_that_is_preferred(probe, make):
    found = probe(make(("a", "b")), PROBE, "--blink-settings=preferredColorScheme=0")
    assert found["paper"] == "rgb(22, 24, 27)"
