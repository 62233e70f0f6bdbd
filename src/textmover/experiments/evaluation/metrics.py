"""Metrics of ``textmover evaluate`` and ``robustness``, loaded once with a shared encoder, and their scores so far."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from textmover.checkpoints.hub import AUTO, default_metric
from textmover.experiments.evaluation.sets import write_scores
from textmover.meta_evaluation import MetricScores
from textmover.readers.row_streams import check_distinct
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.scoring.metric_field_options import given_fields
from textmover.scoring.metric_set import score_together, warn_of_flags
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import folder_limit, load_scorer, take_by_language
from textmover.types import InputError, Judgements, SegmentScores

DEFAULT_BASELINES = ("sentbleu", "chrf", "ter", "rouge-l")

OnScores = Callable[[Sequence[MetricScores]], None]
"""Function that gets all scores so far, NaN for the others."""

MEMORY = 1 << 31  # bytes of the cache of hidden states shared by metrics that score the same segments


def shared_memory(options: argparse.Namespace, sharing: str) -> EncoderMemory:
    """Return a cache of hidden states shared by several metrics; ``sharing`` names the metrics in errors."""
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
        self.warnings: dict[str, list[str]] = {}  # sentences about unusual texts, by set

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

    def scores(self, judgements: Judgements, on_progress: Callable[[int], None], take: OnScores) -> list[MetricScores]:
        """Return the scores of all metrics for a set; progress counts each segment once per metric."""
        rows: dict[str, MetricScores] = {}

        def on_window(results: Mapping[str, SegmentScores]) -> None:
            for name, result in results.items():
                scores = np.append(result.scores, np.full(len(judgements) - len(result), np.nan))
                higher = self.scorers[name].metric.higher_is_better
                rows[name] = MetricScores(name, scores, higher, str(result.signature))
            take(list(rows.values()))

        texts = judgements.hypotheses, judgements.references
        results = score_together(self.scorers, *texts, self._memory, on_progress, on_window)
        counts = {name: result.counts for name, result in results.items()}
        self.warnings[judgements.name] = warn_of_flags(judgements.name, counts, self.scorers)
        for baseline, _ in baseline_scores(judgements, self.baselines, on_progress):
            rows[baseline.name] = baseline
            take(list(rows.values()))
        return list(rows.values())


PERIOD = 30.0  # seconds between writes of the scores so far; a large table takes one second to write


class KeptScores:
    """Score tables of sets, written while the scores are computed.

    ``folder`` holds the tables, for messages. Without a folder the tables are removed when their scores are complete.
    """

    def __init__(
        self, paths: Mapping[str, Path], folder: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.paths, self.folder = paths, folder
        self.written: dict[Path, None] = {}
        self._clock = clock

    @classmethod
    def in_folder(cls, folder: Path, names: Iterable[str]) -> KeptScores:
        """Return tables in a folder, one for each set."""
        paths_by_name: dict[str, Path] = {}
        for name in names:
            stem = re.sub(r"[^\w.-]+", "_", name).strip("_.") or "set"
            ends = itertools.chain([""], (f".{number}" for number in itertools.count(2)))
            paths = (folder / f"{stem}{end}.tsv" for end in ends)
            paths_by_name[name] = next(path for path in paths if path not in paths_by_name.values())
        return cls(paths_by_name, folder)

    @contextlib.contextmanager
    def keeping(self, name: str, judgements: Judgements) -> Iterator[OnScores]:
        """Yield a function that takes the scores so far; they are written periodically and on exit, even on error.

        Without a path for ``name`` nothing is written.
        """
        path, before = self.paths.get(name), self._clock()
        if path is None:
            yield lambda rows: None
            return
        latest: list[MetricScores] = []

        def take(rows: Sequence[MetricScores]) -> None:
            nonlocal before
            latest[:] = [row for row in rows if not np.isnan(row.scores).all()]
            if latest and self._clock() - before >= PERIOD:
                before = self._clock()
                with contextlib.suppress(InputError):  # a full disk does not end the work
                    write_scores(judgements, latest, path, final=False)
                    self.written[path] = None

        try:
            yield take
            if self.folder is None:
                latest.clear()
                if path in self.written:
                    path.unlink(missing_ok=True)
                    del self.written[path]
        finally:
            if latest:
                write_scores(judgements, latest, path)
                self.written[path] = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Add the folder of the scores so far to the message of an error or interrupt."""
        try:
            yield
        except (KeyboardInterrupt, InputError) as error:
            if not self.written:
                raise
            place = self.folder or ", ".join(map(str, self.written))
            if isinstance(error, InputError):
                raise InputError(f"{error} Earlier scores are kept in {place}.") from error
            raise type(error)(f"interrupted: the scores so far are in {place}") from None
