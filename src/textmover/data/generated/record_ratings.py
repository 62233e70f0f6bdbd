"""Records told in words as ratings: texts of the same facts in other words, and of other facts in much the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.generated.record_files import load_records
from textmover.data.generated.record_texts import STYLES, in_style, tell
from textmover.data.generated.records import RecordBook
from textmover.data.sources import RatedSource, Source, check_least
from textmover.data.split import HELD_BACK_SHARE, split_held_back
from textmover.perturbations.phrases import keyed_random, one_by_chance
from textmover.types import InputError, Segment

logger = logging.getLogger(__name__)

NOTICE = (
    "The ratings of told records follow from a fixed table of how bad each change of the facts is; agreeing with them "
    "is not agreeing with people."
)

UNRELATED = 0.04
"""Share of the texts that tell another record altogether."""

OWN_STYLE = 0.85
"""Share of the texts that are written in the style of their reference."""

ATTEMPTS = 4
"""Tries for each text, of which some give one that is there already."""


class RecordsDataModule(SourcesDataModule):
    """Facts about made-up things, told twice: as reference, and with changed facts or none as hypothesis.

    The rating is the share of the reference's facts that are stated, and stated rightly, whatever the words: what makes
    texts of data informative. No text of a person is needed, and none is used.

    Args:
        records: Distinct references.
        versions: Hypotheses of each.
        book: YAML file of domains, acts and severities in place of ``textmover/data/records.yaml``, as for a domain of
            one's own.
        held_back: Share of the references to hold back for validation, by a hash of their text; other references can
            tell the same facts in other words.
        batch_size: Segments to a batch, those of all processes together.
        validation_batch_size: Segments to a batch of validation.
        seed: Seed of records, words and the order of batches; if None, that of the mixture that it is part of, and 0 by
            itself.
        workers: Processes that tokenise ahead; 0 tokenises in between.
    """

    def __init__(
        self,
        records: int = 3000,
        versions: int = 2,
        book: str | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers)
        check_least(1, batch_size=batch_size, validation_batch_size=validation_batch_size)
        self.records, self.versions, self.book, self.held_back = records, versions, book, held_back
        self.batch_size, self.validation_batch_size = batch_size, validation_batch_size

    def read(self) -> list[Source[Any]]:
        """Draw the records and tell them."""
        book = load_records(self.book)
        segments = record_segments(book, self.records, self.versions, self.seed)
        training, held_back = split_held_back(segments, self.held_back)
        if len(training) < 3 or len(held_back) < 3:
            raise InputError(
                f"Expected records for at least 3 segments to train on and 3 to hold back, but got {len(training)} "
                f"and {len(held_back)}: give more `records`, or another share `held_back`."
            )
        logger.info(
            "Told records: %d domains, %d segments to train on, %d held back",
            len(book.domains), len(training), len(held_back),
        )  # fmt: skip
        return [
            RatedSource(
                "records",
                training,
                {HELD_BACK: held_back},
                batch_size=self.batch_size,
                validation_batch_size=self.validation_batch_size,
                about={
                    "records": f"{self.records} of {len(book.domains)} domains ({self.book or 'records.yaml'})",
                    "held back": f"{100 * self.held_back:g}% of the references by a hash of their text",
                },
                notice=NOTICE,
            )
        ]


def record_segments(book: RecordBook, records: int, versions: int, seed: int) -> list[Segment]:
    """Records told as reference and hypothesis, rated from 0 (worthless) to 100 (the same facts).

    Each record follows from its number and the seed alone.

    Args:
        book: What is drawn from.
        records: How many distinct references.
        versions: Hypotheses of each; fewer where fewer differ.
        seed: Seed of all choices.

    Returns:
        Segments with the group ``domain``, reference after reference.

    Example:
        >>> one, _ = record_segments(load_records(), 1, 2, seed=1)
        >>> one.hypothesis, one.score
        ('what battery life would you like for the mobile phone?', 100.0)
        >>> one.references
        ('which battery life do you have in mind for the mobile phone?',)
    """
    segments: list[Segment] = []
    references: set[str] = set()
    for number in range(ATTEMPTS * records):
        if len(references) == records:
            return segments
        made = list(_versions(book, versions, f"{seed}\n{number}"))
        if made[0].references[0] not in references:
            references.add(made[0].references[0])
            segments += made
    if len(references) == records:
        return segments
    raise InputError(
        f"Expected domains for {records} different texts, but {ATTEMPTS * records} tries gave {len(references)}: ask "
        "for fewer `records`, or give the book more names and facts."
    )


def _versions(book: RecordBook, versions: int, key: str) -> Iterator[Segment]:
    rng = keyed_random(key)
    record, style = book.draw(rng), one_by_chance(STYLES, rng)
    reference = in_style(tell(record, book, rng), style)
    made: set[str] = set()
    for _ in range(ATTEMPTS * versions):
        if len(made) == versions:
            return
        told = book.draw(rng) if rng.random() < UNRELATED else book.change(record, rng)
        written = style if rng.random() < OWN_STYLE else one_by_chance(STYLES, rng)
        hypothesis = in_style(tell(told, book, rng), written)
        if hypothesis not in made:
            made.add(hypothesis)
            rating = round(100 * (1 - book.severity(record, told)), 1)
            yield Segment(hypothesis, (reference,), score=rating, groups={"domain": record.domain})
