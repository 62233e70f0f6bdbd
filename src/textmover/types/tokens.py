"""Batches of tokens and token vectors, padded or packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from textmover.types.segments import InputError


class SpecialToken:
    """Kind of a token: ordinary, special at the start of the text, or another special token."""

    NONE = 0
    FIRST = 1
    OTHER = 2


class TokenTrait:
    """Bit flags of a token within its text."""

    CONTINUATION = 1
    """Piece that continues the word of the previous token."""
    PUNCTUATION = 2
    """Single punctuation mark."""
    STOP_WORD = 4
    """Whole word in the list of stop words."""
    FOREIGN = 8
    """Token of a text in another language than the metric's ``target_language``."""


class _Tokens:
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
        truncated: True for each text that was truncated at the length limit, ``B`` flags.
        traits: Bits of :class:`TokenTrait`, int8 ``[B, L]``, 0 where padded; ``None`` if not requested.
        padded: Whether any text is padded; ``None`` if unknown, since reading the mask would wait for the device.
        states: Precomputed hidden states of the encoder's layers, ``[B, L, D]`` each, undefined where padded.
        unknown: A number for the spelling of each unknown token, 0 for others, int64 ``[B, L]``; ``None`` if no token
            of the batch is unknown.
        numbers: A key for the value of each number, which matches tokens of the same key best; 0 for others, int64
            ``[B, L]``; ``None`` if there are none, or if the metric does not distinguish them.
        unknown_words: Unknown words of each text as written, ``B`` tuples; ``None`` if there are none.
        embeddings: Input embeddings of soft tokens, which replace the ids, ``[B, L, E]``.
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
    numbers: Tensor | None = None
    unknown_words: tuple[tuple[str, ...], ...] | None = None
    embeddings: Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def inputs(self) -> Tensor:
        """Input of the encoder: embeddings if there are any, else token ids."""
        return self.input_ids if self.embeddings is None else self.embeddings

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each text, including special ones, int64 ``[B]``."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the batch with its tensors on ``device``."""
        tensors = _tensors(self, OF_BATCH)
        if non_blocking and torch.device(device).type == "cuda":  # only copies from pinned memory are asynchronous
            tensors = {name: one if one.is_cuda else one.pin_memory() for name, one in tensors.items()}
        padded = not bool(self.mask.all()) if self.mask.device.type == "cpu" else self.padded
        moved = {name: one.to(device, non_blocking=non_blocking) for name, one in tensors.items()}
        return replace(self, **moved, padded=padded)

    def select(self, rows: Sequence[int]) -> Self:
        """Return the given rows in the given order, trimmed to the longest of them."""
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
        """Concatenate batches, padded to the longest, without hidden states."""
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


OF_TOKENS = ("input_ids", "mask", "special", "traits", "unknown", "numbers")
"""Tensors of a batch with one value per token."""

OF_BATCH = (*OF_TOKENS, "embeddings")  # tensors of a batch before encoding


def _tensors(holder: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: one for name in names if (one := getattr(holder, name)) is not None}


def _shared(holders: Sequence[Any], names: Sequence[str]) -> dict[str, list[Tensor]]:
    """Collect the tensors that all holders have; missing ``unknown`` and ``numbers`` are 0 if another has them."""
    tensors = [_tensors(one, names) for one in holders]
    for key in ("unknown", "numbers"):
        if any(key in one for one in tensors):
            tensors = [{key: torch.zeros_like(one["input_ids"]), **one} for one in tensors]
    return {name: [one[name] for one in tensors] for name in names if all(name in one for one in tensors)}


@runtime_checkable
class TextFeatures(Protocol):
    """Features of a batch of texts, opaque to callers, which may cache them."""

    def __len__(self) -> int:
        """Return the number of texts."""

    def pack(self, lengths: np.ndarray) -> PackedFeatures:
        """Remove the padding, for a cache; ``lengths`` are the numbers of tokens of the texts, int64 ``[B]``."""


@dataclass(frozen=True, slots=True)
class TokenEmbeddings(_Tokens):
    """Token vectors of a batch of texts, ready for matching.

    Attributes:
        vectors: Token vectors of the metric's representation, ``[B, L, D]``; 0 where padded.
        mask: True where there is a token, bool ``[B, L]``.
        special: Kind of token as :class:`SpecialToken`, int8 ``[B, L]``.
        input_ids: Token ids, int64 ``[B, L]``, to look up token weights such as idf.
        self_similarity: Similarity of each text with itself, ``[B, 2, 3]``: as reference and as hypothesis; recall,
            precision, F. ``None`` if the metric does not use it.
        traits: Bits of :class:`TokenTrait`, int8 ``[B, L]``; ``None`` if the metric does not use them.
        unknown: A number for the spelling of each unknown token, which matches only tokens of the same number; 0 for
            others, int64 ``[B, L]``; ``None`` if there are none.
        numbers: The same for the value of each number; ``None`` if there are none or all tokens match by vectors.
    """

    vectors: Tensor
    mask: Tensor
    special: Tensor
    input_ids: Tensor
    self_similarity: Tensor | None = None
    traits: Tensor | None = None
    unknown: Tensor | None = None
    numbers: Tensor | None = None

    def __len__(self) -> int:
        return self.mask.shape[0]

    def pack(self, lengths: np.ndarray) -> PackedEmbeddings:
        """Remove the padding, for a cache; ``lengths`` are the numbers of tokens of the texts, int64 ``[B]``."""
        per_token = _tensors(self, ("vectors", *(name for name in OF_TOKENS if name != "mask")))
        return PackedEmbeddings.from_padded(lengths, per_token, _tensors(self, ("self_similarity",)))

    @classmethod
    def concatenate(cls, features: Sequence[Self]) -> Self:
        """Join features of one text each into one text of all their tokens, without self-similarity."""
        sizes = [int(one.mask[0].sum()) for one in features]
        joined = {
            name: torch.cat([one[:1, :size] for one, size in zip(tensors, sizes, strict=True)], dim=1)
            for name, tensors in _shared(features, ("vectors", *OF_TOKENS)).items()
        }
        return cls(**joined)

    def select(self, rows: Tensor) -> Self:
        """Return the rows at the given indices; differentiable."""
        tensors = _tensors(self, ("vectors", *OF_TOKENS, "self_similarity"))
        return replace(self, **{name: one[rows] for name, one in tensors.items()})


@runtime_checkable
class PackedFeatures(Protocol):
    """Features of texts without padding, opaque to callers, which only select, join and pad them."""

    def __len__(self) -> int:
        """Return the number of texts."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Return the texts of the given rows."""

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Join the texts of several objects into one."""

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]] | np.ndarray) -> TextFeatures:
        """Build a batch of texts from several objects, given the index of the object and the row for each text."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Concatenated tensors of ``N`` texts with ``T`` tokens in total.

    Attributes:
        lengths: Number of tokens of each text, int64 ``[N]``, on the CPU to avoid waiting for a device.
        tokens: Named tensors with one row per token, ``[T, …]``, on one device. If objects are joined or padded
            together and some lack a tensor, theirs is 0.
        texts: Named tensors with one row per text, ``[N, …]``, on the same device.
    """

    lengths: np.ndarray
    tokens: Mapping[str, Tensor]
    texts: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Memory of the tensors in bytes."""
        return sum(tensor.nbytes for tensor in (*self.tokens.values(), *self.texts.values()))

    @cached_property
    def starts(self) -> np.ndarray:
        """Index of each text's first token, int64 ``[N]``."""
        return np.cumsum(self.lengths) - self.lengths

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Return a copy of the texts in the given rows, so that the others can be freed."""
        bounds = [(start, start + length) for start, length in zip(self.starts[rows], self.lengths[rows], strict=True)]
        index = torch.as_tensor(np.asarray(rows, dtype=np.int64), device=self.device)
        return type(self)(
            self.lengths[rows],
            {name: torch.cat([tensor[start:end] for start, end in bounds]) for name, tensor in self.tokens.items()},
            {name: tensor.index_select(0, index) for name, tensor in self.texts.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Join the texts of several objects into one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.lengths for part in parts]),
            {name: torch.cat([part._tokens(name, like) for part in parts]) for name, like in _columns(parts).items()},
            {name: torch.cat([part.texts[name] for part in parts]) for name in parts[0].texts},
        )

    @classmethod
    def from_padded(cls, lengths: np.ndarray, tokens: Mapping[str, Tensor], texts: Mapping[str, Tensor]) -> Self:
        """Pack a batch ``[B, L, …]`` by removing its padding."""
        mask = np.zeros(next(iter(tokens.values())).shape[:2], dtype=bool)
        mask[:, : int(lengths.max(initial=0))] = padding_mask(lengths)
        flat = {name: tensor.flatten(0, 1) for name, tensor in tokens.items()}
        if not mask.all():
            index = _moved(np.flatnonzero(mask), next(iter(tokens.values())).device)
            flat = {name: tensor.index_select(0, index) for name, tensor in flat.items()}
        return cls(lengths, flat, texts)

    @classmethod
    def padded(
        cls, parts: Sequence[Self], places: Sequence[tuple[int, int]] | np.ndarray
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Build a padded batch of texts from several objects, given the index of the object and the row for each text.

        Returns:
            Mask ``[B, L]``, tensors of tokens ``[B, L, …]``, 0 where padded, and tensors of texts ``[B, …]``.
        """
        owners, rows = np.array(places, dtype=np.int64).reshape(-1, 2).T
        targets = {part: np.flatnonzero(owners == part) for part in dict.fromkeys(owners.tolist())}
        lengths, starts = np.empty((2, len(owners)), dtype=np.int64)
        for part, target in targets.items():
            lengths[target], starts[target] = parts[part].lengths[rows[target]], parts[part].starts[rows[target]]
        mask, device = padding_mask(lengths), parts[0].device
        column, columns = np.arange(mask.shape[1]), _columns([parts[part] for part in targets])
        tokens = {name: like.new_zeros(mask.size, *like.shape[1:]) for name, like in columns.items()}
        texts = {name: like.new_empty(len(owners), *like.shape[1:]) for name, like in parts[0].texts.items()}
        for part, target in targets.items():
            inside = ((first[:, None] + column)[mask[target]] for first in (starts[target], target * len(column)))
            source, destination = (_moved(index, device) for index in inside)
            for name, tensor in parts[part].tokens.items():
                tokens[name].index_copy_(0, destination, tensor.index_select(0, source))
            source, destination = _moved(rows[target], device), _moved(target, device)
            for name, tensor in parts[part].texts.items():
                texts[name].index_copy_(0, destination, tensor.index_select(0, source))
        tokens = {name: one.view(*mask.shape, *one.shape[1:]) for name, one in tokens.items()}
        return _moved(mask, device), tokens, texts

    def _tokens(self, name: str, like: Tensor) -> Tensor:
        """Return a tensor of tokens, or zeros in the shape of another object's if this one lacks it."""
        return self.tokens[name] if name in self.tokens else like.new_zeros(int(self.lengths.sum()), *like.shape[1:])

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return next(iter(self.tokens.values())).device


class PackedEmbeddings(Ragged):
    """Token vectors without padding, with the tensor names of :class:`~textmover.types.TokenEmbeddings`."""

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]] | np.ndarray) -> TokenEmbeddings:
        """Build a batch of texts from several objects, given the index of the object and the row for each text."""
        mask, tokens, texts = cls.padded(parts, places)
        return TokenEmbeddings(mask=mask, **tokens, **texts)


def _columns(parts: Sequence[Ragged]) -> dict[str, Tensor]:
    return {name: tensor for part in parts for name, tensor in part.tokens.items()}


def _moved(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to a device; for a GPU asynchronously, which requires pinned memory."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def padding_mask(lengths: np.ndarray) -> np.ndarray:
    """Return the mask of texts padded to the longest, True for tokens, bool ``[B, L]``."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]


def token_offsets(tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """Return the character spans of tokens, int64 ``[B, L, 2]``; raise an error if the tokenizer has none."""
    offsets = tokenizer.offsets(texts) if hasattr(tokenizer, "offsets") else None
    if offsets is None:
        raise InputError(
            f"Expected a tokenizer that gives the places of its tokens, but got {type(tokenizer).__name__}: "
            "take an encoder with a fast tokenizer."
        )
    return offsets
