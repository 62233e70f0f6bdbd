"""Names that are loaded where they are first used."""

import importlib

import pytest

from textmover.lazy import names_of


@pytest.mark.parametrize("package", ["modules", "rome", "types", "data", "training", None])
def test_every_public_name_is_there(package):
    module = importlib.import_module("textmover" if package is None else f"textmover.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_another_name_is_refused_as_python_does(tmp_path):
    file = tmp_path / "__init__.py"
    file.write_text("if TYPE_CHECKING:\n    from math import (\n        sqrt,\n    )\n")
    load = names_of("package", str(file))
    assert load("sqrt")(16) == 4
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'cbrt'"):
        load("cbrt")
