"""Candidates from files and tables: what is read, in which form, and what is refused with its place."""

import gzip
import json

import pytest
from tests.readers.shared import write_lines

from textmover.readers.candidates import CandidateFiles, Candidates, CandidateTable
from textmover.types import InputError

LINES = ["a cat", "a dog", "", "it rains", "it rained", "rain"]


@pytest.fixture
def lines(tmp_path):
    return write_lines(tmp_path / "samples.txt", *LINES)


@pytest.fixture
def table(tmp_path):
    def write(*rows):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        return str(write_lines(tmp_path / "samples.jsonl", *lines))

    return write


def refusal(sets):
    with pytest.raises(InputError) as caught:
        list(sets)
    return str(caught.value)


def test_consecutive_lines_of_one_file(lines):
    sets = CandidateFiles((str(lines),), number=3)
    assert [one.texts for one in sets] == [("a cat", "a dog", ""), ("it rains", "it rained", "rain")]
    assert sets.share == 1.0


def test_a_file_for_each_system(lines, tmp_path):
    other = tmp_path / "other.txt.gz"
    other.write_bytes(gzip.compress("".join(f"{line}!\r\n" for line in LINES).encode()))
    found = [one.texts for one in CandidateFiles((str(lines), str(other)))]
    assert found == [(line, f"{line}!") for line in LINES]


def test_rows_of_a_table(table):
    path = table(
        {"candidates": ["a", "b\nc"], "p": [1, 0.5], "refs": ["x"], "id": {"n": 1}},
        {"candidates": ["a"], "p": [1], "refs": ["y", "z"], "id": None},
    )
    first, second = CandidateTable(path, name="id", references="refs")
    assert (first.texts, first.references, first.weights, first.name) == (("a", "b\nc"), ("x",), None, {"n": 1})
    assert (second.texts, second.references, second.name, second.named) == (("a",), ("y", "z"), None, True)
    assert [one.weights for one in CandidateTable(path, weights="p")] == [(1.0, 0.5), (1.0,)]
    assert not next(iter(CandidateTable(path))).named


@pytest.mark.parametrize(
    ("paths", "number", "said"),
    [
        ((), None, "at least one file"),
        (("{lines}",), None, "Expected `number` where all candidates are in one file"),
        (("{lines}", "{lines}"), 2, "together with a single file"),
        (("-", "-"), None, "standard input (-) once"),
        (("{lines}",), 0, "`number` to be at least 1"),
        (("{lines}",), 4, "a multiple of `number` (4), but got 6: the last segment has 2"),
        (("{lines}", "{short}"), None, "Expected the same number of lines in each file, but got 6 in"),
        (("missing.txt",), 2, "missing.txt, but there is none"),
        (("{folder}",), 2, "Expected a file, but got the folder"),
        (("{empty}",), 2, "it is empty"),
        (("{bytes}",), 2, "0xff in line 2"),
    ],
)
def test_files_that_cannot_be_used(lines, tmp_path, paths, number, said):
    made = {"lines": lines, "folder": tmp_path}
    for name, content in {"short": b"a\nb\n", "empty": b"", "bytes": b"a\n\xff\n"}.items():
        made[name] = tmp_path / f"{name}.txt"
        made[name].write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(CandidateFiles(tuple(path.format(**made) for path in paths), number))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"candidates": ["a"', "line 2"),
        ({"candidates": []}, "at least one candidate in {path}, line 2, but got none"),
        ({"candidates": "a"}, "a list of texts in column 'candidates' of {path}, line 2, but got 'a'"),
        ({"candidates": ["a", 3]}, "text in column 'candidates' of {path}, line 2, but got 3"),
        ({"other": ["a"]}, "line 2, but got nothing"),
        ('{"candidates": ["\\ud800"]}', "Unicode"),
    ],
)
def test_rows_that_cannot_be_used_are_named_with_their_line(table, row, said):
    path = table({"candidates": ["a", "b"]}, row)
    assert said.format(path=path) in refusal(CandidateTable(path))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1], "a weight for each candidate in {path}, line 1, but got 1 for 2"),
        ([0, 0], "weights of at least 0, some of them above"),
        ([-0.1, -2.3], "probabilities, not their logarithms"),
        ([1, None], "weights of at least 0 in column 'w' of {path}, line 1, but got nothing"),
        ([1, "x"], "weights of at least 0 in column 'w' of {path}, line 1, but got 'x': write numbers"),
        ([1, float("inf")], "weights of at least 0"),
        (1, "a list of numbers"),
    ],
)
def test_weights_that_are_none(table, weights, said):
    path = table({"candidates": ["a", "b"], "w": weights})
    assert said.format(path=path) in refusal(CandidateTable(path, weights="w"))


def test_a_column_of_another_name_is_suggested(table):
    said = refusal(CandidateTable(table({"Candidates": ["a"]})))
    assert "did you mean 'Candidates'" in said
    assert "`candidates`" in said


def test_references_may_lack_nothing():
    with pytest.raises(InputError, match="at least one reference in line 4"):
        Candidates(("a",), (), place="line 4").checked()
    with pytest.raises(InputError, match="with text in line 4, but number 2 is empty: remove it and its weight"):
        Candidates(("a", ""), ("b", " "), place="line 4").checked()
    with pytest.raises(InputError, match="a weight for each reference in line 4"):
        Candidates(("a",), ("b", "c"), (1.0,), place="line 4").checked()
