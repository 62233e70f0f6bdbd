"""Experiments of which something has no value: the rest is shown, and nothing that was scored is lost."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import pearsonr
from tests.cli.shared import ROWS, SIGNALS, send

from textmover import Scorer
from textmover.experiments.evaluation.metrics import PERIOD, KeptScores
from textmover.experiments.papers import metrics as experiment_scores
from textmover.meta_evaluation import MetricScores
from textmover.readers.judgements import SetDescription, read_judgements, read_scores
from textmover.types import InputError, Judgements

EXPERIMENT = """
title: Two sets
paper: {name: Small, authors: One and Two, year: 2001, where: table 3}
files:
  ratings: {what: a table of ratings, source: nowhere}
sets:
  Hotels: {reader: mine.yaml, options: {where: {dataset: hotels}}}
  Trees, old: {reader: mine.yaml, options: {where: {dataset: trees}}}
baselines: [chrf]
metrics:
  ours: {model: twmd}
tables:
  - title: Table 3
    sets: [Hotels, "Trees, old"]
    dimensions: [clear, fluent]
    rows:
      - name: Our metric
        metric: ours
        published:
          - {encoder: a-large, values: [0.1, 0.2, 0.3, 0.4]}
      - name: Overlap
        metric: chrf
"""

FIGURE = """
figures:
  - {title: Figure 1, name: heat, set: Hotels, dimension: fluent, field: temperature, values: [0.02, 0.5],
     lines: [{name: A, model: twmd}]}
"""

DESCRIPTION = "ratings: [clear, fluent]"

TEXTS = [row[1:3] for row in (*ROWS[:4], ROWS[8])]
CLEAR, FLUENT = [0.1, 0.3, 0.5, -0.7, 0.2], [1.0, 2.0, 1.5, 4.0, 3.0]
SAME = [2.0] * 5


@pytest.fixture
def data(write):
    """Writes the table, from the ratings of each set."""

    def data(hotels=(CLEAR, FLUENT), trees=(FLUENT, CLEAR), texts=TEXTS):
        lines = ["dataset\thypothesis\treference\tclear\tfluent"]
        for name, ratings in (("hotels", hotels), ("trees", trees)):
            for (hypothesis, reference), *rated in zip(texts, *ratings, strict=True):
                lines.append("\t".join([name, hypothesis, reference, *map(str, rated)]))
        return write("ratings.tsv", lines)

    return data


@pytest.fixture
def command(write, tiny_encoder):
    def command(path, text=EXPERIMENT):
        write("mine.yaml", [DESCRIPTION])
        experiment = write("small.yaml", [text])
        given = ("evaluate", "--experiment", experiment, "--data", path, "--encoder", tiny_encoder)
        return (*given, "--samples", 20)

    return command


@pytest.fixture
def lacking(run, command):
    """Run an experiment of which something has no value; its JSON, and what is said of it."""

    def lacking(path, *text, options=()):
        ended = run(*command(path, *text), "--format", "json", *options)
        assert ended.code == 2
        return json.loads(ended.out), ended.err

    return lacking


def values(told, row, origin="here"):
    records = [one for table in told["tables"] for one in table["records"]]
    return {
        (one["set"], one["dimension"]): one["value"] for one in records if (one["row"], one["from"]) == (row, origin)
    }


def expected(tiny_encoder, ratings):
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder))
    scores = scorer.score([one for one, _ in TEXTS], [one for _, one in TEXTS]).scores
    return pytest.approx(pearsonr(scores, ratings).statistic, abs=1e-6)


# --- what has no value ------------------------------------------------------------------------------------------------


def test_a_dimension_of_equal_ratings_leaves_the_others_and_is_named(lacking, data, tiny_encoder, tmp_path):
    told, err = lacking(data(hotels=(CLEAR, SAME)), EXPERIMENT + FIGURE, options=("--output", "page.md"))
    warning, written, error = err.splitlines()
    assert written == "Written: page.scores/Hotels.tsv, page.scores/Trees_old.tsv, page.md"
    reason = "Expected segments whose agreement can be computed, but got none (all ratings are equal)"
    assert warning.startswith(f"Hotels, fluent, Pearson's r: {reason}")  # before the work
    assert error == (
        f"textmover: Expected everything that {tmp_path / 'small.yaml'} asks for to have a value, but got none for "
        "Hotels, fluent, Pearson's r: the reasons stand under the tables (page: page.md, scores: page.scores)."
    )
    found = values(told, "Our metric")
    assert found == {
        ("Hotels", "clear"): expected(tiny_encoder, CLEAR),
        ("Hotels", "fluent"): None,
        ("Trees, old", "clear"): expected(tiny_encoder, FLUENT),
        ("Trees, old", "fluent"): expected(tiny_encoder, CLEAR),
    }
    assert values(told, "Our metric", "paper")["Hotels", "fluent"] == 0.2
    assert any(
        one.startswith(f"Not computed: Hotels, fluent, Pearson's r. {reason}") for one in told["tables"][0]["remarks"]
    )
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| Our metric | here |"))
    assert [cell.strip() for cell in row.split("|")][5] == "-"
    assert "## Figure 1" in page
    assert "page_heat.png" not in page
    assert not (tmp_path / "page_heat.png").exists()


def test_sets_without_any_usable_rating_are_not_scored(lacking, data, tiny_encoder, tmp_path):
    told, err = lacking(data(trees=(SAME, SAME)))
    assert "got none for Trees, old, clear, Pearson's r; Trees, old, fluent, Pearson's r: the" in err
    assert values(told, "Our metric")["Hotels", "clear"] == expected(tiny_encoder, CLEAR)
    assert [path.name for path in (tmp_path / "small.scores").iterdir()] == ["Hotels.tsv"]


def test_ratings_that_can_be_used_nowhere_are_refused_before_a_model_is_loaded(
    refused, data, command, tmp_path, monkeypatch
):
    monkeypatch.setattr(experiment_scores, "build_scorer", None)
    said = refused(*command(data(hotels=(SAME, SAME), trees=(SAME, SAME))))
    assert said.startswith("textmover: Hotels, clear, Pearson's r: Expected segments whose agreement can be computed")
    assert not (tmp_path / "small.scores").exists()


def test_a_constant_metric_among_others_is_named(lacking, data):
    # Of texts without a word in common the overlap is none everywhere.
    told, err = lacking(data(texts=[(one, "xx") for one, _ in TEXTS]), EXPERIMENT.replace("chrf", "rouge-l"))
    assert (
        "got none for Overlap (Hotels, clear, Pearson's r, mean); Overlap (Hotels, fluent, Pearson's r, mean); " in err
    )
    assert "; and 1 more: the reasons stand under the tables" in err
    assert None not in values(told, "Our metric").values()
    assert set(values(told, "Overlap").values()) == {None}


def test_a_set_that_a_metric_refuses_leaves_the_other(lacking, data, tiny_encoder, monkeypatch):
    plain = experiment_scores.score_together

    def refusing(scorers, hypotheses, *others):
        if len(calls) == 1:
            raise InputError("Expected a text, but got none: correct it.")
        calls.append(hypotheses)
        return plain(scorers, hypotheses, *others)

    calls = []
    monkeypatch.setattr(experiment_scores, "score_together", refusing)
    told, err = lacking(data())
    assert "but got none for Trees, old: the reasons stand under the tables (scores: small.scores)." in err
    assert "Not computed: Trees, old. Expected a text, but got none: correct it." in told["tables"][0]["remarks"]
    assert values(told, "Our metric")["Hotels", "clear"] == expected(tiny_encoder, CLEAR)
    assert values(told, "Our metric")["Trees, old", "clear"] is None


def test_what_is_said_of_some_dimensions_names_them(run, data, command):
    lacking = [CLEAR[0], "", *CLEAR[2:]]
    path = data(hotels=(lacking, FLUENT))
    text = EXPERIMENT.replace("dataset: hotels}", "dataset: hotels}, missing_ratings: keep")
    told = json.loads(run(*command(path, text), "--format", "json").out)
    remarks = told["tables"][0]["remarks"]
    assert any(one.startswith("Hotels, clear: 4 segments.") for one in remarks), remarks
    assert any(one.startswith("Hotels, fluent: 5 segments.") for one in remarks)
    assert any(one.startswith("Trees, old: 5 segments.") for one in remarks)


def test_soft_accuracy_has_its_permutations(run, write, tiny_encoder):
    text = EXPERIMENT[: EXPERIMENT.index("tables:")].replace(
        "dataset: hotels}", "dataset: hotels}, item: n, system: who"
    )
    text += """
tables:
  - {title: Table 3, sets: Hotels, dimensions: clear, statistics: soft-accuracy, level: systems,
     rows: [{name: Our metric, metric: ours}]}
"""
    write("mine.yaml", [DESCRIPTION])
    lines = [
        f"hotels\t{number}\t{who}\t{hypothesis}\t{reference}\t{rating}\t{number}"
        for who, shift in (("A", 0), ("B", 1))
        for number, ((hypothesis, reference), rating) in enumerate(zip(TEXTS[shift : 4 + shift], CLEAR, strict=False))
    ]
    path = write("ratings.tsv", ["dataset\tn\twho\thypothesis\treference\tclear\tfluent", *lines])
    command = ("evaluate", "--experiment", write("small.yaml", [text]), "--data", path, "--encoder", tiny_encoder)
    ended = run(*command, "--format", "json", "--permutations", 50).ok()
    told = json.loads(ended.out)
    assert 0 <= values(told, "Our metric")["Hotels", "clear"] <= 1
    assert "--permutations 50" in told["command"]


# --- scores -----------------------------------------------------------------------------------------------------------


def test_the_scores_of_each_set_are_kept_and_read_back(run, data, command, tiny_encoder, tmp_path):
    path = data()
    ended = run(*command(path), "--output", "pages/page.md").ok()
    kept = tmp_path / "pages" / "page.scores"
    assert ended.err == "Written: pages/page.scores/Hotels.tsv, pages/page.scores/Trees_old.tsv, pages/page.md\n"
    assert sorted(one.name for one in kept.iterdir()) == ["Hotels.tsv", "Trees_old.tsv"]
    with (kept / "Hotels.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert list(rows[0]) == ["hypothesis", "reference", "human_clear", "human_fluent", "ours", "chrf"]
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder))
    scores = scorer.score([one for one, _ in TEXTS], [one for _, one in TEXTS]).scores
    assert [float(row["ours"]) for row in rows] == pytest.approx(scores.tolist(), abs=1e-6)
    judgements = read_judgements(
        path, SetDescription(ratings={"clear": "clear"}, where={"dataset": "hotels"}, references=("reference",))
    )
    assert set(read_scores(kept / "Hotels.tsv", judgements).scores) == {"ours", "chrf"}


@SIGNALS
def test_an_interruption_says_where_the_scores_are(run, data, command, tmp_path, monkeypatch, sent, code):
    def interrupted(*_):
        send(sent)
        yield

    monkeypatch.setattr(experiment_scores, "baseline_scores", interrupted)
    ended = run(*command(data()))
    assert (ended.code, ended.out) == (code, "")
    assert (
        ended.err == "Written: small.scores/Hotels.tsv\ntextmover: interrupted: the scores so far are in small.scores\n"
    )
    header, *rows = (tmp_path / "small.scores" / "Hotels.tsv").read_text().splitlines()
    assert header.split("\t")[-1] == "ours"
    assert len(rows) == 5
    assert not (tmp_path / "small.scores" / "Trees_old.tsv").exists()


def test_parts_of_a_set_are_handed_over_as_they_are_scored(run, data, command, tmp_path, monkeypatch):
    plain, left = Scorer.score_fitted, [2]

    def some(*given, **options):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return plain(*given, **options)

    monkeypatch.setattr("textmover.scoring.metric_set.WINDOW", 2)
    monkeypatch.setattr(Scorer, "score_fitted", some)
    assert run(*command(data())).code == 130
    assert run(*command(data())).err == "textmover: interrupted\n"  # before the first score
    rows = (tmp_path / "small.scores" / "Hotels.tsv").read_text().splitlines()[1:]
    assert [row.split("\t")[-1] == "nan" for row in rows] == [False, False, False, False, True]


JUDGED = Judgements("a", ("b", "c"), (("d",), ("e",)), {}, ("all", "all"))


def test_a_table_is_written_now_and_then_and_at_the_end(tmp_path):
    now = [0.0]
    kept = KeptScores({"a set": tmp_path / "scores" / "a_set.tsv"}, tmp_path / "scores", clock=lambda: now[0])
    path = kept.paths["a set"]
    with kept.keeping("a set", JUDGED) as take:
        take([MetricScores("one", np.array([1.0, np.nan])), MetricScores("two", np.array([np.nan, np.nan]))])
        assert not path.exists()
        now[0] = PERIOD
        take([MetricScores("one", np.array([1.0, 2.0])), MetricScores("two", np.array([np.nan, np.nan]))])
        assert path.read_text().splitlines()[1:] == ["b\td\t1.0", "c\te\t2.0"]  # what has no score yet has no column
        take([MetricScores("one", np.array([1.0, 2.0])), MetricScores("two", np.array([3.0, 4.0]))])
    assert path.read_text().splitlines() == ["hypothesis\treference\tone\ttwo", "b\td\t1.0\t3.0", "c\te\t2.0\t4.0"]
    assert list(kept.written) == [path]


def test_names_of_sets_become_names_of_files(tmp_path):
    kept = KeptScores.in_folder(tmp_path, ["STS12-16", "BAGEL, mr", "BAGEL mr", "..", "a/b"])
    names = ["STS12-16.tsv", "BAGEL_mr.tsv", "BAGEL_mr.2.tsv", "set.tsv", "a_b.tsv"]
    assert [path.name for path in kept.paths.values()] == names


def test_an_error_behind_the_scoring_says_where_the_scores_are(tmp_path):
    kept = KeptScores.in_folder(tmp_path / "scores", ["a"])
    with pytest.raises(InputError, match=r"^no\.$"), kept.told():
        raise InputError("no.")
    with kept.keeping("a", JUDGED) as take:
        take([MetricScores("one", np.array([1.0, 2.0]))])
    with pytest.raises(InputError, match=r"^no\. Earlier scores are kept in .*scores\.$"), kept.told():
        raise InputError("no.")
