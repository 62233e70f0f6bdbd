"""``textmover data``: public data sets by name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from textmover.readers.named.fetching import get_sets, listing
from textmover.terminal import print_table
from textmover.types import InputError


def run(options: argparse.Namespace) -> None:
    """List the sets, or fetch some."""
    if (options.action == "get") != bool(options.names):
        raise InputError("Expected `data list` alone or `data get` with names, as in `textmover data get stsb`.")
    if options.action == "list":
        sets = listing()
        print_table(tuple(sets[0]), [tuple(one.values()) for one in sets], narrow=("name", "here"))
        return
    folder = None if options.folder is None else Path(options.folder).expanduser()
    get_sets(options.names, folder, lambda line: sys.stdout.write(f"{line}\n") and sys.stdout.flush())
