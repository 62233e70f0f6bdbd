"""Records in words: the same facts in another order, in other sentences and by other words each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from textmover.data.generated.records import Domain, Record, RecordBook
from textmover.perturbations.phrases import VOWEL_SOUND, mixed, one_by_chance

STYLES = ("written", "written", "spaced", "spaced, lower case", "lower case")
"""Ways to write a text, one by chance: most systems that make texts of data give lower case or spaces around marks."""

MARKS = re.compile(r"([.,?])(?=\s|$)")


def tell(record: Record, book: RecordBook, rng: Random) -> str:
    """A text that tells a record."""
    teller = _Teller(record, book.domains[record.domain], rng)
    if record.act == "state":
        return teller.statement()
    return teller.filled(one_by_chance(book.acts[record.act].ways, rng))


def in_style(text: str, style: str) -> str:
    """A text as one of :data:`STYLES` writes it.

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
    """The parts of a text about one record, words and order by chance."""

    def __init__(self, record: Record, domain: Domain, rng: Random) -> None:
        self.record, self.domain, self.rng = record, domain, rng
        self.kind = one_by_chance(domain.kinds, rng)
        self.facts = mixed(list(record.facts), rng)

    def statement(self) -> str:
        """Sentences about a thing with a name."""
        name, kind = self.record.name, self.kind
        first, rest = self._split(self.facts, 3)
        openings = ["is a", "verb", "comma", "there is"]
        if not name.lower().startswith("the ") and kind not in name.lower():  # not "the lake the Blue Lake"
            openings.append("the kind")
        opening = one_by_chance(openings, self.rng)
        if opening == "is a":
            sentences = [f"{name} is {_with_article(kind)} {self._described(first)}"]
        elif opening == "verb":
            sentences = [f"{name} {self._told(first)}"]
        elif opening == "comma" and len(self.facts) > 1:
            first, rest = (first, rest) if len(first) > 1 else (self.facts[:2], self.facts[2:])
            said = self._told(first[1:])
            sentences = [f"{name}, {_with_article(kind)} {self._described(first[:1])}, {said}"]
        elif opening == "there is":
            said = self._told(first)
            sentences = [f"there is {_with_article(kind)} called {name} {self.domain.relative} {said}"]
        else:
            sentences = [f"the {kind} {name} {self._told(first)}"]
        while rest:
            now, rest = self._split(rest, 2)
            sentences.append(f"{self._again()} {self._told(now)}")
        if len(sentences) == 2 and self.rng.random() < 0.3:
            return _capital(f"{sentences[0]}{one_by_chance((' and ', ', and '), self.rng)}{sentences[1]}.")
        return " ".join(_capital(f"{one}.") for one in sentences)

    def filled(self, way: str) -> str:
        """One of an act's ways with the record's words in it."""
        rest = self._described(self.facts)
        article = _with_article(self.kind)
        words = {"kind": self.kind, "a kind": article, "rest": rest, "one": f"{article} {rest}"}
        asked = self.domain.facts[self.facts[0]].asked
        return _capital(way.format_map({**words, "asked": asked, "count": self.record.count}))

    def _again(self) -> str:
        """The thing in a further sentence."""
        others = [f"the {self.kind}", f"this {self.kind}"]
        pronoun = self.domain.pronoun
        return one_by_chance([self.record.name, *others] if pronoun is None else [pronoun, pronoun, *others], self.rng)

    def _described(self, names: Sequence[str]) -> str:
        """Text after the kind: short additions first, then a relative clause."""
        added = {name for name in names if self.domain.facts[name].adds and self.rng.random() < 0.6}
        parts = [self._told([name for name in names if name in added], adding=True)] if added else []
        if len(added) < len(names):
            said = self._told([name for name in names if name not in added])
            parts.append(f"{self.domain.relative} {said}")
        return " ".join(parts)

    def _split(self, facts: list[str], most: int) -> tuple[list[str], list[str]]:
        """Facts for one sentence, and the others."""
        size = 1 + int(self.rng.random() * min(most, len(facts)))
        return facts[:size], facts[size:]

    def _told(self, names: Sequence[str], *, adding: bool = False) -> str:
        """Statements about the thing, or additions to its kind, about some facts."""
        parts = []
        for name in names:
            fact = self.domain.facts[name]
            pattern = one_by_chance(fact.adds if adding else fact.says, self.rng)
            parts.append(pattern.replace("{}", one_by_chance(fact.values[self.record.facts[name]], self.rng)))
        *first, last = parts
        if not first:
            return last
        between = " and " if len(first) == 1 else one_by_chance((" and ", ", and "), self.rng)
        return f"{', '.join(first)}{between}{last}"


def _with_article(words: str) -> str:
    return f"{'an' if VOWEL_SOUND.match(words) else 'a'} {words}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
