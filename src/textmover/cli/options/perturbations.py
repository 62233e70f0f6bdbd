"""Options of commands that perturb texts: kinds, degrees, and resources."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence

from textmover.modules.tokens.text_flags import is_english
from textmover.perturbations.parsed_clauses import Parses
from textmover.perturbations.registry import KINDS, every_type, read_degrees, resolve_types
from textmover.perturbations.word_substitution import Neighbours
from textmover.types import InputError

logger = logging.getLogger(__name__)

NEEDED: Mapping[str, str] = {"parser": "--parser NAME", "neighbours": "--neighbours ENCODER"}
"""Flag by the resource that a type needs."""

FLAGS: Mapping[str, str] = {
    **{name: f"--{name}" for name in ("column", "types", "degrees")},
    "parses": NEEDED["parser"],
    "neighbours": NEEDED["neighbours"],
    "encoder": "--neighbours",
}
"""Flag by the argument that an error may name."""


def warn_of_other_languages(texts: Sequence[str]) -> None:
    """Warn if texts are not English, since the rules of perturbations are written for English."""
    if not is_english(texts):
        logger.warning(
            "Some texts do not look English: the rules are for English, and may not do what their type says."
        )


def chosen_types(
    options: argparse.Namespace, needed: Mapping[str, str] = NEEDED
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return the chosen types with their degrees, and the types excluded because their resource is missing."""
    available = {"": True, "parser": options.parser is not None, "neighbours": options.neighbours is not None}
    excluded = [name for name, kind in KINDS.items() if not available[kind.needs]]
    degrees = read_degrees(options.degrees)
    if options.types is None:
        return every_type(degrees, without=excluded), excluded
    types = resolve_types([name for entry in options.types for name in entry.split(",") if name], degrees)
    if not types:
        raise InputError("Expected `types` to name something, but got none: see `textmover perturb --list`.")
    if name := next((one for one in types if one in excluded), None):
        raise InputError(
            f"Expected {needed[KINDS[name].needs]} for type {name}, but got none: give it, or leave the type out."
        )
    return types, []


def left_out_types(names: Sequence[str], needed: Mapping[str, str] = NEEDED) -> list[str]:
    """Return messages about excluded types, with the flag that each needs.

    Example:
        >>> left_out_types(["passive", "active"])
        ['Left out: passive and active (give --parser NAME)']
    """
    by_flag = {flag: [name for name in names if KINDS[name].needs == need] for need, flag in needed.items()}
    return [f"Left out: {' and '.join(types)} (give {flag})" for flag, types in by_flag.items() if types]


def load_resources(options: argparse.Namespace) -> tuple[Parses | None, Neighbours | None]:
    """Load the parser and the word neighbours that the options name; ``None`` for those not named."""
    parses = neighbours = None
    if options.parser is not None:
        from textmover.rome.parsers.pipelines import load_parser

        parses = Parses(load_parser(options.parser))
    if options.neighbours is not None:
        from textmover.modules.word_neighbours import load_neighbours

        neighbours = load_neighbours(options.neighbours)
    return parses, neighbours
