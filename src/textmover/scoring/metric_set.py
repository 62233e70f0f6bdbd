"""Score the same texts with several metrics; metrics with the same token vectors share an encoder."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import Tensor

from textmover.checkpoints.hub import local_folder
from textmover.checkpoints.statistics_files import read_statistics, take_statistics, unfitted_statistics
from textmover.modules.config import MetricConfig
from textmover.modules.encoder_parts import EncoderParts, check_layers
from textmover.modules.metric_model import MetricModel
from textmover.presets import PRESETS, preset_config
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.segments import read_lines
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.engine.pair_results import unusual
from textmover.scoring.metric_field_options import FIELD, field_flag, given_fields, metric_fields
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import build_scorer, load_scorer
from textmover.types import InputError, SegmentScores

logger = logging.getLogger(__name__)

WINDOW = 2048  # segments that all metrics score before the next ones; bounds the memory for cached texts


def score_together(
    scorers: Mapping[str, Scorer],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    memory: EncoderMemory | None = None,
    on_progress: Callable[[int], None] | None = None,
    on_window: Callable[[Mapping[str, SegmentScores]], None] | None = None,
) -> dict[str, SegmentScores]:
    """Score segments with several metrics, :data:`WINDOW` segments at a time, without warnings.

    ``on_window`` gets the scores so far after each window; those of a metric are the scores of the first segments.
    """
    scorers = {name: scorer.for_call(hypotheses, references) for name, scorer in scorers.items()}
    parts: dict[str, list[SegmentScores]] = {name: [] for name in scorers}
    for start in range(0, max(1, len(hypotheses)), WINDOW):
        rows = slice(start, start + WINDOW)
        for metric, scorer in scorers.items():
            parts[metric].append(scorer.score_fitted(hypotheses[rows], references[rows], on_progress, warn=False))
            scorer.clear_cache()
            if on_window is not None:
                on_window({metric: joined_scores(part_scores) for metric, part_scores in parts.items() if part_scores})
        if memory is not None:
            memory.forget()
    return {metric: joined_scores(part_scores) for metric, part_scores in parts.items()}


def warn_of_flags(
    name: str, counts: Mapping[str, Mapping[str, int]], scorers: Mapping[str, Scorer] | None = None
) -> list[str]:
    """Log and return one warning per flag and number of flagged segments, for all metrics that share the message."""
    metrics: dict[str, list[str]] = {}
    for metric, kinds in counts.items():
        for kind, count in kinds.items():
            message = unusual(kind, count, metric=scorers[metric].metric if scorers else None)
            metrics.setdefault(message, []).append(metric)
    warnings = [f"{name}, scored with {', '.join(those)}: {message}." for message, those in metrics.items()]
    for warning in warnings:
        logger.warning("%s", warning)
    return warnings


def joined_scores(parts: Sequence[SegmentScores]) -> SegmentScores:
    """Concatenate the scores of consecutive segments."""
    values = {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values}
    flags = {
        name: np.concatenate([part.flags.get(name, np.zeros(len(part), dtype=bool)) for part in parts])
        for name in dict.fromkeys(name for part in parts for name in part.flags)
    }
    sides = (side for part in parts for side in part.signature.entries.get("compared", "").split("/") if side)
    return SegmentScores.from_values(values, parts[0].signature.beside(sides), flags)


STATES_BYTES = 1 << 30  # memory for cached hidden states

BEHIND_VECTORS = frozenset(
    {
        "matching", "centering", "hypothesis_special_tokens", "reference_special_tokens", "ngram", "weights", "idf",
        "idf_from", "temperature", "learn_temperature", "iterations", "tolerance", "value", "cost",
        "hypothesis_penalty", "reference_penalty", "measure", "order_penalty", "output", "normalize", "alpha",
        "error_norm", "same_token_loss", "score", "rescale", "multi_reference", "mode", "target_language", "fallback",
        "calibrate",
    }
)  # fmt: skip
"""Fields that affect neither the tokens nor their raw vectors; a field missing here costs time only."""


class Settings:
    """A grid over fields of the metric that the options name, validated before an encoder is loaded."""

    def __init__(self, options: argparse.Namespace, grid: Sequence[Mapping[str, Any]]) -> None:
        if options.precision == "auto":
            raise InputError(
                "Expected `--precision` to be exact, fast or int8, but got auto, which would choose for each setting "
                "again."
            )
        self.files = options.statistics or ()
        self.statistics = read_statistics(*self.files)  # once for all, as there is one progress bar for all
        self.options = argparse.Namespace(**{**vars(options), "quiet": True, "statistics": None})
        self.grid = grid
        model = options.model
        self.is_preset = model in PRESETS and not local_folder(model)
        if self.is_preset:
            self.configs = [described_config(self.options, model, fields) for fields in grid]
            for config in {vectors_key(one): one for one in self.configs if isinstance(one, MetricConfig)}.values():
                check_layers(config)
        else:
            first_config = build_scorer(self.options, **grid[0]).metric.config
            self.configs = [first_config.override(**fields) for fields in grid]


def described_config(options: argparse.Namespace, model: str, fields: Mapping[str, Any]) -> Any:
    """Return the configuration of a preset with the fields that the options set, and further ones."""
    revision = {} if options.revision is None else {"revision": options.revision}
    return preset_config(model, **{**revision, **given_fields(options), **fields})


def vectors_key(config: Any) -> tuple[tuple[str, str], ...]:
    """Return the fields that determine a metric's raw token vectors."""
    # The default layer may depend on the matching.
    irrelevant = BEHIND_VECTORS if getattr(config, "layer", None) is not None else BEHIND_VECTORS - {"matching"}
    return tuple((name, repr(value)) for name, value in asdict(config).items() if name not in irrelevant)


Fitted = dict[tuple[Any, ...], dict[str, Tensor]]  # state dicts of fitted statistics, by everything they depend on


def fit_once(scorer: Scorer, texts: Sequence[str], names: Iterable[str], fitted: Fitted) -> None:
    """Fit statistics on texts, or load those fitted for another metric if they are the same."""
    metric = scorer.metric
    for name in names:
        basis = (name, tuple(metric.statistic_basis(name).items()))
        if basis not in fitted:
            scorer.fit(texts, [name])
            fitted[basis] = {key: tensor.clone() for key, tensor in metric.statistics[name].state_dict().items()}
        metric.statistics[name].load_state_dict(fitted[basis])
        scorer.clear_cache()


def scorers(settings: Settings) -> Iterator[tuple[int, Scorer]]:
    """Yield each setting's index in the grid and its fitted scorer, grouped by shared token vectors."""
    options = settings.options
    texts = None if options.fit_on is None else read_lines(options.fit_on)
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for index, config in enumerate(settings.configs):
        groups.setdefault(vectors_key(config), []).append(index)
    for members in groups.values():
        memory = EncoderMemory(0 if options.no_cache else STATES_BYTES, evict=False)
        parts: EncoderParts | None = None
        fitted: Fitted = {}
        for index in members:
            scorer = _build(settings, index, parts)
            if isinstance(scorer.metric, MetricModel):
                if parts is None:
                    memory.join(scorer.metric, options.precision)
                    parts = scorer.metric.parts
                scorer.metric.encoder = parts.encoder
            if texts is not None:
                memory.limit //= 2  # the other half is for the texts to score
                fit_once(scorer, texts, list(scorer.metric.statistics), fitted)  # the baseline comes last
                memory.limit *= 2
            elif unfitted_statistics(scorer.metric):
                changes = {FIELD + name: value for name, value in settings.grid[index].items()}
                changes["statistics"] = settings.files
                scorer = load_scorer(argparse.Namespace(**{**vars(options), **changes}))  # names what is missing
            yield index, scorer


def _build(settings: Settings, index: int, parts: EncoderParts | None) -> Scorer:
    options = settings.options
    if not settings.is_preset or parts is None:
        scorer = build_scorer(options, **settings.grid[index])
    else:
        metric = MetricModel(settings.configs[index], parts).to(parts.encoder.device).eval()
        scorer = Scorer(metric, batch_tokens=options.batch_tokens, cache=not options.no_cache)
    with errors_with_flag_names({name: field_flag(name) for name in metric_fields()}):
        take_statistics(scorer.metric, settings.statistics)
    return scorer
