"""What the tests of back-ends share."""

import importlib
import sys

import pytest

from textmover.scoring import precision_and_backend
from textmover.scoring.backends import openvino, preparation
from textmover.scoring.backends.preparation import set_backend


@pytest.fixture(scope="module", autouse=True)
def compiled_once():
    """A graph that several tests of a file run stays compiled from one to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "_RUNNERS", {})
        yield


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process warns of each fault of a back-end once; here, each test is a process."""
    monkeypatch.setattr(precision_and_backend, "_LOGGED", set())


@pytest.fixture
def broken_package(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Puts a package that is installed but cannot be imported in the place of a real one."""

    def broken(name: str, error: str = "ImportError('libcore.so.9: cannot open shared object file')"):
        folder = tmp_path / "broken" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"raise {error}\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(folder.parent)
        importlib.invalidate_caches()
        return folder.parent

    return broken


@pytest.fixture
def converted(tiny_metric, real_backends, monkeypatch):
    """OpenVINO converts the tiny encoder once; from now on, it reads what it has converted, which takes no seconds."""
    package = pytest.importorskip("openvino")
    metric = tiny_metric()
    set_backend(metric, "openvino", "exact")
    graph = metric.encoder.runner.folder / openvino.MODEL
    monkeypatch.setattr(openvino, "export_graph", lambda *_, **__: graph)
    monkeypatch.setattr(package, "convert_model", package.Core().read_model)
