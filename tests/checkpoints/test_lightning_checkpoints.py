"""Checkpoints of runs are written with a checksum, and read when it is right."""

import os
import random
import signal
from pathlib import Path

import pytest
import torch

from textmover.checkpoints.lightning_checkpoints import (
    checksum_of,
    metric_entry,
    read_run_checkpoint,
    write_run_checkpoint,
)
from textmover.types import InputError

CONTENT = {"state_dict": {"weight": torch.arange(600.0).reshape(20, 30)}, "textmover": {"start": "twmd", "config": {}}}


@pytest.fixture(params=["checksum", "without"])
def written(request, tmp_path: Path) -> Path:
    """A checkpoint of this version, and one as earlier versions wrote it."""
    path = tmp_path / "run.ckpt"
    if request.param == "checksum":
        write_run_checkpoint(CONTENT, path)
    else:
        torch.save(CONTENT, path)
    assert (checksum_of(path) is None) == (request.param == "without")
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_written_is_read(written, mmap):
    found = read_run_checkpoint(written, mmap=mmap)
    assert torch.equal(found["state_dict"]["weight"], CONTENT["state_dict"]["weight"])
    assert metric_entry(found, "it") == CONTENT["textmover"]
    assert [one.name for one in written.parent.iterdir()] == ["run.ckpt"]


def test_torch_and_other_programs_read_it_too(tmp_path):
    write_run_checkpoint(CONTENT, tmp_path / "run.ckpt")
    assert torch.load(tmp_path / "run.ckpt", weights_only=True).keys() == CONTENT.keys()


def test_what_a_killed_run_left_goes_with_the_next_one(tmp_path, killed, monkeypatch):
    def dies(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", dies)
        killed(lambda: write_run_checkpoint(CONTENT, tmp_path / "epoch=1.ckpt"))
    assert list(tmp_path.iterdir())
    monkeypatch.setattr("textmover.files._cleaned", set())
    write_run_checkpoint(CONTENT, tmp_path / "epoch=2.ckpt")
    assert [one.name for one in tmp_path.iterdir()] == ["epoch=2.ckpt"]


def test_no_flipped_bit_changes_a_weight(written):
    """Bits of names and padding may not matter; one of a weight always does."""
    whole, rng, refused = written.read_bytes(), random.Random(0), 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        written.write_bytes(damaged)
        try:
            found = read_run_checkpoint(written)
        except InputError:
            refused += 1
        else:
            assert torch.equal(found["state_dict"]["weight"], CONTENT["state_dict"]["weight"])
    assert refused > 75


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://example.org/run.ckpt", "but only local files are read: download it first"),
        ("file:///a%20b/run.ckpt", "but only paths are read: give /a b/run.ckpt"),
        ("file:/a/run.ckpt", "but only paths are read: give /a/run.ckpt"),
        ("run.ckpt", "but there is no such file"),
    ],
)
def test_an_address_is_refused_with_its_way_out(address, reason):
    with pytest.raises(InputError, match=rf"Expected {address} .* {reason}\.$"):
        read_run_checkpoint(address)


def test_damage_is_told(written):
    damaged = bytearray(written.read_bytes())
    damaged[damaged.index(torch.tensor(300.0).numpy().tobytes())] ^= 64
    written.write_bytes(damaged)
    with pytest.raises(InputError, match=r"run\.ckpt .* damaged"):
        read_run_checkpoint(written)


def test_a_resumed_run_needs_what_lightning_goes_on_from(written):
    with pytest.raises(InputError, match="has no `pytorch-lightning_version`"):
        read_run_checkpoint(written, resume=True)


def test_a_checkpoint_without_its_metric():
    with pytest.raises(InputError, match=r"x\.ckpt to be a checkpoint of `textmover train`"):
        metric_entry({"state_dict": {}}, "x.ckpt")
