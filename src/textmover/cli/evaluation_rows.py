"""The rows of ``textmover evaluate``: metrics that are computed, and scores that were computed elsewhere."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from textmover.cli.options import load_scorer
from textmover.data.judgements import read_scores
from textmover.data.tables import is_table
from textmover.meta_evaluation import MetricScores
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.types import InputError, Judgements

if TYPE_CHECKING:
    from textmover.scoring.encoder_memory import EncoderMemory
    from textmover.scoring.scorer import Scorer

__all__ = ["Metrics", "ModelRow", "add_row_options"]

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "twmd"

DEFAULT_BASELINES = ("sentbleu", "chrf", "ter", "rouge-l")

MEMORY = 1 << 31
"""Bytes of hidden states that metrics may share while they score the same segments."""

READY = "scores of a file"
"""The signature of scores that were computed elsewhere begins with it."""


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name metrics beside ``--model``."""
    parser.add_argument(
        "--baselines",
        nargs="*",
        choices=tuple(LEXICAL),
        metavar="NAME",
        help=f"also metrics of surface overlap ({', '.join(LEXICAL)}); {', '.join(DEFAULT_BASELINES)} if none is named",
    )
    parser.add_argument(
        "--scores",
        action="append",
        metavar="[NAME=]FILE",
        help="also scores that were computed elsewhere: one number a line in the order of the data, or a table with a "
        "column for each metric (NAME,NAME=FILE takes these columns) and the columns item, system and group where "
        "its rows are in another order; repeat it for several",
    )
    parser.add_argument(
        "--metric-column",
        action="append",
        metavar="COLUMN",
        help="also scores that stand in a column of the data itself; repeat it for several",
    )
    parser.add_argument(
        "--lower-is-better",
        action="append",
        metavar="NAME",
        help="of the scores of --scores and --metric-column those that are distances or errors; repeat it for several",
    )


@dataclass(frozen=True)
class ModelRow:
    """A model and what tables call it.

    Attributes:
        name: What tables call it.
        model: Preset, checkpoint folder or hub id.
        fields: Fields of its configuration that are changed.
    """

    name: str
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)


class Metrics:
    """The metrics that the options name, loaded once for all sets.

    Args:
        options: The command's options.
        models: The models, where they are not those of the options.

    Attributes:
        models: The models among them.
        baselines: Those of surface overlap.
        scorers: The models' scorers, once they are loaded.

    Raises:
        InputError: If two have the same name.
    """

    def __init__(self, options: argparse.Namespace, models: Sequence[ModelRow] = ()) -> None:
        self._options = options
        others = options.scores or options.metric_column or options.baselines is not None
        named = options.model or ([] if others or models else [DEFAULT_MODEL])
        self.models = (*models, *(ModelRow(name, name) for name in named))
        given = options.baselines
        self.baselines = () if given is None else tuple(given) or DEFAULT_BASELINES
        _check_distinct([*(one.name for one in self.models), *self.baselines, *(options.metric_column or ())])
        self._memory: EncoderMemory | None = None
        self.scorers: dict[str, Scorer] = {}

    def load(self) -> None:
        """Load the models; those that read the same encoder share it.

        Raises:
            InputError: If one cannot be loaded, or lacks statistics that the options do not give.
        """
        if not self.models:
            return
        from textmover.scoring.encoder_memory import EncoderMemory

        options = self._options
        if len(self.models) > 1 and options.precision == "auto":
            raise InputError(
                "Expected `--precision` to be exact, fast or int8 for several models, which share their encoder, but "
                "got auto: name one."
            )
        if len(self.models) > 1:
            self._memory = EncoderMemory(0 if options.no_cache else MEMORY, folder=options.cache, evict=False)
        several = len(self.models) > 1
        for row in self.models:
            one = argparse.Namespace(**{**vars(options), "model": row.model, "quiet": True})
            self.scorers[row.name] = load_scorer(one, self._memory, one_of_several=several, **row.fields)

    @property
    def steps(self) -> int:
        """How many metrics have to be computed."""
        return len(self.models) + len(self.baselines)

    def scores(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        """The scores of all metrics for a set.

        Args:
            judgements: The set.
            on_progress: Called with the number of segments that have been finished since the last call, summed over
                the metrics that are computed.

        Raises:
            InputError: If a metric refuses a text, or scores of a file do not belong to the set.
        """
        ready = self._ready(judgements)  # a file that does not fit is told before the work
        rows = [*self._computed(judgements, on_progress), *self._overlaps(judgements, on_progress), *ready]
        _check_distinct([row.name for row in rows])
        return rows

    def _computed(self, judgements: Judgements, on_progress: Callable[[int], None]) -> list[MetricScores]:
        if not self.scorers:
            return []
        from textmover.scoring.together import score_together

        hypotheses, references = judgements.hypotheses, judgements.references
        found = score_together(self.scorers, hypotheses, references, self._memory, on_progress)
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

    def _ready(self, judgements: Judgements) -> list[MetricScores]:
        found: dict[str, tuple[np.ndarray, str]] = {
            name: (values, f"{READY}:data") for name, values in judgements.scores.items()
        }
        for given in self._options.scores or ():
            names, _, path = given.rpartition("=")
            for name, values in _file_scores(names, path, judgements).items():
                if name in found:
                    raise InputError(f"Expected each metric once, but got {name!r} twice: give one another name.")
                found[name] = (values, f"{READY}:{path}")
        falling = set(self._options.lower_is_better or ())
        unknown = falling - set(found)
        if unknown:
            raise InputError(
                f"Expected `--lower-is-better` to name scores of --scores or --metric-column, but got "
                f"{', '.join(sorted(unknown))}: they are {', '.join(found) or 'none'}."
            )
        return [MetricScores(name, values, name not in falling, said) for name, (values, said) in found.items()]


def _file_scores(names: str, path: str, judgements: Judgements) -> Mapping[str, np.ndarray]:
    """Scores of a file by metric; what stands before ``=`` are columns of a table, or the name of a plain file."""
    if is_table(path):
        columns = [name.strip() for name in names.split(",")] if names else None
        ready = read_scores(path, judgements, metrics=columns)
    else:
        ready = read_scores(path, judgements, name=names or None)
    for name, number in ready.missing.items():
        if number:
            logger.warning("%s: %s has no score (nan) for %d of %d segments.", path, name, number, len(judgements))
    return ready.scores


def _check_distinct(names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Expected each metric once, but got {twice!r} twice: leave the repetition out.")
