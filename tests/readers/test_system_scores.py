"""Ready scores of systems: plain tables and JSON, and what is no score; files of `score` in test_compare.py."""

import gzip
import json

import numpy as np
import pytest
from tests.readers.shared import write_lines, write_records

from textmover.readers.system_scores import read_system_scores
from textmover.types import InputError

SCORES = np.array([[0.25, 0.5], [1.0, -0.125], [0.0, 2.0]])


def test_one_json_object(tmp_path):
    path = tmp_path / "scores.json"
    by_system = {name: {"scores": SCORES[:, place].tolist()} for place, name in enumerate(("ours", "theirs"))}
    path.write_text(json.dumps({"systems": by_system, "signature": "metric:m"}))
    found = read_system_scores([str(path)])
    assert found.signature == "metric:m"
    assert found.lines == (1, 2, 3)
    np.testing.assert_array_equal(found.scores["theirs"], SCORES[:, 1])
    assert list(read_system_scores([str(path)], ["theirs"]).scores) == ["theirs"]
    with pytest.raises(InputError, match="a system 'x' in"):
        read_system_scores([str(path)], ["x"])
    by_system["theirs"]["scores"].pop()
    path.write_text(json.dumps({"systems": by_system}))
    with pytest.raises(InputError, match="3 in ours, 2 in theirs"):
        read_system_scores([str(path)])


@pytest.mark.parametrize("format", ["text", "tsv", "csv", "jsonl", "json"])
def test_a_file_for_each_system(tmp_path, format):
    paths = []
    for place, name in enumerate(("a", "b")):
        path = tmp_path / f"{name}.{'txt' if format == 'text' else format}"
        scores, halves = SCORES[:, place].tolist(), (SCORES[:, place] / 2).tolist()
        if format == "json":
            path.write_text(json.dumps({"scores": scores, "precision": halves, "signature": "m"}))
        elif format == "text":
            write_lines(path, *scores, "", "")
        else:
            write_records(path, [{"score": one, "precision": half} for one, half in zip(scores, halves, strict=True)])
        paths.append(str(path))
    found = read_system_scores(paths)
    assert list(found.scores) == paths
    np.testing.assert_array_equal(np.stack(list(found.scores.values())).T, SCORES)
    if format in ("tsv", "csv", "jsonl"):
        halves = read_system_scores(paths, ["precision"])
        np.testing.assert_array_equal(np.stack(list(halves.scores.values())).T, SCORES / 2)


def test_columns_of_a_wide_table(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("segment,BLEU.a,BLEU.b,text\n1,0.5,1e-3,x\n2,0.25,-2,y\n")
    found = read_system_scores([str(path)], ["BLEU.b", "BLEU.a"])
    assert {name: values.tolist() for name, values in found.scores.items()} == {
        "BLEU.b": [1e-3, -2.0],
        "BLEU.a": [0.5, 0.25],
    }
    with pytest.raises(InputError, match=r"'text' of .*wide.csv, line 2, but got 'x': correct it, or name"):
        read_system_scores([str(path)])
    with pytest.raises(InputError, match="once"):
        read_system_scores([str(path)], ["BLEU.a", "BLEU.a"])
    with pytest.raises(InputError, match="a column 'c' in"):
        read_system_scores([str(path)], ["c", "BLEU.a"])


def test_a_column_called_score_is_that_of_one_system(tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("score\tprecision\n0.5\t0.25\n")
    assert list(read_system_scores([str(path)]).scores) == ["score"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "a,b\n0.5,nan\n", r"column 'b' of .*a.csv, line 2, but got 'nan': systems are compared on segments"),
        ("a.csv", "a,b\n0.5,\n", "but got nothing"),
        ("a.csv", "a,b\n0.5,inf\n", "but got 'inf'"),
        ("a.csv", "a,b\n0.5,good\n", "but got 'good'"),
        ("a.csv", "a,b\n0.5\n", "2 fields as in the header"),
        ("a.csv", "a;b\n0.5;1\n", r"'a;b' of .*, line 2, but got '0\.5;1': its header is separated by ';': save it as"),
        ("a.csv", "a;b\n0,5;1\n", "1 field as in .*, but got 2 in line 2 of .*: its header is separated by ';': save"),
        (
            "a.tsv",
            "a,b\n1,2\n",
            r"'a,b' of .*a\.tsv, line 2, but got '1,2': its .* by commas: rename it to end in .csv",
        ),
        ("a.csv", "a,b\n", "at least one row"),
        ("a.csv", "0.5\n0.25\n", r"a\.csv to begin with the names of its columns, but got '0\.5': add such a line"),
        ("a.csv", "1,0.5\n2,0.25\n", "but got '1', '0.5'"),
        ("a.txt", "0.5\t0.25\n0.5\t1\n", "but got '0.5', '0.25'"),
        ("a.csv", "", "empty|header"),
        ("a.jsonl", '{"a": 1, "b": 2}\n{"a": 1}\n', "column 'b' of .*row 2|line 2"),
        ("a.jsonl", '{"a": 1, "b": null}\n', "but got nothing"),
        ("a.jsonl", '{"a": true, "b": 1}\n', "but got 'True'"),
        ("a.jsonl", '{"score": [1, 2]}\n{"score": [1]}\n', "2 scores in column 'score' as in the first row, but got 1"),
        ("a.jsonl", '{"score": [1, 2]}\n{"score": 1}\n', "but got no list"),
        ("a.json", '{"systems": {"a": {"x": 1}}}\n', "a list of scores of 'a'"),
        ("a.json", '{"scores": []}\n', "holds none"),
        ("a.json", '{"systems": {}}\n', "holds none"),
        ("a.txt", "0.5\nx\n", "line 2 of .*a.txt, but got 'x'"),
        ("a.txt", "0.5\n\n0.25\n", "line 2 of .*a.txt, but got nothing"),
        ("a.txt", "\n\n", "a score a line, but it holds none"),
        ("a.txt", "a\tb\n0.5\tx\n", "column 'b' of .*a.txt, line 2, but got 'x'"),
    ],
)
def test_what_is_no_score_is_refused(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_system_scores([str(path)])


def test_standard_input(piped):
    piped(b"0.5\n1\n")
    assert read_system_scores(["-"]).scores["-"].tolist() == [0.5, 1.0]
    table = b"a\tb\n0.5\t1\n"
    piped(table)
    with pytest.raises(InputError, match="format of standard input"):
        read_system_scores(["-"])
    piped(table)
    assert read_system_scores(["-"], format="tsv").scores["b"].tolist() == [1.0]


def test_files_that_do_not_belong_together(tmp_path):
    for name, text in (("a.txt", "1\n2\n"), ("b.txt", "1\n"), ("wide.csv", "x,y\n1,2\n")):
        (tmp_path / name).write_text(text)
    a, b, wide = (str(tmp_path / name) for name in ("a.txt", "b.txt", "wide.csv"))
    with pytest.raises(InputError, match=r"2 in .*a.txt, 1 in .*b.txt"):
        read_system_scores([a, b])
    with pytest.raises(InputError, match="once"):
        read_system_scores([a, a])
    with pytest.raises(InputError, match="one system in each of 2 files, but got 'x', 'y'"):
        read_system_scores([a, wide])
    with pytest.raises(InputError, match="one score a line: leave them out"):
        read_system_scores([a, b], ["x"])
    with pytest.raises(InputError, match="there is none"):
        read_system_scores([str(tmp_path / "none.csv"), a])


def test_compressed_tables_and_single_columns_with_a_header(tmp_path):
    path = tmp_path / "s.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    assert {name: values.tolist() for name, values in read_system_scores([str(path)]).scores.items()} == {
        "a": [1.0],
        "b": [2.0],
    }
    path = tmp_path / "plain.csv"
    path.write_text("0.3,0.7\n1,2\n")
    assert list(read_system_scores([str(path)], ["0.3", "0.7"]).scores) == ["0.3", "0.7"]
    path.write_text("0,1\n1,2\n")  # written by pandas
    assert list(read_system_scores([str(path)]).scores) == ["0", "1"]
    path = tmp_path / "comet.txt"
    path.write_text("COMET\n0.5\n-1\n")
    assert list(read_system_scores([str(path)]).scores) == ["COMET"]


def test_signatures_of_several_files_have_to_be_one(tmp_path):
    paths = [tmp_path / f"{name}.json" for name in "abc"]
    for path, signature in zip(paths, "sst", strict=True):
        path.write_text(json.dumps({"scores": [1, 2], "signature": signature}))
    assert read_system_scores(list(map(str, paths[:2]))).signature == "s"
    assert read_system_scores(list(map(str, paths))).signature == ""


@pytest.mark.parametrize("column", ["id", "seg_id", "source", "any name"])
def test_files_whose_rows_are_of_other_segments_are_refused(tmp_path, column):
    """Files of the same rows in another order: pairing them by line would compare scores of different segments."""
    paths = [str(tmp_path / f"{name}.tsv") for name in "ab"]
    rows = [{column: f"s{number}", "score": number, "bleu": number % 2} for number in range(5)]
    write_records(tmp_path / "a.tsv", rows)
    write_records(tmp_path / "b.tsv", [{**row, "bleu": 1} for row in rows])
    assert [one.tolist() for one in read_system_scores(paths).scores.values()] == [[0, 1, 2, 3, 4]] * 2
    write_records(tmp_path / "b.tsv", [rows[place] for place in (0, 1, 3, 2, 4)])
    with pytest.raises(InputError, match=f"{column} 's2' in line 4 of .*a.tsv and 's3' in line 4 of .*b.tsv: sort"):
        read_system_scores(paths)


@pytest.mark.parametrize("column", ["line", "id", "item", "reference"])
def test_what_names_a_segment_is_no_system(tmp_path, column):
    path = tmp_path / "wide.tsv"
    write_records(path, [{column: number, "a": number / 2, "b": 1} for number in range(3)])
    assert list(read_system_scores([str(path)]).scores) == ["a", "b"]
    assert list(read_system_scores([str(path)], [column, "a"]).scores) == [column, "a"]
