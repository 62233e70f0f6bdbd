"""Ungrammatical versions of plain English sentences: what teaches a classifier acceptability without people.

Five kinds are the perturbations of :mod:`textmover.perturbations.perturbations` that break sentences, with the degrees
that do so. Six more break the grammar and little else, as learners and generators do: a function word too few or too
many, one in place of another of its class, another form of a word, a word elsewhere, the same words over and over.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType

from textmover.perturbations.perturbations import PERTURBATIONS
from textmover.perturbations.phrases import (
    Edit,
    Function,
    Phrase,
    Word,
    WordPool,
    keyed_random,
    listed,
    mixed,
    one_by_chance,
)
from textmover.reading import read_yaml

_WORDS = read_yaml(Path(__file__).with_name("ungrammatical.yaml"))
CONFUSED = tuple(map(listed, _WORDS["confused"]))
"""Function words that cannot stand for each other, or seldom."""

FORMS: Mapping[str, str] = _WORDS["forms"]
"""Other forms of words that do not follow from their endings."""

INSERTED = listed(_WORDS["inserted"])


def _cores(phrase: Phrase, cores: Mapping[int, str]) -> Phrase:
    words = [word._replace(core=cores.get(place, word.core)) for place, word in enumerate(phrase.words)]
    return replace(phrase, words=tuple(words))


def _exchanged(phrase: Phrase, options: Mapping[int, Sequence[str]], degree: int, rng: Random) -> Edit | None:
    """The words of ``degree`` of the places by one of their options each; articles before them stay as they are."""
    places = mixed([place for place, found in options.items() if found], rng)[:degree]
    if len(places) < degree:
        return None
    changed = _cores(phrase, {place: one_by_chance(options[place], rng) for place in places})
    return Edit(changed.text, tuple(phrase.words[place] for place in places))


def _lacking(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Function words left out."""
    places = mixed([place for place, word in enumerate(phrase.words) if word.core and word.function], rng)[:degree]
    if len(places) < degree or len(phrase.words) < degree + 2:
        return None
    kept = [word for place, word in enumerate(phrase.words) if place not in places]
    return Edit(replace(phrase, words=tuple(kept)).text, tuple(phrase.words[place] for place in places))


def _spare(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Function words where none belongs."""
    words = list(phrase.words)
    if len(words) < 2:
        return None
    for _ in range(degree):
        words.insert(int(rng.random() * (len(words) + 1)), Word("", one_by_chance(INSERTED, rng), ""))
    return Edit(replace(phrase, words=tuple(words)).text, ())


def _confused(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Function words in place of others of their class."""
    options = {}
    for place, word in enumerate(phrase.words):
        lower = word.core.lower()
        options[place] = [other for family in CONFUSED if lower in family for other in family if other != lower]
    return _exchanged(phrase, options, degree, rng)


def _other_forms(word: str) -> list[str]:
    """Other forms of a content word, by its ending."""
    lower = word.lower()
    if lower in FORMS:
        return FORMS[lower].split()
    if lower.endswith("ing") and len(lower) > 5:
        return [lower[:-3], lower[:-3] + "ed", lower[:-3] + "s"]
    if lower.endswith("ed") and len(lower) > 4:
        return [lower[:-2], lower[:-2] + "ing", lower[:-1] + "s" if lower.endswith("eed") else lower[:-2] + "s"]
    if lower.endswith("ly") and len(lower) > 4:
        return [lower[:-2]]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")) and len(lower) > 3:
        return [lower[:-1], lower[:-1] + ("d" if lower.endswith("es") else "ed")]
    if lower.endswith("e"):
        return [lower + "s", lower + "d", lower[:-1] + "ing"]
    return [lower + "s", lower + "ed", lower + "ing"]


def _inflected(
    phrase: Phrase, degree: int, rng: Random, pool: WordPool, known: Container[str] | None = None
) -> Edit | None:
    """Content words in another form, among the words that are known."""
    options = {}
    for place, word in enumerate(phrase.words):
        forms = _other_forms(word.core) if word.replaceable and word.core.islower() else []
        options[place] = [form for form in forms if known is None or form in known]
    return _exchanged(phrase, options, degree, rng)


def _moved(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """A stretch of ``degree`` words elsewhere."""
    cores = [word.core for word in phrase.words]
    if len(cores) < degree + 2:
        return None
    start = int(rng.random() * (len(cores) - degree + 1))
    stretch, rest = cores[start : start + degree], cores[:start] + cores[start + degree :]
    targets = [place for place in range(len(rest) + 1) if place != start]
    target = targets[int(rng.random() * len(targets))]
    new = rest[:target] + stretch + rest[target:]
    return Edit(_cores(phrase, dict(enumerate(new))).text, phrase.words[start : start + degree])


def _looped(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """One or two words said ``degree`` times more, as generators do; half of the time little or nothing follows."""
    words = list(phrase.words)
    if len(words) < 3:
        return None
    width = 1 + int(rng.random() * 2)
    start = int(rng.random() * (len(words) - width + 1))
    stretch = [word._replace(before="", after="") for word in words[start : start + width]]
    rest = words[start + width :]
    if rng.random() < 0.5:
        rest = rest[: int(rng.random() * 2)]
    new = [*words[:start], *stretch * (degree + 1), *rest]
    return Edit(replace(phrase, words=tuple(new)).text, tuple(words[start : start + width]))


UNGRAMMATICAL: Mapping[str, tuple[Function, tuple[int, ...]]] = MappingProxyType(
    {
        "repeat": (PERTURBATIONS["repeat"], (1, 1, 2, 4)),
        "swap": (PERTURBATIONS["swap"], (1, 1, 2, 9)),
        "drop": (PERTURBATIONS["drop"], (1, 2, 4)),
        "insert": (PERTURBATIONS["insert"], (1, 2)),
        "replace": (PERTURBATIONS["replace"], (1, 2)),
        "lacking": (_lacking, (1, 1, 2)),
        "spare": (_spare, (1, 1, 2)),
        "confused": (_confused, (1, 1, 2)),
        "inflected": (_inflected, (1, 1, 2)),
        "moved": (_moved, (1, 1, 2, 3)),
        "looped": (_looped, (1, 2, 3)),
    }
)
"""Kinds of damage, and the degrees that each is drawn with."""


def ungrammatical(
    text: str, kind: str, *, seed: int = 0, pool: WordPool | None = None, known: Container[str] | None = None
) -> str | None:
    """A version of a sentence that is worse English.

    Some versions are acceptable after all (a sentence may do without a word). ``None`` where the kind does not apply.
    ``insert`` and ``replace`` take words of the pool; ``inflected`` makes known words, in lower case.

    Example:
        >>> ungrammatical("The dogs were tired.", "confused")
        'The dogs been tired.'
        >>> ungrammatical("Stop!", "moved") is None
        True
    """
    function, degrees = UNGRAMMATICAL[kind]
    if kind == "inflected":
        function = partial(_inflected, known=known)
    rng = keyed_random(f"{seed}\n{kind}\n{text}")
    pool = pool if pool is not None else WordPool()
    phrase = Phrase.parse(text, pool)
    edit = function(phrase, degrees[int(rng.random() * len(degrees))], rng, pool)
    if edit is None or edit.text.casefold() in {text.casefold(), phrase.text.casefold()}:
        return None
    return edit.text
