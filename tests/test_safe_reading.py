"""YAML, JSON and files that a user gives are read within bounds, and nothing else reads YAML."""

import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from textmover.files import atomic_file
from textmover.safe_reading import load_json, load_yaml, open_input, read_json, read_yaml
from textmover.types import BOUNDS, InputError

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"

FEW = {"x": 1, "y": 2}
NAMES = "abcdefgh"
GROWING = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join([f'*{before}'] * 9)}]\n" for before, one in pairwise(NAMES)
)
MERGING = "a: &a {k: 1}\n" + "".join(
    f"{one}: &{one} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n" for before, one in pairwise(NAMES)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GROWING, "at most 50,000 values, aliases written out, but got more in line 5"),
        (MERGING, "at most 50,000 values, aliases written out, but got more in line 6"),
        ("a: 1\nb: &b [*b]", "to hold no value that contains itself, but got one in line 2"),
        ("&a {b: *a}", "to hold no value that contains itself, but got one in line 1"),
        ("[" * 5000, "at most 100 levels of lists and keys, but got more in line 1"),
        ("{a: " * 5000, "at most 100 levels of lists and keys, but got more in line 1"),
        ("\n".join(" " * depth + "a:" for depth in range(200)), "at most 100 levels .* in line 100"),
        ("a: 1\nb:\n  c: 1\n  c: 2", "to hold each key once, but got 'c' again in line 4: remove one"),
        ("yes: 1\ntrue: 2", "to hold each key once, but got True again in line 2"),
        ("1: 1\n0x1: 2", "to hold each key once, but got 1 again in line 2"),
        ("a: " + "1" * 5000, "numbers of at most 1,000 characters, but got one of 5,000 in line 1"),
        ("9" * 200_000 + "a: 1", "numbers of at most|to be YAML"),
        ("a: " + "1:" * 5000 + "1", "numbers of at most 1,000 characters"),
        ("a: !!timestamp 2001-99-99", "to be YAML, but got 'a value that is not timestamp' in line 1"),
        ("a: 1\nb: !!bool maybe", "to be YAML, but got 'a value that is not bool' in line 2"),
        ("a: !!int ''", "to be YAML, but got 'a value that is not int'"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: [b\nc: d", "to be YAML, but got .* in line 2"),
        ("a: \0", "to be YAML, but got 'special characters are not allowed'"),
        ("a: 1\n---\nb: 2", "to be YAML, but got"),
    ],
)
def test_yaml_that_is_refused_names_the_line(text, message):
    with pytest.raises(InputError, match=f"^Expected a.yaml .*{message}"):
        load_yaml(text, "a.yaml")


def test_a_list_of_too_many_values_is_refused(monkeypatch):
    monkeypatch.setitem(BOUNDS, "yaml_values", (0, 10))
    with pytest.raises(InputError, match="at most 10 values, aliases written out, but got more in line 2"):
        load_yaml("[1, 2, 3, 4, 5,\n6, 7, 8, 9, 10]", "a.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("rate: 1e-5", {"rate": 1e-5}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: *a", {"a": FEW, "b": {**FEW, "x": 3}, "c": FEW}),
        ("day: 2017-01-02", {"day": "2017-01-02"}),
        ("[" * 99 + "]" * 99, eval("[" * 99 + "]" * 99)),
        ("a: '" + "1" * 5000 + "'", {"a": "1" * 5000}),
    ],
)  # fmt: skip
def test_yaml_that_is_read(text, value):
    assert load_yaml(text, "a.yaml") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 50_000, "at most 100 levels of lists and objects"),
        ('{"a":' * 50_000, "at most 100 levels of lists and objects"),
        ("[" * 101 + "]" * 101, "at most 100 levels of lists and objects"),
        ('{"a": 1,\n"b": {"c": 1, "c": 2}}', "to hold each key once, but got 'c' again"),
        ('{"a": 1,\n"b": }', "to be JSON, but got 'Expecting value' in line 2"),
        ("9" * 5000, "to be JSON, but got .*too many digits"),
        (b'"\xff"', "to be JSON, but got 'bytes that are not UTF-8"),
    ],
)
def test_json_that_is_refused(text, message):
    with pytest.raises(InputError, match=f"^Expected a.json .*{message}"):
        load_json(text, "a.json")


def test_json_at_the_bound_is_read():
    assert load_json("[" * 100 + "]" * 100, "a.json")


def test_a_file_beyond_the_bound_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setitem(BOUNDS, "yaml_bytes", (0, 1 << 20))
    (tmp_path / "a.yaml").write_text("a: " + "b" * (1 << 20))
    with pytest.raises(InputError, match=r"a\.yaml to have at most 1,024 KiB, but it has more"):
        read_yaml(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "a file at .*none, but there is none"),
        ("latin", "UTF-8, but got the byte 0xff in line 2"),
        ("utf-16", "UTF-8, but got the byte 0xff in line 1"),
        ("", "Expected a file, but got the folder"),
    ],
)
@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_file_that_cannot_be_read(tmp_path, read, name, message):
    (tmp_path / "latin").write_bytes(b'{\n"a": "\xff"}')
    (tmp_path / "utf-16").write_bytes('{"a": 1}'.encode("utf-16"))
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("opened", "missing"),
    [(open_input, "writes to it"), (lambda path: atomic_file(path).__enter__(), "reads it")],
    ids=["read", "written"],
)
def test_a_pipe_with_nobody_at_its_other_end_is_refused_and_leaves_nothing(tmp_path, monkeypatch, opened, missing):
    monkeypatch.setitem(BOUNDS, "pipe_seconds", (0, 0.1))
    os.mkfifo(tmp_path / "pipe")
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    with pytest.raises(InputError, match=rf"none opened it within 0\.1 seconds: start the one that {missing} first"):
        opened(tmp_path / "pipe")
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_pipe_whose_writer_comes_later_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Timer(0.1, lambda: (tmp_path / "pipe").write_text("a: 1"))
    writer.start()
    assert read_yaml(tmp_path / "pipe") == {"a": 1}
    writer.join()


def test_a_pipe_whose_reader_comes_later_is_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Timer(0.1, lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    with atomic_file(tmp_path / "pipe") as stream:
        stream.write("a: 1")
    reader.join()
    assert found == ["a: 1"]
    assert (tmp_path / "pipe").is_fifo()
