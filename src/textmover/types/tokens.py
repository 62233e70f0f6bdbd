"""Texts as tokens and as token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from typing_extensions import Self

    from textmover.types.packed import PackedEmbeddings, PackedFeatures


class SpecialToken:
    """What a position of a text holds: an ordinary token, or a special one at the start or further on."""

    NONE = 0
    FIRST = 1
    OTHER = 2


class TokenTrait:
    """What a token is within its text, as bits that can be added up."""

    CONTINUATION = 1
    """A further piece of the word that the token before it belongs to."""
    PUNCTUATION = 2
    """A single ASCII punctuation mark."""
    STOP_WORD = 4
    """A whole word of the list of stop words."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokenised texts, padded on the right.

    Attributes:
        input_ids: Token ids, int64 ``[B, L]``.
        mask: True where there is a token, bool ``[B, L]``.
        special: Kind of token as :class:`SpecialToken`, int8 ``[B, L]``; 0 where padded.
        texts: The ``B`` texts as they were tokenised.
        truncated: True for each text that was cut at the length limit, ``B`` flags.
        traits: Bits of :class:`TokenTrait`, int8 ``[B, L]``, 0 where padded; ``None`` where nobody asks for them.
        padded: Whether any text is padded, where that is known without asking a device.
        states: Hidden states of the layers that the encoder computes, ``[B, L, D]`` each, where they were made
            beforehand; what stands in padded places means nothing.
        unknown: A number for each unknown token by how it is written, 0 for others, int64 ``[B, L]``; ``None`` where no
            token of the batch is unknown.
        unknown_words: What the vocabulary lacks of each text, as it is written there, ``B`` tuples; ``None`` where it
            lacks nothing.
    """

    input_ids: Tensor
    mask: Tensor
    special: Tensor
    texts: tuple[str, ...]
    truncated: tuple[bool, ...]
    traits: Tensor | None = None
    padded: bool | None = None
    states: tuple[Tensor, ...] | None = None
    unknown: Tensor | None = None
    unknown_words: tuple[tuple[str, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each text, special ones included, int64 ``[B]``."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on ``device``."""
        tensors = {name: getattr(self, name) for name in ("input_ids", "mask", "special", "traits", "unknown")}
        there = {name: one for name, one in tensors.items() if one is not None}
        if non_blocking and torch.device(device).type == "cuda":  # copies run beside the computation from here alone
            there = {name: one if one.is_cuda else one.pin_memory() for name, one in there.items()}
        padded = not bool(self.mask.all()) if self.mask.device.type == "cpu" else self.padded
        moved = {name: one.to(device, non_blocking=non_blocking) for name, one in there.items()}
        return replace(self, **moved, padded=padded)

    def select(self, rows: Sequence[int]) -> Self:
        """The given rows in the given order, cut to the longest of them."""
        index = torch.as_tensor(list(rows), dtype=torch.long, device=self.mask.device)
        longest = int(self.lengths[index].max()) if len(index) else 0
        return type(self)(
            input_ids=self.input_ids[index, :longest],
            mask=self.mask[index, :longest],
            special=self.special[index, :longest],
            texts=tuple(self.texts[row] for row in rows),
            truncated=tuple(self.truncated[row] for row in rows),
            traits=None if self.traits is None else self.traits[index, :longest],
            states=None if self.states is None else tuple(one[index, :longest] for one in self.states),
            unknown=None if self.unknown is None else self.unknown[index, :longest],
            unknown_words=None if self.unknown_words is None else tuple(self.unknown_words[row] for row in rows),
        )

    @classmethod
    def concatenate(cls, batches: Sequence[Self]) -> Self:
        """Several batches as one, padded to the longest, without hidden states."""
        longest = max(batch.mask.shape[1] for batch in batches)

        def joined(name: str) -> Tensor:
            parts = (getattr(batch, name) for batch in batches)
            return torch.cat([torch.nn.functional.pad(part, (0, longest - part.shape[1])) for part in parts])

        if any(batch.unknown is not None for batch in batches):
            batches = [
                batch if batch.unknown is not None else replace(batch, unknown=torch.zeros_like(batch.input_ids))
                for batch in batches
            ]
        words = [of_text for batch in batches for of_text in batch.unknown_words or ((),) * len(batch)]
        return cls(
            input_ids=joined("input_ids"),
            mask=joined("mask"),
            special=joined("special"),
            texts=tuple(text for batch in batches for text in batch.texts),
            truncated=tuple(flag for batch in batches for flag in batch.truncated),
            traits=None if any(batch.traits is None for batch in batches) else joined("traits"),
            unknown=None if any(batch.unknown is None for batch in batches) else joined("unknown"),
            unknown_words=tuple(words) if any(words) else None,
        )


@runtime_checkable
class TextFeatures(Protocol):
    """What a metric makes of a batch of texts: opaque to the doors, which only keep it."""

    def __len__(self) -> int:
        """Number of texts."""

    def pack(self, lengths: np.ndarray) -> PackedFeatures:
        """The same without padding, to be kept; ``lengths`` are the tokens of each text, int64 ``[B]``."""


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Token vectors of a batch of texts, ready to be matched with those of another.

    Attributes:
        vectors: Vectors of the kind that the metric's representation makes, ``[B, L, D]``; 0 where padded.
        mask: True where there is a token, bool ``[B, L]``.
        special: Kind of token as :class:`SpecialToken`, int8 ``[B, L]``.
        input_ids: Token ids, int64 ``[B, L]``: what token weights such as idf are looked up by.
        self_similarity: Similarity of each text with itself, ``[B, 2, 3]``: in the role of a reference and of a
            hypothesis; recall, precision, F. ``None`` where the metric does not normalise.
        traits: Bits of :class:`TokenTrait`, int8 ``[B, L]``; ``None`` where the metric asks for none.
        unknown: A number for each unknown token that matches its like alone, 0 for others, int64 ``[B, L]``; ``None``
            where there is none.
    """

    vectors: Tensor
    mask: Tensor
    special: Tensor
    input_ids: Tensor
    self_similarity: Tensor | None = None
    traits: Tensor | None = None
    unknown: Tensor | None = None

    def __len__(self) -> int:
        return self.mask.shape[0]

    def pack(self, lengths: np.ndarray) -> PackedEmbeddings:
        """The same without padding, to be kept; ``lengths`` are the tokens of each text, int64 ``[B]``."""
        from textmover.types.packed import pack_embeddings

        return pack_embeddings(self, lengths)

    @classmethod
    def concatenate(cls, features: Sequence[Self]) -> Self:
        """One text each, as a single text of all their tokens in turn, without self-similarity."""
        if any(one.unknown is not None for one in features):
            features = [
                one if one.unknown is not None else replace(one, unknown=torch.zeros_like(one.input_ids))
                for one in features
            ]

        def joined(name: str) -> Tensor:
            return torch.cat([getattr(one, name)[:1, : int(one.mask[0].sum())] for one in features], dim=1)

        return cls(
            vectors=joined("vectors"),
            mask=joined("mask"),
            special=joined("special"),
            input_ids=joined("input_ids"),
            traits=None if features[0].traits is None else joined("traits"),
            unknown=None if features[0].unknown is None else joined("unknown"),
        )

    def select(self, rows: Tensor) -> Self:
        """The rows at the given indices; gradients flow."""
        return type(self)(
            vectors=self.vectors[rows],
            mask=self.mask[rows],
            special=self.special[rows],
            input_ids=self.input_ids[rows],
            self_similarity=None if self.self_similarity is None else self.self_similarity[rows],
            traits=None if self.traits is None else self.traits[rows],
            unknown=None if self.unknown is None else self.unknown[rows],
        )
