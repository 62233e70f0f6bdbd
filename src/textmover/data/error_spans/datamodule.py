"""Data module of texts whose errors people marked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from textmover.data.datamodule import HELD_BACK, SourcesDataModule, Unusable
from textmover.data.error_spans.augmentation import KIND, check_kinds, joined_segments, with_lost_words, with_references
from textmover.data.error_spans.source import MarkedSource
from textmover.data.leakage import PairFile, segment_pairs, warn_of_shared, without_files
from textmover.data.sources import Source
from textmover.data.split import BY_REFERENCE, HELD_BACK_SHARE, split_held_back, taken_by_hash
from textmover.perturbations.clauses import Parse
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.memory_tables import named_tables
from textmover.types import InputError, MarkedSegment, check_share, plural

logger = logging.getLogger(__name__)


class MarkedDataModule(SourcesDataModule):
    """Texts with marked errors from files, split for training and validation.

    A part of the references is held back by a hash of their text, as
    :class:`~textmover.data.datamodule.RatingsDataModule` does.

    Args:
        train: Tables of marked errors to train on: files, ``hub:owner/name``, or tables in memory.
        validation: Tables to validate on, likewise, in place of a held-back part.
        columns: What the columns mean, and how errors are written.
        split: Split of a hub data set to train on; plain files have none.
        validation_split: Split of a hub data set to validate on.
        where: Rows to train on, as values by column; all if ``None``.
        validation_where: Rows of the validation files, likewise.
        without: Files of text pairs, such as test sets, that must neither be trained on nor held back, in either order.
        references: Weights of what the hypothesis is compared with: the reference that is ``given``, a ``paraphrase``
            of it by rules for English, or the closest ``other`` reference. Each segment draws one, by ``seed``, and
            keeps the given one where there is no other; only the given one if ``None``.
        held_back: Share of the references to hold back, where no validation files are given.
        held_back_by: What may not stand on both sides: ``reference``, ``source``, and group keys.
        batch_size: Texts to a batch, those of all processes together.
        validation_batch_size: Texts to a batch of validation.
        seed: Seed of references and of the order of batches; if None, that of the mixture that it is part of, and 0 by
            itself.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        notice: What a reader of the results must know about these errors; printed with them and put on the card.
        unusable: Whether rows that cannot be used are refused, or left out and counted.
        joined: Share of the texts to train on that are 2 to 8 rows joined, so that long texts are learned too.
        lost: Share of the texts to train on in whose place the reference stands, without one of its words.
        most: Rows to train on at most, chosen by a hash of their texts.
    """

    parse: Parse | None = None
    """Parser of references, with which paraphrases change between active and passive."""

    def __init__(
        self,
        train: list[str] | Any,
        validation: list[str] | Any | None = None,
        columns: MarkedColumns = MarkedColumns(),  # noqa: B008 - frozen
        split: str = "train",
        validation_split: str = "validation",
        where: dict[str, list[str]] | None = None,
        validation_where: dict[str, list[str]] | None = None,
        without: list[PairFile] | None = None,
        references: dict[str, float] | None = None,
        held_back: float = HELD_BACK_SHARE,
        held_back_by: list[str] | tuple[str, ...] = BY_REFERENCE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
        notice: str | None = None,
        unusable: Unusable = "refuse",
        joined: float = 0.0,
        lost: float = 0.0,
        most: int | None = None,
    ) -> None:
        sizes = (batch_size, validation_batch_size)
        tables = named_tables(train, "train")
        validation_tables = {} if validation is None else named_tables(validation, "validation")
        super().__init__(seed, workers, batch_sizes=sizes, files={"train": list(tables)}, notice=notice)
        if not columns.compared:
            raise InputError("Expected `columns` to name a reference or a source to compare with, but got none.")
        unknown = set(held_back_by) - {"reference", *columns.groups, *(() if columns.source is None else ("source",))}
        if unknown or not held_back_by:
            raise InputError(
                "Expected `held_back_by` to name `reference`, a column of `columns.groups`, or `source` beside "
                f"`columns.source`, but got {list(held_back_by)}: name another."
            )
        self.validation_files = list(validation_tables)
        self._tables = {**tables, **validation_tables}
        self.splits, self.columns = (split, validation_split), columns
        self.where, self.validation_where = where or {}, validation_where or {}
        self.without, self.references = list(without or []), check_kinds(references)
        self.held_back, self.held_back_by, self.unusable = held_back, tuple(held_back_by), unusable
        self.joined, self.lost, self.most = check_share("joined", joined), check_share("lost", lost), most

    def read(self) -> list[Source[Any]]:
        """Read and split the files, and draw the references."""
        about = {"training files": ", ".join(self.files)}
        training = [one for name in self.files for one in self._read(name, self.where, self.splits[0])]
        if self.validation_files:
            about["validation files"] = ", ".join(self.validation_files)
            kept = [
                one for name in self.validation_files for one in self._read(name, self.validation_where, self.splits[1])
            ]
        else:
            training, kept = split_held_back(training, self.held_back, self.held_back_by)
            kinds = "references" if self.held_back_by == BY_REFERENCE else " and ".join(map(repr, self.held_back_by))
            about["held back"] = (
                f"{100 * self.held_back:g}% of the {kinds} by a hash of their text "
                f"({len(kept)} of {len(training) + len(kept)} segments)"
            )
        if self.without:
            (training, kept), left_out = without_files([training, kept], self.without, segment_pairs)
            names = ", ".join(file.path for file in self.without)
            about["without the pairs of"] = f"{names} ({plural(left_out, 'segment')} left out)"
        training = taken_by_hash(training, self.most, lambda one: (one.hypothesis, *one.references, one.source or ""))
        parts = {"training": training, HELD_BACK: kept}
        self._check_sizes("segments", parts, "give more marked texts")
        shared = warn_of_shared(HELD_BACK, training, kept)
        about |= {f"{HELD_BACK}, not apart": shared} if shared else {}
        training, kept = (with_references(part, self.references, self.seed, self.parse) for part in (training, kept))
        drawn = Counter(one.groups[KIND] for one in training)
        training = with_lost_words(training, self.lost, self.seed)
        about["references"] = ", ".join(f"{count} {kind}" for kind, count in sorted(drawn.items()))
        return [marked_source(self, "errors", training, kept, about)]

    def _read(self, name: str, where: Mapping[str, Sequence[str]], split: str) -> list[MarkedSegment]:
        left_out: list[InputError] | None = None if self.unusable == "refuse" else []
        table = self._tables.get(name, name)
        found = read_marked(table, self.columns, where=where, split=split, left_out=left_out)
        if left_out:
            logger.warning("Rows left out: %d of %s. The first: %s", len(left_out), name, left_out[0])
        return found


def marked_source(
    module: SourcesDataModule,
    name: str,
    training: list[MarkedSegment],
    kept: list[MarkedSegment],
    about: Mapping[str, str],
) -> MarkedSource:
    """Make a source of marked segments, which have errors and words without any in each part."""
    for part, items in (("training", training), (HELD_BACK, kept)):
        if not any(one.errors for one in items):
            raise InputError(
                f"Expected texts with errors in the {part} part of {', '.join(module.files)}, but none of the "
                f"{len(items)} has any: give more of them, or change `held_back`."
            )
    training = joined_segments(training, getattr(module, "joined", 0.0), module.seed)
    with_errors = sum(bool(one.errors) for one in training)
    logger.info(
        "Marked errors: %s to train on (%s with errors), %d held back",
        plural(len(training), "text"), f"{with_errors:,}", len(kept),
    )  # fmt: skip
    about = {**about, "texts with errors": f"{with_errors} of {len(training)}"}
    return module._source(MarkedSource, name, training, {HELD_BACK: kept}, about=about)
