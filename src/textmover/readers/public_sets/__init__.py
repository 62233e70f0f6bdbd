"""Public data sets by name: addresses, downloads, and conversion to the tables that recipes read."""

from __future__ import annotations

from pathlib import Path

from textmover.readers.public_sets.catalogue import find_file, place_of


def located(path: str | Path) -> str:
    """Return the local path of a ``data:NAME`` file, downloading it if needed; other paths are returned unchanged."""
    place = place_of(path)
    if place != str(path) and not Path(place).exists():
        from textmover.readers.public_sets.fetching import fetch_for_recipe

        fetch_for_recipe(*find_file(str(path)))
    return place
