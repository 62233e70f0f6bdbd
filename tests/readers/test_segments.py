"""Readers: every format gives the same segments, and whatever cannot be used is named with its place."""

import io
import json
import math
import re
import sys
from pathlib import Path

import datasets
import pyarrow
import pytest
from pyarrow import parquet

from textmover.readers.lines import check_equal_lengths
from textmover.readers.segments import Columns, read_lines, read_segments
from textmover.types import InputError, Segment

COLUMNS = Columns(groups=("lp",))
RECORDS = [
    {"lp": "de-en", "hypothesis": 'He said "no', "reference": 'He said "no".', "score": 0.1},
    {"lp": "fi-en", "hypothesis": "Zażółć\u2028gęślą", "reference": " ", "score": -1.2345678901234567},
]
SEGMENTS = [Segment(r["hypothesis"], (r["reference"],), r["score"], None, {"lp": r["lp"]}) for r in RECORDS]


def write_tsv(path: Path, records: list[dict]) -> Path:
    lines = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_csv(path: Path, records: list[dict]) -> Path:
    quoted = [['"' + str(value).replace('"', '""') + '"' for value in record.values()] for record in records]
    path.write_text("\r\n".join(map(",".join, [list(records[0]), *quoted])), encoding="utf-8")
    return path


def write_jsonl(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def write_parquet(path: Path, records: list[dict]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


WRITERS = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "ndjson": write_jsonl,
    "json": write_jsonl,
    "parquet": write_parquet,
}


def tsv(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "ratings.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def data_set_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


class TestFormats:
    @pytest.mark.parametrize("suffix", WRITERS)
    def test_same_segments(self, tmp_path, suffix):
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", RECORDS)
        assert read_segments(path, COLUMNS) == SEGMENTS
        assert read_segments(str(path), COLUMNS) == SEGMENTS

    def test_format_overrides_suffix(self, tmp_path):
        path = write_jsonl(tmp_path / "ratings.txt", RECORDS)
        assert read_segments(path, COLUMNS, format="jsonl") == SEGMENTS

    def test_suffix_in_capitals(self, tmp_path):
        assert read_segments(write_tsv(tmp_path / "RATINGS.TSV", RECORDS), COLUMNS) == SEGMENTS

    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
    def test_byte_order_mark(self, tmp_path, suffix):
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", RECORDS)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        columns = Columns(hypothesis="lp", score=None)
        assert [segment.hypothesis for segment in read_segments(path, columns)] == ["de-en", "fi-en"]

    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
    def test_blank_lines_at_the_end(self, tmp_path, suffix):
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", RECORDS)
        path.write_bytes(path.read_bytes() + b"\r\n\n\n")
        assert read_segments(path, COLUMNS) == SEGMENTS

    def test_windows_line_ends(self, tmp_path):
        path = write_tsv(tmp_path / "ratings.tsv", RECORDS)
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert read_segments(path, COLUMNS) == SEGMENTS

    def test_csv_record_over_two_lines(self, tmp_path):
        path = tmp_path / "ratings.csv"
        path.write_text('hypothesis,reference,score\n"a,\nb",c,1\nd,e,x\n', encoding="utf-8")
        with pytest.raises(InputError, match=r"ratings\.csv, line 4, but got 'x'"):
            read_segments(path, Columns())
        path.write_text('hypothesis,reference,score\n"a,\nb",c,1\n', encoding="utf-8")
        assert read_segments(path, Columns()) == [Segment("a,\nb", ("c",), 1.0)]

    def test_group_values_become_text(self, tmp_path):
        records = [{"hypothesis": "a", "reference": "b", "year": 2017, "system": None}]
        path = write_jsonl(tmp_path / "ratings.jsonl", records)
        (segment,) = read_segments(path, Columns(score=None, groups=("year", "system")))
        assert segment.groups == {"year": "2017", "system": ""}

    def test_source(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference\tsource", "a\tb\tQuelle", "a\tb\t")
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
        write_parquet(tmp_path / "built" / "test.parquet", RECORDS)
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
        path = tsv(tmp_path, "hypothesis\tr1\tr2", "a\tb\tc", "a\t\tc")
        segments = read_segments(path, Columns(references=("r1", "r2"), score=None))
        assert [segment.references for segment in segments] == [("b", "c"), ("c",)]

    @pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
    def test_lists(self, tmp_path, suffix):
        records = [{"hypothesis": "a", "reference": ["b", "c"]}, {"hypothesis": "a", "reference": ["b"]}]
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", records)
        segments = read_segments(path, Columns(score=None))
        assert [segment.references for segment in segments] == [("b", "c"), ("b",)]

    @pytest.mark.parametrize("cell", [[], None, [None], "", [""]])
    def test_none_given(self, tmp_path, cell):
        records = [{"hypothesis": "a", "reference": "b"}, {"hypothesis": "a", "reference": cell}]
        path = write_jsonl(tmp_path / "ratings.jsonl", records)
        with pytest.raises(
            InputError, match=r"reference in column 'reference' of .*ratings\.jsonl, line 2, but got none"
        ):
            read_segments(path, Columns(score=None))


class TestScores:
    @pytest.mark.parametrize("text", ["0.1", "-1e-3", "  7 ", "0.30000000000000004", "123456789.12345679"])
    def test_double_precision(self, tmp_path, text):
        (segment,) = read_segments(tsv(tmp_path, "hypothesis\treference\tscore", f"a\tb\t{text}"), Columns())
        assert type(segment.score) is float
        assert segment.score == float(text)

    @pytest.mark.parametrize(
        "text",
        ["nan", "NaN", "inf", "-Infinity", "", "n/a", "0,5", "1e999", "1 2", "1e300", "-1e16", "1_000", "١٠", "１０"],
    )
    def test_text_refused(self, tmp_path, text):
        path = tsv(tmp_path, "hypothesis\treference\tscore", "a\tb\t1", f"a\tb\t{text}")
        with pytest.raises(InputError) as caught:
            read_segments(path, Columns())
        assert f"column 'score' of {path}, line 3, but got {text!r}: correct it" in str(caught.value)

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "null", "true", "[1]", '"x"', "1" + "0" * 400])
    def test_json_refused(self, tmp_path, value):
        path = tmp_path / "ratings.jsonl"
        path.write_text(f'{{"hypothesis": "a", "reference": "b", "score": {value}}}\n', encoding="utf-8")
        with pytest.raises(InputError, match=r"finite number .* in column 'score' of .*ratings\.jsonl, line 1"):
            read_segments(path, Columns())

    def test_parquet_refused(self, tmp_path):
        records = [dict(RECORDS[0]), dict(RECORDS[1], score=math.nan)]
        path = write_parquet(tmp_path / "ratings.parquet", records)
        with pytest.raises(InputError, match=r"column 'score' of .*ratings\.parquet, row 2, but got nan"):
            read_segments(path, Columns())

    def test_not_read(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference\tscore", "a\tb\tn/a")
        assert read_segments(path, Columns(score=None)) == [Segment("a", ("b",))]


class TestColumns:
    def test_missing_with_suggestion(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference\tHuman_Score", "a\tb\t1")
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
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", RECORDS)
        with pytest.raises(InputError, match=f"column 'xyz' in .*'lp', 'hypothesis', .* set `{field}`"):
            read_segments(path, columns)

    def test_twice(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference\tscore\tscore\tlp\tlp", "a\tb\t1\t2\tc\td")
        with pytest.raises(InputError, match=r"one column 'score' in .*, but got 2"):
            read_segments(path, Columns())
        assert len(read_segments(path, Columns(score=None))) == 1

    def test_one_column_in_two_roles(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference", "a\tb")
        (segment,) = read_segments(path, Columns(score=None, source="reference"))
        assert segment == Segment("a", ("b",), source="b")

    @pytest.mark.parametrize("columns", [{"references": ()}, {"hypothesis": ""}, {"score": ""}, {"groups": ("",)}])
    def test_unusable(self, columns):
        with pytest.raises(InputError, match="Expected `"):
            Columns(**columns)


class TestBadFiles:
    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
    def test_missing(self, tmp_path, suffix):
        path = tmp_path / f"none.{suffix}"
        for format in (None, suffix):
            with pytest.raises(InputError, match=f"Expected a file at {path}, but there is none"):
                read_segments(path, COLUMNS, format=format)

    @pytest.mark.parametrize("format", ["tsv", "csv", "jsonl", "parquet", None])
    def test_folder(self, tmp_path, format):
        with pytest.raises(InputError, match="but got the folder"):
            read_segments(tmp_path, COLUMNS, format=format)

    @pytest.mark.parametrize("format", ["tsv", "parquet", None])
    def test_unreadable(self, format):
        with pytest.raises(InputError, match="Expected to be able to read aaa"):
            read_segments("a" * 300 + ".tsv", COLUMNS, format=format)

    def test_unknown_suffix(self, tmp_path):
        path = tmp_path / "ratings.xlsx"
        path.write_bytes(b"x")
        with pytest.raises(InputError, match=r"ends in \.csv, \.tsv, .*, but got .*ratings\.xlsx: rename it"):
            read_segments(path, COLUMNS)

    def test_unknown_format(self, tmp_path):
        with pytest.raises(InputError, match="format to be csv, tsv, jsonl, parquet or hub, but got 'excel'"):
            read_segments(tmp_path / "ratings.tsv", COLUMNS, format="excel")

    @pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\n", b"hypothesis\treference\tscore\n"])
    @pytest.mark.parametrize("suffix", ["tsv", "csv"])
    def test_empty(self, tmp_path, suffix, content):
        path = tmp_path / f"ratings.{suffix}"
        path.write_bytes(content.replace(b"\t", b",") if suffix == "csv" else content)
        with pytest.raises(InputError, match=r"it is empty|hold at least one segment, but got none"):
            read_segments(path, Columns())

    @pytest.mark.parametrize("content", [b"", b"\n\n"])
    def test_empty_json(self, tmp_path, content):
        path = tmp_path / "ratings.jsonl"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"it is empty|hold at least one segment, but got none"):
            read_segments(path, Columns())

    def test_empty_parquet(self, tmp_path):
        parquet.write_table(pyarrow.table({"hypothesis": pyarrow.array([], pyarrow.string())}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match="hold at least one segment, but got none"):
            read_segments(tmp_path / "a.parquet", Columns())

    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
    def test_invalid_bytes(self, tmp_path, suffix):
        path = WRITERS[suffix](tmp_path / f"ratings.{suffix}", RECORDS)
        path.write_bytes(path.read_bytes().replace("Zażółć".encode(), "Zażółć".encode("iso8859-2")))
        line = 2 if suffix == "jsonl" else 3
        with pytest.raises(InputError, match=f"to be UTF-8, but got the byte 0xbf in line {line}: save it as UTF-8"):
            read_segments(path, COLUMNS)

    @pytest.mark.parametrize(("line", "count"), [("a\tb", 2), ("a\tb\t1\t2", 4), ("", 1)])
    def test_ragged_tsv(self, tmp_path, line, count):
        path = tsv(tmp_path, "hypothesis\treference\tscore", "a\tb\t1", line, "a\tb\t1")
        with pytest.raises(
            InputError, match=rf"3 fields as in the header, but got {count} in line 3 of .*\.tsv: texts"
        ):
            read_segments(path, Columns())

    def test_ragged_csv(self, tmp_path):
        path = tmp_path / "ratings.csv"
        path.write_text("hypothesis,reference,score\na,b,1\nYes, sir,b,1\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"3 fields as in the header, but got 4 in line 3 of .*\.csv: put texts"):
            read_segments(path, Columns())

    @pytest.mark.parametrize("record", ['"a,b,1', '"a" b,c,1'])
    def test_broken_quotes(self, tmp_path, record):
        path = tmp_path / "ratings.csv"
        path.write_text(f"hypothesis,reference,score\na,b,1\n{record}\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"to be CSV, but got '.*' in the record that starts in line 3"):
            read_segments(path, Columns())

    @pytest.mark.parametrize("line", ["[", "{", "3", '"text"', "hypothesis\treference", '{"hypothesis": ["]}'])
    def test_not_json_lines(self, tmp_path, line):
        path = tmp_path / "ratings.json"
        path.write_text(f"{json.dumps(RECORDS[0])}\n{line}\n{json.dumps(RECORDS[1])}\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"one JSON object a line, but got .* in line 2 of .*ratings\.json"):
            read_segments(path, COLUMNS)

    @pytest.mark.parametrize("line", ["", "  "])
    def test_blank_line_inside_json_lines(self, tmp_path, line):
        path = tmp_path / "ratings.json"
        path.write_text(f"{json.dumps(RECORDS[0])}\n{line}\n{json.dumps(RECORDS[1])}\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"but line 2 of .*ratings\.json is blank: remove the line"):
            read_segments(path, COLUMNS)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (
                '{"hypothesis": "a", "hypothesis": "b"}',
                "line 1 of .* to hold each key once, but got 'hypothesis' again",
            ),
            ('{"a": ' + "[" * 50_000, "line 1 of .* to have at most 100 levels"),
        ],
    )
    def test_json_lines_that_are_refused_for_what_they_hold(self, tmp_path, line, message):
        (tmp_path / "ratings.jsonl").write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_segments(tmp_path / "ratings.jsonl", COLUMNS)

    @pytest.mark.parametrize("quote", ["", '"'])
    def test_csv_cells_as_long_as_a_line_may_be(self, tmp_path, quote):
        long = "a b " * 100_000
        (tmp_path / "t.csv").write_text(f"hypothesis,reference\n{quote}{long}{quote},b\n", encoding="utf-8")
        (segment,) = read_segments(tmp_path / "t.csv", Columns(score=None))
        assert segment.hypothesis == long

    def test_a_csv_record_over_too_many_lines_is_a_stray_quotation_mark(self, tmp_path):
        (tmp_path / "t.csv").write_text('hypothesis,reference\n"a,b\n' + "c,d\n" * 300_000, encoding="utf-8")
        with pytest.raises(InputError, match=r"several lines with more than 1,048,576 characters' .* in line 2"):
            read_segments(tmp_path / "t.csv", Columns(score=None))

    @pytest.mark.parametrize("separator", [";", "\t", "|"])
    def test_csv_of_another_separator(self, tmp_path, separator):
        path = tmp_path / "ratings.csv"
        path.write_text(separator.join(RECORDS[0]) + "\n" + separator.join("abcd") + "\n", encoding="utf-8")
        separated = re.escape(repr(separator))
        with pytest.raises(InputError, match=f"its header is '.*', separated by {separated}: save it as CSV"):
            read_segments(path, COLUMNS)

    def test_another_separator_is_told_where_the_column_would_be_missing_too(self, tmp_path):
        (tmp_path / "t.csv").write_text("source;hypotheses\na;b\n", encoding="utf-8")
        with pytest.raises(InputError, match="separated by ';'"):
            read_segments(tmp_path / "t.csv", Columns(score=None))

    def test_tsv_of_another_separator(self, tmp_path):
        path = tsv(tmp_path, ",".join(RECORDS[0]), "a,b,c,d")
        with pytest.raises(InputError, match="separated by ','"):
            read_segments(path, COLUMNS)

    def test_not_parquet(self, tmp_path):
        (tmp_path / "ratings.parquet").write_bytes(b"PAR1 but not really")
        with pytest.raises(InputError, match=r"Expected to be able to read .*ratings\.parquet"):
            read_segments(tmp_path / "ratings.parquet", COLUMNS)

    @pytest.mark.parametrize("value", [3, None, ["a"], {"a": 1}, True])
    def test_hypothesis_is_no_text(self, tmp_path, value):
        path = write_jsonl(tmp_path / "ratings.jsonl", [dict(RECORDS[0], hypothesis=value)])
        with pytest.raises(InputError, match=r"Expected text in column 'hypothesis' of .*, line 1, but got"):
            read_segments(path, COLUMNS)

    def test_half_a_surrogate_pair(self, tmp_path):
        path = tmp_path / "ratings.jsonl"
        path.write_text('{"hypothesis": "a\\ud800", "reference": "b"}', encoding="utf-8")
        with pytest.raises(InputError, match="half a surrogate pair"):
            read_segments(path, Columns(score=None))

    def test_group_of_lists(self, tmp_path):
        path = write_jsonl(tmp_path / "ratings.jsonl", [dict(RECORDS[0], lp=["de", "en"])])
        with pytest.raises(
            InputError, match=r"Expected one value in column 'lp' of .*, line 1, but got \['de', 'en'\]"
        ):
            read_segments(path, COLUMNS)


class TestLines:
    def test_only_line_feeds_separate(self, tmp_path):
        path = tmp_path / "hyp.txt"
        path.write_bytes("\ufeffa\u2028b\x0cc\x85\r\n\n d\re \n".encode())
        assert read_lines(path) == ["a\u2028b\x0cc\x85", "", " d\re "]

    @pytest.mark.parametrize(("text", "lines"), [("a", ["a"]), ("a\n", ["a"]), ("\n", [""]), ("a\n\n", ["a", ""])])
    def test_last_line(self, tmp_path, text, lines):
        path = tmp_path / "hyp.txt"
        path.write_text(text)
        assert read_lines(path) == lines

    def test_standard_input(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä\nb\n".encode()), encoding="ascii"))
        assert read_lines("-") == ["ä", "b"]

    def test_standard_input_empty(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        with pytest.raises(InputError, match="Expected standard input to hold text, but it is empty"):
            read_lines("-")

    def test_unusable(self, tmp_path):
        (tmp_path / "bytes.txt").write_bytes(b"a\nb\n\xff\xfe\n")
        with pytest.raises(InputError, match="byte 0xff in line 3"):
            read_lines(tmp_path / "bytes.txt")
        with pytest.raises(InputError, match="there is none"):
            read_lines(tmp_path / "none.txt")
        with pytest.raises(InputError, match="got the folder"):
            read_lines(tmp_path)

    def test_equal_lengths(self):
        check_equal_lengths({})
        check_equal_lengths({"hyp.txt": ["a"], "ref.txt": ["b"]})
        with pytest.raises(InputError, match=r"but got 2 in hyp\.txt, 2 in ref1\.txt, 3 in ref2\.txt: line i"):
            check_equal_lengths({"hyp.txt": "ab", "ref1.txt": "cd", "ref2.txt": "efg"})


@pytest.mark.parametrize(("year", "count", "pairs"), [(2015, 2000, 4), (2016, 3360, 6), (2017, 3920, 7)])
def test_wmt_direct_assessment(year, count, pairs):
    path = Path(__file__).parents[3] / "shared" / "data" / "wmt_da" / f"newstest{year}_da_toen.tsv"
    if not path.is_file():
        pytest.skip("needs the data folder ../shared beside the clone")
    segments = read_segments(path, Columns(source="source", groups=("lp", "system")))
    assert len(segments) == count
    assert len({segment.groups["lp"] for segment in segments}) == pairs
    assert all(segment.source and segment.hypothesis and segment.references[0] for segment in segments)
