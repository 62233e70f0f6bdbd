"""Data module of texts with human error annotations, and batches with targets of each token and gap."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.data.datamodule import HELD_BACK, SourcesDataModule, Unusable
from textmover.data.error_spans.segment_augmentation import (
    GIVEN,
    KIND,
    OTHER,
    PARAPHRASE,
    joined_segments,
    with_lost_words,
    with_references,
)
from textmover.data.generated.datamodule import check_kinds
from textmover.data.leakage import PairFile, segment_pairs, shared_with_training, warn_of_shared, without_files
from textmover.data.split import BY_REFERENCE, HELD_BACK_SHARE, sample_by_hash, share_note, split_held_back, text_hash
from textmover.data.training_sources import Batch, ComparedSource, Source, Tokenize
from textmover.perturbations.parsed_clauses import Parse
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.tables import named_tables
from textmover.types import InputError, MarkedSegment, SourcedReferences, TokenBatch, check_share, plural
from textmover.types.error_spans import SEVERITIES, ErrorSpan
from textmover.types.tokens import token_offsets
from textmover.types.word_splitting import text_words

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MarkedBatch(Batch):
    """Batch of texts with errors, each with one text to compare with."""

    hypotheses: TokenBatch  # B rows
    references: TokenBatch  # B rows
    of_source: Tensor  # rows whose reference is the source, bool [B]
    wrong: Tensor  # 1 if a token is part of an error, NaN for special tokens and padding, float32 [B, L]
    missing: Tensor  # 1 if words are missing before token k or at the end, NaN within words, float32 [B, L + 1]
    severity: Tensor  # index in SEVERITIES of a token's worst error, -1 if unknown, int64 [B, L]


@dataclass
class MarkedSource(ComparedSource[MarkedSegment]):
    """Source of texts with known errors."""

    batch = MarkedBatch

    def compared(self, items: Sequence[MarkedSegment]) -> list[SourcedReferences]:
        """Return the first reference or the source of each item.

        A metric that reads both learns from the source for half of the texts, chosen by a hash.
        """
        found = []
        for item, both in zip(items, super().compared(items), strict=True):
            drawn = both.source and text_hash(f"source of {item.hypothesis}")[0] % 2 == 1
            found.append(SourcedReferences((), both.source) if drawn or not both else SourcedReferences(both[:1]))
        return found

    def identity(self, item: MarkedSegment) -> tuple[Any, ...]:
        """Return the texts and the errors."""
        errors = [(error.start, error.end, error.severity) for error in item.errors]
        return (*self.texts(item), errors, item.words, item.graded)

    def columns(self, items: Sequence[MarkedSegment], tokenize: Tokenize) -> dict[str, Any]:
        """Return the tokenised texts and the targets of their tokens and gaps."""
        compared = self.compared(items)
        texts = [item.hypothesis for item in items]
        hypotheses = tokenize(texts)
        tokenizer = getattr(getattr(tokenize, "__self__", None), "tokenizer", None)  # of the metric that tokenises
        return {
            "hypotheses": hypotheses,
            "references": tokenize([one.texts[0] for one in compared]),
            "of_source": torch.tensor([not one for one in compared], dtype=torch.bool),
            **token_targets(items, hypotheses, token_offsets(tokenizer, texts)),
        }


def token_targets(items: Sequence[MarkedSegment], tokens: TokenBatch, offsets: Tensor) -> dict[str, Tensor]:
    """Return ``wrong``, ``missing`` and ``severity`` of :class:`MarkedBatch`.

    A token is wrong if it shares a character with an error span. A gap has a target if a word begins after it, or the
    last word ends before it. Words are the tagged ones, or else those of
    :func:`~textmover.types.word_splitting.text_words`. A span that touches no word marks missing words. ``offsets`` are
    the start and end characters of each token, int64 ``[B, L, 2]``.
    """
    ordinary = tokens.ordinary.cpu().numpy()
    rows, length = ordinary.shape
    wrong = np.full((rows, length), np.nan, dtype=np.float32)
    missing = np.full((rows, length + 1), np.nan, dtype=np.float32)
    severity = np.full((rows, length), -1, dtype=np.int64)
    for row, item in enumerate(items):
        words = text_words(item.hypothesis) if item.words is None else item.words
        spans, gaps = _split_errors(item.errors, words)
        starts = {start: gap for gap, (start, _) in enumerate(words)}
        last = behind = 0
        for token in np.flatnonzero(ordinary[row]).tolist():
            start, end = offsets[row, token].tolist()
            start = end - len(item.hypothesis[start:end].lstrip())
            if start == end:  # white space only
                continue
            spans_of_token = [span for span in spans if span.start < end and start < span.end]
            wrong[row, token] = bool(spans_of_token)
            if spans_of_token and item.graded:
                severity[row, token] = max(SEVERITIES.index(span.severity) for span in spans_of_token)
            if start in starts:  # only once: the pieces of one character share its position
                missing[row, token] = starts.pop(start) in gaps
            last, behind = token, end
        if words and words[-1][0] < behind and not tokens.truncated[row]:
            missing[row, last + 1] = len(words) in gaps
    targets = {"wrong": wrong, "missing": missing, "severity": severity}
    return {name: torch.from_numpy(values) for name, values in targets.items()}


def _split_errors(errors: Sequence[ErrorSpan], words: Sequence[tuple[int, int]]) -> tuple[list[ErrorSpan], set[int]]:
    """Split errors into spans of wrong words, and indices of gaps between words with missing words."""
    gaps = list(zip([0, *(end for _, end in words)], [*(start for start, _ in words), np.inf], strict=True))
    spans, gaps_with_errors = [], set()
    for error in errors:
        of_gap = [gap for gap, (low, high) in enumerate(gaps) if low <= error.start and error.end <= high]
        gaps_with_errors.update(of_gap[:1])
        spans += [] if of_gap else [error]
    return spans, gaps_with_errors


class MarkedDataModule(SourcesDataModule):
    """Texts with human error annotations from files, split for training and validation.

    A share of the references is held back by a hash of their text, as in
    :class:`~textmover.data.datamodule.RatingsDataModule`.

    Args:
        train: Training tables of marked errors: files, ``hub:owner/name``, or in-memory tables.
        validation: Validation tables in the same forms; they replace the held-back part.
        columns: Roles of the columns, which define how errors are written.
        split: Split of a hub data set for training; plain files have none.
        validation_split: Split of a hub data set for validation.
        where: Training rows, as values by column; all if ``None``.
        validation_where: Validation rows, as values by column.
        without: Files of text pairs, such as test sets, to exclude from training and held-back data, in either order.
        references: Weights of reference kinds: ``given``, ``paraphrase`` (by rules for English) and ``other`` (the
            closest other reference). Each segment draws one, by ``seed``, and falls back to the given one. ``None``
            keeps the given references.
        held_back: Share of the references to hold back if there are no validation files.
        held_back_by: Values that may not be on both sides: ``reference``, ``source``, and group keys.
        batch_size: Texts per batch over all processes.
        validation_batch_size: Texts per validation batch.
        seed: Seed of references and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        notice: Caveat about these errors for readers of the results; printed with them and added to the model card.
        unusable: Whether unusable rows raise an error or are excluded and counted.
        joined: Share of the training texts that join 2 to 8 rows, to include long texts.
        lost: Share of the training texts replaced by their reference without one of its words.
        most: Maximum number of training rows, chosen by a hash of their texts.
    """

    parse: Parse | None = None
    """Parser of references, for paraphrases in active or passive voice."""

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
        validation_tables = {} if validation is None else named_tables(validation, "validation")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": train}, notice)
        if not columns.compared:
            raise InputError("Expected `columns` to name a reference or a source to compare with, but got none.")
        unknown = set(held_back_by) - {"reference", *columns.groups, *(() if columns.source is None else ("source",))}
        if unknown or not held_back_by:
            raise InputError(
                "Expected `held_back_by` to name `reference`, a column of `columns.groups`, or `source` (if "
                f"`columns.source` is set), but got {list(held_back_by)}: name another."
            )
        self.validation_files = list(validation_tables)
        self._tables |= validation_tables
        self.splits, self.columns = (split, validation_split), columns
        self.where, self.validation_where = where or {}, validation_where or {}
        self.without = list(without or [])
        self.references = check_kinds("references", references, (GIVEN,), (GIVEN, PARAPHRASE, OTHER))
        self.held_back, self.held_back_by, self.unusable = held_back, tuple(held_back_by), unusable
        self.joined, self.lost, self.most = check_share("joined", joined), check_share("lost", lost), most

    def read(self) -> list[Source[Any]]:
        """Read and split the files, and draw the references."""
        about = {"training files": ", ".join(self.files)}
        training = [item for name in self.files for item in self._read(name, self.where, self.splits[0])]
        if self.validation_files:
            about["validation files"] = ", ".join(self.validation_files)
            held = [
                one for name in self.validation_files for one in self._read(name, self.validation_where, self.splits[1])
            ]
        else:
            training, held = split_held_back(training, self.held_back, self.held_back_by)
            about["held back"] = share_note(self.held_back, self.held_back_by, training, held)
        (training, held), left_out = without_files([training, held], self.without, segment_pairs)
        about |= left_out
        training = sample_by_hash(training, self.most, lambda one: (one.hypothesis, *one.references, one.source or ""))
        parts = {"training": training, HELD_BACK: held}
        self._check_sizes("segments", parts, "give more marked texts")
        overlaps = shared_with_training(training, held)
        about |= warn_of_shared(HELD_BACK, overlaps, given=bool(self.validation_files))
        parts = {name: with_references(part, self.references, self.seed, self.parse) for name, part in parts.items()}
        drawn = Counter(one.groups[KIND] for one in parts["training"])
        parts["training"] = with_lost_words(parts["training"], self.lost, self.seed)
        about["references"] = ", ".join(f"{count} {kind}" for kind, count in sorted(drawn.items()))
        return [marked_source(self, "errors", parts, about)]

    def _read(self, name: str, where: Mapping[str, Sequence[str]], split: str) -> list[MarkedSegment]:
        left_out: list[InputError] | None = None if self.unusable == "refuse" else []
        table = self._tables.get(name, name)
        segments = read_marked(table, self.columns, where=where, split=split, left_out=left_out)
        if left_out:
            logger.warning("Rows left out: %d of %s. The first: %s", len(left_out), name, left_out[0])
        return segments


def marked_source(
    module: SourcesDataModule, name: str, parts: dict[str, list[MarkedSegment]], about: dict[str, str]
) -> MarkedSource:
    """Return a source of marked segments; raise an error if a part has no errors."""
    for part, items in parts.items():
        if not any(segment.errors for segment in items):
            raise InputError(
                f"Expected texts with errors in the {part} part of {', '.join(module.files)}, but none of the "
                f"{len(items)} has any: give more of them, or change `held_back`."
            )
    training = joined_segments(parts["training"], getattr(module, "joined", 0.0), module.seed)
    with_errors = sum(bool(segment.errors) for segment in training)
    logger.info(
        "Marked errors: %s to train on (%s with errors), %d held back",
        plural(len(training), "text"), f"{with_errors:,}", len(parts[HELD_BACK]),
    )  # fmt: skip
    about = {**about, "texts with errors": f"{with_errors} of {len(training)}"}
    return module._source(MarkedSource, name, training, {HELD_BACK: parts[HELD_BACK]}, about=about)
