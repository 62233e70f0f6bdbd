"""Synthetic events from shipped files: paraphrases and near copies with wrong facts."""

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
from textmover.perturbations.editable_sentences import keyed_random, random_choice, shuffled, weighted_order
from textmover.perturbations.severity import shipped_table
from textmover.safe_reading import read_yaml
from textmover.types import Segment

# Shipped files by name: short events, and longer ones with a larger vocabulary, of daily life and of news.
BOOKS = {name: Path(__file__).with_name(f"{name}.yaml") for name in ("events", "stories", "reports")}

SLOT = re.compile(r"\{(([a-z]+)\d?)\}")  # slot of a wording: name and kind
NUMBERS = "123"  # suffixes of slot names of the same kind
TIMES = frozenset(("day", "month", "date", "fulldate", "year", "age", "hour", "span"))
FIGURES = TIMES | {"small", "count", "money", "percent", "distance"}  # slots of figures and dates, not names
FRAMES = (0, 0, 1, 1, 1, 2, 2)  # numbers of frames around a wording, to draw from
NEVER_TRAINED = 6  # every n-th event of a file is excluded from training: contrasts are evaluated with these

REWORDING, EQUIVALENT = "paraphrase", "notation"  # meaning-preserving kinds; the second rewrites figures
GRAMMAR = "grammar"  # kind of a copy in worse English, as severe as a repeated word
VERSIONS = {"antonym": "opposite", "replace": "other"}  # kinds of wrong versions, with their key in a file
WRONG_EVENTS = ("number", "entity", "roles", *VERSIONS, "insert", GRAMMAR)


@dataclass(frozen=True)
class EventText:
    """Verbalisation of an event: wording, values and frames."""

    book: Mapping[str, Any]
    event: Mapping[str, Sequence[str]]
    way: int
    values: Mapping[str, tuple[int, int]]  # by slot: index of the value, and of its wording
    frames: tuple[tuple[int, int], ...]  # index of each frame, and of its wording
    version: str = "ways"  # or the key of a wrong version


@cache
def event_templates(name: str) -> Any:
    """Return the events, slots and frames of a shipped file, including those that it inherits by ``like``."""
    book = read_yaml(BOOKS[name])
    return {**event_templates(book["like"]), **book} if "like" in book else book


def event_segments(
    events: int,
    seed: int,
    types: Mapping[str, float] | None = None,
    *,
    books: Sequence[str] = ("events",),
    trained: bool = True,
) -> list[Segment]:
    """Return verbalisations of events with references, rated from 0 to 100; group ``contrast`` is the kind of change.

    Each event has a paraphrase, two near copies with one wrong fact, and a copy in another notation if it has figures.
    Kinds of wrong facts are drawn by the weights ``types``; equal weights if ``None``. All choices follow from the
    number of the event and the seed. ``trained=False`` takes the events that are reserved for evaluation.
    """
    segments: list[Segment] = []
    for number in range(events):
        rng = keyed_random(f"{seed}\nevent {number}")
        telling = _drawn(rng, books, trained)
        reference = verbalise(telling)
        texts = {REWORDING: verbalise(_reworded(telling, rng)), EQUIVALENT: verbalise(_other_words(telling, rng))}
        kind_of_value, value = _with_another_value(telling, rng)
        wrong = {
            "roles": _exchanged(telling),
            **{kind: replace(telling, version=key) if key in telling.event else None for kind, key in VERSIONS.items()},
            kind_of_value: value,
            "insert": _framed(telling, rng),
        }
        copies = {kind: verbalise(copy) for kind, copy in wrong.items() if copy is not None}
        if (broken := ungrammatical(reference, "confused", seed=number)) is not None:
            copies[GRAMMAR] = broken
        weights = None if types is None else {kind: types.get(kind, 0.0) for kind in copies}
        order = shuffled(list(copies), rng) if weights is None else weighted_order(weights, rng)
        texts |= {kind: copies[kind] for kind in order[:2]}
        segments += [
            Segment(text, (reference,), score=_rating(kind, reference, text), groups={"contrast": kind})
            for kind, text in texts.items()
            if text != reference
        ]
    return segments


def verbalise(telling: EventText) -> str:
    """Return the sentence of a verbalised event."""
    text = telling.event[telling.version][telling.way]
    for frame, way in telling.frames:
        text = telling.book["frames"][frame][way].replace("{}", text)
    slots = telling.book["slots"]
    filled = SLOT.sub(lambda slot: slots[slot[2]][telling.values[slot[1]][0]][telling.values[slot[1]][1]], text)
    return f"{filled[0].upper()}{filled[1:]}."


def _rating(kind: str, reference: str, text: str) -> float:
    """Return a rating from 0 to 100 by the severity of a kind and, for wrong copies, the share of lost words."""
    words = Counter(reference.split())
    share = 0.0 if kind in (REWORDING, EQUIVALENT) else (words - Counter(text.split())).total() / words.total()
    return round(100 * (1 - shipped_table().severity("repeat" if kind == GRAMMAR else kind, 1, share)), 1)


def _drawn(rng: Random, books: Sequence[str], trained: bool) -> EventText:
    events = [
        (event_templates(name), event)
        for name in books
        for number, event in enumerate(event_templates(name)["events"])
        if (number % NEVER_TRAINED != 0) == trained
    ]
    book, event = random_choice(events, rng)
    order = shuffled(range(len(book["frames"])), rng)[: random_choice(FRAMES, rng)]
    frames = tuple((frame, int(rng.random() * len(book["frames"][frame]))) for frame in order)
    way = int(rng.random() * len(event["ways"]))
    return _with_values(EventText(book, event, way, {}, frames), rng)


def _with_values(telling: EventText, rng: Random) -> EventText:
    """Fill each empty slot with a random value; slots of one kind get different values."""
    book, values = telling.book, dict(telling.values)
    texts = [telling.event["ways"][telling.way], *(book["frames"][frame][way] for frame, way in telling.frames)]
    for name, kind in SLOT.findall(" ".join(texts)):
        used = {value for other, (value, _) in values.items() if other.rstrip(NUMBERS) == kind}
        free = [value for value in range(len(book["slots"][kind])) if value not in used]
        if name not in values:
            value = random_choice(free, rng)
            values[name] = (value, int(rng.random() * len(book["slots"][kind][value])))
    return replace(telling, values=values)


def _reworded(telling: EventText, rng: Random) -> EventText:
    others = [way for way in range(len(telling.event["ways"])) if way != telling.way]
    frames = tuple((frame, int(rng.random() * len(telling.book["frames"][frame]))) for frame, _ in telling.frames)
    return _other_words(replace(telling, way=random_choice(others, rng), frames=frames), rng)


def _other_words(telling: EventText, rng: Random) -> EventText:
    """Draw other wordings of the values."""
    slots = telling.book["slots"]
    ways = {name: len(slots[name.rstrip(NUMBERS)][value]) for name, (value, _) in telling.values.items()}
    values = {name: (value, int(rng.random() * ways[name])) for name, (value, _) in telling.values.items()}
    return replace(telling, values=values)


def _exchanged(telling: EventText) -> EventText | None:
    """Swap the first and second value of a kind."""
    for name, value in telling.values.items():
        other = f"{name[:-1]}2"
        if name.endswith("1") and other in telling.values:
            return replace(telling, values={**telling.values, name: telling.values[other], other: value})
    return None


def _with_another_value(telling: EventText, rng: Random) -> tuple[str, EventText]:
    name = random_choice(list(telling.values), rng)
    rest = {other: value for other, value in telling.values.items() if other != name}
    while (changed := _with_values(replace(telling, values=rest), rng)).values[name][0] == telling.values[name][0]:
        pass
    return ("number" if name.rstrip(NUMBERS) in FIGURES else "entity"), changed


def _framed(telling: EventText, rng: Random) -> EventText:
    """Add a frame that the reference does not have."""
    frames = telling.book["frames"]
    free = [frame for frame in range(len(frames)) if frame not in {one for one, _ in telling.frames}]
    frame = random_choice(free, rng)
    extended = replace(telling, frames=(*telling.frames, (frame, int(rng.random() * len(frames[frame])))))
    return _with_values(extended, rng)
