"""Base of the project's metrics: calibration head, combination of references and sources, and score signature."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from textmover.functional._arguments import widest_float
from textmover.modules.config import MetricConfig
from textmover.modules.devices import evaluating, weights_version
from textmover.modules.encoder.encoder_identity import base_of, identity_of, tensors_sha256, weights_fingerprint
from textmover.types import InputError, PairScores, Signature, TokenBatch

if TYPE_CHECKING:
    from textmover.modules.encoder.encoder import Encoder
    from textmover.modules.encoder.static_vectors import StaticEncoder, TokenTable
    from textmover.modules.metric_model import MetricModel


class Calibration(nn.Module):
    r"""Affine map :math:`\hat y = \alpha s + \beta` with learned scale and offset; in its output higher is better."""

    def __init__(self, *, falling: bool = False) -> None:
        super().__init__()
        self.sign = -1.0 if falling else 1.0
        self.scale = nn.Parameter(torch.tensor(self.sign))
        self.offset = nn.Parameter(torch.zeros(()))

    def signature_entries(self) -> dict[str, str]:
        """Return the entry for the signature."""
        return {"calibration": f"{self.scale.item():.6g}*s{self.offset.item():+.6g}"}

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores ``[B]`` to the human scale."""
        return self.scale * scores + self.offset

    @torch.no_grad()
    def fit(self, scores: Tensor, ratings: Tensor) -> None:
        """Fit scores to ratings ``[n]`` by least squares; constant scores get a slope of 1 (or -1).

        A slope of the wrong sign is also replaced by 1 (or -1), since calibration must not reverse the ranking.
        """
        x, y = scores.double(), ratings.double()
        spread = (x - x.mean()).square().sum()
        slope = ((x - x.mean()) * (y - y.mean())).sum() / spread if spread > 0 else torch.zeros(())
        slope = slope if slope * self.sign > 0 else torch.tensor(self.sign)
        self.scale.copy_(slope)
        self.offset.copy_(y.mean() - slope * x.mean())


class SourceCombination(nn.Module):
    r"""Learned combination of scores against references and source: :math:`(1 - w)\,C(s_r) + w\,C(\alpha s_s + \beta)`.

    :math:`C` maps similarities to scores. It is affine, so the combination holds with and without rescaling and
    calibration.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.zeros(()))
        self.source = Calibration()

    def signature_entries(self, mode: str) -> dict[str, str]:
        """Return the entry for the signature."""
        scaled = self.source.signature_entries()["calibration"]
        return {"source": f"{self.logit.sigmoid().item():.4g}*({scaled})" if mode == "both" else scaled}

    def forward(self, references: Tensor, sources: Tensor, ends: Tensor | None = None) -> Tensor:
        """Combine values ``[B]``; if one is NaN (missing), return the other.

        ``ends`` are the scores of the similarities 0 and 1, ``[2]``; without them the source scores are not scaled.
        """
        absent, alone = references.isnan(), sources.isnan()
        first, second = references.nan_to_num(), sources.nan_to_num()
        second = second if ends is None else self.scaled(second, ends)
        weight = self.logit.sigmoid()
        return torch.where(absent, second, torch.where(alone, first, (1 - weight) * first + weight * second))

    def scaled(self, scores: Tensor, ends: Tensor) -> Tensor:
        """Map scores against sources ``[B]`` to the scale of scores against references."""
        zero, one = ends
        return self.source.scale * (scores - zero) + (one - zero) * self.source.offset + zero

    @torch.no_grad()
    def fit(self, references: Tensor, sources: Tensor, ratings: Tensor, ends: Tensor) -> None:
        """Fit scores ``[n]`` (NaN if missing) by least squares: first the scale of source scores, then the weight."""
        references, sources, ratings, ends = (one.to(self.logit) for one in (references, sources, ratings, ends))
        present = ~sources.isnan()
        similarities, targets = ((one[present] - ends[0]) / (ends[1] - ends[0]) for one in (sources, ratings))
        self.source.fit(similarities, targets)
        both = present & ~references.isnan()
        gap = self.scaled(sources, ends) - references
        if bool(both.any()) and bool((gap[both] != 0).any()):
            weight = ((ratings - references) * gap)[both].sum() / gap[both].square().sum()
            self.logit.copy_(weight.clamp(0.05, 0.95).logit())


class ConfiguredMetric(nn.Module):
    """Base of metrics with a configuration, a calibration head and a combination with sources."""

    config: Any
    calibration: Calibration | None
    combination: SourceCombination | None

    def __init__(self) -> None:
        super().__init__()
        self.combination = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ConfiguredMetric:
        """Convert float64 tensors to float32 on devices without float64."""

        def moved(tensor: Tensor) -> Tensor:
            wide = tensor.dtype == torch.float64
            return fn(tensor.to(widest_float(fn(torch.empty(0)).device)) if wide else tensor)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def higher_is_better(self) -> bool:
        """False for distances; after calibration higher is always better."""
        return self.config.higher_is_better

    @property
    def multi_reference(self) -> str:
        """Rule that combines the values against several references."""
        return self.config.multi_reference

    @property
    def mode(self) -> str:
        """Text that hypotheses are compared with: ``reference``, ``source`` or ``both``."""
        return getattr(self.config, "mode", "reference")

    @property
    def fallback(self) -> bool:
        """Return whether the source replaces missing references, and references a missing source."""
        return getattr(self.config, "fallback", False)

    @property
    def target_language(self) -> str | None:
        """Code of the only language in which hypotheses count, if one is set."""
        return getattr(self.config, "target_language", None)

    @property
    def reads_sources(self) -> bool:
        """Return whether the metric can compare texts with their sources."""
        return False

    @property
    def needs_fit(self) -> bool:
        """Return whether a statistic is not fitted yet."""
        metric: Any = self
        return not all(one.fitted for one in metric.statistics.values())

    def on_scale(self, similarities: Tensor) -> Tensor:
        """Convert similarities or distances ``[B]`` to scores."""
        return similarities if self.calibration is None else self.calibration(similarities)

    @property
    def ends(self) -> Tensor:
        """Scores of the similarities 0 and 1, ``[2]``."""
        return self.on_scale(torch.tensor([0.0, 1.0], device=getattr(self, "device", None)))

    def combine(self, references: Tensor, sources: Tensor, name: str = "score") -> Tensor:
        """Combine values of segments ``[B]`` against references and sources; NaN marks a missing one."""
        if self.combination is None:
            return references
        return self.combination(references, sources, self.ends if name == "score" else None)

    def combined(self, references: PairScores | None, sources: PairScores) -> PairScores:
        """Combine the scores of hypotheses against references, if any, with those against sources."""
        self.check_sources()
        missing = torch.full_like(sources.score, torch.nan)
        values: dict[str, Any] = {}
        for name in ("score", "precision", "recall", "f"):
            value, reference = getattr(sources, name), missing if references is None else getattr(references, name)
            values[name] = None if value is None else self.combine(reference, value, name)
        flags = {} if references is None else references.flags
        marked = {name: one | flags[name] if name in flags else one for name, one in sources.flags.items()}
        return PairScores(**values, flags=marked)

    def check_sources(self) -> None:
        """Raise an :class:`InputError` unless the metric compares with sources."""
        if not self.reads_sources:
            raise InputError(
                "Expected a metric that reads sources, but got one with the encoder "
                f"{re.split('[+@]', str(getattr(self, 'encoder_identity', None)))[0]}: take textmover-multilingual "
                "(--model textmover-multilingual), or another multilingual encoder."
            )
        if self.combination is None:
            raise InputError(
                "Expected a metric that reads sources, but this one compares with references alone: set `mode` to "
                "source or both, or `fallback` to true."
            )

    @torch.no_grad()
    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Fit scale and offset to ratings ``[n]`` of ``n`` pairs, given as token batches, by least squares.

        Raises:
            InputError: If the metric has no calibration head.
        """
        metric: Any = self
        head = metric.calibration
        if head is None:
            raise InputError("Expected a metric with calibrate=True to fit a scale, but got one without a head.")
        with evaluating(self):
            metric.calibration = None
            try:
                scores = [metric.pair_scores(*(side.to(metric.device) for side in pair)).score for pair in pairs]
            finally:
                metric.calibration = head
        head.fit(torch.cat(scores).cpu(), ratings.cpu())


class EncoderMetric(ConfiguredMetric):
    """Base of metrics with an encoder, whose weights the signature identifies."""

    encoder: Encoder | StaticEncoder | TokenTable

    @property
    def encoder_identity(self) -> str:
        """Name and hash of the encoder for the signature, with a hash of its weights if they were trained."""
        if weights_version(self.encoder) != self._identified:
            weights = weights_fingerprint(self.encoder.state_dict())
            self.encoder_identity = identity_of(self._identity, base_of(self.encoder), weights)
        return self._identity

    @encoder_identity.setter
    def encoder_identity(self, identity: str) -> None:
        self._identity, self._identified = identity, weights_version(self.encoder)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_identity": self.encoder_identity}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.encoder_identity = state["_identity"]  # versions of copied weights restart at 0


def metric_signature(metric: MetricModel) -> Signature:
    """Build the signature of a metric's scores."""
    config, limit = metric.config, metric.tokenizer.max_length
    entries = {"metric": config.matching, "encoder": metric.encoder_identity}
    entries |= metric.layers.signature_entries() | metric.matching.signature_entries() | _token_entries(metric)
    entries["centering"] = config.centering
    if metric.centering.statistic is not None:
        entries["centering"] += f"@{metric.centering.statistic.fingerprint}"
    entries |= {"weights": _weights_entry(metric), "normalized": "yes" if config.normalize else "no"}
    entries["score"] = config.score
    if metric.baseline is not None:
        entries["rescaled"] = "/".join(f"{value:.6g}" for value in metric.baseline.values.tolist())
    entries |= {"refs": config.multi_reference, "long": f"{config.long_texts}{'' if limit is None else limit}"}
    if metric.combination is not None:
        entries |= {"mode": f"{config.mode}{'+fallback' if config.fallback else ''}"}
        entries |= metric.combination.signature_entries(config.mode)
    if config.target_language is not None:
        entries["target"] = config.target_language
    if metric.calibration is not None:
        entries |= metric.calibration.signature_entries()
    if metric.runnable_encoder is not None:
        runner = metric.runnable_encoder.runner
        entries["backend"] = "torch" if runner is None else runner.name
    return Signature({**entries, "precision": metric.precision})


def _token_entries(metric: MetricModel) -> dict[str, str]:
    """Return the entries about token selection that differ from the default."""
    config = metric.config
    entries: dict[str, str] = {"special": config.reference_special_tokens}
    if config.hypothesis_special_tokens != config.reference_special_tokens:
        entries["special"] = f"{config.hypothesis_special_tokens}/{config.reference_special_tokens}"
    for name in ("subwords", "punctuation", "ngram", "unknown_tokens", "numbers"):
        if getattr(config, name) != getattr(MetricConfig, name):
            entries[name] = str(getattr(config, name))
    if config.stop_words != MetricConfig.stop_words:
        entries["stopwords"] = ",".join(config.stop_words.split())
    if metric.encoder.whole_words:
        entries["unknown"] = config.unknown_words
    return entries


def _weights_entry(metric: MetricModel) -> str:
    if metric.weighting.importance is not None:
        return f"learned@{tensors_sha256(metric.weighting.importance.state_dict())[:8]}"
    if not metric.weighting.tables:
        return metric.config.weights
    prints = "/".join(metric.weighting.table(role).fingerprint for role in metric.weighting.tables)
    formula = f"{metric.config.weights}-{metric.config.idf}"
    return f"{formula}:{metric.config.idf_from if metric.weighting.waits_for_call else 'corpus'}@{prints}"
