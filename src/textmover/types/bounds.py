"""Bounds of whole numbers in configurations."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

from textmover.types.segments import InputError

BOUNDS: Mapping[str, tuple[int, int]] = {
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
}
"""Least and most of each field of a configuration; of a list, of how many values it has."""

ENCODER_BOUNDS: Mapping[str, tuple[int, int]] = {
    "num_hidden_layers": BOUNDS["depth"],
    "hidden_size": (1, 65_536),
    "num_attention_heads": (1, 4_096),
    "intermediate_size": (1, 1_048_576),
    "vocab_size": (1, 16_777_216),
    "num_labels": (0, 1_000_000),
    "max_position_embeddings": (-1, 16_777_216),
}
"""The same for an encoder's ``config.json``."""


def check_whole(
    name: str,
    value: object,
    *,
    bounds: Mapping[str, tuple[int, int]] = BOUNDS,
    least: int | None = None,
    place: str = "",
    alternative: str = "",
    way_out: str = "",
) -> None:
    """Refuse a value that is not a whole number within its bounds.

    Args:
        name: Name of the field, as the table has it.
        value: The value.
        bounds: The table.
        least: Lower bound in place of the table's.
        place: Where the field stands, for the message.
        alternative: What else the field may be, for the message.
        way_out: What to do, for the message.

    Raises:
        InputError: If it is none.

    Example:
        >>> check_whole("rank", 16)
    """
    low, most = bounds[name]
    low = low if least is None else least
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= most:
        raise InputError(
            f"Expected `{name}`{place} to be a whole number from {low:,} to {most:,}{alternative}, but got {value!r}"
            f"{way_out}."
        )
