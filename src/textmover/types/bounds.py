"""Bounds of numbers (fields of configurations, encoders, options of commands, files), and choices that rooms share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Literal

from textmover.types.segments import InputError

Position = Literal["penalty", "near", "literal"]
"""Treatment of positions in alignment scores: see :func:`~textmover.functional.word_alignment.alignment_scores`."""

Penalty = Literal["paper", "code", "none"]
"""Treatment of positions in distances: see :func:`~textmover.functional.word_alignment.aligned_distances`."""

BOUNDS: Mapping[str, tuple[int, int]] = {
    # Fields and arguments; of a list, how many values it has.
    "iterations": (1, 100_000),
    "max_iterations": (1, 1_000_000),
    "routing_iterations": (1, 100_000),
    "layer": (-1_000, 1_000),
    "last_layers": (1, 1_000),
    "freeze_layers": (0, 1_000),
    "depth": (1, 1_000),
    "max_length": (3, 16_777_216),
    "ngram": (1, 1_000),
    "powers": (1, 100),
    "features": (1, 32),
    "most_nodes": (1, 100_000),
    "hidden": (0, 4_096),
    "activations": (0, 8),
    "rank": (1, 65_536),
    "pairs": (1, 10_000_000),
    "batch_tokens": (1, 100_000_000),
    "workers": (0, 1_000),
    "versions": (1, 1_000),
    "records": (1, 1_000_000),
    "negatives": (0, 1_000),
    "words": (1, 10_000),
    "sentences": (1, 1_000_000_000),
    "most": (1, 1_000_000_000),
    # An encoder's config.json.
    "num_hidden_layers": (1, 1_000),
    "hidden_size": (1, 65_536),
    "num_attention_heads": (1, 4_096),
    "intermediate_size": (1, 1_048_576),
    "vocab_size": (1, 16_777_216),
    "num_labels": (0, 1_000_000),
    "max_position_embeddings": (-1, 16_777_216),
    # Options of commands that are no fields: what is beyond them fills memory or time and changes nothing.
    "--adapter": (1, 65_536),
    "--devices": (1, 1_000),
    "--limit": (1, 1_000_000),
    "--num-candidates": (1, 1_000_000),
    "--num-nodes": (1, 10_000),
    "--permutations": (1, 1_000_000),
    "--samples": (20, 1_000_000),
    "--segments": (1, 1_000_000),
    "--shard-size": (1, 10_000_000),
    "--trials": (1, 1_000_000),
    **dict.fromkeys(("--seed", "--seeds", "--sampler-seed"), (0, (1 << 32) - 1)),
    # Files: bytes, levels of lists and keys, values with aliases written out, characters of a number, seconds.
    "yaml_bytes": (0, 1 << 18),
    "json_bytes": (0, 1 << 28),
    "file_levels": (0, 100),
    "yaml_values": (0, 50_000),
    "yaml_number": (0, 1_000),
    "pipe_seconds": (0, 8),
}
"""Least and most of each number by its name."""

OTHER_OPTIONS = 1_000_000_000
"""Most of an option that the table does not have."""

ENCODER_BOUNDS: Mapping[str, tuple[int, int]] = {
    name: BOUNDS[name]
    for name in (
        *("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size", "num_labels"),
        "max_position_embeddings",
    )
}
"""The part of the table for an encoder's ``config.json``."""


def most_of(name: str) -> int:
    """Greatest number that the table allows for a name."""
    return BOUNDS[name][1]


def check_whole(
    name: str, value: object, *, least: int | None = None, place: str = "", alternative: str = "", way_out: str = ""
) -> None:
    """Refuse a value that is not a whole number within its bounds.

    Args:
        name: Name of the field, as :data:`BOUNDS` has it.
        value: The value.
        least: Lower bound in place of the table's.
        place: Where the field stands, for the message.
        alternative: What else the field may be, for the message.
        way_out: What to do, for the message.

    Raises:
        InputError: If it is none.

    Example:
        >>> check_whole("rank", 16)
    """
    low, most = BOUNDS[name]
    low = low if least is None else least
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= most:
        raise InputError(
            f"Expected `{name}`{place} to be a whole number from {low:,} to {most:,}{alternative}, but got {value!r}"
            f"{way_out}."
        )


def check_share(name: str, value: float) -> float:
    """Return a share of a whole; raise an :class:`InputError` unless it is between 0 and 1."""
    if not 0 <= value <= 1:
        raise InputError(f"Expected `{name}` to be between 0 and 1, but got {value}.")
    return value


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise an :class:`InputError` that lists the choices unless ``value`` is one of them."""
    if value not in choices:
        raise InputError(f"Expected `{name}` to be one of {', '.join(map(repr, choices))}, but got {value!r}.")
