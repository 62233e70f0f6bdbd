"""Lazy imports: names and values are loaded at first use, so that importing a package stays fast."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def names_of(package: str, file: str) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a package: it imports the names that the file imports ``if TYPE_CHECKING``.

    Args:
        package: Name of the package.
        file: Path of its ``__init__.py``.

    Returns:
        A function that returns the value of a name, and raises AttributeError for unknown names.
    """
    conditional = [node for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    imports = [node for block in conditional for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {one.name: str(node.module) for node in imports for one in node.names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load


class Loaded(Mapping[str, Any]):
    """Mapping whose values are imported at first use.

    Args:
        homes: Dotted path of each value, module and name, by key.

    Example:
        >>> roots = Loaded({"root": "math.sqrt"})
        >>> list(roots), roots["root"](9)
        (['root'], 3.0)
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, key: str) -> Any:
        module, _, name = self._homes[key].rpartition(".")
        return getattr(import_module(module), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
