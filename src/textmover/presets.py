"""Presets: named metric configurations such as ``twmd``, and the metric classes by kind."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from textmover.lazy import Loaded
from textmover.modules.config import MetricConfig
from textmover.rome.config import RomeConfig
from textmover.types import InputError, SegmentMetric, check_choice

__all__ = ["KINDS", "PRESETS", "Preset", "build_metric", "measured", "preset_config"]

KINDS: Mapping[str, type[SegmentMetric]] = Loaded(
    {"transport": "textmover.modules.metric_model.MetricModel", "rome": "textmover.rome.metric.RomeMetric"}
)
"""Metric classes by the ``kind`` of their configuration."""


@dataclass(frozen=True)
class Preset:
    """A named configuration with its description.

    Attributes:
        config: The configuration; its ``kind`` determines its class.
        formula: One-line formula.
        source: Publication.
    """

    config: Any
    formula: str
    source: str

    @property
    def higher_is_better(self) -> bool:
        """False for distances."""
        return self.config.higher_is_better


_CHEN = "Chen et al. 2020 (TWMD)"
_ZHANG = "Zhang et al. 2020 (BERTScore)"
_ZHAO = "Zhao et al. 2019 (MoverScore)"
_LAZY = "Chen et al. 2020 (Lazy-EMD)"
_KUSNER = "Kusner et al. 2015 (WMD)"

_TARGETS: dict[str, Any] = {
    "hypothesis_special_tokens": "targets",
    "reference_special_tokens": "targets",
    "normalize": False,
}
_GREEDY: dict[str, Any] = {"matching": "bertscore", **_TARGETS}
_IDF: dict[str, Any] = {"weights": "idf", "idf_from": "references"}
_MOVER_TOKENS: dict[str, Any] = {
    "hypothesis_special_tokens": "keep",
    "reference_special_tokens": "keep",
    "subwords": "first",
    "punctuation": "drop",
    "weights": "idf",
    "idf_from": "sides",
    "normalize": False,
}
_MOVER: dict[str, Any] = {"matching": "emd", "cost": "squared-euclidean", "aggregation": "power-means", **_MOVER_TOKENS}
_HMD: dict[str, Any] = {"matching": "bertscore", **_MOVER_TOKENS}
_DROP: dict[str, Any] = {"hypothesis_special_tokens": "drop", "reference_special_tokens": "drop", "normalize": False}


def _lazy(hypothesis: float, reference: float) -> MetricConfig:
    return MetricConfig(
        matching="lazy-emd",
        hypothesis_penalty=hypothesis,
        reference_penalty=reference,
        temperature=0.009,
        tolerance=1e-6,
        output="distance",
        **_DROP,
    )


_LAZY_FORMULA = "<C,P> of min <C,P> + lc KL(P'1|b) + lr KL(P1|a) - eps H(P)"

PRESETS: dict[str, Preset] = {
    "sbert": Preset(MetricConfig(matching="sbert"), "mean of S over all pairs, normalised", _CHEN),
    "sbert-pooled": Preset(
        MetricConfig(matching="sbert-pooled", hypothesis_special_tokens="keep", reference_special_tokens="keep"),
        "cosine of the mean token vectors",
        "Reimers and Gurevych 2019 (SBERT)",
    ),
    "wordset-cka": Preset(
        MetricConfig(matching="wordset-cka", centering="dimension"),
        "mean of S squared over all pairs, normalised",
        "Zhelezniak et al. 2019 (CKA)",
    ),
    "bertscore-p": Preset(MetricConfig(**_GREEDY, score="precision"), "P = sum_j b_j max_i S", _ZHANG),
    "bertscore-r": Preset(MetricConfig(**_GREEDY, score="recall"), "R = sum_i a_i max_j S", _ZHANG),
    "bertscore-f1": Preset(MetricConfig(**_GREEDY), "F1 = 2PR/(P+R)", _ZHANG),
    "bertscore-p-idf": Preset(MetricConfig(**_GREEDY, **_IDF, score="precision"), "P with idf weights", _ZHANG),
    "bertscore-r-idf": Preset(MetricConfig(**_GREEDY, **_IDF, score="recall"), "R with idf weights", _ZHANG),
    "bertscore-f1-idf": Preset(MetricConfig(**_GREEDY, **_IDF), "F1 with idf weights", _ZHANG),
    "yisi-1": Preset(
        MetricConfig(**_GREEDY, **_IDF, idf="plus-one", alpha=0.7),
        "F_alpha = PR/(alpha P + (1-alpha) R), alpha .7, idf log(1 + (n+1)/(df+1))",
        "Lo 2019 (YiSi)",
    ),
    "f-alpha": Preset(MetricConfig(**_GREEDY, alpha=0.48), "F_alpha, alpha .48", _LAZY),
    "rwmd": Preset(MetricConfig(**_GREEDY, score="recall"), "sum_i a_i max_j S, transport with one side free", _KUSNER),
    "wmd": Preset(MetricConfig(matching="emd", normalize=False), "max <P,S> with marginals a, b (1 - EMD)", _KUSNER),
    "moverscore-wmd1": Preset(MetricConfig(**_MOVER), "1 - EMD, cost |x-y|^2, power means of 5 layers, idf", _ZHAO),
    "moverscore-wmd2": Preset(MetricConfig(**_MOVER, ngram=2), "moverscore-wmd1 over bigrams", _ZHAO),
    "moverscore-smd": Preset(
        MetricConfig(**_MOVER, ngram="sentence"), "1 - |x-y|^2 of the idf-weighted sentence vectors", _ZHAO
    ),
    "moverscore-v2": Preset(
        MetricConfig(matching="emd", cost="euclidean", output="inverse", layer=-1, **_MOVER_TOKENS),
        "1/(1 + EMD), cost |x-y|, last layer, idf",
        f"{_ZHAO}, the authors' second version",
    ),
    "hmd-p": Preset(MetricConfig(**_HMD, score="precision"), "P over MoverScore's tokens and weights", _ZHAO),
    "hmd-r": Preset(MetricConfig(**_HMD, score="recall"), "R over MoverScore's tokens and weights", _ZHAO),
    "hmd-f1": Preset(MetricConfig(**_HMD), "F1 over MoverScore's tokens and weights", _ZHAO),
    "lazy-emd-en": Preset(_lazy(0.23, 0.31), f"{_LAZY_FORMULA}, (lc, lr) = (.23, .31)", _LAZY),
    "lazy-emd-zh": Preset(_lazy(0.018, 0.97), f"{_LAZY_FORMULA}, (lc, lr) = (.018, .97)", _LAZY),
    "lazy-emd-other": Preset(_lazy(0.009, 0.95), f"{_LAZY_FORMULA}, (lc, lr) = (.009, .95)", _LAZY),
    "twmd": Preset(MetricConfig(), "max <P,S> + T H(P), one Sinkhorn iteration, F, normalised", _CHEN),
    "twmd-b": Preset(
        MetricConfig(temperature=0.1, centering="corpus"), "twmd over centred vectors, F, normalised", _CHEN
    ),
    "trwmd": Preset(MetricConfig(matching="trwmd"), "sum_i a_i sum_j softmax_j(S/T) S, F, normalised", _CHEN),
    "trwmd-b": Preset(
        MetricConfig(matching="trwmd", temperature=0.15, centering="corpus"),
        "trwmd over centred vectors, F, normalised",
        _CHEN,
    ),
    "sinkhorn-divergence": Preset(
        MetricConfig(
            matching="sinkhorn-divergence", temperature=0.1, tolerance=1e-6, normalize=False, output="distance"
        ),
        "OT(x,y) - OT(x,x)/2 - OT(y,y)/2, OT entropic with eps .1",
        "Feydy et al. 2019",
    ),
    "rome": Preset(
        RomeConfig(scorer="rome"),
        "network over 1 - EMD of aligned words, 1 - TED of trees / most, P(acceptable)",
        "Rony et al. 2022 (RoMe)",
    ),
}
"""All presets by name. Their encoder is the embedded one; every field can be overridden."""


def preset_config(name: str, **overrides: Any) -> Any:
    """Return the configuration of a preset, with the given fields changed.

    Raises:
        InputError: If the preset or a field is unknown; the message suggests the most similar one.

    Example:
        >>> preset_config("twmd", temperature=0.05).temperature
        0.05
    """
    if name not in PRESETS:
        raise unknown_metric(name)
    return PRESETS[name].config.override(**overrides)


def unknown_metric(name: str, released: Sequence[str] = (), hint: str = "") -> InputError:
    """Build the error for an unknown metric: it suggests a similar preset or ``released`` metric, or gives ``hint``."""
    plain = re.sub(r"bert-?score", "bertscore", name.lower().replace("_", "-"))
    names = [*released, *PRESETS]
    families = {name[: dash.start()] for name in names for dash in re.finditer("-", name)}.difference(names)
    similar = difflib.get_close_matches(plain, [*names, *sorted(families)], n=1, cutoff=0.9 if hint else 0.7)
    if similar and similar[0] in families:
        members = [name for name in names if name.startswith(f"{similar[0]}-")]
        similar = sorted(members, key=lambda name: not name.endswith(("-f1", "-general")))
    hint = hint or f"For an encoder, score with `--model twmd --encoder {name or 'NAME'}`, in Python `encoder=`."
    hint = f"Did you mean {similar[0]!r}?" if similar else hint
    return InputError(
        f"Expected a checkpoint folder, a hub name, a released metric or a preset, but got {name!r}. {hint} "
        "`textmover list` shows all names."
    )


def build_metric(config: Any) -> Any:
    """Build the metric of a configuration, with its pretrained encoder.

    Args:
        config: A configuration object, or a mapping with its ``kind`` and fields.

    Returns:
        A :class:`~textmover.types.SegmentMetric` that is a torch module.

    Raises:
        InputError: If the kind or a field is unknown, or the encoder cannot be found.
    """
    kind = config.get("kind", "transport") if isinstance(config, Mapping) else config.kind
    check_choice("kind", kind, KINDS)
    metric_class = KINDS[kind]
    if isinstance(config, Mapping):
        config = metric_class.config_class.from_dict(config)
    return metric_class.from_config(config)


@cache
def measured() -> Mapping[str, Mapping[str, float]]:
    """Return the agreement and speed of each metric as measured by ``benchmarks/frontier.py``.

    Agreement is the mean Pearson correlation with human ratings on six test sets; speed is on two cores in float32.

    Example:
        >>> sorted(measured()["textmover-static"])
        ['agreement', 'pairs_per_second']
    """
    with Path(__file__).with_name("presets.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = {"agreement": "agreement", "pairs_per_second": "pairs/s, exact, 2 cores"}
    return {row["metric"]: {name: float(row[column]) for name, column in columns.items()} for row in rows}
