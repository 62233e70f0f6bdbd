"""What `--cache` keeps is read again, shown, and removed on request."""

import json
import os
import re
import shutil

import pytest
import torch

TEXTS = {"h.txt": ["the small dog ran", "tea", "go home"], "r.txt": ["a little dog runs home", "cold water", "go home"]}


@pytest.fixture
def base(write, tiny_encoder):
    for name, lines in TEXTS.items():
        write(name, lines)
    return ("-i", "h.txt", "r.txt", "--encoder", str(tiny_encoder), "--device", "cpu", "--cache", "states")


@pytest.fixture(autouse=True)
def flushed(monkeypatch):
    """Writes at once, where the end of the process would do it."""
    monkeypatch.setattr("textmover.scoring.cache.state_files.SHARD", 0)


def listed(run) -> list[dict]:
    ended = run("cache", "states", "--format", "json").silent()
    return json.loads(ended.out)


def test_scores_are_the_same_and_texts_are_kept(run, base):
    plain = run("score", *base[:-2])
    first, second = run("score", *base), run("score", *base)
    assert first.code == second.code == 0
    values = [[float(line) for line in one.out.split()] for one in (plain, first, second)]
    assert values[1] == pytest.approx(values[0], abs=1e-6)
    assert values[2] == pytest.approx(values[0], abs=1e-6)
    (place,) = listed(run)
    assert place["texts"] == 5  # "go home" stands on both sides
    assert (place["encoder"], place["backend"], place["device"]) == ("bert", "torch", "cpu")
    assert place["versions"].startswith(f"torch {torch.__version__}, transformers ")
    run("score", *base, "--layer", "1")
    assert sorted(one["texts"] for one in listed(run)) == [5, 5]


def test_the_table_and_clearing(run, base, tmp_path):
    run("score", *base)
    shown = run("cache", "states")
    assert shown.out.split()[:4] == ["encoder", "weights", "layers", "back-end"]
    (record,) = (tmp_path / "states").rglob("identity.json")
    for damage in ("", "{", '["a"]', '{"type": "bert"}'):
        record.write_text(damage)
        (place,) = listed(run)
        assert place["weights"] == "?"
    ended = run("cache", "states", "--clear").silent()
    assert re.fullmatch(r"Removed 0\.\d MB from states\n", ended.out)
    assert run("cache", "states").out == "states holds nothing\n"
    assert json.loads(run("cache", "states", "--clear", "--format", "json").out) == {"removed_mb": 0.0}
    assert not record.parent.exists()


def test_clearing_removes_what_any_version_kept_and_nothing_else(run, base, tmp_path):
    run("score", *base)
    states = tmp_path / "states"
    ours = ("v3", "v1", "v2", "v14")
    for name in ours[1:]:
        shutil.copytree(states / "v3", states / name)
    (place,) = (states / "v2").iterdir()
    (place / ".0123456789abcdef.safetensors.a_b1c2d3").write_bytes(bytes(2_000_000))
    (states / "v14" / place.name / "identity.json").unlink()
    others = {
        "v1/notes.txt", f"v2/{place.name}/mine.safetensors", f"v2/{place.name}/.hidden", "v2/other/identity.json",
        "v5/0123456789abcdef.safetensors", f"videos/{place.name}/identity.json", "notes.txt",
    }  # fmt: skip
    for name in others:
        (states / name).parent.mkdir(parents=True, exist_ok=True)
        (states / name).write_text("mine")
    shown = run("cache", "states")
    assert [line.split()[0] for line in shown.err.splitlines()] == [f"states/{name}" for name in ("v1", "v14", "v2")]
    assert "was written by another version of textmover: --clear removes it with the others" in shown.err
    ended = run("cache", "states", "--clear").silent()
    assert float(re.fullmatch(r"Removed (\d\.\d) MB from states\n", ended.out)[1]) >= 2.0
    assert {path.relative_to(states).as_posix() for path in states.rglob("*") if path.is_file()} == others
    assert not (states / "v3").exists()
    assert not (states / "v14").exists()
    assert run("cache", "states") == (0, "states holds nothing\n", "")


def test_states_of_other_versions_count_in_the_limit_and_go_first(run, base, tmp_path):
    run("score", *base)
    states = tmp_path / "states"
    size = sum(one.stat().st_size for one in states.rglob("*.safetensors"))
    shutil.copytree(states / "v3", states / "v2")
    for path in (states / "v3").rglob("*.safetensors"):
        os.utime(path, (1, 1))  # the longest unused
    (states / "v2" / "notes.txt").write_text("mine")
    told = run("score", *base, "--cache-limit", 2.5 * size / 2**30, "--layer", "1")  # room for two of the three
    assert (
        "v2 was written by another version of textmover and is ignored: it is removed when space is needed, or"
        in told.err
    )
    assert sorted(one["texts"] for one in listed(run)) == [5, 5]
    assert [path.name for path in (states / "v2").rglob("*")] == ["notes.txt"]
    assert "another version" not in run("score", *base).err
    assert run("score", *base, "--cache-limit", "1e-6", "--layer", "2").code == 0  # a thousand bytes
    assert {one["layers"]: one["texts"] for one in listed(run)}["2"] == 5
    assert sum(one["texts"] for one in listed(run)) == 5
