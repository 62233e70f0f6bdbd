"""Configuration of a transport metric: all its settings in one flat frozen dataclass."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin

from typing_extensions import Self

from textmover.modules.encoder.source import full_name
from textmover.modules.matching.names import COSTS, Matching, check_matching, who_reads
from textmover.types import BOUNDS, InputError, check_choice, check_whole
from textmover.types.argument_checks import did_you_mean, type_hints

logger = logging.getLogger(__name__)

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

SpecialTokens = Literal["keep", "drop", "first", "targets"]
"""Treatment of special tokens: keep all; drop all; keep only those at the start of the text ([CLS], not [SEP]);
or give them weight 0 but let other tokens match them (BERTScore)."""

Centering = Literal["none", "dimension", "sentence", "batch", "corpus"]


class Configuration:
    """Base of frozen dataclasses that configure a metric."""

    def _check_choices(self, *but: str) -> None:
        """Check the values of all boolean and ``Literal`` fields except those in ``but``."""
        for name, hint in type_hints(type(self)).items():
            if name not in but and (hint is bool or get_origin(hint) is Literal):
                check_choice(name, getattr(self, name), (True, False) if hint is bool else get_args(hint))

    def override(self, **changes: Any) -> Self:
        """Return a copy with some fields changed.

        Raises:
            InputError: If a field is unknown (names the nearest) or not read by the matching, or a value is invalid.
        """
        check_fields(changes, type(self))
        return replace(self, **changes)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON and YAML."""
        return {name: _plain(value) for name, value in asdict(self).items()}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build the configuration from the result of :meth:`to_dict`.

        Raises:
            InputError: If a field does not exist or a value is invalid.
        """
        check_fields(values, cls)
        return cls(**values)


def _within(low: float, high: float, *, above: bool = False) -> Callable[[float], bool]:
    return lambda value: low <= value <= high and not (above and value == low)


IDF_WEIGHTS = ("idf", "tf-idf")  # token weights that are fitted on texts

POSITIVE = _within(0, sys.float_info.max, above=True), "a finite number above 0"
NOT_NEGATIVE = _within(0, sys.float_info.max), "a finite number of at least 0"
PENALTY = _within(0, math.inf), 'a number of at least 0 or "inf"'
NUMBERS = {
    "routing_step": POSITIVE,
    "routing_tolerance": POSITIVE,
    "tolerance": POSITIVE,
    "temperature": POSITIVE,
    "hypothesis_penalty": PENALTY,
    "reference_penalty": PENALTY,
    "order_penalty": NOT_NEGATIVE,
    "alpha": (_within(0, 1), "a number between 0 and 1"),
    "error_norm": (_within(1, 64), "a number from 1 to 64"),
    "same_token_loss": (_within(1, 64), "a number from 1 to 64"),
}
"""Check of each number in a metric's configuration, and its description in messages."""


@dataclass(frozen=True)
class MetricConfig(Configuration):
    """Configuration of a transport metric, from encoder to calibration; ``kind: transport`` in files.

    Infinite numbers may be given as ``"inf"`` and ``"-inf"``, as they are in files.

    Example:
        >>> MetricConfig(matching="trwmd").override(temperature=0.1).temperature
        0.1
    """

    kind: Literal["transport"] = "transport"  # class of the metric; this one is the transport family
    matching: Matching = "twmd"  # how the tokens of two texts are matched
    encoder: str = DEFAULT_ENCODER  # name on the hub, folder, or file of static word vectors
    revision: str | None = None  # commit or tag of the encoder on the hub; None: its main branch
    layer: int | None = None  # hidden layer (0: embeddings, negative: from the end); None: the encoder's default
    aggregation: Literal["single", "power-means", "scalar-mix", "side-by-side", "routing"] = "single"  # combines layers
    layers: tuple[int, ...] | None = None  # layers to combine, by number, such as [6, 12]; None: `last_layers` chooses
    last_layers: int = 5  # how many layers to combine, counted down from `layer` or from the last
    powers: tuple[float, ...] = (-math.inf, 1.0, math.inf)  # exponents of the power means, which are concatenated
    routing_kernel: Literal["gaussian", "epanechnikov"] = "gaussian"  # how a layer's weight falls with its distance
    routing_step: float = 1.0  # step size of the weights in routing
    routing_tolerance: float = 1e-5  # routing stops when vectors and weights change less than this
    routing_iterations: int = 20  # maximum iterations of routing
    max_length: int | None = None  # longest text in tokens, special ones included; None: the encoder's limit
    long_texts: Literal["truncate", "error", "window"] = "truncate"  # beyond max_length: cut, error, or in windows
    unknown_words: Literal["drop", "zero", "mean", "error"] = "drop"  # words without a static vector
    unknown_tokens: Literal["apart", "alike"] = "apart"  # an unknown token matches the same token alone, or any other
    numbers: Literal["similar", "equal"] = "similar"  # numbers and dates match by vectors, or by value, too
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # number type of the encoder
    freeze_layers: int | None = None  # not trained: embeddings (0) and the first n layers; None: nothing
    centering: Centering = "none"  # mean to subtract from the token vectors
    hypothesis_special_tokens: SpecialTokens = "first"  # which special tokens of the hypothesis take part
    reference_special_tokens: SpecialTokens = "first"  # which special tokens of the reference take part
    subwords: Literal["all", "first", "mean"] = "all"  # pieces of a word to match: all, the first, or their mean
    punctuation: Literal["keep", "drop"] = "keep"  # tokens that are a punctuation mark
    stop_words: str = "keep"  # words to drop: keep (drops none), english, or a list with spaces between
    ngram: int | Literal["sentence"] = 1  # n-gram size: tokens in a unit of matching
    weights: Literal["uniform", "idf", "tf-idf", "learned"] = "uniform"  # token weights; learned: from vectors
    idf: Literal["smooth", "plus-one"] = "smooth"  # log((n+1)/(df+1)), or log(1 + (n+1)/(df+1))
    idf_from: Literal["corpus", "references", "sides"] = "corpus"  # fit on a corpus, a call's references, or each side
    temperature: float = 0.02  # T of twmd and trwmd; epsilon of lazy-emd and sinkhorn-divergence
    learn_temperature: bool = False  # train T (its logarithm) along with the encoder
    iterations: int = 1  # Sinkhorn iterations, used without a tolerance
    tolerance: float | None = None  # marginal error to converge to, instead of a number of iterations
    max_iterations: int = 1000  # maximum iterations, used with a tolerance
    value: Literal["transport", "objective"] = "transport"  # value returned by twmd and trwmd
    cost: Literal["cosine", "squared-euclidean", "euclidean"] = "cosine"  # transport cost between unit vectors
    hypothesis_penalty: float = math.inf  # lambda_c of lazy-emd: price of unmatched hypothesis tokens, 0 to inf
    reference_penalty: float = math.inf  # lambda_r of lazy-emd: price of unmatched reference tokens, 0 to inf
    measure: Literal["entropy", "product"] = "entropy"  # reference measure of lazy-emd's entropy
    order_penalty: float = 0.0  # delta of WMDo: weight of word order in the distance
    output: Literal["similarity", "inverse", "distance"] = "similarity"  # score from a distance E: 1-E, 1/(1+E) or E
    normalize: bool = True  # divide by the similarity of each text with itself
    alpha: float = 0.5  # alpha in F_alpha = PR/(alpha P + (1 - alpha) R)
    error_norm: float = 1.0  # p of precision, 1 - (mean of loss^p)^(1/p): above 1, a few bad tokens cost more
    same_token_loss: float = 1.0  # factor of the loss of a token matched with the same one in another context
    score: Literal["f", "precision", "recall"] = "f"  # value that becomes the score
    rescale: bool = False  # (x - b)/(1 - b), where b is the fitted score of unrelated texts
    multi_reference: Literal["best", "mean", "all"] = "best"  # several references: best, mean, or joined to one text
    mode: Literal["reference", "source", "both"] = "reference"  # source, both: need a multilingual encoder
    target_language: str | None = None  # code, such as de: hypotheses in other languages score as empty ones
    fallback: bool = False  # without references compare with the source, and the other way round
    calibrate: bool = False  # learn scale and offset, which map the score to the human scale
    mark_errors: bool = False  # learn to mark wrong and missing words

    def __post_init__(self) -> None:
        check_matching(self.matching)  # other packages may register matchings, so its Literal is incomplete
        self._check_choices("matching")
        self._read_infinities()
        for name, (fits, what) in NUMBERS.items():
            value = getattr(self, name)
            if name == "temperature" and self.matching == "lazy-emd":
                fits, what = NOT_NEGATIVE
            if not (name == "tolerance" and value is None) and not (_is_number(value) and fits(value)):
                raise InputError(f"Expected `{name}` to be {what}, but got {value!r}.")
        for name in ("iterations", "max_iterations", "last_layers", "routing_iterations"):
            check_whole(name, getattr(self, name))
        for name in ("layer", "max_length", "freeze_layers"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), alternative=" or null")
        if self.ngram != "sentence":
            check_whole("ngram", self.ngram, alternative=' or "sentence"')
        check_whole("powers", len(self.powers), place=", as their number,")
        self._read_layers()
        self._check_texts()
        self._check_together()

    def _read_infinities(self) -> None:
        """Convert ``"inf"`` and ``"-inf"`` to numbers, integers to floats, and a list of powers to a tuple."""
        infinite = {"inf": math.inf, "-inf": -math.inf}
        penalties = ("order_penalty", "hypothesis_penalty", "reference_penalty")
        for name in ("temperature", "alpha", "error_norm", "same_token_loss", *penalties):
            value = getattr(self, name)
            value = infinite.get(value, value) if isinstance(value, str) else value
            object.__setattr__(self, name, float(value) if _is_number(value) else value)
        powers = self.powers if isinstance(self.powers, (list, tuple)) else (self.powers,)
        numbers = tuple(infinite.get(one, one) if isinstance(one, str) else one for one in powers)
        if not numbers or not all(_is_number(one) and not math.isnan(one) for one in numbers):
            raise InputError(f'Expected `powers` to be numbers, "inf" or "-inf" among them, but got {self.powers!r}.')
        object.__setattr__(self, "powers", tuple(float(one) for one in numbers))

    def _read_layers(self) -> None:
        """Convert a list of layers to a sorted tuple; raise an error if it is invalid or combined with `layer`."""
        if self.layers is None:
            return
        most = BOUNDS["layer"][1]
        layers = self.layers if isinstance(self.layers, (list, tuple)) else ()
        if not all(type(one) is int and 0 <= one <= most for one in layers) or not 0 < len(set(layers)) == len(layers):
            raise InputError(
                f"Expected `layers` to be different layers, as in [6, 12], or null, but got {self.layers!r}."
            )
        if self.layer is not None:
            raise InputError(f"Expected `layer` or `layers`, but got {self.layer} and {list(self.layers)}.")
        if self.aggregation == "single":
            raise InputError("Expected an `aggregation` of several layers with `layers`, but got 'single'.")
        object.__setattr__(self, "layers", tuple(sorted(self.layers)))

    def _check_texts(self) -> None:
        if not isinstance(self.encoder, str) or not self.encoder:
            raise InputError(f"Expected `encoder` to be a name, a folder or a file, but got {self.encoder!r}.")
        object.__setattr__(self, "encoder", full_name(self.encoder))
        if not isinstance(self.stop_words, str) or not self.stop_words.strip():
            raise InputError(f"Expected `stop_words` to be keep, english or words, but got {self.stop_words!r}.")
        code = self.target_language
        if code is not None and not (isinstance(code, str) and len(code) == 2 and code.isascii() and code.islower()):
            raise InputError(
                f"Expected `target_language` to be a code of two letters, such as en or de, or null, but got {code!r}."
            )
        if self.revision is not None and (not isinstance(self.revision, str) or not self.revision):
            raise InputError(
                f"Expected `revision` to be a commit or tag in quotes, or null, but got {self.revision!r}."
            )

    def _check_together(self) -> None:
        if self.normalize and (self.matching in ("lazy-emd", "sinkhorn-divergence") or self.output != "similarity"):
            what = f"matching={self.matching!r}" if self.output == "similarity" else f"output={self.output!r}"
            raise InputError(
                f"Expected `normalize` to be false with {what}, but got true: distances cannot be normalised."
            )
        if self.rescale and self.matching in COSTS and self.output == "distance":
            raise InputError(
                "Expected `rescale` to be false with output='distance', but got true: distances have no baseline. "
                "Choose output='similarity'."
            )
        if self.error_norm != 1 and (self.tolerance is not None or self.value == "objective"):
            raise InputError(
                "Expected `error_norm` to be 1 with a `tolerance` or value='objective', whose values are not those of "
                f"tokens, but got {self.error_norm:g}: set it to 1, or leave the other out."
            )
        if self.same_token_loss != 1 and (self.ngram != 1 or self.subwords == "mean"):
            raise InputError(
                "Expected `same_token_loss` to be 1 where tokens are pooled to words or n-grams, but got "
                f"{self.same_token_loss:g}: set it to 1, or `ngram` to 1 and `subwords` to all or first."
            )
        penalties = (self.hypothesis_penalty, self.reference_penalty)
        if self.matching != "lazy-emd":
            return
        if penalties == (0, 0):
            raise InputError("Expected a penalty above 0 on one side of lazy-emd at least, but got 0 for both.")
        if self.temperature == 0 and not set(penalties) <= {0, math.inf}:
            raise InputError(
                'Expected penalties of 0 or "inf" where the `temperature` of lazy-emd is 0, but got '
                f"{penalties[0]} and {penalties[1]}: take a temperature above 0."
            )
        if self.temperature == 0 and self.learn_temperature:
            raise InputError("Expected a `temperature` above 0 to learn it, but got 0.")

    def override(self, **changes: Any) -> Self:
        """See :meth:`Configuration.override`."""
        changed = super().override(**changes)
        for name in changes:
            if getattr(changed, name) != getattr(self, name):
                changed._check_read(name)
        return changed

    def _check_read(self, name: str) -> None:
        """Raise an error if the matching does not read a field; warn if another field makes it ineffective."""
        readers = who_reads(name)
        if readers is not None and self.matching not in readers:
            raise InputError(
                f"Expected a field that matching={self.matching!r} reads, but got `{name}`, which "
                f"{', '.join(sorted(readers))} read{'s' if len(readers) == 1 else ''}: leave it out."
            )
        unread = {
            "powers": self.aggregation != "power-means" and f"aggregation={self.aggregation!r}",
            "last_layers": (self.aggregation == "single" and "aggregation='single'")
            or (self.layers is not None and f"layers={list(self.layers)}"),
            **dict.fromkeys(
                ("routing_kernel", "routing_step", "routing_tolerance", "routing_iterations"),
                self.aggregation != "routing" and f"aggregation={self.aggregation!r}",
            ),
            **dict.fromkeys(("idf", "idf_from"), self.weights not in IDF_WEIGHTS and f"weights={self.weights!r}"),
            "alpha": self.score != "f" and f"score={self.score!r}",
            "error_norm": self.score == "recall" and "score='recall'",
            "max_iterations": self.tolerance is None and "tolerance=None",
            "iterations": self.tolerance is not None and f"tolerance={self.tolerance:g}",
        }.get(name)
        if unread:
            logger.warning("`%s` has no effect with %s.", name, unread)

    @property
    def reads_sources(self) -> bool:
        """Return whether any hypothesis may be compared with its source."""
        return self.mode != "reference" or self.fallback

    @property
    def higher_is_better(self) -> bool:
        """False for distances; after calibration higher is always better."""
        return self.calibrate or self.matching not in COSTS or self.output != "distance"


def check_fields(values: Mapping[str, Any], config_class: type) -> None:
    """Raise an :class:`InputError` unless all keys are fields of the configuration class."""
    known = [entry.name for entry in fields(config_class)]
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known, f"the fields are {', '.join(known)}.", "`{}`")
            raise InputError(f"Expected a field of the metric's configuration, but got `{name}`: {hint}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
