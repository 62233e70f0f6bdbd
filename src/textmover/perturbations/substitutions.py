"""Words replaced by a token without a meaning, or by their neighbours in a space of word vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random

from textmover.perturbations.edits import Edit, mixed, with_words
from textmover.perturbations.names import always_capitalised
from textmover.perturbations.parses import Parse, word_tags
from textmover.perturbations.phrases import Phrase, WordPool

FILLER = "AAA"
"""What stands for a word, as in RoMe (section 4.6, case 3)."""

Neighbours = Callable[[str, str], Sequence[str]]
"""A word and the sentence that it stands in to the words that may take its place, the best first."""

ENDINGS = ("ing", "ed", "ly", "est", "er", "s")
"""What has the same ending is likely the same form; the parse, where there is one, decides on the word class."""


def random_word(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """``degree`` content words replaced by :data:`FILLER`."""
    places = mixed([place for place, word in enumerate(phrase.words) if word.replaceable], rng)[:degree]
    fillable = len(places) == degree and all(phrase.words[place].core != FILLER for place in places)
    return with_words(phrase, dict.fromkeys(places, FILLER)) if fillable else None


def substitute(
    neighbours: Neighbours, parse: Parse | None, phrase: Phrase, degree: int, rng: Random, pool: WordPool
) -> Edit | None:
    """``degree`` content words replaced by neighbours, as a perturbation once the two callables are bound.

    A word takes the first of its neighbours that is no other form of it, has the same ending, and, where there is a
    parse, the same part of speech in the new sentence. Names stay. (The greedy word-by-word attack of TextFooler
    without its search for the words that matter most to a classifier, since there is none here.)

    Reference:
        Jin et al. (2020), "Is BERT Really Robust?", AAAI.
    """
    tags = word_tags(phrase, parse) if parse is not None else None
    new: dict[int, str] = {}
    for place in mixed([place for place, word in enumerate(phrase.words) if word.replaceable], rng):
        if len(new) == degree:
            break
        core = phrase.words[place].core
        if core != core.lower() or always_capitalised(core.capitalize()) or (tags and tags[place] in ("PROPN", "")):
            continue
        present = {word.core.lower() for word in phrase.words} | set(new.values())
        for other in neighbours(core, phrase.text):
            if other.lower() in present or not _fits(core, other):
                continue
            if parse is None or tags is None or _tag_after(phrase, place, other, parse) == tags[place]:
                new[place] = other
                break
    return with_words(phrase, new) if len(new) == degree else None


def _fits(word: str, other: str) -> bool:
    """Whether another word is of the same form and not of the same stem."""
    if not other.isalpha() or other != other.lower():
        return False
    one, two = (next((ending for ending in ENDINGS if text.endswith(ending)), "") for text in (word, other))
    stems = sorted((word.removesuffix(one).rstrip("e"), other.removesuffix(two).rstrip("e")), key=len)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*stems, strict=False)))
    return one == two and shared < max(4, len(stems[0]) - 1) and shared < len(stems[0])


def _tag_after(phrase: Phrase, place: int, other: str, parse: Parse) -> str:
    """The part of speech of the new word in the new sentence."""
    return word_tags(Phrase.parse(with_words(phrase, {place: other}).text, WordPool()), parse)[place]
