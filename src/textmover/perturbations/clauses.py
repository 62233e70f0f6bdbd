"""Simple clauses of a parsed sentence, which can change between active and passive.

A clause that holds anything outside these rules is not simple, so that the rewritten ones read well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from textmover.perturbations.sentence_edits import LEXICON, Phrase, listed, word_set
from textmover.types import ParsedText, Parser

MODALS = word_set("modals")
CONTRACTED = {"ca": "can", "wo": "will", "sha": "shall", "'ll": "will"}
PAST_FORMS = word_set("past_forms")
PRESENT_FORMS = word_set("present_forms")
KNOWN_RELATIONS = word_set("known_relations")
MOVABLE_ADVERBS = word_set("movable_adverbs")
SCOPING = word_set("scoping")
OPAQUE = re.compile(r"[\"“”()\[\]{}:;?…/*_<>@#=|]|--| [-–—] |https?:|''|``")
UNCLEAR_AMOUNTS = word_set("unclear_amounts")
OTHER_PLURALS = word_set("other_plurals")


class Agreement(NamedTuple):
    """Person and number, which a finite verb agrees with."""

    person: int
    plural: bool


PRONOUNS = {
    word: Agreement(int(kind[0]), kind.endswith("plural"))
    for kind, words in LEXICON["pronouns"].items()
    for word in listed(words)
}


class Chain(NamedTuple):
    """A verb with its auxiliaries, in terms that both voices share."""

    tense: str  # ``"past"`` or ``"present"``; of no account behind a modal
    modal: str  # the modal verb, or empty
    perfect: bool  # whether it is *have done*
    progressive: bool  # whether it is *be doing*
    supported: bool  # whether it is *do* with the plain verb
    negated: bool  # whether *not* is in it
    adverbs: tuple[str, ...]  # adverbs before the verb


@dataclass(frozen=True)
class Clause:
    """A sentence of one verb with its subject before it."""

    text: str
    parsed: ParsedText
    verb: int  # position of the verb, its root
    subject: int  # position of the subject's head
    passive: bool

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Words that depend on each word, in order."""
        found: list[list[int]] = [[] for _ in self.parsed.words]
        for place, head in enumerate(self.parsed.heads):
            if head >= 0:
                found[head].append(place)
        return tuple(map(tuple, found))

    def lower(self, place: int) -> str:
        """A word in lower case, its apostrophe straight."""
        return self.parsed.words[place].lower().replace("’", "'")

    def feature(self, place: int, name: str) -> str:
        """A morphological feature, or empty."""
        found = re.search(rf"(?:^|\|){name}=([^|]+)", self.parsed.features[place])
        return found[1] if found else ""

    def below(self, place: int) -> list[int]:
        """A word with all that depend on it, in the order of the text."""
        found, waiting = [], [place]
        while waiting:
            found.append(waiting.pop())
            waiting += self.children[found[-1]]
        return sorted(found)

    def span(self, place: int) -> range | None:
        """The words of a constituent, or ``None`` where they do not stand together."""
        found = self.below(place)
        return range(found[0], found[-1] + 1) if found[-1] - found[0] + 1 == len(found) else None

    def slice(self, words: range) -> str:
        """The text of some words that stand together."""
        return self.text[self.parsed.spans[words[0]][0] : self.parsed.spans[words[-1]][1]]

    def of_verb(self, relation: str) -> tuple[int, ...]:
        """Words of a relation that depend on the verb."""
        return tuple(one for one in self.children[self.verb] if self.parsed.relations[one] == relation)

    def agreement(self, head: int) -> Agreement | None:
        """Person and number of a noun phrase, or ``None`` where they are not clear."""
        parsed = self.parsed
        joined = [one for one in self.children[head] if parsed.relations[one] == "conj"]
        if joined:
            words = {self.lower(one) for place in joined for one in self.children[place] if parsed.tags[one] == "CCONJ"}
            return Agreement(3, True) if words == {"and"} else None
        if parsed.tags[head] == "PRON":
            known = PRONOUNS.get(self.lower(head))
            asks = self.feature(head, "PronType") in ("Rel", "Int")
            return None if known is None or asks else known
        if parsed.tags[head] not in ("NOUN", "PROPN") or self.lower(head) in UNCLEAR_AMOUNTS:
            return None
        number, word = self.feature(head, "Number"), self.lower(head)
        looks_plural = word.endswith(("s", "men")) or word in OTHER_PLURALS
        same = word == parsed.lemmas[head].lower()
        if parsed.tags[head] == "NOUN" and (looks_plural and not same if number == "Sing" else not looks_plural):
            return None  # tagger, lemmatizer and form disagree
        return Agreement(3, number != "Sing") if number in ("Sing", "Plur", "Ptan") else None

    def chain(self, group: Iterable[int]) -> Chain | None:
        """Auxiliaries between subject and verb; ``None`` if they are not understood."""
        parsed = self.parsed
        auxiliaries: list[int] = []
        adverbs: list[str] = []
        negated = False
        for place in group:
            word = self.lower(place)
            if parsed.heads[place] != self.verb:
                return None
            if parsed.relations[place] in ("aux", "aux:pass"):
                auxiliaries.append(place)
            elif word in ("not", "n't") and not negated:
                negated = True
            elif parsed.relations[place] == "advmod" and not self.children[place] and _may_move(word):
                adverbs.append(parsed.words[place].lower())
            else:
                return None
        if negated and not auxiliaries:
            return None
        return self._understood(auxiliaries, negated, tuple(adverbs))

    def _understood(self, auxiliaries: Sequence[int], negated: bool, adverbs: tuple[str, ...]) -> Chain | None:
        """The auxiliaries as tense, modal, perfect and progressive."""
        kinds = [self._kind(place) for place in auxiliaries]
        if "" in kinds:
            return None
        written = "-".join("modal" if kind in MODALS else kind for kind in kinds)
        allowed = "(modal)?-?(have)?-?(be)?-?be" if self.passive else "(modal)?-?(have)?-?(be)?|(do)"
        match = re.fullmatch(allowed, written)
        if match is None:
            return None
        perfect, progressive = bool(match[2]), bool(match[3])
        word, lemma = self.lower(self.verb), self.parsed.lemmas[self.verb]
        if not self.passive and progressive != (word.endswith("ing") and bool(kinds)):
            return None
        tense = _tense_of(self.lower(auxiliaries[0])) if auxiliaries else self._verb_tense(word, lemma)
        modal = kinds[0] if kinds and kinds[0] in MODALS else ""
        if not (tense or modal):
            return None
        return Chain(tense, modal, perfect, progressive, "do" in kinds, negated, adverbs)

    def _kind(self, place: int) -> str:
        """A modal verb, ``have``, ``be`` or ``do``; empty for anything else."""
        word = CONTRACTED.get(self.lower(place), self.lower(place))
        if word in MODALS:
            return word
        lemma = self.parsed.lemmas[place].lower()
        if word == "'d":
            return lemma if lemma in ("would", "have") else ""
        return lemma if lemma in ("have", "be", "do") else ""

    def _verb_tense(self, word: str, lemma: str) -> str:
        """The tense of a verb without auxiliaries; empty where it is not finite."""
        if self.feature(self.verb, "VerbForm") not in ("Fin", "") or self.feature(self.verb, "Mood") == "Imp":
            return ""
        tense = {"Past": "past", "Pres": "present"}.get(self.feature(self.verb, "Tense"), "")
        if word.endswith("s") and word != lemma:
            return "present" if tense != "past" else ""
        return tense


def _may_move(word: str) -> bool:
    return word in MOVABLE_ADVERBS or (word.endswith("ly") and word not in SCOPING)


def _tense_of(auxiliary: str) -> str:
    if auxiliary in PAST_FORMS or auxiliary == "'d":
        return "past"
    return "present" if auxiliary in PRESENT_FORMS else ""


def simple_clause(text: str, parsed: ParsedText) -> Clause | None:
    """The one clause of a text; ``None`` for several sentences, a question, quotations, or anything unusual."""
    if OPAQUE.search(text) or len(parsed.roots) != 1 or not text[:1].isalnum():
        return None
    verb = parsed.roots[0]
    below = [place for place, head in enumerate(parsed.heads) if head == verb]
    relations = [parsed.relations[place] for place in below]
    subjects = [place for place in below if parsed.relations[place] in ("nsubj", "nsubj:pass")]
    if parsed.tags[verb] != "VERB" or len(subjects) != 1 or not KNOWN_RELATIONS.issuperset(relations):
        return None
    clause = Clause(text, parsed, verb, subjects[0], "aux:pass" in relations)
    if not clause.passive and parsed.relations[subjects[0]] == "nsubj:pass":
        return None
    if any(
        word.endswith(("self", "selves")) or word in ("own", "each", "another") for word in map(str.lower, parsed.words)
    ):
        return None
    if any(relation in ("reparandum", "goeswith", "list", "vocative", "parataxis") for relation in parsed.relations):
        return None
    return None if any(_is_odd(clause, place) for place in below) else clause


def _is_odd(clause: Clause, place: int) -> bool:
    """Return whether something that depends on the verb is not to be carried along."""
    parsed = clause.parsed
    relation = parsed.relations[place]
    if relation == "cc":
        return place != 0
    if relation == "punct":
        return clause.lower(place) not in (",", ".", "!")
    if clause.feature(place, "PronType") in ("Int", "Rel") or clause.span(place) is None:
        return True
    if relation == "advcl":  # what has no subject of its own would hang on the wrong one
        below = [parsed.relations[one] for one in clause.children[place]]
        return not any(one.startswith("nsubj") for one in below)
    return False


Parse = Callable[[str], ParsedText]


class Parses:
    """The parses of texts one by one, of which those that are known beforehand are made in one batch.

    Args:
        parser: Parses several texts at a time.
        most: Parses that are kept; older ones are dropped.

    Example:
        >>> word = ParsedText(("Go",), ("go",), ("VERB",), ("",), (-1,), ("root",), ((0, 2),))
        >>> parses = Parses(lambda texts: [word for _ in texts])
        >>> parses.prepare(["Go"])
        >>> parses("Go").lemmas
        ('go',)
    """

    def __init__(self, parser: Parser | Callable[[list[str]], list[ParsedText]], most: int = 8192) -> None:
        self._parser = parser
        self._most = most
        self._known: dict[str, ParsedText] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Parse those texts that are not known yet, all at once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._parser(new), strict=True))
            for text in list(self._known)[: max(0, len(self._known) - max(self._most, len(new)))]:
                del self._known[text]

    def __call__(self, text: str) -> ParsedText:
        """The parse of a text."""
        self.prepare([text])
        return self._known[text]


def word_tags(phrase: Phrase, parse: Parse) -> tuple[str, ...]:
    """Universal part of speech of each word of a phrase; empty where the parser sees several words in it, or another.

    The possessive ending is left out, so that *Petra's* is a name.
    """
    text = phrase.text
    parsed = parse(text)
    by_span = dict(zip(parsed.spans, parsed.tags, strict=True))
    tags, place = [], 0
    for word in phrase.words:
        start = place + len(word.before)
        end = start + len(word.core)
        place = end + len(word.after) + 1
        if text[start:end].lower() != word.core.lower():  # a capital of two letters has moved everything behind it
            return ("",) * len(phrase.words)
        bare = end - 2 if word.core[-2:].lower() in ("'s", "’s") else end
        tags.append(by_span.get((start, end)) or by_span.get((start, bare), ""))
    return tuple(tags)
