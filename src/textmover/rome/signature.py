"""What RoMe's scores depend on, for its signature."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from textmover.rome.scorer.names import MEAN
from textmover.types import Signature

if TYPE_CHECKING:
    from textmover.rome.metric import RomeMetric

KEYS = {
    "metric", "encoder", "layer", "parser", "features", "variant", "weights", "trees", "acceptability", "scorer",
    "refs", "long", "calibration", "backend", "precision",
}  # fmt: skip
"""Entries of RoMe's own, which the folder of a metric may be called as well."""

PARTS = ("encoder", "layer", "parser", "variant", "trees", "acceptability")
"""Entries that say where values of features lie."""


def other_parts(metric: RomeMetric) -> list[str]:
    """Entries of the signature in which a metric differs from the one whose features its scorer was trained on."""
    if metric.scorer is None or not metric.scorer.learned_from:
        return []
    own = rome_signature(metric).entries
    return [name for name in PARTS if own.get(name) != metric.scorer.learned_from.get(name)]


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
        scale, offset = metric.calibration.scale.item(), metric.calibration.offset.item()
        entries["calibration"] = f"{scale:.6g}*s{offset:+.6g}"
    return Signature({**entries, "backend": "torch", "precision": metric.reader.metric.precision})
