"""Configuration and signature of RoMe, and options of its features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_args

from textmover.modules.config import DEFAULT_ENCODER, Configuration, MetricConfig
from textmover.types import InputError, Signature, check_choice, check_share, check_whole
from textmover.types.argument_checks import Penalty, Position

if TYPE_CHECKING:
    from textmover.rome.metric import RomeMetric

DEFAULT_PARSER = "textmover-parser"
"""The released parser: English, trained on the English Web Treebank of Universal Dependencies."""

MEAN = "mean"  # scorer without a network: mean of the features


@dataclass(frozen=True)
class SemanticConfig:
    """Options of word alignment and of the distance between aligned words.

    Attributes:
        align: Whether words are aligned one to one; else every word may move to any other at cost 1 - cos (EMD).
        position: How positions affect the alignment (:func:`~textmover.functional.word_alignment.alignment_scores`).
        penalty: How positions affect the distances (:func:`~textmover.functional.word_alignment.aligned_distances`).
        threshold: Confidence δ in [0, 1] that the cosine of aligned words must exceed.

    Raises:
        InputError: If a field has an invalid value.
    """

    align: bool = True
    position: Position = "penalty"
    penalty: Penalty = "paper"
    threshold: float = 0.6

    def __post_init__(self) -> None:
        check_choice("position", self.position, get_args(Position))
        check_choice("penalty", self.penalty, get_args(Penalty))
        check_share("threshold", self.threshold)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value; a text matched with itself has the largest."""
        return (0.0, 1.0) if self.align else (-1.0, 1.0)


SEMANTICS: dict[str, SemanticConfig] = {
    "paper": SemanticConfig(),
    "code": SemanticConfig(position="near", penalty="code"),
    "equations": SemanticConfig(position="literal"),
    "align": SemanticConfig(penalty="none"),
    "emd": SemanticConfig(align=False),
}
"""Named configurations. ``paper`` penalises distances by Eq. 4 and aligns words by the same penalty, since Eq. 3 as
printed aligns no word of a text with itself (``equations`` does that). ``code`` aligns and penalises as the authors'
code does. ``align`` omits the distance penalty, ``emd`` also the alignment: rows of the paper's table 5."""


@dataclass(frozen=True, slots=True)
class SyntacticOptions:
    """Options of the tree comparison: when two words match, and which words are compared.

    Attributes:
        theta: Cosine that two words must exceed to match, in [-1, 1].
        change: Cost of changing a word into one that does not match, above 0 and at most 2; deleting or inserting one
            costs 1. At 1, the paper's, every edit counts the same. At 2 a change costs as much as a deletion and an
            insertion. The similarity is then ``2 k / (m + n)`` for ``k`` matched words of ``m`` and ``n``.
        ramp: Width of the range of cosines, with ``theta`` at its centre, over which the cost of a change falls to 0,
            at least 0. At 0, the paper's, a score jumps by a whole edit if rounding moves a cosine across ``theta``.
        relations: Whether matching words also need the same dependency relation, ignoring subtypes after a colon as in
            ``nsubj:pass``.
        punctuation: Whether punctuation marks are nodes (see :func:`~textmover.rome.features.syntactic.tree_words`).
        most_nodes: Maximum number of words (at least 1) of a text compared as a whole; longer ones are split.

    Raises:
        InputError: If a value is out of range.
    """

    theta: float = 0.65
    change: float = 1.0
    ramp: float = 0.0
    relations: bool = False
    punctuation: bool = False
    most_nodes: int = 400

    def __post_init__(self) -> None:
        for name in ("theta", "change", "ramp", "most_nodes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"Expected `{name}` to be a number, but got {value!r}.")
        if not -1 <= self.theta <= 1:
            raise InputError(f"Expected `theta` to be a cosine from -1 to 1, but got {self.theta}.")
        if not 0 < self.change <= 2:
            raise InputError(
                f"Expected `change` to be above 0 and at most 2, but got {self.change}: a deletion and an insertion "
                "together cost 2."
            )
        if not 0 <= self.ramp < float("inf"):
            raise InputError(f"Expected `ramp` to be 0 or above, but got {self.ramp}: 0 makes the cost a step.")
        check_whole("most_nodes", self.most_nodes, way_out=": try 400")


FEATURES = ("semantic", "syntactic", "acceptability", "length-ratio", "chrf")
"""Built-in features of RoMe; any other name refers to a metric whose score becomes a feature."""

NO_PARSER = "none"
"""No parser: words come from the encoder's tokenizer, and the syntactic feature is unavailable."""

Variant = Literal["paper", "code", "equations", "align", "emd"]


@dataclass(frozen=True)
class RomeConfig(Configuration):
    """Configuration of RoMe from encoder to scorer; the class for ``kind: rome``.

    Example:
        >>> RomeConfig().override(theta=0.7).theta
        0.7
    """

    kind: Literal["rome"] = "rome"  # class of the metric
    encoder: str = DEFAULT_ENCODER  # gives the word vectors: name on the hub or folder
    revision: str | None = None  # commit or tag of the encoder on the hub; None: its main branch
    layer: int | None = None  # hidden layer of the word vectors; None: the encoder's default
    max_length: int | None = None  # maximum length in tokens; None: the encoder's maximum
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # number type of the encoder
    parser: str = DEFAULT_PARSER  # released parser, folder, spaCy package, stanza:LANGUAGE, or none
    acceptability: str = "textmover-acceptability"  # released classifier, or its folder
    features: tuple[str, ...] = ("semantic", "syntactic", "acceptability")  # inputs of the scorer, in this order
    scorer: str = "mean"  # mean, a trained network by name, a file, official, or one to train: new-paper, new-monotone
    variant: Variant = "paper"  # how words are aligned and distances penalised
    delta: float = 0.6  # cosine that aligned words must exceed
    weights: Literal["uniform", "idf", "tf-idf"] = "tf-idf"  # weight of each word
    idf: Literal["smooth", "plus-one"] = "plus-one"  # log((n+1)/(df+1)), or log(1 + (n+1)/(df+1))
    idf_from: Literal["references", "corpus"] = (
        "corpus"  # of each call, or of a corpus fitted before (released for English)
    )
    balanced: bool = True  # word weights of each text sum to 1; else surplus weight costs nothing
    theta: float = 0.65  # cosine that matching words of the trees must exceed
    change: float = 2.0  # cost of changing a word of a tree (paper: 1), where deleting one costs 1
    ramp: float = 0.05  # range of cosines around theta over which that cost falls; 0 (paper): a step
    relations: bool = False  # matching words also need the same dependency relation
    punctuation: Literal["keep", "drop"] = "drop"  # punctuation marks as nodes of the trees
    most_nodes: int = 400  # maximum number of words of a text compared as a whole; longer ones are split
    multi_reference: Literal["best", "mean"] = "best"  # best of each value over the references, or its mean
    calibrate: bool = False  # learn scale and offset, which map the score to the human scale

    def __post_init__(self) -> None:
        self._check_choices()
        for name, value in self._values("parser", "acceptability", "scorer").items():
            if not isinstance(value, str) or not value:
                raise InputError(f"Expected `{name}` to be a name or a path, but got {value!r}.")
        features = (self.features,) if isinstance(self.features, str) else tuple(self.features)
        if not features or len(set(features)) != len(features) or not all(isinstance(one, str) for one in features):
            raise InputError(
                f"Expected `features` to be one or more different names ({', '.join(FEATURES)}, or a metric's), but "
                f"got {self.features!r}."
            )
        check_whole("features", len(features), place=", as their number,")
        object.__setattr__(self, "features", features)
        if self.parser == NO_PARSER and "syntactic" in features:
            raise InputError(
                "Expected a parser for the feature 'syntactic', but got parser='none': name one, or leave the feature "
                "out."
            )
        number = isinstance(self.delta, (int, float)) and not isinstance(self.delta, bool)
        if not number or not 0 <= self.delta <= 1:
            raise InputError(f"Expected `delta` to be a number between 0 and 1, but got {self.delta!r}: try 0.6.")
        for name in ("semantic", "syntactic", "reader"):  # their classes check the other fields
            getattr(self, name)

    @property
    def semantic(self) -> SemanticConfig:
        """Options of the word alignment."""
        return replace(SEMANTICS[self.variant], threshold=self.delta)

    @property
    def syntactic(self) -> SyntacticOptions:
        """Options of the tree comparison."""
        options = self._values("theta", "change", "ramp", "relations", "most_nodes")
        return SyntacticOptions(punctuation=self.punctuation == "keep", **options)

    @property
    def reader(self) -> MetricConfig:
        """The encoder that gives the word vectors."""
        return MetricConfig(subwords="mean", **self._values("encoder", "revision", "layer", "max_length", "dtype"))

    def _values(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    @property
    def metrics(self) -> tuple[str, ...]:
        """Features that are scores of other metrics: presets, released metrics, folders."""
        return tuple(name for name in self.features if name not in FEATURES)

    @property
    def higher_is_better(self) -> bool:
        """Always true."""
        return True


KEYS = {
    "metric", "encoder", "layer", "parser", "features", "variant", "weights", "trees", "acceptability", "scorer",
    "refs", "long", "calibration", "backend", "precision",
}  # fmt: skip
"""RoMe's signature entries; a feature of the same name gets the prefix ``feature-``."""


def rome_signature(metric: RomeMetric) -> Signature:
    """Return the signature of a RoMe metric."""
    config = metric.config
    entries = {"metric": "rome", **metric.reader.signature_entries(), "features": ",".join(config.features)}
    entries["variant"] = f"{config.variant}-delta{config.delta:g}"
    entries["weights"] = config.weights + ("" if config.balanced else "-partial")
    if metric.idf is not None:
        corpus = "references" if metric.fits_on_call else "corpus"
        entries["weights"] += f"-{config.idf}:{corpus}@{metric.idf.fingerprint}"
    if "syntactic" in config.features:
        ramp = f"-ramp{config.ramp:g}" if config.ramp else ""
        relations = "-relations" if config.relations else ""
        entries["trees"] = f"theta{config.theta:g}-change{config.change:g}{ramp}{relations}-most{config.most_nodes}"
        entries["trees"] += "-punctuation" if config.punctuation == "keep" else ""
    if metric.acceptability is not None:
        entries["acceptability"] = metric.acceptability.identity
    for name, one in metric.metrics.items():
        digest = hashlib.sha256(str(one.signature).encode()).hexdigest()[:8]
        entries[f"feature-{name}" if name in KEYS else name] = digest
    entries["scorer"] = MEAN if metric.scorer is None else f"{config.scorer}@{metric.scorer.fingerprint}"
    entries |= {"refs": config.multi_reference, "long": f"truncate{metric.reader.metric.tokenizer.max_length}"}
    if metric.calibration is not None:
        entries |= metric.calibration.signature_entries()
    return Signature({**entries, "backend": "torch", "precision": metric.reader.metric.precision})
