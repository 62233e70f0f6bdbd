"""Lazy imports, so that importing a package stays fast, and locks of what is loaded at first use."""

from __future__ import annotations

import ast
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is released in forked children, even if a thread of the parent held it."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def reset_after_fork(owner: Any) -> None:
    """Call ``owner.forked()`` in forked children."""
    _OWNERS.add(owner)


def _renew() -> None:
    gc.freeze()  # keep the parent's garbage: destructors of its OpenVINO objects wait for the parent's threads
    for lock in _LOCKS:
        lock._at_fork_reinit()
    for owner in list(_OWNERS):
        owner.forked()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew)


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
