"""Simple clauses of a parsed sentence that can change between active and passive voice.

A clause with anything outside these rules is not simple, so that rewritten clauses read well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from textmover.perturbations.editable_sentences import LEXICON, Phrase, listed, word_set
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
    """Person and number that a finite verb agrees with."""

    person: int
    plural: bool


PRONOUNS = {
    word: Agreement(int(kind[0]), kind.endswith("plural"))
    for kind, words in LEXICON["pronouns"].items()
    for word in listed(words)
}


class VerbGroup(NamedTuple):
    """A verb with its auxiliaries, independent of voice."""

    tense: str  # ``"past"`` or ``"present"``; unused with a modal
    modal: str  # modal verb, or empty
    perfect: bool  # whether it has the form *have done*
    progressive: bool  # whether it has the form *be doing*
    supported: bool  # whether it has the form *do* with a plain verb
    negated: bool  # whether it contains *not*
    adverbs: tuple[str, ...]  # adverbs before the verb


@dataclass(frozen=True)
class Clause:
    """A sentence of one verb, with its subject before it."""

    text: str
    parsed: ParsedText
    verb: int  # index of the verb, the root
    subject: int  # index of the head of the subject
    passive: bool

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Dependents of each word, in order."""
        found: list[list[int]] = [[] for _ in self.parsed.words]
        for place, head in enumerate(self.parsed.heads):
            if head >= 0:
                found[head].append(place)
        return tuple(map(tuple, found))

    def lower(self, place: int) -> str:
        """Return a word in lower case with a straight apostrophe."""
        return self.parsed.words[place].lower().replace("’", "'")

    def feature(self, place: int, name: str) -> str:
        """Return the value of a morphological feature, or empty."""
        match = re.search(rf"(?:^|\|){name}=([^|]+)", self.parsed.features[place])
        return match[1] if match else ""

    def below(self, place: int) -> list[int]:
        """Return a word with all its descendants, in text order."""
        descendants, pending = [], [place]
        while pending:
            descendants.append(pending.pop())
            pending += self.children[descendants[-1]]
        return sorted(descendants)

    def span(self, place: int) -> range | None:
        """Return the range of a constituent, or ``None`` if it is not contiguous."""
        found = self.below(place)
        return range(found[0], found[-1] + 1) if found[-1] - found[0] + 1 == len(found) else None

    def slice(self, words: range) -> str:
        """Return the text of a range of words."""
        return self.text[self.parsed.spans[words[0]][0] : self.parsed.spans[words[-1]][1]]

    def of_verb(self, relation: str) -> tuple[int, ...]:
        """Return the dependents of the verb with a relation."""
        return tuple(child for child in self.children[self.verb] if self.parsed.relations[child] == relation)

    def agreement(self, head: int) -> Agreement | None:
        """Return person and number of a noun phrase, or ``None`` if they are unclear."""
        parsed = self.parsed
        nouns = [one for one in self.children[head] if parsed.relations[one] == "conj"]
        if nouns:
            words = {self.lower(one) for place in nouns for one in self.children[place] if parsed.tags[one] == "CCONJ"}
            return Agreement(3, True) if words == {"and"} else None
        if parsed.tags[head] == "PRON":
            pronoun = PRONOUNS.get(self.lower(head))
            is_question = self.feature(head, "PronType") in ("Rel", "Int")
            return None if pronoun is None or is_question else pronoun
        if parsed.tags[head] not in ("NOUN", "PROPN") or self.lower(head) in UNCLEAR_AMOUNTS:
            return None
        number, word = self.feature(head, "Number"), self.lower(head)
        looks_plural = word.endswith(("s", "men")) or word in OTHER_PLURALS
        unchanged = word == parsed.lemmas[head].lower()
        if parsed.tags[head] == "NOUN" and (looks_plural and not unchanged if number == "Sing" else not looks_plural):
            return None  # tagger, lemmatizer and form disagree
        return Agreement(3, number != "Sing") if number in ("Sing", "Plur", "Ptan") else None

    def chain(self, group: Iterable[int]) -> VerbGroup | None:
        """Return the verb chain from the words between subject and verb; ``None`` if it is not understood."""
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

    def _understood(self, auxiliaries: Sequence[int], negated: bool, adverbs: tuple[str, ...]) -> VerbGroup | None:
        """Interpret the auxiliaries as tense, modal, perfect and progressive."""
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
        return VerbGroup(tense, modal, perfect, progressive, "do" in kinds, negated, adverbs)

    def _kind(self, place: int) -> str:
        """Return a modal verb, ``have``, ``be`` or ``do``; otherwise empty."""
        word = CONTRACTED.get(self.lower(place), self.lower(place))
        if word in MODALS:
            return word
        lemma = self.parsed.lemmas[place].lower()
        if word == "'d":
            return lemma if lemma in ("would", "have") else ""
        return lemma if lemma in ("have", "be", "do") else ""

    def _verb_tense(self, word: str, lemma: str) -> str:
        """Return the tense of a verb without auxiliaries; empty if it is not finite."""
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
    """Return the single clause of a text; ``None`` for several sentences, questions, quotations or unusual cases."""
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
    """Return whether a dependent of the verb prevents a rewriting."""
    parsed = clause.parsed
    relation = parsed.relations[place]
    if relation == "cc":
        return place != 0
    if relation == "punct":
        return clause.lower(place) not in (",", ".", "!")
    if clause.feature(place, "PronType") in ("Int", "Rel") or clause.span(place) is None:
        return True
    if relation == "advcl":  # without a subject of its own, it would attach to the wrong one
        below = [parsed.relations[relation] for relation in clause.children[place]]
        return not any(relation.startswith("nsubj") for relation in below)
    return False


Parse = Callable[[str], ParsedText]


class Parses:
    """Cached parser of single texts; texts that are known in advance are parsed as a batch.

    Args:
        parser: Parser of several texts at a time.
        most: Maximum number of cached parses; the oldest are evicted.

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
        """Parse all texts that are not cached, as one batch."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._parser(missing), strict=True))
            for text in list(self._known)[: max(0, len(self._known) - max(self._most, len(missing)))]:
                del self._known[text]

    def __call__(self, text: str) -> ParsedText:
        """Return the parse of a text."""
        self.prepare([text])
        return self._known[text]


def word_tags(phrase: Phrase, parse: Parse) -> tuple[str, ...]:
    """Return the universal part of speech of each word; empty if the parser splits the word differently.

    The possessive ending is ignored, so that *Petra's* is a name.
    """
    text = phrase.text
    parsed = parse(text)
    by_span = dict(zip(parsed.spans, parsed.tags, strict=True))
    tags, position = [], 0
    for word in phrase.words:
        start = position + len(word.before)
        end = start + len(word.core)
        position = end + len(word.after) + 1
        if text[start:end].lower() != word.core.lower():  # a capital of two letters shifts all following words
            return ("",) * len(phrase.words)
        bare = end - 2 if word.core[-2:].lower() in ("'s", "’s") else end
        tags.append(by_span.get((start, end)) or by_span.get((start, bare), ""))
    return tuple(tags)
