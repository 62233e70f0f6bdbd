"""Synthetic records: facts about things, defined in a file, drawn at random, corrupted and verbalised."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from textmover.perturbations.editable_sentences import VOWEL_SOUND, random_choice, shuffled
from textmover.safe_reading import Words

COUNTS = (2, 3, 5, 12, 40, 137)  # numbers of results
SIZES = {
    "state": (1, 2, 2, 3, 3, 4, 4, 5),
    "confirm": (1, 2, 2, 3),
    "none": (1, 2, 2, 3),
    "count": (1, 2, 2),
    "ask": (1,),
}
"""Numbers of facts in a text of each act, to draw from."""

CHANGES = (0, 1, 1, 1, 2, 2, 3)  # numbers of changes, to draw from; 0 paraphrases the same record

# Weights of the changes; `name` changes the number of results for the act `count`.
KINDS_OF_CHANGE = {"omitted": 4.0, "altered": 4.0, "added": 2.0, "name": 1.0, "act": 0.7}

# Text styles to draw from: most data-to-text systems write lower case or spaces around punctuation.
STYLES = ("written", "written", "spaced", "spaced, lower case", "lower case")

MARKS = re.compile(r"([.,?])(?=\s|$)")


@dataclass(frozen=True)
class Fact:
    """A fact that may hold for a thing."""

    values: tuple[tuple[Words, ...], ...]  # possible values; wordings of each
    says: tuple[Words, ...]  # predicates with {} for the value: "has {}"
    adds: tuple[Words, ...] = ()  # additions to the kind: "with {}"
    asked: Words = ""  # noun phrase for questions, such as "number of rooms"; the name of the fact if empty


@dataclass(frozen=True)
class Domain:
    """Things of one kind."""

    kinds: tuple[Words, ...]  # nouns after "a" or "the"
    names: tuple[Words, ...]
    facts: Mapping[Words, Fact]
    relative: Words = "that"  # or "who"
    pronoun: Words | None = "it"  # for a second sentence; None repeats the kind


@dataclass(frozen=True)
class Act:
    """A speech act, such as confirming: its frequency and its wordings."""

    weight: float = 1.0
    ways: tuple[Words, ...] = ()


@dataclass(frozen=True)
class Record:
    """Content of one text."""

    domain: str
    act: str
    name: str  # used by statements
    count: int  # number of results, for the act `count`
    facts: Mapping[str, int]  # index of the value of each fact


@dataclass(frozen=True)
class RecordDomains:
    """Domains, facts and wordings to draw records from, and the severity of each change."""

    domains: Mapping[Words, Domain]
    acts: Mapping[str, Act]
    severities: Mapping[str, float]

    def draw(self, rng: Random) -> Record:
        """Return a random record."""
        name = random_choice(sorted(self.domains), rng)
        domain = self.domains[name]
        act = rng.choices(list(self.acts), [act_entry.weight for act_entry in self.acts.values()])[0]
        facts = shuffled(list(domain.facts), rng)[: random_choice(SIZES[act], rng)]
        values = {fact: int(rng.random() * len(domain.facts[fact].values)) for fact in facts}
        return Record(name, act, random_choice(domain.names, rng), random_choice(COUNTS, rng), values)

    def change(self, record: Record, rng: Random) -> Record:
        """Return the record with up to three random changes, by :data:`CHANGES`."""
        changed = record
        for _ in range(random_choice(CHANGES, rng)):
            kind = rng.choices(list(KINDS_OF_CHANGE), list(KINDS_OF_CHANGE.values()))[0]
            changed = self._changed(changed, kind, rng) or changed
        return changed

    def severity(self, reference: Record, told: Record) -> float:
        r"""Return the severity of stating one record in place of another.

        With :math:`n`, the number of facts of the reference, plus 1 for its name in statements, or plus a half for the
        act otherwise,

        .. math::
            \min\Bigl(s_{most},\ \frac{s_{omitted} O + s_{altered} A + s_{added} B + s_{name} N}{n}
            + s_{count} C + s_{asked} Q + s_{act} D\Bigr)

        where O facts are omitted, A altered and B added. N, C, Q and D are 1 for another name, another count, another
        question or another act, and 0 otherwise. For questions only Q and D count, since they state no facts. Rounded
        to three places, so that ratings are the same on every machine.
        """
        cost = self.severities
        if told.domain != reference.domain:
            return cost["unrelated"]
        stated_facts = {} if told.act == "ask" != reference.act else told.facts
        common = reference.facts.keys() & stated_facts.keys()
        total = cost["act"] * (told.act != reference.act)
        if reference.act == "ask":
            total += cost["asked"] * (not common)
        else:
            altered = sum(reference.facts[fact] != stated_facts[fact] for fact in common)
            facts_cost = cost["omitted"] * (len(reference.facts) - len(common)) + cost["altered"] * altered
            facts_cost += cost["added"] * (len(stated_facts) - len(common))
            if reference.act == told.act == "state":
                facts_cost += cost["name"] * (told.name != reference.name)
            if reference.act == told.act == "count":
                total += cost["count"] * (told.count != reference.count)
            # Statements count the name as a fact; other acts count the act as half a fact.
            total += facts_cost / (len(reference.facts) + (1.0 if reference.act == "state" else 0.5))
        return round(min(cost["most"], total), 3)

    def _changed(self, record: Record, kind: str, rng: Random) -> Record | None:
        domain, current = self.domains[record.domain], dict(record.facts)
        others = [fact for fact in domain.facts if fact not in current]
        if kind == "act":
            acts = [act for act in ("state", "confirm", "none") if act in self.acts and act != record.act]
            return replace(record, act=random_choice(acts, rng)) if acts else None
        if kind == "name":
            if record.act == "count":
                return replace(record, count=random_choice([one for one in COUNTS if one != record.count], rng))
            names = [name for name in domain.names if name != record.name]
            return replace(record, name=random_choice(names, rng)) if record.act == "state" and names else None
        if record.act == "ask":  # questions have no values
            return replace(record, facts={random_choice(others, rng): 0}) if kind == "altered" and others else None
        if kind == "added":
            if not others:
                return None
            fact = random_choice(others, rng)
            return replace(record, facts={**current, fact: int(rng.random() * len(domain.facts[fact].values))})
        fact = random_choice(list(current), rng)
        if kind == "omitted":
            rest = {name: value for name, value in current.items() if name != fact}
            return replace(record, facts=rest) if rest else None
        values = [number for number in range(len(domain.facts[fact].values)) if number != current[fact]]
        return replace(record, facts={**current, fact: random_choice(values, rng)}) if values else None


def verbalise(record: Record, book: RecordDomains, rng: Random) -> str:
    """Return a text that verbalises a record."""
    teller = _Teller(record, book.domains[record.domain], rng)
    if record.act == "state":
        return teller.statement()
    return teller.filled(random_choice(book.acts[record.act].ways, rng))


def in_style(text: str, style: str) -> str:
    """Return a text in one of :data:`STYLES`.

    Example:
        >>> in_style("Is it 1.5 m deep, or more?", "spaced, lower case")
        'is it 1.5 m deep , or more ?'
    """
    if "spaced" in style:
        text = MARKS.sub(r" \1", text)
    if "lower case" in style:
        text = text.lower()
    return text.rstrip(".") if style == "lower case" else text


class _Teller:
    """Generator of the parts of a text about one record, with random wording and order."""

    def __init__(self, record: Record, domain: Domain, rng: Random) -> None:
        self.record, self.domain, self.rng = record, domain, rng
        self.kind = random_choice(domain.kinds, rng)
        self.facts = shuffled(list(record.facts), rng)

    def statement(self) -> str:
        """Return sentences about a named thing."""
        name, kind = self.record.name, self.kind
        first, rest = self._split(self.facts, 3)
        openings = ["is a", "verb", "comma", "there is"]
        if not name.lower().startswith("the ") and kind not in name.lower():  # not "the lake the Blue Lake"
            openings.append("the kind")
        opening = random_choice(openings, self.rng)
        if opening == "is a":
            sentences = [f"{name} is {_with_article(kind)} {self._described(first)}"]
        elif opening == "verb":
            sentences = [f"{name} {self._stated(first)}"]
        elif opening == "comma" and len(self.facts) > 1:
            first, rest = (first, rest) if len(first) > 1 else (self.facts[:2], self.facts[2:])
            said = self._stated(first[1:])
            sentences = [f"{name}, {_with_article(kind)} {self._described(first[:1])}, {said}"]
        elif opening == "there is":
            sentences = [f"there is {_with_article(kind)} called {name} {self.domain.relative} {self._stated(first)}"]
        else:
            sentences = [f"the {kind} {name} {self._stated(first)}"]
        while rest:
            now, rest = self._split(rest, 2)
            sentences.append(f"{self._again()} {self._stated(now)}")
        if len(sentences) == 2 and self.rng.random() < 0.3:
            return _capital(f"{sentences[0]}{random_choice((' and ', ', and '), self.rng)}{sentences[1]}.")
        return " ".join(_capital(f"{one}.") for one in sentences)

    def filled(self, way: str) -> str:
        """Return a wording of an act, filled with the words of the record."""
        rest = self._described(self.facts)
        article = _with_article(self.kind)
        words = {"kind": self.kind, "a kind": article, "rest": rest, "one": f"{article} {rest}"}
        asked = self.domain.facts[self.facts[0]].asked or self.facts[0]
        return _capital(way.format_map({**words, "asked": asked, "count": self.record.count}))

    def _again(self) -> str:
        """Return a random reference to the thing for a further sentence."""
        others = [f"the {self.kind}", f"this {self.kind}"]
        pronoun = self.domain.pronoun
        return random_choice([self.record.name, *others] if pronoun is None else [pronoun, pronoun, *others], self.rng)

    def _described(self, names: Sequence[str]) -> str:
        """Return the text after the kind: short additions first, then a relative clause."""
        added = {name for name in names if self.domain.facts[name].adds and self.rng.random() < 0.6}
        parts = [self._stated([name for name in names if name in added], adding=True)] if added else []
        if len(added) < len(names):
            clause = self._stated([name for name in names if name not in added])
            parts.append(f"{self.domain.relative} {clause}")
        return " ".join(parts)

    def _split(self, facts: list[str], most: int) -> tuple[list[str], list[str]]:
        """Split facts into those of one sentence and the others."""
        size = 1 + int(self.rng.random() * min(most, len(facts)))
        return facts[:size], facts[size:]

    def _stated(self, names: Sequence[str], *, adding: bool = False) -> str:
        """Return predicates of the thing, or additions to its kind, about some facts."""
        parts = []
        for name in names:
            fact = self.domain.facts[name]
            pattern = random_choice(fact.adds if adding else fact.says, self.rng)
            parts.append(pattern.replace("{}", random_choice(fact.values[self.record.facts[name]], self.rng)))
        *first, last = parts
        if not first:
            return last
        between = " and " if len(first) == 1 else random_choice((" and ", ", and "), self.rng)
        return f"{', '.join(first)}{between}{last}"


def _with_article(words: str) -> str:
    return f"{'an' if VOWEL_SOUND.match(words) else 'a'} {words}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
