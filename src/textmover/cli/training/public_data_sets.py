"""``textmover data``: list or download public data sets."""

from __future__ import annotations

import argparse
import json
import sys

from textmover.readers.public_sets.fetching import get_sets, listing
from textmover.safe_reading import expanded
from textmover.terminal import print_table
from textmover.types import InputError

COLUMNS = ("name", "parts", "here", "about")


def run(options: argparse.Namespace) -> None:
    """List the data sets, or download the named ones."""
    if (options.action == "get") != bool(options.names):
        raise InputError("Expected `data list` alone or `data get` with names, as in `textmover data get stsb`.")
    if options.action == "list":
        sets = listing()
        if options.format == "json":
            sys.stdout.write(json.dumps(sets, indent=2, ensure_ascii=False) + "\n")
            return
        print_table(COLUMNS, [tuple(one[name] for name in COLUMNS) for one in sets], narrow=("name",), fold=True)
        sys.stdout.write("\nGet a part as NAME-PART, such as cola-train. Licences: --format json.\n")
        return
    folder = None if options.folder is None else expanded(options.folder)
    get_sets(options.names, folder, lambda line: sys.stdout.write(f"{line}\n") and sys.stdout.flush())
