"""A folder of shards: complete files only, of this run and these texts only."""

import errno
import gzip
import json
import logging
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
import torch
import zstandard
from pyarrow import parquet

from textmover.modules.devices import machine_of
from textmover.readers.row_streams import Row, TextFiles
from textmover.runs.score_summary import ShardSummary, summarize
from textmover.runs.shards.folder import (
    LOCK,
    check_folder,
    check_rows,
    check_same,
    digest_file,
    is_sealed,
    locked,
    output_manifest_path,
    read_output_manifest,
)
from textmover.runs.shards.score_formats import FORMATS, Layout
from textmover.runs.shards.shards import (
    Shard,
    ShardFolder,
    ShardScores,
    describe,
    read_shards,
    rows_per_shard,
    texts_of,
)
from textmover.types import InputError, Signature

ONE, TWO = ("h.txt",), ("a", "b")
SIGNATURE = Signature({"textmover": "1", "metric": "twmd", "layer": "3"})


def shard(index: int, rows: int = 3) -> Shard:
    first = index * 3 + 1
    return Shard(index, first, [Row(first + row, (f"h{first + row}",), ("r",)) for row in range(rows)], None)


def scores(index: int, systems: int = 1, *, skipped: bool = False) -> ShardScores:
    table = np.arange(3.0 * systems).reshape(3, systems)
    values = {"score": table / 3 + index, "recall": table / 7}
    if skipped:
        for array in values.values():
            array[1] = math.nan
    sums = tuple(float(np.nansum(column)) for column in values["score"].T)
    flags = np.full(table.shape, "", dtype=object)
    flags[0, 0], flags[0, -1] = "empty", "empty;unknown"
    squares = tuple(float(np.nanvar(column) * (3 - skipped)) for column in values["score"].T)
    tally = ShardSummary(3, int(skipped), "bad" if skipped else "", sums, {"empty": 1}, tuple(values), squares)
    return ShardScores(values, tally, flags)


def parts(
    folder, format="text", systems=ONE, machine="AVX2", signature=SIGNATURE, *, only_mean=False, **settings
) -> ShardFolder:
    layout = Layout(format, systems, only_mean=only_mean)
    return ShardFolder(folder, layout, describe(signature, layout, **{"rows_per_shard": 3, **settings}), machine)


def filled(folder, *found: ShardScores, **options) -> ShardFolder:
    """A folder of finished shards: two, if none is given."""
    made = parts(folder, **options)
    made.begin()
    for index, one in enumerate(found or (scores(0), scores(1))):
        made.write(shard(index), one)
    return made


def summary(systems=ONE, *tallies: ShardSummary):
    return summarize(tallies, systems, SIGNATURE)


BOTH = summary(ONE, scores(0).tally, scores(1).tally)


def interrupt(*_, **__):
    raise KeyboardInterrupt


def names_in(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- cutting ----------------------------------------------------------------------------------------------------------


def test_rows_are_cut_in_order(tmp_path):
    path = tmp_path / "t"
    path.write_text("a\nb\nc\nd\ne\n")
    found = list(read_shards(TextFiles((str(path),), (str(path),)), 2))
    assert [(one.index, one.first, len(one.rows)) for one in found] == [(0, 1, 2), (1, 3, 2), (2, 5, 1)]
    assert [row.line for one in found for row in one.rows] == [1, 2, 3, 4, 5]
    assert found[-1].share == 1


def test_rows_to_a_shard():
    assert [rows_per_shard(4096, systems) for systems in (1, 2, 3, 5000)] == [4096, 2048, 1344, 1]
    assert rows_per_shard(7, 1) == 7
    with pytest.raises(InputError, match="at least 1 pair, but got 0"):
        rows_per_shard(0, 1)


# --- formats ----------------------------------------------------------------------------------------------------------

TABLE = (
    "score\trecall\tflags\n0\t0\tempty;unknown\n0.333333333\t0.142857143\t\n0.666666667\t0.285714286\t\n"
    "1\t0\tempty;unknown\nnan\tnan\t\n1.66666667\t0.285714286\t\n"
)
COLUMNS = "a\tb\tflags\n0\t0.333333333\tempty;unknown\n0.666666667\t1\t\n1.33333333\t1.66666667\t\n"
TEXT = "a\tb\n0\t0.333333333\n0.666666667\t1\n1.33333333\t1.66666667\n"


@pytest.mark.parametrize(
    ("format", "systems", "expected"),
    [
        ("text", ONE, "0\n0.333333333\n0.666666667\n1\nnan\n1.66666667\n"),
        ("tsv", ONE, TABLE),
        ("csv", ONE, TABLE.replace("\t", ",")),
        ("text", TWO, TEXT),
        ("tsv", TWO, COLUMNS),
        ("csv", TWO, COLUMNS.replace("\t", ",")),
    ],
)
def test_tables(tmp_path, format, systems, expected):
    found = (scores(0), scores(1, skipped=True)) if systems == ONE else (scores(0, 2),)
    path = tmp_path / "scores"
    filled(tmp_path / "parts", *found, format=format, systems=systems).merge(
        path, len(found), summary(systems, *(one.tally for one in found))
    )
    assert path.read_text() == expected
    assert names_in(tmp_path) == sorted([path.name, output_manifest_path(path).name])


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_json_compressed_and_plain(tmp_path, suffix):
    found = scores(0), scores(1, skipped=True)
    whole, told = summary(ONE, *(one.tally for one in found)), {}
    for format, only_mean in (("json", False), ("jsonl", False), ("text", True)):
        path = tmp_path / f"{format}{suffix}"
        filled(tmp_path / "parts", *found, format=format, only_mean=only_mean).merge(path, 2, whole)
        read = {".gz": gzip.decompress, ".zst": lambda raw: zstandard.ZstdDecompressor().stream_reader(raw).read()}
        told[format] = read.get(suffix, bytes)(path.read_bytes())
    assert told["text"] == b"0.733333333\n"
    rows = [json.loads(line) for line in told["jsonl"].splitlines()]
    assert [one["flags"] for one in rows] == ["empty;unknown", "", ""] * 2
    assert (rows[1], rows[4]) == (
        {"score": 1 / 3, "recall": 1 / 7, "flags": ""},
        {"score": None, "recall": None, "flags": ""},
    )
    whole = json.loads(told["json"])
    assert whole["scores"] == [0, 1 / 3, 2 / 3, 1, None, 1 + 2 / 3]
    assert whole["mean"] == pytest.approx(11 / 15)
    assert (whole["n"], whole["skipped"], whole["counts"]) == (5, 1, {"empty": 2})
    assert whole["signature"] == str(SIGNATURE)


def test_parquet_has_a_row_group_for_each_shard(tmp_path):
    filled(tmp_path / "parts", scores(0), scores(1, skipped=True), format="parquet").merge(tmp_path / "s", 2, BOTH)
    with parquet.ParquetFile(tmp_path / "s") as file:
        assert file.metadata.num_row_groups == 2
        assert file.schema_arrow.field("score").type == pyarrow.float64()
        table = file.read()
    assert table.column("score").to_pylist() == [0, 1 / 3, 2 / 3, 1, None, 1 + 2 / 3]
    assert table.column_names == ["score", "recall", "flags"]
    assert table.column("flags").to_pylist() == ["empty;unknown", "", ""] * 2


def test_several_systems_in_json():
    one = scores(0, 2)
    whole = summary(TWO, one.tally)
    layout = Layout("json", TWO)
    told = json.loads(layout.whole([layout.encode(one.values, one.flags)], whole))
    flags = ["empty;unknown", "", ""]
    assert told["systems"]["b"] == {"scores": [1 / 3, 1, 5 / 3], "recall": [1 / 7, 3 / 7, 5 / 7], "flags": flags}
    assert told["mean"] == pytest.approx({"a": 2 / 3, "b": 1})
    assert json.loads(Layout("jsonl", TWO).encode(one.values, one.flags).splitlines()[1])["score"] == [2 / 3, 1]
    assert Layout("text", TWO).means(whole) == "a\tb\n0.666666667\t1\n"
    assert json.loads(layout.means(whole))["n"] == 3


def test_names_and_formats_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"without tabs and line breaks, but got 'a\\tb'"):
        Layout("text", ("a\tb",))
    with pytest.raises(InputError, match="format to be text, json"):
        Layout("xml", ONE)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match=r'zstandard to write .*: pip install "textmover\[zstd\]"'):
        filled(tmp_path / "parts").merge(tmp_path / "scores.zst", 2, BOTH)


def test_a_summary_of_nothing_but_left_out_rows_has_no_mean():
    found = summarize([ShardSummary(2, 2, "bad", (0.0,), {}, squares=(0.0,))], ONE, SIGNATURE)
    assert math.isnan(found.means[0])
    assert found.entries()["mean"] is None


# --- going on ---------------------------------------------------------------------------------------------------------


def test_what_is_finished_is_known_again_and_half_written_files_are_not(tmp_path):
    folder = filled(tmp_path / "parts").folder
    (folder / ".000002.txt.abc").write_text("0.1")
    (folder / "000002.txt").write_text("0.1\n")
    again = parts(folder)
    again.begin(resume=True)
    assert not (folder / ".000002.txt.abc").exists()
    assert again.kept() == [0, 1]
    assert again.finished(shard(1)) == scores(1).tally
    assert again.finished(shard(2)) is None
    assert again.tallies(2) == [scores(0).tally, scores(1).tally]


def test_shards_of_an_earlier_run_are_neither_mixed_in_nor_thrown_away_unasked(tmp_path):
    folder = filled(tmp_path / "parts").folder
    with pytest.raises(InputError, match=r"holds 2 finished shards of an earlier run: .* --resume, .* --overwrite"):
        parts(folder).begin()
    assert parts(folder).kept() == [0, 1]
    parts(folder, layer=4).begin(overwrite=True)
    assert names_in(folder) == ["_manifest.json"]
    (folder / "000000.txt").write_text("1\n")  # its record was never written, so there is nothing to lose
    parts(folder, layer=5).begin()
    assert names_in(folder) == ["_manifest.json"]


@pytest.mark.parametrize(
    ("change", "patched", "message"),
    [
        ({"rows_per_shard": 4}, None, "their rows per shard is '3' and that of this run '4'"),
        ({"format": "jsonl"}, None, "their format is 'text' and that of this run 'jsonl'"),
        ({"systems": TWO}, None, "their systems is 'one' and that of this run 'a, b'"),
        ({"batch_tokens": 7}, None, "their batch tokens is 'nothing' and that of this run '7'"),
        ({"signature": SIGNATURE.extended(layer="4")}, None, "their signature entry layer is '3' and that of .* '4'"),
        ({}, "torch.__version__", r"their torch is .* and that of this run '99'"),
        ({}, "__version__", r"their textmover is .* and that of this run '99'"),
    ],
)
def test_shards_of_another_run_are_refused_with_the_entry_that_differs(tmp_path, monkeypatch, change, patched, message):
    filled(tmp_path / "parts")
    if patched:
        monkeypatch.setattr(f"textmover.runs.shards.shards.{patched}", "99")
    with pytest.raises(InputError, match=message):
        parts(tmp_path / "parts", **change).begin(resume=True)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            replace(shard(1), rows=[*shard(1).rows[:1], Row(5, ("other",), ("r",)), *shard(1).rows[2:]]),
            r"row 5 \(line 5\)",
        ),
        (replace(shard(1), rows=[*shard(1).rows[:2], Row(6, ("h6",), ("r", "r"))]), r"row 6 \(line 6\)"),
        (shard(1, rows=2), "row 6, behind its end"),
        (shard(1, rows=5), r"row 7 \(line 7\)"),
    ],
)
def test_other_texts_are_refused_with_the_first_row_that_differs(tmp_path, changed, said):
    with pytest.raises(InputError, match=f"differs from {said} on"):
        filled(tmp_path / "parts").finished(changed)


def test_too_few_shards_or_rows(tmp_path):
    found = filled(tmp_path / "parts")
    with pytest.raises(InputError, match=r"it ends before them \(from row 4 on\)"):
        found.tallies(1)
    found.write(shard(3), scores(3))
    with pytest.raises(InputError, match=r"Expected 4 shards in .*, but number 2 is missing"):
        found.tallies(4)


BROKEN = (b"", b"{}", b"[]", b"\xff\x00", b'{"first": 1}')
DAMAGES = [lambda whole, one=one: one for one in BROKEN]
DAMAGES += [lambda whole: whole[:-9], lambda whole: whole.replace(b'"sums": [', b'"sums": [1')]


@pytest.mark.parametrize(
    ("name", "damage"),
    [("000001.txt", lambda _: None), ("000001.txt", DAMAGES[0]), *(("_000001.json", one) for one in DAMAGES)],
)
def test_a_shard_whose_file_or_record_is_damaged_is_made_again(tmp_path, name, damage):
    found = filled(tmp_path / "parts")
    path = tmp_path / "parts" / name
    whole = path.read_bytes()
    path.unlink() if damage(whole) is None else path.write_bytes(damage(whole))
    again = parts(tmp_path / "parts")
    again.begin(resume=True)
    assert again.finished(shard(0)) is not None
    assert again.finished(shard(1)) is None
    if name.startswith("_"):
        with pytest.raises(InputError, match="number 1 is missing"):
            again.tallies(2)
    again.write(shard(1), scores(1))
    assert path.read_bytes() == whole
    assert found.tallies(2) == [scores(0).tally, scores(1).tally]


@pytest.mark.parametrize("damage", [b"", b"[]", b"\xff\x00"])
def test_a_damaged_manifest_is_one_sentence(tmp_path, damage):
    found = filled(tmp_path / "parts")
    (found.folder / "_manifest.json").write_bytes(damage)
    with pytest.raises(InputError, match=r"_manifest\.json to say what .* it is damaged: start again with --overwrite"):
        found.begin(resume=True)
    found.begin(overwrite=True)
    found.begin(resume=True)


def test_a_shard_of_another_manifest_is_never_taken(tmp_path):
    ours, theirs = filled(tmp_path / "parts"), parts(tmp_path / "parts", layer=4)
    theirs.write(shard(1), scores(0))  # by a run that nothing has kept out
    assert ours.finished(shard(1)) is None
    with pytest.raises(InputError, match="number 1 is missing"):
        ours.merge(tmp_path / "scores", 2, BOTH)
    assert not (tmp_path / "scores").exists()
    theirs.write(shard(2), scores(2))  # nor does it make the input too short
    ours.write(shard(1), scores(1))
    assert len(ours.tallies(2)) == 2


@pytest.mark.parametrize("how", ["merge", "seal"])
def test_a_file_that_has_changed_since_does_not_get_into_the_result(tmp_path, how):
    found = filled(tmp_path / "parts", format="parquet")
    found.file(1).write_bytes(found.file(0).read_bytes())
    place = (tmp_path / "scores",) if how == "merge" else ()
    with pytest.raises(InputError, match="one has changed or is missing: continue with --resume"):
        getattr(found, how)(*place, 2, BOTH)
    assert not is_sealed(tmp_path / "parts")


def test_shards_of_two_kinds_of_processor_are_told(tmp_path, caplog):
    filled(tmp_path / "parts", scores(0))
    other = parts(tmp_path / "parts", machine="AVX512")
    other.begin(resume=True)
    other.write(shard(1), scores(1))
    with caplog.at_level(logging.WARNING, "textmover"):
        other.merge(tmp_path / "scores", 2, BOTH)
    assert "processors of several kinds (AVX2, AVX512)" in caplog.text
    assert machine_of(torch.device("cpu")).endswith(torch.backends.cpu.get_cpu_capability())


def test_a_removal_that_was_interrupted_is_not_taken_for_a_run_to_continue(tmp_path, monkeypatch):
    found = filled(tmp_path / "parts")
    monkeypatch.setattr("pathlib.Path.unlink", interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.remove()
    monkeypatch.undo()
    assert found.kept() == [0, 1]
    again = parts(tmp_path / "parts", layer=4)
    again.begin(resume=True)
    assert again.kept() == []


@pytest.mark.parametrize("name", ["thesis.txt", "1.txt"])  # the latter might be a shard's, where a manifest said so
@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name, options):
    check_folder(tmp_path, resume=False, overwrite=False)
    (tmp_path / name).write_text("keep")
    with pytest.raises(InputError, match=f"to hold shards alone, but got '{name}'"):
        parts(tmp_path).begin(**options)
    assert (tmp_path / name).read_text() == "keep"


def test_a_sealed_folder_is_a_data_set(tmp_path):
    found = filled(tmp_path / "out", format="parquet")
    found.seal(2, BOTH)
    assert is_sealed(tmp_path / "out")
    assert parquet.read_table(tmp_path / "out").column("score").to_pylist()[:2] == [0, 1 / 3]
    told = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert (told["n"], told["shards"]) == (6, 2)
    for options in ({}, {"resume": True}):
        with pytest.raises(InputError, match="the result of a finished run"):
            found.begin(**options)
    found.begin(overwrite=True)
    assert not is_sealed(tmp_path / "out")


@pytest.mark.parametrize("call", ["textmover.files.os.fsync", "textmover.runs.shards.shards.Record.dump"])
def test_a_full_disk_leaves_what_is_finished(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = filled(tmp_path / "parts")
    monkeypatch.setattr(call, full)
    with pytest.raises(InputError, match="No space left on device"):
        found.write(shard(2), scores(2))
    monkeypatch.undo()
    assert found.kept() == [0, 1]
    assert not [name for name in names_in(found.folder) if name.startswith(".")]


# --- one run at a time ------------------------------------------------------------------------------------------------

HOLD = """
import os, sys
from pathlib import Path
from textmover.runs.shards.folder import locked
with locked(Path(sys.argv[1]), Path("s.txt")):
    print("held", flush=True)
    sys.stdin.read()
    os._exit(9)
"""


def test_a_folder_is_for_one_run_at_a_time(tmp_path):
    folder, output = tmp_path / "new" / "s.txt.parts", tmp_path / "new" / "s.txt"
    with locked(folder, output):
        refused = pytest.raises(InputError, match=r"s\.txt, but another run is writing there: wait for it, or give an")
        with refused, locked(folder, output):
            pass
        check_folder(folder, resume=False, overwrite=False)  # the lock is no foreign file
        found = filled(folder)
        assert (folder / LOCK).is_file()  # which `begin` leaves
        found.merge(output, 2, BOTH)
    assert names_in(output.parent) == [".s.txt.textmover.json", "s.txt"]


def test_the_lock_of_a_killed_run_keeps_nobody_out(tmp_path):
    folder = tmp_path / "s.txt.parts"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another run is writing there"), locked(folder, folder):
            pass
        other.stdin.close()
        assert other.wait(30) == 9
    assert (folder / LOCK).is_file()
    with locked(folder, folder):
        pass
    assert not folder.exists()


def test_a_lock_leaves_only_what_others_have_made(tmp_path):
    (tmp_path / "out").mkdir()
    for folder in (tmp_path / "out", tmp_path / "a" / "b" / "out"):
        with locked(folder, folder):
            pass
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]
    (tmp_path / ".s.txt.parts").mkdir()  # of a run that was killed before it had its lock
    with locked(tmp_path / ".s.txt.parts", tmp_path / "s.txt"):
        pass
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Expected to be able to write"), locked(tmp_path / "file" / "x", tmp_path):
        pass


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, caplog, error):
    def flock(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("fcntl.flock", flock)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "textmover"), locked(tmp_path / "parts", tmp_path / "s.txt"):
            assert "parts is on a file system without locks" in caplog.text
            filled(tmp_path / "parts").remove()
        caplog.clear()
    assert list(tmp_path.iterdir()) == []


# --- knowing a result again -------------------------------------------------------------------------------------------


def test_a_file_is_known_by_its_manifest(tmp_path):
    path = tmp_path / "s.txt"
    found = filled(tmp_path / "parts")
    found.merge(path, 2, BOTH)
    kept, now = read_output_manifest(path), texts_of([shard(0), shard(1)])
    check_same(path, kept, found.output_manifest(*now, digest_file(path)))
    for other, message in (
        (
            parts(tmp_path, layer=4).output_manifest(*now, kept.scores),
            "its layer is 'nothing' and that of this run '4'",
        ),
        (
            parts(tmp_path / "parts", only_mean=True).output_manifest(*now, kept.scores),
            "its values is 'all' and that of this run 'mean alone'",
        ),
        (found.output_manifest(6, "other", kept.scores), r"from other texts \(as many rows, and this run has 6\)"),
        (found.output_manifest(3, "other", kept.scores), r"from other texts \(6 rows, and this run has 3\)"),
        (found.output_manifest(*now, ""), "was changed after it was written"),
    ):
        with pytest.raises(InputError, match=f"{message}.*: give another --output, or .* --overwrite"):
            check_same(path, kept, other)
    output_manifest_path(path).write_text("[]")
    assert read_output_manifest(path) is None


@pytest.mark.parametrize("systems", [ONE, TWO])
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_without_a_manifest_is_known_by_its_rows(tmp_path, format, systems):
    one = scores(0, len(systems))
    path, layout = tmp_path / ("s" if format == "parquet" else "s.gz"), Layout(format, systems)
    filled(tmp_path / "parts", one, format=format, systems=systems).merge(path, 1, summary(systems, one.tally))
    check_rows(path, layout, 3)
    with pytest.raises(InputError, match="it has 3 rows and the input 4: give another --output"):
        check_rows(path, layout, 4)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=f"it cannot be read as {format}"):
        check_rows(path, layout, 3)


def test_a_sealing_that_was_interrupted_is_finished_later(tmp_path, monkeypatch):
    whole, broken = (filled(tmp_path / name, format="parquet") for name in ("whole", "broken"))
    whole.seal(2, BOTH)
    monkeypatch.setattr(ShardFolder, "tidy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        broken.seal(2, BOTH)
    monkeypatch.undo()
    assert broken.kept() == [0, 1]
    assert (whole.untidy, broken.untidy) == (False, True)
    broken.tidy()
    assert not broken.untidy
    contents = [{one.name: one.read_bytes() for one in found.folder.iterdir()} for found in (whole, broken)]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("name", ["_manifest.json", "_summary.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff"])
def test_a_sealed_folder_that_is_damaged(tmp_path, name, damage):
    found = filled(tmp_path / "out", format="parquet")
    found.seal(2, BOTH)
    saved, now = found.sealed_output_manifest()
    check_same(tmp_path, saved, found.output_manifest(*texts_of([shard(0), shard(1)]), now))
    (tmp_path / "out" / name).write_bytes(damage)
    if (name, damage) == ("_manifest.json", b"{}"):  # of which no more is known than that it is another
        with pytest.raises(InputError, match="its textmover is 'nothing'"):
            check_same(tmp_path, found.sealed_output_manifest()[0], saved)
        return
    with pytest.raises(InputError, match="one is damaged or missing"):
        found.sealed_output_manifest()


def test_overwriting_a_sealed_folder_first_makes_it_unfinished(tmp_path, monkeypatch):
    found = filled(tmp_path / "out", format="parquet")
    found.seal(2, BOTH)
    monkeypatch.setattr("textmover.runs.shards.shards.clear", interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.begin(overwrite=True)
    assert not is_sealed(tmp_path / "out")


def test_counts_are_told_by_system_where_all_records_have_them():
    old = ShardSummary(2, 0, "", (0.0, 0.0), {"empty": 3}, ("score",))
    new = ShardSummary(2, 0, "", (0.0, 0.0), {"empty": 3}, ("score",), by_system={"empty": [2, 1]})
    told = [summarize(tallies, ("a", "b"), SIGNATURE).warning_counts for tallies in ([new, new], [old, new])]
    assert told == [{"empty": {"a": 4, "b": 2}}, {"empty": 6}]
    assert summarize([replace(new, sums=(0.0,), by_system={"empty": [3]})], ("a",), SIGNATURE).warning_counts == {
        "empty": 3
    }
