"""Word substitutions: filler tokens, neighbours in embedding space, synonyms and antonyms."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from textmover.perturbations.editable_sentences import (
    FUNCTION_WORDS,
    NEGATIVE,
    Edit,
    Phrase,
    WordPool,
    listed,
    random_choice,
    shuffled,
    with_words,
    word_set,
)
from textmover.perturbations.entities import always_capitalised
from textmover.perturbations.parsed_clauses import Parse, word_tags
from textmover.safe_reading import read_yaml

FILLER = "AAA"  # as in RoMe (section 4.6, case 3)

Neighbours = Callable[[str, str], Sequence[str]]
"""Function from a word and its sentence to replacement words, best first."""

ENDINGS = ("ing", "ed", "ly", "est", "er", "s")
"""Endings of word forms: an equal ending suggests an equal form. A parse, if given, determines the word class."""


def random_word(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Replace ``degree`` content words by :data:`FILLER`."""
    places = shuffled([place for place, word in enumerate(phrase.words) if word.replaceable], rng)[:degree]
    fillable = len(places) == degree and all(phrase.words[place].core != FILLER for place in places)
    return with_words(phrase, dict.fromkeys(places, FILLER)) if fillable else None


def substitute(
    neighbours: Neighbours, parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool
) -> Edit | None:
    """Replace ``degree`` content words by neighbours with the greedy search of TextFooler (Jin et al., 2020)."""
    tags = word_tags(phrase, parse) if parse is not None else None
    replacements: dict[int, str] = {}
    for place in shuffled([place for place, word in enumerate(phrase.words) if word.replaceable], rng):
        if len(replacements) == degree:
            break
        core = phrase.words[place].core
        if core != core.lower() or always_capitalised(core.capitalize()) or (tags and tags[place] in ("PROPN", "")):
            continue
        present = {word.core.lower() for word in phrase.words} | set(replacements.values())
        for candidate in neighbours(core, phrase.text):
            if candidate.lower() in present or not _fits(core, candidate):
                continue
            changed = Phrase.parse(with_words(phrase, {place: candidate}).text, WordPool())
            if parse is None or tags is None or word_tags(changed, parse)[place] == tags[place]:
                replacements[place] = candidate
                break
    return with_words(phrase, replacements) if len(replacements) == degree else None


def _fits(word: str, other: str) -> bool:
    """Return whether another word has the same ending but a different stem."""
    if not other.isalpha() or other != other.lower():
        return False
    one, two = (next((ending for ending in ENDINGS if text.endswith(ending)), "") for text in (word, other))
    stems = sorted((word.removesuffix(one).rstrip("e"), other.removesuffix(two).rstrip("e")), key=len)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*stems, strict=False)))
    return one == two and shared < max(4, len(stems[0]) - 1) and shared < len(stems[0])


IRREGULAR_DEGREES = {"good": ("better", "best"), "bad": ("worse", "worst"), "little": ("smaller", "smallest")}
COMPLEMENTS = word_set("complements")


@dataclass(frozen=True)
class AdjectiveTable:
    """Synonyms and antonyms of adjectives, and contexts in which they are not adjectives."""

    synonyms: Mapping[str, tuple[str, ...]]  # adjective to its synonyms
    antonyms: Mapping[str, tuple[str, ...]]  # adjective to its antonyms
    unsure_alone: frozenset[str]  # words that count as adjectives only if a parse says so
    fixed: Mapping[str, frozenset[str]]  # adjective to the following words with which it forms a fixed phrase


def _table(groups: list[tuple[str, ...]], barred: frozenset[str]) -> dict[str, tuple[str, ...]]:
    table: dict[str, dict[str, None]] = {}
    for group in groups:
        for word in group:
            table.setdefault(word, {}).update(dict.fromkeys(other for other in group if other not in {word, *barred}))
    return {word: tuple(choices) for word, choices in table.items() if choices}


@cache
def adjective_table() -> AdjectiveTable:
    """Return the table of ``adjectives.yaml``, read once."""
    raw = read_yaml(Path(__file__).with_name("adjectives.yaml"))
    barred = frozenset(listed(raw["replaced_only"]))
    synonyms, antonyms = (_table([listed(entry) for entry in raw[name]], barred) for name in ("synonyms", "antonyms"))
    fixed = {word: frozenset(nexts) for word, nexts in raw["fixed"].items()}
    return AdjectiveTable(synonyms, antonyms, frozenset(listed(raw["unsure_alone"])), fixed)


def inflected(adjective: str, degree: int) -> str | None:
    """Return the one-word comparative (1) or superlative (2), or ``None`` if it takes *more* and *most*."""
    if adjective in IRREGULAR_DEGREES:
        return IRREGULAR_DEGREES[adjective][degree - 1]
    ending = ("er", "est")[degree - 1]
    syllables = len(re.findall(r"[aeiouy]+", adjective.removesuffix("e")))
    if adjective.endswith(("like", "ed")) or "-" in adjective:
        return None
    if syllables != 1 and not adjective.endswith(("y", "le")):
        return None
    if syllables > 2 or (syllables == 2 and adjective.endswith("ly") and adjective not in ("lovely", "ugly", "early")):
        return None
    if adjective.endswith("y"):
        return re.sub(r"(?<=[^aeiou])y$", "i", adjective) + ending
    if adjective.endswith("e"):
        return adjective + ending[1:]
    if re.search(r"[^aeiou][aeiou][bdgmnpt]$", adjective):
        return adjective + adjective[-1] + ending
    return adjective + ending


def adjective(kind: str, parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Replace ``degree`` adjectives by ``"synonyms"`` or ``"antonyms"``; bind these and ``parse`` for a perturbation.

    A negated adjective gets no antonym: *not unhappy* is hardly the opposite of *not happy*.
    """
    table = getattr(adjective_table(), kind)
    tags = word_tags(phrase, parse) if parse is not None else None
    present = {word.core.lower() for word in phrase.words}
    replacements: dict[int, str] = {}
    for place in shuffled(range(len(phrase.words)), rng):
        if len(replacements) == degree:
            break
        options = [word for word in _others(table, phrase, place, tags) if word not in present]
        if options and (kind == "synonyms" or not _is_denied(phrase, place)):
            replacements[place] = random_choice(options, rng)
            present.add(replacements[place])
    return with_words(phrase, replacements) if len(replacements) == degree else None


def _others(
    table: Mapping[str, tuple[str, ...]], phrase: Phrase, place: int, tags: tuple[str, ...] | None
) -> list[str]:
    """Return replacements of a word in the same form; empty if it is not an adjective of the table."""
    word = phrase.words[place]
    base, form = (word.core, 0) if word.core in table else _degrees(frozenset(table)).get(word.core, ("", 0))
    if not base or word.core != word.core.lower():
        return []
    behind = phrase.words[place + 1] if place + 1 < len(phrase.words) and not word.after else None
    before = phrase.words[place - 1].core.lower() if place and not phrase.words[place - 1].after else ""
    following = behind.core.lower() if behind is not None and not behind.before else ""
    fits = _looks_like_one(base, form, before, following) if tags is None else tags[place] == "ADJ"
    if not fits or following in COMPLEMENTS or following in adjective_table().fixed.get(base, ()):
        return []
    if before == "as" and (following == "as" or base == "possible"):
        return []
    if form:
        return [form_of_choice for choice in table[base] if (form_of_choice := inflected(choice, form)) is not None]
    return [choice for choice in table[base] if before not in ("more", "most") or inflected(choice, 1) is None]


@cache
def _degrees(adjectives: frozenset[str]) -> dict[str, tuple[str, int]]:
    """Return the adjective of each comparative (1) and superlative (2)."""
    return {form: (one, n) for one in sorted(adjectives) for n in (1, 2) if (form := inflected(one, n)) is not None}


def _looks_like_one(base: str, form: int, before: str, following: str) -> bool:
    if base in adjective_table().unsure_alone:
        return False
    if form and not following:  # *he ran quicker*
        return before in FUNCTION_WORDS
    return before != "to"


def _is_denied(phrase: Phrase, place: int) -> bool:
    near = {word.core.lower().replace("’", "'") for word in phrase.words[max(0, place - 4) : place]}
    return bool(near & NEGATIVE) or any(word.endswith("n't") for word in near)
