"""Features of texts as they are kept: one after another, without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from textmover.types.tokens import TokenEmbeddings

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

    from textmover.types.tokens import TextFeatures

__all__ = ["PackedEmbeddings", "PackedFeatures", "Ragged", "pack_embeddings"]


@runtime_checkable
class PackedFeatures(Protocol):
    """What a metric keeps of texts, without padding: opaque to the doors, which only select, join and pad it."""

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
    def pick(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> Self:
        """Texts out of several objects, by the number of the object and the row in it; a copy."""

    def pad(self, rows: Sequence[int] | np.ndarray) -> TextFeatures:
        """The texts of the given rows as a batch to score."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Tensors of ``N`` texts with ``T`` tokens in all, one text after another.

    Attributes:
        lengths: Tokens of each text, int64 ``[N]``; known to the processor, so that no device has to be waited for.
        tokens: Named tensors of a row for each token, ``[T, …]``, on one device.
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
        """Where each text starts among the tokens, int64 ``[N]``."""
        return np.cumsum(self.lengths) - self.lengths

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows; a copy, so that the others can be freed."""
        return self.pick([self], [(0, int(row)) for row in rows])

    @classmethod
    def pick(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> Self:
        """Texts out of several objects, by the number of the object and the row in it; a copy."""
        bounds = [(part, int(parts[part].starts[row]), int(parts[part].lengths[row])) for part, row in places]
        tokens = {
            name: torch.cat([parts[part].tokens[name][start : start + length] for part, start, length in bounds])
            for name in parts[0].tokens
        }
        texts = {
            name: torch.cat([parts[part].texts[name][row : row + 1] for part, row in places]) for name in parts[0].texts
        }
        return cls(np.array([length for _, _, length in bounds], dtype=np.int64), tokens, texts)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.lengths for part in parts]),
            {name: torch.cat([part.tokens[name] for part in parts]) for name in parts[0].tokens},
            {name: torch.cat([part.texts[name] for part in parts]) for name in parts[0].texts},
        )

    @classmethod
    def from_padded(cls, lengths: np.ndarray, tokens: Mapping[str, Tensor], texts: Mapping[str, Tensor]) -> Self:
        """What is left of a batch ``[B, L, …]`` without its padding."""
        mask = np.zeros(next(iter(tokens.values())).shape[:2], dtype=bool)
        mask[:, : int(lengths.max(initial=0))] = _mask(lengths)
        flat = {name: tensor.flatten(0, 1) for name, tensor in tokens.items()}
        if not mask.all():
            kept = torch.from_numpy(np.flatnonzero(mask)).to(next(iter(tokens.values())).device)
            flat = {name: tensor.index_select(0, kept) for name, tensor in flat.items()}
        return cls(lengths, flat, texts)

    def padded(self, rows: Sequence[int] | np.ndarray) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """The texts of the given rows as a batch: its mask ``[B, L]``, tensors of tokens ``[B, L, …]`` and of texts."""
        rows = np.asarray(rows, dtype=np.int64)
        mask = _mask(self.lengths[rows])
        places, index = self._on_device(self._places(rows, mask)), self._on_device(rows)
        kept = None if mask.all() else self._on_device(np.flatnonzero(mask))

        def spread(tensor: Tensor) -> Tensor:
            found = tensor.index_select(0, places)
            if kept is not None:
                found = tensor.new_zeros(mask.size, *tensor.shape[1:]).index_copy_(0, kept, found)
            return found.view(*mask.shape, *tensor.shape[1:])

        tokens = {name: spread(tensor) for name, tensor in self.tokens.items()}
        return self._on_device(mask), tokens, {name: one.index_select(0, index) for name, one in self.texts.items()}

    def _places(self, rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Where the tokens of the given texts stand, int64."""
        return (self.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(next(iter(self.tokens.values())).device, non_blocking=True)


class PackedEmbeddings(Ragged):
    """Token vectors without padding; the names are those of :class:`~textmover.types.TokenEmbeddings`."""

    def pad(self, rows: Sequence[int] | np.ndarray) -> TokenEmbeddings:
        """The texts of the given rows as a batch, padded to the longest of them."""
        mask, tokens, texts = self.padded(rows)
        return TokenEmbeddings(mask=mask, **tokens, **texts)


def pack_embeddings(tokens: TokenEmbeddings, lengths: np.ndarray) -> PackedEmbeddings:
    """A batch without its padding; ``lengths`` are the tokens of each text, int64 ``[B]``."""
    per_token = {"vectors": tokens.vectors, "special": tokens.special, "input_ids": tokens.input_ids}
    if tokens.traits is not None:
        per_token["traits"] = tokens.traits
    per_text = {} if tokens.self_similarity is None else {"self_similarity": tokens.self_similarity}
    return PackedEmbeddings.from_padded(lengths, per_token, per_text)


def _mask(lengths: np.ndarray) -> np.ndarray:
    """True where a text padded to the longest has a token, bool ``[B, L]``."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]
