"""The report page: its structure, what it escapes, and that it needs nothing else."""

import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from textmover.meta_evaluation import MetricScores, Protocol, agreement_by_length, agreement_by_quantile
from textmover.report import ReportHead, check_jinja, render_report, write_report
from textmover.types import InputError

HEAD = ReportHead("1 May 2030", "textmover evaluate --data a.csv", {"textmover": "9.9", "torch": "2.x"})
NASTY = '</script><script>alert("x")</script><b>&amp; \'"</b> https://example.org/x.js'


def test_a_page_has_all_parts(section, aligned, check):
    made = aligned(section(3, 30, 4, baseline="twmd-b"))
    page = check(render_report(HEAD, [made]))
    for part in (
        "1 May 2030", "textmover evaluate --data a.csv", "torch", "Which differences are significant",
        "Agreement by group", "Agreement by length", "Metric against people", "Distributions",
        "Correlation between metrics", "Largest disagreements", "Signatures", "metric:twmd| version:1",
        "bootstrap, 20 draws, seed 0", "90 segments in 3 groups",
    ):  # fmt: skip
        assert part in " ".join(page.text.split())
    # Four scatter plots, five distributions (people too), two plots of lines, four intervals, 4 metrics · 4 segments.
    classes = [attributes["class"] for attributes in page.all("svg")]
    assert {name: classes.count(name) for name in set(classes)} == {"panel": 9, "lines": 2, "interval": 4 + 16}
    words = [attributes for attributes in page.all("span") if attributes.get("class", "").startswith("w ")]
    assert len(words) > 16 * 2 * 3
    assert any("data-l" in attributes for attributes in words)
    best = made.evaluation.ranked()[0]
    assert f"{best.value:.3f}" in page.text
    assert f"{best.low:.3f} to {best.high:.3f}" in page.text


def test_links_between_words_can_be_read_without_a_script(section, aligned):
    made = aligned(section(1, 20, 1))
    text = render_report(HEAD, [made])
    one = made.disagreements[0].alignment
    link = next(link for link in one.links if link.similarity == 0.4)
    word, partner = one.hypothesis[link.hypothesis], one.reference[link.reference]
    assert re.search(rf">{word}<small>{partner} <b>.40</b></small>", text)


def test_nothing_that_a_text_or_a_name_holds_becomes_markup(section, aligned, check):
    def nasty(judgements, scores):
        texts = (NASTY, *judgements.hypotheses[1:])
        groups = tuple(group.replace("group-0", NASTY) for group in judgements.groups)
        ratings = judgements.ratings["score"]
        first = ratings + np.where(np.arange(len(ratings)) == 0, 50.0, 0.0)
        judgements = replace(judgements, hypotheses=texts, groups=groups, name=NASTY)
        return judgements, [MetricScores(NASTY, first, True, NASTY), *scores[1:]]

    plain = section(2, change=nasty, baseline=NASTY)
    head = ReportHead(NASTY, NASTY, {NASTY: NASTY}, NASTY)
    for made in (plain, aligned(plain)):
        text = render_report(head, [replace(made, remarks=[NASTY])])
        page = check(text)
        assert "<script>alert" not in text
        assert "alert(" not in "".join(page.texts["script"])
        assert page.text.count("https://example.org/x.js") > 10
        assert "&amp;amp;" in text


def test_names_read_from_right_to_left_are_isolated_in_sentences(section):
    names = "\u05d0 1", "\u0645\u0631\u062d\u0628\u0627"

    def hebrew(judgements, scores):
        values = judgements.ratings["score"] + np.linspace(0, 0.1, len(judgements.groups))
        return judgements, [MetricScores(name, values, True, "s") for name in names]

    text = render_report(HEAD, [section(2, change=hebrew, baseline=names[0])])
    head = re.search("<dd>(Best: .*)</dd>", text)[1]
    assert head.startswith(f"Best: \u2068{names[0]}\u2069, 1.000 (")
    assert head.endswith(f"Not significantly better than: \u2068{names[1]}\u2069.")
    assert f"significantly worse than \u2068{names[0]}\u2069 (the same test)" in text


def test_texts_of_any_size_and_script_are_cut_and_the_rest_is_there(section, aligned, check):
    long, arabic = "word " * 10_000, "مرحبا بالعالم هذه جملة"

    def change(judgements, scores):
        ratings = judgements.ratings["score"]
        push = np.zeros(len(ratings))
        push[:2] = 60.0, 50.0
        hypotheses = (long, arabic, "", *judgements.hypotheses[3:])
        references = ((long, "another"), (arabic,), ("not empty",), *judgements.references[3:])
        judgements = replace(judgements, hypotheses=hypotheses, references=references)
        return judgements, [MetricScores("m", ratings + push)]

    plain = section(1, 30, 1, change=change)
    assert {0, 1} <= {one.row for one in plain.disagreements}
    for made in (plain, aligned(plain)):
        page = check(render_report(HEAD, [made]))
        assert re.search(r"9,9\d\d more words", page.text)
        assert page.text.count("word") > 20_000
        assert "1 other reference" in page.text
        assert any(attributes.get("dir") == "auto" for attributes in page.all("p"))
    blank = replace(plain.disagreements[0], hypothesis=" ")
    assert "(empty text)" in check(render_report(HEAD, [replace(plain, disagreements=[blank])])).text


def test_many_long_texts_are_cut_so_that_the_page_stays_small(section, check):
    made = section(1, 60, 3)
    long = "many words " * 20_000
    many = [replace(one, hypothesis=long, references=(long, long)) for one in made.disagreements]
    text = render_report(HEAD, [replace(made, disagreements=many)])
    assert "more characters, which this page leaves out" in text
    assert len(text.encode()) < 3_000_000
    check(text)


def test_a_large_set_makes_a_page_of_less_than_two_megabytes(section, aligned, check):
    text = render_report(HEAD, [aligned(section(7, 560, 15))])
    assert len(text.encode()) < 2_000_000
    page = check(text)
    assert "3,920 segments" in page.text


# --- next to nothing --------------------------------------------------------------------------------------------------


def damaged(judgements, scores):
    holes = scores[0].scores.copy()
    holes[::3] = math.nan
    constant = MetricScores("constant", np.full(len(judgements), 0.1))
    return judgements, [MetricScores("twmd", holes), *scores[1:], constant]


@pytest.mark.parametrize(
    ("groups", "size", "metrics", "options"),
    [
        (1, 3, 1, {}),
        (1, 3, 1, {"samples": 0, "permutations": 0}),
        (1, 20, 1, {}),
        (1, 20, 3, {}),
        (4, 4, 2, {"samples": 0}),
        (30, 5, 20, {"baseline": "twmd"}),
        (2, 20, 3, {"change": damaged, "baseline": "constant"}),
        (2, 20, 3, {"protocol": Protocol("kendall", "pooled")}),
        (2, 20, 3, {"protocol": Protocol("acc23")}),
    ],
)
def test_degenerate_input_makes_a_page(section, groups, size, metrics, options, check):
    page = check(render_report(ReportHead("today"), [section(groups, size, metrics, **options)]))
    assert ("Correlation between metrics" in page.text) == (metrics > 1)
    assert ("Agreement by group" in page.text) == (groups > 1 and options.get("protocol", Protocol()).level != "pooled")


def test_single_segments_in_groups_are_named_as_left_out(section, check):
    def lonely(judgements, scores):
        return replace(judgements, groups=(*("a",) * 38, "b", "c")), scores

    assert re.search(r"Left out: b, c \(", check(render_report(HEAD, [section(2, change=lonely)])).text)


def test_preferences_have_no_plots_against_ratings(section, check):
    def preferred(judgements, scores):
        pairs = np.array([[row, row + 1] for row in range(0, 38, 2)])
        return replace(judgements, preferences=pairs, ratings={}), scores

    page = check(render_report(HEAD, [section(1, 40, 2, change=preferred, protocol=Protocol("darr"))]))
    assert "Metric against people" not in page.text
    assert "Distributions" in page.text
    assert "19 preferences" in page.text


def test_bins_say_what_counts_in_them(section, check):
    """Most groups are too small to be cut into quarters: each picture says how many take part, and on what."""
    made = section(9, 7, 2)
    page = check(render_report(HEAD, [made]))
    groups, human = made.judgements.groups, made.judgements.ratings["score"]
    scores = [one.scores for one in made.metrics]
    bins = agreement_by_quantile(scores, human, groups)
    assert {one.groups for one in bins} == {0}  # of seven segments two or one are in a quarter
    assert "0/9 groups" not in page.text
    assert "Left out: 63 of 63 segments (18 in lowest, 18 in low, 9 in high, 18 in highest), in groups" in page.text
    assert page.text.count("No bin holds enough segments for a correlation.") >= 1
    lengths = np.array([len(references[0].split()) for references in made.judgements.references], dtype=float)
    for one in agreement_by_length(scores, human, lengths, groups):
        assert 0 < one.groups < 9
        assert f"n {one.counted:,}" in page.text
        assert f"{one.groups}/9 groups" in page.text
        assert f"n {one.counted:,}, {one.groups} of 9 groups" in page.text
        assert f"{one.values[0]:.3f}".replace("-", "−") in page.text
    whole = check(render_report(HEAD, [section(2, 60, 2)]))
    assert "2 of 2 groups" in whole.text
    assert "Left out" not in whole.text
    assert "95 % bootstrap intervals, 20 draws" in whole.text
    without = check(render_report(HEAD, [section(2, 60, 2, samples=0)]))
    assert "bootstrap intervals" not in without.text


def test_correlations_of_metrics_say_over_which_groups_they_are(section, check):
    def flat(judgements, scores):
        scores[0].scores[:20] = 0.5
        return judgements, scores

    said = "Mean over 2 of 3 groups, which hold 40 of 60 segments"
    assert said in check(render_report(HEAD, [section(3, 20, 3, change=flat)])).text
    assert "Mean over" not in check(render_report(HEAD, [section(3, 20, 3)])).text


def test_with_many_metrics_the_best_and_the_baseline_stand_out(section, check):
    made = section(2, 40, 8, baseline="yisi-1")
    text = render_report(HEAD, [made])
    best = made.evaluation.ranked()[0].name
    assert f"In colour: {best} and yisi-1" in check(text).text
    assert text.count(' muted"') == 2 * 6
    few = render_report(HEAD, [section(2, 40, 4)])
    assert ' muted"' not in few
    assert "In colour" not in few


def test_segments_are_named_as_the_file_names_them_and_metrics_stand_by_rank(section):
    def named(judgements, scores):
        items = tuple(f"i{row}" for row in range(40))
        systems = tuple("xy"[row % 2] for row in range(40))
        return replace(judgements, items=items, systems=systems), scores[::-1]

    made = section(2, 20, 3, change=named)
    one = made.disagreements[0]
    where = f"{one.group} · item i{one.row} · system {'xy'[one.row % 2]} · row {one.row + 1}"
    assert f"{where}</span>" in render_report(HEAD, [made])
    gaps = replace(made, judgements=replace(made.judgements, left_out={"empty": 2}))
    text = render_report(HEAD, [gaps])
    assert f"{where} of the 40 that were read</span>" in text
    order = re.findall(r'<summary><h4><i class="swatch m\d+"></i>([\w-]+)</h4>', text)
    assert order == [metric.name for metric in made.evaluation.ranked()]
    assert order != [metric.name for metric in made.metrics]


def test_outliers_are_counted_under_their_pictures(section, check):
    def wild(judgements, scores):
        scores[0].scores[:2] = 900.0
        return judgements, scores

    assert "2 of 400 lie outside" in check(render_report(HEAD, [section(1, 400, 2, change=wild)])).text
    assert "outside</small>" not in render_report(HEAD, [section(1, 400, 2)])


def test_several_sets_share_a_page_and_the_colours_of_metrics(section, check):
    first, second = section(2, 20, 3, name="one"), section(1, 20, 2, seed=3, name="two")
    second = replace(second, metrics=second.metrics[::-1])
    text = render_report(HEAD, [first, second])
    page = check(text)
    assert "All sets" in page.text
    swatches = set(re.findall(r'<i class="swatch (m\d+)"></i>([\w-]+)<', text))
    assert len(swatches) == 3


def test_texts_without_spaces_are_measured_in_characters(section, check):
    def chinese(judgements, scores):
        return replace(judgements, references=tuple(("字" * (13 + row),) for row in range(len(judgements)))), scores

    assert "characters of the reference" in check(render_report(HEAD, [section(1, change=chinese)])).text
    made = section(1)
    given = replace(made, lengths=np.arange(20.0), length_unit="tokens")
    assert "Agreement by length in tokens" in check(render_report(HEAD, [given])).text


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_page_is_written_whole_or_not_at_all(section, tmp_path):
    path = write_report(tmp_path / "new" / "folder", HEAD, [section()])
    assert [one.name for one in path.parent.iterdir()] == ["index.html"]
    assert path.read_text(encoding="utf-8") == render_report(HEAD, [section()])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Expected to be able to write .*index\.html"):
        write_report(tmp_path / "file", HEAD, [section()])
    (tmp_path / "taken" / "index.html").mkdir(parents=True)
    with pytest.raises(InputError, match="Expected to be able to write"):
        write_report(tmp_path / "taken", HEAD, [section()])
    assert [one.name for one in (tmp_path / "taken").iterdir()] == ["index.html"]


def test_half_characters_do_not_stop_the_page(section, tmp_path):
    made = section(1)
    broken = [replace(made.disagreements[0], hypothesis="half \ud800 character")]
    path = write_report(tmp_path, HEAD, [replace(made, disagreements=broken)])
    assert "half ? character" in path.read_text(encoding="utf-8")


def test_without_jinja_and_without_sets(section, monkeypatch):
    with pytest.raises(InputError, match="at least one judgement set"):
        render_report(HEAD, [])
    made = section()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r'pip install "textmover\[report\]"'):
        check_jinja()
    with pytest.raises(InputError, match="Expected Jinja for the report"):
        render_report(HEAD, [made])
