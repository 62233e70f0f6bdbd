"""Several metrics over the same texts, each text encoded once; settings that read texts alike share an encoder."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from textmover.checkpoints.statistics_files import unfitted_statistics
from textmover.modules.assembly import Parts, check_layers
from textmover.modules.config import MetricConfig
from textmover.modules.metric_model import MetricModel
from textmover.presets import PRESETS, preset_config
from textmover.readers.segments import read_lines
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.config_options import FIELD, given_fields
from textmover.scoring.engine.pair_table import unusual
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_options import build_scorer, load_scorer
from textmover.types import InputError, SegmentScores

logger = logging.getLogger(__name__)

WINDOW = 2048  # segments that all metrics score before the next ones: bounds what is kept of their texts


def score_together(
    scorers: Mapping[str, Scorer],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    memory: EncoderMemory | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, SegmentScores]:
    """Score the same segments with several metrics, :data:`WINDOW` segments at a time; it warns of nothing."""
    scorers = {name: scorer.for_call(hypotheses, references) for name, scorer in scorers.items()}
    parts: dict[str, list[SegmentScores]] = {name: [] for name in scorers}
    for start in range(0, max(1, len(hypotheses)), WINDOW):
        rows = slice(start, start + WINDOW)
        for metric, scorer in scorers.items():
            parts[metric].append(scorer.score_fitted(hypotheses[rows], references[rows], on_progress, warn=False))
            scorer.clear_cache()
        if memory is not None:
            memory.forget()
    return {metric: joined_scores(found) for metric, found in parts.items()}


def tell_unusual(name: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Warn of the segments of a set that were out of the ordinary, once for all metrics of which that is true."""
    metrics: dict[tuple[str, int], list[str]] = {}
    for metric, kinds in counts.items():
        for kind, number in kinds.items():
            metrics.setdefault((kind, number), []).append(metric)
    for (kind, number), named in metrics.items():
        logger.warning("%s, scored with %s: %s.", name, ", ".join(named), unusual(kind, number))


def joined_scores(parts: Sequence[SegmentScores]) -> SegmentScores:
    """Scores of consecutive segments as one."""
    values = {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values}
    names = dict.fromkeys(name for part in parts for name in part.flags)
    none = [np.zeros(len(part), dtype=bool) for part in parts]
    flags = {
        name: np.concatenate([part.flags.get(name, clear) for part, clear in zip(parts, none, strict=True)])
        for name in names
    }
    sides = (side for part in parts for side in part.signature.entries.get("compared", "").split("/") if side)
    return SegmentScores.from_values(values, parts[0].signature.beside(sides), flags)


STATES_BYTES = 1 << 30  # memory that remembered hidden states may take

BEHIND_VECTORS = frozenset(
    {
        "matching", "centering", "hypothesis_special_tokens", "reference_special_tokens", "ngram", "weights", "idf",
        "idf_from", "temperature", "learn_temperature", "iterations", "tolerance", "value", "cost",
        "hypothesis_penalty", "reference_penalty", "measure", "order_penalty", "output", "normalize", "alpha", "score",
        "rescale", "multi_reference", "mode", "fallback", "calibrate",
    }
)  # fmt: skip
"""Fields that neither the tokens of a text nor their raw vectors depend on. A field that is missing here costs time."""


class Settings:
    """A grid over the fields of the metric that the options name, checked before any encoder is loaded."""

    def __init__(self, options: argparse.Namespace, grid: Sequence[Mapping[str, Any]]) -> None:
        if options.precision == "auto":
            raise InputError(
                "Expected `--precision` to be exact, fast or int8, but got auto, which would choose for each setting "
                "again."
            )
        self.options = argparse.Namespace(**{**vars(options), "quiet": True})  # a bar for all, none for each
        self.grid = grid
        model = options.model
        self.is_preset = model in PRESETS and not Path(model).expanduser().is_dir()
        if self.is_preset:
            self.configs = [described_config(self.options, model, one) for one in grid]
            for config in {vectors_key(one): one for one in self.configs if isinstance(one, MetricConfig)}.values():
                check_layers(config)
        else:
            first = build_scorer(self.options, **grid[0]).metric.config
            self.configs = [first.override(**one) for one in grid]


def described_config(options: argparse.Namespace, model: str, fields: Mapping[str, Any]) -> Any:
    """The configuration of a preset with the fields that the options set, and further ones."""
    revision = {} if options.revision is None else {"revision": options.revision}
    return preset_config(model, **{**revision, **given_fields(options), **fields})


def vectors_key(config: Any) -> tuple[tuple[str, str], ...]:
    """The fields that the raw token vectors of a metric depend on."""
    # Without a layer, which one is taken may depend on the matching.
    behind = BEHIND_VECTORS if getattr(config, "layer", None) is not None else BEHIND_VECTORS - {"matching"}
    return tuple((name, repr(value)) for name, value in asdict(config).items() if name not in behind)


Fitted = dict[tuple[Any, ...], dict[str, Tensor]]  # states of fitted statistics by what they depend on


def fit_once(scorer: Scorer, texts: Sequence[str], names: Iterable[str], fitted: Fitted) -> None:
    """Fit statistics on texts, or take what was fitted for another metric for which they have the same values."""
    metric = scorer.metric
    for name in names:
        basis = (name, tuple(metric.statistic_basis(name).items()))
        if basis not in fitted:
            scorer.fit(texts, [name])
            fitted[basis] = {key: one.clone() for key, one in metric.statistics[name].state_dict().items()}
        metric.statistics[name].load_state_dict(fitted[basis])
        scorer.clear_cache()


def scorers(settings: Settings) -> Iterator[tuple[int, Scorer]]:
    """The scorer of each setting, ready to score, with its place in the grid; group by group."""
    options = settings.options
    texts = None if options.fit_on is None else read_lines(options.fit_on)
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for index, config in enumerate(settings.configs):
        alike.setdefault(vectors_key(config), []).append(index)
    for members in alike.values():
        memory = EncoderMemory(0 if options.no_cache else STATES_BYTES, evict=False)
        parts: Parts | None = None
        fitted: Fitted = {}
        for index in members:
            scorer = _build(settings, index, parts)
            if isinstance(scorer.metric, MetricModel):
                if parts is None:
                    memory.join(scorer.metric, options.precision)
                    parts = scorer.metric.parts
                scorer.metric.encoder = parts.encoder
            if texts is not None:
                memory.limit //= 2  # the other half is for the texts that every setting scores
                fit_once(scorer, texts, list(scorer.metric.statistics), fitted)  # the baseline last
                memory.limit *= 2
            elif unfitted_statistics(scorer.metric):
                changes = {FIELD + name: value for name, value in settings.grid[index].items()}
                scorer = load_scorer(argparse.Namespace(**{**vars(options), **changes}))  # says what is lacking
            yield index, scorer


def _build(settings: Settings, index: int, parts: Parts | None) -> Scorer:
    options = settings.options
    if not settings.is_preset or parts is None:
        return build_scorer(options, **settings.grid[index])
    metric = MetricModel(settings.configs[index], parts).to(parts.encoder.device).eval()
    scorer = Scorer(metric, batch_tokens=options.batch_tokens, cache=not options.no_cache)
    return scorer.load_statistics(*(options.statistics or ()))
