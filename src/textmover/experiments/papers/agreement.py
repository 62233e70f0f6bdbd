"""Agreement that the tables and figures of an experiment ask for, and why there is none where there is none."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from textmover.experiments.papers.config import Experiment
from textmover.experiments.papers.scores import Scored
from textmover.experiments.papers.specification import Column, FigureSpec, TableSpec
from textmover.meta_evaluation import Evaluation, MetricScores, Protocol, evaluate, people
from textmover.report.evaluation.wording import STATISTIC_NAMES, file_remarks, remarks
from textmover.types import InputError, Judgements


class Question(NamedTuple):
    """An agreement to compute, whatever the metrics and groups.

    Attributes:
        set: Name of the set.
        dimension: Of its ratings; ``None`` where it has one alone, or preferences.
        statistic: Of agreement.
        level: What it is computed over.

    Example:
        >>> str(Question("SFHOTEL", "quality", "spearman", "per-group"))
        "SFHOTEL, quality, Spearman's ρ"
    """

    set: str
    dimension: str | None
    statistic: str
    level: str

    @classmethod
    def of(cls, column: Column, level: str) -> Question:
        """Return the question of a column."""
        return cls(column.set, column.dimension, column.statistic, level)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.set, self.dimension, STATISTIC_NAMES[self.statistic])))


def questions(experiment: Experiment, sets: Collection[str]) -> list[Question]:
    """Questions of tables and figures about the given sets, each once.

    Args:
        experiment: The experiment.
        sets: Their names.
    """
    specs: list[TableSpec | FigureSpec] = [*experiment.tables, *experiment.figures]
    asked = (Question.of(column, spec.level) for spec in specs for column in spec.columns if column.set in sets)
    return list(dict.fromkeys(asked))


def check_sets(experiment: Experiment, sets: Mapping[str, Judgements]) -> None:
    """Make sure before the work that the sets have what tables and figures are about.

    Args:
        experiment: The experiment.
        sets: The sets that were given.
    """
    for one in questions(experiment, sets):
        judgements = sets[one.set]
        Protocol(one.statistic, one.level).check(judgements)
        if one.dimension is not None and one.dimension not in judgements.ratings:
            raise InputError(
                f"Expected the dimensions that {experiment.origin} names for {judgements.name} to be among "
                f"{', '.join(judgements.ratings) or 'none'}, but got {one.dimension!r}: correct it."
            )


def unanswerable(
    experiment: Experiment, sets: Mapping[str, Judgements], options: argparse.Namespace
) -> dict[Question, str]:
    """Questions that have no answer whatever the scores are, such as those about ratings that are all equal.

    Args:
        experiment: The experiment.
        sets: The sets that were given.
        options: The command's options.
    """
    asked = questions(experiment, sets)
    found: dict[Question, str] = {}
    for one in asked:
        judgements = sets[one.set]
        try:
            _evaluated(one, judgements, [people(judgements, one.dimension)], options, samples=0)
        except InputError as error:
            found[one] = str(error)
    if asked and len(found) == len(asked):
        raise InputError(f"{asked[0]}: {found[asked[0]]}")
    return found


class Agreements:
    """Agreement of what was scored, computed once for each question.

    Args:
        sets: The sets that were read.
        scored: For each of them that could be scored the scores of its metrics.
        hopeless: Questions that have no answer, and why.
        options: Samples, permutations and seed.
    """

    def __init__(
        self,
        sets: Mapping[str, Judgements],
        scored: Mapping[str, Mapping[str, Scored]],
        hopeless: Mapping[Question, str],
        options: argparse.Namespace,
    ) -> None:
        self._sets, self._scored, self._hopeless, self._options = sets, scored, hopeless, options
        self._known: dict[tuple[Question, tuple[str, ...]], Evaluation | InputError | None] = {}

    def evaluation(self, asked: Question, names: tuple[str, ...]) -> Evaluation | None:
        """Agreement of those of the metrics that were scored; nothing where it cannot be computed."""
        found = self._found(asked, names)
        return found if isinstance(found, Evaluation) else None

    def reason(self, asked: Question, names: tuple[str, ...]) -> str | None:
        """Why agreement on a set that was read cannot be computed; nothing where it can."""
        if asked in self._hopeless:
            return self._hopeless[asked]
        found = self._found(asked, names)
        return str(found) if isinstance(found, InputError) else None

    def count(self, column: Column, level: str, names: tuple[str, ...], *, whole: bool) -> int | None:
        """Number of segments (preferences for DARR) behind a column, or behind all its groups if ``whole``."""
        found = self.evaluation(Question.of(column, level), names)
        if found is None:
            return None
        if column.statistic == "darr":
            one = self._sets[column.set]
            better = [] if one.preferences is None else one.preferences[:, 0].tolist()
            return sum(whole or column.group == one.groups[row] for row in better)
        return found.n if whole else found.groups.get(column.group)

    def remarks(self, asked: Sequence[Question], names: tuple[str, ...]) -> list[str]:
        """Remarks of the evaluations; those of some sets alone name set and dimension."""
        said: dict[str, dict[tuple[str, str | None], None]] = {}
        answered: dict[str, dict[str | None, None]] = {}
        for one in asked:
            found = self.evaluation(one, names)
            if found is not None:
                answered.setdefault(one.set, {})[one.dimension] = None
                for sentence in remarks(found, file_remarks(self._sets[one.set])):
                    said.setdefault(sentence, {})[one.set, one.dimension] = None
        everyone = {(name, dimension) for name, dimensions in answered.items() for dimension in dimensions}
        lines = []
        for sentence, speakers in said.items():
            if set(speakers) == everyone:
                lines.append(sentence)
                continue
            for name in dict.fromkeys(name for name, _ in speakers):
                own = [dimension for other, dimension in speakers if other == name]
                parts = [name] if len(answered) > 1 else []
                if len(own) < len(answered[name]):
                    parts += [str(dimension) for dimension in own]
                lines.append(f"{', '.join(parts)}: {sentence}")
        return lines

    def _found(self, asked: Question, names: tuple[str, ...]) -> Evaluation | InputError | None:
        key = (asked, names)
        if key not in self._known:
            scored = self._scored.get(asked.set, {})
            metrics = [scored[name].scores for name in names if name in scored]
            self._known[key] = None
            if metrics and asked not in self._hopeless:
                try:
                    self._known[key] = _evaluated(
                        asked, self._sets[asked.set], metrics, self._options, samples=self._options.samples
                    )
                except InputError as error:  # told under the table, and at the end of the command
                    self._known[key] = error
        return self._known[key]


def _evaluated(
    asked: Question,
    judgements: Judgements,
    metrics: Sequence[MetricScores],
    options: argparse.Namespace,
    *,
    samples: int,
) -> Evaluation:
    """Agreement without tests between metrics; soft accuracy alone is made of permutations."""
    return evaluate(
        judgements,
        metrics,
        Protocol(asked.statistic, asked.level),
        dimension=asked.dimension,
        samples=samples,
        permutations=options.permutations if asked.statistic == "soft-accuracy" else 0,
        seed=options.seed,
    )
