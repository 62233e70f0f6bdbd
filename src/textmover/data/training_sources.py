"""Training sources: items of one kind, their validation parts and their batches.

A data module has one or several sources; a training module learns one task from each.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from textmover.types import InputError, Segment, SourcedReferences, TokenBatch
from textmover.types.segments import ComparedText, judged_texts

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

Item = TypeVar("Item")
Compared = TypeVar("Compared", bound=ComparedText)

Tokenize = Callable[[Sequence[str]], TokenBatch]  # the `tokenize` method of a metric

MIN_SEGMENTS = 3  # minimum for a correlation
LENGTH_CHUNK = 1024  # texts tokenised at a time to get their lengths


def evenly_spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return up to ``most`` items from all over a sequence, which may be sorted.

    Example:
        >>> evenly_spread(range(7), 4)
        [0, 1, 3, 5]
    """
    count = min(most, len(items))
    return [items[place * len(items) // count] for place in range(count)]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Batch of items of one source."""

    positions: Tensor  # of each item in its part of the data, int64 [B]
    source: str
    joint: int  # items over all processes; process r of w has every w-th item from r

    def __len__(self) -> int:
        return len(self.positions)

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on ``device`` with unchanged dtypes (float64 ratings do not fit on MPS)."""
        return replace(self, **{f.name: _moved(getattr(self, f.name), device) for f in fields(self)})


def _moved(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    return value.to(device) if isinstance(value, (torch.Tensor, TokenBatch)) else value


@dataclass(frozen=True, kw_only=True)
class RatingBatch(Batch):
    """Batch of ``B`` rated segments in ``R`` rows, one row for each pair of hypothesis and reference."""

    hypotheses: TokenBatch  # R rows
    references: TokenBatch  # R rows
    owners: Tensor  # segment index of each row, int64 [R], ascending from 0
    of_source: Tensor | None = None  # rows whose reference is the source, bool [R]; None if there are none
    ratings: Tensor  # float64 [B]


@dataclass
class Source(ABC, Generic[Item]):
    """Training items of one kind and their evaluation parts, held-back and held-out."""

    batch: ClassVar[type[Batch]]

    name: str
    items: list[Item]
    parts: dict[str, list[Item]]
    batch_size: int = 16  # over all processes
    validation_batch_size: int = 64  # in each process
    batch_groups: list[str] | None = None  # group of each item, if batches must hold one group only
    about: Mapping[str, str] = field(default_factory=dict)  # for the model card
    notice: str | None = None  # caveat for readers of the results

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # read-only; copies of a training module share it

    def texts(self, item: Item) -> tuple[str, ...]:
        """Return the texts of an item."""
        return item.texts  # type: ignore[attr-defined,no-any-return]

    @abstractmethod
    def columns(self, items: Sequence[Item], tokenize: Tokenize) -> dict[str, Any]:
        """Return values of a batch of items, by field of :attr:`batch`."""

    def collate(self, items: Sequence[Item], positions: Sequence[int], joint: int, tokenize: Tokenize) -> Any:
        """Collate items and their positions in their part into a batch; ``joint`` is the size over all processes."""
        columns = self.columns(items, tokenize)
        return self.batch(**columns, positions=torch.tensor(positions), source=self.name, joint=joint)

    def length(self, lengths: Mapping[str, int], item: Item) -> int:
        """Return the token cost of an item from the lengths of its texts: by default the longest."""
        return max(lengths[text] for text in self.texts(item))

    def lengths(self, items: Sequence[Item], tokenize: Tokenize) -> list[int]:
        """Return the token cost of each item."""
        texts = list(dict.fromkeys(text for item in items for text in self.texts(item)))
        tokens_of: dict[str, int] = {}
        for start in range(0, len(texts), LENGTH_CHUNK):
            chunk = texts[start : start + LENGTH_CHUNK]
            tokens_of.update(zip(chunk, tokenize(chunk).lengths.tolist(), strict=True))
        return [self.length(tokens_of, item) for item in items]

    def identity(self, item: Item) -> tuple[Any, ...]:
        """Return the content that identifies an item."""
        return self.texts(item)

    @property
    def batches(self) -> int:
        """Number of batches of all training items."""
        sizes = [len(self.items)] if self.batch_groups is None else Counter(self.batch_groups).values()
        return sum(-(-size // self.batch_size) for size in sizes)

    def fingerprint(self, batches: int) -> dict[str, str]:
        """Return digests of the items and the batching; equal batches give equal digests."""
        entries = {"batch_size": str(self.batch_size)}
        for name, items in {"items": self.items, **self.parts}.items():
            digest = hashlib.sha256(repr(self.batch_groups).encode("utf-8", "surrogatepass"))
            for item in items:
                digest.update(repr(self.identity(item)).encode("utf-8", "surrogatepass"))
            entries[name] = f"{len(items)} ({digest.hexdigest()[:16]})"
        return {**entries, "batches": str(batches)}

    def describe(self) -> dict[str, str]:
        """Describe the source for the model card."""
        sizes = {f"{name} items": str(len(part)) for name, part in self.parts.items()}
        return {**self.about, "items": str(len(self.items)), **sizes}


@dataclass
class ComparedSource(Source[Compared]):
    """Source of hypotheses that the metric compares with other texts."""

    mode: str = "reference"  # what the metric compares hypotheses with
    fallback: bool = False  # whether a missing reference or source is replaced by the other one

    def read_as(self, metric: Any) -> None:
        """Compare hypotheses with the texts that a metric reads."""
        self.mode, self.fallback = getattr(metric, "mode", "reference"), getattr(metric, "fallback", False)

    def compared(self, items: Sequence[Compared]) -> list[SourcedReferences]:
        """Return references and source of segments, as the trained metric reads them."""
        return judged_texts(self, items)

    def texts(self, item: Compared) -> tuple[str, ...]:
        """Return hypothesis and compared texts."""
        return (item.hypothesis, *self.compared([item])[0].texts)


@dataclass
class RatedSource(ComparedSource[Segment]):
    """Source of rated segments."""

    batch = RatingBatch
    group: str | None = None  # group key to correlate within; None correlates over all segments of a part

    def identity(self, item: Segment) -> tuple[Any, ...]:
        """Return the texts and their rating."""
        return (*self.texts(item), item.score)

    def columns(self, items: Sequence[Segment], tokenize: Tokenize) -> dict[str, Any]:
        """Return the tokenised texts and the ratings of segments."""
        compared = self.compared(items)
        owners = [row for row, entry in enumerate(compared) for _ in entry.texts]
        of_source = [index == len(entry) for entry in compared for index in range(len(entry.texts))]
        return {
            "hypotheses": tokenize([items[row].hypothesis for row in owners]),
            "references": tokenize([text for entry in compared for text in entry.texts]),
            "owners": torch.tensor(owners),
            "of_source": torch.tensor(of_source) if any(of_source) else None,
            "ratings": torch.from_numpy(self.ratings_of(items)),
        }

    def groups_of(self, segments: Sequence[Segment]) -> list[str]:
        """Return the correlation group of each segment."""
        return ["all" if self.group is None else segment.groups[self.group] for segment in segments]

    @staticmethod
    def ratings_of(segments: Sequence[Segment]) -> NDArray[np.float64]:
        """Return the human scores of segments, float64 ``[n]``."""
        for segment in segments:
            if segment.score is None:
                raise InputError(
                    f"Expected rated segments, but {segment.hypothesis[:60]!r} has no score: name the score column."
                )
        return np.array([segment.score for segment in segments], dtype=np.float64)


def check_judged(source: RatedSource, files: Sequence[str]) -> None:
    """Raise an error unless each validation part has a group with a correlation, which selects the best epoch."""
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
            f"Expected a group of {source.group!r} with {MIN_SEGMENTS} or more ratings, not all equal, in {where}, but "
            f"got none among {len(by_group)}: set `group` to null to correlate over all segments, or change "
            "`held_back`."
        )


def check_least(least: int, **values: int) -> None:
    """Raise an error for options below a minimum."""
    for name, value in values.items():
        if value < least:
            raise InputError(f"Expected `{name}` to be at least {least}, but got {value}: give a larger one.")
