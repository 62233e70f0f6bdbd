"""Sets of marked errors: metrics mark the texts and are judged by the spans of people."""

import csv
import io
import json
import math

import pytest

from textmover.meta_evaluation import judge_errors
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.scoring.error_spans.spans import word_overlap_errors

HEADER = "lp\thypothesis\treference\thypothesis_tokens\ttags\tkind"
TAGGED = [
    ("de", "a cat sat there", "a dog sat there", "OK OK OK BAD OK OK OK OK OK", "name"),
    ("de", "she left in 1990", "she left in 1991", "OK OK OK OK OK OK OK BAD OK", "number"),
    ("de", "he goes home", "he goes home now", "OK OK OK OK OK OK BAD", "drop"),
    ("et", "the rain was warm", "the rain was cold", "OK OK OK OK OK OK OK BAD OK", "name"),
    ("et", "all is well", "all is well", "OK OK OK OK OK OK OK", "none"),
    ("et", "two men sang", "three women sang", "OK BAD OK BAD OK OK OK", "number"),
]
TABLE = [HEADER, *("\t".join((lp, text, other, text, tags, kind)) for lp, text, other, tags, kind in TAGGED)]
SET = ["name: Tags", "tags: tags", "groups: lp"]
QUICK = ("--samples", "50", "--permutations", "50", "--quiet")


@pytest.fixture
def marked(run, write, tiny_encoder):
    def marked(*options, table=TABLE, described=SET):
        files = "--data", write("tags.tsv", table), "--set", write("tags.yaml", described)
        return run("evaluate", *files, "--model", "twmd", "--encoder", tiny_encoder, *QUICK, *options)

    return marked


def test_json_holds_the_agreement_of_each_metric(marked, write):
    (entry,) = json.loads(marked("--format", "json").silent().out)["sets"]
    assert (entry["set"], entry["segments"], entry["groups"]) == ("Tags", 6, {"de": 3, "et": 3})
    assert [one["name"] for one in entry["metrics"]] == ["twmd", "word-overlap"]
    overlap = entry["metrics"][1]
    gold = read_marked(write("tags.tsv", TABLE), MarkedColumns(groups=("lp",)))
    found = word_overlap_errors([one.hypothesis for one in gold], [one.references for one in gold])
    expected = judge_errors(gold, found.texts, "lp", samples=50).figures
    for name, value in expected.items():
        shown = overlap["figures"][name]
        assert [math.nan if one is None else one for one in (shown["estimate"], shown["low"])] == pytest.approx(
            [value.estimate, value.low], nan_ok=True
        )
    assert overlap["signature"] == "metric:word-overlap"
    assert "errors:rule" in entry["metrics"][0]["signature"]
    assert len(entry["p_values"]["mcc_words"]) == 2
    assert overlap["calibration"]["words"]["counts"]


def test_tables_show_groups_kinds_ranks_and_the_baseline(marked):
    described = [*SET[:2], "groups: [lp, kind]"]
    shown = marked("--against", "word-overlap", described=described).silent().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "Tags"
    assert any(line.startswith("word-overlap 1.000 1.000 to 1.000 1 baseline 1.000 ") for line in lines)
    assert "6 segments, mean over 2 groups." in lines
    assert "Not defined in et: MCC gaps." in lines
    assert any(line.startswith("Intervals are unreliable: fewer than 10 segments") for line in lines)
    assert "Tags · by group" in lines
    assert "word-overlap number 1.000 1.000" in lines


def test_other_formats(marked):
    rows = list(csv.DictReader(io.StringIO(marked("--format", "csv").silent().out)))
    assert [(row["metric"], row["set"]) for row in rows] == [("twmd", "Tags"), ("word-overlap", "Tags")]
    assert float(rows[1]["mcc_words"]) == pytest.approx(1.0)
    assert "| metric | MCC words |" in marked("--format", "markdown").silent().out
    assert r"\toprule" in marked("--format", "latex").silent().out


def test_spans_without_tags_are_ranked_by_their_characters(run, write, tiny_encoder):
    rows = [
        {"hypothesis": text, "reference": other, "errors": spans}
        for text, other, spans in [
            ("a cat sat", "a dog sat", [{"start": 2, "end": 5, "severity": "minor"}]),
            ("he goes home", "he goes home", []),
            ("it is 12 euros", "it is 15 euros", [{"start": 6, "end": 8, "severity": "critical"}]),
        ]
    ]
    files = "--data", write("spans.jsonl", list(map(json.dumps, rows))), "--set", write("spans.yaml", ["spans: errors"])
    command = "evaluate", *files, "--model", "twmd", "--encoder", tiny_encoder, *QUICK, "--format", "json"
    (entry,) = json.loads(run(*command).silent().out)["sets"]
    assert (entry["set"], entry["ranked_by"], entry["groups"]) == ("spans", "span_f1", {"all": 3})
    overlap = entry["metrics"][1]["figures"]
    assert overlap["span_f1"]["estimate"] == pytest.approx((3 + 2 / 2) / 5), "the number has another severity"
    assert overlap["mcc_words"]["estimate"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--statistic", "pearson"), "Expected no --statistic for a set of marked errors, but got one: leave it out."),
        (("--report", "page"), "Expected no --report for a set of marked errors"),
        (("--baselines", "chrf"), "Expected no --baselines for a set of marked errors"),
        (("--against", "chrf"), "Expected `--against` to be one of twmd, word-overlap for Tags, but got 'chrf'"),
        (("--group", "gone"), "'gone'"),
    ],
)
def test_options_that_mean_nothing_here(marked, options, message):
    assert message in marked(*options).complaint()


def test_rows_that_cannot_be_used(marked):
    table = [*TABLE, "de\ta b\ta c\ta b\tOK BAD\tname"]
    said = marked(table=table).complaint()
    assert "Expected 5 tags (gap, word, gap, …, gap) for the 2 words" in said
    assert "tags.tsv, line 8, but got 2" in said
    shown = marked("--format", "json", table=table, described=[*SET, "unusable: leave out"]).silent().out
    assert json.loads(shown)["sets"][0]["left_out"] == 1
    nothing = marked(table=[HEADER, *table[-1:]], described=[*SET, "unusable: leave out"]).complaint()
    assert "Expected 5 tags" in nothing
    assert "tags.tsv" in marked(described=[*SET, "where: {lp: fr}"]).complaint()
