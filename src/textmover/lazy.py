"""Lazy imports: names and values are loaded at first use, so that importing a package stays fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a package.

    Args:
        package: Name of the package.
        names: Public names by the module that defines them.

    Returns:
        A function that returns the value of a name, and raises AttributeError for unknown names.

    Example:
        >>> names_of("package", {"math": ("pi", "sqrt")})("sqrt")(9)
        3.0
    """
    homes = {name: module for module, exported in names.items() for name in exported}

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
