"""Training sources: items of one kind, their parts to judge on, and their batches.

A data module has one source or several; a training module learns one task from each.
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

from textmover.types import InputError, Segment, SourcedReferences, TokenBatch, compared_texts

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

Item = TypeVar("Item")

Tokenize = Callable[[Sequence[str]], TokenBatch]  # a metric's own `tokenize`, whose tokenizer knows where tokens stand

MIN_SEGMENTS = 3  # that a correlation is computed of
LENGTH_CHUNK = 1024  # texts that are tokenised at a time to learn their lengths


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Items of one source that are learned from at a time."""

    positions: Tensor  # of each item in its part of the data, int64 [B]
    source: str
    joint: int  # items over all processes, of which process r of w has every w-th from r

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
    """Rated segments: ``B`` of them in ``R`` rows, one for each pair of a hypothesis and one of its references."""

    hypotheses: TokenBatch  # R rows
    references: TokenBatch  # R rows
    owners: Tensor  # segment of each row, int64 [R], ascending from 0
    of_source: Tensor | None = None  # rows whose reference is the source, bool [R]; None where there are none
    ratings: Tensor  # float64 [B]


@dataclass
class Source(ABC, Generic[Item]):
    """Items of one kind to learn from, and parts of them that are kept from training."""

    batch: ClassVar[type[Batch]]

    name: str
    items: list[Item]
    parts: dict[str, list[Item]]
    batch_size: int = 16  # of all processes together
    validation_batch_size: int = 64  # in each process
    batch_groups: list[str] | None = None  # of each item, where a batch is to hold items of one group only
    about: Mapping[str, str] = field(default_factory=dict)  # for the model card
    notice: str | None = None  # for readers of the results

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it is read only, and copies of a training module share it

    def texts(self, item: Item) -> tuple[str, ...]:
        """The texts of an item."""
        return item.texts  # type: ignore[attr-defined,no-any-return]

    @abstractmethod
    def columns(self, items: Sequence[Item], tokenize: Tokenize) -> dict[str, Any]:
        """Values of a batch of items, by field of :attr:`batch`."""

    def collate(self, items: Sequence[Item], positions: Sequence[int], joint: int, tokenize: Tokenize) -> Any:
        """Items at some positions of their part to a batch; ``joint`` of them over all processes."""
        columns = self.columns(items, tokenize)
        return self.batch(**columns, positions=torch.tensor(positions), source=self.name, joint=joint)

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
        """Print of the items and of how they are batched: equal for equal batches."""
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
    """Rated segments."""

    batch = RatingBatch
    group: str | None = None  # key to correlate within; all segments of a part together if None
    mode: str = "reference"  # what the metric that learns from it compares hypotheses with
    fallback: bool = False  # whether the other side stands in for a missing one

    def compared(self, items: Sequence[Segment]) -> list[SourcedReferences]:
        """References and source of segments, as far as the metric that learns reads them."""
        return compared_texts(self, [one.compared for one in items])

    def texts(self, item: Segment) -> tuple[str, ...]:
        """Hypothesis, references and source."""
        return (item.hypothesis, *self.compared([item])[0].texts)

    def identity(self, item: Segment) -> tuple[Any, ...]:
        """The texts and their rating."""
        return (*self.texts(item), item.score)

    def columns(self, items: Sequence[Segment], tokenize: Tokenize) -> dict[str, Any]:
        """Texts and ratings of segments."""
        compared = self.compared(items)
        owners = [row for row, one in enumerate(compared) for _ in one.texts]
        of_source = [place == len(one) for one in compared for place in range(len(one.texts))]
        return {
            "hypotheses": tokenize([items[row].hypothesis for row in owners]),
            "references": tokenize([text for one in compared for text in one.texts]),
            "owners": torch.tensor(owners),
            "of_source": torch.tensor(of_source) if any(of_source) else None,
            "ratings": torch.from_numpy(self.ratings_of(items)),
        }

    def groups_of(self, segments: Sequence[Segment]) -> list[str]:
        """The group that each segment is correlated in."""
        return ["all" if self.group is None else segment.groups[self.group] for segment in segments]

    @staticmethod
    def ratings_of(segments: Sequence[Segment]) -> NDArray[np.float64]:
        """Human scores of segments, float64 ``[n]``."""
        for one in segments:
            if one.score is None:
                raise InputError(
                    f"Expected rated segments, but {one.hypothesis[:60]!r} has no score: name the score column."
                )
        return np.array([one.score for one in segments], dtype=np.float64)


def check_judged(source: RatedSource, files: Sequence[str]) -> None:
    """Make sure that some group of each part to judge on has a correlation: without one no epoch is the best."""
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
            f"but no group has them (of {len(by_group)}): set `group` to null to correlate over all segments, or "
            "change `held_back`."
        )


def check_least(least: int, **values: int) -> None:
    """Refuse options that are too small."""
    for name, value in values.items():
        if value < least:
            raise InputError(f"Expected `{name}` to be at least {least}, but got {value}: give a larger one.")
