"""What a perturbation gives, and what several of them share: random orders, and articles that fit the next word."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple, TypeVar

from textmover.perturbations.phrases import Phrase, Word, WordPool

T = TypeVar("T")

VOWEL_SOUND = re.compile(
    r"(?!(?:uni(?!n|m)|use|usu|util|ukr|eu|one\b|one-|once|ut[eo]))(?:[aeiou]|hour|honest|honou?r|heir)", re.I
)
"""Words behind *an*: those that begin with a vowel in speech."""


class Edit(NamedTuple):
    """What a perturbation made.

    Attributes:
        text: The new text.
        touched: The words that were changed, lost or added; their weight decides how severe the edit is.
    """

    text: str
    touched: tuple[Word, ...]


Function = Callable[[Phrase, int, Random, WordPool], "Edit | None"]


def keyed_random(key: str) -> Random:
    """A generator that follows from a key, such as a seed and a text, and from nothing else."""
    return Random(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big"))


def mixed(items: Sequence[T], rng: Random) -> list[T]:
    """A random order that rests on ``Random.random`` alone, whose sequence Python guarantees for ever."""
    return [item for _, _, item in sorted((rng.random(), place, item) for place, item in enumerate(items))]


def one_by_chance(items: Sequence[T], rng: Random) -> T:
    """One of the items."""
    return items[int(rng.random() * len(items))]


def with_words(phrase: Phrase, new: dict[int, str]) -> Edit:
    """The phrase with other words at some places, and *a* or *an* before them as they want it.

    Example:
        >>> with_words(Phrase.parse("It was a big house.", WordPool()), {3: "enormous"}).text
        'It was an enormous house.'
    """
    words = list(phrase.words)
    for place, core in new.items():
        words[place] = words[place]._replace(core=core)
        fit_article(words, place)
    touched = tuple(phrase.words[place] for place in sorted(new))
    return Edit(replace(phrase, words=tuple(words)).text, touched)


def fit_article(words: list[Word], place: int) -> None:
    """Make *a* or *an* before a place what the word there wants."""
    if place and words[place - 1].core.lower() in ("a", "an") and not words[place - 1].after:
        article = "an" if VOWEL_SOUND.match(words[place].core) else "a"
        if words[place - 1].core[:1].isupper():
            article = article.capitalize()
        words[place - 1] = words[place - 1]._replace(core=article)
