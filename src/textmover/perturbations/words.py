"""Word substitutions: a meaningless token, a neighbour in a vector space, a synonym or an antonym."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from textmover.perturbations.clauses import Parse, word_tags
from textmover.perturbations.entities import always_capitalised
from textmover.perturbations.sentence_edits import (
    FUNCTION_WORDS,
    NEGATIVE,
    Edit,
    Phrase,
    WordPool,
    listed,
    mixed,
    one_by_chance,
    with_words,
    word_set,
)
from textmover.safe_reading import read_yaml

FILLER = "AAA"  # as in RoMe (section 4.6, case 3)

Neighbours = Callable[[str, str], Sequence[str]]
"""A word and the sentence that it stands in to the words that may take its place, the best first."""

ENDINGS = ("ing", "ed", "ly", "est", "er", "s")
"""Endings of word forms: the same ending is likely the same form. A parse, if present, decides on the word class."""


def random_word(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """``degree`` content words replaced by :data:`FILLER`."""
    places = mixed([place for place, word in enumerate(phrase.words) if word.replaceable], rng)[:degree]
    fillable = len(places) == degree and all(phrase.words[place].core != FILLER for place in places)
    return with_words(phrase, dict.fromkeys(places, FILLER)) if fillable else None


def substitute(
    neighbours: Neighbours, parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool
) -> Edit | None:
    """``degree`` content words replaced by neighbours, by the greedy search of TextFooler (Jin et al., 2020)."""
    tags = word_tags(phrase, parse) if parse is not None else None
    new: dict[int, str] = {}
    for place in mixed([place for place, word in enumerate(phrase.words) if word.replaceable], rng):
        if len(new) == degree:
            break
        core = phrase.words[place].core
        if core != core.lower() or always_capitalised(core.capitalize()) or (tags and tags[place] in ("PROPN", "")):
            continue
        present = {word.core.lower() for word in phrase.words} | set(new.values())
        for other in neighbours(core, phrase.text):
            if other.lower() in present or not _fits(core, other):
                continue
            changed = Phrase.parse(with_words(phrase, {place: other}).text, WordPool())
            if parse is None or tags is None or word_tags(changed, parse)[place] == tags[place]:
                new[place] = other
                break
    return with_words(phrase, new) if len(new) == degree else None


def _fits(word: str, other: str) -> bool:
    """Return whether another word is of the same form and not of the same stem."""
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
    """Synonyms and antonyms of adjectives, and words beside which they are not adjectives."""

    synonyms: Mapping[str, tuple[str, ...]]  # adjective to those that may take its place
    antonyms: Mapping[str, tuple[str, ...]]  # adjective to those that say the opposite
    unsure_alone: frozenset[str]  # words that are adjectives only where a parse says so
    fixed: Mapping[str, frozenset[str]]  # adjective to the words before which it belongs to a fixed phrase


def _table(groups: list[tuple[str, ...]], barred: frozenset[str]) -> dict[str, tuple[str, ...]]:
    table: dict[str, dict[str, None]] = {}
    for group in groups:
        for word in group:
            table.setdefault(word, {}).update(dict.fromkeys(other for other in group if other not in {word, *barred}))
    return {word: tuple(others) for word, others in table.items() if others}


@cache
def adjective_table() -> AdjectiveTable:
    """The table of ``adjectives.yaml``, read once."""
    raw = read_yaml(Path(__file__).with_name("adjectives.yaml"))
    barred = frozenset(listed(raw["replaced_only"]))
    synonyms, antonyms = (_table([listed(entry) for entry in raw[name]], barred) for name in ("synonyms", "antonyms"))
    fixed = {word: frozenset(nexts) for word, nexts in raw["fixed"].items()}
    return AdjectiveTable(synonyms, antonyms, frozenset(listed(raw["unsure_alone"])), fixed)


def inflected(adjective: str, degree: int) -> str | None:
    """The comparative (1) or superlative (2) in one word, or ``None`` where it takes *more* and *most*."""
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
    """``degree`` adjectives by ``"synonyms"`` or ``"antonyms"``, as a perturbation once they and ``parse`` are bound.

    One that is denied has no antonym: *not unhappy* is hardly the opposite of *not happy*.
    """
    table = getattr(adjective_table(), kind)
    tags = word_tags(phrase, parse) if parse is not None else None
    present = {word.core.lower() for word in phrase.words}
    new: dict[int, str] = {}
    for place in mixed(range(len(phrase.words)), rng):
        if len(new) == degree:
            break
        options = [one for one in _others(table, phrase, place, tags) if one not in present]
        if options and (kind == "synonyms" or not _is_denied(phrase, place)):
            new[place] = one_by_chance(options, rng)
            present.add(new[place])
    return with_words(phrase, new) if len(new) == degree else None


def _others(
    table: Mapping[str, tuple[str, ...]], phrase: Phrase, place: int, tags: tuple[str, ...] | None
) -> list[str]:
    """Replacements of a word in the same form; none if it is not an adjective of the table."""
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
    if before == following == "as":
        return []
    if form:
        return [other for one in table[base] if (other := inflected(one, form)) is not None]
    return [one for one in table[base] if before not in ("more", "most") or inflected(one, 1) is None]


@cache
def _degrees(adjectives: frozenset[str]) -> dict[str, tuple[str, int]]:
    """The adjective behind each comparative (1) and superlative (2)."""
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
