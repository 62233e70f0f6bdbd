"""Training sources: items of one kind, their held-out parts, and their batches.

A data module has one source or several; a training module learns one task from each.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from textmover.types import InputError, Segment, TokenBatch

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

Item = TypeVar("Item")

Tokenize = Callable[[Sequence[str]], TokenBatch]
"""Texts to token ids: a metric's own ``tokenize``."""

MIN_SEGMENTS = 3
"""Fewest segments that a correlation is computed of."""

LENGTH_CHUNK = 1024
"""Texts that are tokenised at a time to learn their lengths."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Items of one source that are learned from at a time.

    Attributes:
        positions: Place of each item in its part of the data, int64 ``[B]``.
        source: Name of the source that the items are of.
        joint: Items of the batch over all processes, of which process ``r`` of ``w`` has every ``w``-th from ``r``.
    """

    positions: Tensor
    source: str
    joint: int

    def __len__(self) -> int:
        return len(self.positions)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on ``device``, every number in its type (float64 ratings do not fit on MPS)."""
        return replace(self, **{one.name: _moved(getattr(self, one.name), device) for one in fields(self)})


def _moved(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(one, device) for one in value)
    return value.to(device) if isinstance(value, (torch.Tensor, TokenBatch)) else value


@dataclass(frozen=True, kw_only=True)
class RatingBatch(Batch):
    """Rated segments, one row per pair of a hypothesis and one of its references.

    Attributes:
        hypotheses: Tokens of the hypotheses, ``R`` rows (a hypothesis is repeated for each of its references).
        references: Tokens of the references, ``R`` rows.
        owners: Segment of each row, int64 ``[R]``, ascending from 0.
        ratings: Human scores, float64 ``[B]``.
    """

    hypotheses: TokenBatch
    references: TokenBatch
    owners: Tensor
    ratings: Tensor


@dataclass
class Source(ABC, Generic[Item]):
    """Items of one kind to learn from, and parts of them that are kept from training.

    Attributes:
        name: What batches, losses and results are named by.
        items: What is trained on.
        parts: What is kept from training, by name of the part.
        batch_size: Items to a batch, those of all processes together.
        validation_batch_size: Items to a batch of validation, in each process.
        batch_groups: Group of each item to train on, where a batch is to hold items of one group only.
        about: What the items are, for the model card.
        notice: What a reader of the results must know about them.
    """

    name: str
    items: list[Item]
    parts: dict[str, list[Item]]
    batch_size: int = 16
    validation_batch_size: int = 64
    batch_groups: list[str] | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    notice: str | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: a source is read only, and copies of a training module share it."""
        return self

    @abstractmethod
    def texts(self, item: Item) -> tuple[str, ...]:
        """The texts of an item."""

    @abstractmethod
    def collate(self, items: Sequence[Item], positions: Sequence[int], joint: int, tokenize: Tokenize) -> Any:
        """Items to a batch.

        Args:
            items: The items.
            positions: Their places in the part that they are of.
            joint: Items of the batch over all processes.
            tokenize: The metric's tokeniser.
        """

    def length(self, lengths: Mapping[str, int], item: Item) -> int:
        """Tokens that an item costs, given those of each text: the longest of its texts."""
        return max(lengths[text] for text in self.texts(item))

    def lengths(self, items: Sequence[Item], tokenize: Tokenize) -> list[int]:
        """Tokens that each item costs."""
        texts = list(dict.fromkeys(text for item in items for text in self.texts(item)))
        known: dict[str, int] = {}
        for start in range(0, len(texts), LENGTH_CHUNK):
            chunk = texts[start : start + LENGTH_CHUNK]
            known.update(zip(chunk, tokenize(chunk).lengths.tolist(), strict=True))
        return [self.length(known, item) for item in items]

    def identity(self, item: Item) -> tuple[Any, ...]:
        """Content that identifies an item."""
        return self.texts(item)

    @property
    def batches(self) -> int:
        """Batches that all items to train on make."""
        sizes = [len(self.items)] if self.batch_groups is None else Counter(self.batch_groups).values()
        return sum(-(-size // self.batch_size) for size in sizes)

    def fingerprint(self, batches: int) -> dict[str, str]:
        """Print of the items and of how they are batched: equal for equal batches.

        Args:
            batches: Batches of an epoch.
        """
        found = {"batch_size": str(self.batch_size)}
        for name, items in {"items": self.items, **self.parts}.items():
            digest = hashlib.sha256(repr(self.batch_groups).encode("utf-8", "surrogatepass"))
            for item in items:
                digest.update(repr(self.identity(item)).encode("utf-8", "surrogatepass"))
            found[name] = f"{len(items)} ({digest.hexdigest()[:16]})"
        return {**found, "batches": str(batches)}

    def describe(self) -> dict[str, str]:
        """Describe the source for the model card."""
        sizes = {f"{name} items": str(len(part)) for name, part in self.parts.items()}
        return {**self.about, "items": str(len(self.items)), **sizes}


@dataclass
class RatedSource(Source[Segment]):
    """Rated segments.

    Attributes:
        group: Group key to correlate within; ``None`` correlates over all segments of a part.
    """

    group: str | None = None

    def texts(self, item: Segment) -> tuple[str, ...]:
        """Hypothesis and references."""
        return (item.hypothesis, *item.references)

    def identity(self, item: Segment) -> tuple[Any, ...]:
        """The texts and their rating."""
        return (*self.texts(item), item.score)

    def collate(
        self, items: Sequence[Segment], positions: Sequence[int], joint: int, tokenize: Tokenize
    ) -> RatingBatch:
        """Segments to a batch."""
        owners = [row for row, segment in enumerate(items) for _ in segment.references]
        return RatingBatch(
            hypotheses=tokenize([items[row].hypothesis for row in owners]),
            references=tokenize([text for segment in items for text in segment.references]),
            owners=torch.tensor(owners),
            ratings=torch.tensor([_rating(segment) for segment in items], dtype=torch.float64),
            positions=torch.tensor(positions),
            source=self.name,
            joint=joint,
        )

    def groups_of(self, segments: Sequence[Segment]) -> list[str]:
        """The group that each segment is correlated in."""
        return ["all" if self.group is None else segment.groups[self.group] for segment in segments]

    @staticmethod
    def ratings_of(segments: Sequence[Segment]) -> NDArray[np.float64]:
        """Human scores of segments, float64 ``[n]``."""
        return np.array([segment.score for segment in segments], dtype=np.float64)


def check_judged(source: RatedSource, files: Sequence[str]) -> None:
    """Make sure that each part that was kept from training can be judged by: that some group of it has a correlation.

    Without one all statistics are NaN, by which no epoch is the best and early stopping ends the run.

    Args:
        source: Rated segments with their parts.
        files: Names of the files that the parts are of.
    """
    for name, part in source.parts.items():
        by_group: dict[str, list[float]] = {}
        for group, rating in zip(source.groups_of(part), source.ratings_of(part).tolist(), strict=True):
            by_group.setdefault(group, []).append(rating)
        if any(len(ratings) >= MIN_SEGMENTS and min(ratings) < max(ratings) for ratings in by_group.values()):
            continue
        where = f"the {name} part of {', '.join(files)}, by which training is judged"
        if source.group is None or len({rating for ratings in by_group.values() for rating in ratings}) == 1:
            raise InputError(
                f"Expected ratings that differ in {where}, but all {len(part)} are equal there: change `held_back`, "
                "give other `validation` files, or check the column of the ratings."
            )
        raise InputError(
            f"Expected at least {MIN_SEGMENTS} ratings, not all equal, in some group by {source.group!r} of {where}, "
            f"but none of its {len(by_group)} groups has them: set `group` to null to correlate over all segments, or "
            "change `held_back`."
        )


def check_reading(field: str, files: Sequence[str], batch_size: int, validation_batch_size: int) -> None:
    """Make sure that a data module has something to read, and batches to make of it.

    Args:
        field: What the files are called.
        files: Names of the files.
        batch_size: Items to a batch.
        validation_batch_size: Items to a batch of validation.
    """
    if not files:
        raise InputError(f"Expected `{field}` to name at least one file, but got none: name one.")
    check_least(1, batch_size=batch_size, validation_batch_size=validation_batch_size)


def check_least(least: int, **values: int) -> None:
    """Refuse numbers that are too small.

    Args:
        least: The least that each may be.
        **values: Numbers by the name of their option.
    """
    for name, value in values.items():
        if value < least:
            raise InputError(f"Expected `{name}` to be at least {least}, but got {value}: give a larger one.")


def _rating(segment: Segment) -> float:
    if segment.score is None:
        raise InputError(
            f"Expected rated segments, but {segment.hypothesis[:60]!r} has no score: name the score column."
        )
    return segment.score
