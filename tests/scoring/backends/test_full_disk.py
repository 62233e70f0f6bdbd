"""A disk without room for a graph is said, and the graph is made in a temporary folder."""

import contextlib
import errno
import tempfile
from pathlib import Path
from types import SimpleNamespace

import onnx
import openvino
import pytest
import torch

from textmover.modules.score_deviation import probe_scores
from textmover.scoring.backends import openvino as runner
from textmover.scoring.backends.artefacts import cache_folder
from textmover.scoring.precision_and_backend import apply_precision


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch):
    """Makes a folder, and all that is in it, one on a full disk."""
    temporary = tempfile.TemporaryFile

    def fill(folder: Path):
        def opened(*given, dir=None, **how):
            if dir is not None and Path(dir).is_relative_to(folder):
                return open("/dev/full", "wb", buffering=0)
            return temporary(*given, dir=dir, **how)

        monkeypatch.setattr(tempfile, "TemporaryFile", opened)

    return fill


@pytest.fixture
def cache(converted, full, tmp_path, monkeypatch):
    """The cache of back-ends, on a full disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache_folder()
    full(folder)

    def refuse(package, name, error):
        save = getattr(package, name)

        def refused(model, path, *rest, **options):
            if Path(path).is_relative_to(folder):
                raise error
            return save(model, path, *rest, **options)

        monkeypatch.setattr(package, name, refused)

    # As OpenVINO does, which has removed what it has written.
    refuse(openvino, "save_model", RuntimeError("basic_ios::clear: iostream error"))
    refuse(onnx, "save", OSError(errno.ENOSPC, "No space left on device"))
    return folder


@pytest.mark.parametrize(
    "asked",
    ["openvino", *(pytest.param(one, marks=pytest.mark.long) for one in ("onnxruntime", "auto"))],
)
def test_a_full_cache_is_said_and_does_without(tiny_metric, cache, monkeypatch, logged, asked):
    if asked == "auto":
        monkeypatch.setattr("textmover.scoring.backends.names.installed", lambda: ("torch", "openvino"))
    metric = tiny_metric()
    expected = probe_scores(metric)
    apply_precision(metric, "exact", asked)
    _, kept = logged()
    assert kept.startswith(str(cache))
    assert "cannot be kept, so it will be made again in each process" in kept
    assert "but got: No space left on device." in kept
    assert metric.encoder.runner.folder.is_relative_to(tempfile.gettempdir())
    assert not metric.encoder.runner.folder.is_relative_to(cache)
    torch.testing.assert_close(probe_scores(metric), expected)


def operation(kind, size=None):
    return SimpleNamespace(get_type_name=lambda: kind, get_byte_size=lambda: size)


MODEL = SimpleNamespace(get_ops=lambda: [operation("Constant", 1 << 21), operation("Constant", 5), operation("Add")])
"""A graph of two weights."""


def unsaved(*_, **__):
    """OpenVINO fails to write whatever it is given."""
    raise RuntimeError("basic_ios::clear: iostream error")


def test_what_the_system_refuses_is_what_is_said(full, monkeypatch, tmp_path):
    monkeypatch.setattr(openvino, "save_model", unsaved)
    full(tmp_path)
    with pytest.raises(OSError, match="No space left on device") as caught:
        runner._save(MODEL, tmp_path)
    assert caught.value.errno == errno.ENOSPC


def test_as_many_bytes_are_tried_as_the_graph_takes(monkeypatch, tmp_path):
    """Where they find room, OpenVINO's own words stay, and nothing is left behind."""
    monkeypatch.setattr(openvino, "save_model", unsaved)
    with pytest.raises(RuntimeError, match="iostream error"):
        runner._save(MODEL, tmp_path)
    assert not list(tmp_path.iterdir())
    written = []
    counted = SimpleNamespace(write=lambda piece: written.append(len(piece)) or len(piece))
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: contextlib.nullcontext(counted))
    with pytest.raises(RuntimeError, match="iostream error"):
        runner._save(MODEL, tmp_path)
    assert sum(written) == (1 << 21) + 5 + 3 * runner.OPERATION
