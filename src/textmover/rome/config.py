"""The configuration of RoMe, one flat frozen dataclass that rebuilds it, and its signature."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from textmover.modules.config import DEFAULT_ENCODER, Configuration, MetricConfig
from textmover.rome.options import DEFAULT_CLASSIFIER, DEFAULT_PARSER, MEAN, SEMANTICS, SemanticConfig, SyntacticOptions
from textmover.types import InputError, Signature, check_whole

if TYPE_CHECKING:
    from textmover.rome.metric import RomeMetric

FEATURES = ("semantic", "syntactic", "acceptability", "length-ratio", "chrf")
"""Features of RoMe's own; any other name is that of a metric, whose score becomes a feature."""

NO_PARSER = "none"
"""Stands for no parser: words are those of the encoder's tokenizer, and there is no syntactic feature."""

Variant = Literal["paper", "code", "equations", "align", "emd"]


@dataclass(frozen=True)
class RomeConfig(Configuration):
    """RoMe from encoder to scorer; the class for ``kind: rome``.

    Example:
        >>> RomeConfig().override(theta=0.7).theta
        0.7
    """

    kind: Literal["rome"] = "rome"  # class of the metric
    encoder: str = DEFAULT_ENCODER  # gives the word vectors: name on the hub or folder
    revision: str | None = None  # commit or tag of the encoder on the hub; None: its main branch
    layer: int | None = None  # hidden layer of the word vectors; None: the encoder's default
    max_length: int | None = None  # longest text in tokens that has word vectors; None: what the encoder allows
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # number type of the encoder
    parser: str = DEFAULT_PARSER  # released parser, folder, spaCy package, stanza:LANGUAGE, or none
    acceptability: str = DEFAULT_CLASSIFIER  # released classifier, or its folder
    features: tuple[str, ...] = ("semantic", "syntactic", "acceptability")  # inputs of the scorer, in this order
    scorer: str = "mean"  # mean, a trained network by name, a file, official, or one to train: new-paper, new-monotone
    variant: Variant = "paper"  # how words are aligned and distances penalised
    delta: float = 0.6  # least cosine of aligned words
    weights: Literal["uniform", "idf", "tf-idf"] = "tf-idf"  # weight of each word
    idf: Literal["smooth", "plus-one"] = "plus-one"  # log((n+1)/(df+1)), or log(1 + (n+1)/(df+1))
    idf_from: Literal["references", "corpus"] = (
        "corpus"  # of each call; or fitted before, which has been done for English
    )
    balanced: bool = True  # word weights of each text sum to 1; else surplus weight costs nothing
    theta: float = 0.65  # least cosine at which words of the trees match
    change: float = 2.0  # cost of changing a word of a tree (paper: 1), where deleting one costs 1
    ramp: float = 0.05  # range of cosines around theta over which that cost falls; 0 (paper): a step
    relations: bool = False  # matching words also need the same dependency relation
    punctuation: Literal["keep", "drop"] = "drop"  # punctuation marks as nodes of the trees
    most_nodes: int = 400  # longest text, in words, whose tree is compared whole; longer ones in parts
    multi_reference: Literal["best", "mean"] = "best"  # best of each value, or their mean
    calibrate: bool = False  # learn scale and offset, which map the score to the human scale

    def __post_init__(self) -> None:
        """Check every field."""
        self._check_choices()
        for name in ("parser", "acceptability", "scorer"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"Expected `{name}` to be a name or a path, but got {getattr(self, name)!r}.")
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
        for made in ("semantic", "syntactic", "reader"):  # their classes check the other fields
            getattr(self, made)

    @property
    def semantic(self) -> SemanticConfig:
        """Options of the word alignment."""
        return replace(SEMANTICS[self.variant], threshold=self.delta)

    @property
    def syntactic(self) -> SyntacticOptions:
        """Options of the tree comparison."""
        return SyntacticOptions(
            theta=self.theta,
            change=self.change,
            ramp=self.ramp,
            relations=self.relations,
            punctuation=self.punctuation == "keep",
            most_nodes=self.most_nodes,
        )

    @property
    def reader(self) -> MetricConfig:
        """The encoder that gives the word vectors."""
        return MetricConfig(
            encoder=self.encoder,
            revision=self.revision,
            layer=self.layer,
            max_length=self.max_length,
            dtype=self.dtype,
            subwords="mean",
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The features that are scores of other metrics: presets, released metrics, folders."""
        return tuple(name for name in self.features if name not in FEATURES)

    @property
    def higher_is_better(self) -> bool:
        """Always."""
        return True


KEYS = {
    "metric", "encoder", "layer", "parser", "features", "variant", "weights", "trees", "acceptability", "scorer",
    "refs", "long", "calibration", "backend", "precision",
}  # fmt: skip
"""Entries of RoMe's own, which the folder of a metric may be called as well."""


def rome_signature(metric: RomeMetric) -> Signature:
    """See :attr:`RomeMetric.signature`."""
    config = metric.config
    entries = {"metric": "rome", **metric.reader.signature_entries(), "features": ",".join(config.features)}
    entries["variant"] = f"{config.variant}-delta{config.delta:g}"
    entries["weights"] = config.weights + ("" if config.balanced else "-partial")
    if metric.idf is not None:
        corpus = "references" if metric.fits_on_call else "corpus"
        entries["weights"] += f"-{config.idf}:{corpus}@{metric.idf.fingerprint}"
    if "syntactic" in config.features:
        entries["trees"] = f"theta{config.theta:g}-change{config.change:g}" + (
            f"-ramp{config.ramp:g}" if config.ramp else ""
        )
        entries["trees"] += ("-relations" if config.relations else "") + f"-most{config.most_nodes}"
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
