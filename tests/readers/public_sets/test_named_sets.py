"""Every named set from a local server: layouts, interruptions, hashes, full disks, and the forms that readers take."""

import contextlib
import dataclasses
import errno
import functools
import json
import os
import signal

import published
import pytest

from textmover.cli.main import main
from textmover.readers.public_sets import catalogue, fetching, located
from textmover.readers.public_sets.catalogue import find_parts, named_sets
from textmover.readers.public_sets.fetching import get_sets
from textmover.readers.segments import Columns, read_segments, read_texts
from textmover.types import InputError, plural

TREE = "ud-ewt-dev"  # has neither a hash nor a number of rows


def get(*names):
    told = []
    get_sets(names, None, told.append)
    return "\n".join(told)


@functools.cache
def small_sets():
    """Sets of any number of rows: the published ones, made small."""

    def unbound(one):
        parts = {key: dataclasses.replace(part, rows=None, sha256=None) for key, part in one.parts.items()}
        return dataclasses.replace(one, sha256={}, parts=parts)

    return {name: unbound(one) for name, one in named_sets().items()}


@pytest.fixture
def small(publishers, monkeypatch):
    """The server with the small sets."""
    sets = small_sets()
    for module in (catalogue, fetching):
        monkeypatch.setattr(module, "named_sets", lambda: sets)
    for name, one in sets.items():
        publishers.publish(one, published.files_of(name))
    return publishers


def test_the_made_sets_are_all_there_are():
    names = {f"{one.name}-{key}" if key else one.name for one in named_sets().values() for key in one.parts}
    assert names == set(published.ROWS)


@pytest.mark.parametrize("name", published.ROWS)
def test_every_name_is_fetched_in_its_published_layout(name, small, tmp_path):
    count, place, row = published.ROWS[name]
    told = get(name)
    one, (key,) = find_parts(name)
    for fact in (one.licence, one.citation, one.address):
        assert fact in told
        assert told.index(fact) < told.index("is made of")
    file = tmp_path / "sets" / one.parts[key].file
    assert f"{file}: {plural(count, 'row')}" in told
    rows = file.read_text(encoding="utf-8").splitlines()
    if file.suffix == ".tsv":
        header, *rows = rows
        assert header.split("\t") == list(row)
        row = "\t".join(row.values())
    assert len(rows) == count
    assert (json.loads(rows[place]) if file.suffix == ".jsonl" else rows[place]) == row
    assert not (tmp_path / "sets" / ".downloads").exists()
    small.asked.clear()
    assert f"{one.name} is there already: {file}" in get(name)
    assert small.asked == []


def test_a_file_of_several_sets_is_fetched_once(small):
    get("wmt18-da", "wmt22-da", "mnli")
    assert [path.rpartition("/")[2] for path, _ in small.asked] == ["train.csv", "MNLI.zip"]


# --- interruptions ----------------------------------------------------------------------------------------------------


def big(publishers):
    """Publish a treebank of 3 MB; returns its path on the server."""
    line = published.lines(f"1\tThe\t{'the' * 331}")  # of 1,000 bytes, as fewer lines are converted sooner
    publishers.publish(named_sets()["ud-ewt"], {"en_ewt-ud-dev.conllu": line * 3_000})
    return next(path for path in publishers.files if path.endswith("dev.conllu"))


def test_a_killed_download_goes_on_where_it_was(publishers, tmp_path, monkeypatch, killed):
    path = big(publishers)

    @contextlib.contextmanager
    def cut(*, shown):
        yield lambda _, done, total: done and os.kill(os.getpid(), signal.SIGKILL)  # behind the first megabyte

    with monkeypatch.context() as patched:
        patched.setattr("textmover.readers.public_sets.fetching.progress_bars", cut)
        killed(lambda: get(TREE))
    assert not (tmp_path / "sets" / "ud_ewt").exists()
    assert "en_ewt-ud-dev.conllu: 2 MB after 1 MB that are here" in get(TREE)
    assert publishers.asked == [(path, 0), (path, 1_000_000)]
    assert (tmp_path / "sets/ud_ewt/en_ewt-ud-dev.conllu").read_bytes() == publishers.files[path]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_the_progress_unless_quiet(publishers, monkeypatch, capsys, quiet):
    big(publishers)
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    assert main(["data", "get", TREE, *(["--quiet"] if quiet else [])]) == 0
    shown = capsys.readouterr().err
    assert ("en_ewt-ud-dev.conllu, MB" in shown) is ("3/3" in shown) is not quiet


@pytest.mark.parametrize(
    ("ranges", "changed", "versions", "asked"),
    [
        (True, False, True, [0, 2_000_000]),
        (False, False, True, [0, 0]),
        (True, True, True, [0, 0]),
        (True, True, "weak", [0, 0]),
        (True, True, False, [0, 0]),
    ],
    ids=["goes on", "server begins again", "file has changed", "unknown if it has", "no versions"],
)
def test_a_connection_that_is_cut(publishers, tmp_path, monkeypatch, ranges, changed, versions, asked):
    path = big(publishers)
    publishers.cut[path], publishers.ranges, publishers.versions = 2_000_000, ranges, versions
    if changed:
        monkeypatch.setattr("textmover.readers.public_sets.fetching.ATTEMPTS", 1)
        with pytest.raises(InputError, match=r"the connection was cut\. Check the network and run the command again"):
            get(TREE)
        publishers.files[path] = publishers.files[path].replace(b"The", b"One")
    get(TREE)
    assert [start for _, start in publishers.asked] == asked
    assert (tmp_path / "sets/ud_ewt/en_ewt-ud-dev.conllu").read_bytes() == publishers.files[path]


def test_a_complete_part_is_taken(publishers, tmp_path):
    path = big(publishers)
    part = tmp_path / "sets/.downloads" / f"{path}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(publishers.files[path])
    get(TREE)
    assert (tmp_path / "sets/ud_ewt/en_ewt-ud-dev.conllu").read_bytes() == publishers.files[path]


def test_a_full_disk_is_one_sentence_and_the_download_goes_on(publishers, tmp_path, monkeypatch):
    path = big(publishers)

    def full(_, done, total):
        if done:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(
            "textmover.readers.public_sets.fetching.progress_bars", lambda **_: contextlib.nullcontext(full)
        )
        said = r"Expected space for en_ewt-ud-dev\.conllu in .*, but the disk is full: .*TEXTMOVER_DATA"
        with pytest.raises(InputError, match=said):
            get(TREE)
    get(TREE)
    assert publishers.asked[-1] == (path, 1_000_000)


def test_a_disk_that_is_full_while_the_table_is_written(small, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"able to write .*stsb_en\.tsv, but got: No space left on device"):
        get("stsb")
    assert not list((tmp_path / "sets/sts").iterdir())


# --- what is not as expected ------------------------------------------------------------------------------------------


def change(name, files):
    return lambda server: server.publish(named_sets()[name], files)


FAULTS = [
    ("rte", change("rte", {"RTE.zip": b"other"}),
     r"RTE\.zip to have the SHA-256 6bf86de103ecd335…, but got [0-9a-f]{16}…: .* It was removed; run .* again"),
    ("stsb", change("stsb", published.files_of("stsb")),
     r"Expected 8628 rows for stsb_en\.tsv, but got 3: https://\S+ has changed since 2026-11-25"),
    ("tatoeba", lambda server: None,
     r"the server answered 404 \(Not Found\): .* if the file has moved, put english_sentences/"),
]  # fmt: skip

LAYOUTS = [
    ("sick", {"SICK.zip": published.zipped(**{"SICK.txt": "id\tsentence_A\n1\tA\n"})},
     r"SICK\.zip!SICK\.txt to have a column \w+, but it has id, sentence_A"),
    ("sick", {"SICK.zip": published.zipped(other="")}, r"Expected SICK\.zip to hold SICK\.txt, but it does not"),
    ("paws-dev", {"paws_wiki_labeled_final.tar.gz": b"<html>moved</html>"},
     r"paws_wiki_labeled_final\.tar\.gz to be a zip or tar archive"),
    ("wmt15-da", {"DAseg-wmt-newstest2015/newstest2015.human.cs-en": b"0.5\n"},
     r"the same number of lines in each file, but got 2 in \S+source\.cs-en, .* 1 in \S+human\.cs-en"),
    ("tatoeba", {"tatoeba.afr-eng.eng": b"\xff\n"}, r"tatoeba\.afr-eng\.eng to be UTF-8, but got the byte 0xff"),
    ("wmt17-da", {"WMT17/DA-seglevel.csv": b"LP SYSTEM\ncs-en x\n"},
     r"the columns LP DATA SYSTEM SID HUMAN, but got 'cs-en x'"),
    ("wmt17-da", {"WMT17/DA-seglevel.csv": b"LP\ncs-en d online-A.0 9 1\n"},
     r"to have a line 9, but they are shorter"),
    ("bagel-sfhotel-sfrest", {published.TEXTS.format("BAGEL"): b"cos\nsystem\n(S'true'\ntR."},
     r"plain values in a pickle, but got os\.system"),
    ("bagel-sfhotel-sfrest",
     {published.MEDIANS: b"dataset,system,informativeness,naturalness,quality\nBAGEL,LOLS,1,1,1\n"},
     r"to hold the same ratings in the same order, but they differ"),
    ("wmt18-da", {"train.csv": b"lp,src,mt,ref,score,year\n"},
     r"Expected some rows for newstest2018_da_toen\.tsv, but got 0"),
    ("summeval", {"model_annotations.aligned.jsonl": b"{\n"},
     r"published files that can be read, but got: NotJsonError"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "happen", "message"), FAULTS)
def test_what_a_publisher_does_not_give(name, happen, message, publishers, tmp_path):
    happen(publishers)
    with pytest.raises(InputError, match=message):
        get(name)
    assert not [path for path in (tmp_path / "sets").rglob("*.*") if path.suffix in (".tsv", ".txt", ".zip")]


@pytest.mark.parametrize(("name", "files", "message"), LAYOUTS)
def test_a_changed_layout(name, files, message, small):
    one, _ = find_parts(name)
    small.publish(one, files)
    way_out = "https://.* has changed since 2026-11-25. Update textmover, or put"
    with pytest.raises(InputError, match=f"{message}.*: {way_out}"):
        get(name)
    small.publish(one, published.files_of(one.name))
    get(name)  # nothing of the changed files is left


def test_a_server_that_is_not_there(publishers, monkeypatch):
    monkeypatch.setenv("TEXTMOVER_DATA_MIRROR", "http://127.0.0.1:1")
    said = r"but got: .*Connection refused\. Check the network .*; without a network, put sts/stsb_en"
    with pytest.raises(InputError, match=said):
        get("stsb")


def test_a_table_that_differs_from_that_of_the_figures(publishers, monkeypatch):
    one = named_sets()["stsb"]
    changed = dataclasses.replace(one, parts={"": dataclasses.replace(one.parts[""], rows=3)})
    monkeypatch.setattr(catalogue, "named_sets", lambda: {"stsb": changed})
    publishers.publish(one, published.files_of("stsb"))
    assert "note: sts/stsb_en.tsv differs from the file that the published figures were computed on" in get("stsb")


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("data:stbs", r"Expected the name of a data set, but got 'stbs': did you mean stsb\? `textmover data list`"),
        ("data:", r"but got ''"),
        (
            "data:mnli",
            r"Expected one file of mnli, but got data:mnli, which has 2: choose from data:mnli-dev, data:mnli-train",
        ),
        ("data:mnli-tain", r"did you mean mnli-train\?"),
    ],
)
def test_a_name_that_is_none(path, message):
    with pytest.raises(InputError, match=message):
        located(path)


def test_readers_fetch_what_is_not_there(small, tmp_path, caplog):
    (segment, *_) = read_segments("data:wmt15-da", Columns(references=("reference",), groups=("lp",)))
    assert (segment.hypothesis, segment.references, segment.score) == ("The cat sit .", (published.A,), 0.5)
    assert "licence: published by WMT for research" in caplog.text
    assert read_texts("data:ud-ewt-sentences") == ["The cat sat."] * 3
    with pytest.raises(InputError, match="Expected the column of data:stsb that holds the texts"):
        read_texts("data:stsb")


def test_without_a_network_what_is_there_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXTMOVER_DATA", str(tmp_path))
    (tmp_path / "english_sentences").mkdir()
    (tmp_path / "english_sentences/tatoeba_laser_eng.txt").write_text("Hello.\n", encoding="utf-8")
    assert read_texts("data:tatoeba") == ["Hello."]
    with pytest.raises(InputError, match=r"HF_HUB_OFFLINE is set: unset it, or put sts/stsb_en\.tsv into "):
        located("data:stsb")


def test_the_folder_is_in_the_cache_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("TEXTMOVER_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert catalogue.place_of("data:stsb") == str(tmp_path / "textmover/data/sts/stsb_en.tsv")


def test_the_hub_is_asked_where_its_endpoint_is(monkeypatch):
    from textmover.readers.public_sets.fetching import address_of

    monkeypatch.delenv("TEXTMOVER_DATA_MIRROR", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org/")
    assert address_of("https://huggingface.co/datasets/a/b") == "https://hub.example.org/datasets/a/b"
    assert address_of("https://zenodo.org/a") == "https://zenodo.org/a"
