"""What RoMe keeps of a text: word vectors, parse, and what other metrics need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from textmover.functional.cost import axes_of_their_own
from textmover.types import PackedFeatures, ParsedText, TextFeatures
from textmover.types.packed import Ragged

PARSED_BYTES = 400
"""About what a parsed word takes in memory, beside its vector."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text with its words.

    Attributes:
        text: The text itself.
        words: Its words as they are written, one to a row of its vectors.
        parsed: Its parse, with the same words; ``None`` without a parser.
    """

    text: str
    words: tuple[str, ...]
    parsed: ParsedText | None


@dataclass(frozen=True, slots=True)
class RomeFeatures:
    """What RoMe needs of ``B`` texts.

    Attributes:
        vectors: Word vectors ``[B, W, D]``, 0 where a word has none.
        mask: True for each word that has a vector, bool ``[B, W]``.
        texts: The texts with their words.
        others: What other metrics make of the texts, by name, and the number of their tokens, int64 ``[B]``.
        unknown: A number for each word that the encoder does not know, by how it is written, 0 for others, int64
            ``[B, W]``; ``None`` where there is none.
    """

    vectors: Tensor
    mask: Tensor
    texts: tuple[ReadText, ...]
    others: Mapping[str, tuple[TextFeatures, np.ndarray]]
    unknown: Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, lengths: np.ndarray) -> PackedRome:
        """The same without padding, to be kept; of ``lengths``, the tokens of each text, nothing is read."""
        words = np.array([len(one.words) for one in self.texts], dtype=np.int64)
        columns = {"vectors": self.vectors, "present": self.mask}
        return PackedRome(
            Ragged.from_padded(words, columns if self.unknown is None else {**columns, "unknown": self.unknown}, {}),
            self.texts,
            {name: features.pack(tokens) for name, (features, tokens) in self.others.items()},
        )


@dataclass(frozen=True, eq=False)
class PackedRome:
    """What RoMe needs of texts, without padding.

    Attributes:
        words: Vectors of the words, and whether they have one.
        texts: The texts with their words.
        others: What other metrics keep of them, by name.
    """

    words: Ragged
    texts: tuple[ReadText, ...]
    others: Mapping[str, PackedFeatures]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes; of parses about."""
        parsed = sum(len(one.words) for one in self.texts) * PARSED_BYTES
        return self.words.nbytes + parsed + sum(one.nbytes for one in self.others.values())

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows."""
        return type(self)(
            self.words.select(rows),
            tuple(self.texts[int(row)] for row in rows),
            {name: one.select(rows) for name, one in self.others.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""
        return cls(
            Ragged.join([one.words for one in parts]),
            tuple(text for one in parts for text in one.texts),
            {
                name: type(first).join([one.others[name] for one in parts])  # type: ignore[misc]
                for name, first in parts[0].others.items()
            },
        )

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> RomeFeatures:
        """Texts out of several objects as a batch, by the number of the object and the row in it."""
        _, tokens, _ = Ragged.padded([one.words for one in parts], places)
        others = {
            # Lengths are for packing again, which nobody does with texts that were packed before.
            name: (type(first).pad([one.others[name] for one in parts], places), np.zeros(0, dtype=np.int64))
            for name, first in parts[0].others.items()
        }
        return RomeFeatures(
            tokens["vectors"],
            tokens["present"],
            tuple(parts[part].texts[row] for part, row in places),
            others,
            tokens.get("unknown"),
        )


def words_apart(hypotheses: RomeFeatures, references: RomeFeatures) -> tuple[RomeFeatures, RomeFeatures]:
    """Two sides in which a word that the encoder does not know is like itself alone, orthogonal to all others."""
    if hypotheses.unknown is None and references.unknown is None:
        return hypotheses, references
    sides = hypotheses, references
    numbers = [torch.zeros_like(one.mask, dtype=torch.long) if one.unknown is None else one.unknown for one in sides]
    vectors = axes_of_their_own(hypotheses.vectors, references.vectors, *numbers)
    one, other = (
        replace(side, vectors=new, unknown=number) for side, new, number in zip(sides, vectors, numbers, strict=True)
    )
    return one, other


def parses_of(texts: Sequence[ReadText]) -> list[ParsedText]:
    """The parses of texts that have one.

    Raises:
        TypeError: If one has none.
    """
    found = [one.parsed for one in texts]
    if any(one is None for one in found):
        raise TypeError("Expected texts with parses, but got one that was read without a parser.")
    return [one for one in found if one is not None]
