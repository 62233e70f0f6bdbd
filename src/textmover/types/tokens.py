"""Texts as tokens and as token vectors, padded in a batch or packed without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch

from textmover.types.segments import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self


class SpecialToken:
    """Kind of a position: an ordinary token, or a special one at the start or further on."""

    NONE = 0
    FIRST = 1
    OTHER = 2


class TokenTrait:
    """Traits of a token within its text, as bits that can be added up."""

    CONTINUATION = 1
    """A further piece of the word that the token before it belongs to."""
    PUNCTUATION = 2
    """A single ASCII punctuation mark."""
    STOP_WORD = 4
    """A whole word of the list of stop words."""


class _Tokens:
    """Base of what holds tokens of texts."""

    __slots__ = ()
    mask: Tensor
    special: Tensor

    @property
    def ordinary(self) -> Tensor:
        """True for tokens that are neither special nor padding, bool ``[B, L]``."""
        return self.mask & (self.special == SpecialToken.NONE)


@dataclass(frozen=True, slots=True)
class TokenBatch(_Tokens):
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
        embeddings: Input embeddings that the encoder reads in place of the ids, ``[B, L, E]``: those of soft tokens.
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
    embeddings: Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def inputs(self) -> Tensor:
        """Input of the encoder: token ids, or embeddings."""
        return self.input_ids if self.embeddings is None else self.embeddings

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each text, special ones included, int64 ``[B]``."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on ``device``."""
        there = _tensors(self, OF_BATCH)
        if non_blocking and torch.device(device).type == "cuda":  # copies run beside the computation from here alone
            there = {name: one if one.is_cuda else one.pin_memory() for name, one in there.items()}
        padded = not bool(self.mask.all()) if self.mask.device.type == "cpu" else self.padded
        moved = {name: one.to(device, non_blocking=non_blocking) for name, one in there.items()}
        return replace(self, **moved, padded=padded)

    def select(self, rows: Sequence[int]) -> Self:
        """The given rows in the given order, cut to the longest of them."""
        index = torch.as_tensor(list(rows), dtype=torch.long, device=self.mask.device)
        longest = int(self.lengths[index].max()) if len(index) else 0
        return replace(
            self,
            **{name: one[index, :longest] for name, one in _tensors(self, OF_BATCH).items()},
            texts=tuple(self.texts[row] for row in rows),
            truncated=tuple(self.truncated[row] for row in rows),
            padded=None,
            states=None if self.states is None else tuple(one[index, :longest] for one in self.states),
            unknown_words=None if self.unknown_words is None else tuple(self.unknown_words[row] for row in rows),
        )

    @classmethod
    def concatenate(cls, batches: Sequence[Self]) -> Self:
        """Several batches as one, padded to the longest, without hidden states."""
        longest = max(batch.mask.shape[1] for batch in batches)
        words = [of_text for batch in batches for of_text in batch.unknown_words or ((),) * len(batch)]
        if len({batch.embeddings is None for batch in batches}) > 1:
            raise ValueError("Expected soft tokens in all batches or in none, but got some of each: embed the others.")
        pad = torch.nn.functional.pad
        joined: dict[str, Any] = {
            name: torch.cat([pad(part, (0, 0) * (part.dim() - 2) + (0, longest - part.shape[1])) for part in parts])
            for name, parts in _shared(batches, OF_BATCH).items()
        }
        return cls(
            **joined,
            texts=tuple(text for batch in batches for text in batch.texts),
            truncated=tuple(flag for batch in batches for flag in batch.truncated),
            unknown_words=tuple(words) if any(words) else None,
        )


OF_TOKENS = ("input_ids", "mask", "special", "traits", "unknown")
"""Tensors of a batch with a value for each token."""

OF_BATCH = (*OF_TOKENS, "embeddings")  # those of a batch that has not been encoded


def _tensors(holder: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: one for name in names if (one := getattr(holder, name)) is not None}


def _shared(holders: Sequence[Any], names: Sequence[str]) -> dict[str, list[Tensor]]:
    """Those that all have; where some have no unknown tokens, theirs are 0."""
    found = [_tensors(one, names) for one in holders]
    if any("unknown" in one for one in found):
        found = [{"unknown": torch.zeros_like(one["input_ids"]), **one} for one in found]
    return {name: [one[name] for one in found] for name in names if all(name in one for one in found)}


@runtime_checkable
class TextFeatures(Protocol):
    """Features of a batch of texts: opaque to the doors, which only keep them."""

    def __len__(self) -> int:
        """Number of texts."""

    def pack(self, lengths: np.ndarray) -> PackedFeatures:
        """The same without padding, to be kept; ``lengths`` are the tokens of each text, int64 ``[B]``."""


@dataclass(frozen=True, slots=True)
class TokenEmbeddings(_Tokens):
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
        per_token = _tensors(self, ("vectors", "special", "input_ids", "traits", "unknown"))
        return PackedEmbeddings.from_padded(lengths, per_token, _tensors(self, ("self_similarity",)))

    @classmethod
    def concatenate(cls, features: Sequence[Self]) -> Self:
        """One text each, as a single text of all their tokens in turn, without self-similarity."""
        sizes = [int(one.mask[0].sum()) for one in features]
        joined = {
            name: torch.cat([one[:1, :size] for one, size in zip(tensors, sizes, strict=True)], dim=1)
            for name, tensors in _shared(features, ("vectors", *OF_TOKENS)).items()
        }
        return cls(**joined)

    def select(self, rows: Tensor) -> Self:
        """The rows at the given indices; gradients flow."""
        tensors = _tensors(self, ("vectors", *OF_TOKENS, "self_similarity"))
        return replace(self, **{name: one[rows] for name, one in tensors.items()})


@runtime_checkable
class PackedFeatures(Protocol):
    """Features of texts without padding: opaque to the doors, which only select, join and pad them."""

    def __len__(self) -> int:
        """Number of texts."""

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows."""

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> TextFeatures:
        """Texts out of several objects as a batch to score, by the number of the object and the row in it."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Tensors of ``N`` texts with ``T`` tokens in all, one text after another.

    Attributes:
        lengths: Tokens of each text, int64 ``[N]``; known to the processor, so that no device has to be waited for.
        tokens: Named tensors of a row for each token, ``[T, …]``, on one device. Where several objects are joined or
            padded together and some lack a tensor, theirs is 0.
        texts: Named tensors of a row for each text, ``[N, …]``, on the same one.
    """

    lengths: np.ndarray
    tokens: Mapping[str, Tensor]
    texts: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Memory held by the tensors, in bytes."""
        return sum(tensor.nbytes for tensor in (*self.tokens.values(), *self.texts.values()))

    @cached_property
    def starts(self) -> np.ndarray:
        """Start of each text among the tokens, int64 ``[N]``."""
        return np.cumsum(self.lengths) - self.lengths

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows; a copy, so that the others can be freed."""
        bounds = [(start, start + length) for start, length in zip(self.starts[rows], self.lengths[rows], strict=True)]
        index = torch.as_tensor(np.asarray(rows, dtype=np.int64), device=self.device)
        return type(self)(
            self.lengths[rows],
            {name: torch.cat([tensor[start:end] for start, end in bounds]) for name, tensor in self.tokens.items()},
            {name: tensor.index_select(0, index) for name, tensor in self.texts.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.lengths for part in parts]),
            {name: torch.cat([part._tokens(name, like) for part in parts]) for name, like in _columns(parts).items()},
            {name: torch.cat([part.texts[name] for part in parts]) for name in parts[0].texts},
        )

    @classmethod
    def from_padded(cls, lengths: np.ndarray, tokens: Mapping[str, Tensor], texts: Mapping[str, Tensor]) -> Self:
        """Pack a batch ``[B, L, …]``, without its padding."""
        mask = np.zeros(next(iter(tokens.values())).shape[:2], dtype=bool)
        mask[:, : int(lengths.max(initial=0))] = padding_mask(lengths)
        flat = {name: tensor.flatten(0, 1) for name, tensor in tokens.items()}
        if not mask.all():
            kept = _moved(np.flatnonzero(mask), next(iter(tokens.values())).device)
            flat = {name: tensor.index_select(0, kept) for name, tensor in flat.items()}
        return cls(lengths, flat, texts)

    @classmethod
    def padded(
        cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Texts out of several objects as a batch, by the number of the object and the row in it.

        Returns:
            Mask ``[B, L]``, tensors of tokens ``[B, L, …]``, 0 where padded, and tensors of texts ``[B, …]``.
        """
        owners, rows = np.array(places, dtype=np.int64).reshape(-1, 2).T
        held = {part: np.flatnonzero(owners == part) for part in dict.fromkeys(owners.tolist())}
        lengths, starts = np.empty((2, len(owners)), dtype=np.int64)
        for part, mine in held.items():
            lengths[mine], starts[mine] = parts[part].lengths[rows[mine]], parts[part].starts[rows[mine]]
        mask, device = padding_mask(lengths), parts[0].device
        column, columns = np.arange(mask.shape[1]), _columns([parts[part] for part in held])
        tokens = {name: like.new_zeros(mask.size, *like.shape[1:]) for name, like in columns.items()}
        texts = {name: like.new_empty(len(owners), *like.shape[1:]) for name, like in parts[0].texts.items()}
        for part, mine in held.items():
            inside = ((first[:, None] + column)[mask[mine]] for first in (starts[mine], mine * len(column)))
            here, there = (_moved(index, device) for index in inside)
            for name, tensor in parts[part].tokens.items():
                tokens[name].index_copy_(0, there, tensor.index_select(0, here))
            here, there = _moved(rows[mine], device), _moved(mine, device)
            for name, tensor in parts[part].texts.items():
                texts[name].index_copy_(0, there, tensor.index_select(0, here))
        tokens = {name: one.view(*mask.shape, *one.shape[1:]) for name, one in tokens.items()}
        return _moved(mask, device), tokens, texts

    def _tokens(self, name: str, like: Tensor) -> Tensor:
        """A tensor of tokens; 0, in the form of another object's, where there is none."""
        return self.tokens[name] if name in self.tokens else like.new_zeros(int(self.lengths.sum()), *like.shape[1:])

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return next(iter(self.tokens.values())).device


class PackedEmbeddings(Ragged):
    """Token vectors without padding; the names are those of :class:`~textmover.types.TokenEmbeddings`."""

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> TokenEmbeddings:
        """Texts out of several objects as a batch, by the number of the object and the row in it."""
        mask, tokens, texts = cls.padded(parts, places)
        return TokenEmbeddings(mask=mask, **tokens, **texts)


def _columns(parts: Sequence[Ragged]) -> dict[str, Tensor]:
    return {name: tensor for part in parts for name, tensor in part.tokens.items()}


def _moved(array: np.ndarray, device: torch.device) -> Tensor:
    """An array as a tensor on a device; a GPU copies from pinned memory alone while it computes on."""
    found = torch.from_numpy(array)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def padding_mask(lengths: np.ndarray) -> np.ndarray:
    """True where a text padded to the longest has a token, bool ``[B, L]``."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]


def token_offsets(tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """Return the character spans of a tokenizer's tokens, int64 ``[B, L, 2]``; refuse one that does not know them."""
    offsets = tokenizer.offsets(texts) if hasattr(tokenizer, "offsets") else None
    if offsets is None:
        raise InputError(
            f"Expected a tokenizer that gives the places of its tokens, but got {type(tokenizer).__name__}: "
            "take an encoder with a fast tokenizer."
        )
    return offsets
