"""Small tables for the tests, and what data modules read of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textmover.data.datamodule import SourcesDataModule
from textmover.data.split import normalise_reference


def write_table(path: Path, header: str, rows: Iterable[str]) -> str:
    """Write lines under a header; returns the path as recipes name it."""
    path.write_text("".join(f"{line}\n" for line in (header, *rows)), encoding="utf-8")
    return str(path)


def source_of(data: SourcesDataModule) -> Any:
    """The only source of a data module."""
    data.setup()
    (source,) = data.sources.values()
    return source


def all_items(source: Any) -> list[Any]:
    """Items to train on, and those that are held back."""
    return [*source.items, *source.parts["held-back"]]


def texts_of(items: Iterable[Any]) -> set[str]:
    return {normalise_reference(text) for item in items for text in item.texts}
