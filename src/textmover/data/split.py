"""Held-out splits, by a hash of the reference or by a group, and samples of many segments.

The hash makes the choice the same for everyone: it depends on the text alone, not on the order of the file, on a seed,
or on the version of Python.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from textmover.readers.text_tables import named
from textmover.types import InputError, Segment

Item = TypeVar("Item")

HELD_BACK_SHARE = 0.15
"""Part of the references that is held back unless told otherwise."""


def normalise_reference(reference: str) -> str:
    """A reference without what does not make it another one: case, spacing and compatibility forms.

    NFKC, then case folding, whose result Unicode keeps for all later versions; then single spaces.

    Args:
        reference: The text.

    Example:
        >>> normalise_reference(" The  Cat ")
        'the cat'
    """
    return " ".join(unicodedata.normalize("NFKC", reference).casefold().split())


def is_held_back(reference: str, share: float = HELD_BACK_SHARE) -> bool:
    """Return whether a reference belongs to the held-back part.

    ``int(sha256(normalised reference)[:8 bytes, big-endian]) < share · 2⁶⁴``: about ``share`` of all references, and a
    larger share holds back all that a smaller one does.

    Args:
        reference: The text.
        share: Part of the references to hold back, from 0 to 1.

    Example:
        >>> is_held_back("The cat sat on the mat."), is_held_back("the cat  sat on the mat.")
        (False, False)
        >>> sum(is_held_back(f"Sentence {number}.") for number in range(10_000))
        1483
    """
    if not 0 <= share <= 1:
        raise InputError(f"Expected the held-back share to be between 0 and 1, but got {share}: 0.15 is usual.")
    digest = hashlib.sha256(normalise_reference(reference).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def split_held_back(segments: Sequence[Segment], share: float = HELD_BACK_SHARE) -> tuple[list[Segment], list[Segment]]:
    """Split segments so that no reference stands on both sides.

    Segments that share a reference, directly or through others, go the same way. One of their references speaks for
    all: the first in the order of the normalised texts, given to :func:`is_held_back`. (The smallest hash would not do:
    it falls below the share more often, the more references a segment has.)

    Args:
        segments: Segments with at least one reference each.
        share: Part of the references to hold back, from 0 to 1.

    Example:
        >>> segments = [Segment("h", (f"Sentence {number}.",)) for number in range(100)]
        >>> [len(part) for part in split_held_back(segments)]
        [89, 11]
    """
    keys = [tuple(map(normalise_reference, segment.references)) for segment in segments]
    for position, references in enumerate(keys):
        if not references:
            raise InputError(f"Expected a reference for every segment, but got none for segment {position}: add one.")
    speakers = _speakers(keys)
    train: list[Segment] = []
    held_back: list[Segment] = []
    for segment, (reference, *_) in zip(segments, keys, strict=True):
        (held_back if is_held_back(speakers[reference], share) else train).append(segment)
    return train, held_back


def hold_out_groups(
    segments: Sequence[Segment], groups: Mapping[str, Sequence[str]]
) -> tuple[list[Segment], list[Segment]]:
    """Set whole groups of segments apart.

    Args:
        segments: Segments with group keys.
        groups: Values to hold out by group key; a segment is held out if any of them fits.

    Example:
        >>> segments = [Segment("h", ("r",), groups={"perturbation": name}) for name in ("drop", "swap", "drop")]
        >>> kept, held_out = hold_out_groups(segments, {"perturbation": ("swap",)})
        >>> len(kept), len(held_out)
        (2, 1)
    """
    for key, values in groups.items():
        present = {segment.groups[key] for segment in segments if key in segment.groups}
        if not present:
            keys = sorted({key for segment in segments for key in segment.groups})
            raise InputError(
                f"Expected segments with a group {key!r}, but got {named(keys) or 'segments without groups'}: "
                "choose a group that the data has."
            )
        for value in values:
            if value not in present:
                raise InputError(
                    f"Expected a value that the group {key!r} takes, but got {value!r}: choose among "
                    f"{named(sorted(present))}."
                )
    kept: list[Segment] = []
    held_out: list[Segment] = []
    for segment in segments:
        fits = any(segment.groups.get(key) in values for key, values in groups.items())
        (held_out if fits else kept).append(segment)
    return kept, held_out


def taken_by_hash(items: Sequence[Item], most: int | None, texts: Callable[[Item], Sequence[str]]) -> list[Item]:
    """At most so many of the items: those whose texts have the smallest hashes.

    The choice is blind to the order of the items: one by their places could fall on a single class where the classes
    take turns. It is another hash than that of :func:`is_held_back`.

    Args:
        items: The items.
        most: How many; ``None`` takes all.
        texts: Tells the texts of an item, which are normalised.

    Example:
        >>> taken_by_hash(["one", "two", "three", "four"], 2, lambda text: [text])
        ['three', 'four']
    """
    if most is None or len(items) <= most:
        return list(items)

    def key(place: int) -> bytes:
        joined = "\n".join(["most", *map(normalise_reference, texts(items[place]))])
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()

    return [items[place] for place in sorted(sorted(range(len(items)), key=key)[:most])]


def _speakers(keys: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """For each reference the first, in text order, of all that are connected with it (union-find)."""
    parent: dict[str, str] = {}

    def root(reference: str) -> str:
        while parent.setdefault(reference, reference) != reference:
            parent[reference] = parent[parent[reference]]
            reference = parent[reference]
        return reference

    for first, *others in keys:
        root(first)
        for other in others:
            low, high = sorted((root(first), root(other)))
            parent[high] = low
    return {reference: root(reference) for reference in list(parent)}
