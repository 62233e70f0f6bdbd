"""Validation of text arguments: one or several texts, with one or several references each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, TypeGuard

from textmover.modules.tokens.tokenizer import REPAIR
from textmover.types import InputError, SourcedReferences, plural
from textmover.types.word_splitting import is_unicode, legible

Texts = str | Sequence[str]
Sources = str | Sequence[str | None]
References = str | Sequence[str] | Sequence[Sequence[str]]
PairedTexts = tuple[str, str | Sequence[str]] | tuple[str, str | Sequence[str] | None, str | None]


def normalize_references(
    hypotheses: Sequence[str], references: References | None, sources: Sources | None = None
) -> list[SourcedReferences]:
    """Check all texts and return the references of each hypothesis with its source."""
    if references is None and sources is None:
        raise TypeError(
            "Expected references, but they are missing: give each hypothesis its reference or a list of them, or "
            "`sources` for a metric that compares with the source."
        )
    listed = (
        [()] * len(hypotheses) if references is None and sources is not None else listed_texts(references, "references")
    )
    aligned = [getattr(one, "source", None) for one in listed] if sources is None else listed_texts(sources, "sources")
    if sources is not None and len(aligned) != len(hypotheses):
        raise InputError(f"Expected as many sources as hypotheses, but got {len(aligned)} for {len(hypotheses)}.")
    if len(hypotheses) != len(listed):
        raise InputError(
            f"Expected as many references as hypotheses, but got {len(listed)} for "
            f"{plural(len(hypotheses), 'hypothesis', 'hypotheses')}: give each its reference or a list of them."
        )
    # A value that is neither a text nor a list is kept here and rejected below with its position.
    lists = (() if one is None and source is not None else one for one, source in zip(listed, aligned, strict=True))
    grouped = [(one,) if isinstance(one, str) or not lists_texts(one) else tuple(one) for one in lists]
    for position, (hypothesis, texts) in enumerate(zip(hypotheses, grouped, strict=True)):
        if not texts and sources is None and aligned[position] is None:
            raise InputError(
                f"Expected at least one reference for each hypothesis, but number {position + 1} has none."
            )
        for text in (hypothesis, *texts, *(() if aligned[position] is None else (aligned[position],))):
            if not isinstance(text, str):
                raise TypeError(
                    f"Expected texts to be strings, but got {type(text).__name__} in segment {position + 1}: convert "
                    "numbers by `astype(str)` and bytes by `str.decode`, but leave out what is missing (`dropna`)."
                )
            if not is_unicode(text):
                raise InputError(
                    f"Expected Unicode text, but got half a surrogate pair in segment {position + 1}: {REPAIR}."
                )
    # Drop empty references, unless all are empty.
    nonempty = [tuple(filter(legible, texts)) or texts if len(texts) > 1 else texts for texts in grouped]
    unnamed = ("" if references is None else None, "" if sources is None else None)
    places = [getattr(one, "places", unnamed) for one in listed]
    return list(map(SourcedReferences, nonempty, aligned, places))


def paired_texts(pairs: Sequence[Any]) -> tuple[list[str], list[SourcedReferences]]:
    """Split pairs (hypothesis, references) or triples (hypothesis, references, source) into two lists."""
    for position, pair in enumerate(pairs):
        if isinstance(pair, str) or not lists_texts(pair) or not isinstance(pair, Sequence) or len(pair) not in (2, 3):
            raise TypeError(
                "Expected pairs of a hypothesis and its reference or references, or triples with its source, but got "
                f"{type(pair).__name__} in segment {position + 1}."
            )
    whole = [(*pair, None)[:3] for pair in pairs]
    hypotheses, references, sources = ([one[side] for one in whole] for side in range(3))
    first, second = (side if any(one is not None for one in side) else None for side in (references, sources))
    return hypotheses, normalize_references(hypotheses, references if second is None else first, second)


def listed_texts(texts: object, name: str) -> list[Any]:
    """Return one or several texts as a list; errors call them ``name``."""
    if isinstance(texts, str):
        return [texts]
    if not lists_texts(texts):
        raise TypeError(
            f"Expected {name} to be a text or a list of texts, but got {type(texts).__name__}: give the texts in a "
            "list, or a single column of a table."
        )
    return texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)  # pyarrow iterates over its own scalars


def is_missing(cell: Any) -> bool:
    """Return whether a cell of a table is missing: ``None``, NaN, or the ``NA`` and ``NaT`` of pandas."""
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(cell, (Real, Decimal)) and bool(cell != cell))


def lists_texts(given: object) -> TypeGuard[Iterable[Any]]:
    """Return whether iterating over an object yields its texts in order, not its keys or column names."""
    if isinstance(given, (Mapping, set, frozenset, bytes)) or hasattr(given, "columns"):
        return False
    by_key = hasattr(given, "keys") and not hasattr(given, "dtype")  # a pandas Series has both and yields values
    return isinstance(given, Iterable) and not by_key and getattr(given, "ndim", 1) > 0
