import io

import numpy as np
import pytest
from rich.console import Console

from textmover.meta_evaluation.significance.bootstrap import bootstrap_gain, bootstrap_interval
from textmover.training.reports.agreement import FitReport, PartReport
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
    for text in (found.card("recipe"), shown(found)):
        assert text.count("too few references") == 4
        assert "there is only 1 reference to draw from" in text
        assert "…" not in text


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
