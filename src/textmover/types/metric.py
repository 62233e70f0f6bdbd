"""Results and protocols of matchings, metrics and parsers."""

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
    """Words of a text in order, with lemmas and dependencies.

    A text of several sentences has several roots; to get a single tree, add a common root.

    Attributes:
        words: The ``n`` words as written, including punctuation marks but not white space.
        lemmas: Their dictionary forms; a parser without lemmas returns the words in lower case.
        tags: Universal part-of-speech tags (``NOUN``, ``VERB``, …).
        features: Morphological features as Universal Dependencies write them (``Number=Plur|Person=3``), or ``""``.
        heads: Index of the word that each word depends on; -1 for the root of a sentence.
        relations: Dependency relations of Universal Dependencies (``nsubj``, ``obj``, …); ``root`` for a root.
        spans: Start and end of each word in the text.

    Raises:
        ValueError: If the lengths of the fields differ, or the heads are not trees.
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
        """Indices of the roots, one per sentence."""
        return tuple(place for place, head in enumerate(self.heads) if head == -1)


@runtime_checkable
class Parser(Protocol):
    """Protocol of parsers. The parse of a text depends on that text alone."""

    @property
    def identity(self) -> str:
        """Name, version and hash of the model, for signatures and caches."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """Return the parse of each text, in order; the parse of a text without words is empty."""


class MatchResult(NamedTuple):
    """Similarity of ``B`` pairs of texts, optionally with the transport plan.

    Attributes:
        recall: How much of the reference is found in the hypothesis, ``[B]``.
        precision: How much of the hypothesis is found in the reference, ``[B]``.
        f: Their combination, ``[B]``.
        plan: Transport plan ``[B, M, N]`` (rows: reference tokens, columns: hypothesis tokens) if requested.
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
        score: The metric's main value, ``[B]``, after calibration.
        precision: ``[B]``, or ``None`` if the metric has no precision.
        recall: ``[B]`` or ``None``.
        f: ``[B]`` or ``None``.
        components: Further named values, ``[B]`` each, such as RoMe's features.
        flags: Named flags of unusual pairs, bool ``[B]`` each, such as ``"empty"``.
    """

    score: Tensor
    precision: Tensor | None = None
    recall: Tensor | None = None
    f: Tensor | None = None
    components: Mapping[str, Tensor] = field(default_factory=dict)
    flags: Mapping[str, Tensor] = field(default_factory=dict)


class Statistic(Protocol):
    """Corpus statistic of a metric: a ``torch.nn.Module`` with its values in the state dict."""

    @property
    def fitted(self) -> bool:
        """Return whether the statistic has been fitted."""

    def state_dict(self) -> dict[str, Any]:
        """Return the values by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Load values by name."""


class EncoderRunner(Protocol):
    """Back-end that replaces an encoder's model.

    A runner can be copied and pickled, so that an encoder can be copied and sent to other processes.
    """

    @property
    def name(self) -> str:
        """Name and version of the back-end for the signature, such as ``openvino-2026.4.1``."""

    @property
    def precision(self) -> str:
        """Arithmetic for the signature: ``exact``, ``bf16`` or ``int8``."""

    @property
    def concurrent(self) -> bool:
        """Return whether calls from several threads run in parallel; otherwise they are serialised."""

    @property
    def row_runner(self) -> RowRunner | None:
        """The same back-end if it can encode several short texts in one row, else ``None``."""

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the computed layers' hidden states, ``[B, L, D]`` each, of ids (int64) and mask (bool) ``[B, L]``.

        Must be safe to call from several threads.
        """


class RowRunner(Protocol):
    """Back-end that encodes rows of several short texts each, to avoid computing on padding."""

    @property
    def row_shape(self) -> tuple[int, int]:
        """Number of rows per call and of tokens per row: ``R`` and ``C``."""

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Width ``D`` of the hidden states of each computed layer."""

    def rows(self, input_ids: np.ndarray, positions: np.ndarray, texts: np.ndarray, into: Sequence[np.ndarray]) -> None:
        """Compute the hidden states of rows; must be safe to call from several threads.

        Args:
            input_ids: Token ids, int64 ``[R, C]``.
            positions: Position of each token within its text, from 0, int64 ``[R, C]``.
            texts: Number of each token's text, from 1; 0 for padding. A token attends only to tokens of its own text.
            into: Output arrays for the states of each computed layer, float32 ``[R, C, D]``.
        """


class RunnableEncoder(Protocol):
    """Encoder that another back-end may run while no gradients are recorded."""

    @property
    def computed(self) -> tuple[int, ...]:
        """Computed layers, in the order in which a runner returns them; layer 0 is the embeddings."""

    @property
    def runner(self) -> EncoderRunner | None:
        """Back-end in use; ``None`` if the model itself computes."""

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run the encoder at the same time."""

    @property
    def row_runner(self) -> RowRunner | None:
        """Back-end that encodes several texts in one row; ``None`` if each text needs a separate row."""

    def run_with(self, runner: EncoderRunner | None) -> None:
        """Compute with a back-end, or with the model again if ``None``."""

    def let_go(self) -> bool:
        """Free cached hidden states on the device; return whether there were any."""

    @property
    def weights(self) -> Any:
        """Module that holds the weights, by their names in the model, and its configuration."""

    def graph(self) -> torch.nn.Module:
        """Return a module from token ids and mask (int64, ``[B, L]``) to a tuple of hidden states, for export."""


@runtime_checkable
class SegmentMetric(Protocol):
    """Protocol of every metric.

    The caller tokenises texts, computes features, which it may cache per text, and scores pairs of them. If
    :meth:`text_features` returns ``None``, the metric reads pairs together and :meth:`pair_scores` takes the token
    batches. Implementations are ``torch.nn.Module``; row ``i`` of the hypotheses is scored against row ``i`` of the
    references.
    """

    config_class: ClassVar[type[Any]]
    """Frozen dataclass with ``kind``, ``override``, ``to_dict`` and ``from_dict``; its fields can be overridden."""

    optional_parts: ClassVar[tuple[str, ...]]
    """Name prefixes of weights that an override may add to a checkpoint (freshly initialised) or remove."""

    config: Any

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Build the metric of a configuration on its pretrained encoder."""

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """Rebuild the metric that :meth:`save_files` wrote; the caller loads the weights."""

    @property
    def higher_is_better(self) -> bool:
        """False for distances."""

    @property
    def multi_reference(self) -> str:
        """Rule that combines the values against several references.

        ``"best"``: the best of each value; ``"mean"``: their mean; ``"all"``: one text, joined by :meth:`join`.
        """

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """Statistics that the metric uses, by name, such as ``mean``, ``idf`` and ``baseline``."""

    def statistic_basis(self, name: str) -> dict[str, str]:
        """Return the signature entries that a statistic depends on, apart from its texts."""

    @property
    def needs_fit(self) -> bool:
        """Return whether a statistic must be fitted before scoring."""

    @property
    def fits_on_call(self) -> bool:
        """Return whether each call fits the statistics on its own texts, with ``from_call``, before it scores."""

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest possible score, infinite after calibration."""

    @property
    def signature(self) -> Signature:
        """Signature of the scores."""

    @property
    def device(self) -> torch.device:
        """Device of the batches."""

    @property
    def token_bytes(self) -> int:
        """Memory of one token's features in bytes, which determines batch sizes."""

    @property
    def runnable_encoder(self) -> RunnableEncoder | None:
        """Encoder if another back-end can run it; ``None`` without an encoder or with static vectors."""

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Cast the encoder in place; the rest of the metric stays in float32."""

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Tokenise texts into a batch on the CPU."""

    def text_features(self, batch: TokenBatch) -> TextFeatures | None:
        """Return the features of each text, independent of the other texts; ``None`` if pairs are read together."""

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Score the pairs (hypothesis ``i``, reference ``i``); differentiable if the metric is."""

    def join(self, references: Sequence[TextFeatures]) -> TextFeatures:
        """Join the features of several references, one text each, into those of one text."""

    def fit(
        self,
        texts: Iterable[str],
        hypotheses: Iterable[str] | None = None,
        *,
        names: Collection[str] | None = None,
        from_call: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Fit all or the named statistics on a corpus, or on the references and hypotheses of a call."""

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Write the files to rebuild the metric into ``folder``; return the entries of its ``config.json``."""


@runtime_checkable
class CompositeMetric(Protocol):
    """Metric that uses classifiers or other metrics, which the caller loads and sets."""

    @property
    def wanted_classifiers(self) -> Mapping[str, str]:
        """Names of classifiers that are not set yet, by part."""

    @property
    def wanted_metrics(self) -> Mapping[str, str]:
        """Names of metrics that are not set yet, by part."""

    def take_part(self, name: str, part: Any) -> None:
        """Set a classifier or metric, ready to score, as the part ``name``."""


@runtime_checkable
class TrainableMetric(SegmentMetric, Protocol):
    """Protocol of trainable metrics."""

    def encoder_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Return named pretrained parameters, which get a small learning rate."""

    def head_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Return named parameters without pretraining, such as temperature and calibration."""

    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Fit the calibration to ratings ``[n]`` of ``n`` pairs of hypotheses and references."""
