"""Files and folders appear complete or not at all."""

import os
import pwd
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from textmover import files
from textmover.files import atomic_bytes, atomic_file, atomic_folder, check_output, remove_leftovers
from textmover.safe_reading import expanded
from textmover.types import InputError


@pytest.mark.parametrize(
    ("opened", "content", "expected"),
    [(atomic_file, "0.5\nß\n", "0.5\nß\n".encode()), (atomic_bytes, b"\x00\r\n\xff", b"\x00\r\n\xff")],
)
def test_a_file_appears_when_it_is_complete_and_stays_where_the_next_fails(tmp_path, opened, content, expected):
    path = tmp_path / "new" / "scores"
    with opened(path) as stream:
        stream.write(content)
        assert not path.exists()
    assert path.read_bytes() == expected
    with pytest.raises(TypeError), opened(path) as stream:
        stream.writelines([content, None])
    assert path.read_bytes() == expected
    assert [one.name for one in path.parent.iterdir()] == ["scores"]


@pytest.fixture
def old(tmp_path):
    """A folder that holds a file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old")
    return tmp_path / "folder"


def write_folder(path, *, overwrite=False, fails=False):
    with atomic_folder(path, overwrite=overwrite) as beside:
        (beside / "part").write_text("new")
        (beside / "inner").mkdir()
        if fails:
            raise RuntimeError("stop")


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_when_it_is_complete(tmp_path, exists):
    path = tmp_path / "deep" / "folder"
    if exists:
        path.mkdir(parents=True)
    write_folder(path)
    assert {one.name for one in path.iterdir()} == {"part", "inner"}
    assert [one.name for one in path.parent.iterdir()] == ["folder"]
    assert path.stat().st_mode & 0o777 == 0o777 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_folder_in_use_is_replaced_only_on_request(old):
    with pytest.raises(InputError, match="new or empty, but it holds files: give another name, or remove it"):
        write_folder(old)
    assert [one.name for one in old.iterdir()] == ["old"]
    write_folder(old, overwrite=True)
    assert {one.name for one in old.iterdir()} == {"part", "inner"}
    assert [one.name for one in old.parent.iterdir()] == ["folder"]


def test_a_folder_that_fails_leaves_what_there_was(tmp_path, old):
    for path in (old, tmp_path / "new"):
        with pytest.raises(RuntimeError, match="stop"):
            write_folder(path, overwrite=True, fails=True)
    assert [one.name for one in tmp_path.rglob("*")] == ["folder", "old"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path, old, monkeypatch):
    replace = os.replace

    def refusing(source, target):
        if target == old and source.suffix != ".old":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("textmover.files.os.replace", refusing)
    with pytest.raises(InputError, match="No space left on device"):
        write_folder(old, overwrite=True)
    assert [one.name for one in sorted(tmp_path.rglob("*"))] == ["folder", "old"]


@pytest.mark.parametrize("opened", [atomic_file, atomic_folder])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, opened):
    (tmp_path / "file").write_text("")
    said = r"Expected to be able to write .*inside, but got: .*\. Give a place"
    with pytest.raises(InputError, match=said) as caught, opened(tmp_path / "file" / "inside"):
        pass
    assert "\n" not in str(caught.value)


def test_a_folder_that_somebody_made_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "folder"
    with pytest.raises(InputError, match="Directory not empty"), atomic_folder(path):
        (path / "theirs").mkdir(parents=True)
    assert [one.name for one in tmp_path.rglob("*")] == ["folder", "theirs"]


def test_a_folder_does_not_replace_a_file(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match="but it is a file"):
        write_folder(tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "kept"


def test_a_full_device_is_told_in_one_sentence():
    with pytest.raises(InputError, match="/dev/full, but got: No space left"), atomic_file("/dev/full") as stream:
        stream.write("x")


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_file(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


# --- leftovers of killed processes ------------------------------------------------------------------------------------


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def write(path, kind, *, dies=False):
    """Write a file or folder; a process that dies leaves what it has written so far."""
    opened = {"file": atomic_file, "bytes": atomic_bytes, "folder": lambda path: atomic_folder(path, overwrite=True)}
    with opened[kind](path) as beside:
        if kind == "folder":
            (beside / "weights").write_text("new")
        elif dies:
            beside.write("x" if kind == "file" else b"x")
            beside.flush()
        if dies:
            die()


def names(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.fixture
def next_run(monkeypatch):
    """Let this process stand for one that has written nowhere yet."""
    return lambda: monkeypatch.setattr(files, "_cleaned", set())


@pytest.mark.parametrize("kind", ["file", "bytes", "folder"])
def test_the_next_run_removes_what_a_killed_one_left(tmp_path, killed, next_run, kind):
    write(tmp_path / "other", "file")
    killed(lambda: write(tmp_path / "result", kind, dies=True))
    assert len(names(tmp_path)) > 1
    next_run()
    write(tmp_path / "another", "file")  # whatever it writes in that folder
    assert names(tmp_path) == ["another", "other"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_living_process_writes_stays(tmp_path, next_run, kind):
    opened = atomic_file if kind == "file" else atomic_folder
    with opened(tmp_path / "result"):
        before = names(tmp_path)
        next_run()
        write(tmp_path / "other", "file")
        assert names(tmp_path) == sorted([*before, "other"])
    assert names(tmp_path) == ["other", "result"]


@pytest.mark.parametrize("at", [1, 2])
def test_a_folder_whose_replacement_was_killed_comes_back(tmp_path, killed, next_run, monkeypatch, at):
    write(tmp_path / "result", "folder")
    (tmp_path / "result" / "mine").write_text("old")
    replace, moved = os.replace, []

    def dying(source, target):
        moved.append(source)
        if len(moved) == at:
            die()
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", dying)
        killed(lambda: write(tmp_path / "result", "folder"))
    assert (tmp_path / "result").exists() == (at == 1)
    next_run()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["result"]
    assert (tmp_path / "result" / "mine").read_text() == "old"


def test_leftovers_of_other_machines_go_after_a_day(tmp_path, killed, next_run, monkeypatch):
    killed(lambda: write(tmp_path / "result", "file", dies=True))
    (left,) = tmp_path.iterdir()
    monkeypatch.setattr(files, "_machine", lambda: "0" * 8)
    remove_leftovers(tmp_path)
    assert left.exists()
    os.utime(left, (time.time() - 90_000,) * 2)
    with left.open() as stream:  # its owner lives, and the lock is visible from here
        files.fcntl.flock(stream, files.fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
        assert left.exists()
    remove_leftovers(tmp_path)
    assert not left.exists()


def test_nothing_goes_where_there_are_no_locks(tmp_path, killed, monkeypatch):
    killed(lambda: write(tmp_path / "result", "file", dies=True))
    left = names(tmp_path)

    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    remove_leftovers(tmp_path)
    write(tmp_path / "result", "file")
    assert names(tmp_path) == [*left, "result"]


def test_other_hidden_files_stay(tmp_path, next_run):
    mine = [".result.abcd1234", ".x.part", ".result.abcdefgh-12345678.part.bak", "result.00000000-12345678.part"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    os.mkfifo(tmp_path / f".pipe.{files._machine()}-12345678.part")
    (tmp_path / f".link.{files._machine()}-12345678.part").symlink_to("nowhere")
    write(tmp_path / "result", "file")
    assert set(mine) < set(names(tmp_path))


def test_writers_and_cleaners_at_once_lose_nothing(tmp_path, killed):
    """A process may take for a leftover what another one has made and not yet locked."""

    def work(number):
        for turn in range(50):
            files._cleaned.clear()
            write(tmp_path / f"{number}-{turn}", "folder" if turn % 5 == 0 else "file")
        die()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: killed(lambda: work(number)), range(4)))
    assert len(names(tmp_path)) == 200


def test_a_file_that_is_written_again_keeps_its_mode(tmp_path):
    path = tmp_path / "scores"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_file(path) as stream:
        stream.write("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    path.chmod(0o444)
    with pytest.raises(InputError, match=r"to be able to write .*scores, but it is read-only: give another name"):
        check_output(path, [])


def test_who_has_no_home_folder_has_that_of_docker(monkeypatch):
    def nobody(_):
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert files.user_cache() == Path("/.cache/textmover")
    monkeypatch.setenv("HOME", "/somewhere")
    assert files.user_cache() == Path("/somewhere/.cache/textmover")


def test_the_home_folder_of_nobody_stays_as_it_is_written(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert [expanded(one) for one in ("~/a", "~nobody-here/a", "a")] == [
        Path("/somewhere/a"),
        Path("~nobody-here/a"),
        Path("a"),
    ]
