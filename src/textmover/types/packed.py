"""Features of texts as they are kept: one after another, without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from textmover.types.tokens import TokenEmbeddings

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self

    from textmover.types.tokens import TextFeatures


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
        """Where each text starts among the tokens, int64 ``[N]``."""
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
        """What is left of a batch ``[B, L, …]`` without its padding."""
        mask = np.zeros(next(iter(tokens.values())).shape[:2], dtype=bool)
        mask[:, : int(lengths.max(initial=0))] = _mask(lengths)
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
        bounds = [(part, int(parts[part].starts[row]), int(parts[part].lengths[row])) for part, row in places]
        mask = _mask(np.array([length for _, _, length in bounds]))
        device = parts[0].device
        kept = _moved(np.flatnonzero(mask), device) if device.type != "cpu" else None
        columns = _columns([parts[part] for part in dict.fromkeys(part for part, _ in places)])

        def spread(name: str) -> Tensor:
            texts = [
                parts[part]._tokens(name, columns[name], slice(start, start + length)) for part, start, length in bounds
            ]
            if kept is None:
                return pad_sequence(texts, batch_first=True)
            joined = torch.cat(texts)  # a GPU would be asked to copy each text by itself otherwise
            shape = joined.shape[1:]
            return joined.new_zeros(mask.size, *shape).index_copy_(0, kept, joined).view(*mask.shape, *shape)

        tokens = {name: spread(name) for name in columns}
        texts = {name: torch.stack([parts[part].texts[name][row] for part, row in places]) for name in parts[0].texts}
        return _moved(mask, device), tokens, texts

    def _tokens(self, name: str, like: Tensor, rows: slice = slice(None)) -> Tensor:
        """Rows of a tensor of tokens; 0, in the form of another object's, where there is none."""
        if name in self.tokens:
            return self.tokens[name][rows]
        return like.new_zeros(len(range(*rows.indices(int(self.lengths.sum())))), *like.shape[1:])

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(iter(self.tokens.values())).device


class PackedEmbeddings(Ragged):
    """Token vectors without padding; the names are those of :class:`~textmover.types.TokenEmbeddings`."""

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> TokenEmbeddings:
        """Texts out of several objects as a batch, by the number of the object and the row in it."""
        mask, tokens, texts = cls.padded(parts, places)
        return TokenEmbeddings(mask=mask, **tokens, **texts)


def pack_embeddings(tokens: TokenEmbeddings, lengths: np.ndarray) -> PackedEmbeddings:
    """A batch without its padding; ``lengths`` are the tokens of each text, int64 ``[B]``."""
    per_token = {"vectors": tokens.vectors, "special": tokens.special, "input_ids": tokens.input_ids}
    if tokens.traits is not None:
        per_token["traits"] = tokens.traits
    if tokens.unknown is not None:
        per_token["unknown"] = tokens.unknown
    per_text = {} if tokens.self_similarity is None else {"self_similarity": tokens.self_similarity}
    return PackedEmbeddings.from_padded(lengths, per_token, per_text)


def _columns(parts: Sequence[Ragged]) -> dict[str, Tensor]:
    """The names of all tensors of tokens, and one of each."""
    return {name: tensor for part in parts for name, tensor in part.tokens.items()}


def _moved(array: np.ndarray, device: torch.device) -> Tensor:
    """An array as a tensor on a device; a GPU copies from pinned memory alone while it computes on."""
    found = torch.from_numpy(array)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def _mask(lengths: np.ndarray) -> np.ndarray:
    """True where a text padded to the longest has a token, bool ``[B, L]``."""
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]
