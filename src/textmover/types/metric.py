"""Results of a matching, a metric and a parser, and the protocol behind every door."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from textmover.types.segments import Signature

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch
    from torch import Tensor
    from typing_extensions import Self

    from textmover.types.tokens import TextFeatures, TokenBatch


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The words of a text in the order of the text, with lemmas and dependencies.

    A text of several sentences has several roots; whoever needs one tree joins them under a root of its own.

    Attributes:
        words: The ``n`` words as they are written, punctuation marks among them; white space is none.
        lemmas: Their dictionary forms; a parser without lemmas gives the words in lower case.
        tags: Universal part-of-speech tags (``NOUN``, ``VERB``, …).
        features: Morphological features as Universal Dependencies write them (``Number=Plur|Person=3``), or ``""``.
        heads: Position of the word that each one depends on; -1 for the root of a sentence.
        relations: Dependency relations of Universal Dependencies (``nsubj``, ``obj``, …); ``root`` for a root.
        spans: First character of each word in the text, and the one after its last.

    Raises:
        ValueError: If their numbers differ, or the heads are no trees.
    """

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    tags: tuple[str, ...]
    features: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        columns = (self.lemmas, self.tags, self.features, self.heads, self.relations, self.spans)
        if any(len(column) != len(self.words) for column in columns):
            raise ValueError(
                f"Expected one lemma, tag, head … to each of {len(self.words)} words, but got "
                f"{', '.join(str(len(column)) for column in columns)}."
            )
        rooted = [False] * len(self.words)
        for word in range(len(self.words)):
            path: list[int] = []
            place = word
            while place != -1 and not (0 <= place < len(self.words) and rooted[place]):
                if not 0 <= place < len(self.words) or len(path) == len(self.words):
                    raise ValueError(f"Expected `heads` to be trees of {len(self.words)} words, but got {self.heads}.")
                path.append(place)
                place = self.heads[place]
            for one in path:
                rooted[one] = True

    def __len__(self) -> int:
        return len(self.words)

    @property
    def roots(self) -> tuple[int, ...]:
        """Positions of the roots, one to a sentence."""
        return tuple(place for place, head in enumerate(self.heads) if head == -1)


@runtime_checkable
class Parser(Protocol):
    """A parser of texts. A text's parse depends on that text alone."""

    @property
    def identity(self) -> str:
        """Name, version and hash of the model, for signatures and caches."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """The parse of each text, in their order; a text without words has none."""


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


class Statistic(Protocol):
    """Corpus statistic of a metric: a ``torch.nn.Module`` whose state holds its values."""

    @property
    def fitted(self) -> bool:
        """Return whether it has values."""

    def state_dict(self) -> dict[str, Any]:
        """Its values by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Take values over."""


class EncoderRunner(Protocol):
    """A back-end that computes what an encoder's model computes.

    Copies and pickles of a runner compute the same, so that an encoder can be copied and sent to other processes.
    """

    @property
    def name(self) -> str:
        """Back-end and its version for the signature, such as ``openvino-2026.4.1``."""

    @property
    def precision(self) -> str:
        """Arithmetic for the signature: ``exact``, ``bf16`` or ``int8``."""

    @property
    def concurrent(self) -> bool:
        """Return whether calls from several threads run beside one another; else they wait for one another."""

    @property
    def row_runner(self) -> RowRunner | None:
        """The same back-end, where it can read several short texts side by side."""

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Hidden states of the wanted layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``.

        May be called from several threads at a time.
        """


class RowRunner(Protocol):
    """A back-end that reads short texts in rows, several side by side, so that none of its work is spent on padding."""

    @property
    def row_shape(self) -> tuple[int, int]:
        """Rows that are read at a time, and tokens of each: ``R`` and ``C``."""

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Width ``D`` of the hidden states of each wanted layer."""

    def rows(self, input_ids: np.ndarray, positions: np.ndarray, texts: np.ndarray, into: Sequence[np.ndarray]) -> None:
        """Make the hidden states of rows; may be called from several threads at a time.

        Args:
            input_ids: Token ids, int64 ``[R, C]``.
            positions: Place of each token within its text, from 0, int64 ``[R, C]``.
            texts: Number of the text that each token is of, from 1; 0 where there is none. A token sees those of its
                own text alone.
            into: Where the states of each wanted layer are written, float32 ``[R, C, D]``.
        """


class RunnableEncoder(Protocol):
    """An encoder whose computation another back-end may take over while no gradients are asked for."""

    @property
    def computed(self) -> tuple[int, ...]:
        """The layers that are computed, in the order in which a runner hands them out; 0 are the embeddings."""

    @property
    def runner(self) -> EncoderRunner | None:
        """The back-end that computes at present; ``None`` where the model itself does."""

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run it at a time."""

    @property
    def row_runner(self) -> RowRunner | None:
        """Back-end that reads several texts side by side; ``None`` if each is read by itself."""

    def run_with(self, runner: EncoderRunner | None) -> None:
        """Let a back-end compute, or the model again."""

    def let_go(self) -> bool:
        """Let go of hidden states that are kept in the memory of the device; whether there were any."""

    def graph(self) -> torch.nn.Module:
        """Token ids and mask (int64, ``[B, L]``) to a tuple of hidden states, as a module for back-ends to export."""


@runtime_checkable
class SegmentMetric(Protocol):
    """Protocol of every metric.

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
        """Rule that joins the values against several references.

        ``"best"``: the best of each value; ``"mean"``: their mean; ``"all"``: one text, made by :meth:`join`.
        """

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics that the metric has room for, by name, such as ``mean``, ``idf`` and ``baseline``."""

    def statistic_basis(self, name: str) -> dict[str, str]:
        """Entries of the signature that a statistic depends on beside its texts."""

    @property
    def needs_fit(self) -> bool:
        """Return whether a statistic is missing that scoring needs."""

    @property
    def fits_on_call(self) -> bool:
        """Return whether each call fits the statistics on its own texts, with ``from_call``, before it scores."""

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest score that can occur, infinite where a calibration head sets the scale."""

    @property
    def signature(self) -> Signature:
        """Signature of the scores."""

    @property
    def device(self) -> torch.device:
        """Device on which batches must be."""

    @property
    def token_bytes(self) -> int:
        """Memory that the features of one token take, in bytes: how many texts are worked on at a time hangs on it."""

    @property
    def runnable_encoder(self) -> RunnableEncoder | None:
        """The encoder, where another back-end can run it; ``None`` where there is none or it only looks vectors up."""

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Set the arithmetic of the encoder, in place; everything behind it stays in float32."""

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Texts as token ids, on the CPU."""

    def text_features(self, batch: TokenBatch) -> TextFeatures | None:
        """Features of each text, independent of its batch mates; ``None`` if pairs are read together."""

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Scores of the pairs (hypothesis ``i``, reference ``i``), differentiable where the metric is."""

    def join(self, references: Sequence[TextFeatures]) -> TextFeatures:
        """Features of several references, of one text each, as those of one text."""

    def fit(
        self,
        texts: Iterable[str],
        hypotheses: Iterable[str] | None = None,
        *,
        names: Collection[str] | None = None,
        from_call: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Fit statistics, all or those that are named, on a corpus or on the references and hypotheses of a call."""

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Write what rebuilds the metric into ``folder`` and return the entries of its ``config.json``."""


@runtime_checkable
class CompositeMetric(Protocol):
    """A metric that reads texts with classifiers or other metrics, which its maker loads for it."""

    @property
    def wanted_classifiers(self) -> Mapping[str, str]:
        """Names of classifiers that are still to be taken, by the part they play."""

    @property
    def wanted_metrics(self) -> Mapping[str, str]:
        """Names of metrics that are still to be taken, by the part they play."""

    def take_part(self, name: str, part: Any) -> None:
        """Take a classifier or a metric, ready to score, for the part ``name``."""


@runtime_checkable
class TrainableMetric(SegmentMetric, Protocol):
    """Protocol of metrics that can be trained."""

    def encoder_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Named parameters that were trained before and take a small learning rate."""

    def head_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Named parameters that start afresh, such as temperature and calibration."""

    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Map scores to the scale of ratings ``[n]``, given the ``n`` pairs of hypotheses and references."""
