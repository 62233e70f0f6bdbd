"""Signatures of transport metrics: all that their scores depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.modules.config import MetricConfig
from textmover.types import Signature

if TYPE_CHECKING:
    from textmover.modules.metric_model import MetricModel


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
    if metric.calibration is not None:
        entries |= metric.calibration.signature_entries()
    runner = None if metric.runnable_encoder is None else metric.runnable_encoder.runner
    if metric.runnable_encoder is not None:
        entries["backend"] = "torch" if runner is None else runner.name
    return Signature({**entries, "precision": metric.precision})


def _token_entries(metric: MetricModel) -> dict[str, str]:
    """Entries about the tokens that take part, unless they are the default."""
    config = metric.config
    entries: dict[str, str] = {"special": config.reference_special_tokens}
    if config.hypothesis_special_tokens != config.reference_special_tokens:
        entries["special"] = f"{config.hypothesis_special_tokens}/{config.reference_special_tokens}"
    default = MetricConfig  # its defaults
    for name in ("subwords", "punctuation", "ngram", "unknown_tokens"):
        if getattr(config, name) != getattr(default, name):
            entries[name] = str(getattr(config, name))
    if config.stop_words != default.stop_words:
        entries["stopwords"] = ",".join(config.stop_words.split())
    if metric.encoder.whole_words:
        entries["unknown"] = config.unknown_words
    return entries


def _weights_entry(metric: MetricModel) -> str:
    if not metric.weighting.tables:
        return metric.config.weights
    prints = "/".join(metric.weighting.table(role).fingerprint for role in metric.weighting.tables)
    formula = f"{metric.config.weights}-{metric.config.idf}"
    return f"{formula}:{metric.config.idf_from if metric.weighting.waits_for_call else 'corpus'}@{prints}"
