"""RoMe: semantic, syntactic and grammatical features of text pairs, combined by a network or their mean."""

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
from textmover.rome.features.text_features import PARSED_BYTES, RomeCache, RomeFeatures, WordReader
from textmover.rome.features.word_vectors import WordIdf
from textmover.rome.scorer.network import UNTRAINED, FeatureScorer, ScorerConfig, build_scorer, named_features
from textmover.types import InputError, PairScores, Signature, TextFeatures, TokenBatch
from textmover.types.argument_checks import check_pairs

logger = logging.getLogger(__name__)

ACCEPTABILITY = "acceptability"  # feature computed by a classifier

EXTERNAL = ("reader.", "acceptability.", "others.")
"""Name prefixes of weights that are excluded from state dicts: the configuration names their source."""


class RomeMetric(ConfiguredMetric):
    r"""RoMe: :math:`\mathrm{score}(R, H) = f(F_{sem}, F_{ted}, F_g, \ldots)`.

    By default the features are :math:`F_{sem}`, 1 minus the earth mover's distance of aligned words, :math:`F_{ted}`,
    the similarity of dependency trees, and :math:`F_g`, the probability that the hypothesis is acceptable English, each
    in [0, 1]. Surface measures and scores of other metrics can be added. :math:`f` is a network
    (:class:`~textmover.rome.scorer.network.FeatureScorer`) or the mean of the features. The encoders are frozen.

    A pair with a text without known words scores 0 before calibration and has the flag ``"empty"``. A pair with
    a text too long for one tree has the flag ``"long"``.

    Args:
        config: Configuration.
        reader: Computes words, their vectors, and parses.
        scorer: Network that combines the features; ``None`` for their mean.

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
        self._cache = RomeCache()
        self.register_state_dict_post_hook(_drop_external_weights)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(_ignore_external_weights)  # type: ignore[no-untyped-call]

    @classmethod
    def from_config(cls, config: RomeConfig) -> RomeMetric:
        """Build the metric with pretrained encoder and parser; :meth:`take_part` adds classifier and other metrics.

        Raises:
            InputError: If encoder, parser or scorer is missing or invalid.
        """
        if config.scorer in UNTRAINED:
            logger.warning("The scorer %s is untrained: its scores are meaningless until it is trained.", config.scorer)
        metric = cls(config, WordReader.from_config(config), build_scorer(config.scorer, config.features))
        metric._warn_of_changed_features()
        if metric.languages != metric.reader.metric.languages:
            logger.warning("RoMe's parser and scorer support only English: use `twmd` for other languages.")
        return metric

    @property
    def metrics(self) -> dict[str, Any]:
        """Loaded metrics whose scores are features, by name."""
        return {name: self.others[_escape(name)] for name in self.config.metrics if _escape(name) in self.others}

    # --- parts loaded by the caller -----------------------------------------------------------------------------------

    @property
    def wanted_classifiers(self) -> dict[str, str]:
        """Acceptability classifier if it is a feature and not loaded yet, by part name."""
        wanted = ACCEPTABILITY in self.config.features and self.acceptability is None
        return {ACCEPTABILITY: self.config.acceptability} if wanted else {}

    @property
    def wanted_metrics(self) -> dict[str, str]:
        """Metrics whose scores are features and that are not loaded yet, by part name."""
        return {name: name for name in self.config.metrics if _escape(name) not in self.others}

    def take_part(self, name: str, part: Any) -> None:
        """Add a loaded classifier or metric of :attr:`wanted_classifiers` or :attr:`wanted_metrics`.

        Raises:
            InputError: If the classifier is unsuitable, or the metric needs corpus statistics or is lower-is-better.
            TypeError: If the classifier is not a :class:`TextClassifier`.
        """
        if name == ACCEPTABILITY:
            if not isinstance(part, TextClassifier):
                raise TypeError(f"Expected a TextClassifier, but got {type(part).__name__}.")
            self._cache.clear()
            self.acceptability = AcceptabilityModel(part).requires_grad_(False).eval().to(self.device)
            self._warn_of_changed_features()
            return
        if not isinstance(part, nn.Module) or part.needs_fit or part.fits_on_call or not part.higher_is_better:
            raise InputError(
                f"Expected the feature {name!r} to be a similarity that needs no corpus statistics, but it is not: "
                f"choose {', '.join(FEATURES)}, or a metric such as twmd or bertscore-f1."
            )
        self.others[_escape(name)] = part.requires_grad_(False).eval().to(self.device)

    def _warn_of_changed_features(self) -> None:
        """Warn if all features are loaded and the scorer was trained on others."""
        if self.scorer is None or self.wanted_classifiers or not self.scorer.learned_from:
            return
        if different := self.scorer.other_features(self.signature.entries):
            logger.warning(
                "The scorer %s was trained on features that differ in %s, so its scores may be wrong: set `scorer` to "
                "mean, or train a scorer on these features.",
                self.config.scorer, ", ".join(different),
            )  # fmt: skip

    # --- protocol -----------------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Any:
        """Encoder of the word vectors."""
        return self.reader.metric.encoder

    @property
    def languages(self) -> tuple[str, ...]:
        """Language codes of the encoder, empty if unknown; English alone for several with the default parser."""
        codes = self.reader.metric.languages
        return ("en",) if len(codes) > 1 and self.config.parser == DEFAULT_PARSER else codes

    @property
    def encoder_identity(self) -> str:
        """Name and hash of the encoder of the word vectors."""
        return self.reader.metric.encoder_identity

    @property
    def range(self) -> tuple[float, float]:
        """Range of the score: (0, 1), or the mean of the features' ranges, widened to 0; unbounded with calibration."""
        if self.calibration is not None:
            return (float("-inf"), float("inf"))
        if self.scorer is not None:
            return (0.0, 1.0)
        ranges = {"semantic": self.config.semantic.bounds, **{name: one.range for name, one in self.metrics.items()}}
        bounds = [ranges.get(name, (0.0, 1.0)) for name in self.config.features]
        low, high = (sum(column) / len(bounds) for column in zip(*bounds, strict=True))
        return (min(0.0, low), high)

    @property
    def signature(self) -> Signature:
        """Signature of the metric."""
        return rome_signature(self)

    @property
    def device(self) -> torch.device:
        """Device of the encoder, where batches must be."""
        return self.reader.metric.device

    @property
    def token_bytes(self) -> int:
        """Memory of the features of one token in bytes, including those of other metrics."""
        others = sum(one.token_bytes for one in self.metrics.values())
        return self.reader.metric.token_bytes + PARSED_BYTES + others

    @property
    def runnable_encoder(self) -> Encoder | None:
        """None: words match by a threshold, so another back-end's rounding can change a score by a whole edit."""
        return None

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Set the dtype of all encoders, in place, and clear the cache."""
        self._cache.clear()
        self.reader.metric.cast_encoder(dtype)
        if self.acceptability is not None:
            self.acceptability.classifier.metric.cast_encoder(dtype)
        for metric in self.metrics.values():
            metric.cast_encoder(dtype)

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield nothing: the encoders are frozen."""
        return iter(())

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the named parameters of scorer and calibration."""
        for name, head in (("scorer", self.scorer), ("calibration", self.calibration)):
            if head is not None:
                yield from head.named_parameters(prefix=name)

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Return texts, normalized to Unicode NFC, as token ids of the word vectors' encoder, on the CPU."""
        return self.reader.metric.tokenize([unicodedata.normalize("NFC", text) for text in texts])

    # --- texts --------------------------------------------------------------------------------------------------------

    @own_arithmetic()
    @torch.no_grad()
    def text_features(self, batch: TokenBatch) -> RomeFeatures:
        """Return word vectors, parses, and the features of other metrics.

        Raises:
            InputError: If the classifier or a metric has not been loaded.
        """
        if wanted := {**self.wanted_classifiers, **self.wanted_metrics}:
            missing = ", ".join(wanted.values())
            raise InputError(
                f"Expected RoMe's parts to be loaded, but got no {missing}: load it with `Scorer.from_pretrained` or "
                "`load_metric`."
            )
        others = {}
        with evaluating(self.reader), evaluating(self.others):  # frozen, also while the scorer is trained
            vectors, mask, texts, unknown = self.reader.read(batch)
            for name, metric in self.metrics.items():
                tokens = metric.tokenize(batch.texts)
                others[name] = metric.text_features(tokens.to(self.device)), tokens.lengths.numpy()
        return RomeFeatures(vectors, mask, texts, others, unknown)

    def join(self, references: Sequence[TextFeatures]) -> TextFeatures:
        """Raise an error: several references have no common tree."""
        raise InputError(
            "Expected multi_reference to be 'best' or 'mean' for RoMe, but its references are to be joined."
        )

    # --- pairs --------------------------------------------------------------------------------------------------------

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Score the pairs (hypothesis ``i``, reference ``i``), with the features as components.

        Args:
            hypotheses: ``B`` texts, as features or as tokens. Features of token batches are cached by pair, so that
                training a scorer encodes each pair once.
            references: ``B`` texts in the same form.

        Returns:
            Score ``[B]``, with gradients to scorer and calibration; features as components.

        Raises:
            ValueError: If the numbers of hypotheses and references differ.
            TypeError: If one side is tokens and the other features.
        """
        check_pairs(hypotheses, references)
        if isinstance(hypotheses, TokenBatch) and isinstance(references, TokenBatch):
            cached = self._cache.features(
                hypotheses, references, lambda *sides: self.pair_features(*map(self.text_features, sides))
            )
            features, flags = (tensor.to(self.device) for tensor in cached)
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
        """Return features ``[B, F]``, float32, in the order of the configuration, and flags ``[B, 2]``: empty, long."""
        acceptability = self.acceptability and partial(self._cache.acceptability, predict=self.acceptability.predict)
        return pair_features(self.config, self.idf, self.metrics, acceptability, hypotheses, references)

    def semantic(self, hypotheses: RomeFeatures, references: RomeFeatures) -> SemanticResult:
        """Return the semantic feature with alignment and flow, for plots."""
        return match_words(self.config, self.idf, hypotheses, references)

    # --- statistics ---------------------------------------------------------------------------------------------------

    @property
    def statistics(self) -> dict[str, WordIdf]:
        """The idf table as ``{"idf": table}``; empty without idf weights."""
        return {} if self.idf is None else {"idf": self.idf}

    def statistic_basis(self, name: str) -> dict[str, str]:
        """Return the signature entries that idf depends on: the parser, or without one the encoder's tokenizer."""
        entries = self.signature.entries
        return {key: entries[key] for key in ("parser",) if key in entries} or {"encoder": entries["encoder"]}

    @property
    def fits_on_call(self) -> bool:
        """Return whether the idf table is fitted on the references of each call, which a corpus fit prevents."""
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
            hypotheses: Not used: idf counts references only.
            names: Statistics to fit; ``"idf"`` is the only one.
            from_call: Whether the next call replaces the table.
            on_progress: Called with the number of texts read since its last call.

        Raises:
            InputError: If the metric has no idf table, ``names`` lacks ``"idf"``, or there are no texts.
        """
        if self.idf is None:
            raise InputError("Expected a metric with statistics to fit, but got weights='uniform': choose tf-idf.")
        if names is not None and "idf" not in names:
            raise InputError(f"Expected `names` to hold 'idf', the only statistic of RoMe, but got {list(names)}.")
        fitted = WordIdf(self.config.idf)
        for chunk in windows(texts, 512):
            fitted.add_words(self.reader.words(chunk))
            if on_progress is not None:
                on_progress(len(chunk))
        if not fitted.fitted:
            raise InputError("Expected texts to fit idf weights on, but got none.")
        fitted.from_call.fill_(from_call)
        self.idf.load_state_dict(fitted.state_dict())
        self._cache = self._cache.without_pairs()

    # --- files --------------------------------------------------------------------------------------------------------

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Return the entries for ``config.json``; nothing else is written into ``folder``."""
        scorer, entries = self.scorer, {"metric": self.config.to_dict(), "network": None}
        trained = scorer and {"network": scorer.config.to_dict(), "learned_from": scorer.origin(self.signature.entries)}
        return entries | (trained or {})

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> RomeMetric:
        """Rebuild the metric that :meth:`save_files` described; the caller loads its weights.

        Raises:
            InputError: If ``kind``, ``features`` or ``scorer`` is overridden, or encoder or parser is missing.
        """
        if fixed := [name for name in ("kind", "features", "scorer") if name in overrides]:
            raise InputError(
                f"Expected a trained metric to keep the {fixed[0]} of its training, but got `{fixed[0]}`: leave it "
                "out, or take the preset `rome`."
            )
        config = RomeConfig.from_dict(entries["metric"]).override(**overrides)
        network = entries["network"]
        learned_from = {**entries.get("learned_from", {})}
        scorer = None if network is None else FeatureScorer(ScorerConfig.from_dict(network), learned_from=learned_from)
        metric = cls(config, WordReader.from_config(config), scorer)
        metric._warn_of_changed_features()
        return metric


def _drop_external_weights(metric: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Delete weights from a state dict that are loaded from elsewhere by name."""
    for name in [one for one in state if one.removeprefix(prefix).startswith(EXTERNAL)]:
        del state[name]


def _ignore_external_weights(metric: nn.Module, keys: Any) -> None:
    """Do not report excluded weights as missing, also if the metric is a submodule of the loaded module."""
    keys.missing_keys[:] = [name for name in keys.missing_keys if not any(f".{one}" in f".{name}" for one in EXTERNAL)]


def _escape(name: str) -> str:
    """Escape a metric's name injectively as a module name, which must not contain dots."""
    return name.replace("%", "%25").replace(".", "%2E")
