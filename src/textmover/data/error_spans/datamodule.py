"""Texts whose errors people marked: the data module, and batches with the targets of each token and gap."""

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
from textmover.data.error_spans.augmentation import KIND, check_kinds, joined_segments, with_lost_words, with_references
from textmover.data.leakage import PairFile, segment_pairs, warn_of_shared, without_files
from textmover.data.mixture_sources import Batch, Source, Tokenize
from textmover.data.split import BY_REFERENCE, HELD_BACK_SHARE, share_note, split_held_back, taken_by_hash, text_hash
from textmover.perturbations.clauses import Parse
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.tables import named_tables
from textmover.types import InputError, MarkedSegment, TokenBatch, check_share, compared_texts, plural
from textmover.types.error_spans import SEVERITIES, ErrorSpan
from textmover.types.text_words import text_words
from textmover.types.tokens import token_offsets

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MarkedBatch(Batch):
    """Texts with their errors, each beside one text that it is compared with."""

    hypotheses: TokenBatch  # B rows
    references: TokenBatch  # B rows
    of_source: Tensor  # rows whose reference is the source, bool [B]
    wrong: Tensor  # 1 where a token is of a wrong span, NaN where it is special or padding, float32 [B, L]
    missing: Tensor  # 1 where words are missing before token k or behind the last, NaN within words, float32 [B, L + 1]
    severity: Tensor  # place in SEVERITIES of the worst error of a token, -1 where none is known, int64 [B, L]


@dataclass
class MarkedSource(Source[MarkedSegment]):
    """Texts whose errors are known."""

    batch = MarkedBatch
    mode: str = "reference"  # what the metric that learns from it compares hypotheses with
    fallback: bool = False  # whether the other side stands in for a missing one

    def compared(self, item: MarkedSegment) -> tuple[str, bool]:
        """The text that an item is compared with, and whether that is its source.

        A metric that reads both learns from the source of every other text, by a hash.
        """
        (found,) = compared_texts(self, [item.compared])
        if len(found) and found.source is not None:
            of_source = text_hash(f"source of {item.hypothesis}")[0] % 2 == 1
            return (found.source if of_source else found[0]), of_source
        return found.texts[0], not len(found)

    def texts(self, item: MarkedSegment) -> tuple[str, ...]:
        """The hypothesis and the text that it is compared with."""
        return item.hypothesis, self.compared(item)[0]

    def identity(self, item: MarkedSegment) -> tuple[Any, ...]:
        """The texts and the errors."""
        errors = [(one.start, one.end, one.severity) for one in item.errors]
        return (*self.texts(item), errors, item.words, item.graded)

    def columns(self, items: Sequence[MarkedSegment], tokenize: Tokenize) -> dict[str, Any]:
        """Texts and the targets of their tokens and gaps."""
        compared = [self.compared(one) for one in items]
        texts = [one.hypothesis for one in items]
        hypotheses = tokenize(texts)
        tokenizer = getattr(getattr(tokenize, "__self__", None), "tokenizer", None)  # of the metric that tokenises
        return {
            "hypotheses": hypotheses,
            "references": tokenize([text for text, _ in compared]),
            "of_source": torch.tensor([of_source for _, of_source in compared], dtype=torch.bool),
            **token_targets(items, hypotheses, token_offsets(tokenizer, texts)),
        }


def token_targets(items: Sequence[MarkedSegment], tokens: TokenBatch, offsets: Tensor) -> dict[str, Tensor]:
    """Return ``wrong``, ``missing`` and ``severity`` of :class:`MarkedBatch`.

    A token is wrong where it shares a character with a wrong span. A gap is judged where a word begins behind it, or
    the last word ends before it: words are those that were tagged, or else those of
    :func:`~textmover.types.text_words.text_words`. A span that touches no word is missing words. ``offsets`` are the
    first character of each token and that behind its last, int64 ``[B, L, 2]``.
    """
    ordinary = tokens.ordinary.cpu().numpy()
    rows, length = ordinary.shape
    wrong = np.full((rows, length), np.nan, dtype=np.float32)
    missing = np.full((rows, length + 1), np.nan, dtype=np.float32)
    severity = np.full((rows, length), -1, dtype=np.int64)
    for row, item in enumerate(items):
        words = text_words(item.hypothesis) if item.words is None else item.words
        spans, gaps = _apart(item.errors, words)
        starts = {start: gap for gap, (start, _) in enumerate(words)}
        last = behind = 0
        for place in np.flatnonzero(ordinary[row]).tolist():
            start, end = offsets[row, place].tolist()
            start = end - len(item.hypothesis[start:end].lstrip())
            if start == end:  # white space alone
                continue
            own = [one for one in spans if one.start < end and start < one.end]
            wrong[row, place] = bool(own)
            if own and item.graded:
                severity[row, place] = max(SEVERITIES.index(one.severity) for one in own)
            if start in starts:  # once: pieces of one character share its place
                missing[row, place] = starts.pop(start) in gaps
            last, behind = place, end
        if words and words[-1][0] < behind and not tokens.truncated[row]:
            missing[row, last + 1] = len(words) in gaps
    targets = {"wrong": wrong, "missing": missing, "severity": severity}
    return {name: torch.from_numpy(one) for name, one in targets.items()}


def _apart(errors: Sequence[ErrorSpan], words: Sequence[tuple[int, int]]) -> tuple[list[ErrorSpan], set[int]]:
    """Wrong spans, and the gaps between words that hold a span which touches none of them."""
    gaps = list(zip([0, *(end for _, end in words)], [*(start for start, _ in words), np.inf], strict=True))
    spans, lacking = [], set()
    for one in errors:
        of_gap = [gap for gap, (low, high) in enumerate(gaps) if low <= one.start and one.end <= high]
        lacking.update(of_gap[:1])
        spans += [] if of_gap else [one]
    return spans, lacking


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
        seed: Seed of references and of the order of batches; if None, that of its mixture, or 0.
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
        tables = named_tables(train, "train")
        validation_tables = {} if validation is None else named_tables(validation, "validation")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": list(tables)}, notice)
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
            about["held back"] = share_note(self.held_back, self.held_back_by, training, kept)
        if self.without:
            (training, kept), left_out = without_files([training, kept], self.without, segment_pairs)
            names = ", ".join(file.path for file in self.without)
            about["without the pairs of"] = f"{names} ({plural(left_out, 'segment')} left out)"
        training = taken_by_hash(training, self.most, lambda one: (one.hypothesis, *one.references, one.source or ""))
        parts = {"training": training, HELD_BACK: kept}
        self._check_sizes("segments", parts, "give more marked texts")
        shared = warn_of_shared(HELD_BACK, training, kept)
        about |= {f"{HELD_BACK}, not apart": shared} if shared else {}
        parts = {name: with_references(part, self.references, self.seed, self.parse) for name, part in parts.items()}
        drawn = Counter(one.groups[KIND] for one in parts["training"])
        parts["training"] = with_lost_words(parts["training"], self.lost, self.seed)
        about["references"] = ", ".join(f"{count} {kind}" for kind, count in sorted(drawn.items()))
        return [marked_source(self, "errors", parts, about)]

    def _read(self, name: str, where: Mapping[str, Sequence[str]], split: str) -> list[MarkedSegment]:
        left_out: list[InputError] | None = None if self.unusable == "refuse" else []
        table = self._tables.get(name, name)
        found = read_marked(table, self.columns, where=where, split=split, left_out=left_out)
        if left_out:
            logger.warning("Rows left out: %d of %s. The first: %s", len(left_out), name, left_out[0])
        return found


def marked_source(
    module: SourcesDataModule, name: str, parts: dict[str, list[MarkedSegment]], about: dict[str, str]
) -> MarkedSource:
    """Make a source of marked segments, which have errors and words without any in each part."""
    for part, items in parts.items():
        if not any(one.errors for one in items):
            raise InputError(
                f"Expected texts with errors in the {part} part of {', '.join(module.files)}, but none of the "
                f"{len(items)} has any: give more of them, or change `held_back`."
            )
    training = joined_segments(parts["training"], getattr(module, "joined", 0.0), module.seed)
    with_errors = sum(bool(one.errors) for one in training)
    logger.info(
        "Marked errors: %s to train on (%s with errors), %d held back",
        plural(len(training), "text"), f"{with_errors:,}", len(parts[HELD_BACK]),
    )  # fmt: skip
    about = {**about, "texts with errors": f"{with_errors} of {len(training)}"}
    return module._source(MarkedSource, name, training, {HELD_BACK: parts[HELD_BACK]}, about=about)
