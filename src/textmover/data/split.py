"""Splits, by a hash of the reference or by a group, and samples of many segments.

The hash makes the choice the same for everyone: it depends on the text alone, not on the order of the file, on a seed,
or on the version of Python.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from textmover.readers.csv_and_jsonl import named
from textmover.types import InputError, Segment
from textmover.types.segments import ComparedText

Item = TypeVar("Item")
Compared = TypeVar("Compared", bound=ComparedText)

HELD_BACK_SHARE = 0.15  # default share of the references to hold back
BY_REFERENCE = ("reference",)  # default of the things that may not stand on both sides of a split


def normalise_reference(reference: str) -> str:
    """A reference in NFKC, case-folded (which Unicode keeps for all later versions) and with single spaces.

    Example:
        >>> normalise_reference(" The  Cat ")
        'the cat'
    """
    return " ".join(unicodedata.normalize("NFKC", reference).casefold().split())


def text_hash(text: str) -> bytes:
    """SHA-256 of a text, lone surrogates included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_held_back(reference: str, share: float = HELD_BACK_SHARE) -> bool:
    """Return whether ``int(sha256(normalised reference)[:8 bytes, big-endian]) < share · 2⁶⁴``.

    A larger share holds back all that a smaller one does.

    Example:
        >>> sum(is_held_back(f"Sentence {number}.") for number in range(10_000))
        1483
    """
    if not 0 <= share <= 1:
        raise InputError(f"Expected the held-back share to be between 0 and 1, but got {share}: 0.15 is usual.")
    return int.from_bytes(text_hash(normalise_reference(reference))[:8], "big") < share * 2**64


def parted(items: Iterable[Item], apart: Iterable[bool]) -> tuple[list[Item], list[Item]]:
    """Items to keep, and those that are set apart."""
    sides: tuple[list[Item], list[Item]] = ([], [])
    for item, other in zip(items, apart, strict=True):
        sides[other].append(item)
    return sides


def split_held_back(
    segments: Sequence[Compared], share: float = HELD_BACK_SHARE, by: Sequence[str] = BY_REFERENCE
) -> tuple[list[Compared], list[Compared]]:
    """Split segments so that no reference stands on both sides; each goes with all that it shares references with.

    The first of their normalised references, in text order, decides for all (:func:`is_held_back`): the smallest hash
    falls below the share more often, the more references a segment has. ``by`` names what may not stand on both sides:
    ``reference``, ``source``, and groups such as prompts. An empty value holds nothing together.

    Example:
        >>> segments = [Segment("h", (f"Sentence {number}.",)) for number in range(100)]
        >>> [len(part) for part in split_held_back(segments)]
        [89, 11]
    """
    for position, segment in enumerate(segments):
        if not segment.compared.texts:
            raise InputError(f"Expected a reference for every segment, but got none for segment {position}: add one.")
    keys = [_held_together(segment, by) for segment in segments]
    clusters = connected(keys)
    speakers: dict[int, str] = {}
    for cluster, row in zip(clusters, keys, strict=True):
        texts = [text for name, text in row if name == row[0][0]]  # references, where they count
        speakers[cluster] = min(*texts, speakers.get(cluster, texts[0]))
    apart = {cluster for cluster, speaker in speakers.items() if is_held_back(speaker, share)}
    return parted(segments, (cluster in apart for cluster in clusters))


def share_note(share: float, by: tuple[str, ...], kept: Sequence[object], held_back: Sequence[object]) -> str:
    """The split as the model card describes it."""
    kinds = "references" if by == BY_REFERENCE else " and ".join(map(repr, by))
    counts = f"{len(held_back)} of {len(kept) + len(held_back)} segments"
    return f"{100 * share:g}% of the {kinds} by a hash of their text ({counts})"


def _held_together(segment: ComparedText, by: Sequence[str]) -> list[tuple[str, str]]:
    """Texts that hold a segment together with others, by what they are, references first."""
    references = [("reference", normalise_reference(text)) for text in segment.references or segment.compared.texts]
    values = {"source": segment.source, **segment.groups}
    others = [(name, normalise_reference(values[name] or "")) for name in by if name != "reference"]
    found = [*(references if "reference" in by else ()), *(one for one in others if one[1])]
    return found or references


def connected(keys: Sequence[Sequence[Hashable]]) -> list[int]:
    """For each row of keys the first row that it is connected with by shared keys, directly or through others.

    Example:
        >>> connected(["ab", "c", "bd", "dc", "e"])
        [0, 0, 0, 0, 4]
    """
    parent = list(range(len(keys)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    known: dict[Hashable, int] = {}
    for place, row in enumerate(keys):
        for key in row:
            low, high = sorted((root(known.setdefault(key, place)), root(place)))
            parent[high] = low
    return [root(place) for place in range(len(keys))]


def hold_out_groups(
    segments: Sequence[Segment], groups: Mapping[str, Sequence[str]]
) -> tuple[list[Segment], list[Segment]]:
    """Set apart the segments that have one of the values for any of the group keys: those kept, those set apart."""
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
    chosen = (any(one.groups.get(key) in values for key, values in groups.items()) for one in segments)
    return parted(segments, chosen)


def taken_by_hash(items: Sequence[Item], most: int | None, texts: Callable[[Item], Sequence[str]]) -> list[Item]:
    """At most so many of the items, in their order: those whose normalised texts have the smallest hashes.

    The hash is not that of :func:`is_held_back`.

    Example:
        >>> taken_by_hash(["one", "two", "three", "four"], 2, lambda text: [text])
        ['three', 'four']
    """
    if most is None or len(items) <= most:
        return list(items)
    hashes = [text_hash("\n".join(["most", *map(normalise_reference, texts(item))])) for item in items]
    return [items[place] for place in sorted(sorted(range(len(items)), key=hashes.__getitem__)[:most])]
