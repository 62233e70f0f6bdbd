"""Streams: what the reader of whole files gives, one row at a time, and every bad line with its place."""

import itertools
import os
import random
import threading
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from tests.readers.shared import PACKERS, TEXTS, write, write_records

from textmover.readers.lines import iter_lines
from textmover.readers.row_streams import Row, TableFile, TextFiles
from textmover.readers.segments import Columns, read_lines, read_segments
from textmover.types import InputError

RECORDS = [
    {"hypothesis": "a cat", "reference": "the cat"},
    {"hypothesis": 'He said "no",', "reference": 'He said "no".'},
    {"hypothesis": "Zażółć\u2028gęślą", "reference": " z "},
    {"hypothesis": "", "reference": "a dog"},
]
ROWS = [((one["hypothesis"],), (one["reference"],)) for one in RECORDS]


def texts(rows) -> list[tuple]:
    return [(row.hypotheses, row.references) for row in rows]


# --- every format and compression -------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("format", TEXTS)
def test_tables(tmp_path, format, packed):
    path = write(tmp_path / f"pairs.{format}{packed}", TEXTS[format](RECORDS))
    assert texts(TableFile(path)) == ROWS
    assert [row.line for row in TableFile(path)] == [1, 2, 3, 4] if format == "jsonl" else [2, 3, 4, 5]
    segments = read_segments(path, Columns(score=None))
    assert [((one.hypothesis,), one.references) for one in segments] == ROWS


@pytest.mark.parametrize("packed", PACKERS)
def test_text_files(tmp_path, packed):
    hypotheses = write(tmp_path / f"h.txt{packed}", "\ufeffa\u2028b\r\n\n c ".encode())
    first = write(tmp_path / f"r1.txt{packed}", b"x\n \ny\n")
    second = write(tmp_path / "r2.txt", b"\nw\nz\n")
    assert list(TextFiles((hypotheses,), (first, second))) == [
        Row(1, ("a\u2028b",), ("x",)),
        Row(2, ("",), ("w",)),
        Row(3, (" c ",), ("y", "z")),
    ]
    assert read_lines(hypotheses) == ["a\u2028b", "", " c "]


@pytest.mark.parametrize("group", [1, 3, 100])
def test_parquet(tmp_path, group, monkeypatch):
    monkeypatch.setattr("textmover.readers.tables.PARQUET_ROWS", 2)
    records = [dict(one, more="unread") for one in RECORDS]
    parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "pairs.parquet", row_group_size=group)
    assert texts(TableFile(str(tmp_path / "pairs.parquet"))) == ROWS


def test_a_folder_of_parquet_files_is_read_in_the_order_of_their_names(tmp_path):
    for name, records in (("b.parquet", RECORDS[2:]), ("a.parquet", RECORDS[:2]), ("_c.parquet", RECORDS)):
        write_records(tmp_path / name, records)
    assert texts(TableFile(str(tmp_path))) == ROWS
    assert len(read_segments(tmp_path, Columns(score=None))) == 4
    write_records(tmp_path / "c.parquet", [{"hypothesis": "a"}])
    with pytest.raises(InputError, match=r"Expected a column 'reference' in .*c\.parquet"):
        list(TableFile(str(tmp_path)))


def test_compressed_files_may_have_several_members(tmp_path):
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"lines.txt{suffix}"
        path.write_bytes(PACKERS[suffix](b"a\nb") + PACKERS[suffix](b"c\nd\n"))
        assert read_lines(path) == ["a", "bc", "d"]


@pytest.mark.parametrize("format", TEXTS)
def test_standard_input(piped, format):
    piped(TEXTS[format](RECORDS))
    assert texts(TableFile("-", format=format)) == ROWS


def test_standard_input_needs_a_format_that_is_read_from_its_beginning(piped):
    piped(b"")
    with pytest.raises(InputError, match="set `format` to csv, tsv or jsonl"):
        list(TableFile("-"))
    with pytest.raises(InputError, match="Parquet, which is read from its end"):
        list(TableFile("-", format="parquet"))
    with pytest.raises(InputError, match="Expected standard input to hold text, but it is empty"):
        list(TableFile("-", format="csv"))


def test_text_from_standard_input(piped, tmp_path):
    piped("ä\nb\n".encode())
    assert texts(TextFiles(("-",), (write(tmp_path / "r", b"c\nd\n"),))) == [(("ä",), ("c",)), (("b",), ("d",))]


def test_several_systems(tmp_path):
    paths = [
        write(tmp_path / name, content) for name, content in (("A", b"a\nb\n"), ("B", b"c\nd\n"), ("R", b"e\nf\n"))
    ]
    rows = TextFiles(tuple(paths[:2]), tuple(paths[2:]))
    assert rows.systems == tuple(paths[:2])
    assert texts(rows) == [(("a", "c"), ("e",)), (("b", "d"), ("f",))]
    table = write(tmp_path / "t.tsv", b"A\tB\treference\na\tc\te\nb\td\tf\n")
    assert texts(TableFile(table, ("A", "B"))) == texts(rows)
    with pytest.raises(InputError, match="each system once, but got 'A' twice"):
        TableFile(table, ("A", "A"))


# --- nothing but what the file holds ----------------------------------------------------------------------------------


ALPHABET = ["a", "ß", "€", '"', ",", "\t", " ", "\n", "\r\n", "\r", "\u2028", "\x0c", "\x85", "\ufeff", "{", "}", "\\"]


@pytest.mark.parametrize("seed", range(30))
def test_lines_are_those_of_the_whole_text(tmp_path, seed):
    draw = random.Random(seed)
    text = "".join(draw.choices(ALPHABET, k=draw.randint(1, 60)))
    content = b"\xef\xbb\xbf" * draw.randint(0, 1) + text.encode()
    path = write(tmp_path / f"t.txt{draw.choice(list(PACKERS))}", content)
    expected = content.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    if expected[-1] == "":
        expected.pop()
    if "\n" not in text and "\r" in text.rstrip("\r"):  # lines of another system, or one with an odd character
        with pytest.raises(InputError, match="to end in line feeds, but got carriage returns alone"):
            read_lines(path)
    elif expected:
        assert read_lines(path) == [line.removesuffix("\r") for line in expected]
        references = write(tmp_path / "r.txt", b"x\n" * len(expected))
        assert [row.hypotheses[0] for row in TextFiles((path,), (references,))] == read_lines(path)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("format", [*TEXTS, "parquet"])
def test_streaming_gives_what_reading_the_whole_table_gives(tmp_path, format, seed):
    draw = random.Random(seed)
    barred = "\t\n\r" if format == "tsv" else ""

    def text() -> str:
        return "".join(one for one in draw.choices(ALPHABET, k=draw.randint(0, 12)) if not set(one) & set(barred))

    records = [
        {"hypothesis": text() + "x", "reference": text() + "-", "more": text()} for _ in range(draw.randint(1, 20))
    ]
    path = tmp_path / f"t.{format}"
    if format == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=draw.randint(1, 9))
    else:
        path = Path(write(tmp_path / f"t.{format}{draw.choice(list(PACKERS))}", TEXTS[format](records)))
    columns = Columns(references=("reference", "more"), score=None)
    segments = read_segments(path, columns)
    assert [one.hypothesis for one in segments] == [one["hypothesis"] for one in records]
    streamed = list(TableFile(str(path), references=("reference", "more")))
    assert texts(streamed) == [((one.hypothesis,), one.references) for one in segments]


def test_csv_records_over_several_lines_keep_their_place(tmp_path):
    path = write(tmp_path / "t.csv", b'hypothesis,reference\n"a,\r\nb",c\nd,"e\n\n"\nf,g\n')
    assert list(TableFile(path)) == [Row(2, ("a,\r\nb",), ("c",)), Row(4, ("d",), ("e\n\n",)), Row(7, ("f",), ("g",))]


def test_carriage_returns_alone_end_csv_records_as_before(tmp_path):
    path = write(tmp_path / "t.csv", b"hypothesis,reference\ra,b\rc,d\r")
    assert list(TableFile(path)) == [Row(2, ("a",), ("b",)), Row(3, ("c",), ("d",))]


# --- bad rows ---------------------------------------------------------------------------------------------------------

GOOD = {"csv": "good,text\n", "tsv": "good\ttext\n", "jsonl": '{"hypothesis": "good", "reference": "text"}\n'}
HEADER = {"csv": "hypothesis,reference\n", "tsv": "hypothesis\treference\n", "jsonl": ""}
BAD = [
    ("csv", b"one,two,three\n", "2 fields as in the header, but got 3 in line {line} of {path}"),
    ("csv", b'a,"b" c\n', "got '.*' in the record that starts in line {line}"),
    (
        "csv",
        b'"a stray quote,b\n',
        "got a quotation mark that is never closed in the record that starts in line {line}",
    ),
    ("csv", b"\xff,b\n", "the byte 0xff in line {line}"),
    ("csv", b"a\0c,b\n", "a zero byte in line {line}"),
    ("tsv", b"one\n", "2 fields as in the header, but got 1 in line {line} of {path}"),
    ("tsv", b"a\t\xc3\n", "the byte 0xc3 in line {line}"),
    ("jsonl", b"{\n", "one JSON object a line, but got '{{' in line {line} of {path}"),
    ("jsonl", b'{"hypothesis": 3, "reference": "x"}\n', "Expected text in column 'hypothesis' of {path}, line {line}"),
    ("jsonl", b'{"hypothesis": "x", "reference": []}\n', "column 'reference' of {path}, line {line}, but got none"),
    ("jsonl", b'{"hypothesis": "\\ud800", "reference": "x"}\n', "half a surrogate pair"),
    ("jsonl", b'{"hypothesis": "\x80", "reference": "x"}\n', "the byte 0x80 in line {line}"),
]


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize(("format", "bad", "message"), BAD)
def test_a_bad_row_in_the_middle_stops_with_its_place_or_is_left_out(tmp_path, format, bad, message, packed):
    start, good = HEADER[format].encode(), GOOD[format].encode()
    path = write(tmp_path / f"t.{format}{packed}", start + good * 3 + bad + good * 2)
    expected = message.format(line=4 + bool(start), path=path)
    before = []
    with pytest.raises(InputError, match=expected):
        before.extend(iter(TableFile(path)))
    rows = list(TableFile(path, on_error="skip"))
    assert [bool(row.hypotheses) for row in rows] == [True, True, True, False, True, True]
    assert rows[3].line == 4 + bool(start)
    assert rows[3].references == ()
    with pytest.raises(InputError, match=expected):
        raise InputError(rows[3].problem)
    with pytest.raises(
        InputError, match=expected if "0x" in message or "JSON" in message or format != "jsonl" else "."
    ):
        read_segments(path, Columns(score=None))


def test_an_invalid_byte_in_a_record_of_several_lines_costs_this_record(tmp_path):
    path = write(tmp_path / "t.csv", b'hypothesis,reference\na,b\n"c\n\xff\nd",e\nf,g\n')
    rows = list(TableFile(path, on_error="skip"))
    assert [(row.line, row.hypotheses) for row in rows] == [(2, ("a",)), (3, ()), (6, ("f",))]
    assert "0xff in line 4" in rows[1].problem


def test_rows_of_parquet_that_are_not_utf8(tmp_path):
    column = pyarrow.array([b"a", b"\xff", b"c"], pyarrow.binary()).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"hypothesis": column, "reference": ["x", "y", "z"]}), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet to hold UTF-8, but got the byte 0xff in row 2"):
        list(TableFile(path))
    assert [row.hypotheses for row in TableFile(path, on_error="skip")] == [("a",), (), ("c",)]


def test_a_bad_line_is_left_out_of_all_text_files(tmp_path):
    paths = [write(tmp_path / name, content) for name, content in (("h", b"a\n\xffb\nc\n"), ("r", b"d\ne\nf\n"))]
    with pytest.raises(InputError, match="h to be UTF-8, but got the byte 0xff in line 2"):
        list(TextFiles((paths[0],), (paths[1],)))
    rows = list(TextFiles((paths[1],), (paths[0],), on_error="skip"))
    assert texts(rows) == [(("d",), ("a",)), ((), ()), (("f",), ("c",))]
    assert "line 2" in rows[1].problem


def test_a_header_that_cannot_be_used_is_never_skipped(tmp_path):
    path = write(tmp_path / "t.tsv", b"hypothesis\treferenc\xff\na\tb\n")
    with pytest.raises(InputError, match="line 1"):
        list(TableFile(path, on_error="skip"))


def test_columns_that_are_not_there(tmp_path):
    for format, make in TEXTS.items():
        path = write(tmp_path / f"t.{format}", make(RECORDS))
        for columns in (("mt",), ("hypothesis", "mt")):
            with pytest.raises(InputError, match=r"Expected a column 'mt' in .*, but got 'hypothesis', 'reference'"):
                list(TableFile(path, columns))
        with pytest.raises(InputError, match="Expected a column 'second'"):
            list(TableFile(path, references=("reference", "second"), on_error="skip"))


# --- files that do not belong together, or break off ------------------------------------------------------------------


def test_unequal_line_counts_are_told_behind_the_last_common_line(tmp_path, piped):
    paths = [write(tmp_path / name, b"a\n" * lines) for name, lines in (("h", 5), ("r1", 3), ("r2", 7))]
    rows = iter(TextFiles((paths[0],), tuple(paths[1:])))
    assert len(list(itertools.islice(rows, 3))) == 3
    with pytest.raises(InputError, match=r"got 5 in .*h, 3 in .*r1, 7 in .*r2: line N of every file"):
        next(rows)
    piped(b"a\n" * 9)
    with pytest.raises(InputError, match=r"got more than 3 in standard input, 3 in .*r1"):
        list(TextFiles(("-",), (paths[1],)))


def test_no_pipe_is_waited_for_to_count_its_lines(tmp_path):
    path = write(tmp_path / "r", b"a\n")
    reading, writing = os.pipe()
    try:
        os.write(writing, b"a\n" * 3)
        late = threading.Timer(30, os.close, [writing])
        late.start()
        with pytest.raises(InputError, match=rf"got more than 1 in /dev/fd/{reading}, 1 in "):
            list(TextFiles((f"/dev/fd/{reading}",), (path,)))
        assert late.is_alive()
    finally:
        late.cancel()
        os.close(writing)
        os.close(reading)


def test_systems_and_references_are_needed(tmp_path):
    with pytest.raises(InputError, match="at least one file of references"):
        TextFiles(("a",), ())
    with pytest.raises(InputError, match="at least one file of hypotheses"):
        TextFiles((), ("a",))
    with pytest.raises(InputError, match="standard input"):
        TextFiles(("-",), ("-",))
    with pytest.raises(InputError, match="the pipe or device /dev/null once, but got it twice"):
        TextFiles(("/dev/null",), ("/dev/null",))
    with pytest.raises(InputError, match="each system once"):
        TextFiles(("a", "a"), ("b",))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_that_is_cut_off_or_damaged(tmp_path, suffix):
    draw = random.Random(0)
    content = "".join(f"{draw.random()}\n" for _ in range(20_000)).encode()
    packed = PACKERS[suffix](content)
    path = tmp_path / f"t.txt{suffix}"

    path.write_bytes(packed[: len(packed) // 2])
    read = []
    with pytest.raises(InputError, match=rf"{path} to be a whole compressed file, but after line \d+ got") as caught:
        read.extend(iter_lines(path, ends=True))
    assert 1000 < len(read) < 19_000
    assert f"after line {len(read)} " in str(caught.value)
    assert "".join(read).encode() == content[: len("".join(read))]

    damaged = bytearray(packed)
    damaged[len(packed) // 2 : len(packed) // 2 + 50] = bytes(50)
    path.write_bytes(bytes(damaged))
    with pytest.raises(InputError, match="it is damaged or cut off") as caught:
        list(iter_lines(path))
    assert "\n" not in str(caught.value)

    path.write_bytes(b"not compressed at all\n")
    with pytest.raises(InputError, match="but at its beginning got"):
        list(TextFiles((str(path),), (str(path),), on_error="skip"))


def test_a_damaged_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"hypothesis": ["x" * 50] * 5000, "reference": ["y"] * 5000}), path)
    content = bytearray(path.read_bytes())
    content[10:60] = b"\xff" * 50
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"Expected to be able to read .*t\.parquet") as caught:
        list(TableFile(str(path), on_error="skip"))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"or these with \.gz or \.zst added"):
        list(TableFile(write(tmp_path / "t.xls.gz", b"")))


def test_a_line_that_never_ends_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("textmover.readers.lines.LONGEST_LINE", 1000)
    path = write(tmp_path / "t.txt", b"a\n" + b"x" * 5000)
    with pytest.raises(InputError, match=r"t\.txt, but got a longer one in line 2"):
        read_lines(path)


# --- how far it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.txt.zst"])
def test_the_share_that_has_been_read_grows_to_one(tmp_path, name):
    draw = random.Random(0)
    path = write(tmp_path / name, "".join(f"{draw.random()}\n" for _ in range(50_000)).encode())
    rows = TextFiles((path,), (path,))
    shares = [rows.share for number, _ in enumerate(rows) if number % 10_000 == 0]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2 < shares[3] < 0.9
    assert rows.share == 1


def test_the_share_of_parquet_and_of_what_has_no_length(tmp_path, piped):
    for name in ("a", "b"):
        parquet.write_table(
            pyarrow.table({"hypothesis": ["x"] * 4096, "reference": ["y"] * 4096}), tmp_path / f"{name}.parquet"
        )
    rows = TableFile(str(tmp_path))
    shares = [rows.share for number, _ in enumerate(rows) if number % 2048 == 2047]
    assert shares == pytest.approx([0.125, 0.375, 0.625, 0.875])
    assert rows.share == 1
    assert TableFile(str(tmp_path)).share is None
    piped(b"a\n")
    rows = TextFiles(("-",), (write(tmp_path / "r", b"a\n"),))
    list(rows)
    assert rows.share == 1  # that of the references
    piped(TEXTS["tsv"](RECORDS))
    table = TableFile("-", format="tsv")
    list(table)
    assert table.share is None


@pytest.mark.parametrize(
    ("start", "way_out"),
    [
        (b"\x1f\x8b\x08", "let its name end in .gz"),
        (b"\x28\xb5\x2f\xfd", "let its name end in .zst"),
        *((one, "unpack it first") for one in (b"\xfd7zXZ", b"BZh91AY", b"PK\x03\x04")),
    ],
)
def test_a_compressed_file_that_is_not_unpacked_is_told(tmp_path, start, way_out, piped):
    (tmp_path / "h").write_bytes(start + b"\xff\n")
    with pytest.raises(InputError, match=f"h to be UTF-8, but got a compressed file: {way_out}"):
        list(read_lines(tmp_path / "h"))
    piped(start + b"\xff\n")
    with pytest.raises(InputError, match="standard input to be UTF-8, but got a compressed file: unpack it first"):
        list(read_lines("-"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a cat\rdogs\r", r"to end in line feeds, but got carriage returns alone: convert it \(tr"),
        (b"a cat\rdogs", r"to end in line feeds, but got carriage returns alone: convert it \(tr"),
        ("a cat\n".encode("utf-16"), r"but got UTF-16: convert it \(iconv -f UTF-16 -t UTF-8\)"),
        ("un caf\xe9\n".encode("latin-1"), r"save it as UTF-8 \(from Latin-1: iconv -f LATIN1 -t UTF-8\)"),
        (b"a\x00cat\n", r"but got a zero byte in line 1: remove it \(tr -d"),
    ],
)
def test_the_way_out_fits_what_is_wrong(tmp_path, content, said):
    with pytest.raises(InputError, match=said):
        read_lines(write(tmp_path / "t.txt", content))
