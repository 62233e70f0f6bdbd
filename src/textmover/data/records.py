"""Records: facts about made-up things, as a file describes them, drawn at random and changed for the worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from textmover.data.edits import mixed, one_by_chance
from textmover.types import InputError

__all__ = ["Act", "Domain", "Fact", "Record", "RecordBook", "shipped_records"]

COUNTS = (2, 3, 5, 12, 40, 137)
"""Numbers of results."""

SIZES = {
    "state": (1, 2, 2, 3, 3, 4, 4, 5),
    "confirm": (1, 2, 2, 3),
    "none": (1, 2, 2, 3),
    "count": (1, 2, 2),
    "ask": (1,),
}
"""Numbers of facts that a text of each act has, one by chance."""

CHANGES = (0, 1, 1, 1, 2, 2, 3)
"""Numbers of changes, one by chance: a text without one is the same record told anew."""

KINDS_OF_CHANGE = {"omitted": 4.0, "altered": 4.0, "added": 2.0, "name": 1.0, "act": 0.7}
"""Weights of the changes."""

WORDS = ("one", "kind", "a kind", "rest", "asked", "count")
"""What stands in braces in the ways of an act."""

SEVERITIES = ("omitted", "altered", "added", "name", "count", "asked", "act", "unrelated", "most")


@dataclass(frozen=True)
class Fact:
    """What can be said of a thing.

    Attributes:
        asked: How it is asked for, such as ``"number of rooms"``.
        values: What it can be; of each, the ways to say it.
        says: What follows the name, the value in place of ``{}``: ``"has {}"``.
        adds: What can follow the kind: ``"with {}"``.
    """

    asked: str
    values: tuple[tuple[str, ...], ...]
    says: tuple[str, ...]
    adds: tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """Things of one kind.

    Attributes:
        kinds: What they are called after *a* or *the*.
        names: Of single ones.
        facts: What can be said of them.
        relative: *that* or *who*.
        pronoun: For a second sentence; ``None`` where the kind is said again.
    """

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    facts: Mapping[str, Fact]
    relative: str
    pronoun: str | None


@dataclass(frozen=True)
class Act:
    """What a text does, such as to confirm, how often among texts, and the ways to say it."""

    weight: float
    ways: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """What one text tells.

    Attributes:
        domain: Of the thing.
        act: What the text does.
        name: Of the thing; told where it is stated.
        count: Number of results; told where they are counted.
        facts: Number of the value of each fact, by the fact's name.
    """

    domain: str
    act: str
    name: str
    count: int
    facts: Mapping[str, int]


@dataclass(frozen=True)
class RecordBook:
    """What records are drawn from.

    Attributes:
        domains: Kinds of things.
        acts: What texts do.
        severities: How bad each change is.

    Example:
        >>> from random import Random
        >>> book = RecordBook.load()
        >>> record = book.draw(Random(2))
        >>> book.severity(record, record), 0 <= book.severity(record, book.change(record, Random(2))) <= 0.95
        (0.0, True)
    """

    domains: Mapping[str, Domain]
    acts: Mapping[str, Act]
    severities: Mapping[str, float]

    @classmethod
    def load(cls, path: str | Path | None = None) -> RecordBook:
        """Read a file of domains.

        Args:
            path: YAML like ``textmover/data/records.yaml``, which is read if ``None``. Where it has no ``acts`` or no
                ``severities``, those of that file stand.

        Raises:
            InputError: If the file cannot be read, or lacks what a text needs.
        """
        if path is None:
            return shipped_records()
        raw = _read_yaml(Path(path))
        shipped = shipped_records()
        return cls(
            _domains(raw, str(path)),
            _acts(raw["acts"], str(path)) if "acts" in raw else shipped.acts,
            _severities(raw["severities"], str(path)) if "severities" in raw else shipped.severities,
        )

    def draw(self, rng: Random) -> Record:
        """A record by chance."""
        name = one_by_chance(sorted(self.domains), rng)
        domain = self.domains[name]
        act = rng.choices(list(self.acts), [one.weight for one in self.acts.values()])[0]
        facts = mixed(list(domain.facts), rng)[: one_by_chance(SIZES[act], rng)]
        values = {fact: int(rng.random() * len(domain.facts[fact].values)) for fact in facts}
        return Record(name, act, one_by_chance(domain.names, rng), one_by_chance(COUNTS, rng), values)

    def change(self, record: Record, rng: Random) -> Record:
        """The record with up to three changes, as :data:`CHANGES` has it."""
        changed = record
        for _ in range(one_by_chance(CHANGES, rng)):
            kind = rng.choices(list(KINDS_OF_CHANGE), list(KINDS_OF_CHANGE.values()))[0]
            changed = self._changed(changed, kind, rng) or changed
        return changed

    def severity(self, reference: Record, told: Record) -> float:
        r"""How bad it is to tell one record where another is meant.

        With :math:`n` facts of the reference, the name being one,

        .. math::
            \min\Bigl(s_{most},\ \frac{s_{omitted} O + s_{altered} A + s_{added} B + s_{name} N}{n}
            + s_{count} C + s_{asked} Q + s_{act} D\Bigr)

        where O facts are omitted, A altered and B added, and N, C, Q and D are 1 where another thing is named, another
        number counted, something else asked for, or another act done, and 0 elsewhere.

        Args:
            reference: What is meant.
            told: What is told.

        Returns:
            From 0, for what says the same, to 1, for what is worthless; rounded to three places, so that ratings are
            the same on every machine.
        """
        cost = self.severities
        if told.domain != reference.domain:
            return cost["unrelated"]
        both = reference.facts.keys() & told.facts.keys()
        total = cost["act"] * (told.act != reference.act)
        if reference.act == "ask":
            total += cost["asked"] * (not both)
        else:
            altered = sum(reference.facts[fact] != told.facts[fact] for fact in both)
            of_facts = cost["omitted"] * (len(reference.facts) - len(both)) + cost["added"] * (
                len(told.facts) - len(both)
            )
            of_facts += cost["altered"] * altered
            if reference.act == told.act == "state":
                of_facts += cost["name"] * (told.name != reference.name)
            if reference.act == told.act == "count":
                total += cost["count"] * (told.count != reference.count)
            # What is told of a thing counts with its name; of what only seeks one, the seeking counts half a fact.
            total += of_facts / (len(reference.facts) + (1.0 if reference.act == "state" else 0.5))
        return round(min(cost["most"], total), 3)

    def _changed(self, record: Record, kind: str, rng: Random) -> Record | None:
        """The record with one change, or ``None`` where it cannot be made."""
        domain, told = self.domains[record.domain], dict(record.facts)
        others = [fact for fact in domain.facts if fact not in told]
        if kind == "act":
            acts = [act for act in ("state", "confirm", "none") if act in self.acts and act != record.act]
            return replace(record, act=one_by_chance(acts, rng)) if acts else None
        if kind == "name":
            if record.act == "count":
                return replace(record, count=one_by_chance([one for one in COUNTS if one != record.count], rng))
            names = [name for name in domain.names if name != record.name]
            return replace(record, name=one_by_chance(names, rng)) if record.act == "state" and names else None
        if record.act == "ask":  # what is asked for has no value
            return replace(record, facts={one_by_chance(others, rng): 0}) if kind == "altered" and others else None
        if kind == "added":
            if not others:
                return None
            fact = one_by_chance(others, rng)
            return replace(record, facts={**told, fact: int(rng.random() * len(domain.facts[fact].values))})
        fact = one_by_chance(list(told), rng)
        if kind == "omitted":
            rest = {name: value for name, value in told.items() if name != fact}
            return replace(record, facts=rest) if rest else None
        values = [number for number in range(len(domain.facts[fact].values)) if number != told[fact]]
        return replace(record, facts={**told, fact: one_by_chance(values, rng)}) if values else None


@cache
def shipped_records() -> RecordBook:
    """The domains that the package ships, read once."""
    path = Path(__file__).with_name("records.yaml")
    raw = _read_yaml(path)
    return RecordBook(
        _domains(raw, path.name), _acts(raw["acts"], path.name), _severities(raw["severities"], path.name)
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"Expected a YAML file of records, but {path} cannot be read: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("domains"), dict) or not raw["domains"]:
        raise InputError(f"Expected {path} to hold `domains`, as textmover/data/records.yaml does, but it has none.")
    return raw


def _domains(raw: Mapping[str, Any], file: str) -> dict[str, Domain]:
    found = {}
    for name, one in raw["domains"].items():
        where = f"{file}, domain {name}"
        facts = one.get("facts") if isinstance(one, dict) else None
        if not isinstance(facts, dict) or len(facts) < 2:
            raise InputError(f"Expected {where}, to have at least two `facts`, but got {facts!r}.")
        pronoun = one.get("pronoun", "it")
        found[str(name)] = Domain(
            _texts(one, "kinds", where),
            _texts(one, "names", where),
            {str(fact): _fact(fact, description, where) for fact, description in facts.items()},
            str(one.get("relative", "that")),
            None if pronoun is None else str(pronoun),
        )
    return found


def _fact(name: Any, raw: Any, where: str) -> Fact:
    where = f"{where}, fact {name}"
    if not isinstance(raw, dict) or not isinstance(raw.get("values"), list) or not raw["values"]:
        raise InputError(f"Expected {where}, to have `values`, a list of what it can be, but got {raw!r}.")
    values = tuple(
        tuple(map(str, one)) if isinstance(one, list) and one else (str(one),) for one in raw["values"] if one != []
    )
    says = _texts(raw, "says", where)
    adds = _texts(raw, "adds", where) if raw.get("adds") else ()
    for pattern in (*says, *adds):
        if pattern.count("{}") != 1 or pattern.count("{") != 1 or pattern.count("}") != 1:
            raise InputError(f"Expected {where}, to have {{}} once in each of `says` and `adds`, but got {pattern!r}.")
    return Fact(str(raw.get("asked", name)), values, says, adds)


def _texts(raw: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = raw.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(one, str | int | float) for one in found):
        raise InputError(f"Expected {where}, to have `{key}`, a list of texts, but got {found!r}.")
    return tuple(str(one) for one in found)


def _acts(raw: Any, file: str) -> dict[str, Act]:
    if not isinstance(raw, dict) or not raw or not set(raw) <= set(SIZES):
        raise InputError(f"Expected `acts` of {file} to be some of {', '.join(SIZES)}, but got {raw!r}.")
    found = {}
    for name, one in raw.items():
        weight = one.get("weight", 1) if isinstance(one, dict) else None
        if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise InputError(f"Expected act {name} of {file} to have a `weight` above 0, but got {one!r}.")
        ways = () if name == "state" else _texts(one, "ways", f"{file}, act {name}")
        for way in ways:
            _check_way(way, f"{file}, act {name}")
        found[str(name)] = Act(float(weight), ways)
    return found


def _check_way(way: str, where: str) -> None:
    try:
        way.format_map(dict.fromkeys(WORDS, ""))
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"Expected {where}, to use {{{'}, {'.join(WORDS)}}} alone, but got {way!r}.") from error


def _severities(raw: Any, file: str) -> dict[str, float]:
    if not isinstance(raw, dict) or set(raw) != set(SEVERITIES):
        raise InputError(f"Expected `severities` of {file} to be of {', '.join(SEVERITIES)}, but got {raw!r}.")
    for name, value in raw.items():
        if not isinstance(value, int | float) or not 0 <= value <= 2:
            raise InputError(f"Expected `severities` of {file} to be from 0 to 2, but {name} is {value!r}.")
    return {name: float(value) for name, value in raw.items()}
