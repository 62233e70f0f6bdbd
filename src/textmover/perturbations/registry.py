"""Registry of all perturbations: summaries, units of degrees, requirements and aliases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from textmover.perturbations.editable_sentences import Function, Phrase, WordPool
from textmover.perturbations.entities import entity, roles
from textmover.perturbations.parsed_clauses import Parse, Parses
from textmover.perturbations.passive_voice import change_voice, to_active, to_passive
from textmover.perturbations.perturbations import PERTURBATIONS, Perturbation, check_length, notation, perturb
from textmover.perturbations.severity import shipped_table
from textmover.perturbations.word_substitution import Neighbours, adjective, random_word, substitute
from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean

NEIGHBOURS = 128  # texts that provide words, names and unrelated sentences for each other
FEW = 16  # minimum size of the last chunk; a smaller one uses the last ``NEIGHBOURS`` texts
ATTEMPTS = 4  # tries for each version, since some repeat a version


class Kind(NamedTuple):
    """Properties of a perturbation."""

    summary: str
    degree: str  # unit of the degree
    needs: str = ""  # ``"parser"`` or ``"neighbours"`` if required; else empty


KINDS: Mapping[str, Kind] = {
    "identity": Kind("the text as it is", "1"),
    "repeat": Kind("words said twice in a row", "words"),
    "swap": Kind("neighbouring words exchanged, or all words in random order", "pairs; 9: all words"),
    "drop": Kind("words left out", "words"),
    "insert": Kind("unrelated words put in", "words"),
    "truncate": Kind("the end cut off", "per cent of the words"),
    "replace": Kind("content words replaced by unrelated ones", "words"),
    "number": Kind("figures and number words changed", "numbers"),
    "negate": Kind("clauses turned into their opposite", "clauses"),
    "unrelated": Kind("another sentence altogether", "1"),
    "entity": Kind("names replaced by other names", "names"),
    "roles": Kind("two names exchanged", "1"),
    "notation": Kind("numbers, shares and dates in another notation", "numbers"),
    "synonym": Kind("adjectives replaced by synonyms", "adjectives"),
    "antonym": Kind("adjectives replaced by antonyms", "adjectives"),
    "random-word": Kind("content words replaced by AAA", "words"),
    "substitute": Kind("words replaced by neighbours in embedding space", "words", "neighbours"),
    "passive": Kind("an active clause in the passive", "1", "parser"),
    "active": Kind("a passive clause in the active", "1", "parser"),
}
"""All perturbations, in the order of listings."""

ALIASES: Mapping[str, tuple[str, tuple[int, ...] | None]] = {
    "repetition": ("repeat", None),
    "deletion": ("drop", None),
    "shuffle": ("swap", (9,)),
    "negation": ("negate", None),
    "number-change": ("number", None),
    "entity-replacement": ("entity", None),
    "adjective-synonym": ("synonym", None),
    "adjective-antonym": ("antonym", None),
    "aaa": ("random-word", None),
    "word-substitution": ("substitute", None),
}
"""Aliases: name of the perturbation, and its degrees if limited."""


def all_perturbations(parse: Parse | None = None, neighbours: Neighbours | None = None) -> Mapping[str, Function]:
    """Return the available functions by name, for :func:`~textmover.perturbations.perturbations.perturb`.

    Args:
        parse: Parser that identifies adjectives and names; required for ``passive`` and ``active``.
        neighbours: Neighbour search; required for ``substitute``.

    Example:
        >>> kinds = all_perturbations()
        >>> perturb("We live in a beautiful house.", "synonym", perturbations=kinds).text
        'We live in a lovely house.'
        >>> "passive" in kinds
        False
    """
    functions: dict[str, Function] = {
        **PERTURBATIONS,
        "entity": partial(entity, parse),
        "roles": partial(roles, parse),
        "notation": notation,
        "synonym": partial(adjective, "synonyms", parse),
        "antonym": partial(adjective, "antonyms", parse),
        "random-word": random_word,
    }
    if neighbours is not None:
        functions["substitute"] = partial(substitute, neighbours, parse)
    if parse is not None:
        functions |= {
            "passive": partial(change_voice, to_passive, parse),
            "active": partial(change_voice, to_active, parse),
        }
    return functions


def resolve_types(names: Sequence[str], degrees: Sequence[int] | None = None) -> dict[str, tuple[int, ...]]:
    """Resolve names and aliases to perturbations with their degrees.

    Args:
        names: Keys of :data:`KINDS` or :data:`ALIASES`.
        degrees: Degrees to use, as far as a perturbation has them; ``None`` uses the mildest of each.

    Example:
        >>> resolve_types(["deletion", "shuffle", "negate"], [1, 2])
        {'drop': (1, 2), 'swap': (9,), 'negate': (1, 2)}
    """
    table = shipped_table()
    resolved: dict[str, tuple[int, ...]] = {}
    for name in names:
        if name not in KINDS and name not in ALIASES:
            way_out = did_you_mean(name, [*KINDS, *ALIASES], "choose one of these.")
            raise InputError(
                f"Expected `types` to be among {', '.join(KINDS)} (or {', '.join(ALIASES)}), but got {name!r}: "
                f"{way_out}"
            )
        kind, only = ALIASES.get(name, (name, None))
        available = table.degrees(kind)
        selected = only or (available[:1] if degrees is None else tuple(one for one in available if one in degrees))
        if not selected:
            raise InputError(
                f"Expected `degrees` to hold one of {', '.join(map(str, available))} for {name}, but got "
                f"{', '.join(map(str, degrees or ()))}: add one, or leave {name} out."
            )
        resolved[kind] = tuple(sorted({*resolved.get(kind, ()), *selected}))
    return resolved


def every_type(degrees: Sequence[int] | None, without: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Return all perturbations except ``without``, as far as they have one of the degrees."""
    names = [name for name in KINDS if name not in without]
    if degrees is not None:
        names = [name for name in names if set(degrees) & set(shipped_table().degrees(name))]
    if not names:
        raise InputError(
            "Expected `degrees` to hold one that some type has, but got none: see `textmover perturb --list`."
        )
    return resolve_types(names, degrees)


def read_degrees(given: Sequence[str] | None) -> list[int] | None:
    """Parse degrees from text, also comma-separated; ``all`` gives all existing degrees."""
    if given is None:
        return None
    entries = [entry for text in given for entry in text.split(",") if entry]
    if entries == ["all"]:
        return sorted({degree for name in KINDS for degree in shipped_table().degrees(name)})
    if not entries or not all(re.fullmatch(r"[1-9]\d{0,8}", entry) for entry in entries):
        raise InputError(f"Expected `degrees` to be whole numbers from 1 on, or 'all', but got {' '.join(given)!r}.")
    return [int(entry) for entry in entries]


def perturb_texts(
    texts: Sequence[str],
    types: Mapping[str, Sequence[int]],
    *,
    versions: int = 1,
    seed: int = 0,
    parses: Parses | None = None,
    neighbours: Neighbours | None = None,
) -> Iterator[tuple[int, list[Perturbation]]]:
    """Yield the index of each text with all requested perturbations that apply to it, none for an empty text.

    Replacement words, names and sentences come from neighbouring texts; all other choices depend only on text and seed.

    Args:
        texts: The texts, in English.
        types: Perturbations with their degrees, as from :func:`resolve_types`.
        versions: Maximum number of different results for each type and degree.
        seed: Seed of all choices.
        parses: Parser with cache, for batches of texts.
        neighbours: See :func:`all_perturbations`.

    Example:
        >>> for place, made in perturb_texts(["The lake was frozen.", "Go."], {"negate": (1,), "drop": (1,)}):
        ...     print(place, [one.text for one in made])
        0 ['The lake was not frozen.', 'The lake frozen.']
        1 []
    """
    kinds = all_perturbations(parses, neighbours)
    for name in types:
        if name not in kinds and name in KINDS:
            raise InputError(
                f"Expected a {KINDS[name].needs.removesuffix('s')} {'search ' if name == 'substitute' else ''}for "
                f"{name}, but got none: give `{'neighbours' if name == 'substitute' else 'parses'}`, or leave it out."
            )
    texts = [texts] if isinstance(texts, str) else list(texts)
    for number, text in enumerate(texts, start=1):
        check_length(text, f"text {number}")
    for start in range(0, len(texts), NEIGHBOURS):
        chunk = texts[start : start + NEIGHBOURS]
        pool = WordPool(chunk if len(chunk) >= FEW else texts[-NEIGHBOURS:])
        if parses is not None:
            parses.prepare(Phrase.parse(text, pool).text for text in chunk if text.strip())
        for place, text in enumerate(chunk, start=start):
            results = [
                result
                for name, degrees in types.items()
                for degree in degrees
                for result in (_versions(text, name, degree, versions, seed, pool, kinds) if text.strip() else ())
            ]
            yield place, results


def _versions(
    text: str, name: str, degree: int, versions: int, seed: int, pool: WordPool, kinds: Mapping[str, Function]
) -> list[Perturbation]:
    versions_found: dict[str, Perturbation] = {}
    for attempt in range(1 if versions == 1 else ATTEMPTS * versions):
        result = perturb(text, name, degree, seed=seed + attempt, pool=pool, perturbations=kinds)
        if result is not None:
            versions_found.setdefault(result.text, result)
        if len(versions_found) == versions or (result is None and attempt >= ATTEMPTS):
            break
    return list(versions_found.values())
