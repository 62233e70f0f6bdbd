"""Names: what looks like one, of which kind it is, and others of the same kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from textmover.perturbations.phrases import listed
from textmover.reading import read_yaml

MONTHS_THAT_ARE_WORDS = ("March", "May")


@cache
def _lists() -> Mapping[str, tuple[str, ...]]:
    raw = read_yaml(Path(__file__).with_name("names.yaml"))
    return MappingProxyType({kind: listed(names) for kind, names in raw.items()})


@cache
def _kinds() -> Mapping[str, str]:
    return MappingProxyType({name: kind for kind, names in _lists().items() if kind != "titles" for name in names})


def kind_of_name(name: str) -> str:
    """Kind of a name that the lists hold, such as ``"cities"``; empty for any other word.

    Example:
        >>> kind_of_name("Oslo"), kind_of_name("Oslonia")
        ('cities', '')
    """
    return _kinds().get(name, "")


def names_of_kind(kind: str) -> tuple[str, ...]:
    """The listed names of a kind."""
    return _lists()[kind]


@cache
def titles() -> frozenset[str]:
    """Capitalised words that name nobody and no place."""
    return frozenset(_lists()["titles"])


def always_capitalised(word: str) -> bool:
    """Whether a word has its capital inside a sentence too, as far as the lists show.

    Example:
        >>> always_capitalised("Norwegian"), always_capitalised("Goats")
        (True, False)
    """
    return word in _kinds() or word in MONTHS_THAT_ARE_WORDS
