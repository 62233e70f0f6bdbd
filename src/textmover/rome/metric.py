"""RoMe: semantic, syntactic and grammatical features of a pair of texts, and a network that makes one score of them."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from textmover.modules.base_metric import Calibration, ConfiguredMetric
from textmover.modules.classifier import TextClassifier
from textmover.modules.devices import evaluating, lasting, own_arithmetic
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.tokens.statistics_fitting import windows
from textmover.rome.config import DEFAULT_PARSER, FEATURES, RomeConfig, rome_signature
from textmover.rome.features.acceptability import AcceptabilityModel
from textmover.rome.features.pairs import match_words, pair_features
from textmover.rome.features.semantic import SemanticResult
from textmover.rome.features.text_features import PARSED_BYTES, KeptFeatures, RomeFeatures, WordReader
from textmover.rome.features.words import WordIdf
from textmover.rome.scorer.network import NEW, FeatureScorer, ScorerConfig, build_scorer, named_features
from textmover.types import InputError, PairScores, Signature, TextFeatures, TokenBatch
from textmover.types.argument_checks import check_pairs

logger = logging.getLogger(__name__)

ACCEPTABILITY = "acceptability"  # the feature that a classifier gives

GIVEN = ("reader.", "acceptability.", "others.")
"""Beginnings of the names of weights that come from elsewhere and are named, not stored."""

PARTS = ("encoder", "layer", "parser", "variant", "trees", "acceptability")
"""Entries of the signature that say where values of features lie."""


class RomeMetric(ConfiguredMetric):
    r"""RoMe: :math:`\mathrm{score}(R, H) = f(F_{sem}, F_{ted}, F_g, \ldots)`.

    The features are :math:`F_{sem}`, 1 less the earth mover's distance of aligned words, :math:`F_{ted}`, the likeness
    of dependency trees, and :math:`F_g`, the probability that the hypothesis is acceptable English, each in [0, 1];
    further ones by configuration are surface measures and scores of other metrics. :math:`f` is a network
    (:class:`~textmover.rome.scorer.network.FeatureScorer`) or the mean of the features; nothing else is trained.

    Hypotheses or references without any word score 0 and have the flag ``"empty"``; texts longer than trees are
    compared as a whole have the flag ``"long"``.

    Args:
        config: What the metric is made of.
        reader: Gives words, their vectors, and parses.
        scorer: The network; ``None`` for the mean.

    Reference: Rony et al. 2022 (RoMe).
    """

    config_class: ClassVar[type[RomeConfig]] = RomeConfig
    optional_parts: ClassVar[tuple[str, ...]] = ("calibration.", "idf.", "scorer.")

    def __init__(self, config: RomeConfig, reader: WordReader, scorer: FeatureScorer | None) -> None:
        super().__init__()
        if scorer is not None and set(scorer.config.features) != set(config.features):
            raise InputError(
                f"Expected a scorer of the features {', '.join(config.features)}, but {config.scorer!r} is one of "
                f"{', '.join(scorer.config.features)}: set `features` to these, or choose another scorer."
            )
        self.config, self.scorer = config, scorer
        self.reader = reader.requires_grad_(False)
        self.acceptability: AcceptabilityModel | None = None
        self.others = nn.ModuleDict()
        self.idf = None if config.weights == "uniform" else WordIdf(config.idf)
        self.calibration = Calibration() if config.calibrate else None
        self._kept = KeptFeatures()
        self.register_state_dict_post_hook(_leave_out)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(_forgive)  # type: ignore[no-untyped-call]

    @classmethod
    def from_config(cls, config: RomeConfig) -> RomeMetric:
        """The metric on its pretrained encoder and parser; classifier and metrics are taken by :meth:`take_part`.

        Raises:
            InputError: If encoder, parser or scorer cannot be found.
        """
        if config.scorer in NEW:
            logger.warning("The scorer %s is untrained: its scores mean nothing yet.", config.scorer)
        metric = cls(config, WordReader.from_config(config), build_scorer(config.scorer, config.features))
        if metric.languages != metric.reader.metric.languages:
            logger.warning("RoMe's trees and its scorer are made for English alone: take `twmd` for other languages.")
        return metric

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics whose scores are features, by their names."""
        return {name: self.others[_key(name)] for name in self.config.metrics if _key(name) in self.others}

    # --- parts that others load ---------------------------------------------------------------------------------------

    @property
    def wanted_classifiers(self) -> dict[str, str]:
        """The classifier of acceptability, where it is a feature and still to be taken."""
        wanted = ACCEPTABILITY in self.config.features and self.acceptability is None
        return {ACCEPTABILITY: self.config.acceptability} if wanted else {}

    @property
    def wanted_metrics(self) -> dict[str, str]:
        """The metrics whose scores are features and that are still to be taken."""
        return {name: name for name in self.config.metrics if _key(name) not in self.others}

    def take_part(self, name: str, part: Any) -> None:
        """Take one of the :attr:`wanted_classifiers` or :attr:`wanted_metrics`, ready to score.

        Raises:
            InputError: If the classifier is of another kind, or the metric reads texts together or needs a fit.
        """
        if name == ACCEPTABILITY:
            if not isinstance(part, TextClassifier):
                raise TypeError(f"Expected a TextClassifier, but got {type(part).__name__}.")
            self._kept.clear()
            self.acceptability = AcceptabilityModel(part).requires_grad_(False).eval().to(self.device)
            self._warn_of_other_parts()
            return
        if not isinstance(part, nn.Module) or part.needs_fit or part.fits_on_call or not part.higher_is_better:
            raise InputError(
                f"Expected the feature {name!r} to be a similarity that needs no corpus statistics, but it is not: "
                f"choose {', '.join(FEATURES)}, or a metric such as twmd or bertscore-f1."
            )
        self.others[_key(name)] = part.requires_grad_(False).eval().to(self.device)

    def _warn_of_other_parts(self) -> None:
        learned_from = {} if self.scorer is None else self.scorer.learned_from
        own = self.signature.entries if learned_from else {}
        if different := [name for name in PARTS if own.get(name) != learned_from.get(name)]:
            logger.warning(
                "The scorer %s was trained with another %s: features may have other values. Take their mean (scorer: "
                "mean), or train a scorer on these features.",
                self.config.scorer,
                ", ".join(different),
            )

    # --- protocol -----------------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Any:
        """The encoder of the word vectors."""
        return self.reader.metric.encoder

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the word vectors' languages, English alone with this project's parser; none where not known."""
        found = self.reader.metric.languages
        return ("en",) if len(found) > 1 and self.config.parser == DEFAULT_PARSER else found

    @property
    def encoder_identity(self) -> str:
        """Name and hash of the encoder of the word vectors."""
        return self.reader.metric.encoder_identity

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to 1, or as the averaged metrics have it; unbounded behind a calibration head."""
        if self.calibration is not None:
            return (float("-inf"), float("inf"))
        if self.scorer is not None:
            return (0.0, 1.0)
        of = {"semantic": self.config.semantic.bounds, **{name: one.range for name, one in self.metrics.items()}}
        bounds = [of.get(name, (0.0, 1.0)) for name in self.config.features]
        low, high = (sum(column) / len(bounds) for column in zip(*bounds, strict=True))
        return (min(0.0, low), high)

    @property
    def signature(self) -> Signature:
        """Signature of the scores."""
        return rome_signature(self)

    @property
    def device(self) -> torch.device:
        """Device of the encoder, on which batches must be."""
        return self.reader.metric.device

    @property
    def token_bytes(self) -> int:
        """Memory that the features of one token take, in bytes, those of other metrics included."""
        others = sum(one.token_bytes for one in self.metrics.values())
        return self.reader.metric.token_bytes + PARSED_BYTES + others

    @property
    def runnable_encoder(self) -> Encoder | None:
        """None: words match or do not, so that the rounding of another back-end can move a score by a whole edit."""
        return None

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Set the arithmetic of the encoders, in place."""
        self._kept.clear()
        self.reader.metric.cast_encoder(dtype)
        if self.acceptability is not None:
            self.acceptability.classifier.metric.cast_encoder(dtype)
        for one in self.metrics.values():
            one.cast_encoder(dtype)

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """None: the encoders are frozen."""
        return iter(())

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Named parameters of scorer and calibration."""
        for name, head in (("scorer", self.scorer), ("calibration", self.calibration)):
            if head is not None:
                yield from head.named_parameters(prefix=name)

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Return texts as token ids of the word vectors' encoder, on the CPU.

        Texts are composed (Unicode NFC) first: the parser tells apart ways to write the same letter.
        """
        return self.reader.metric.tokenize([unicodedata.normalize("NFC", text) for text in texts])

    # --- texts --------------------------------------------------------------------------------------------------------

    @own_arithmetic()
    @torch.no_grad()
    def text_features(self, batch: TokenBatch) -> RomeFeatures:
        """Word vectors, parses, and what other metrics make of the texts.

        Raises:
            InputError: If a part is still to be taken.
        """
        if wanted := {**self.wanted_classifiers, **self.wanted_metrics}:
            lacking = ", ".join(wanted.values())
            raise InputError(
                f"Expected RoMe to have been given {lacking}, but it was not: load it with `Scorer.from_pretrained` or "
                "`load_metric`."
            )
        others = {}
        with evaluating(self.reader), evaluating(self.others):  # frozen, also while the scorer is trained
            vectors, mask, texts, unknown = self.reader.read(batch)
            for name, one in self.metrics.items():
                tokens = one.tokenize(batch.texts)
                others[name] = one.text_features(tokens.to(self.device)), tokens.lengths.numpy()
        return RomeFeatures(vectors, mask, texts, others, unknown)

    def join(self, references: Sequence[TextFeatures]) -> TextFeatures:
        """Not for RoMe: several references have no common tree."""
        raise InputError(
            "Expected multi_reference to be 'best' or 'mean' for RoMe, but its references are to be joined."
        )

    # --- pairs --------------------------------------------------------------------------------------------------------

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Scores of the pairs (hypothesis ``i``, reference ``i``), with the features as components.

        Args:
            hypotheses: ``B`` texts, as features or as tokens; pairs of token batches are remembered, so that
                training a scorer reads each of them once.
            references: As many, in the same form.

        Returns:
            Score ``[B]``, with gradients to scorer and calibration; features as components.

        Raises:
            ValueError: If their numbers differ.
            TypeError: If one side is tokens and the other features.
        """
        check_pairs(hypotheses, references)
        if isinstance(hypotheses, TokenBatch) and isinstance(references, TokenBatch):
            kept = self._kept.features(
                hypotheses, references, lambda *sides: self.pair_features(*map(self.text_features, sides))
            )
            features, flags = (one.to(self.device) for one in kept)
        elif isinstance(hypotheses, RomeFeatures) and isinstance(references, RomeFeatures):
            features, flags = self.pair_features(hypotheses, references)
        else:
            raise TypeError(
                "Expected hypotheses and references both as token batches or both as RoMe's features, but got "
                f"{type(hypotheses).__name__} and {type(references).__name__}."
            )
        named = dict(zip(self.config.features, features.unbind(dim=1), strict=True))
        score = features.mean(dim=1)
        if self.scorer is not None:
            score = self.scorer(named_features(named, self.scorer.config.features))
        score = torch.where(flags[:, 0], 0.0, score)
        score = score if self.calibration is None else self.calibration(score)
        return PairScores(score, components=named, flags={"empty": flags[:, 0], "long": flags[:, 1]})

    forward = pair_scores

    @own_arithmetic()
    @torch.no_grad()
    def pair_features(self, hypotheses: RomeFeatures, references: RomeFeatures) -> tuple[Tensor, Tensor]:
        """Features ``[B, F]`` in the order of the configuration, float32, and flags ``[B, 2]``: empty, long."""
        judge = self.acceptability and partial(self._kept.judged, judge=self.acceptability.predict)  # each text once
        return pair_features(self.config, self.idf, self.metrics, judge, hypotheses, references)

    def semantic(self, hypotheses: RomeFeatures, references: RomeFeatures) -> SemanticResult:
        """The semantic feature with alignment and flow, for plots."""
        return match_words(self.config, self.idf, hypotheses, references)

    # --- statistics ---------------------------------------------------------------------------------------------------

    @property
    def statistics(self) -> dict[str, WordIdf]:
        """The idf table of words, where words are weighted by it."""
        return {} if self.idf is None else {"idf": self.idf}

    def statistic_basis(self, name: str) -> dict[str, str]:
        """Entries that a statistic depends on: words come from the parser alone, or from the tokenizer."""
        entries = self.signature.entries
        return {key: entries[key] for key in ("parser",) if key in entries} or {"encoder": entries["encoder"]}

    @property
    def needs_fit(self) -> bool:
        """Return whether the idf table has not been fitted."""
        return self.idf is not None and not self.idf.fitted

    @property
    def fits_on_call(self) -> bool:
        """Return whether the idf table is fitted on the references of each call, since none of a corpus is there."""
        if self.idf is None or self.config.idf_from != "references":
            return False
        return not self.idf.fitted or bool(self.idf.from_call)

    @lasting()
    def fit(
        self,
        texts: Iterable[str],
        hypotheses: Iterable[str] | None = None,
        *,
        names: Collection[str] | None = None,
        from_call: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Fit the idf table on a corpus, or on the references of a call.

        Args:
            texts: The corpus, or the references of a call.
            hypotheses: Not read: idf is that of the references.
            names: The statistics to fit; ``"idf"`` is the only one.
            from_call: Whether the table serves until the next call only.
            on_progress: Called with the number of texts that have been read since the last call.

        Raises:
            InputError: If the metric has nothing to fit, or there are no texts.
        """
        if self.idf is None or (names is not None and "idf" not in names):
            raise InputError("Expected a metric with statistics to fit, but got weights='uniform': choose tf-idf.")
        fitted = WordIdf(self.config.idf)
        for chunk in windows(texts, 512):
            fitted.add_words(self.reader.words(chunk))
            if on_progress is not None:
                on_progress(len(chunk))
        if not fitted.fitted:
            raise InputError("Expected texts to fit idf weights on, but got none.")
        fitted.from_call.fill_(from_call)
        self.idf.load_state_dict(fitted.state_dict())
        self._kept = self._kept.without_pairs()

    # --- files --------------------------------------------------------------------------------------------------------

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Nothing to write into ``folder``; returns what ``config.json`` keeps."""
        network = None if self.scorer is None else self.scorer.config.to_dict()
        return {"metric": self.config.to_dict(), "network": network}

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> RomeMetric:
        """The metric that :meth:`save_files` described, with a scorer whose weights the caller fills.

        Raises:
            InputError: If an override would need another scorer, or a part is not the one that the scorer was trained
                with.
        """
        if fixed := [name for name in ("kind", "features", "scorer") if name in overrides]:
            raise InputError(
                f"Expected a trained metric to keep the {fixed[0]} of its training, but got `{fixed[0]}`: leave it "
                "out, or take the preset `rome`."
            )
        config = RomeConfig.from_dict(entries["metric"]).override(**overrides)
        network = entries["network"]
        scorer = None if network is None else FeatureScorer(ScorerConfig.from_dict(network))
        return cls(config, WordReader.from_config(config), scorer)


def _leave_out(metric: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Keep weights that come from elsewhere out of a state: they are named by the configuration."""
    for name in [one for one in state if one.removeprefix(prefix).startswith(GIVEN)]:
        del state[name]


def _forgive(metric: nn.Module, found: Any) -> None:
    """Miss nothing that is kept out of a state, also where the metric is a part of what is loaded."""
    found.missing_keys[:] = [name for name in found.missing_keys if not any(f".{one}" in f".{name}" for one in GIVEN)]


def _key(name: str) -> str:
    """A metric's name as that of a module, which has no dots; another one for each name."""
    return name.replace("%", "%25").replace(".", "%2E")
