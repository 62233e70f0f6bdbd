import json

import numpy as np
import pytest

from textmover import Scorer
from textmover.data.readers import Columns, read_segments
from textmover.meta_evaluation import bootstrap_interval, correlations

ROWS = [  # language pair, hypothesis, reference, rating
    ("de-en", "the cat sat on the street", "a cat sat in the street", 0.1),
    ("de-en", "a dog", "the dog", 0.30000000000000004),
    ("de-en", "many people walk in the rain", "people walk under the rain", 0.5),
    ("de-en", "she will sing a song", "he can not sing", -0.7),
    ("fi-en", "a good friend", "my friend", 0.2),
    ("fi-en", "two big trees", "three small trees", -1.5),
    ("fi-en", "it is warm today", "today it is cold", 0.4),
    ("fi-en", "it is late", "come with me", -0.25),
    ("xx-en", "he eats", "she eats", 1.0),
    ("xx-en", "no", "yes", -1.0),
]


@pytest.fixture
def ratings(write):
    return write("ratings.tsv", ["lp\thypothesis\treference\tscore", *("\t".join(map(str, row)) for row in ROWS)])


@pytest.fixture
def expected(tiny_encoder):
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder))
    return scorer.score([row[1] for row in ROWS], [row[2] for row in ROWS])


HUMAN = np.array([row[3] for row in ROWS])


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_the_table_of_groups_their_mean_and_its_interval(run, ratings, tiny_encoder, expected):
    ended = run("evaluate", "--data", ratings, "--group", "lp", "--encoder", tiny_encoder)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["group", "n", "Pearson", "Spearman", "Kendall"]
    parts = [correlations(expected.scores[rows], HUMAN[rows]) for rows in (slice(0, 4), slice(4, 8))]
    for line, name, part in zip(lines[1:], ("de-en", "fi-en"), parts, strict=False):
        assert line.split() == [name, "4", *(f"{value:.4f}" for value in part[1:])]
    assert lines[3].split() == ["xx-en", "2", "-", "-", "-"]
    means = np.mean([part[1:] for part in parts], axis=0)
    assert lines[4].split() == ["mean", "8", *(f"{value:.4f}" for value in means)]
    interval = bootstrap_interval(expected.scores, HUMAN, [row[0] for row in ROWS])
    assert lines[6] == (
        f"Mean Pearson {means[0]:.3f}, 95 % interval {interval.low:.3f} to {interval.high:.3f} "
        "(bootstrap, 1000 draws of whole references)"
    )
    assert lines[7].startswith("Left out of the mean: xx-en (fewer than 3 segments")
    assert lines[8:] == [f"Signature: {expected.signature}", "Scores: ratings.scores.tsv"]


def test_json_has_null_where_there_is_no_correlation(run, ratings, tiny_encoder, expected):
    command = ("evaluate", "--data", ratings, "--group", "lp", "--encoder", tiny_encoder, "--format", "json")
    ended = run(*command, "--samples", "50", "--seed", "3")
    told = json.loads(ended.out)
    assert told["model"] == "twmd"
    assert told["groups"]["xx-en"] == {"n": 2, "pearson": None, "spearman": None, "kendall": None}
    pearson = correlations(expected.scores[:4], HUMAN[:4]).pearson
    assert told["groups"]["de-en"]["pearson"] == pytest.approx(pearson, abs=1e-12)
    assert told["undefined"] == ["xx-en"]
    assert told["mean"]["groups"] == 2
    interval = bootstrap_interval(expected.scores, HUMAN, [row[0] for row in ROWS], samples=50, seed=3)
    assert (told["interval"]["low"], told["interval"]["high"]) == pytest.approx((interval.low, interval.high))
    assert told["signature"] == str(expected.signature)
    assert told["scores"] == "ratings.scores.tsv"


def test_without_groups_all_segments_are_one(run, ratings, tiny_encoder, expected):
    ended = run("evaluate", "--data", ratings, "--encoder", tiny_encoder, "--quiet")
    lines = ended.out.splitlines()
    whole = correlations(expected.scores, HUMAN)
    assert lines[1].split() == ["all", "10", *(f"{value:.4f}" for value in whole[1:])]
    assert len(lines) == 4  # one group is its own mean, and quiet has no notes


def test_groups_of_two_columns_and_no_correlation_at_all(run, write, tiny_encoder):
    lines = ["lp\tsystem\thypothesis\treference\tscore", "de\tA\ta dog\ta cat\t1", "de\tB\ta dog\tno\t2"]
    table = write("few.tsv", lines)
    ended = run("evaluate", "--data", table, "--group", "lp", "--group", "system", "--encoder", tiny_encoder)
    assert ended.code == 0
    assert "Mean Pearson -, 95 % interval - to -" in ended.out
    assert "Left out of the mean: de / A, de / B" in ended.out


# --- the scores file --------------------------------------------------------------------------------------------------


def test_the_scores_file_keeps_every_digit_and_is_read_back(run, ratings, tiny_encoder, expected, tmp_path):
    run("evaluate", "--data", ratings, "--group", "lp", "--encoder", tiny_encoder)
    written = tmp_path / "ratings.scores.tsv"
    header = written.read_text().splitlines()[0]
    assert header == "lp\thypothesis\treference\thuman_score\tmetric_score"
    for column, values in (("human_score", HUMAN), ("metric_score", expected.scores)):
        segments = read_segments(written, Columns(score=column, groups=("lp",)))
        assert [one.score for one in segments] == values.tolist()
    assert [(one.groups["lp"], one.hypothesis, *one.references) for one in segments] == [row[:3] for row in ROWS]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratings.scores.tsv", "ratings.tsv"]


def test_several_files_and_several_references(run, write, tiny_encoder, tmp_path):
    first = write("a.jsonl", [json.dumps({"hypothesis": "a\tdog", "reference": ["a dog", "the dog"], "score": 1})])
    second = write("b.csv", ["hypothesis,reference,score", '"a, b",the cat,2', "no,yes,3"])
    ended = run("evaluate", "--data", first, second, "--encoder", tiny_encoder, "--output", "out/scores.tsv")
    assert ended.code == 0
    assert ended.out.endswith("Scores: out/scores.tsv\n")
    assert ended.err == "out/scores.tsv: a tab or line break in 1 of the texts was written as a space.\n"
    lines = [line.split("\t") for line in (tmp_path / "out" / "scores.tsv").read_text().splitlines()]
    assert lines[0] == ["file", "hypothesis", "reference", "reference_2", "human_score", "metric_score"]
    assert lines[1][:5] == [str(first), "a dog", "a dog", "the dog", "1.0"]
    assert lines[2][:5] == [str(second), "a, b", "the cat", "", "2.0"]
    segments = read_segments(
        tmp_path / "out" / "scores.tsv", Columns(references=("reference", "reference_2"), score="metric_score")
    )
    assert [one.references for one in segments] == [("a dog", "the dog"), ("the cat",), ("yes",)]


def test_empty_hypotheses_are_counted_and_warned_of_once(run, write, tiny_encoder):
    table = write("ratings.tsv", ["hypothesis\treference\tscore", "\ta dog\t1", "a cat\ta dog\t2", "\tthe cat\t3"])
    ended = run("evaluate", "--data", table, "--encoder", tiny_encoder, "--format", "json")
    assert json.loads(ended.out)["counts"] == {"empty": 2}
    assert ended.err == "2 segments had an empty side: their values are those of unrelated texts.\n"


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--score-column", "rating"], ["'rating'", "set `--score-column`"]),
        (["--hypothesis-column", "hypothesys"], ["'hypothesys'", "did you mean 'hypothesis'?"]),
        (["--reference-column", "ref"], ["'ref'", "set `--reference-column`"]),
        (["--group", "language"], ["'language'", "set `--group`"]),
    ],
)
def test_a_missing_column(refused, ratings, flags, named):
    said = refused("evaluate", "--data", ratings, *flags)
    for part in (f"in {ratings}", "'lp', 'hypothesis', 'reference', 'score'", *named):
        assert part in said


@pytest.mark.parametrize("value", ["good", "", "nan", "inf", "1,5"])
def test_a_score_that_is_no_finite_number(refused, write, value):
    table = write("ratings.tsv", ["hypothesis\treference\tscore", "a\tb\t1", f"a\tb\t{value}"])
    said = refused("evaluate", "--data", table)
    assert f"Expected a finite number in column 'score' of {table}, line 3, but got {value!r}" in said
    assert "correct it or remove the row" in said


@pytest.mark.parametrize(("lines", "reason"), [([], "is empty"), (["hypothesis\treference\tscore"], "got none")])
def test_an_empty_file(refused, write, lines, reason):
    table = write("ratings.tsv", lines)
    said = refused("evaluate", "--data", table)
    assert str(table) in said
    assert reason in said


def test_files_and_models_that_are_not_there(refused, ratings, tmp_path):
    assert f"{tmp_path / 'gone.tsv'}, but there is none" in refused("evaluate", "--data", tmp_path / "gone.tsv")
    assert "Did you mean 'trwmd'?" in refused("evaluate", "--data", ratings, "--model", "trmwd")
    assert "no folder" in refused("evaluate", "--data", ratings, "--encoder", "no-such-encoder-here")
    assert "required: --data" in refused("evaluate")
    assert "config.json" in refused("evaluate", "--data", ratings, "--model", tmp_path)


def test_output_that_cannot_be_written_is_refused_before_the_work(refused, ratings):
    below = ratings / "scores.tsv"
    said = refused("evaluate", "--data", ratings, "--model", "never-loaded", "--output", below)
    assert f"{below}, but {ratings} is a file" in said
    assert "got the input ratings.tsv" in refused("evaluate", "--data", ratings, "--output", "ratings.tsv")


def test_draws_that_cannot_be_made(refused, ratings, tiny_encoder):
    said = refused("evaluate", "--data", ratings, "--encoder", tiny_encoder, "--samples", "0")
    assert "Expected --samples to be at least 1" in said
