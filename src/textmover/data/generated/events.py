"""Events of shipped files: told twice in other words, and told wrongly in nearly the same ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from textmover.data.generated.acceptability import ungrammatical
from textmover.perturbations.sentence_edits import by_weight, keyed_random, mixed, one_by_chance
from textmover.perturbations.severity import shipped_table
from textmover.safe_reading import read_yaml
from textmover.types import Segment

# The shipped files by name: short events, and longer ones in more different words, of daily life and of news.
BOOKS = {name: Path(__file__).with_name(f"{name}.yaml") for name in ("events", "stories", "reports")}

SLOT = re.compile(r"\{(([a-z]+)\d?)\}")  # of a wording: its name and what it holds
NUMBERS = "123"  # ends of the names of slots of one kind
TIMES = frozenset(("day", "month", "date", "fulldate", "year", "age", "hour", "span"))
FIGURES = TIMES | {"small", "count", "money", "percent", "distance"}  # slots that hold figures and dates, not names
FRAMES = (0, 0, 1, 1, 1, 2, 2)  # numbers of frames around a wording, one by chance
NEVER_TRAINED = 6  # every so many-th event of a file is never trained on: contrasts are measured with these

REWORDING, EQUIVALENT = "paraphrase", "notation"  # kinds that leave what is said, the second by rewriting figures
GRAMMAR = "grammar"  # kind of a copy that says the same in worse English; as bad as a word said twice
VERSIONS = {"antonym": "opposite", "replace": "other"}  # kinds of wrong copies that a file holds, and its key for them
WRONG_EVENTS = ("number", "entity", "roles", *VERSIONS, "insert", GRAMMAR)


@dataclass(frozen=True)
class Telling:
    """An event of a file put into words: which wording, with which values, in which frames."""

    book: Mapping[str, Any]
    event: Mapping[str, Sequence[str]]
    way: int
    values: Mapping[str, tuple[int, int]]  # by slot: which value, and which way to say it
    frames: tuple[tuple[int, int], ...]  # which frame, and which way to put it
    version: str = "ways"  # or a wrong one


@cache
def book_of(name: str) -> Any:
    """The events of a shipped file, its slots and its frames, or those of the file that it is like."""
    book = read_yaml(BOOKS[name])
    return {**book_of(book["like"]), **book} if "like" in book else book


def event_segments(
    events: int,
    seed: int,
    types: Mapping[str, float] | None = None,
    *,
    books: Sequence[str] = ("events",),
    trained: bool = True,
) -> list[Segment]:
    """Tellings of events beside a reference, rated from 0 to 100, with the group ``contrast``, the kind of change.

    Each event has a rewording, two near copies with one wrong fact, and where it has figures these in another notation.
    Kinds of wrong facts are chosen by the weights ``types``; if ``None``, all alike.
    All follow from the number of the event and the seed. The events of the files ``books`` that are trained on are not
    those that metrics are judged with (``trained=False``).
    """
    segments: list[Segment] = []
    for number in range(events):
        rng = keyed_random(f"{seed}\nevent {number}")
        told = _drawn(rng, books, trained)
        reference = tell(told)
        made = {REWORDING: tell(_reworded(told, rng)), EQUIVALENT: tell(_other_words(told, rng))}
        kind_of_value, value = _with_another_value(told, rng)
        wrong = {
            "roles": _exchanged(told),
            **{kind: replace(told, version=key) if key in told.event else None for kind, key in VERSIONS.items()},
            kind_of_value: value,
            "insert": _framed(told, rng),
        }
        copies = {kind: tell(one) for kind, one in wrong.items() if one is not None}
        if (broken := ungrammatical(reference, "confused", seed=number)) is not None:
            copies[GRAMMAR] = broken
        weights = None if types is None else {kind: types.get(kind, 0.0) for kind in copies}
        order = mixed(list(copies), rng) if weights is None else by_weight(weights, rng)
        made |= {kind: copies[kind] for kind in order[:2]}
        segments += [
            Segment(text, (reference,), score=_rating(kind, reference, text), groups={"contrast": kind})
            for kind, text in made.items()
            if text != reference
        ]
    return segments


def tell(told: Telling) -> str:
    """The sentence that tells an event."""
    text = told.event[told.version][told.way]
    for frame, way in told.frames:
        text = told.book["frames"][frame][way].replace("{}", text)
    slots = told.book["slots"]
    filled = SLOT.sub(lambda found: slots[found[2]][told.values[found[1]][0]][told.values[found[1]][1]], text)
    return f"{filled[0].upper()}{filled[1:]}."


def _rating(kind: str, reference: str, text: str) -> float:
    """Rating from 0 to 100 by the severity of a kind and, where a copy is wrong, the share of the words that went."""
    words = Counter(reference.split())
    share = 0.0 if kind in (REWORDING, EQUIVALENT) else (words - Counter(text.split())).total() / words.total()
    return round(100 * (1 - shipped_table().severity("repeat" if kind == GRAMMAR else kind, 1, share)), 1)


def _drawn(rng: Random, books: Sequence[str], trained: bool) -> Telling:
    events = [
        (book_of(name), event)
        for name in books
        for number, event in enumerate(book_of(name)["events"])
        if (number % NEVER_TRAINED != 0) == trained
    ]
    book, event = one_by_chance(events, rng)
    order = mixed(range(len(book["frames"])), rng)[: one_by_chance(FRAMES, rng)]
    frames = tuple((frame, int(rng.random() * len(book["frames"][frame]))) for frame in order)
    way = int(rng.random() * len(event["ways"]))
    return _with_values(Telling(book, event, way, {}, frames), rng)


def _with_values(told: Telling, rng: Random) -> Telling:
    """The telling with a value by chance for each slot that has none, of one kind no two alike."""
    book, values = told.book, dict(told.values)
    texts = [told.event["ways"][told.way], *(book["frames"][frame][way] for frame, way in told.frames)]
    for name, kind in SLOT.findall(" ".join(texts)):
        taken = {value for other, (value, _) in values.items() if other.rstrip(NUMBERS) == kind}
        free = [value for value in range(len(book["slots"][kind])) if value not in taken]
        if name not in values:
            value = one_by_chance(free, rng)
            values[name] = (value, int(rng.random() * len(book["slots"][kind][value])))
    return replace(told, values=values)


def _reworded(told: Telling, rng: Random) -> Telling:
    others = [way for way in range(len(told.event["ways"])) if way != told.way]
    frames = tuple((frame, int(rng.random() * len(told.book["frames"][frame]))) for frame, _ in told.frames)
    return _other_words(replace(told, way=one_by_chance(others, rng), frames=frames), rng)


def _other_words(told: Telling, rng: Random) -> Telling:
    """The telling with its values said in words by chance."""
    slots = told.book["slots"]
    ways = {name: len(slots[name.rstrip(NUMBERS)][value]) for name, (value, _) in told.values.items()}
    values = {name: (value, int(rng.random() * ways[name])) for name, (value, _) in told.values.items()}
    return replace(told, values=values)


def _exchanged(told: Telling) -> Telling | None:
    """The telling with the first and the second of a kind exchanged."""
    for name, value in told.values.items():
        other = f"{name[:-1]}2"
        if name.endswith("1") and other in told.values:
            return replace(told, values={**told.values, name: told.values[other], other: value})
    return None


def _with_another_value(told: Telling, rng: Random) -> tuple[str, Telling]:
    name = one_by_chance(list(told.values), rng)
    rest = {other: value for other, value in told.values.items() if other != name}
    while (found := _with_values(replace(told, values=rest), rng)).values[name][0] == told.values[name][0]:
        pass
    return ("number" if name.rstrip(NUMBERS) in FIGURES else "entity"), found


def _framed(told: Telling, rng: Random) -> Telling:
    """The telling with a further frame, of which the reference says nothing."""
    frames = told.book["frames"]
    free = [frame for frame in range(len(frames)) if frame not in {one for one, _ in told.frames}]
    frame = one_by_chance(free, rng)
    more = replace(told, frames=(*told.frames, (frame, int(rng.random() * len(frames[frame])))))
    return _with_values(more, rng)
