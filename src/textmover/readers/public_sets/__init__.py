"""Public data sets by name: where they are published, how they are fetched, and the tables that recipes read."""

from __future__ import annotations

from pathlib import Path

from textmover.readers.public_sets.catalogue import find_file, place_of


def located(path: str | Path) -> str:
    """Path of the file that ``data:NAME`` stands for, fetched if it is not there; any other path as it is."""
    place = place_of(path)
    if place != str(path) and not Path(place).exists():
        from textmover.readers.public_sets.fetching import fetch_for_recipe

        fetch_for_recipe(*find_file(str(path)))
    return place
