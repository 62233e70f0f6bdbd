"""Readers: every format gives the same segments, and whatever cannot be used is named with its place."""

import itertools
import json
import math
import re

import datasets
import pytest
from tests.readers.shared import write_lines, write_records

from textmover.readers.segments import Columns, OptionalColumn, check_columns, joined_groups, read_segments
from textmover.types import InputError, Segment

COLUMNS = Columns(groups=("lp",))
TEXTS = Columns(score=None)
RECORDS = [
    {"lp": "de-en", "hypothesis": 'He said "no', "reference": 'He said "no".', "score": 0.1},
    {"lp": "fi-en", "hypothesis": "Zażółć\u2028gęślą", "reference": " z ", "score": -1.2345678901234567},
]
SEGMENTS = [Segment(r["hypothesis"], (r["reference"],), r["score"], None, {"lp": r["lp"]}) for r in RECORDS]


SUFFIXES = ["tsv", "csv", "jsonl", "ndjson", "json", "parquet"]


@pytest.fixture
def data_set_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


class TestFormats:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_same_segments(self, tmp_path, suffix):
        path = write_records(tmp_path / f"ratings.{suffix}", RECORDS)
        assert read_segments(path, COLUMNS) == read_segments(str(path), COLUMNS) == SEGMENTS
        path = path.rename(tmp_path / f"RATINGS.{suffix.upper()}")
        assert read_segments(path, COLUMNS) == SEGMENTS
        format = "jsonl" if suffix.endswith("json") else suffix
        assert read_segments(path.rename(tmp_path / "a.txt"), COLUMNS, format=format) == SEGMENTS

    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
    def test_byte_order_mark_windows_line_ends_and_blank_lines_at_the_end(self, tmp_path, suffix):
        path = write_records(tmp_path / f"ratings.{suffix}", RECORDS)
        content = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + content + b"\r\n\n\n")
        assert read_segments(path, Columns(hypothesis="lp", groups=("hypothesis",))) == [
            Segment(one["lp"], (one["reference"],), one["score"], None, {"hypothesis": one["hypothesis"]})
            for one in RECORDS
        ]

    def test_group_values_become_text(self, tmp_path):
        records = [{"hypothesis": "a", "reference": "b", "year": 2017, "system": None}]
        path = write_records(tmp_path / "ratings.jsonl", records)
        (segment,) = read_segments(path, Columns(score=None, groups=("year", "system")))
        assert segment.groups == {"year": "2017", "system": ""}

    def test_source(self, tmp_path):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference\tsource", "a\tb\tQuelle", "a\tb\t")
        assert [s.source for s in read_segments(path, Columns(score=None, source="source"))] == ["Quelle", None]


class TestDataSets:
    def test_saved(self, tmp_path):
        datasets.Dataset.from_list(RECORDS).save_to_disk(tmp_path / "saved")
        assert read_segments(tmp_path / "saved", COLUMNS) == SEGMENTS
        assert read_segments(f"hub:{tmp_path / 'saved'}", COLUMNS) == SEGMENTS

    def test_saved_with_splits(self, tmp_path):
        data = datasets.Dataset.from_list(RECORDS)
        datasets.DatasetDict(train=data.select([0]), test=data.select([1])).save_to_disk(tmp_path / "saved")
        assert read_segments(tmp_path / "saved", COLUMNS) == SEGMENTS[:1]
        assert read_segments(tmp_path / "saved", COLUMNS, split="test") == SEGMENTS[1:]
        with pytest.raises(InputError, match="split 'dev', but got 'train', 'test'"):
            read_segments(tmp_path / "saved", COLUMNS, split="dev")

    @pytest.mark.usefixtures("data_set_cache")
    def test_built_from_a_folder(self, tmp_path):
        (tmp_path / "built").mkdir()
        write_records(tmp_path / "built" / "test.parquet", RECORDS)
        assert read_segments(f"hub:{tmp_path / 'built'}", COLUMNS, split="test") == SEGMENTS
        with pytest.raises(InputError, match="Expected to load the split 'validation' of the data set"):
            read_segments(f"hub:{tmp_path / 'built'}", COLUMNS, split="validation")

    def test_name_and_configuration(self, monkeypatch):
        calls = []

        def load_dataset(name, configuration, split):
            calls.append((name, configuration, split))
            return datasets.Dataset.from_list(RECORDS)

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        for place in ("hub:owner/name", "hub:owner/name/de-en"):
            assert read_segments(place, COLUMNS, split="test") == SEGMENTS
        assert calls == [("owner/name", None, "test"), ("owner/name", "de-en", "test")]

    def test_unknown(self, monkeypatch):
        def load_dataset(*_, **__):
            raise datasets.exceptions.DatasetNotFoundError("Dataset 'owner/name' doesn't exist on the Hub.\nMore.")

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        with pytest.raises(InputError, match=r"owner/name, but got 'Dataset .* Hub': check its name") as caught:
            read_segments("hub:owner/name", COLUMNS)
        assert "\n" not in str(caught.value)


class TestReferences:
    def test_several_columns(self, tmp_path):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\tr1\tr2", "a\tb\tc", "a\t\tc")
        segments = read_segments(path, Columns(references=("r1", "r2"), score=None))
        assert [segment.references for segment in segments] == [("b", "c"), ("c",)]

    @pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
    def test_lists(self, tmp_path, suffix):
        records = [{"hypothesis": "a", "reference": ["b", "c"]}, {"hypothesis": "a", "reference": ["b"]}]
        path = write_records(tmp_path / f"ratings.{suffix}", records)
        segments = read_segments(path, TEXTS)
        assert [segment.references for segment in segments] == [("b", "c"), ("b",)]

    @pytest.mark.parametrize("cell", [[], None, [None], "", [""]])
    def test_none_given(self, tmp_path, cell):
        records = [{"hypothesis": "a", "reference": "b"}, {"hypothesis": "a", "reference": cell}]
        path = write_records(tmp_path / "ratings.jsonl", records)
        with pytest.raises(InputError, match=r"column 'reference' of .*ratings\.jsonl, line 2, but got none"):
            read_segments(path, TEXTS)


class TestScores:
    @pytest.mark.parametrize("text", ["0.1", "-1e-3", "  7 ", "0.30000000000000004", "123456789.12345679"])
    def test_double_precision(self, tmp_path, text):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference\tscore", f"a\tb\t{text}")
        (segment,) = read_segments(path, Columns())
        assert type(segment.score) is float
        assert segment.score == float(text)

    @pytest.mark.parametrize(
        "text",
        ["nan", "NaN", "inf", "-Infinity", "", "n/a", "0,5", "1e999", "1 2", "1e300", "-1e16", "1_000", "١٠", "１０"],
    )
    def test_text_refused(self, tmp_path, text):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference\tscore", "a\tb\t1", f"a\tb\t{text}")
        way_out = "write it with a point" if text == "0,5" else "correct it or remove the row"
        message = re.escape(f"column 'score' of {path}, line 3, but got {text!r}: {way_out}.")
        with pytest.raises(InputError, match=message):
            read_segments(path, Columns())
        assert read_segments(path, TEXTS) == [Segment("a", ("b",))] * 2

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "null", "true", "[1]", '"x"', "1" + "0" * 400])
    def test_json_refused(self, tmp_path, value):
        path = tmp_path / "ratings.jsonl"
        path.write_text(f'{{"hypothesis": "a", "reference": "b", "score": {value}}}\n', encoding="utf-8")
        with pytest.raises(InputError, match=r"finite number.* in column 'score' of .*ratings\.jsonl, line 1"):
            read_segments(path, Columns())

    def test_parquet_refused(self, tmp_path):
        records = [dict(RECORDS[0]), dict(RECORDS[1], score=math.nan)]
        path = write_records(tmp_path / "ratings.parquet", records)
        with pytest.raises(InputError, match=r"column 'score' of .*ratings\.parquet, row 2, but got nan"):
            read_segments(path, Columns())


class TestColumns:
    def test_missing_with_suggestion(self, tmp_path):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference\tHuman_Score", "a\tb\t1")
        with pytest.raises(InputError) as caught:
            read_segments(path, Columns())
        assert str(caught.value) == (
            f"Expected a column 'score' in {path}, but got 'hypothesis', 'reference', 'Human_Score': did you mean "
            "'Human_Score'? Otherwise set `score` to the name of the right one."
        )

    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
    @pytest.mark.parametrize(
        ("columns", "field"),
        [
            (Columns(hypothesis="xyz"), "hypothesis"),
            (Columns(references=("reference", "xyz")), "references"),
            (Columns(score="xyz"), "score"),
            (Columns(source="xyz"), "source"),
            (Columns(groups=("lp", "xyz")), "groups"),
        ],
    )
    def test_missing(self, tmp_path, suffix, columns, field):
        path = write_records(tmp_path / f"ratings.{suffix}", RECORDS)
        with pytest.raises(InputError, match=f"column 'xyz' in .*'lp', 'hypothesis', .* set `{field}`"):
            read_segments(path, columns)

    def test_twice(self, tmp_path):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference\tscore\tscore\tlp\tlp", "a\tb\t1\t2\tc\td")
        with pytest.raises(InputError, match=r"one column 'score' in .*, but got 2"):
            read_segments(path, Columns())
        assert len(read_segments(path, TEXTS)) == 1

    def test_one_column_in_two_roles(self, tmp_path):
        path = write_lines(tmp_path / "ratings.tsv", "hypothesis\treference", "a\tb")
        (segment,) = read_segments(path, Columns(score=None, source="reference"))
        assert segment == Segment("a", ("b",), source="b")

    @pytest.mark.parametrize("columns", [{"references": ()}, {"hypothesis": ""}, {"score": ""}, {"groups": ("",)}])
    def test_unusable(self, columns):
        with pytest.raises(InputError, match="Expected `"):
            Columns(**columns)


HEADER = "hypothesis\treference\tscore\n"
RECORD = json.dumps(RECORDS[0])
NO_SEGMENT = "it is empty|hold at least one row, but got none"
BAD_FILES = [
    ("t.xlsx", "x", r"ends in \.csv, \.tsv, .*, but got .*t\.xlsx: give one"),
    *(("t.tsv", content, NO_SEGMENT) for content in ("", "\ufeff", "\n\n", HEADER)),
    *(("t.csv", content, NO_SEGMENT) for content in ("", "\ufeff", "\n\n", HEADER.replace("\t", ","))),
    *(("t.jsonl", content, NO_SEGMENT) for content in ("", "\n\n")),
    *(("t.tsv", f"{HEADER}a\tb\t1\n{line}\na\tb\t1\n", rf"3 fields .*, but got {count} in line 3 .*: texts")
      for line, count in (("a\tb", 2), ("a\tb\t1\t2", 4), ("", 1))),
    ("t.csv", "hypothesis,reference\na,b\nYes, sir,b\n", r"2 fields .*, but got 3 in line 3 of .*\.csv: put texts"),
    *(("t.json", f"{RECORD}\n{line}\n{RECORD}\n", r"one JSON object a line, but got .* in line 2 of .*t\.json")
      for line in ("[", "{", "3", '"text"', "hypothesis\treference", '{"hypothesis": ["]}')),
    *(("t.json", f"{RECORD}\n{line}\n{RECORD}", r"line 2 of .*t\.json is blank: remove") for line in ("", "  ")),
    ("t.jsonl", '{"hypothesis": "a", "hypothesis": "b"}', "line 1 .* hold each key once, but got 'hypothesis' again"),
    pytest.param("t.jsonl", '{"a": ' + "[" * 50_000, "line 1 of .* to have at most 100 levels", id="deep JSON"),
    pytest.param("t.csv", 'hypothesis,reference\n"a,b\n' + f"{'c' * 600},d\n" * 2_000,
                 r"several lines with more than 1,048,576 characters' .* in line 2", id="a stray quotation mark"),
    *(("t.csv", f"hypothesis{mark}reference\na{mark}b\n",
       f"header is '.*', separated by {re.escape(repr(mark))}: save it as CSV") for mark in ";|"),
    ("t.csv", "hypothesis\treference\na\tb\n", "separated by tabs: rename it to end in .tsv."),
    ("t.csv", "source;hypotheses\na;b\n", "separated by ';'"),
    ("t.tsv", "hypothesis,reference\na,b\n", "separated by commas: rename it to end in .csv."),
    ("t.parquet", "PAR1 but not really", r"Expected to be able to read .*t\.parquet"),
    *(("t.jsonl", json.dumps({"hypothesis": value, "reference": "b"}), "column 'hypothesis' of .*, line 1, but got")
      for value in (3, None, ["a"], {"a": 1}, True)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_segments(tmp_path / name, TEXTS)


class TestBadPlaces:
    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
    def test_missing(self, tmp_path, suffix):
        path = tmp_path / f"none.{suffix}"
        for format in (None, suffix):
            with pytest.raises(InputError, match=f"Expected a file at {path}, but there is none"):
                read_segments(path, COLUMNS, format=format)

    @pytest.mark.parametrize("format", ["tsv", "csv", "jsonl", "parquet", None])
    def test_folder_and_unreadable(self, tmp_path, format):
        with pytest.raises(InputError, match="but got the folder"):
            read_segments(tmp_path, COLUMNS, format=format)
        with pytest.raises(InputError, match="Expected to be able to read aaa"):
            read_segments("a" * 300 + ".tsv", COLUMNS, format=format)

    def test_unknown_format(self, tmp_path):
        with pytest.raises(InputError, match="format to be csv, tsv, jsonl, parquet or hub, but got 'excel'"):
            read_segments(tmp_path / "ratings.tsv", COLUMNS, format="excel")

    def test_group_of_lists(self, tmp_path):
        path = write_records(tmp_path / "ratings.jsonl", [dict(RECORDS[0], lp=["de", "en"])])
        with pytest.raises(InputError, match=r"one value in column 'lp' of .*, line 1, but got \['de', 'en'\]"):
            read_segments(path, COLUMNS)


@pytest.mark.parametrize("quote", ["", '"'])
def test_csv_cells_as_long_as_a_line_may_be(tmp_path, quote):
    long = "a b " * 100_000
    (tmp_path / "t.csv").write_text(f"hypothesis,reference\n{quote}{long}{quote},b\n", encoding="utf-8")
    (segment,) = read_segments(tmp_path / "t.csv", TEXTS)
    assert segment.hypothesis == long


@pytest.mark.parametrize("written", ["referenz", "references", "Reference"])
def test_a_misspelt_column_of_references_does_not_pass_for_none(written):
    fields = [("references", OptionalColumn("reference")), ("source", "source")]
    check_columns("table", ["hypothesis", "score", "source"], fields)
    with pytest.raises(InputError, match=f"Expected a column 'reference' in table, .*: did you mean '{written}'"):
        check_columns("table", ["hypothesis", written, "source"], fields)


def test_a_table_may_lack_sources_beside_columns_of_like_names():
    check_columns(
        "table",
        ["hypothesis", "reference", "score"],
        [("references", "reference"), ("source", OptionalColumn("source"))],
    )


def test_joined_groups_tell_all_tuples_apart():
    """Up to three values of these characters, in every order: as many names as tuples."""
    values = ["".join(one) for size in range(4) for one in itertools.product("a /\\", repeat=size)]
    pairs = list(itertools.product(values, repeat=2))
    assert len({joined_groups(pair) for pair in pairs}) == len(pairs)
    assert joined_groups(["a / b"]) == "a / b"
    assert joined_groups(["de-en", "news/2017"]) == "de-en / news/2017"
    assert joined_groups(["", "b"]) == "(empty) / b"
