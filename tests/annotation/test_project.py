"""Ratings on disk: nothing lost, nothing outside of the folder, everyone's own."""

import errno
import json
import os
import shutil
import signal
import time
import warnings

import numpy as np
import pytest

from textmover.annotation import (
    CRITERIA,
    Progress,
    Scale,
    clean_name,
    item_files,
    known_criteria,
    known_scale,
    open_project,
    parse_criteria,
)
from textmover.annotation.store import annotator_key
from textmover.types import InputError

NAMES = ["../../x", "a/b\\c", "..", ".", "/etc/passwd", "CON", "🙂", "a" * 80, "Zoë", "محمد"]
NAMES += ["x.jsonl", "$(rm)", ".lock"]


# --- rating -----------------------------------------------------------------------------------------------------------


def test_a_rating_is_there_for_whoever_opens_the_project_next(folder, project):
    project.rate("Ada", "i3", "fluency", 2)
    found = open_project(folder).said("Ada")
    assert dict(found["i3"].ratings) == {"fluency": 2.0}
    assert project.progress("Ada") == Progress(complete=0, begun=1, items=10)


def test_the_same_annotator_replaces_a_rating_and_another_one_has_an_own(project):
    project.rate("Ada", "i0", "fluency", 1)
    project.rate("Bob", "i0", "fluency", 3)
    project.rate("Ada", "i0", "fluency", 2)
    project.comment("Ada", "i0", "odd")
    assert (project.said("Ada")["i0"].ratings, project.said("Ada")["i0"].comment) == ({"fluency": 2.0}, "odd")
    assert (project.said("Bob")["i0"].ratings, project.said("Bob")["i0"].comment) == ({"fluency": 3.0}, "")
    assert project.annotators() == ("Ada", "Bob")


def test_next_unrated_goes_round(project, rate_all):
    rate_all(project, "Ada", {0: 1, 2: 3})
    project.rate("Ada", "i1", "fluency", 1)
    assert [project.next_unrated("Ada", after) for after in (-1, 1, 9)] == [1, 3, 1]
    rate_all(project, "Ada", dict.fromkeys(range(10), 2))
    assert project.next_unrated("Ada") is None
    assert project.progress("Ada") == Progress(10, 0, 10)


def test_names_that_differ_in_case_and_spaces_are_one_annotator(project):
    project.rate("Ada  Lovelace", "i0", "fluency", 1)
    project.rate(" ada lovelace", "i1", "fluency", 1)
    assert project.annotators() == ("Ada Lovelace",)
    assert len(project.said("ADA LOVELACE")) == 2


def test_matrix(project):
    project.rate("Bob", "i1", "fluency", 3)
    project.rate("Ada", "i0", "fluency", 1)
    project.rate("Ada", "i0", "semantic correctness", 2)
    names, ratings = project.matrix("fluency")
    assert names == ("Ada", "Bob")
    np.testing.assert_array_equal(ratings[:, :2], [[1, np.nan], [np.nan, 3]])
    assert np.isnan(ratings[:, 2:]).all()


def test_what_is_no_rating_or_not_there_is_refused(project):
    with pytest.raises(InputError, match="whole number from 1 to 3"):
        project.rate("Ada", "i0", "fluency", 4)
    with pytest.raises(InputError, match=r"text of items\.json"):
        project.rate("Ada", "../i0", "fluency", 1)
    with pytest.raises(InputError, match="criterion"):
        project.rate("Ada", "i0", "style", 1)
    with pytest.raises(InputError, match="2000 characters"):
        project.comment("Ada", "i0", "x" * 2001)
    assert project.annotators() == ()


# --- items that change ------------------------------------------------------------------------------------------------


def test_ratings_of_texts_that_change_or_go_are_kept_and_left_out(folder, project, rate_all):
    rate_all(project, "Ada", {0: 1, 1: 2, 2: 3})
    rows = json.loads((folder / "items.json").read_text())
    rows[0]["hypothesis"] = "another text"
    (folder / "items.json").write_text(json.dumps([*rows[2:], rows[0]]))
    changed = open_project(folder)
    assert (set(changed.said("Ada")), changed.outdated()) == ({"i2"}, 2)
    rate_all(changed, "Ada", {changed.find("i0"): 2})
    assert (set(changed.said("Ada")), changed.outdated()) == ({"i0", "i2"}, 1)
    # The first texts come back: what was said of the one that was rated again is gone, the rest is there.
    (folder / "items.json").write_text(json.dumps(json.loads(json.dumps(rows))))
    assert set(open_project(folder).said("Ada")) == {"i0", "i1", "i2"}


def test_each_file_of_items_has_ratings_of_its_own(folder, project, rate_all):
    (folder / "more.csv").write_text("hypothesis,reference\na,b\n")
    rate_all(project, "Ada", {0: 1})
    assert item_files(folder) == ["items.json", "more.csv"]
    assert open_project(folder, "more.csv").annotators() == ()
    with pytest.raises(InputError, match=r"2 \(items\.json, more\.csv\): name it with --items"):
        open_project(folder)


def test_ratings_keep_to_their_scale(folder, project):
    assert known_scale(folder, "items.json") is None
    project.rate("Ada", "i0", "fluency", 3)
    assert open_project(folder).scale == known_scale(folder, "items.json") == Scale(1, 3)
    with pytest.raises(InputError, match=r"scale 1-3, on which items\.json has been rated, but got 0-100"):
        open_project(folder, scale=Scale(0, 100))


def test_criteria_may_be_added_later(folder, project, rate_all):
    rate_all(project, "Ada", {0: 3})
    more = open_project(folder, criteria=[*project.criteria, *parse_criteria(["style"])])
    assert more.progress("Ada") == Progress(0, 1, 10)
    more.rate("Ada", "i0", "style", 1)
    assert more.progress("Ada") == Progress(1, 0, 10)
    assert open_project(folder).progress("Ada") == Progress(1, 0, 10)


# --- nothing outside of the folder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_file_in_the_folder(folder, project, name, tmp_path):
    before = set(tmp_path.rglob("*"))
    project.rate(name, "i0", "fluency", 2)
    new = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert {path.parent for path in new} == {folder / "annotations" / "items.json"}
    assert all(len(path.name) < 100 and path.name.isascii() for path in new)
    assert project.annotators() == (clean_name(name),)


def test_names_are_told_apart():
    assert len({annotator_key(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "a\x1bb", "\ud800", "x" * 81, None, 3])
def test_names_that_are_none_are_refused(project, name):
    with pytest.raises(InputError, match="name"):
        project.rate(name, "i0", "fluency", 2)


@pytest.mark.parametrize("items", ["../outside.json", "link.json", "sub/../../outside.json", "a\x00.json"])
def test_items_outside_of_the_folder_are_refused(folder, tmp_path, items):
    (tmp_path / "outside.json").write_text('[{"hypothesis": "secret"}]')
    (folder / "sub").mkdir()
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(InputError, match="inside the folder"):
        open_project(folder, items)
    with pytest.raises(InputError, match="inside the folder"):
        open_project(folder, tmp_path / "outside.json")
    assert item_files(folder) == ["items.json"]


def test_links_that_lead_out_of_the_folder_are_neither_read_nor_written(folder, project, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (folder / "annotations").symlink_to(outside)
    with pytest.raises(InputError, match="inside the folder"):
        project.rate("Ada", "i0", "fluency", 2)
    (folder / "annotations").unlink()
    place = folder / "annotations" / "items.json"
    place.mkdir(parents=True)
    target = outside / "file.txt"
    target.write_text("mine")
    (place / f"{annotator_key('Ada')}.jsonl").symlink_to(target)
    for act in (lambda: project.rate("Ada", "i0", "fluency", 2), lambda: project.said("Ada"), project.annotators):
        with pytest.raises(InputError, match="inside the folder"):
            act()
    assert target.read_text() == "mine"


# --- when things go wrong ---------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_leaves_what_was_saved(project, monkeypatch):
    project.rate("Ada", "i0", "fluency", 2)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        project.rate("Ada", "i0", "fluency", 3)
    monkeypatch.undo()
    assert project.said("Ada")["i0"].ratings == {"fluency": 2.0}
    assert [path.suffix for path in project.place.iterdir() if path.name != ".lock"] == [".jsonl"]


def test_a_place_that_cannot_be_written_is_told(folder, project):
    (folder / "annotations").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="able to write"):
        project.rate("Ada", "i0", "fluency", 2)


@pytest.mark.parametrize("rename", [shutil.copy, shutil.move])
def test_a_copied_or_renamed_file_counts_nobody_twice(project, rename):
    project.rate("Ada", "i0", "fluency", 1)
    path = project.place / f"{annotator_key('Ada')}.jsonl"
    rename(path, project.place / "conflicted copy.jsonl")
    names = ("Ada",) if path.exists() else ()
    assert (project.annotators(), project.damaged()) == (names, ("conflicted copy.jsonl",))


def test_files_of_items_do_not_share_ratings(folder):
    (folder / "sub").mkdir()
    for name in ("sub__items.json", "sub/items.json"):
        shutil.copy(folder / "items.json", folder / name)
        last = name
    for name in ("sub__items.json", last):
        with pytest.raises(InputError, match=r"share sub__items\.json: rename one"):
            open_project(folder, name)
    (folder / "sub__items.json").unlink()
    open_project(folder, "sub/items.json")


def test_a_place_without_locks_is_told_and_used(project, monkeypatch, caplog):
    def flock(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr("fcntl.flock", flock)
    project.rate("Ada", "i0", "fluency", 2)
    assert "without locks" in caplog.text
    assert project.said("Ada")["i0"].ratings == {"fluency": 2.0}


HEAD = '{"textmover_ratings": 1, "annotator": "A", "scale": "1-3"}\n'


@pytest.mark.parametrize("content", ["", "{}", "[]", "x", '{"textmover_ratings": 2}', f'{HEAD}{{"it'])
def test_a_file_that_somebody_damaged_is_named_and_left_alone(project, content):
    project.place.mkdir(parents=True)
    path = project.place / f"{annotator_key('Ada')}.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=path.name):
        project.rate("Ada", "i0", "fluency", 1)
    assert path.read_text() == content
    project.rate("Bob", "i0", "fluency", 1)  # others go on
    assert (project.annotators(), project.damaged()) == (("Bob",), (path.name,))
    assert open_project(project.folder).matrix("fluency")[0] == ("Bob",)


def test_criteria_are_those_of_the_last_rating(folder):
    own = parse_criteria(["adequacy: Does it say all?", "style"])
    project = open_project(folder, criteria=own)
    project.rate("Ada", "i0", "style", 2)
    assert known_criteria(folder, "items.json") == open_project(folder).criteria == own
    assert open_project(folder).said("Ada")["i0"].ratings == {"style": 2}
    assert open_project(folder, criteria=CRITERIA).criteria == CRITERIA


def test_what_a_killed_process_left_is_cleared(project, killed, monkeypatch):
    def dies(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr("textmover.files.os.replace", dies)
        killed(lambda: project.rate("Ada", "i0", "fluency", 1))
    assert len(list(project.place.iterdir())) == 2
    project.rate("Ada", "i0", "fluency", 2)
    assert {one.name for one in project.place.iterdir()} == {".lock", f"{annotator_key('Ada')}.jsonl"}


def rating(folder, first, last):
    """A copy of this process that rates one text after the other; its number, and a stream of the turns."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of copies of a process with threads
        process = os.fork()
    if process == 0:
        try:
            project = open_project(folder)
            for turn in range(first, last):
                project.rate("Ada", project.items[turn % 10].key, "fluency", 1 + turn % 3)
                os.write(writing, f"{turn}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    return process, open(reading)


def test_nothing_that_was_saved_is_lost_when_the_process_is_killed(folder, project):
    for wait in (0.0, 0.002, 0.005):
        process, turns = rating(folder, 0, 10**6)
        with turns:
            told = [int(turns.readline()) for _ in range(25)]
            time.sleep(wait)
            os.kill(process, signal.SIGKILL)
            told += [int(line) for line in turns.read().split()]
        os.waitpid(process, 0)
        # What was told as saved is there, or what came right behind it.
        wanted = {f"i{turn % 10}": {1 + turn % 3} for turn in told}
        following = told[-1] + 1
        wanted[f"i{following % 10}"] |= {1 + following % 3}
        said = project.said("Ada")
        assert set(said) == set(wanted)
        for key, values in wanted.items():
            assert said[key].ratings["fluency"] in values


def test_two_programs_at_once_do_not_write_over_each_other(folder, project):
    started = [rating(folder, first, first + 5) for first in (0, 5)]
    for process, turns in started:
        with turns:
            assert len(turns.read().split()) == 5
        os.waitpid(process, 0)
    assert len(project.said("Ada")) == 10
