"""All perturbations there are: what each does, what its degree counts, what it needs, and under which other names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from textmover.perturbations.clauses import Parse, Parses
from textmover.perturbations.entities import entity, roles
from textmover.perturbations.passive_voice import to_active, to_passive, turned
from textmover.perturbations.perturbations import PERTURBATIONS, Perturbation, check_length, notation, perturb
from textmover.perturbations.sentence_edits import Function, Phrase, WordPool
from textmover.perturbations.severity import shipped_table
from textmover.perturbations.words import Neighbours, adjective, random_word, substitute
from textmover.types import InputError
from textmover.types.arguments import did_you_mean

NEIGHBOURS = 128  # texts that give one another words, names and unrelated sentences
FEW = 16  # texts at the end of a list that are too few to be neighbours of one another
ATTEMPTS = 4  # tries for each version, of which some give what is there already


class Kind(NamedTuple):
    """Properties of a perturbation."""

    summary: str
    degree: str  # what its degree counts
    needs: str = ""  # ``"parser"`` or ``"neighbours"`` where it cannot be made without; else empty


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
"""Every perturbation, in the order in which they are listed."""

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
"""Other names: the perturbation that is meant, and its degrees where not all of them are."""


def all_perturbations(parse: Parse | None = None, neighbours: Neighbours | None = None) -> Mapping[str, Function]:
    """The perturbations that can be made with what there is.

    Args:
        parse: Decides what an adjective or a name is, and makes ``passive`` and ``active`` possible.
        neighbours: Makes ``substitute`` possible.

    Returns:
        Name to function, for :func:`~textmover.perturbations.perturbations.perturb`.

    Example:
        >>> kinds = all_perturbations()
        >>> perturb("We live in a beautiful house.", "synonym", perturbations=kinds).text
        'We live in a lovely house.'
        >>> "passive" in kinds
        False
    """
    found: dict[str, Function] = {
        **PERTURBATIONS,
        "entity": partial(entity, parse),
        "roles": partial(roles, parse),
        "notation": notation,
        "synonym": partial(adjective, "synonyms", parse),
        "antonym": partial(adjective, "antonyms", parse),
        "random-word": random_word,
    }
    if neighbours is not None:
        found["substitute"] = partial(substitute, neighbours, parse)
    if parse is not None:
        found |= {"passive": partial(turned, to_passive, parse), "active": partial(turned, to_active, parse)}
    return found


def resolve_types(names: Sequence[str], degrees: Sequence[int] | None = None) -> dict[str, tuple[int, ...]]:
    """Names, other names among them, as perturbations with their degrees.

    Args:
        names: Keys of :data:`KINDS` or :data:`ALIASES`.
        degrees: The wanted ones, of which each perturbation takes those that it has; ``None`` takes the mildest.

    Example:
        >>> resolve_types(["deletion", "shuffle", "negate"], [1, 2])
        {'drop': (1, 2), 'swap': (9,), 'negate': (1, 2)}
    """
    table = shipped_table()
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        if name not in KINDS and name not in ALIASES:
            way_out = did_you_mean(name, [*KINDS, *ALIASES], "choose one of these.")
            raise InputError(
                f"Expected `types` to be among {', '.join(KINDS)} (or {', '.join(ALIASES)}), but got {name!r}: "
                f"{way_out}"
            )
        kind, only = ALIASES.get(name, (name, None))
        known = table.degrees(kind)
        wanted = only or (known[:1] if degrees is None else tuple(one for one in known if one in degrees))
        if not wanted:
            raise InputError(
                f"Expected `degrees` to hold one of {', '.join(map(str, known))} for {name}, but got "
                f"{', '.join(map(str, degrees or ()))}: add one, or leave {name} out."
            )
        found[kind] = tuple(sorted({*found.get(kind, ()), *wanted}))
    return found


def every_type(degrees: Sequence[int] | None, without: Collection[str]) -> dict[str, tuple[int, ...]]:
    """All perturbations but some, as far as they have one of the degrees."""
    names = [name for name in KINDS if name not in without]
    if degrees is not None:
        names = [name for name in names if set(degrees) & set(shipped_table().degrees(name))]
    if not names:
        raise InputError(
            "Expected `degrees` to hold one that some type has, but got none: see `textmover perturb --list`."
        )
    return resolve_types(names, degrees)


def read_degrees(given: Sequence[str] | None) -> list[int] | None:
    """Degrees as text, also several with commas between them; all that there are for ``all``."""
    if given is None:
        return None
    entries = [entry for one in given for entry in one.split(",") if entry]
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
    """Every wanted perturbation of every text, where it can be applied.

    Words, names and sentences that replace others come from neighbouring texts; all else follows from text and seed.

    Args:
        texts: The texts, in English.
        types: Perturbations with their degrees, as :func:`resolve_types` gives them.
        versions: Different results for each type and degree, at most.
        seed: Seed of all choices.
        parses: Parses of the texts, made in batches.
        neighbours: See :func:`all_perturbations`.

    Yields:
        Position of a text and its perturbations, text after text; none where the text is empty.

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
    for number, text in enumerate(texts, start=1):
        check_length(text, f"text {number}")
    for start in range(0, len(texts), NEIGHBOURS):
        chunk = texts[start : start + NEIGHBOURS]
        pool = WordPool(chunk if len(chunk) >= FEW else texts[-NEIGHBOURS:])
        if parses is not None:
            parses.prepare(Phrase.parse(text, pool).text for text in chunk if text.strip())
        for place, text in enumerate(chunk, start=start):
            made = [
                one
                for name, degrees in types.items()
                for degree in degrees
                for one in (_versions(text, name, degree, versions, seed, pool, kinds) if text.strip() else ())
            ]
            yield place, made


def _versions(
    text: str, name: str, degree: int, versions: int, seed: int, pool: WordPool, kinds: Mapping[str, Function]
) -> list[Perturbation]:
    found: dict[str, Perturbation] = {}
    for attempt in range(1 if versions == 1 else ATTEMPTS * versions):
        made = perturb(text, name, degree, seed=seed + attempt, pool=pool, perturbations=kinds)
        if made is not None:
            found.setdefault(made.text, made)
        if len(found) == versions or (made is None and attempt >= ATTEMPTS):
            break
    return list(found.values())
