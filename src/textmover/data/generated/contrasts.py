"""Faithful paraphrases and near copies with one wrong fact, which separate meaning from surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from textmover.data.generated.datamodule import (
    NEIGHBOURS,
    GeneratedDataModule,
    check_kinds,
    check_words,
    synthetic_notice,
    with_neighbours,
)
from textmover.data.generated.events import BOOKS, EQUIVALENT, REWORDING, WRONG_EVENTS, event_segments
from textmover.data.leakage import PairFile, segment_pairs, without_files
from textmover.data.split import HELD_BACK_SHARE, text_hash
from textmover.data.training_sources import Source
from textmover.perturbations.editable_sentences import WordPool, keyed_random, weighted_order
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import check_split, rows_where
from textmover.types import InputError, Segment, check_choice, check_share, plural

# Kinds of damage that keep nearly every word but change the meaning.
WRONG_FACTS = ("number", "entity", "roles", "negate", "antonym", "replace")
UNRELATED = "unrelated"  # kind of an unrelated text, which anchors the low end of the ratings


@dataclass(frozen=True)
class RewordedFile(PairFile):
    """File of paraphrase pairs.

    Attributes:
        columns: Columns of the text and of its paraphrase.
        split: Split of a hub data set; plain files have none.
        least: Minimum value by column for a row to count: a similarity, or a share of edits.
        most: Maximum number of rows, chosen by a hash of their texts; all if ``None``.
        source: Column of the text that both translate, for a metric that compares with sources.
    """

    columns: tuple[str, str] = ("reference", "hypothesis")
    split: str = "train"
    least: dict[str, float] = field(default_factory=dict)
    most: int | None = None
    source: str | None = None


class ContrastsDataModule(GeneratedDataModule):
    """Paraphrases of a text rated above near copies of it with one wrong fact.

    The text of each pair is the reference. Its human paraphrase is rated as a paraphrase. A copy with one wrong fact is
    rated by the severity of the damage. If the text holds numbers or dates, a copy in another notation is rated as
    equivalent. A metric that relies on surface similarity ranks these in the opposite order.

    Args:
        pairs: Files of texts and their paraphrases.
        types: Kinds of wrong facts and their weights; if None, equal weights for a number, a name, swapped roles, a
            negation, an antonym and a content word.
        events: Number of generated events to add, verbalised rightly and wrongly.
        event_books: Shipped files of these events: ``events``, ``stories``, ``reports``.
        event_types: Kinds of wrong facts of events and their weights; equal weights if None.
        strictness: Factor on the severity of a wrong fact; human raters of similarity deduct less than 1.
        unrelated: Share of the texts paired with an unrelated one, rated 0.
        words: Minimum and maximum number of words of a text.
        without: Files of text pairs, such as test sets, to exclude from training, in either order.
        held_back: Share of the texts to hold back for validation.
        batch_size: Segments per batch over all processes.
        validation_batch_size: Segments per validation batch.
        seed: Seed of damage and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
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
        self.types, self.events = check_kinds("types", types, WRONG_FACTS, all_perturbations()), events
        self.event_types = None if event_types is None else check_kinds("event_types", event_types, (), WRONG_EVENTS)
        for name in event_books or (None,):
            check_choice("event_books", name, BOOKS)
        self.event_books = tuple(event_books)
        self.strictness, self.unrelated = check_share("strictness", strictness), check_share("unrelated", unrelated)

    def read(self) -> list[Source[Any]]:
        """Read the pairs and make the wrong facts."""
        rewordings = [pair for file in self.pairs for pair in reworded_pairs(file, self.words)]
        [rewordings], _ = without_files([rewordings], self.without, segment_pairs)
        event_items = event_segments(self.events, self.seed, self.event_types, books=self.event_books)
        rated = [*contrast_segments(rewordings, self.types, self.seed), *event_items]
        rated = [replace(item, score=round(100 - self.strictness * (100 - (item.score or 0.0)), 2)) for item in rated]
        about = {"rewordings": f"{len(rewordings)} of {self._named}"}
        if self.events:
            about["events"] = f"{self.events} of {', '.join(self.event_books)}"
        return self._rated(
            "contrasts",
            with_unrelated(rated, self.unrelated, self.seed),
            about,
            drawn=f"Contrasts: {plural(len(rewordings), 'rewording')}",
            way_out="give more rewordings, or change `words`",
        )


def with_unrelated(segments: Sequence[Segment], share: float, seed: int) -> list[Segment]:
    """Return the segments, and for a share of the references the reference of a nearby text as unrelated hypothesis."""
    references = list(dict.fromkeys(segment.references for segment in segments))
    result = list(segments)
    for index, reference in enumerate(references):
        rng = keyed_random(f"{seed}\nunrelated {reference[0]}")
        step = 1 + int(rng.random() * min(NEIGHBOURS, len(references) - 1))
        if rng.random() < share and len(references) > 1:
            other = references[(index + step) % len(references)]
            result.append(Segment(other[0], reference, score=0.0, groups={"contrast": UNRELATED}))
    return result


def reworded_pairs(file: RewordedFile, words: tuple[int, int] = (5, 40)) -> list[Segment]:
    """Return the usable pairs of a file, one for each text, which is the reference."""
    text, rewording = file.columns
    columns = Columns(rewording, text, score=None, groups=(*file.where, *file.least), source=file.source)
    check_split("split", file.split, [file.path], ["train"])
    rows = rows_where(read_segments(file.path, columns, split=file.split), file.where, file.path)
    pairs: dict[str, Segment] = {}
    for row in rows:
        usable = all(_number(file.path, name, row.groups[name]) >= least for name, least in file.least.items())
        if usable and words[0] <= len(row.references[0].split()) <= words[1] and row.hypothesis != row.references[0]:
            pairs.setdefault(row.references[0], Segment(row.hypothesis, row.references, source=row.source))
    return sorted(pairs.values(), key=lambda segment: text_hash(segment.references[0]))[: file.most]


def _number(path: str, column: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(
            f"Expected the column {column!r} of {path} to hold numbers, but got {value!r}: name another in `least`."
        ) from error


def contrast_segments(reworded: Sequence[Segment], types: Mapping[str, float], seed: int) -> list[Segment]:
    """Return each paraphrase with a near copy with a wrong fact and another notation, rated from 0 to 100.

    Texts without a possible wrong fact are skipped. The segments have the group ``contrast``, the kind of change.
    """
    table, available = shipped_table(), all_perturbations()
    paraphrase = 100 * (1 - table.severity(REWORDING, 1, 0.0))
    by_text = {segment.references[0]: segment for segment in reworded}

    def with_text(text: str, hypothesis: str, score: float, kind: str) -> Segment:
        return replace(by_text[text], hypothesis=hypothesis, score=score, groups={"contrast": kind})

    def damaged(text: str, kind: str, pool: WordPool) -> Segment | None:
        result = perturb(text, kind, 1, seed=seed, pool=pool, perturbations=available)
        return None if result is None else with_text(text, result.text, result.rating, kind)

    segments: list[Segment] = []
    for text, pool, rng in with_neighbours(list(by_text), seed):
        tries = (damaged(text, kind, pool) for kind in weighted_order(types, rng))
        wrong = next(filter(None, tries), None)
        if wrong is not None:
            equal = damaged(text, EQUIVALENT, pool)
            rewording = with_text(text, by_text[text].hypothesis, paraphrase, REWORDING)
            segments += filter(None, [rewording, wrong, equal])
    return segments
