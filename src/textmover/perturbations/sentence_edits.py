"""English sentences as words between punctuation marks, and edits of them; without a tagger or parser."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from textmover.safe_reading import read_yaml

T = TypeVar("T")

LEXICON = read_yaml(Path(__file__).with_name("lexicon.yaml"))


def listed(words: str) -> tuple[str, ...]:
    """The words of a list written as one string."""
    return tuple(words.split())


def word_set(name: str) -> frozenset[str]:
    """A list of the lexicon."""
    return frozenset(listed(LEXICON[name]))


AUXILIARIES = word_set("auxiliaries")
FUNCTION_WORDS = AUXILIARIES | word_set("further_function_words")
NEGATIVE = word_set("negative")
UNITS, TEENS, TENS, ORDINALS = (listed(LEXICON[name]) for name in ("units", "teens", "tens", "ordinals"))
NUMBER = re.compile(
    r"\b(?:\d{1,2}:\d\d|\d{1,15}(?:,\d{3}){0,4}(?:\.\d+)?"
    rf"|(?:{'|'.join(TENS)})(?:-(?:one|{'|'.join(UNITS[:8])}))?|{'|'.join(ORDINALS + TEENS + UNITS)})\b",
    re.IGNORECASE,
)
TOKEN = re.compile(r"""^([("'“‘\[]*)(.*?)([)"'”’\].,;:!?…]*)$""", re.DOTALL)


class Word(NamedTuple):
    """A word between its punctuation marks."""

    before: str
    core: str
    after: str

    @property
    def function(self) -> bool:
        """Return whether little is lost without it: a word such as *the* or *was*, but not a negation."""
        return not self.core or self.core.lower() in FUNCTION_WORDS - NEGATIVE

    @property
    def replaceable(self) -> bool:
        """Return whether an unrelated word can stand for it: letters only, and neither a function word nor a number."""
        lower = self.core.lower()
        return len(lower) > 2 and lower.isalpha() and lower not in FUNCTION_WORDS and not NUMBER.fullmatch(lower)


@dataclass(frozen=True)
class Phrase:
    """A text as words, with its end mark and the capital at its start kept apart so that edits cannot misplace them."""

    words: tuple[Word, ...]  # the words in order; the first one is in lower case unless it is a name
    end: str  # the marks that close the text, such as ``"."`` or ``"?"``
    capital: bool  # whether the text starts with a capital

    @classmethod
    def parse(cls, text: str, pool: WordPool) -> Phrase:
        """Split a text at white space; ``pool`` tells names from words that merely start the sentence."""
        body = text.strip()
        mark = re.search(r"[.!?…]+[\"'”’)\]]*$", body)
        end = mark.group() if mark else ""
        words = [Word(*TOKEN.match(token).groups()) for token in body[: len(body) - len(end)].split()]  # type: ignore[union-attr]
        capital = bool(words) and words[0].core[:1].isupper()
        if capital and not pool.is_name(words[0].core):
            words[0] = words[0]._replace(core=words[0].core[:1].lower() + words[0].core[1:])
        return cls(tuple(words), end, capital)

    @property
    def text(self) -> str:
        """The words as one string: single spaces, a capital where there was one, no mark before the end mark."""
        body = " ".join("".join(word) for word in self.words)
        if self.end:
            body = body.rstrip(" ,;:-–—")
        if self.capital:
            body = re.sub(r"^\W*\w", lambda start: start.group().upper(), body)
        return body + self.end


class WordPool:
    """Texts from which unrelated words and sentences are drawn."""

    def __init__(self, texts: Iterable[str] = (), avoid: Iterable[str] = ()) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text.strip()))
        self.avoid = frozenset(avoid)

    @cached_property
    def _names(self) -> frozenset[str]:
        inner = [word.strip(".,;:!?") for text in self.texts for word in text.split()[1:]]
        lower = {word for word in inner if word.islower()}
        return frozenset(word for word in inner if word[:1].isupper() and word.lower() not in lower)

    @cached_property
    def _words_of(self) -> dict[str, tuple[str, ...]]:
        phrases = {text: Phrase.parse(text, self) for text in self.texts}
        return {text: tuple(word.core for word in phrase.words if word.replaceable) for text, phrase in phrases.items()}

    def avoiding(self, texts: Iterable[str]) -> WordPool:
        """The same pool without these texts as a source; what is known of names stays."""
        pool = WordPool(self.texts, texts)
        pool.__dict__.update(_names=self._names, _words_of=self._words_of)
        return pool

    def is_name(self, word: str) -> bool:
        """Return whether a capitalised word keeps its capital inside a sentence, as far as the texts show."""
        return word in self._names or word == "I" or word.startswith("I'") or (len(word) > 1 and word.isupper())

    def words(self, text: str) -> list[str]:
        """Content words of all texts but ``text`` and those to avoid, without any word that these hold, sorted."""
        barred = self.avoid | {text}
        own = {word.lower() for other in barred for word in re.findall(r"\w+", other)}
        found = {word for other, words in self._words_of.items() if other not in barred for word in words}
        return sorted(word for word in found if word.lower() not in own)

    def others(self, text: str) -> list[str]:
        """Texts that share no content word with ``text`` and those to avoid."""
        barred = self.avoid | {text}
        own = {word.lower() for other in barred for word in re.findall(r"\w+", other)}
        return [o for o in self.texts if o not in barred and own.isdisjoint(word.lower() for word in self._words_of[o])]


VOWEL_SOUND = re.compile(
    r"(?!(?:uni(?!n|m)|use|usu|util|ukr|eu|one\b|one-|once|ut[eo]))(?:[aeiou]|hour|honest|honou?r|heir)", re.I
)
"""Words behind *an*: those that begin with a vowel in speech."""


class Edit(NamedTuple):
    """Result of a perturbation."""

    text: str
    touched: tuple[Word, ...]  # the words that were changed, lost or added; their weight decides how severe the edit is


Function = Callable[[Phrase, int, Random, WordPool], "Edit | None"]


def keyed_random(key: str) -> Random:
    """A generator that follows from a key, such as a seed and a text, and from nothing else."""
    return Random(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big"))


def mixed(items: Sequence[T], rng: Random) -> list[T]:
    """A random order that rests on ``Random.random`` alone, whose sequence Python guarantees for ever."""
    return [item for _, _, item in sorted((rng.random(), place, item) for place, item in enumerate(items))]


def by_weight(weights: Mapping[T, float], rng: Random) -> list[T]:
    """A random order in which an item comes early by its weight; one without weight is left out."""
    weighted = [item for item, weight in weights.items() if weight > 0]
    return sorted(weighted, key=lambda item: rng.random() ** (1 / weights[item]), reverse=True)


def one_by_chance(items: Sequence[T], rng: Random) -> T:
    """One of the items."""
    return items[int(rng.random() * len(items))]


def with_words(phrase: Phrase, new: dict[int, str]) -> Edit:
    """The phrase with other words at some places, and *a* or *an* before them as they want it."""
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
