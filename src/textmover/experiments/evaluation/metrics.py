"""Metrics that ``textmover evaluate`` and ``robustness`` compute, loaded once and sharing their encoder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from textmover.checkpoints.hub import default_metric
from textmover.meta_evaluation import MetricScores
from textmover.readers.row_streams import check_distinct
from textmover.scoring.config_flags import given_fields
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.scoring.scorer_from_options import AUTO, folder_limit, load_scorer, take_by_language
from textmover.types import InputError, Judgements

if TYPE_CHECKING:
    from textmover.scoring.cache.hidden_states import EncoderMemory
    from textmover.scoring.scorer import Scorer

DEFAULT_BASELINES = ("sentbleu", "chrf", "ter", "rouge-l")

MEMORY = 1 << 31  # bytes of hidden states that metrics may share while they score the same segments


def shared_memory(options: argparse.Namespace, sharing: str) -> EncoderMemory:
    """The memory of hidden states for several metrics, which ``sharing`` names in an error."""
    from textmover.scoring.cache.hidden_states import EncoderMemory

    if options.precision == "auto":
        raise InputError(f"Expected `--precision` to be exact, fast or int8 for {sharing}, but got auto: name one.")
    return EncoderMemory(
        0 if options.no_cache else MEMORY, folder=options.cache, folder_limit=folder_limit(options), evict=False
    )


def baseline_scores(
    judgements: Judgements, names: Sequence[str], on_progress: Callable[[int], None]
) -> Iterator[tuple[MetricScores, str]]:
    """Scores of metrics of surface overlap, and the package that computes each."""
    with lexical_pool(len(judgements) * len(names)) as pool:
        for name in names:
            found = lexical_scores(name, judgements.hypotheses, judgements.references, on_progress, pool)
            rows = MetricScores(name, found.scores, LEXICAL[name].higher_is_better, str(found.signature))
            yield rows, found.signature.entries["package"]


class Metrics:
    """The metrics that the options name: models, whose scorers are there once they are loaded, and baselines."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        columns = getattr(options, "metric_column", None) or ()  # `robustness` has no existing scores
        others = columns or getattr(options, "scores", None) or options.baselines is not None
        usual = [] if others else [default_metric(given_fields(options))]
        self.models: tuple[str, ...] = tuple(options.model or usual)
        given = options.baselines
        self.baselines = () if given is None else tuple(given) or DEFAULT_BASELINES
        check_distinct([*self.models, *self.baselines, *columns], "metric")
        self._auto: dict[str, dict[str, object]] = {}  # options of the metric that `auto` stands for
        self._memory: EncoderMemory | None = None
        self.scorers: dict[str, Scorer] = {}

    def check(self, sets: Sequence[Judgements], ready: Sequence[Sequence[MetricScores]]) -> None:
        """Make sure before the work that every set has each metric once, and the one that others are compared with."""
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
            own = self._auto.get(name, vars(self._options))
            one = argparse.Namespace(**{**own, "model": name, "quiet": True})
            self.scorers[name] = load_scorer(one, self._memory, one_of_several=several)

    @property
    def steps(self) -> int:
        """Number of metrics to compute."""
        return len(self.models) + len(self.baselines)

    def scores(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        """The scores of all metrics for a set; progress is counted in segments, summed over the metrics."""
        rows = []
        if self.scorers:
            from textmover.scoring.metric_set import score_together, tell_unusual

            texts = judgements.hypotheses, judgements.references
            found = score_together(self.scorers, *texts, self._memory, on_progress)
            tell_unusual(judgements.name, {name: one.counts for name, one in found.items()})
            rows = [
                MetricScores(name, one.scores, self.scorers[name].metric.higher_is_better, str(one.signature))
                for name, one in found.items()
            ]
        return [*rows, *(one for one, _ in baseline_scores(judgements, self.baselines, on_progress))]
