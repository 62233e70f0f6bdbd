"""``textmover cache``: show or clear the texts that `--cache FOLDER` has stored."""

from __future__ import annotations

import argparse
import json
import logging
import sys

from textmover.safe_reading import expanded
from textmover.scoring.cache.state_files import CacheEntry, other_versions, places, remove
from textmover.terminal import print_table
from textmover.types import InputError

logger = logging.getLogger(__name__)

HEADERS = ("encoder", "weights", "layers", "back-end", "precision", "device", "versions", "texts", "MB")


def run(options: argparse.Namespace) -> None:
    """Print the contents of a cache folder, or remove them with ``--clear``."""
    folder = expanded(options.folder)
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder of cached texts at {folder}, but it does not exist: give the folder that --cache named."
        )
    if options.clear:
        removed = round(remove(folder) / 1e6, 1)
        as_json = options.format == "json"
        message = json.dumps({"removed_mb": removed}) if as_json else f"Removed {removed} MB from {folder}"
        sys.stdout.write(f"{message}\n")
        return
    cached = places(folder)
    for other in other_versions(folder):
        logger.warning("%s was written by another version of textmover: --clear removes it with the others.", other)
    if options.format == "json":
        sys.stdout.write(json.dumps([_entry(one) for one in cached], indent=2) + "\n")
    elif cached:
        print_table(HEADERS, [tuple(map(str, _entry(one).values())) for one in cached], numbers=HEADERS[-2:])
    else:
        sys.stdout.write(f"{folder} holds nothing\n")


def _entry(place: CacheEntry) -> dict[str, str | int | float]:
    identity = place.identity
    return {
        "encoder": identity["type"],
        "weights": identity["weights"][:8],
        **{name: identity[name] for name in ("layers", "backend", "precision", "device", "versions")},
        "texts": place.texts,
        "mb": round(place.nbytes / 1e6, 1),
    }
