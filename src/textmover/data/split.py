"""Splits by a hash of the reference or by groups, and samples by hash.

The hash makes splits reproducible: it depends only on the text, not on file order, seeds or the version of Python.
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

HELD_BACK_SHARE = 0.15  # default share of references to hold back
BY_REFERENCE = ("reference",)  # default of what may not be on both sides of a split


def normalise_reference(reference: str) -> str:
    """Return a reference in NFKC, case-folded (stable across Unicode versions) and with single spaces.

    Example:
        >>> normalise_reference(" The  Cat ")
        'the cat'
    """
    return " ".join(unicodedata.normalize("NFKC", reference).casefold().split())


def text_hash(text: str) -> bytes:
    """Return the SHA-256 of a text; lone surrogates are allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_held_back(reference: str, share: float = HELD_BACK_SHARE) -> bool:
    """Return whether ``int(sha256(normalised reference)[:8 bytes, big-endian]) < share · 2⁶⁴``.

    A larger share holds back a superset of a smaller one.

    Example:
        >>> sum(is_held_back(f"Sentence {number}.") for number in range(10_000))
        1483
    """
    if not 0 <= share <= 1:
        raise InputError(f"Expected the held-back share to be between 0 and 1, but got {share}: 0.15 is usual.")
    return int.from_bytes(text_hash(normalise_reference(reference))[:8], "big") < share * 2**64


def partition(items: Iterable[Item], apart: Iterable[bool]) -> tuple[list[Item], list[Item]]:
    """Split items by flags into those to keep and those to set apart."""
    sides: tuple[list[Item], list[Item]] = ([], [])
    for item, side in zip(items, apart, strict=True):
        sides[side].append(item)
    return sides


def split_held_back(
    segments: Sequence[Compared], share: float = HELD_BACK_SHARE, by: Sequence[str] = BY_REFERENCE
) -> tuple[list[Compared], list[Compared]]:
    """Split segments so that no reference is on both sides; segments connected by references stay together.

    The alphabetically first normalised reference of a cluster decides (:func:`is_held_back`), because the smallest hash
    would favour clusters of many references. ``by`` names what may not be on both sides: ``reference``, ``source``, and
    groups such as prompts. Empty values connect nothing.

    Example:
        >>> segments = [Segment("h", (f"Sentence {number}.",)) for number in range(100)]
        >>> [len(part) for part in split_held_back(segments)]
        [89, 11]
    """
    for position, segment in enumerate(segments):
        if not segment.compared.texts:
            raise InputError(f"Expected a reference for every segment, but got none for segment {position}: add one.")
    keys = [_held_together(segment, by) for segment in segments]
    clusters = connected_components(keys)
    deciding: dict[int, str] = {}
    for cluster, row in zip(clusters, keys, strict=True):
        texts = [text for name, text in row if name == row[0][0]]  # references, if they count
        deciding[cluster] = min(*texts, deciding.get(cluster, texts[0]))
    held_clusters = {cluster for cluster, deciding_text in deciding.items() if is_held_back(deciding_text, share)}
    return partition(segments, (cluster in held_clusters for cluster in clusters))


def share_note(share: float, by: tuple[str, ...], kept: Sequence[object], held_back: Sequence[object]) -> str:
    """Return the description of the split for the model card."""
    kinds = "references" if by == BY_REFERENCE else " and ".join(map(repr, by))
    counts = f"{len(held_back)} of {len(kept) + len(held_back)} segments"
    return f"{100 * share:g}% of the {kinds} by a hash of their text ({counts})"


def _held_together(segment: ComparedText, by: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of name and value that connect a segment with others, references first."""
    references = [("reference", normalise_reference(text)) for text in segment.references or segment.compared.texts]
    values = {"source": segment.source, **segment.groups}
    others_ = [(name, normalise_reference(values[name] or "")) for name in by if name != "reference"]
    keys = [*(references if "reference" in by else ()), *(pair for pair in others_ if pair[1])]
    return keys or references


def connected_components(keys: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return for each row of keys the first row that it is connected with by shared keys, directly or indirectly.

    Example:
        >>> connected_components(["ab", "c", "bd", "dc", "e"])
        [0, 0, 0, 0, 4]
    """
    from scipy.sparse import csgraph, csr_array

    numbers: dict[Hashable, int] = {}  # a node for each key, after those of the rows
    edges = [(row, numbers.setdefault(key, len(keys) + len(numbers))) for row, some in enumerate(keys) for key in some]
    size = len(keys) + len(numbers)
    graph = csr_array(([1] * len(edges), ([row for row, _ in edges], [key for _, key in edges])), shape=(size, size))
    labels = csgraph.connected_components(graph, directed=False)[1][: len(keys)] if keys else ()
    first_rows: dict[int, int] = {}
    return [first_rows.setdefault(label, row) for row, label in enumerate(labels)]


def hold_out_groups(
    segments: Sequence[Segment], groups: Mapping[str, Sequence[str]]
) -> tuple[list[Segment], list[Segment]]:
    """Split off the segments with one of the given values of any group key: kept segments, then held-out ones."""
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
                    f"Expected a value of the group {key!r}, but got {value!r}: choose among {named(sorted(present))}."
                )
    chosen = (any(item.groups.get(key) in values for key, values in groups.items()) for item in segments)
    return partition(segments, chosen)


def sample_by_hash(items: Sequence[Item], most: int | None, texts: Callable[[Item], Sequence[str]]) -> list[Item]:
    """Return at most ``most`` of the items in their order: those with the smallest hashes of their normalised texts.

    The hash differs from that of :func:`is_held_back`.

    Example:
        >>> sample_by_hash(["one", "two", "three", "four"], 2, lambda text: [text])
        ['three', 'four']
    """
    if most is None or len(items) <= most:
        return list(items)
    hashes = [text_hash("\n".join(["most", *map(normalise_reference, texts(item))])) for item in items]
    return [items[index] for index in sorted(sorted(range(len(items)), key=hashes.__getitem__)[:most])]
