"""Replacement of names by other names of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from textmover.perturbations.editable_sentences import (
    Edit,
    Phrase,
    Word,
    WordPool,
    fit_article,
    listed,
    random_choice,
    shuffled,
)
from textmover.perturbations.parsed_clauses import Parse, word_tags
from textmover.safe_reading import read_yaml

MONTHS_THAT_ARE_WORDS = ("March", "May")

NAMES = {kind: listed(names) for kind, names in read_yaml(Path(__file__).with_name("names.yaml")).items()}
TITLES = frozenset(NAMES.pop("titles"))  # capitalised words that are neither persons nor places
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names}

DETERMINERS = frozenset(listed("the a an this that these those my your his her our their"))
POSSESSIVE = ("'s", "’s")
PERSONS = dict.fromkeys(("first_names", "surnames"), "people")
JOINING = frozenset(("and", "or", "&", ""))  # words between names whose order is arbitrary
PLACED = frozenset(listed("in near at around outside inside throughout"))  # prepositions before places

LISTS = {"people": ("first_names", "surnames"), "places": ("cities",), "": ("surnames",)}
"""Name lists to draw replacements from, one list for each word of a name; by kind, if several or other lists."""


def always_capitalised(word: str) -> bool:
    """Return whether a word is capitalised inside a sentence, too, according to the lists."""
    return word in KIND_OF or word in MONTHS_THAT_ARE_WORDS


class Name(NamedTuple):
    """A name in a phrase."""

    start: int  # index of the first word
    stop: int  # index after the last word
    words: tuple[str, ...]  # words without a possessive ending
    kind: str  # kind in the name lists, or empty
    determined: bool  # whether a determiner precedes it


def names_in(phrase: Phrase, parse: Parse | None = None, pool: WordPool | None = None) -> tuple[Name, ...]:
    """Return the names of a phrase, by the tags of a parse or else by their capitals."""
    marked = _marked_by_parse(phrase, parse) if parse is not None else _marked_by_capital(phrase, pool or WordPool())
    cores = [word.core for word in _written(phrase)]
    bare = [core[:-2] if core.endswith(POSSESSIVE) else core for core in cores]
    kinds = [KIND_OF.get(core, "") for core in bare]
    names: list[Name] = []
    start = 0
    while start < len(phrase.words):
        stop = start
        kind = kinds[start] if marked[start] else ""
        while stop < len(phrase.words) and marked[stop]:
            stop += 1
            word = phrase.words[stop - 1]
            alone = kind in ("days", "months", "peoples") or word.core.endswith(POSSESSIVE) or word.after
            if alone or stop == len(phrase.words) or phrase.words[stop].before:
                break
            if kinds[stop] not in ("", "surnames"):
                break
        if stop > start:
            before = phrase.words[start - 1] if start else Word("", "", "")
            determined = before.core.lower() in DETERMINERS and not before.after
            if stop > start + 1 or not kind:
                kind = "people" if kind == "first_names" else "places" if before.core.lower() in PLACED else ""
            names.append(Name(start, stop, tuple(bare[start:stop]), kind, determined))
        start = max(stop, start + 1)
    return tuple(names)


def entity(parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Replace all occurrences of ``degree`` names; a perturbation once ``parse`` (or ``None``) is bound."""
    names = names_in(phrase, parse, pool)
    present = {word for name in names for word in name.words}
    chosen: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name in shuffled(names, rng):
        if len(chosen) == degree:
            break
        if name.words not in chosen:
            used = present | {word for words in chosen.values() for word in words}
            replacement = _other(name, phrase, parse, pool, used, rng)
            if replacement is not None:
                chosen[name.words] = replacement
    if len(chosen) < degree:
        return None
    words = list(phrase.words)
    touched: list[Word] = []
    for name in sorted((name for name in names if name.words in chosen), reverse=True):
        _rename(words, name, chosen[name.words])
        fit_article(words, name.start)
        touched += phrase.words[name.start : name.stop]
    return Edit(replace(phrase, words=tuple(words)).text, tuple(touched))


def _rename(words: list[Word], name: Name, cores: Sequence[str]) -> None:
    """Replace a name by other words, keeping its ending and punctuation."""
    old = words[name.start : name.stop]
    new = [Word("", core, "") for core in cores]
    new[0] = new[0]._replace(before=old[0].before)
    new[-1] = new[-1]._replace(core=new[-1].core + old[-1].core[len(name.words[-1]) :], after=old[-1].after)
    words[name.start : name.stop] = new


def roles(parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Swap two names of one kind; a perturbation once ``parse`` (or ``None``) is bound.

    Adjacent names and names joined by *and* or *or* are not swapped, since their order is arbitrary.
    """
    names = names_in(phrase, parse, pool)
    pairs = [
        (first, second)
        for place, first in enumerate(names)
        for second in names[place + 1 :]
        if first.words != second.words
        and PERSONS.get(first.kind, first.kind) == PERSONS.get(second.kind, second.kind)
        and first.determined == second.determined
        and {word.core.lower() for word in phrase.words[first.stop : second.start]} - JOINING
    ]
    if not pairs:
        return None
    first, second = shuffled(pairs, rng)[0]
    words = list(phrase.words)
    touched = words[first.start : first.stop] + words[second.start : second.stop]
    for name, other in ((second, first), (first, second)):
        _rename(words, name, other.words)
    return Edit(replace(phrase, words=tuple(words)).text, tuple(touched))


def _marked_by_parse(phrase: Phrase, parse: Parse) -> list[bool]:
    tags = word_tags(phrase, parse)
    return [
        tag == "PROPN" and word.core[:1].isalpha() and word.core.rstrip(".") not in TITLES and "@" not in word.core
        for tag, word in zip(tags, _written(phrase), strict=True)
    ]


def _marked_by_capital(phrase: Phrase, pool: WordPool) -> list[bool]:
    long = [word.core for word in _written(phrase) if word.core.isalpha() and not word.function]
    capitals = [core for core in long if core[:1].isupper()]
    if phrase.text.isupper() or (len(capitals) > 3 and len(capitals) > 4 * (len(long) - len(capitals))):  # a headline
        return [False] * len(phrase.words)
    marked = []
    for place, (word, written) in enumerate(zip(phrase.words, _written(phrase), strict=True)):
        core = written.core.removesuffix("'s").removesuffix("’s")
        listed_name = core in KIND_OF and phrase.capital
        looks = word.core[:1].isupper() or (place == 0 and listed_name)
        starts = place > 0 and phrase.words[place - 1].after[-1:] in (".", "!", "?", ":", "…")
        name = core.isalpha() and len(core) > 1 and core not in TITLES and not written.function
        marked.append(looks and name and (not starts or listed_name or pool.is_name(core)))
    return marked


def _written(phrase: Phrase) -> list[Word]:
    """Return the words as in the text, the first one with its capital."""
    words = list(phrase.words)
    if words and phrase.capital:
        words[0] = words[0]._replace(core=words[0].core[:1].upper() + words[0].core[1:])
    return words


def _other(
    name: Name, phrase: Phrase, parse: Parse | None, pool: WordPool, used: set[str], rng: Random
) -> tuple[str, ...] | None:
    """Return another name of the same kind, from the texts of the pool or from the lists."""
    texts = tuple(text for text in pool.texts if text != phrase.text and text not in pool.avoid)
    met = {name_key for text in texts for name_key in _names_of(text, parse, pool)}
    candidates = sorted(
        words
        for words, kind, determined in met
        if kind == name.kind
        and (determined == name.determined or kind)
        and len(words) == len(name.words)
        and used.isdisjoint(words)
    )
    lists = LISTS.get(name.kind, (name.kind,))
    fitting = len(lists) == len(name.words) or name.kind == "places"
    if name.kind not in LISTS:
        candidates = sorted({*candidates, *((word,) for word in NAMES[name.kind] if word not in used)})
    elif not candidates and fitting and not name.determined:
        free = [[word for word in NAMES[kind] if word not in used] for kind in lists]
        return tuple(random_choice(words, rng) for words in free)
    return random_choice(candidates, rng) if candidates else None


@lru_cache(maxsize=4096)
def _names_of(text: str, parse: Parse | None, pool: WordPool) -> frozenset[tuple[tuple[str, ...], str, bool]]:
    names = names_in(Phrase.parse(text, pool), parse, pool)
    return frozenset((name.words, name.kind, name.determined) for name in names)
