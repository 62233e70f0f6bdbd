"""The words that every part of the project shares: texts, tokens, features, scores, signature and the metric protocol.

Nothing here computes a score. A *segment* is one hypothesis with its references (and, where people rated it, their
score); a *metric* turns segments into numbers through the :class:`SegmentMetric` protocol, which is all that the
doors (training, torchmetrics, engine, command line) know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor
    from typing_extensions import Self

__all__ = [
    "InputError",
    "MatchResult",
    "PairScores",
    "Segment",
    "SegmentMetric",
    "SegmentScores",
    "Signature",
    "SpecialToken",
    "TextFeatures",
    "TokenBatch",
    "TokenEmbeddings",
    "TrainableMetric",
]


class InputError(ValueError):
    """Something that the user gave cannot be used; the message names it and the way out.

    The command line prints the message alone and exits with 2; every other exception is a defect and keeps its
    traceback.
    """


@dataclass(frozen=True, slots=True)
class Segment:
    """One hypothesis, what it is compared with, and what people thought of it.

    Attributes:
        hypothesis: The text to judge.
        references: One or more texts that say what was wanted.
        score: Human score in float64, higher is better; ``None`` where nobody rated it.
        source: The text that was translated or described, if known.
        groups: Named keys for grouping, such as ``{"lp": "de-en", "system": "online-A"}``.
    """

    hypothesis: str
    references: tuple[str, ...]
    score: float | None = None
    source: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict)


class SpecialToken:
    """What a position of a text holds: an ordinary token, or a special one at the start or further on."""

    NONE = 0
    FIRST = 1
    OTHER = 2


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokenised texts, padded on the right.

    Attributes:
        input_ids: Token ids, int64 ``[B, L]``.
        mask: True where there is a token, bool ``[B, L]``.
        special: Kind of token as :class:`SpecialToken`, int8 ``[B, L]``; 0 where padded.
        texts: The ``B`` texts as they were tokenised.
        truncated: True for each text that was cut at the length limit, ``B`` flags.
    """

    input_ids: Tensor
    mask: Tensor
    special: Tensor
    texts: tuple[str, ...]
    truncated: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each text, special ones included, int64 ``[B]``."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on ``device``."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=non_blocking) for name in ("input_ids", "mask", "special")
        }
        return replace(self, **moved)

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
        )

    @classmethod
    def concatenate(cls, batches: Sequence[Self]) -> Self:
        """Several batches as one, padded to the longest."""
        longest = max(batch.mask.shape[1] for batch in batches)

        def joined(name: str) -> Tensor:
            parts = (getattr(batch, name) for batch in batches)
            return torch.cat([torch.nn.functional.pad(part, (0, longest - part.shape[1])) for part in parts])

        return cls(
            input_ids=joined("input_ids"),
            mask=joined("mask"),
            special=joined("special"),
            texts=tuple(text for batch in batches for text in batch.texts),
            truncated=tuple(flag for batch in batches for flag in batch.truncated),
        )


@runtime_checkable
class TextFeatures(Protocol):
    """What a metric keeps of a batch of texts: opaque to the doors, which only split, keep and join it."""

    def __len__(self) -> int:
        """Number of texts."""

    def unbind(self) -> list[Self]:
        """One object per text, without padding and without holding on to the batch's memory."""

    @classmethod
    def collate(cls, features: Sequence[Self]) -> Self:
        """Several objects as one batch."""

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Token vectors of a batch of texts, ready to be matched with those of another.

    Attributes:
        vectors: Unit vectors (of the kind that the metric's representation makes), ``[B, L, D]``; 0 where padded.
        mask: True where there is a token, bool ``[B, L]``.
        special: Kind of token as :class:`SpecialToken`, int8 ``[B, L]``.
        input_ids: Token ids, int64 ``[B, L]``: what token weights such as idf are looked up by.
        self_similarity: Similarity of each text with itself, ``[B, 2, 3]``: in the role of a reference and of a
            hypothesis; recall, precision, F. ``None`` where the metric does not normalise.
    """

    vectors: Tensor
    mask: Tensor
    special: Tensor
    input_ids: Tensor
    self_similarity: Tensor | None = None

    def __len__(self) -> int:
        return self.mask.shape[0]

    @property
    def nbytes(self) -> int:
        """Memory held by the tensors, in bytes."""
        tensors = (getattr(self, entry.name) for entry in fields(self))
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    def unbind(self) -> list[Self]:
        """One object per text, cut to its own length; copies, so that the batch can be freed."""
        return [
            type(self)(
                vectors=self.vectors[row : row + 1, :length].clone(),
                mask=self.mask[row : row + 1, :length].clone(),
                special=self.special[row : row + 1, :length].clone(),
                input_ids=self.input_ids[row : row + 1, :length].clone(),
                self_similarity=None if self.self_similarity is None else self.self_similarity[row : row + 1].clone(),
            )
            for row, length in enumerate(self.mask.sum(dim=1).tolist())
        ]

    @classmethod
    def collate(cls, features: Sequence[Self]) -> Self:
        """Several texts as one batch, padded to the longest. Each object may hold one text only."""

        def padded(name: str) -> Tensor:
            return pad_sequence([getattr(one, name)[0] for one in features], batch_first=True)

        selves = [one.self_similarity for one in features if one.self_similarity is not None]
        return cls(
            vectors=padded("vectors"),
            mask=padded("mask"),
            special=padded("special"),
            input_ids=padded("input_ids"),
            self_similarity=torch.cat(selves) if selves else None,
        )

    def select(self, rows: Tensor) -> Self:
        """The rows at the given indices; gradients flow."""
        return type(self)(
            vectors=self.vectors[rows],
            mask=self.mask[rows],
            special=self.special[rows],
            input_ids=self.input_ids[rows],
            self_similarity=None if self.self_similarity is None else self.self_similarity[rows],
        )


class MatchResult(NamedTuple):
    """Similarity of ``B`` pairs of texts, and how it came about.

    Attributes:
        recall: How much of the reference is found in the hypothesis, ``[B]``.
        precision: How much of the hypothesis is found in the reference, ``[B]``.
        f: Their combination, ``[B]``.
        plan: Transport plan ``[B, M, N]`` (rows: reference tokens, columns: hypothesis tokens) where asked for.
        converged: Whether the solver reached its tolerance, bool ``[B]``; ``None`` for closed forms and for a fixed
            number of iterations.
    """

    recall: Tensor
    precision: Tensor
    f: Tensor
    plan: Tensor | None = None
    converged: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of ``B`` pairs, on the device and with gradients.

    Attributes:
        score: The metric's one number, ``[B]``, after calibration.
        precision: ``[B]`` or ``None`` where the metric has none.
        recall: ``[B]`` or ``None``.
        f: ``[B]`` or ``None``.
        components: Further named values, ``[B]`` each (RoMe's features, say).
        flags: Named bool ``[B]``: what was out of the ordinary, such as ``"empty"``. Counted by the doors.
    """

    score: Tensor
    precision: Tensor | None = None
    recall: Tensor | None = None
    f: Tensor | None = None
    components: Mapping[str, Tensor] = field(default_factory=dict)
    flags: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything that a number depends on, as ordered key-value pairs in the manner of sacrebleu.

    Example:
        >>> str(Signature({"metric": "twmd", "layer": "6"}))
        'metric:twmd|layer:6'
    """

    entries: Mapping[str, str]

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.entries.items())

    def extended(self, **entries: str) -> Signature:
        """The same signature with further entries at its end (or with new values in their old places)."""
        return Signature({**self.entries, **entries})


@dataclass(frozen=True)
class SegmentScores:
    """Scores of a list of segments, in input order.

    Attributes:
        scores: The metric's score of each segment, float64 ``[n]``.
        precision: float64 ``[n]``, or ``None`` where the metric has none.
        recall: float64 ``[n]`` or ``None``.
        f: float64 ``[n]`` or ``None``.
        components: Further named values, float64 ``[n]`` each.
        signature: What the numbers depend on.
        counts: How many segments or texts were out of the ordinary: ``"empty"``, ``"truncated"``, …
    """

    scores: np.ndarray
    precision: np.ndarray | None
    recall: np.ndarray | None
    f: np.ndarray | None
    signature: Signature
    components: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[float]:
        return iter(self.scores.tolist())

    @property
    def mean(self) -> float:
        """Mean score over all segments; NaN where there are none."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")


@runtime_checkable
class SegmentMetric(Protocol):
    """What every metric is to every door.

    A door tokenises texts, asks for features that it may keep per text, and asks for the scores of pairs. Where
    :meth:`text_features` answers ``None`` the texts must be read together, and :meth:`pair_scores` takes the token
    batches themselves. Implementations are ``torch.nn.Module``; row ``i`` of the hypotheses is scored against row
    ``i`` of the references.
    """

    config_class: ClassVar[type[Any]]
    """Frozen dataclass with ``kind``, ``override``, ``to_dict`` and ``from_dict``; its fields are the overrides."""

    optional_parts: ClassVar[tuple[str, ...]]
    """Beginnings of the names of weights that an override may add to a checkpoint, to start afresh, or leave out."""

    config: Any

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """The metric that a configuration describes, on its pretrained encoder."""

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """The metric that :meth:`save_files` described, with weights that the caller fills."""

    @property
    def higher_is_better(self) -> bool:
        """False for distances."""

    @property
    def multi_reference(self) -> str:
        """How values against several references become one: ``"best"`` (the best of each value) or ``"mean"``."""

    @property
    def needs_fit(self) -> bool:
        """Whether a statistic is missing that scoring needs."""

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest score that can occur, infinite where a calibration head sets the scale."""

    @property
    def signature(self) -> Signature:
        """What the scores depend on."""

    @property
    def device(self) -> torch.device:
        """Where batches have to be."""

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Set the arithmetic of the encoder, in place; everything behind it stays in float32."""

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Texts as token ids, on the CPU."""

    def text_features(self, batch: TokenBatch) -> TextFeatures | None:
        """What is needed of each text, independent of its batch mates; ``None`` where texts are read together."""

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Scores of the pairs (hypothesis ``i``, reference ``i``), differentiable where the metric is."""

    def fit(self, batches: Iterable[TokenBatch]) -> None:
        """Fit the statistics that the metric needs on a corpus."""

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Write what rebuilds the metric into ``folder`` and return the entries of its ``config.json``."""


@runtime_checkable
class TrainableMetric(SegmentMetric, Protocol):
    """What training needs to know of a metric beside how it scores."""

    def encoder_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Named parameters that were trained before and take a small learning rate."""

    def head_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Named parameters that start afresh, such as temperature and calibration."""

    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Map scores to the scale of ratings ``[n]``, given the ``n`` pairs of hypotheses and references."""
