"""Data: readers, splits, perturbations and the Lightning data module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textmover.data.datamodule import RatingsDataModule
    from textmover.data.readers import Columns, read_lines, read_segments

__all__ = ["Columns", "RatingsDataModule", "read_lines", "read_segments"]

_HOMES = {
    "Columns": "textmover.data.readers",
    "RatingsDataModule": "textmover.data.datamodule",
    "read_lines": "textmover.data.readers",
    "read_segments": "textmover.data.readers",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: reading a file should not wait for Lightning."""
    if name not in _HOMES:
        raise AttributeError(f"module 'textmover.data' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
