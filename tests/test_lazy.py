"""Names that are loaded where they are first used."""

import importlib

import pytest

from textmover.lazy import names_of


@pytest.mark.parametrize("package", ["textmover", "textmover.data", "textmover.training"])
def test_every_public_name_is_there(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_another_name_is_refused_as_python_does():
    load = names_of("package", {"math": ["sqrt"]})
    assert load("sqrt")(16) == 4
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'cbrt'"):
        load("cbrt")
