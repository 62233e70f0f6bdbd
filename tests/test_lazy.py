"""Names that are loaded where they are first used."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["textmover", "textmover.data", "textmover.training"])
def test_every_public_name_is_there(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


PACKAGE = """
from typing import TYPE_CHECKING
from textmover.lazy import names_of
if TYPE_CHECKING:
    from math import sqrt
__getattr__ = names_of(__name__)
"""


def test_another_name_is_refused_as_python_does(tmp_path, monkeypatch):
    (tmp_path / "lazy_roots.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    roots = importlib.import_module("lazy_roots")
    assert "sqrt" not in vars(roots)
    assert roots.sqrt(16) == 4
    with pytest.raises(AttributeError, match="module 'lazy_roots' has no attribute 'cbrt'"):
        roots.cbrt  # noqa: B018
