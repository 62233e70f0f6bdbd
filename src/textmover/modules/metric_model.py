"""Transport metrics as one differentiable model: encoder, layers, centring, weights, matching, calibration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from textmover.functional import normalize_by_self, unit_vectors
from textmover.modules.base_metric import Calibration, EncoderMetric, SourceCombination, metric_signature
from textmover.modules.config import MetricConfig
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.known_encoders import is_multilingual, languages_of
from textmover.modules.encoder_parts import EncoderParts, assemble, build_layers, reassemble, save_parts
from textmover.modules.error_spans.head import ErrorHead
from textmover.modules.matching.matchings import build_matching
from textmover.modules.matching.names import COSTS
from textmover.modules.tokens.numbers import mark_numbers
from textmover.modules.tokens.soft_tokens import soft_batch, with_embeddings
from textmover.modules.tokens.statistics import Baseline, Centering, CorpusMean, IdfTable
from textmover.modules.tokens.statistics_fitting import fit_statistics, statistic_basis
from textmover.modules.tokens.text_flags import check_language
from textmover.modules.tokens.unknown_tokens import separate_unknown
from textmover.modules.tokens.weighting import Role, Side, TokenWeighting, mark_foreign, marked_foreign
from textmover.types import InputError, MatchResult, PairScores, Signature, TextFeatures, TokenBatch, TokenEmbeddings
from textmover.types.argument_checks import check_pairs
from textmover.types.tokens import token_offsets

ROUNDING = 1e-6  # values this close to the better end are those of identical texts, which thus tie in every batch


class MetricModel(EncoderMetric):
    r"""Transport metric :math:`\mathrm{Sim}(X, Y) = C(X, Y) / \sqrt{C(X, X)\,C(Y, Y)}` over encoder token vectors.

    ``forward(hypotheses, references)`` on token batches is differentiable. :meth:`text_features` and
    :meth:`pair_scores` split the same computation in two steps, so that the features of each text can be cached.

    A text without ordinary tokens matches nothing: its pairs have P = R = F = 0 and the flag ``"empty"``. With
    ``unknown_tokens="apart"``, a token outside the vocabulary has similarity 1 with a token of the same spelling and 0
    with all others; a text of only such tokens counts as empty. With ``numbers="equal"``, numbers and dates match by
    their values in the same way, in part. If a self-similarity is not positive (possible after centring), the value is
    0 and the flag ``"undefined"`` is set.

    Args:
        config: Configuration of the metric.
        parts: Encoder and tokenizer that the configuration names.

    Reference:
        Chen et al. 2020 (TWMD), Eq. 1.
    """

    config_class: ClassVar[type[MetricConfig]] = MetricConfig

    optional_parts: ClassVar[tuple[str, ...]] = (
        "calibration.",
        "centering.statistic.",
        "weighting.",
        "baseline.",
        "combination.",
        "matching.temperature.",
        "error_head.",
    )
    """Prefixes of state entries that an override may add to a checkpoint (freshly initialised) or remove."""

    def __init__(self, config: MetricConfig, parts: EncoderParts) -> None:
        super().__init__()
        self.config = config
        check_language(config.target_language)
        self.encoder, self.tokenizer = parts.encoder, parts.tokenizer
        if config.numbers == "equal":
            token_offsets(parts.tokenizer, ["a"])  # raises an error if it has none
        self.encoder_identity = parts.identity
        self.layers = build_layers(config, parts.encoder.layers)
        self.matching = build_matching(config)
        width = parts.encoder.dimension * self.layers.width_factor
        self.centering = Centering(config.centering, width)
        tokenizer, unit = parts.tokenizer, self.matching.unit_vectors
        self.weighting = TokenWeighting(
            config, tokenizer.vocabulary_size, dimension=width, unit=unit, lacking=tokenizer.lacking_id
        )
        self.baseline = Baseline() if config.rescale else None
        falling = config.matching in COSTS and config.output == "distance"
        self.calibration = Calibration(falling=falling) if config.calibrate else None
        self.error_head = ErrorHead(width) if config.mark_errors else None
        if config.reads_sources:
            self.combination = SourceCombination()
            self.check_sources()

    @classmethod
    def from_config(cls, config: MetricConfig) -> MetricModel:
        """Build the metric on a pretrained encoder, found by :func:`resolve_encoder`.

        Raises:
            InputError: If the encoder cannot be found or lacks the layer.
        """
        return cls(config, assemble(config))

    @property
    def parts(self) -> EncoderParts:
        """Encoder and tokenizer, to share with another metric that reads the same layers."""
        return EncoderParts(self.encoder, self.tokenizer, self.encoder_identity)

    @property
    def range(self) -> tuple[float, float]:
        """Nominal lowest and highest score; infinite after calibration. Rescaling applies to both ends.

        Identical texts of known tokens score the better end, unless references and hypotheses are treated differently,
        for example by an idf table for each side.
        """
        if self.calibration is not None:
            return (float("-inf"), float("inf"))
        low, high = self.on_scale(torch.tensor(self.matching.bounds, dtype=torch.float64)).tolist()
        return (low, high)

    def on_scale(self, similarities: Tensor) -> Tensor:
        """Convert similarities or distances ``[B]`` to scores: rescale and calibrate them if configured."""
        if self.baseline is not None:
            column = 2 if not self.matching.has_sides else ("recall", "precision", "f").index(self.config.score)
            similarities = self.baseline(similarities[:, None].expand(-1, 3))[:, column]
        return super().on_scale(similarities)

    @property
    def reads_sources(self) -> bool:
        """Return whether the encoder is multilingual, so that texts can be compared with their sources."""
        return is_multilingual(self.encoder)

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages of the metric's encoder; empty if unknown."""
        return languages_of(self._identity)  # training changes its hash, but not the name

    @property
    def is_relative(self) -> bool:
        """Return whether values are relative to each text's value with itself, which is then one of its features."""
        return self.config.normalize or self.matching.debiased

    @property
    def signature(self) -> Signature:
        """Signature of the scores."""
        return metric_signature(self)

    @property
    def device(self) -> torch.device:
        """Device of the encoder and of its batches."""
        return self.encoder.device

    @property
    def token_bytes(self) -> int:
        """Memory of one token's features in bytes: float32 vector, id, and kind flags."""
        return 4 * self.encoder.dimension * self.layers.width_factor + 10

    @property
    def precision(self) -> str:
        """Arithmetic of the encoder: ``exact`` for float32, ``bf16``, ``fp16``, or the value of its back-end."""
        runner = None if self.runnable_encoder is None else self.runnable_encoder.runner
        if runner is not None:
            return runner.precision
        dtype = next((parameter.dtype for parameter in self.encoder.parameters()), torch.float32)
        return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, "exact")

    @property
    def runnable_encoder(self) -> Encoder | None:
        """Encoder if another back-end can run it; ``None`` for static vectors."""
        return self.encoder if isinstance(self.encoder, Encoder) else None

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Cast the encoder in place."""
        self.encoder.to(dtype)

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the named parameters of the encoder."""
        return self.encoder.named_parameters()

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield named parameters of layer mix, token weights, temperature, calibration, combination and error head."""
        heads = (self.layers, self.weighting, self.matching, self.calibration, self.combination, self.error_head)
        for module in heads:
            if module is not None:
                yield from module.named_parameters()

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Tokenise texts into a batch on the CPU."""
        if isinstance(texts, str):
            raise InputError(f"Expected `texts` to be a list of texts, but got {texts[:40]!r}: put it in a list.")
        batch, language = self.tokenizer(texts), self.config.target_language
        batch = mark_numbers(batch, self.tokenizer) if self.config.numbers == "equal" else batch
        return batch if language is None else mark_foreign(batch, language)

    def soft_tokens(
        self, distributions: Tensor | None = None, mask: Tensor | None = None, *, inputs_embeds: Tensor | None = None
    ) -> TokenBatch:
        """Build a differentiable batch from the soft tokens of a generator; special tokens are added.

        Weights, traits and unknown tokens are those of the most likely token or of the nearest embedding.

        Args:
            distributions: Distributions over the vocabulary of :attr:`tokenizer`, ``[B, L, V]``.
            mask: True where there is a token, bool ``[B, L]``; everywhere if ``None``.
            inputs_embeds: Input embeddings of the encoder in place of distributions, ``[B, L, E]``.
        """
        return soft_batch(self, distributions, mask, inputs_embeds)

    def token_vectors(self, batch: TokenBatch) -> Tensor:
        """Return the raw token vectors ``[B, L, D]`` in at least float32, before centring and scaling."""
        vectors = self.layers(self.encoder(batch))
        return vectors if vectors.dtype == torch.float64 else vectors.float()

    def text_features(self, batch: TokenBatch) -> TokenEmbeddings | None:
        """Return token vectors ready for matching; ``None`` if centring uses the whole batch."""
        return None if self.config.centering == "batch" else self._features(self.token_vectors(batch), batch)

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Score the pairs (hypothesis ``i``, reference ``i``), with gradients.

        Args:
            hypotheses: ``B`` texts, as features or as tokens.
            references: ``B`` texts in the same form.

        Returns:
            Score, precision, recall and F ``[B]``; the last three before calibration.

        Raises:
            ValueError: If their numbers differ.
            TypeError: If one side is tokens and the other features.
        """
        if isinstance(hypotheses, TokenBatch) and isinstance(references, TokenBatch):
            hypotheses, references = self.pair_features(hypotheses, references)
        if not isinstance(hypotheses, TokenEmbeddings) or not isinstance(references, TokenEmbeddings):
            raise TypeError(
                "Expected hypotheses and references both as token batches or both as token embeddings, but got "
                f"{type(hypotheses).__name__} and {type(references).__name__}: with centering='batch' give tokens."
            )
        check_pairs(hypotheses, references)
        with torch.autocast(references.vectors.device.type, enabled=False):
            values, flags = self.pair_values(hypotheses, references)
            values = values if self.baseline is None else self.baseline(values)
            sides = dict(zip(("recall", "precision", "f"), values.unbind(dim=1), strict=True))
            told = sides if self.matching.has_sides else {}
            return PairScores(super().on_scale(sides[self.config.score]), **told, flags=flags)

    def forward(
        self, hypotheses: TokenBatch, references: TokenBatch | None = None, sources: TokenBatch | None = None
    ) -> PairScores:
        """Score hypotheses against references, sources, or if both are given what ``mode`` selects, with gradients."""
        if sources is not None and (references is None or self.combination is None or self.mode != "reference"):
            first = None if references is None or self.mode == "source" else self.pair_scores(hypotheses, references)
            return self.combined(first, self.pair_scores(hypotheses, sources))
        if references is None:
            raise InputError("Expected references, sources or both, but got neither: give one of them.")
        return self.pair_scores(hypotheses, references)

    def match(
        self, hypotheses: TokenEmbeddings, references: TokenEmbeddings, *, with_plan: bool = False
    ) -> MatchResult:
        """Match the pairs, without normalisation and calibration."""
        return self._match(*self.weighting.sides(references, hypotheses), with_plan=with_plan)

    def fit(
        self,
        texts: Iterable[str],
        hypotheses: Iterable[str] | None = None,
        *,
        names: Collection[str] | None = None,
        from_call: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Fit the statistics of the metric: corpus mean, idf tables, baseline.

        Args:
            texts: The corpus, or the references of a call, which are read once and may be an iterator.
            hypotheses: The hypotheses of a call, also read once, for an idf table of each side; if ``None``, ``texts``
                serve both sides.
            names: Statistics to fit, by the names in :attr:`statistics`; all if ``None``.
            from_call: Whether to fit only idf tables, which the next call replaces.
            on_progress: Callback with the number of texts read since its last call.

        Raises:
            InputError: If the metric has nothing to fit.
        """
        fit_statistics(self, texts, hypotheses, names=names, from_call=from_call, on_progress=on_progress)

    def join(self, references: Sequence[TextFeatures]) -> TextFeatures:
        """Join several references into one text of all their tokens, for ``multi_reference="all"``."""
        texts = [one for one in references if isinstance(one, TokenEmbeddings)]
        joined = TokenEmbeddings.concatenate(texts)
        return self._with_self_similarity(joined) if self.is_relative else joined

    @property
    def statistics(self) -> dict[str, CorpusMean | IdfTable | Baseline]:
        """Statistics of the metric's configuration, fitted or not, by their names in files."""
        statistics: dict[str, CorpusMean | IdfTable | Baseline] = {}
        if self.centering.statistic is not None:
            statistics["mean"] = self.centering.statistic
        for role in self.weighting.tables:
            statistics["idf" if role == "reference" else f"idf_{role}"] = self.weighting.table(role)
        if self.baseline is not None:
            statistics["baseline"] = self.baseline
        return statistics

    def statistic_basis(self, name: str) -> dict[str, str]:
        """Return the signature entries that a statistic depends on, apart from its texts."""
        return statistic_basis(self, name)

    @property
    def fits_on_call(self) -> bool:
        """Return whether each call fits the idf tables on its own texts, since none is fitted on a corpus."""
        return self.weighting.waits_for_call

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Write the files to rebuild encoder and tokenizer; return the entries of ``config.json``."""
        metric = {**self.config.to_dict(), **self.matching.learned_fields()}
        return {"metric": metric, "encoder": save_parts(self.parts, folder)}

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> MetricModel:
        """Rebuild the metric that :meth:`save_files` wrote, with random weights for the caller to fill.

        Raises:
            InputError: If an override requires weights that the checkpoint lacks.
        """
        saved = MetricConfig.from_dict(entries["metric"])
        learned = ("temperature",) if saved.learn_temperature and overrides.get("learn_temperature", True) else ()
        if saved.layer is None and entries["encoder"].get("layers") == [overrides.get("layer")]:  # the default layer
            overrides = {**overrides, "layer": None}
        representation = ("encoder", "revision", "layer", "aggregation", "layers", "last_layers")
        names = [name for name in ("kind", *representation, *learned) if name in overrides]
        if fixed := [name for name in names if name == "kind" or overrides[name] != getattr(saved, name)]:
            raise InputError(
                f"Expected a trained metric to keep the {fixed[0].replace('_', ' ')} of its training, but got "
                f"`{fixed[0]}`: leave it out, or take a preset, such as `twmd`."
            )
        config = saved.override(**overrides)
        return cls(config, reassemble(config, folder, entries["encoder"]))

    def pair_features(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[TokenEmbeddings, TokenEmbeddings]:
        """Compute the features of both sides in one pass through the encoder."""
        hypotheses, references = with_embeddings(self.encoder, hypotheses, references)
        joint = TokenBatch.concatenate([hypotheses, references])
        vectors = self.token_vectors(joint)
        if self.training:
            self.centering.track(vectors, joint.mask)
        features = self._features(vectors[: len(hypotheses), : hypotheses.mask.shape[1]], hypotheses)
        return features, self._features(vectors[len(hypotheses) :, : references.mask.shape[1]], references)

    def _features(self, vectors: Tensor, batch: TokenBatch) -> TokenEmbeddings:
        with torch.autocast(vectors.device.type, enabled=False):
            centred = vectors
            if self.centering.mode != "none":
                centred = self.centering(vectors, self.weighting.takes_part(batch))
            scaled = self.matching.unit_vectors and not self.weighting.pools
            masked = (unit_vectors(centred) if scaled else centred) * batch.mask[:, :, None]
            unknown = batch.unknown if self.config.unknown_tokens == "apart" else None
            shared = {"traits": batch.traits, "unknown": unknown, "numbers": batch.numbers}
            features = TokenEmbeddings(masked, batch.mask, batch.special, batch.input_ids, **shared)
            return self._with_self_similarity(features) if self.is_relative else features

    def _with_self_similarity(self, tokens: TokenEmbeddings) -> TokenEmbeddings:
        roles: tuple[Role, ...] = ("reference", "hypothesis") if self.weighting.roles_differ else ("reference",)
        separated = separate_unknown(tokens, tokens)[0]
        sides = [self.weighting(separated, role) for role in roles]
        values = [torch.stack(self._match(side, side)[:3], dim=1) for side in sides]
        return replace(tokens, self_similarity=torch.stack([values[0], values[-1]], dim=1))

    def _match(self, reference: Side, hypothesis: Side, with_plan: bool = False) -> MatchResult:
        similarity = self.weighting.similarity(reference, hypothesis)
        return self.matching(similarity, reference, hypothesis, with_plan=with_plan)

    def pair_values(self, hypotheses: TokenEmbeddings, references: TokenEmbeddings) -> tuple[Tensor, dict[str, Tensor]]:
        """Return recall, precision and F ``[B, 3]`` before rescaling and calibration, and the flags of the pairs."""
        reference, hypothesis = self.weighting.sides(references, hypotheses)
        result = self._match(reference, hypothesis)
        values = torch.stack(result[:3], dim=1)
        empty = reference.empty | hypothesis.empty
        flags = {"empty": empty}
        if self.weighting.one_language:
            foreign = marked_foreign(hypotheses)
            flags = {"empty": reference.empty | (hypothesis.empty & ~foreign), "off target": foreign}
        if self.weighting.tables:
            flags["unweighted"] = (reference.unweighted | hypothesis.unweighted) & ~empty
        if result.converged is not None:
            flags["not converged"] = ~result.converged & ~empty
        if self.is_relative:
            if references.self_similarity is None or hypotheses.self_similarity is None:
                raise ValueError("Expected features with self-similarities, but got some of another configuration.")
            own_reference, own_hypothesis = references.self_similarity[:, 0], hypotheses.self_similarity[:, 1]
            if self.matching.debiased:
                values = self.matching.report(values - (own_reference + own_hypothesis) / 2)
            else:
                values, defined = normalize_by_self(values, own_reference, own_hypothesis)
                flags["undefined"] = ~defined.all(dim=1) & ~empty
        best = self.matching.bounds[self.config.higher_is_better]
        values = values + (best - values).where((values - best).abs() <= ROUNDING, 0.0).detach()
        return torch.where(empty[:, None], self.matching.nothing, values), flags
