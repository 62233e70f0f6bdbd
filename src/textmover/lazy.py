"""Names and values that are loaded where they are first used, so that importing a package stays fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a package.

    Args:
        package: Its name.
        names: Module → the public names that it holds.

    Returns:
        A function from a name to what it stands for, which raises AttributeError where there is no such name.

    Example:
        >>> names_of("package", {"math": ("pi", "sqrt")})("sqrt")(9)
        3.0
    """
    homes = {name: module for module, several in names.items() for name in several}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load


class Loaded(Mapping[str, Any]):
    """Values that are imported where they are first looked up.

    Args:
        homes: Key → module and name of its value, with a dot between.

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
