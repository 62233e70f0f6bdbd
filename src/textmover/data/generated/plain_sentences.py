"""Plain sentences to damage: which ones are taken, in an order that follows from a seed and each text alone."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from textmover.readers.segments import read_texts
from textmover.types import InputError


def check_damage(
    name: str, weights: Mapping[str, float] | None, all_of_them: Collection[str], known: Collection[str]
) -> dict[str, float]:
    """Weights of the kinds of damage.

    Args:
        name: What the argument is called.
        weights: What was given; the same weight for ``all_of_them`` if ``None``.
        all_of_them: The kinds where none are given.
        known: The kinds that there are.
    """
    chosen = dict.fromkeys(all_of_them, 1.0) if weights is None else dict(weights)
    for kind, weight in chosen.items():
        if kind not in known or not 0 <= weight < float("inf"):
            raise InputError(
                f"Expected `{name}` to give weights of at least 0 to {', '.join(known)}, but got {kind}: {weight}."
            )
    if not any(chosen.values()):
        raise InputError(f"Expected `{name}` to give some kind of damage a weight above 0, but got none: name one.")
    return chosen


def read_sentences(files: Sequence[str], column: str | None, split: str) -> list[str]:
    """Distinct texts of files, without the white space around them."""
    return list(dict.fromkeys(text.strip() for name in files for text in read_texts(name, column, split=split)))


def taken_sentences(texts: Sequence[str], words: tuple[int, int], sentences: int | None, seed: int) -> list[str]:
    """Some of the texts of a wanted length.

    Args:
        texts: Distinct texts.
        words: Least and greatest number of words.
        sentences: How many to take; all if ``None``.
        seed: Seed of the choice and the order.
    """
    low, high = words
    fitting = [text for text in texts if low <= len(text.split()) <= high]
    return sorted(fitting, key=lambda text: _digest(f"{seed} {text}"))[:sentences]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
