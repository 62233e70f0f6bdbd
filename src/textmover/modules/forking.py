"""Forked processes: a child has none of its parent's threads, so locks and what computes in threads are renewed."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Protocol


class _Renewed(Protocol):
    def forked(self) -> None:
        """Go on in a forked child."""


_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is free in forked children, whichever thread of the parent held it."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def renew_in_child(owner: _Renewed) -> None:
    """Call ``owner.forked()`` in forked children."""
    _OWNERS.add(owner)


def keep_for_ever(*held: object) -> None:
    """Never free objects: in a forked child, their ends would wait for threads of the parent."""
    for one in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _renew() -> None:
    for lock in _LOCKS:
        lock._at_fork_reinit()
    for owner in list(_OWNERS):
        owner.forked()


if hasattr(os, "register_at_fork"):  # everywhere but on Windows
    os.register_at_fork(after_in_child=_renew)
