"""Folders of the checkpoints that the project releases."""

from __future__ import annotations

from pathlib import Path

INSTALLED = Path(__file__).parents[1] / "released"  # folder in an installed package, filled by the build

REPOSITORY = Path(__file__).parents[3] / "checkpoints"
"""Folder in the repository, for a package that runs from it."""


def released_folders(marker: str) -> dict[str, Path]:
    """Return the folders that contain the file ``marker``, by name; the installed package takes precedence."""
    folders: dict[str, Path] = {}
    for place in (INSTALLED, REPOSITORY):
        for path in sorted(place.glob(f"*/{marker}")):
            folders.setdefault(path.parent.name, path.parent)
    return folders
