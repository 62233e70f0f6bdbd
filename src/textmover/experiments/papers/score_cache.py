"""Scores of an experiment on disk while it runs, so that nothing that was computed is lost."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from textmover.experiments.evaluation.output import write_scores
from textmover.meta_evaluation import MetricScores
from textmover.types import InputError, Judgements

PERIOD = 30.0  # seconds between two writings of a set that is being scored: a large table takes one to write


def scores_folder(origin: str, output: Path | None) -> Path:
    """Folder of the scores: beside the page, or named after the experiment in the current folder.

    Example:
        >>> str(scores_folder("papers/wmt.yaml", None)), str(scores_folder("wmt.yaml", Path("pages/a.md")))
        ('wmt.scores', 'pages/a.scores')
    """
    return Path(f"{Path(origin).stem}.scores") if output is None else output.with_name(f"{output.stem}.scores")


class KeptScores:
    """The scores of each set as a table in a folder, written while they are computed."""

    def __init__(self, folder: Path, names: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.paths: dict[str, Path] = {}
        for name in names:
            stem = re.sub(r"[^\w.-]+", "_", name).strip("_.") or "set"
            candidates = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(2)))
            paths = (folder / f"{one}.tsv" for one in candidates)
            self.paths[name] = next(path for path in paths if path not in self.paths.values())
        self.written: dict[Path, None] = {}
        self._clock = clock

    @contextlib.contextmanager
    def keeping(self, name: str, judgements: Judgements) -> Iterator[Callable[[Sequence[MetricScores]], None]]:
        """Yield a function that takes the scores so far; they are written now and then, and at the end in any case."""
        path, before = self.paths[name], self._clock()
        latest: list[MetricScores] = []

        def take(rows: Sequence[MetricScores]) -> None:
            nonlocal before
            latest[:] = [row for row in rows if not np.isnan(row.scores).all()]
            if latest and self._clock() - before >= PERIOD:
                write_scores(judgements, latest, path, warn=False)
                self.written[path] = None
                before = self._clock()

        try:
            yield take
        finally:
            if latest:
                write_scores(judgements, latest, path)
                self.written[path] = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Say where the scores are, where something ends the work early."""
        try:
            yield
        except (KeyboardInterrupt, InputError) as error:
            if not self.written:
                raise
            if isinstance(error, InputError):
                raise InputError(f"{error} Earlier scores are kept: it is in {self.folder}.") from error
            raise type(error)(f"interrupted: the scores so far are in {self.folder}") from None
