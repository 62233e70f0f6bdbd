"""The metrics that ``textmover evaluate`` computes: models, which share their encoder, and surface overlap."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from textmover.checkpoints.released import default_metric
from textmover.experiments.evaluation.given_scores import add_ready_options
from textmover.meta_evaluation import MetricScores
from textmover.scoring.field_flags import given_fields
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.scoring.scorer_options import folder_limit, load_scorer
from textmover.types import InputError, Judgements

if TYPE_CHECKING:
    from textmover.scoring.cache.hidden_states import EncoderMemory
    from textmover.scoring.scorer import Scorer

logger = logging.getLogger(__name__)

DEFAULT_BASELINES = ("sentbleu", "chrf", "ter", "rouge-l")

MEMORY = 1 << 31
"""Bytes of hidden states that metrics may share while they score the same segments."""


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name metrics beside ``--model``."""
    add_baselines_option(parser)
    add_ready_options(parser)


def add_baselines_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names metrics of surface overlap."""
    parser.add_argument(
        "--baselines",
        nargs="*",
        choices=tuple(LEXICAL),
        metavar="NAME",
        help=f"also metrics of surface overlap ({', '.join(LEXICAL)}); {', '.join(DEFAULT_BASELINES)} if none is named",
    )


class Metrics:
    """The metrics that the options name, loaded once for all sets.

    Args:
        options: The command's options.

    Attributes:
        models: The models among them.
        baselines: Those of surface overlap.
        scorers: The models' scorers, once they are loaded.

    Raises:
        InputError: If two have the same name.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        others = options.scores or options.metric_column or options.baselines is not None
        usual = [] if others else [default_metric(given_fields(options))]
        self.models: tuple[str, ...] = tuple(options.model or usual)
        given = options.baselines
        self.baselines = () if given is None else tuple(given) or DEFAULT_BASELINES
        _check_distinct([*self.models, *self.baselines, *(options.metric_column or ())])
        self._memory: EncoderMemory | None = None
        self.scorers: dict[str, Scorer] = {}

    def check(self, sets: Sequence[Judgements], ready: Sequence[Sequence[MetricScores]]) -> None:
        """Make sure before the work that every set has each metric once, and the one that others are compared with.

        Args:
            sets: The sets.
            ready: For each, the scores that are there already.

        Raises:
            InputError: If that is not so.
        """
        for one, rows in zip(sets, ready, strict=True):
            names = [*self.models, *self.baselines, *(row.name for row in rows)]
            _check_distinct(names)
            against = self._options.against
            if against is None:
                continue
            if against not in names:
                raise InputError(
                    f"Expected `--against` to be one of {', '.join(names)} for {one.name}, but got {against!r}: choose "
                    "one of them."
                )
            if any(row.name == against and np.isnan(row.scores).all() for row in rows):
                raise InputError(
                    f"Expected `--against` to name a metric with scores for {one.name}, but got {against!r} with nan "
                    "for every text: choose another."
                )

    def load(self) -> None:
        """Load the models.

        Raises:
            InputError: If one cannot be loaded, or lacks statistics.
        """
        if not self.models:
            return
        from textmover.scoring.cache.hidden_states import EncoderMemory

        options, several = self._options, len(self.models) > 1
        if several and options.precision == "auto":
            raise InputError(
                "Expected `--precision` to be exact, fast or int8 for several models, which share their encoder, but "
                "got auto: name one."
            )
        if several:
            self._memory = EncoderMemory(
                0 if options.no_cache else MEMORY, folder=options.cache, folder_limit=folder_limit(options), evict=False
            )
        for name in self.models:
            one = argparse.Namespace(**{**vars(options), "model": name, "quiet": True})
            self.scorers[name] = load_scorer(one, self._memory, one_of_several=several)

    @property
    def steps(self) -> int:
        """How many metrics have to be computed."""
        return len(self.models) + len(self.baselines)

    def scores(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        """The scores of all metrics for a set.

        Args:
            judgements: The set.
            on_progress: Called with the number of segments that have been finished since the last call, summed over
                the metrics.

        Raises:
            InputError: If a metric refuses a text.
        """
        return [*self._computed(judgements, on_progress), *self._overlaps(judgements, on_progress)]

    def _computed(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        if not self.scorers:
            return []
        from textmover.scoring.metric_set import score_together, tell_unusual

        hypotheses, references = judgements.hypotheses, judgements.references
        found = score_together(self.scorers, hypotheses, references, self._memory, on_progress)
        tell_unusual(judgements.name, {name: one.counts for name, one in found.items()})
        return [
            MetricScores(name, one.scores, self.scorers[name].metric.higher_is_better, str(one.signature))
            for name, one in found.items()
        ]

    def _overlaps(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        rows = []
        with lexical_pool(len(judgements) * len(self.baselines)) as pool:
            for name in self.baselines:
                found = lexical_scores(name, judgements.hypotheses, judgements.references, on_progress, pool)
                rows.append(MetricScores(name, found.scores, LEXICAL[name].higher_is_better, str(found.signature)))
        return rows


def _check_distinct(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Expected each metric once, but got {twice!r} twice: leave the repetition out.")
