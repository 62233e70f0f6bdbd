"""The transport family as one differentiable model: encoder, layers, centring, weights, matching, calibration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from textmover.functional import normalize_by_self, pairwise_similarity, unit_vectors
from textmover.modules.calibration import Calibration
from textmover.modules.centering import Centering
from textmover.modules.config import MetricConfig
from textmover.modules.encoder import Encoder, default_layer, plain_errors, position_limit
from textmover.modules.encoder_source import resolve_encoder
from textmover.modules.layers import SingleLayer
from textmover.modules.matching import Side, build_matching
from textmover.modules.statistics import CorpusMean
from textmover.modules.tokenizer import Tokenizer
from textmover.modules.weighting import Role, TokenWeighting
from textmover.types import InputError, MatchResult, PairScores, Signature, TextFeatures, TokenBatch, TokenEmbeddings

__all__ = ["MetricModel"]

ENCODER_FOLDER = "encoder"
"""Folder of a checkpoint that holds the encoder's configuration and its tokenizer."""


class MetricModel(nn.Module):
    r"""A transport metric: :math:`\mathrm{Sim}(X, Y) = C(X, Y) / \sqrt{C(X, X)\,C(Y, Y)}` over encoder token vectors.

    ``forward(hypotheses, references)`` on token batches is the differentiable door; :meth:`text_features` and
    :meth:`pair_scores` are the same computation in two steps, of which the first can be kept per text.

    A text without ordinary tokens matches nothing: its pairs have P = R = F = 0 and the flag ``"empty"``. Where a
    self-similarity is not positive (possible after centring) the value is 0 and the flag ``"undefined"`` is set.

    Args:
        config: What the metric is made of.
        encoder: The encoder, giving the one layer that the metric reads.
        tokenizer: The encoder's tokenizer.
        encoder_identity: Name and hash of the encoder for the signature.

    Reference:
        Chen et al. 2020 (TWMD), Eq. 1.
    """

    config_class: ClassVar[type[MetricConfig]] = MetricConfig

    optional_parts: ClassVar[tuple[str, ...]] = ("calibration.", "centering.statistic.", "matching.log_temperature")
    """Parts of the state that an override may add to a checkpoint, to start afresh, or leave out."""

    def __init__(self, config: MetricConfig, encoder: Encoder, tokenizer: Tokenizer, encoder_identity: str) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.encoder_identity = encoder_identity
        self.layers = SingleLayer(encoder.layers[0])
        self.centering = Centering(config.centering, encoder.dimension)
        self.weighting = TokenWeighting(config.reference_special_tokens, config.hypothesis_special_tokens)
        self.matching = build_matching(config)
        self.calibration = Calibration() if config.calibrate else None

    @classmethod
    def from_config(cls, config: MetricConfig) -> MetricModel:
        """The metric on a pretrained encoder, found where :func:`resolve_encoder` looks.

        Raises:
            InputError: If the encoder cannot be found or has no such layer.
        """
        from transformers import AutoConfig

        source = resolve_encoder(config.encoder, config.revision)
        with plain_errors(source.folder):
            encoder_config = AutoConfig.from_pretrained(str(source.folder))
        layer = _layer(config, encoder_config.num_hidden_layers)
        encoder = Encoder.from_source(
            source, encoder_config, (layer,), getattr(torch, config.dtype), config.freeze_layers
        )
        tokenizer = _tokenizer(config, source.folder, encoder_config)
        identity = f"{config.encoder.rstrip('/').rsplit('/', 1)[-1]}@{source.sha256[:8]}"
        return cls(config, encoder, tokenizer, identity)

    @property
    def higher_is_better(self) -> bool:
        """All metrics of this class are similarities."""
        return True

    @property
    def multi_reference(self) -> str:
        """How the values against several references become one."""
        return self.config.multi_reference

    @property
    def range(self) -> tuple[float, float]:
        """Nominal range of the score; unbounded behind a calibration head.

        Identical texts score its upper end, to the rounding of float32.
        """
        if self.calibration is not None:
            return (float("-inf"), float("inf"))
        return (0.0 if self.config.matching == "wordset-cka" else -1.0, 1.0)

    @property
    def signature(self) -> Signature:
        """What the scores depend on."""
        config = self.config
        entries = {"metric": config.matching, "encoder": self.encoder_identity, "layer": str(self.encoder.layers[0])}
        entries |= self.matching.signature_entries()
        entries["special"] = config.reference_special_tokens
        if self.weighting.roles_differ:
            entries["special"] = f"{config.hypothesis_special_tokens}/{config.reference_special_tokens}"
        entries["centering"] = config.centering
        if self.centering.statistic is not None:
            entries["centering"] += f"@{self.centering.statistic.fingerprint}"
        entries |= {"weights": config.weights, "normalized": "yes" if config.normalize else "no", "score": config.score}
        entries |= {"refs": config.multi_reference, "long": f"{config.long_texts}{self.tokenizer.max_length}"}
        if self.calibration is not None:
            scale, offset = _number(self.calibration.scale), _number(self.calibration.offset)
            entries["calibration"] = f"{scale:.6g}*s{offset:+.6g}"
        return Signature({**entries, "precision": self.precision})

    @property
    def device(self) -> torch.device:
        """Where the encoder is, and batches have to be."""
        return self.encoder.device

    @property
    def precision(self) -> str:
        """Arithmetic of the encoder by the type of its weights: ``exact`` for float32, ``bf16`` or ``fp16``."""
        return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(next(self.encoder.parameters()).dtype, "exact")

    def cast_encoder(self, dtype: torch.dtype) -> None:
        """Set the arithmetic of the encoder, in place."""
        self.encoder.to(dtype)

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Named parameters of the encoder."""
        return self.encoder.named_parameters()

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Named parameters of temperature and calibration."""
        yield from self.matching.named_parameters()
        if self.calibration is not None:
            yield from self.calibration.named_parameters()

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Texts as token ids, on the CPU."""
        return self.tokenizer(texts)

    def token_vectors(self, batch: TokenBatch) -> Tensor:
        """Raw token vectors ``[B, L, D]`` in at least float32, before centring and scaling."""
        vectors = self.layers(self.encoder(batch))
        return vectors if vectors.dtype == torch.float64 else vectors.float()

    def text_features(self, batch: TokenBatch) -> TokenEmbeddings | None:
        """Token vectors ready for matching; ``None`` where the centring looks at the whole batch."""
        if self.config.centering == "batch":
            return None
        return self._features(self.token_vectors(batch), batch)

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Scores of the pairs (hypothesis ``i``, reference ``i``), with gradients.

        Args:
            hypotheses: ``B`` texts, as features or as tokens.
            references: As many, in the same form.

        Returns:
            Score, precision, recall and F ``[B]``; the last three before calibration.

        Raises:
            ValueError: If their numbers differ.
            TypeError: If one side is tokens and the other features.
        """
        if len(hypotheses) != len(references):
            raise ValueError(
                f"Expected as many hypotheses as references, but got {len(hypotheses)} and {len(references)}."
            )
        if isinstance(hypotheses, TokenBatch) and isinstance(references, TokenBatch):
            hypotheses, references = self._pair_features(hypotheses, references)
        if not isinstance(hypotheses, TokenEmbeddings) or not isinstance(references, TokenEmbeddings):
            raise TypeError(
                "Expected hypotheses and references both as token batches or both as token embeddings, but got "
                f"{type(hypotheses).__name__} and {type(references).__name__}."
            )
        with torch.autocast(references.vectors.device.type, enabled=False):
            return self._scores(hypotheses, references)

    forward = pair_scores

    def match(
        self, hypotheses: TokenEmbeddings, references: TokenEmbeddings, *, with_plan: bool = False
    ) -> MatchResult:
        """The bare matching of the pairs, before normalisation and calibration."""
        return self._match(references, "reference", hypotheses, "hypothesis", with_plan=with_plan)

    @torch.no_grad()
    def fit(self, batches: Iterable[TokenBatch]) -> None:
        """Fit the corpus mean on token batches (which are moved to the encoder's device).

        Raises:
            InputError: If the metric has nothing to fit.
        """
        statistic = self.centering.statistic
        if statistic is None:
            raise InputError(
                f"Expected a metric with centering='corpus' to fit, but got centering={self.config.centering!r}."
            )
        fitted = CorpusMean(self.encoder.dimension).to(statistic.mean)
        with self._evaluating():
            for batch in batches:
                moved = batch.to(self.device)
                fitted.add(self.token_vectors(moved), moved.mask)
        statistic.load_state_dict(fitted.state_dict())

    @torch.no_grad()
    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Fit scale and offset to ratings ``[n]`` by least squares, given the ``n`` pairs as token batches.

        Raises:
            InputError: If the metric has no calibration head.
        """
        head = self.calibration
        if head is None:
            raise InputError("Expected a metric with calibrate=True to fit a scale, but got one without a head.")
        with self._evaluating():
            self.calibration = None
            try:
                scores = [self.pair_scores(*(side.to(self.device) for side in pair)).score for pair in pairs]
            finally:
                self.calibration = head
        head.fit(torch.cat(scores).cpu(), ratings.cpu())

    @property
    def needs_fit(self) -> bool:
        """Whether a statistic is missing that scoring needs."""
        return self.centering.statistic is not None and not self.centering.statistic.fitted

    def save_files(self, folder: Path) -> dict[str, Any]:
        """Write the encoder's configuration and tokenizer into ``folder``; returns what ``config.json`` has to keep."""
        target = folder / ENCODER_FOLDER
        target.mkdir()
        self.encoder.model.config.save_pretrained(str(target))
        self.tokenizer.save(target)
        return {
            "metric": {**self.config.to_dict(), **self.matching.learned_fields()},
            "encoder": {
                "identity": self.encoder_identity,
                "depth": self.encoder.depth,
                "layers": list(self.encoder.layers),
            },
        }

    @classmethod
    def load_files(cls, folder: Path, entries: Mapping[str, Any], overrides: Mapping[str, Any]) -> MetricModel:
        """The metric that :meth:`save_files` described, with random weights that the caller fills.

        Raises:
            InputError: If an override would need other weights than the checkpoint has.
        """
        from transformers import AutoConfig

        saved = MetricConfig.from_dict(entries["metric"])
        learned = ("temperature",) if saved.learn_temperature and overrides.get("learn_temperature", True) else ()
        fixed = [name for name in ("kind", "encoder", "revision", "layer", *learned) if name in overrides]
        if fixed:
            raise InputError(
                f"Expected overrides that leave a checkpoint's weights as they are, but got `{fixed[0]}`: "
                "start from a preset to change it."
            )
        config = saved.override(**overrides)
        encoder_folder = folder / ENCODER_FOLDER
        with plain_errors(encoder_folder):
            encoder_config = AutoConfig.from_pretrained(str(encoder_folder))
        stated = entries["encoder"]
        encoder = Encoder.from_config(encoder_config, stated["depth"], stated["layers"], config.freeze_layers)
        encoder.to(getattr(torch, config.dtype))
        tokenizer = _tokenizer(config, encoder_folder, encoder_config)
        return cls(config, encoder, tokenizer, stated["identity"])

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Evaluation mode inside, the earlier mode of every module afterwards."""
        training = [module for module in self.modules() if module.training]
        self.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True

    def _pair_features(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[TokenEmbeddings, TokenEmbeddings]:
        """Features of both sides from one pass through the encoder."""
        joint = TokenBatch.concatenate([hypotheses, references])
        vectors = self.token_vectors(joint)
        if self.training:
            self.centering.track(vectors, joint.mask)
        sides = []
        for rows, batch in ((slice(None, len(hypotheses)), hypotheses), (slice(len(hypotheses), None), references)):
            sides.append(self._features(vectors[rows, : batch.mask.shape[1]], batch))
        return sides[0], sides[1]

    def _features(self, vectors: Tensor, batch: TokenBatch) -> TokenEmbeddings:
        with torch.autocast(vectors.device.type, enabled=False):
            units = unit_vectors(self.centering(vectors, batch.mask)) * batch.mask[:, :, None]
            tokens = TokenEmbeddings(units, batch.mask, batch.special, batch.input_ids)
            if not self.config.normalize:
                return tokens
            roles: tuple[Role, ...] = ("reference", "hypothesis") if self.weighting.roles_differ else ("reference",)
            values = [torch.stack(self._match(tokens, role, tokens, role)[:3], dim=1) for role in roles]
            own = torch.stack([values[0], values[-1]], dim=1)
            return TokenEmbeddings(units, batch.mask, batch.special, batch.input_ids, own)

    def _match(
        self,
        rows: TokenEmbeddings,
        row_role: Role,
        columns: TokenEmbeddings,
        column_role: Role,
        with_plan: bool = False,
    ) -> MatchResult:
        return self.matching(
            pairwise_similarity(rows.vectors, columns.vectors),
            Side(*self.weighting(rows, row_role)),
            Side(*self.weighting(columns, column_role)),
            with_plan=with_plan,
        )

    def _scores(self, hypotheses: TokenEmbeddings, references: TokenEmbeddings) -> PairScores:
        result = self.match(hypotheses, references)
        values = torch.stack(result[:3], dim=1)
        empty = self.weighting.is_empty(hypotheses) | self.weighting.is_empty(references)
        flags = {"empty": empty}
        if result.converged is not None:
            flags["not converged"] = ~result.converged & ~empty
        if self.config.normalize:
            if references.self_similarity is None or hypotheses.self_similarity is None:
                raise ValueError("Expected features with self-similarities, but got some of another configuration.")
            own_reference, own_hypothesis = references.self_similarity[:, 0], hypotheses.self_similarity[:, 1]
            values, defined = normalize_by_self(values, own_reference, own_hypothesis)
            flags["undefined"] = ~defined.all(dim=1) & ~empty
        recall, precision, f = torch.where(empty[:, None], 0.0, values).unbind(dim=1)
        score = {"recall": recall, "precision": precision, "f": f}[self.config.score]
        score = score if self.calibration is None else self.calibration(score)
        if not self.matching.has_sides:
            return PairScores(score, flags=flags)
        return PairScores(score, precision, recall, f, flags=flags)


def _number(value: Tensor | float) -> float:
    return value.detach().item() if isinstance(value, Tensor) else value


def _layer(config: MetricConfig, depth: int) -> int:
    """The layer that a configuration asks for, counted from 0, the embeddings."""
    layer = default_layer(config.encoder, config.matching, depth) if config.layer is None else config.layer
    if not -depth - 1 <= layer <= depth:
        raise InputError(
            f"Expected `layer` to be between 0 and {depth} (or negative, from the end) for {config.encoder}, "
            f"but got {layer}."
        )
    return layer + depth + 1 if layer < 0 else layer


def _tokenizer(config: MetricConfig, folder: Path, encoder_config: Any) -> Tokenizer:
    limit = position_limit(encoder_config)
    if config.max_length is not None and config.max_length > limit:
        raise InputError(f"Expected `max_length` to be at most {limit} for this encoder, but got {config.max_length}.")
    with plain_errors(folder):
        return Tokenizer(folder, encoder_config.model_type, config.max_length or limit, config.long_texts)
