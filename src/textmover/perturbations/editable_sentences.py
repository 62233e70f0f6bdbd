"""English sentences as words and punctuation, and edits of them, without a tagger or parser."""

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
    """Return the words of a space-separated list."""
    return tuple(words.split())


def word_set(name: str) -> frozenset[str]:
    """Return a word list of the lexicon as a set."""
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
    """Word with its surrounding punctuation."""

    before: str
    core: str
    after: str

    @property
    def function(self) -> bool:
        """Return whether it carries little meaning, such as *the* or *was*; negations do not count."""
        return not self.core or self.core.lower() in FUNCTION_WORDS - NEGATIVE

    @property
    def replaceable(self) -> bool:
        """Return whether an unrelated word can replace it: letters only, neither a function word nor a number."""
        lower = self.core.lower()
        return len(lower) > 2 and lower.isalpha() and lower not in FUNCTION_WORDS and not NUMBER.fullmatch(lower)


@dataclass(frozen=True)
class Phrase:
    """Text as words. End mark and initial capital are stored separately, so that edits cannot misplace them."""

    words: tuple[Word, ...]  # words in order; the first is in lower case unless it is a name
    end: str  # end marks, such as ``"."`` or ``"?"``
    capital: bool  # whether the text starts with a capital

    @classmethod
    def parse(cls, text: str, pool: WordPool) -> Phrase:
        """Split a text at white space; ``pool`` distinguishes names from other words at the start of the sentence."""
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
        """Text with single spaces, the initial capital if any, and no other punctuation before the end mark."""
        body = " ".join("".join(word) for word in self.words)
        if self.end:
            body = body.rstrip(" ,;:-–—")
        if self.capital:
            body = re.sub(r"^\W*\w", lambda start: start.group().upper(), body)
        return body + self.end


class WordPool:
    """Source of unrelated words and sentences."""

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
        """Return the same pool without these texts as sources; knowledge of names is kept."""
        pool = WordPool(self.texts, texts)
        pool.__dict__.update(_names=self._names, _words_of=self._words_of)
        return pool

    def is_name(self, word: str) -> bool:
        """Return whether a capitalised word keeps its capital inside a sentence, according to the texts."""
        return word in self._names or word == "I" or word.startswith("I'") or (len(word) > 1 and word.isupper())

    def words(self, text: str) -> list[str]:
        """Return sorted content words of all texts except ``text`` and those to avoid, without their words."""
        barred = self.avoid | {text}
        excluded = {word.lower() for other in barred for word in re.findall(r"\w+", other)}
        words_found = {word for other, words in self._words_of.items() if other not in barred for word in words}
        return sorted(word for word in words_found if word.lower() not in excluded)

    def others(self, text: str) -> list[str]:
        """Return texts that share no content word with the words of ``text`` and the texts to avoid."""
        barred = self.avoid | {text}
        own = {word.lower() for other in barred for word in re.findall(r"\w+", other)}
        return [o for o in self.texts if o not in barred and own.isdisjoint(word.lower() for word in self._words_of[o])]


VOWEL_SOUND = re.compile(
    r"(?!(?-i:U[A-Z])|(?:uni(?!n|m)|use|usu|util|ukr|ugan|utah|eu|one\b|one-|once|ut[eo]))"
    r"(?:[aeiou]|hour|honest|honou?r|heir|(?-i:[FHLMNRSX][B-DF-HJ-NP-TV-Z][A-Z]{0,2})\b)",
    re.I,
)
"""Words after *an*: those with an initial vowel sound."""


class Edit(NamedTuple):
    """Result of a perturbation."""

    text: str
    touched: tuple[Word, ...]  # words that were changed, removed or added; their weight determines the severity


Function = Callable[[Phrase, int, Random, WordPool], "Edit | None"]


def keyed_random(key: str) -> Random:
    """Return a random generator that depends only on a key, such as a seed and a text."""
    return Random(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big"))


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    """Return a random order that uses only ``Random.random``, whose sequence is stable across Python versions."""
    return [item for _, _, item in sorted((rng.random(), place, item) for place, item in enumerate(items))]


def weighted_order(weights: Mapping[T, float], rng: Random) -> list[T]:
    """Return a random order in which items with a large weight tend to come first; zero weights are excluded."""
    weighted = [item for item, weight in weights.items() if weight > 0]
    return sorted(weighted, key=lambda item: rng.random() ** (1 / weights[item]), reverse=True)


def random_choice(items: Sequence[T], rng: Random) -> T:
    """Return a random item."""
    return items[int(rng.random() * len(items))]


def with_words(phrase: Phrase, new: dict[int, str]) -> Edit:
    """Return the phrase with other words at some positions, adjusting *a* or *an* before them."""
    words = list(phrase.words)
    for place, core in new.items():
        words[place] = words[place]._replace(core=core)
        fit_article(words, place)
    touched = tuple(phrase.words[place] for place in sorted(new))
    return Edit(replace(phrase, words=tuple(words)).text, touched)


def fit_article(words: list[Word], place: int) -> None:
    """Adjust *a* or *an* before a position to the word there."""
    if place and words[place - 1].core.lower() in ("a", "an") and not words[place - 1].after:
        article = "an" if VOWEL_SOUND.match(words[place].core) else "a"
        if words[place - 1].core[:1].isupper():
            article = article.capitalize()
        words[place - 1] = words[place - 1]._replace(core=article)
