"""Errors of commands: flags in the place of arguments, and argparse's messages in the words of all others."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping

from textmover.types import InputError

COLUMN_OPTIONS = ("hypothesis_column", "reference_column", "source_column", "score_column", "split")
"""Options that only a table has a use for."""

COLUMN_FLAGS = {
    "hypothesis": "--hypothesis-column",
    "references": "--reference-column",
    "source": "--source-column",
    "score": "--score-column",
    "groups": "--group",
    "annotator": "--annotator-column",
    "missing_references": "--missing-references",
    "keep": "--keep-columns",
}
"""The flag behind each field of :class:`~textmover.readers.segments.Columns`."""


@contextlib.contextmanager
def flags_named(flags: Mapping[str, str] = COLUMN_FLAGS) -> Iterator[None]:
    """Name the flag in errors that name a field of the columns, or another argument that stands behind a flag."""
    try:
        yield
    except InputError as error:
        said = re.sub(r"`([^`]+)`", lambda name: f"`{flags.get(name[1], name[1])}`", str(error))
        if said == str(error):
            raise
        raise InputError(said) from error


ARGPARSE = {
    r"the following arguments are required: (.*)": "Expected {0}, but got none",
    r"one of the arguments (.*) is required": "Expected one of {0}, but got none",
    r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)": "Expected {0} to be one of {2}, but got {1}",
    r"argument (\S+): invalid int value: '(.*)'": "Expected {0} to be a whole number, but got {1}",
    r"argument (\S+): invalid float value: '(.*)'": "Expected {0} to be a number, but got {1}",
    r"argument (\S+): expected (?:one|at least one) argument": "Expected a value after {0}, but got none",
    r"argument (\S+): expected (\d+) arguments": "Expected {1} values after {0}, but got another number of them",
    r"argument (\S+): expected (.*)": "Expected {0} to be {1}",
    r"argument (\S+): not allowed with argument (\S+)": "Expected {1} or {0}, but got both: leave one out",
    r"argument (\S+): ignored explicit argument '(.*)'": "Expected {0} without a value, but got {1}",
    r'expected "subcommand" to be one of .*': "Expected a recipe, as in `textmover train --config FILE`, but got none",
    r"unrecognized arguments: ([^-].*)": "Expected a recipe after --config, but got {0} without it",
    r"unrecognized arguments: (.*)": "Expected known options, but got {0}",
    r"ambiguous option: (\S+) could match (.*)": "Expected the whole name of an option, but got {0}: it may be {1}",
}
"""Sentences by what argparse says instead."""


def reworded(message: str) -> str:
    """Say what argparse says as the other errors do.

    Example:
        >>> reworded("argument --samples: invalid int value: 'many'")
        'Expected --samples to be a whole number, but got many'
        >>> reworded("argument ACTION: invalid choice: 'gett' (choose from 'list', 'get')")
        'Expected ACTION to be one of list, get, but got gett: did you mean get?'
    """
    for pattern, sentence in ARGPARSE.items():
        if found := re.fullmatch(pattern, message):
            listed = (one.replace("'", "") if "choose from" in pattern else one for one in found.groups())
            words = [re.sub(r" (?=-)", ", ", one) if "one of the" in pattern else one for one in listed]
            near = difflib.get_close_matches(words[1], words[2].split(", "), 1) if "choose from" in pattern else ()
            return sentence.format(*words) + "".join(f": did you mean {one}?" for one in near)
    return message


def files_of(options: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files of hypotheses and of references, behind -i or behind --hypotheses and --references; none with a table."""
    if options.references is not None and options.hypotheses is None:
        raise InputError("Expected `--references` together with --hypotheses, but got it alone: name the hypotheses.")
    if options.input is None:
        return tuple(options.hypotheses or ()), tuple(options.references or ())
    if len(options.input) < 2 and options.sources is None:
        raise InputError(
            f"Expected hypotheses and references after -i, but got {options.input[0]} alone: add a second file."
        )
    return (options.input[0],), tuple(options.input[1:])


def references_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Columns of references, each once."""
    default = [] if getattr(options, "field.mode", None) == "source" else ["reference"]
    return tuple(dict.fromkeys(options.reference_column or default))


def source_column(options: argparse.Namespace) -> str | None:
    """Column of sources, which a mode that reads them has without an option."""
    read = getattr(options, "field.mode", "reference") != "reference" or getattr(options, "field.fallback", False)
    return getattr(options, "source_column", None) or ("source" if read else None)
