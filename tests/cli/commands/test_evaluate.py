import json
import re

import numpy as np
import pytest
from tests.cli.shared import ROWS, table_of

from textmover import Scorer
from textmover.meta_evaluation import MetricScores, correlations, evaluate
from textmover.readers.segments import Columns, read_segments
from textmover.types import Judgements


@pytest.fixture
def ratings(write):
    return write("ratings.tsv", table_of(ROWS))


@pytest.fixture
def expected(tiny_encoder):
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder))
    return scorer.score([row[1] for row in ROWS], [row[2] for row in ROWS])


HUMAN = np.array([row[3] for row in ROWS])


def evaluated(scores, **options):
    texts, references = tuple(row[1] for row in ROWS), tuple((row[2],) for row in ROWS)
    judgements = Judgements("ratings", texts, references, {"score": HUMAN}, tuple(row[0] for row in ROWS))
    return evaluate(judgements, [MetricScores("twmd", scores)], **options)


# --- one metric -------------------------------------------------------------------------------------------------------


def test_the_table_of_groups_their_mean_its_interval_and_the_scores(run, ratings, tiny_encoder, expected, tmp_path):
    ended = run("evaluate", "--data", ratings, "--group", "lp", "--encoder", tiny_encoder).silent()
    lines = ended.out.splitlines()
    assert lines[0].split() == ["group", "n", "Pearson", "Spearman", "Kendall"]
    parts = [correlations(expected.scores[rows], HUMAN[rows]) for rows in (slice(0, 4), slice(4, 8))]
    for line, name, part in zip(lines[1:], ("de-en", "fi-en"), parts, strict=False):
        assert line.split() == [name, "4", *(f"{value:.4f}" for value in part[1:])]
    assert lines[3].split() == ["xx-en", "2", "-", "-", "-"]
    means = np.mean([part[1:] for part in parts], axis=0)
    assert lines[4].split() == ["mean", "8", *(f"{value:.4f}" for value in means)]
    judged = evaluated(expected.scores).metrics[0]
    assert lines[6] == f"twmd: mean Pearson {means[0]:.3f}, 95 % interval {judged.low:.3f} to {judged.high:.3f}."
    assert "Left out: xx-en (fewer than 3 segments, 2 segments)." in lines
    assert lines[-1] == f"Signature: {expected.signature}"

    written = tmp_path / "ratings.scores.tsv"  # of every digit, to be read back
    assert written.read_text().splitlines()[0] == "group\thypothesis\treference\thuman_score\ttwmd"
    for column, values in (("human_score", HUMAN), ("twmd", expected.scores)):
        segments = read_segments(written, Columns(score=column, groups=("group",)))
        assert [one.score for one in segments] == values.tolist()
    assert [(one.groups["group"], one.hypothesis, *one.references) for one in segments] == [row[:3] for row in ROWS]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratings.scores.tsv", "ratings.tsv"]


def test_json_has_null_where_there_is_no_correlation(run, judged, ratings, tiny_encoder, expected):
    command = ("--data", ratings, "--group", "lp", "--encoder", tiny_encoder)
    (told,) = judged(*command, "--samples", "50", "--seed", "3")
    (metric,) = told["metrics"]
    assert (told["set"], metric["name"]) == ("ratings", "twmd")
    assert metric["groups"]["xx-en"] is None
    pearson = correlations(expected.scores[:4], HUMAN[:4]).pearson
    assert metric["groups"]["de-en"] == pytest.approx(pearson, abs=1e-12)
    assert [one["name"] for one in told["left_out"]["excluded"]] == ["xx-en"]
    own = evaluated(expected.scores, samples=50, seed=3).metrics[0]
    assert (metric["low"], metric["high"]) == (own.low, own.high)
    assert metric["signature"] == str(expected.signature)
    ended = run("evaluate", "--data", ratings, "--encoder", tiny_encoder, "--quiet")
    lines = ended.out.splitlines()
    whole = correlations(expected.scores, HUMAN)
    assert lines[1].split() == ["all", "10", *(f"{value:.4f}" for value in whole[1:])]
    assert "Signature" not in ended.out
    assert "Scores:" not in ended.out


# --- several metrics and sets -----------------------------------------------------------------------------------------


def test_models_overlap_and_ready_scores_beside_one_another(
    run, judged, ratings, write, tiny_encoder, expected, tmp_path
):
    ready = write("ready.txt", [str(-value) for value in HUMAN])
    flags = ("--model", "twmd", "--model", "bertscore-f1", "--baselines", "chrf", "ter", "--scores", f"mine={ready}")
    command = ("evaluate", "--data", ratings, "--encoder", tiny_encoder, *flags, "--lower-is-better", "mine")
    (told,) = judged(*command[1:], "--against", "chrf")
    by_name = {one["name"]: one for one in told["metrics"]}
    assert list(by_name) == ["twmd", "bertscore-f1", "chrf", "ter", "mine"]
    assert by_name["twmd"]["value"] == pytest.approx(correlations(expected.scores, HUMAN).pearson, abs=1e-6)
    assert by_name["mine"]["value"] == pytest.approx(1.0)
    assert re.fullmatch(r"scores of a file:ready\.txt\|sha256:[0-9a-f]{12}", by_name["mine"]["signature"])
    assert told["baseline"] == "chrf"
    assert by_name["mine"]["gain"] == pytest.approx(1 - by_name["chrf"]["value"])
    assert "Lower scores are better for ter, mine" in " ".join(told["remarks"])
    table = run(*command).out
    assert table.splitlines()[0] == "ratings"
    assert table.splitlines()[2].split()[0] == "mine"  # the best comes first
    header = (tmp_path / "ratings.scores.tsv").read_text().splitlines()[0].split("\t")
    assert header == ["hypothesis", "reference", "human_score", *by_name]
    for form, begins in {"markdown": "## ratings", "csv": "set,dim", "latex": "% Needs"}.items():
        out = run(*command, "--format", form).silent().out
        assert out.startswith(begins)
        assert all(name in out for name in by_name)


def test_a_warning_names_the_target_language_on_pages_too(run, write, tiny_encoder, tmp_path):
    sentences = ("The book is lying on the table", "We missed the train and had to wait", "The dog sleeps in the house")
    rows = ["hypothesis\treference\tscore", *(f"{one}.\tDer Hund.\t{place}" for place, one in enumerate(sentences))]
    flags = ("--encoder", tiny_encoder, "--target-language", "de")
    said = run("evaluate", "--data", write("own.tsv", rows), *flags, "--report", "page").err
    warning = "3 segments had a hypothesis in another language than de, which scores as an empty text"
    assert warning in said
    assert warning in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    for name, lines in {"a": sentences, "b": ["Der Hund."] * 3, "ref": ["Der Hund."] * 3}.items():
        write(f"{name}.txt", lines)
    for command in ("compare", "rank"):
        said = run(command, "-t", "a.txt", "b.txt", "-r", "ref.txt", *flags, "--output", "page.html").ok().err
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert [f"a (3): {warning}" in one for one in (said, page)] == [True, True]


def test_the_table_of_scores_has_the_sources(run, write, tmp_path):
    rows = [
        "hypothesis\treference\tsource\tscore\tbleu",
        *(f"a{one}\t\tq{one}\t{one}\t{one * one}" for one in range(1, 6)),
    ]
    flags = ("evaluate", "--data", write("own.tsv", rows), "--source-column", "source")
    run(*flags, "--metric-column", "bleu").ok()
    table = [line.split("\t") for line in (tmp_path / "own.scores.tsv").read_text().splitlines()]
    assert table[0] == ["hypothesis", "source", "human_score", "bleu"]
    assert [line[1] for line in table[1:]] == [f"q{one}" for one in range(1, 6)]
    run(*flags, "--scores", "own.scores.tsv", "--output", "again.tsv").ok()
    assert (tmp_path / "again.tsv").read_text() == (tmp_path / "own.scores.tsv").read_text()


def test_dimensions_and_levels_of_a_described_set(run, judged, write):
    lines = ["output\tgold\tfluent\ttrue\tdoc\tsystem\tmine"]
    lines += [f"x{d}{s}\ty\t{s}\t{(d * s) % 3}\td{d}\ts{s}\t{s + d / 10}" for d in range(4) for s in range(1, 5)]
    about = ["hypothesis: output", "references: gold", "ratings: [fluent, 'true']", "item: doc", "system: system",
             "scores: mine"]  # fmt: skip
    described = write("mine.yaml", about)
    flags = ("--set", described, "--data", write("own.tsv", lines))
    told = judged(*flags, "--metric-column", "mine", "--level", "per-item")
    assert [one["dimension"] for one in told] == ["fluent", "true"]
    assert told[0]["metrics"][0]["value"] == pytest.approx(1.0)
    assert told[0]["metrics"][0]["units"] == 4
    ended = run("evaluate", *flags, "--metric-column", "mine", "--statistic", "accuracy", "--dimension", "fluent").ok()
    assert "pairwise accuracy of systems" in ended.out.lower()


def test_each_file_is_a_set_of_its_own(run, write, tiny_encoder, tmp_path):
    first = write("a.jsonl", [json.dumps({"hypothesis": f"a\tdog {one}", "reference": ["a dog", "the dog"][: one + 1],
                                          "score": one}) for one in range(3)])  # fmt: skip
    second = write("b.csv", ["hypothesis,reference,score", '"a, b",the cat,2', "no,yes,3", "in,out,1"])
    ended = run("evaluate", "--data", first, second, "--encoder", tiny_encoder, "--output", "out").ok()
    said = "out/a.scores.tsv: a tab or line break in 3 of the texts and names was written as a space."
    assert ended.err == f"{said}\nWritten: out/a.scores.tsv, out/b.scores.tsv\n"
    lines = [line.split("\t") for line in (tmp_path / "out" / "a.scores.tsv").read_text().splitlines()]
    assert lines[0] == ["hypothesis", "reference", "reference_2", "human_score", "twmd"]
    assert [line[:4] for line in lines[1:3]] == [
        ["a dog 0", "a dog", "", "0.0"],
        ["a dog 1", "a dog", "the dog", "1.0"],
    ]
    segments = read_segments(
        tmp_path / "out" / "a.scores.tsv", Columns(references=("reference", "reference_2"), score="twmd")
    )
    assert [one.references for one in segments] == [("a dog",), ("a dog", "the dog"), ("a dog", "the dog")]


def test_the_report_shows_metrics_and_how_they_matched_words(run, ratings, tiny_encoder, tmp_path):
    flags = ("--group", "lp", "--encoder", tiny_encoder, "--model", "twmd", "--baselines", "chrf")
    command = ("evaluate", "--data", ratings, *flags)
    ended = run(*command, "--report", "page").ok()
    assert ended.err == "Written: ratings.scores.tsv, page\n"
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    for part in ("twmd", "chrf", "de-en", "textmover evaluate --data", "metric:twmd"):
        assert part in re.sub("<[^>]+>", "", page)
    assert page.count('class="words"') >= 4  # texts whose words are linked


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["good", "", "nan", "inf", "1,5"])
def test_a_score_that_is_no_finite_number(refused, write, value):
    table = write("ratings.tsv", ["hypothesis\treference\tscore", "a\tb\t1", f"a\tb\t{value}"])
    said = refused("evaluate", "--data", table)
    most = " of at most 1e+15" if value == "inf" else ""
    assert f"Expected a finite number{most} in column 'score' of {table}, line 3, but got {value!r}" in said
    keep = "" if value in ("", "nan") else "leave the cell empty and "
    other = (
        "write words as numbers, name another column of ratings with `--score-column`, or " if value == "good" else ""
    )
    way_out = f"correct it, or {other}{keep}allow missing ratings with `--missing-ratings keep`."
    assert said.strip().endswith("write it with a point." if value == "1,5" else way_out)


def test_scores_that_are_all_equal_or_missing_are_named(run, ratings, write):
    flat, some = write("flat.txt", ["0.5"] * 10), write("some.txt", ["nan", *map(str, range(9))])
    ended = run("evaluate", "--data", ratings, "--scores", flat, "--scores", some, "--baselines", "chrf").ok()
    assert ended.err.startswith(f"{some}: some has no score (nan) for 1 of 10 segments.\nWritten: ")
    assert "Left out for all metrics: 1 row without a score or a rating (missing: some: 1)." in ended.out
    assert "Left out: flat (" in ended.out
    assert "all equal" in ended.out


def test_a_file_that_no_option_names_is_not_replaced(run, write):
    write("rated.tsv", ["hypothesis\treference\tscore\tready", *(f"a {one}\tb\t{one}\t{one % 3}" for one in range(9))])
    command = ("evaluate", "--data", "rated.tsv", "--metric-column", "ready", "--samples", "20")
    path = write("rated.scores.tsv", ["mine"])
    said = run(*command).complaint()
    assert "Expected rated.scores.tsv, which no option names, to be new or from an earlier run" in said
    assert path.read_text() == "mine\n"
    run(*command, "--output", path).ok()  # where it is named
    run(*command).ok()  # nor where it is ours
    assert path.read_text().startswith("hypothesis\treference")
