"""Graded, seeded corruptions of English sentences, each with a severity from a fixed table.

A perturbation is a :data:`~textmover.perturbations.editable_sentences.Function` that returns an :class:`Edit`, or
``None`` if it does not apply. A perturbation that needs a neighbour search or a parser takes it as a callable. Bind it
with ``functools.partial`` and pass it to :func:`perturb` in a copy of ``PERTURBATIONS``, together with a severity table
that has an entry for the new name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from textmover.perturbations.editable_sentences import (
    AUXILIARIES,
    NEGATIVE,
    NUMBER,
    ORDINALS,
    TEENS,
    TENS,
    UNITS,
    Edit,
    Function,
    Phrase,
    Word,
    WordPool,
    keyed_random,
    listed,
    random_choice,
    shuffled,
    word_set,
)
from textmover.perturbations.severity import SeverityTable, shipped_table
from textmover.types import BOUNDS, InputError, check_choice

MONTHS = listed("January February March April May June July August September October November December")
_MONTH = "|".join(MONTHS)
_DAY = r"(?P<day>[12]?\d|3[01])"
_NO_RANGE = r"(?<![-–/.,:])(?<!\d and )(?<!\d to )"  # "3 to 5 May" and "May 3-5" stay together
_NO_RANGE_BEHIND = r"(?![-–/:.,]\d| (?:and|to|[-–]) \d)"
_YEAR = r"(?P<year>[12]\d{3})"

Rewriting = Callable[[re.Match[str]], str]

NOTATIONS: tuple[tuple[re.Pattern[str], Rewriting], ...] = (
    (re.compile(rf"{_NO_RANGE}\b{_DAY} (?P<month>{_MONTH})\b(?: {_YEAR}\b)?"),
     lambda found: ", ".join(filter(None, (f"{found['month']} {found['day']}", found["year"])))),
    (re.compile(rf"\b(?P<month>{_MONTH}) {_DAY}\b(?:, {_YEAR}\b)?{_NO_RANGE_BEHIND}"),
     lambda found: " ".join(filter(None, found.group("day", "month", "year")))),
    (re.compile(r"(?<=\d) ?%"), lambda _: " percent"),
    (re.compile(r"(?<=\d) per ?cent\b"), lambda _: "%"),
    (re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])"), lambda found: found[0].replace(",", "")),
    (re.compile(r"(?<![\w.,:/#-])(?:[1-9]\d{4,14}|[3-9]\d{3})(?![\w,.:/-])"), lambda found: f"{int(found[0]):,}"),
    (re.compile(r"(?<![\w.,:/$£€#+=-])(?<![$£€] )(?:[2-9]|1[0-2])"
                r"(?![\w.,:/%°'’\"”′″-]| ?%| per ?cent| [ap]\.?m\b| (?:th|st|nd|rd)\b| \d{3}\b)"),
     lambda found: UNITS[int(found[0]) - 2]),
    (re.compile(rf"(?<![-\w])(?:{'|'.join(UNITS)})(?![-\w])"),
     lambda found: str(UNITS.index(found[0]) + 2)),
)  # fmt: skip
"""Patterns with their rewritings; the first of overlapping matches counts."""


def notation(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Rewrite ``degree`` numbers, percentages or dates in another notation."""
    text = phrase.text
    matches: list[tuple[re.Match[str], Rewriting]] = []
    for pattern, rewriting in NOTATIONS:
        matches += [
            (match, rewriting)
            for match in pattern.finditer(text)
            if all(match.end() <= earlier.start() or earlier.end() <= match.start() for earlier, _ in matches)
        ]
    if len(matches) < degree:
        return None
    for match, rewriting in sorted(shuffled(matches, rng)[:degree], key=lambda pair: pair[0].start(), reverse=True):
        text = text[: match.start()] + rewriting(match) + text[match.end() :]
    return Edit(text, tuple(Word("", "number", "") for _ in range(degree)))


IRREGULAR_PARTICIPLES = word_set("irregular_participles")
TEMPORAL = word_set("temporal")
CONTRACTIONS = {"can't": "can", "cannot": "can", "won't": "will", "shan't": "shall"}
FULL_SHUFFLE = 9


def _drop(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    if len(phrase.words) < degree + 2:
        return None
    dropped = set(shuffled(range(len(phrase.words)), rng)[:degree])
    remaining: list[Word] = []
    for place, word in enumerate(phrase.words):
        if place not in dropped:
            remaining.append(word)
        elif remaining and word.after and not remaining[-1].after:  # keep the comma of a dropped word
            remaining[-1] = remaining[-1]._replace(after=word.after)
    return Edit(replace(phrase, words=tuple(remaining)).text, tuple(phrase.words[place] for place in sorted(dropped)))


def _swap(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    cores = [word.core for word in phrase.words]
    if degree == FULL_SHUFFLE:
        cores = shuffled(cores, rng) if len(cores) > 3 else cores
    else:
        pairs: list[int] = []
        for place in shuffled(range(len(cores) - 1), rng):
            separate = all(abs(place - previous) > 1 for previous in pairs)
            if separate and cores[place] != cores[place + 1]:
                pairs.append(place)
        if len(pairs) < degree:
            return None
        for place in pairs[:degree]:
            cores[place : place + 2] = cores[place + 1], cores[place]
    words = tuple(word._replace(core=core) for word, core in zip(phrase.words, cores, strict=True))
    changed = tuple(old for old, new in zip(phrase.words, words, strict=True) if old != new)
    return Edit(replace(phrase, words=words).text, changed)


def _repeat(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    repeated = set(shuffled([place for place, word in enumerate(phrase.words) if word.core], rng)[:degree])
    if len(repeated) < degree:
        return None
    words: list[Word] = []
    for place, word in enumerate(phrase.words):
        words += [word._replace(after=""), word._replace(before="")] if place in repeated else [word]
    return Edit(replace(phrase, words=tuple(words)).text, tuple(phrase.words[place] for place in sorted(repeated)))


def _kind(word: str) -> str:
    """Return a rough word class by form, to choose a replacement that fits the grammar."""
    if word[:1].isupper():
        return "name"
    return next((ending for ending in ("ing", "ed", "ly", "s") if word.endswith(ending)), "")


def _replace(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    places = shuffled([place for place, word in enumerate(phrase.words) if word.replaceable], rng)[:degree]
    candidates = shuffled(pool.words(phrase.text), rng)
    if len(places) < degree or len(candidates) < degree:
        return None
    words = list(phrase.words)
    for place in places:
        kind = _kind(words[place].core)
        replacement = next((word for word in candidates if _kind(word) == kind), candidates[0])
        candidates.remove(replacement)
        words[place] = words[place]._replace(core=replacement)
    return Edit(replace(phrase, words=tuple(words)).text, tuple(phrase.words[place] for place in places))


def _insert(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    inserted = shuffled(pool.words(phrase.text), rng)[:degree]
    places = shuffled(range(1, len(phrase.words)), rng)[:degree]
    if min(len(inserted), len(places)) < degree:
        return None
    words = list(phrase.words)
    for place, core in zip(sorted(places, reverse=True), inserted, strict=True):
        words.insert(place, Word("", core, ""))
    return Edit(replace(phrase, words=tuple(words)).text, tuple(Word("", core, "") for core in inserted))


def _truncate(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    keep = len(phrase.words) - max(1, int(len(phrase.words) * degree / 100 + 0.5))
    if keep < 1:
        return None
    return Edit(replace(phrase, words=phrase.words[:keep]).text, phrase.words[keep:])


def _negated(words: Sequence[Word], place: int) -> list[Word] | None:
    """Return the words from ``place`` on with the auxiliary there negated or affirmed; ``None`` if that reads badly."""
    word, after = words[place], list(words[place + 1 :])
    lower = word.core.lower().replace("’", "'")
    positive = CONTRACTIONS.get(lower) or (lower[:-3] if lower.endswith("n't") else None)
    if positive in AUXILIARIES:
        return [word._replace(core=positive), *after]
    if lower not in AUXILIARIES or word.after or not after:
        return None
    following = after[0].core.lower()
    if following == "not":
        return [word, *after[1:]] if not after[0].after else None
    earlier = [other.core.lower() for other in words[max(0, place - 4) : place]]
    if TEMPORAL.intersection(earlier) or "as" in earlier[-2:]:
        return None
    near = {*earlier, *(other.core.lower() for other in after[:4])}
    if place == 0 or near & NEGATIVE or lower in {"do", "does", "did", "am"}:
        return None
    if lower in {"has", "have", "had"}:
        after_modal = words[place - 1].core.lower() in AUXILIARIES
        if after_modal or not (following in IRREGULAR_PARTICIPLES or following.endswith(("ed", "en"))):
            return None
    elif following in {"rather", "about", "to", "my", "your", "only", "once", "now"}:
        return None
    return [word._replace(core="cannot"), *after] if lower == "can" else [word, Word("", "not", ""), *after]


def _negate(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    if "?" in phrase.end:  # "Is it not safe?" and "Is it safe?" ask the same
        return None
    words = list(phrase.words)
    places = [place for place in range(len(words)) if _negated(words, place)]
    if len(places) < degree:
        return None
    chosen = sorted(shuffled(places, rng)[:degree], reverse=True)
    for place in chosen:
        words[place:] = _negated(words, place) or words[place:]
    return Edit(replace(phrase, words=tuple(words)).text, tuple(Word("", "negation", "") for _ in chosen))


def _wrong_integer(value: int, year: bool, rng: Random) -> int:
    """Return a number of the same order that cannot be a rounding of ``value``; a year stays a year."""
    if value <= 12:
        options = [n for n in range(2, 13) if abs(n - value) >= 2]
    elif value <= 31:
        options = [n for n in range(3, 32) if abs(n - value) >= 6]
    elif value < 100:
        options = [n for n in range(13, 99) if abs(n - value) >= 18]
    elif year and 1400 <= value <= 2100:
        options = [n for n in range(value - 90, min(value + 90, 2030)) if abs(n - value) >= 12]
    else:
        step = 10 ** (len(str(value)) - len(str(value).rstrip("0")))  # round numbers stay round
        digits = value // step
        percent = int(25 + 30 * rng.random() if rng.random() < 0.5 else 180 + 170 * rng.random())
        far = [n for n in range(1, 10) if not 0.6 < n / digits < 1.7]
        options = [n * step for n in far] if digits < 10 else [digits * percent // 100 * step]
    return random_choice(options, rng)


def _wrong(number: str, rng: Random) -> str:
    lower = number.lower()
    if ":" in lower:
        hours = [hour for hour in range(1, 24) if abs(hour - int(lower.split(":")[0])) >= 2]
        return f"{random_choice(hours, rng)}:{lower.split(':')[1]}"
    if lower[0].isdigit():
        whole = re.match(r"[\d,]+", number).group()  # type: ignore[union-attr]
        new = _wrong_integer(int(whole.replace(",", "")), number.isdigit(), rng)
        commas = "," in whole or (new >= 1000 and len(whole) < 4)
        return (f"{new:,}" if commas else str(new)) + number[len(whole) :]
    head, dash, tail = lower.partition("-")
    family = next(family for family in (UNITS, TEENS, TENS, ORDINALS) if head in family)
    far = [word for word in family if abs(family.index(word) - family.index(head)) >= 2]
    word = random_choice(far, rng) + dash + tail
    return word.capitalize() if number[0].isupper() else word


def _number(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    text = phrase.text
    matches = [match for match in NUMBER.finditer(text) if match.group().lstrip("0,.")]
    if len(matches) < degree:
        return None
    chosen = sorted(shuffled(matches, rng)[:degree], key=lambda match: match.start(), reverse=True)
    present = {match.group() for match in matches}
    for match in chosen:
        for _ in range(21):  # avoid "between six and six"; every family has enough words
            new = _wrong(match.group(), rng)
            if new not in present:
                break
        text = text[: match.start()] + new + text[match.end() :]
        present.add(new)
    return Edit(text, tuple(Word("", "number", "") for _ in chosen))


def _unrelated(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    others = pool.others(phrase.text)
    return Edit(random_choice(others, rng), phrase.words) if others else None


PERTURBATIONS: Mapping[str, Function] = {
    "identity": lambda phrase, *_: Edit(phrase.text, ()),
    "repeat": _repeat,
    "swap": _swap,
    "drop": _drop,
    "insert": _insert,
    "truncate": _truncate,
    "replace": _replace,
    "number": _number,
    "negate": _negate,
    "unrelated": _unrelated,
}


@dataclass(frozen=True)
class Perturbation:
    """Corrupted text with its severity."""

    text: str
    type: str  # name of the perturbation
    degree: int  # amount of change, in the unit of ``severity.yaml``
    severity: float  # from 0 (as good as the original) to 1 (worthless)

    @property
    def rating(self) -> float:
        """Severity as a rating from 0 to 100, higher is better."""
        return round(100 * (1 - self.severity), 1)


def check_length(text: str, name: str) -> None:
    """Refuse other types and texts of too many words: the cost is quadratic, and perturbations are for sentences."""
    if not isinstance(text, str):
        raise TypeError(f"Expected {name} to be a string, but got {type(text).__name__}: exclude it or convert it.")
    most = BOUNDS["words"][1]
    if len(text) > most and len(text.split()) > most:
        raise InputError(f"Expected at most {most:,} words to perturb, but {name} has more: split it into sentences.")


def perturb(
    text: str,
    type: str,
    degree: int = 1,
    *,
    seed: int = 0,
    pool: WordPool | None = None,
    severities: SeverityTable | None = None,
    perturbations: Mapping[str, Function] = PERTURBATIONS,
) -> Perturbation | None:
    """Corrupt one text; return ``None`` if the perturbation does not apply or changes nothing.

    The result depends only on the arguments and is the same on every platform and Python version.

    Args:
        text: The text, in English.
        type: A key of ``perturbations``.
        degree: One of the degrees that ``severities`` lists for the type.
        seed: Seed of the choice of words.
        pool: Source of unrelated words and sentences; without it, nothing can be replaced or inserted.
        severities: Severity table; ``None`` for the shipped one.
        perturbations: Functions by name.

    Example:
        >>> perturb("The lake was frozen.", "negate")
        Perturbation(text='The lake was not frozen.', type='negate', degree=1, severity=0.754)
        >>> perturb("Lakes freeze.", "number") is None
        True
    """
    check_length(text, "the text")
    table = severities if severities is not None else shipped_table()
    check_choice("type", type, perturbations)
    check_choice("degree", degree, table.degrees(type))
    rng = keyed_random(json.dumps([seed, text, type, degree], default=int))  # NumPy's integers, too
    pool = pool if pool is not None else WordPool()
    phrase = Phrase.parse(text, pool)
    edit = perturbations[type](phrase, degree, rng, pool)
    if edit is None or (type != "identity" and edit.text in {text, phrase.text}):
        return None
    share = table.weight(edit.touched) / max(1.0, table.weight(phrase.words))
    return Perturbation(edit.text, type, degree, table.severity(type, degree, share))
