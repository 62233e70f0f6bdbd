"""What the tests of back-ends share."""

import pytest

from textmover.scoring import precision_and_backend


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process warns of each fault of a back-end once; here, each test is a process."""
    monkeypatch.setattr(precision_and_backend, "_LOGGED", set())


@pytest.fixture
def broken_package(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Puts a package that is installed but cannot be imported in the place of a real one."""
    import importlib
    import sys

    def broken(name: str, error: str = "ImportError('libcore.so.9: cannot open shared object file')"):
        folder = tmp_path / "broken" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"raise {error}\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(folder.parent)
        importlib.invalidate_caches()
        return folder.parent

    return broken
