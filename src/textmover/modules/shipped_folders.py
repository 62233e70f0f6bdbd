"""Folders of what the project itself has trained, metrics and parts of metrics, by their names."""

from __future__ import annotations

from pathlib import Path

INSTALLED = Path(__file__).parents[1] / "released"  # folder of an installed package, filled by the build

REPOSITORY = Path(__file__).parents[3] / "checkpoints"
"""Folder of the repository, for a package that runs from it."""


def released_folders(marker: str) -> dict[str, Path]:
    """Folders that hold a file of a given name; of two with the same name, the one that came with the package."""
    found: dict[str, Path] = {}
    for place in (INSTALLED, REPOSITORY):
        for path in sorted(place.glob(f"*/{marker}")):
            found.setdefault(path.parent.name, path.parent)
    return found
