"""Options of commands that perturb texts: kinds, degrees, and resources."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence

from textmover.perturbations.clauses import Parses
from textmover.perturbations.kinds import KINDS, every_type, read_degrees, resolve_types
from textmover.perturbations.words import Neighbours
from textmover.types import InputError

logger = logging.getLogger(__name__)

NEEDED: Mapping[str, str] = {"parser": "--parser NAME", "neighbours": "--neighbours ENCODER"}
"""The flag that gives what a kind of change needs."""

FLAGS: Mapping[str, str] = {
    **{name: f"--{name}" for name in ("column", "types", "degrees")},
    "parses": NEEDED["parser"],
    "neighbours": NEEDED["neighbours"],
    "encoder": "--neighbours",
}
"""The flag behind each argument that an error may name."""


def warn_of_other_languages(texts: Sequence[str]) -> None:
    """Warn where texts are not English, for which the rules of changes are written."""
    from textmover.modules.tokens.reliability_flags import is_english  # which brings torch along

    if not is_english(texts):
        logger.warning(
            "Some texts do not look English: the rules are for English, and may not do what their type says."
        )


def chosen_types(
    options: argparse.Namespace, needed: Mapping[str, str] = NEEDED
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The wanted types with their degrees, and those that are left out since something is not given for them."""
    given = {"": True, "parser": options.parser is not None, "neighbours": options.neighbours is not None}
    lacking = [name for name, kind in KINDS.items() if not given[kind.needs]]
    degrees = read_degrees(options.degrees)
    if options.types is None:
        return every_type(degrees, without=lacking), lacking
    types = resolve_types([name for entry in options.types for name in entry.split(",") if name], degrees)
    if not types:
        raise InputError("Expected `types` to name something, but got none: see `textmover perturb --list`.")
    if name := next((one for one in types if one in lacking), None):
        raise InputError(
            f"Expected {needed[KINDS[name].needs]} for type {name}, but got none: give it, or leave the type out."
        )
    return types, []


def left_out_types(names: Sequence[str], needed: Mapping[str, str] = NEEDED) -> list[str]:
    """Sentences on types that were left out, with the flag that each needs.

    Example:
        >>> left_out_types(["passive", "active"])
        ['Left out: passive and active (give --parser NAME)']
    """
    lacking = {flag: [name for name in names if KINDS[name].needs == need] for need, flag in needed.items()}
    return [f"Left out: {' and '.join(several)} (give {flag})" for flag, several in lacking.items() if several]


def load_resources(options: argparse.Namespace) -> tuple[Parses | None, Neighbours | None]:
    """Load the parser and the search for neighbours in the embedding space that the options name, if any."""
    parses = neighbours = None
    if options.parser is not None:
        from textmover.rome.parsers.pipelines import load_parser

        parses = Parses(load_parser(options.parser))
    if options.neighbours is not None:
        from textmover.modules.word_neighbours import load_neighbours

        neighbours = load_neighbours(options.neighbours)
    return parses, neighbours
