"""Evaluations as Markdown, LaTeX, CSV, JSON and in the terminal."""

import csv
import dataclasses
import io
import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from textmover.meta_evaluation import MetricScores, Protocol
from textmover.report import file_remarks, format_evaluations, print_evaluations, remarks, title_of
from textmover.report.evaluation.tables import correlation_matrix, group_matrix, p_value_matrix
from textmover.report.evaluation.wording import headline, mark
from textmover.types import InputError


@pytest.fixture
def evaluation(section):
    return section(3, 40, 4, baseline="moverscore-wmd2", samples=50, permutations=200).evaluation


def printed(evaluations, *, width=200, terminal=False, **options):
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=terminal, color_system=None, highlight=False, markup=False, emoji=False
    )
    print_evaluations(console, evaluations, **options)
    return stream.getvalue()


def markdown_rows(text):
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|-")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


# --- what all of them say ---------------------------------------------------------------------------------------------


def test_csv_holds_every_number_with_all_digits(evaluation):
    rows = list(csv.DictReader(io.StringIO(format_evaluations([evaluation], "csv"))))
    assert [row["metric"] for row in rows] == [one.name for one in evaluation.ranked()]
    for row, metric in zip(rows, evaluation.ranked(), strict=True):
        assert (float(row["value"]), float(row["low"]), float(row["high"])) == (metric.value, metric.low, metric.high)
        assert row["rank"] == str(metric.rank)
        assert {group: float(row[group]) for group in evaluation.groups} == dict(metric.by_group)
        assert row["signature"] == metric.signature
        assert row["p_value"] == ("" if math.isnan(metric.p_value) else repr(metric.p_value))


def test_json_holds_everything(evaluation):
    (entry,) = json.loads(format_evaluations([evaluation], "json", further=[["and more"]]))["sets"]
    assert entry["segments"] == 120
    assert entry["groups"] == {"group-0": 40, "group-1": 40, "group-2": 40}
    assert entry["bootstrap"] == {"samples": 50, "seed": 0, "level": 0.95, "undefined": 0}
    assert entry["test"]["permutations"] == 200
    assert entry["remarks"][-1] == "and more"
    fields = {field.name for field in dataclasses.fields(evaluation.metrics[0])}
    assert set(entry["metrics"][0]) == fields - {"by_group"} | {"groups", "against_baseline"}
    for one, metric in zip(entry["metrics"], evaluation.metrics, strict=True):
        assert (one["name"], one["value"], one["rank"]) == (metric.name, metric.value, metric.rank)
        assert one["groups"] == dict(metric.by_group)
    found = np.array([[math.nan if p is None else p for p in row] for row in entry["p_values"]])
    assert np.array_equal(found, evaluation.p_values, equal_nan=True)


def test_marks_follow_the_test_against_the_baseline(evaluation):
    rows = list(csv.DictReader(io.StringIO(format_evaluations([evaluation], "csv"))))
    marked = {row["metric"]: row["against_baseline"] for row in rows}
    reference = [one.name for one in evaluation.metrics].index("moverscore-wmd2")
    expected = {}
    for number, metric in enumerate(evaluation.metrics):
        better = evaluation.p_values[number, reference] <= 0.05
        worse = evaluation.p_values[reference, number] <= 0.05
        expected[metric.name] = "better" if better else "worse" if worse else ""
    assert marked == expected
    assert "better" in marked.values()
    best = evaluation.ranked()[0]
    assert mark(best) == "↑"
    assert f"+{best.gain:.3f} ↑" in printed([evaluation])
    assert mark(replace(best, p_value=0.0501)) == ""
    assert mark(replace(best, gain=-best.gain)) == "↓"


def test_markdown_shows_the_same_numbers_with_the_best_in_bold(evaluation):
    text = format_evaluations([evaluation], "markdown")
    headers, *rows = markdown_rows(text)
    assert headers[:5] == ["metric", "pearson", "95 % interval", "rank", "vs. moverscore-wmd2"]
    assert len({len(row) for row in (headers, *rows)}) == 1
    for column in (1, *range(5, 8)):
        values = [float(row[column].strip("*")) for row in rows]
        bold = [row[column].startswith("**") for row in rows]
        assert bold == [value == max(values) for value in values]
    for metric, row in zip(evaluation.ranked(), rows, strict=True):
        assert row[2] == f"{metric.low:.3f} to {metric.high:.3f}"
    for sentence in remarks(evaluation):
        assert sentence in text
    for metric in evaluation.metrics:
        assert f"{metric.name}: `{metric.signature}`" in text


def test_latex_is_a_booktabs_table(evaluation):
    text = format_evaluations([evaluation], "latex")
    for command in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrrrrr}", r"95 \% interval"):
        assert command in text
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    assert len(body) == 4
    assert all(line.count(" & ") == 7 and line.endswith(r" \\") for line in body)
    assert r"$\uparrow$" in text
    assert text.count("{") == text.count("}")


def test_several_sets_have_a_table_of_their_own_before_them(section):
    first, second = section(2, name="one").evaluation, section(1, 10, 2, seed=5, name="two").evaluation
    headers, *rows = markdown_rows(format_evaluations([first, second], "markdown").split("## one")[0])
    assert headers == ["metric", "one", "two"]
    assert [row[0] for row in rows] == ["twmd", "twmd-b", "moverscore-wmd1"]
    assert rows[2][2] == "-"  # the second set has two metrics
    assert float(rows[0][1].strip("*")) == round(first.metric("twmd").value, 3)
    text = printed([first, second])
    assert text.startswith("All sets\n")
    assert text.index("\none\n") < text.index("\ntwo\n")
    rows = list(csv.DictReader(io.StringIO(format_evaluations([first, second], "csv"))))
    assert [row["set"] for row in rows] == ["one"] * 3 + ["two"] * 2
    assert rows[-1]["group-1"] == ""


def test_titles_tell_tables_apart(section):
    first = section(name="a").evaluation
    assert title_of(first, [first]) == "a"
    fluency = replace(first, dimension="fluency")
    other = replace(fluency, protocol=Protocol("kendall"))
    assert title_of(fluency, [first, fluency]) == "a · fluency"
    assert title_of(other, [fluency, other]) == "a · fluency · kendall per-group"


# --- the terminal -----------------------------------------------------------------------------------------------------


def test_a_pipe_gets_whole_lines_without_trailing_spaces(evaluation):
    text = printed([evaluation], width=100_000)
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "─" not in text
    for sentence in remarks(evaluation):
        assert f"\n{sentence}\n" in text


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_a_narrow_terminal_gets_several_tables_and_no_cut_number(evaluation, width):
    text = printed([evaluation], width=width, terminal=True, signatures=False)
    assert max(map(len, text.splitlines())) <= width
    for metric in evaluation.metrics:
        for value in (metric.value, *metric.by_group.values()):
            assert f"{value:.3f}" in text
    tables = text.count("───") and sum("──────" in line for line in text.splitlines())
    assert (tables > 1) == (width < 100)


def test_signatures_can_be_left_out(evaluation):
    assert "metric:twmd|version:1" in printed([evaluation])
    assert "metric:twmd|version:1" not in printed([evaluation], signatures=False)


# --- what was left out ------------------------------------------------------------------------------------------------


def test_everything_that_was_left_out_is_said(section):
    def damaged(judgements, scores):
        ratings = judgements.ratings["score"].copy()
        ratings[3] = math.nan
        ratings[40:60] = 1.0
        holes = scores[0].scores.copy()
        holes[[5, 6]] = math.nan
        constant = MetricScores("constant", np.ones(60))
        judgements = replace(judgements, ratings={"score": ratings}, left_out={"empty": 4})
        return judgements, [MetricScores("twmd", holes), *scores[1:], constant]

    made = section(3, 20, 2, change=damaged)
    said = "\n".join(remarks(made.evaluation, file_remarks(made.judgements)))
    assert "3 rows without a score or a rating (missing: rating: 1, twmd: 2)" in said
    assert re.search(r"Left out: group-2 \([^)]*20 segments\)", said)
    assert re.search(r"Left out: constant \(", said)
    assert "Not read from the file: 4 rows (empty: 4)." in said
    assert "37 segments in 2 groups" in said
    text = format_evaluations([made.evaluation], "json")
    assert "NaN" not in text
    names = {one["name"] for one in json.loads(text)["sets"][0]["left_out"]["excluded"]}
    assert names == {"group-2", "constant"}
    for table_format in ("markdown", "latex", "csv"):
        assert "nan" not in format_evaluations([made.evaluation], table_format).lower()


def items_of_four(judgements, scores):
    items = tuple(f"item {row // 4}" for row in range(len(judgements)))
    return replace(judgements, items=items), scores


def test_units_that_a_metric_has_no_value_in_are_counted_everywhere(section):
    def flat(judgements, scores):
        judgements, scores = items_of_four(judgements, scores)
        scores[1].scores[:8] = 0.5
        return judgements, scores

    by_item = {"protocol": Protocol("pearson", "per-item"), "baseline": "twmd"}
    evaluation = section(1, 40, 2, change=flat, **by_item).evaluation
    said = remarks(evaluation)
    alone = (
        "Left out for twmd-b alone: group-0 / item 0, group-0 / item 1 (its scores are all equal there, 8 segments)."
    )
    assert alone in said
    apart = "Differences from twmd are over the items on which both metrics have a value, so they can deviate"
    assert any(one.startswith(apart) for one in said)
    for table_format in ("markdown", "latex"):
        assert alone in format_evaluations([evaluation], table_format)
    assert alone in printed([evaluation])
    metrics = json.loads(format_evaluations([evaluation], "json"))["sets"][0]["metrics"]
    assert [one["undefined_segments"] for one in metrics] == [0, 8]
    rows = list(csv.DictReader(io.StringIO(format_evaluations([evaluation], "csv"))))
    assert {row["metric"]: (row["units"], row["undefined_segments"]) for row in rows} == {
        "twmd": ("10", "0"),
        "twmd-b": ("8", "8"),
    }
    whole = section(1, 40, 2, change=items_of_four, **by_item).evaluation
    assert not any(one.startswith("Differences") for one in remarks(whole))


@pytest.mark.parametrize("sign", [1, -1])
def test_ratings_that_run_the_other_way_are_told(section, sign):
    def turned(judgements, scores):
        turn = {name: sign * np.asarray(one) for name, one in judgements.ratings.items()}
        return replace(judgements, ratings=turn), scores

    said = remarks(section(1, 40, 2, change=turned).evaluation)
    assert ("All agreement is negative: if lower ratings are better, negate them." in said) is (sign < 0)


def test_metrics_without_a_value_hold_the_same_segments(section):
    def constant(judgements, scores):
        return judgements, [*scores, *(MetricScores(name, np.ones(40)) for name in "ab")]

    said = remarks(section(1, 40, 1, change=constant).evaluation)
    assert "Left out: a, b (its scores are all equal, 40 segments each)." in said


def test_soft_accuracy_is_of_p_values(section):
    def systems(judgements, scores):
        judgements, scores = items_of_four(judgements, scores)
        return replace(judgements, systems=tuple(f"system {row % 4}" for row in range(len(judgements)))), scores

    soft, hard = (
        remarks(section(1, 40, 2, change=systems, protocol=Protocol(name, "systems")).evaluation)[0]
        for name in ("soft-accuracy", "accuracy")
    )
    assert "over the p-values of all pairs of systems on the items that both have" in soft
    assert "(6 pairs of systems)" in soft
    assert "mean scores" not in soft
    assert "over the mean scores of the systems" in hard


def test_without_bootstrap_and_tests_their_columns_are_not_there(section):
    evaluation = section(1, samples=0, permutations=0).evaluation
    headers, *_ = markdown_rows(format_evaluations([evaluation], "markdown"))
    assert headers == ["metric", "pearson"]
    assert "seed" not in " ".join(remarks(evaluation))
    assert p_value_matrix(evaluation) is None


@pytest.mark.parametrize("protocol", [Protocol("kendall", "pooled"), Protocol("acc23"), Protocol("tau23", "pooled")])
def test_remarks_name_the_protocol(section, protocol):
    first = remarks(section(2, protocol=protocol).evaluation)[0]
    assert {"kendall": "Kendall's τ-b", "acc23": "Acc23 (", "tau23": "τ23 ("}[protocol.statistic] in first
    assert ("all segments" in first) == (protocol.level == "pooled")


def test_the_headline_names_the_best_and_its_equals(evaluation):
    best = evaluation.ranked()[0]
    assert headline(evaluation).startswith(f"Best: {best.name}, {best.value:.3f} ({best.low:.3f} to {best.high:.3f})")
    alike = replace(evaluation, metrics=tuple(replace(one, rank=1) for one in evaluation.metrics))
    assert all(one.name in headline(alike) for one in evaluation.metrics)
    alone = replace(evaluation, metrics=(evaluation.metrics[0],))
    assert "Best" not in headline(alone)


def test_unknown_formats_and_nothing_to_show_are_refused(evaluation):
    with pytest.raises(InputError, match="format of markdown, csv, json, latex, but got 'html'"):
        format_evaluations([evaluation], "html")
    with pytest.raises(InputError, match="at least one evaluation"):
        format_evaluations([], "csv")
    with pytest.raises(ValueError, match="remarks for 1 evaluations, but got 2"):
        format_evaluations([evaluation], "csv", further=[[], []])


# --- heat maps --------------------------------------------------------------------------------------------------------


def test_the_heat_map_compares_with_the_median_of_each_group(evaluation):
    matrix = group_matrix(evaluation)
    ranked = evaluation.ranked()
    assert matrix.columns == [one.name for one in ranked]
    for row in matrix.rows:
        values = [one.by_group[row.name] for one in ranked]
        assert [cell.text for cell in row.cells] == [f"{value:.3f}".lstrip("0") for value in values]
        for value, cell in zip(values, row.cells, strict=True):
            above = value > np.median(values)
            assert cell.shade[:1] in ("", "a" if above else "b")
    strongest = max(
        (abs(one.by_group[g] - np.median([m.by_group[g] for m in ranked])), g, i)
        for g in evaluation.groups
        for i, one in enumerate(ranked)
    )
    row = next(row for row in matrix.rows if row.name == strongest[1])
    assert row.cells[strongest[2]].shade[1:] == "4"


def test_p_values_are_coloured_from_significance_on_and_ranks_set_apart(evaluation):
    matrix = p_value_matrix(evaluation)
    ranked = evaluation.ranked()
    names = [one.name for one in evaluation.metrics]
    assert [row.lead for row in matrix.rows] == [str(one.rank) for one in ranked]
    for row, metric in zip(matrix.rows, ranked, strict=True):
        for cell, other in zip(row.cells, ranked, strict=True):
            p = evaluation.p_values[names.index(metric.name), names.index(other.name)]
            assert cell.shade == ("self" if metric is other else "h3" if p <= 0.01 else "h1" if p <= 0.05 else "")
            assert (cell.text == "·") == (p > 0.95)
    changes = [a.rank != b.rank for a, b in itertools.pairwise(ranked)]
    assert [row.opens for row in matrix.rows] == [False, *changes]


def test_correlations_that_are_missing_or_all_alike_have_a_cell():
    nan = math.nan
    matrix = correlation_matrix("abc", [[1, 0.5, nan], [0.5, 1, nan], [nan, nan, nan]])
    assert [[cell.text for cell in row.cells] for row in matrix.rows] == [
        ["", ".50", "–"],
        [".50", "", "–"],
        ["–", "–", ""],
    ]
    assert correlation_matrix("ab", [[1, 0.997], [0.997, 1]]).rows[0].cells[1].text == ">.99"
    assert correlation_matrix("ab", [[1, 1], [1, 1]]).rows[0].cells[1].text == "1"
    assert correlation_matrix("a", [[nan]]).rows[0].cells[0].shade == "self"


def test_similar_metrics_stand_side_by_side():
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(2, 500))
    scores = kinds[[0, 1, 0, 1, 0, 1]] + 0.3 * rng.normal(size=(6, 500))
    scores[4] = 1.0  # constant
    with np.errstate(invalid="ignore"):
        table = np.corrcoef(scores)
    matrix = correlation_matrix("abcdef", table)
    assert "".join(matrix.columns[:2]) in ("ac", "ca")
    assert sorted(matrix.columns[2:5]) == ["b", "d", "f"]
    assert matrix.columns[5] == "e"
    places = ["abcdef".index(name) for name in matrix.columns]
    for row, i in zip(matrix.rows, places, strict=True):
        assert row.name == "abcdef"[i]
        for cell, j in zip(row.cells, places, strict=True):
            if i != j and not math.isnan(table[i, j]):
                assert float(cell.text.replace("−", "-")) == pytest.approx(table[i, j], abs=0.00501)
