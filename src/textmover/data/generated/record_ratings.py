"""Records told in words as ratings: texts of the same facts in other words, and of other facts in much the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textmover.data.generated.datamodule import ATTEMPTS, GeneratedDataModule, distinct_versions
from textmover.data.generated.record_files import load_records
from textmover.data.generated.records import STYLES, RecordBook, in_style, tell
from textmover.data.sources import Source
from textmover.data.split import HELD_BACK_SHARE
from textmover.perturbations.phrases import keyed_random, one_by_chance
from textmover.types import InputError, Segment, plural

NOTICE = (
    "The ratings of generated records are synthetic: each change of the facts has a fixed rating. Agreeing with them "
    "is not agreeing with people."
)

UNRELATED = 0.04
"""Share of the texts that tell another record altogether."""

OWN_STYLE = 0.85
"""Share of the texts that are written in the style of their reference."""


class RecordsDataModule(GeneratedDataModule):
    """Facts about made-up things, verbalised twice: as reference, and with or without changes as hypothesis.

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
        super().__init__(seed, workers, batch_sizes=(batch_size, validation_batch_size), notice=NOTICE)
        self.records, self.versions, self.book, self.held_back = records, versions, book, held_back

    def read(self) -> list[Source[Any]]:
        """Draw the records and verbalise them."""
        book = load_records(self.book)
        source = self._rated(
            "records",
            record_segments(book, self.records, self.versions, self.seed),
            {"records": f"{self.records} of {plural(len(book.domains), 'domain')} ({self.book or 'records.yaml'})"},
            drawn=f"Synthetic records: {plural(len(book.domains), 'domain')}",
            unit="records",
            way_out=": give more `records`, or another share `held_back`",
        )
        return [source]


def record_segments(book: RecordBook, records: int, versions: int, seed: int) -> list[Segment]:
    """Records told as reference and hypothesis, rated from 0 (worthless) to 100 (the same facts).

    Each record follows from its number and the seed alone. The segments have the group ``domain``.

    Args:
        book: What is drawn from.
        records: How many distinct references.
        versions: Hypotheses of each; fewer where fewer differ.
        seed: Seed of all choices.

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
        made = distinct_versions(_versions(book, versions, f"{seed}\n{number}"), versions)
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
    for _ in range(ATTEMPTS * versions):
        told = book.draw(rng) if rng.random() < UNRELATED else book.change(record, rng)
        written = style if rng.random() < OWN_STYLE else one_by_chance(STYLES, rng)
        hypothesis = in_style(tell(told, book, rng), written)
        rating = round(100 * (1 - book.severity(record, told)), 1)
        yield Segment(hypothesis, (reference,), score=rating, groups={"domain": record.domain})
