"""What the engine tells of its work: how far it is, what was out of the ordinary, and values that are no numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from textmover.types import InputError

WARNINGS = {
    "empty": "had an empty side: their values are those of unrelated texts",
    "unweighted": "had a text whose idf weights are all 0: uniform weights stood in for them",
    "truncated": "had a text that is longer than the encoder allows and was cut",
    "unknown": "had words or symbols that the encoder does not know",
    "undefined": "had a self-similarity of 0 or below: their value is 0",
    "long": "had a text whose trees were compared in stretches: it is longer than `most_nodes` words",
    "not converged": "did not converge: raise `max_iterations`, or the temperature",
}


READS_THEM = "take an encoder that does, such as xlm-roberta-base for other scripts or roberta-base for symbols"
"""The way out where an encoder does not know tokens."""


def unusual(kind: str, number: int, examples: Sequence[str] = ()) -> str:
    """How many segments were out of the ordinary, and how.

    Args:
        kind: What they were.
        number: How many.
        examples: Some tokens that the encoder does not know.

    Example:
        >>> unusual("truncated", 2)
        '2 segments had a text that is longer than the encoder allows and was cut'
    """
    found = f"{number} segment{'s' if number > 1 else ''} {WARNINGS.get(kind, kind)}"
    if kind != "unknown":
        return found
    return f"{found}{', such as ' if examples else ''}{', '.join(map(repr, examples))}: {READS_THEM}"


class Progress:
    """Tells how many segments of a window are finished, as far as the share of its work that is done tells."""

    def __init__(self, segments: int, on_progress: Callable[[int], None] | None) -> None:
        self._segments, self._on_progress = segments, on_progress
        self._told = 0

    def reach(self, share: float) -> None:
        """So much of the work is done."""
        finished = int(self._segments * share)
        if self._on_progress is not None and finished > self._told:
            self._on_progress(finished - self._told)
            self._told = finished


def check_finite(values: Mapping[str, np.ndarray], owners: np.ndarray) -> None:
    """Refuse values of pairs that are no numbers; ``owners`` are their segments, counted from 0."""
    for name, array in values.items():
        broken = np.flatnonzero(~np.isfinite(array))
        if len(broken):
            raise InputError(
                f"Expected finite values from the metric, but its {name} of segment {owners[broken[0]] + 1} is "
                f"{array[broken[0]]}: the checkpoint's weights are damaged, or its arithmetic overflowed."
            )
