"""Acceptability labels: plain sentences and ungrammatical versions of them, alone or with human labels."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from textmover.data.datamodule import HELD_BACK
from textmover.data.generated.datamodule import SentencesDataModule, check_kinds, check_words, with_neighbours
from textmover.data.labelled import TASKS, LabelledSource, LabelledText, LabelsDataModule
from textmover.data.split import HELD_BACK_SHARE, is_held_back, partition
from textmover.data.training_sources import Source
from textmover.perturbations.editable_sentences import (
    Edit,
    Function,
    Phrase,
    Word,
    WordPool,
    keyed_random,
    listed,
    random_choice,
    shuffled,
)
from textmover.perturbations.perturbations import PERTURBATIONS
from textmover.safe_reading import read_yaml
from textmover.types import InputError, check_share

logger = logging.getLogger(__name__)

_WORDS = read_yaml(Path(__file__).with_name("ungrammatical.yaml"))
CONFUSED = tuple(map(listed, _WORDS["confused"]))  # function words that can seldom replace each other
FORMS: Mapping[str, str] = _WORDS["forms"]  # irregular forms
INSERTED = listed(_WORDS["inserted"])

ACCEPTABILITY = TASKS["cola"].labels  # unacceptable, acceptable
DAMAGED = "damaged"  # held-back part of damaged sentences, in addition to human labels
ATTEMPTS = 6  # kinds to try for each text, since some do not apply
NOTICE = (
    "The unacceptable sentences are synthetic: rules damaged them, and some are still acceptable. Accuracy on them "
    "does not measure agreement with people."
)


def _cores(phrase: Phrase, cores: Mapping[int, str]) -> Phrase:
    words = [word._replace(core=cores.get(place, word.core)) for place, word in enumerate(phrase.words)]
    return replace(phrase, words=tuple(words))


def _exchanged(phrase: Phrase, options: Mapping[int, Sequence[str]], degree: int, rng: Random) -> Edit | None:
    """Replace the words at ``degree`` of the positions by one of their options; articles before them stay unchanged."""
    places = shuffled([place for place, forms in options.items() if forms], rng)[:degree]
    if len(places) < degree:
        return None
    changed = _cores(phrase, {place: random_choice(options[place], rng) for place in places})
    return Edit(changed.text, tuple(phrase.words[place] for place in places))


def _without_function_words(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    places = shuffled([place for place, word in enumerate(phrase.words) if word.core and word.function], rng)[:degree]
    if len(places) < degree or len(phrase.words) < degree + 2:
        return None
    remaining = [word for place, word in enumerate(phrase.words) if place not in places]
    return Edit(replace(phrase, words=tuple(remaining)).text, tuple(phrase.words[place] for place in places))


def _with_extra_function_words(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    words = list(phrase.words)
    if len(words) < 2:
        return None
    for _ in range(degree):
        words.insert(int(rng.random() * (len(words) + 1)), Word("", random_choice(INSERTED, rng), ""))
    return Edit(replace(phrase, words=tuple(words)).text, ())


def _confused(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    options = {}
    for place, word in enumerate(phrase.words):
        lower = word.core.lower()
        options[place] = [other for family in CONFUSED if lower in family for other in family if other != lower]
    return _exchanged(phrase, options, degree, rng)


def _other_forms(word: str) -> list[str]:
    lower = word.lower()
    if lower in FORMS:
        return FORMS[lower].split()
    if lower.endswith("ing") and len(lower) > 5:
        return [lower[:-3], lower[:-3] + "ed", lower[:-3] + "s"]
    if lower.endswith("ed") and len(lower) > 4:
        return [lower[:-2], lower[:-2] + "ing", lower[:-1] + "s" if lower.endswith("eed") else lower[:-2] + "s"]
    if lower.endswith("ly") and len(lower) > 4:
        return [lower[:-2]]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")) and len(lower) > 3:
        return [lower[:-1], lower[:-1] + ("d" if lower.endswith("es") else "ed")]
    if lower.endswith("e"):
        return [lower + "s", lower + "d", lower[:-1] + "ing"]
    return [lower + "s", lower + "ed", lower + "ing"]


def _inflected(
    phrase: Phrase, degree: int, rng: Random, pool: WordPool, known: Container[str] | None = None
) -> Edit | None:
    """Inflect content words wrongly, among the known words."""
    options = {}
    for place, word in enumerate(phrase.words):
        forms = _other_forms(word.core) if word.replaceable and word.core.islower() else []
        options[place] = [form for form in forms if known is None or form in known]
    return _exchanged(phrase, options, degree, rng)


def _moved(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Move a sequence of ``degree`` words elsewhere."""
    cores = [word.core for word in phrase.words]
    if len(cores) < degree + 2:
        return None
    start = int(rng.random() * (len(cores) - degree + 1))
    stretch, rest = cores[start : start + degree], cores[:start] + cores[start + degree :]
    targets = [place for place in range(len(rest) + 1) if place != start]
    target = targets[int(rng.random() * len(targets))]
    moved = rest[:target] + stretch + rest[target:]
    return Edit(_cores(phrase, dict(enumerate(moved))).text, phrase.words[start : start + degree])


def _looped(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Repeat one or two words ``degree`` times, as generators do; half of the time, little or no text follows."""
    words = list(phrase.words)
    if len(words) < 3:
        return None
    width = 1 + int(rng.random() * 2)
    start = int(rng.random() * (len(words) - width + 1))
    stretch = [word._replace(before="", after="") for word in words[start : start + width]]
    rest = words[start + width :]
    if rng.random() < 0.5:
        rest = rest[: int(rng.random() * 2)]
    looped = [*words[:start], *stretch * (degree + 1), *rest]
    return Edit(replace(phrase, words=tuple(looped)).text, tuple(words[start : start + width]))


UNGRAMMATICAL: Mapping[str, tuple[Function, tuple[int, ...]]] = {
    "repeat": (PERTURBATIONS["repeat"], (1, 1, 2, 4)),
    "swap": (PERTURBATIONS["swap"], (1, 1, 2, 9)),
    "drop": (PERTURBATIONS["drop"], (1, 2, 4)),
    "insert": (PERTURBATIONS["insert"], (1, 2)),
    "replace": (PERTURBATIONS["replace"], (1, 2)),
    "lacking": (_without_function_words, (1, 1, 2)),
    "spare": (_with_extra_function_words, (1, 1, 2)),
    "confused": (_confused, (1, 1, 2)),
    "inflected": (_inflected, (1, 1, 2)),
    "moved": (_moved, (1, 1, 2, 3)),
    "looped": (_looped, (1, 2, 3)),
}
"""Kinds of damage, with the degrees to draw from.

Five kinds are perturbations of :mod:`textmover.perturbations.perturbations` at degrees that break sentences. Six more
affect little but grammar, as learners and generators do.
"""


def ungrammatical(
    text: str, kind: str, *, seed: int = 0, pool: WordPool | None = None, known: Container[str] | None = None
) -> str | None:
    """Return a less grammatical version of a sentence, or ``None`` if the kind does not apply.

    Some versions are still acceptable (a sentence may do without a word). ``insert`` and ``replace`` take words of the
    pool; ``inflected`` makes lower-case words from ``known`` ones.

    Example:
        >>> ungrammatical("The dogs were tired.", "confused")
        'The dogs been tired.'
        >>> ungrammatical("Stop!", "moved") is None
        True
    """
    function, degrees = UNGRAMMATICAL[kind]
    if kind == "inflected":
        function = partial(_inflected, known=known)
    rng = keyed_random(f"{seed}\n{kind}\n{text}")
    pool = pool if pool is not None else WordPool()
    phrase = Phrase.parse(text, pool)
    edit = function(phrase, degrees[int(rng.random() * len(degrees))], rng, pool)
    if edit is None or edit.text.casefold() in {text.casefold(), phrase.text.casefold()}:
        return None
    return edit.text


class AcceptabilityDataModule(SentencesDataModule):
    """Plain sentences as acceptable, a damaged version of each as unacceptable, and optional human labels.

    Args:
        texts: Files of sentences, one a line, or tables if ``column`` is given.
        column: Column of the sentences if the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: Number of distinct sentences, chosen by ``seed``; all if None.
        words: Minimum and maximum number of words of a sentence.
        kinds: Kinds of damage and their weights; equal weights if None.
        bare: Share of the sentences without end mark in both versions, since its absence is not damage.
        labels: Sentences with human labels to add to the same epochs; None for none. Their held-back part is then
            validated as ``held-back``, and that of the damaged sentences as ``damaged``.
        held_back: Share of the plain sentences to hold back for validation.
        batch_size: Sentences per batch over all processes.
        validation_batch_size: Sentences per validation batch.
        seed: Seed of sentences, damage and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
    """

    def __init__(
        self,
        texts: list[str],
        column: str | None = None,
        split: str = "train",
        sentences: int | None = None,
        words: tuple[int, int] = (3, 30),
        kinds: dict[str, float] | None = None,
        bare: float = 0.15,
        labels: LabelsDataModule | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 32,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"texts": texts}, NOTICE)
        self.column, self.splits, self.sentences = column, (split,), sentences
        self.words, self.held_back = check_words(words, (3, 30)), held_back
        self.kinds = check_kinds("kinds", kinds, UNGRAMMATICAL, UNGRAMMATICAL)
        self.bare, self.labels = check_share("bare", bare), labels

    def read(self) -> list[Source[Any]]:
        """Read the sentences, damage them, and add human labels."""
        all_texts, texts = self._sentences()
        vocabulary = known_words(all_texts)
        sides = partition(texts, (is_held_back(text, self.held_back) for text in texts))
        training, damaged = (labelled_versions(side, self.kinds, self.seed, vocabulary, self.bare) for side in sides)
        parts = {HELD_BACK: damaged}
        way_out = "give more sentences, or change `words`"
        self._check_sizes("sentences and versions", {"training": training, **parts}, way_out, least=4)
        about = {
            "plain sentences": f"{len(texts)} of {self._named}, each with a damaged version where one was found",
            "held-back sentences": f"{100 * self.held_back:g}% by a hash of their text",
        }
        if self.labels is not None:
            self.labels.setup()
            (human,) = self.labels.sources.values()
            if not isinstance(human, LabelledSource) or human.classes != ACCEPTABILITY or human.pairs:
                raise InputError(
                    f"Expected `labels` to hold single sentences of the classes {', '.join(ACCEPTABILITY)}, but got "
                    "other texts or classes: use the task `cola`."
                )
            training = [*human.items, *training]
            parts = {HELD_BACK: human.parts[HELD_BACK], DAMAGED: damaged}
            about = {**human.about, **about}
        sizes = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        logger.info("Acceptability: %d items to train on, %s", len(training), sizes)
        return [self._source(LabelledSource, "acceptability", training, parts, about=about, classes=ACCEPTABILITY)]


def known_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of texts in lower case, without punctuation around them."""
    return frozenset(word.strip(".,;:!?\"'()[]").lower() for text in texts for word in text.split())


def labelled_versions(
    texts: Sequence[str], kinds: Mapping[str, float], seed: int, known: Container[str] | None = None, bare: float = 0.0
) -> list[LabelledText]:
    """Return each text as acceptable, followed by a damaged version as unacceptable if one is found.

    ``known`` limits other word forms to known words. The items have the group ``damage``: ``none`` or the kind.
    """
    names, weights = list(kinds), list(kinds.values())
    items: list[LabelledText] = []
    for text, pool, rng in with_neighbours(texts, seed):
        end = rng.random() < bare
        items.append(LabelledText((_without_mark(text) if end else text,), 1, {"damage": "none"}))
        for attempt in range(ATTEMPTS):
            kind = rng.choices(names, weights)[0]
            version = ungrammatical(text, kind, seed=seed + attempt, pool=pool, known=known)
            if version is not None:
                items.append(LabelledText((_without_mark(version) if end else version,), 0, {"damage": kind}))
                break
    return items


def _without_mark(text: str) -> str:
    return re.sub(r"[.!?…]+$", "", text) or text
