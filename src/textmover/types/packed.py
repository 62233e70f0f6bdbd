"""Features of texts as they are kept: one after another, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from textmover.types.tokens import TokenEmbeddings

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

    from textmover.types.tokens import TextFeatures

__all__ = ["PackedEmbeddings", "PackedFeatures", "pack_embeddings"]


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

    def pad(self, rows: Sequence[int] | np.ndarray) -> TextFeatures:
        """The texts of the given rows as a batch to score."""


@dataclass(frozen=True, slots=True)
class PackedEmbeddings:
    """Token vectors of ``N`` texts with ``T`` tokens in all.

    Attributes:
        lengths: Tokens of each text, int64 ``[N]``; known to the processor, so that no device has to be waited for.
        vectors: ``[T, D]``.
        special: int8 ``[T]``.
        input_ids: int64 ``[T]``.
        self_similarity: ``[N, 2, 3]`` or ``None``, as in :class:`~textmover.types.TokenEmbeddings`.
        traits: int8 ``[T]`` or ``None``.
    """

    lengths: np.ndarray
    vectors: Tensor
    special: Tensor
    input_ids: Tensor
    self_similarity: Tensor | None = None
    traits: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Memory held by the tensors, in bytes."""
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def _tensors(self) -> dict[str, Tensor]:
        found = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "lengths"}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows; a copy, so that the others can be freed."""
        rows = np.asarray(rows, dtype=np.int64)
        mask = _mask(self.lengths[rows])
        places = self._on_device(self._places(rows, mask)[mask])
        chosen: dict[str, Tensor] = {}
        for name, tensor in self._tensors().items():
            chosen[name] = tensor.index_select(0, self._on_device(rows) if name == "self_similarity" else places)
        return replace(self, lengths=self.lengths[rows], **chosen)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""
        if len(parts) == 1:
            return parts[0]
        names = parts[0]._tensors()
        joined = {name: torch.cat([part._tensors()[name] for part in parts]) for name in names}
        return replace(parts[0], lengths=np.concatenate([part.lengths for part in parts]), **joined)

    def pad(self, rows: Sequence[int] | np.ndarray) -> TokenEmbeddings:
        """The texts of the given rows as a batch, padded to the longest of them."""
        rows = np.asarray(rows, dtype=np.int64)
        mask = _mask(self.lengths[rows])
        shape = mask.shape
        places = self._on_device(self._places(rows, mask)[mask])
        kept = None if mask.all() else self._on_device(np.flatnonzero(mask))

        def padded(tensor: Tensor) -> Tensor:
            found = tensor.index_select(0, places)
            if kept is not None:
                blank = tensor.new_zeros(mask.size, *tensor.shape[1:])
                found = blank.index_copy_(0, kept, found)
            return found.view(*shape, *tensor.shape[1:])

        return TokenEmbeddings(
            vectors=padded(self.vectors),
            mask=self._on_device(mask),
            special=padded(self.special),
            input_ids=padded(self.input_ids),
            self_similarity=None
            if self.self_similarity is None
            else self.self_similarity.index_select(0, self._on_device(rows)),
            traits=None if self.traits is None else padded(self.traits),
        )

    def _places(self, rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Where in the packed tensors each position of a padded batch stands, int64 ``[B, L]``."""
        starts = np.cumsum(self.lengths) - self.lengths
        return starts[rows][:, None] + np.arange(mask.shape[1])

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.vectors.device, non_blocking=True)


def pack_embeddings(tokens: TokenEmbeddings, lengths: np.ndarray) -> PackedEmbeddings:
    """A batch without its padding; ``lengths`` are the tokens of each text, int64 ``[B]``."""
    mask = np.zeros(tuple(tokens.mask.shape), dtype=bool)
    mask[:, : int(lengths.max(initial=0))] = _mask(lengths)
    kept = None if mask.all() else torch.from_numpy(np.flatnonzero(mask)).to(tokens.mask.device)

    def packed(tensor: Tensor) -> Tensor:
        flat = tensor.flatten(0, 1)
        return flat if kept is None else flat.index_select(0, kept)

    return PackedEmbeddings(
        lengths=lengths,
        vectors=packed(tokens.vectors),
        special=packed(tokens.special),
        input_ids=packed(tokens.input_ids),
        self_similarity=tokens.self_similarity,
        traits=None if tokens.traits is None else packed(tokens.traits),
    )


def _mask(lengths: np.ndarray) -> np.ndarray:
    """True where a text padded to the longest has a token, bool ``[B, L]``."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]
