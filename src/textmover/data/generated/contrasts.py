"""Faithful rewordings beside near copies with one wrong fact: what tells meaning from surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from textmover.data.generated.datamodule import (
    NEIGHBOURS,
    GeneratedDataModule,
    check_damage,
    check_words,
    synthetic_notice,
    with_neighbours,
)
from textmover.data.generated.events import BOOKS, EQUIVALENT, REWORDING, WRONG_EVENTS, event_segments
from textmover.data.leakage import PairFile, segment_pairs, without_files
from textmover.data.mixture_sources import Source
from textmover.data.split import HELD_BACK_SHARE, text_hash
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.sentence_edits import WordPool, by_weight, keyed_random
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import rows_where
from textmover.types import InputError, Segment, check_choice, check_share, plural

# Kinds of damage that leave nearly every word and change what is said.
WRONG_FACTS = ("number", "entity", "roles", "negate", "antonym", "replace")
UNRELATED = "unrelated"  # kind of another text altogether, which says how far from a text a wrong fact is


@dataclass(frozen=True)
class RewordedFile(PairFile):
    """A file of pairs of texts that say the same.

    Attributes:
        columns: The columns of the text and of its rewording.
        split: Split of a hub data set; plain files have none.
        least: Least value of a column for a row to count, by column: a similarity, or a share of edits.
        most: Rows to take at most, chosen by a hash of their texts; all if ``None``.
        source: Column of what both translate, for a metric that compares with sources.
    """

    columns: tuple[str, str] = ("reference", "hypothesis")
    split: str = "train"
    least: dict[str, float] = field(default_factory=dict)
    most: int | None = None
    source: str | None = None


class ContrastsDataModule(GeneratedDataModule):
    """Rewordings of a text above near copies of it that state one wrong fact.

    For each pair the text is the reference. Its rewording by people is rated as a paraphrase, a copy of it with one
    wrong fact by the severity of the damage, and where it holds numbers or dates, a copy in another notation as its
    equal. A metric that trusts surface has them in the opposite order.

    Args:
        pairs: Files of texts and their rewordings.
        types: Kinds of wrong facts and their weights; if None, a number, a name, who did what, a negation, an opposite
            and a content word with the same weight.
        events: How many generated events to tell beside them, rightly and wrongly.
        event_books: Shipped files of these events: ``events``, ``stories``, ``reports``.
        event_types: Kinds of wrong facts of events and their weights; if None, all alike.
        strictness: Share of its severity that a wrong fact costs; people who rate similarity take off less than 1.
        unrelated: Share of the texts that have another one beside them, rated 0.
        words: Least and greatest number of words of a text.
        without: Files of text pairs, such as test sets, that must not be trained on, in either order.
        held_back: Share of the texts to hold back for validation.
        batch_size: Segments to a batch, those of all processes together.
        validation_batch_size: Segments to a batch of validation.
        seed: Seed of damage and the order of batches; if None, that of its mixture, or 0.
        workers: Processes that tokenise ahead; 0 tokenises in between.
    """

    def __init__(
        self,
        pairs: list[RewordedFile],
        types: dict[str, float] | None = None,
        events: int = 0,
        event_books: Sequence[str] = ("events",),
        event_types: dict[str, float] | None = None,
        strictness: float = 1.0,
        unrelated: float = 0.0,
        words: tuple[int, int] = (5, 40),
        without: list[PairFile] | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        files = {"pairs": [file.path for file in pairs]}
        notice = synthetic_notice("rewordings and wrong facts")
        super().__init__(seed, workers, (batch_size, validation_batch_size), files, notice)
        self.pairs, self.without = list(pairs), list(without or [])
        self.words, self.held_back = check_words(words, (5, 40)), held_back
        self.types, self.events = check_damage("types", types, WRONG_FACTS, all_perturbations()), events
        self.event_types = None if event_types is None else check_damage("event_types", event_types, (), WRONG_EVENTS)
        for name in event_books or (None,):
            check_choice("event_books", name, BOOKS)
        self.event_books = tuple(event_books)
        self.strictness, self.unrelated = check_share("strictness", strictness), check_share("unrelated", unrelated)

    def read(self) -> list[Source[Any]]:
        """Read the pairs and make the wrong facts."""
        reworded = [one for file in self.pairs for one in reworded_pairs(file, self.words)]
        [reworded], _ = without_files([reworded], self.without, segment_pairs)
        told = event_segments(self.events, self.seed, self.event_types, books=self.event_books)
        made = [*contrast_segments(reworded, self.types, self.seed), *told]
        made = [replace(one, score=round(100 - self.strictness * (100 - (one.score or 0.0)), 2)) for one in made]
        about = {"rewordings": f"{len(reworded)} of {self._named}"}
        if self.events:
            about["events"] = f"{self.events} of {', '.join(self.event_books)}"
        return self._rated(
            "contrasts",
            with_unrelated(made, self.unrelated, self.seed),
            about,
            drawn=f"Contrasts: {plural(len(reworded), 'rewording')}",
            unit="rewordings",
            way_out=f" of {', '.join(self.files)}: give more of them, or change `words`",
        )


def with_unrelated(segments: Sequence[Segment], share: float, seed: int) -> list[Segment]:
    """The segments, and for a share of the references the reference of another that is near by."""
    references = list(dict.fromkeys(one.references for one in segments))
    found = list(segments)
    for place, reference in enumerate(references):
        rng = keyed_random(f"{seed}\nunrelated {reference[0]}")
        further = 1 + int(rng.random() * min(NEIGHBOURS, len(references) - 1))
        if rng.random() < share and len(references) > 1:
            other = references[(place + further) % len(references)]
            found.append(Segment(other[0], reference, score=0.0, groups={"contrast": UNRELATED}))
    return found


def reworded_pairs(file: RewordedFile, words: tuple[int, int] = (5, 40)) -> list[Segment]:
    """The pairs of a file that count, once for each text, which is the reference."""
    text, rewording = file.columns
    columns = Columns(rewording, text, score=None, groups=(*file.where, *file.least), source=file.source)
    rows = rows_where(read_segments(file.path, columns, split=file.split), file.where, file.path)
    found: dict[str, Segment] = {}
    for row in rows:
        counts = all(_number(file.path, name, row.groups[name]) >= least for name, least in file.least.items())
        if counts and words[0] <= len(row.references[0].split()) <= words[1] and row.hypothesis != row.references[0]:
            found.setdefault(row.references[0], Segment(row.hypothesis, row.references, source=row.source))
    return sorted(found.values(), key=lambda one: text_hash(one.references[0]))[: file.most]


def _number(path: str, column: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(
            f"Expected the column {column!r} of {path} to hold numbers, but got {value!r}: name another in `least`."
        ) from error


def contrast_segments(reworded: Sequence[Segment], types: Mapping[str, float], seed: int) -> list[Segment]:
    """Each rewording, a near copy with a wrong fact, and another notation, rated from 0 to 100 beside their text.

    A text without anything to make wrong is left out. The segments have the group ``contrast``, the kind of change.
    """
    table, known = shipped_table(), all_perturbations()
    paraphrase = 100 * (1 - table.severity(REWORDING, 1, 0.0))
    by_text = {one.references[0]: one for one in reworded}

    def beside(text: str, hypothesis: str, score: float, kind: str) -> Segment:
        return replace(by_text[text], hypothesis=hypothesis, score=score, groups={"contrast": kind})

    def changed(text: str, kind: str, pool: WordPool) -> Segment | None:
        found = perturb(text, kind, 1, seed=seed, pool=pool, perturbations=known)
        return None if found is None else beside(text, found.text, found.rating, kind)

    segments: list[Segment] = []
    for text, pool, rng in with_neighbours(list(by_text), seed):
        tries = (changed(text, kind, pool) for kind in by_weight(types, rng))
        wrong = next(filter(None, tries), None)
        if wrong is not None:
            equal = changed(text, EQUIVALENT, pool)
            rewording = beside(text, by_text[text].hypothesis, paraphrase, REWORDING)
            segments += filter(None, [rewording, wrong, equal])
    return segments
