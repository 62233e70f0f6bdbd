import dataclasses
import io

import numpy as np
import pytest
from labelled_runs import over, rated
from rich.console import Console

from runs import write_ratings
from textmover.data import Columns
from textmover.meta_evaluation.significance.bootstrap import bootstrap_gain, bootstrap_interval
from textmover.training import RatingsModule
from textmover.training.reports.fit_report import FitReport, PartReport, judge
from textmover.types import Signature

N = 40
HUMAN = np.random.default_rng(0).normal(size=N)
BEFORE, AFTER = (HUMAN + size * np.random.default_rng(1).normal(size=N) for size in (2.0, 0.5))


def report(references: int, **parts: int) -> FitReport:
    """Of parts with so many references each."""

    def part(name: str, count: int) -> PartReport:
        clusters = [str(n % count) for n in range(N)]
        options = {"samples": 50, "clusters": clusters}
        gains = {
            one: bootstrap_gain(BEFORE, AFTER, HUMAN, ["all"] * N, statistic=one, **options)
            for one in ("pearson", "kendall")
        }
        return PartReport(name, N, 1, gains)

    wanted = {"held-back": references, **parts}
    return FitReport([part(*one) for one in wanted.items()], Signature({}), "twmd", {}, [])


def shown(found: FitReport) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(found.table())
    return stream.getvalue()


def test_the_correlation_after_training_has_an_interval_of_its_own():
    alone = bootstrap_interval(AFTER, HUMAN, ["all"] * N, samples=50, clusters=[str(n) for n in range(N)])
    expected = f"{alone.estimate:.3f} | {alone.low:.3f} … {alone.high:.3f} | +"
    card = report(N).card("recipe")
    assert expected in card
    assert "| before | after | interval after | gain | interval of gain |" in card
    assert f"{alone.low:.3f} … {alone.high:.3f}" in shown(report(N))
    assert "unreliable" not in card


def test_one_reference_has_no_interval_on_the_card_nor_in_the_terminal():
    found = report(1)
    sourced = dataclasses.replace(found, parts=[dataclasses.replace(one, compared="source") for one in found.parts])
    for one, noun in ((found, "reference"), (sourced, "source")):
        for text in (one.card("recipe"), shown(one)):
            assert text.count(f"too few {noun}s") == 4
            assert f"there is only 1 {noun} to draw from" in text
            assert "…" not in text
        assert f"from a bootstrap over {noun}s." in one.card("recipe")


@pytest.mark.parametrize(("count", "told"), [(9, True), (10, False)])
def test_few_references_are_told_with_their_part(count, told):
    found = report(N, other=count)
    for text in (found.card("recipe"), shown(found)):
        assert (f"other: Intervals are unreliable: there are only {count} references" in text) == told
        assert "held-back: Intervals" not in text
        assert "too few references" not in text


def test_a_part_without_correlations_has_none():
    gain = bootstrap_gain(np.ones(N), AFTER, HUMAN, ["all"] * N, samples=20)
    found = FitReport([PartReport("held-back", N, 1, {"pearson": gain})], Signature({}), "twmd", {}, [])
    assert "| nan | nan | - | +nan | - |" in found.card("recipe")


def test_groups_without_a_correlation_are_not_counted_and_are_named(tmp_path, tiny_encoder):
    rows = [line.split("\t") for line in write_ratings(tmp_path / "ratings.tsv", 90).read_text().splitlines()]
    rows = [["single", *row[1:]] if number == 1 else row for number, row in enumerate(rows)]
    rows = [[*row[:-1], "50"] if row[0] == "g2" else row for row in rows]
    (tmp_path / "ratings.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    path = tmp_path / "ratings.tsv"
    data = rated(path, columns=Columns(groups=("group",)), group="group", held_back=0.5, validation=[str(path)])
    found = judge(over(tiny_encoder, RatingsModule), data, samples=20)
    counted = [row for row in rows[1:] if row[0] in ("g0", "g1")]
    assert (found.parts[0].segments, found.parts[0].groups) == (len(counted), 2)
    for text in (found.card("recipe"), shown(found)):
        assert f" {len(counted)} " in text
        assert "Left out 2 groups without a correlation" in text
        assert "g2" in text
        assert "single" in text
