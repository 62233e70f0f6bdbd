"""Convert the scorer network of RoMe's authors: ``python -m textmover.rome.convert FILE``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from textmover.rome.scorer.network import convert_official, official_file
from textmover.types import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert the file given on the command line, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m textmover.rome.convert",
        allow_abbrev=False,
        description="Converts the scorer network that RoMe's authors published (github.com/rashad101/RoMe), so that "
        'scorer="official" finds it. Nothing in the file is run.',
    )
    parser.add_argument("file", type=Path, help="their network, a file of torch.save, or its tensors as JSON")
    parser.add_argument("-o", "--output", type=Path, help=f"where to write (default: {official_file()})")
    options = parser.parse_args(arguments)
    try:
        written = convert_official(options.file, options.output)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    named = "official" if options.output is None else str(written)
    sys.stdout.write(f'Written to {written}. Use it: --scorer {named}, or scorer="{named}" in Python.\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
