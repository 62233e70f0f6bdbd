"""Metrics of ``textmover evaluate`` and ``robustness``, loaded once with a shared encoder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from textmover.checkpoints.hub import default_metric
from textmover.meta_evaluation import MetricScores
from textmover.readers.row_streams import check_distinct
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.scoring.metric_field_options import given_fields
from textmover.scoring.scorer_from_options import AUTO, folder_limit, load_scorer, take_by_language
from textmover.types import InputError, Judgements

if TYPE_CHECKING:
    from textmover.scoring.cache.hidden_states import EncoderMemory
    from textmover.scoring.scorer import Scorer

DEFAULT_BASELINES = ("sentbleu", "chrf", "ter", "rouge-l")

MEMORY = 1 << 31  # bytes of the cache of hidden states shared by metrics that score the same segments


def shared_memory(options: argparse.Namespace, sharing: str) -> EncoderMemory:
    """Return a cache of hidden states shared by several metrics; ``sharing`` names the metrics in errors."""
    from textmover.scoring.cache.hidden_states import EncoderMemory

    if options.precision == "auto":
        raise InputError(f"Expected `--precision` to be exact, fast or int8 for {sharing}, but got auto: name one.")
    return EncoderMemory(
        0 if options.no_cache else MEMORY, folder=options.cache, folder_limit=folder_limit(options), evict=False
    )


def baseline_scores(
    judgements: Judgements, names: Sequence[str], on_progress: Callable[[int], None]
) -> Iterator[tuple[MetricScores, str]]:
    """Yield the scores of each lexical metric and the package that computes it."""
    with lexical_pool(len(judgements) * len(names)) as pool:
        for name in names:
            result = lexical_scores(name, judgements.hypotheses, judgements.references, on_progress, pool)
            rows = MetricScores(name, result.scores, LEXICAL[name].higher_is_better, str(result.signature))
            yield rows, result.signature.entries["package"]


class Metrics:
    """Models and baselines selected by the options; ``load`` fills ``scorers`` with the models' scorers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        columns = getattr(options, "metric_column", None) or ()  # `robustness` has no such option
        has_others = columns or getattr(options, "scores", None) or options.baselines is not None
        default = [] if has_others else [default_metric(given_fields(options))]
        self.models: tuple[str, ...] = tuple(options.model or default)
        baselines = options.baselines
        self.baselines = () if baselines is None else tuple(baselines) or DEFAULT_BASELINES
        check_distinct([*self.models, *self.baselines, *columns], "metric")
        self._auto: dict[str, dict[str, object]] = {}  # options of the metric selected for `auto`
        self._memory: EncoderMemory | None = None
        self.scorers: dict[str, Scorer] = {}

    def check(self, sets: Sequence[Judgements], ready: Sequence[Sequence[MetricScores]]) -> None:
        """Resolve ``auto``; check that metric names are unique in each set and that ``--against`` has scores."""
        if self._options.model is None and all(one.scores for one in sets):  # scores that the set describes
            self.models = ()
        if AUTO in self.models:
            texts = [text for one in sets for text in one.hypotheses]
            auto = argparse.Namespace(**{**vars(self._options), "model": AUTO})
            take_by_language(auto, texts, [one for each in sets for one in each.references])
            self.models = tuple(auto.model if name == AUTO else name for name in self.models)
            self._auto = {auto.model: vars(auto)}
        against = self._options.against
        for one, rows in zip(sets, ready, strict=True):
            names = [*self.models, *self.baselines, *(row.name for row in rows)]
            check_distinct(names, "metric")
            if against is not None and against not in names:
                raise InputError(
                    f"Expected `--against` to be one of {', '.join(names)} for {one.name}, but got {against!r}: choose "
                    "one of them, or add another with `--model` or `--baselines`."
                )
            if any(row.name == against and np.isnan(row.scores).all() for row in rows):
                raise InputError(
                    f"Expected `--against` to name a metric with scores for {one.name}, but got {against!r} with nan "
                    "for every text: choose another."
                )

    def load(self) -> None:
        """Load the models."""
        several = len(self.models) > 1
        if several:
            self._memory = shared_memory(self._options, "several models, which share their encoder")
        for name in self.models:
            metric_options = self._auto.get(name, vars(self._options))
            arguments = argparse.Namespace(**{**metric_options, "model": name, "quiet": True})
            self.scorers[name] = load_scorer(arguments, self._memory, one_of_several=several)

    @property
    def steps(self) -> int:
        """Number of metrics to compute."""
        return len(self.models) + len(self.baselines)

    def scores(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        """Return the scores of all metrics for a set; progress counts each segment once per metric."""
        rows = []
        if self.scorers:
            from textmover.scoring.metric_set import score_together, warn_of_flags

            texts = judgements.hypotheses, judgements.references
            results = score_together(self.scorers, *texts, self._memory, on_progress)
            warn_of_flags(judgements.name, {name: result.counts for name, result in results.items()})
            rows = [
                MetricScores(name, result.scores, self.scorers[name].metric.higher_is_better, str(result.signature))
                for name, result in results.items()
            ]
        return [*rows, *(result for result, _ in baseline_scores(judgements, self.baselines, on_progress))]
