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
from textmover.experiments.evaluation.sets import scores_table
from textmover.files import write_output
from textmover.meta_evaluation import MetricScores
from textmover.types import InputError, Judgements

PERIOD = 30.0
"""Seconds between two writings of a set that is being scored: a large table takes one to write."""


def scores_folder(origin: str, output: Path | None) -> Path:
    """Folder of the scores: beside the page, or named after the experiment in the current folder.

    Args:
        origin: File of the experiment.
        output: The page.

    Example:
        >>> str(scores_folder("papers/wmt.yaml", None)), str(scores_folder("wmt.yaml", Path("pages/a.md")))
        ('wmt.scores', 'pages/a.scores')
    """
    return Path(f"{Path(origin).stem}.scores") if output is None else output.with_name(f"{output.stem}.scores")


class KeptScores:
    """The scores of each set as a table in a folder, written while they are computed.

    Args:
        folder: Where.
        names: Of the sets.
        clock: Seconds that pass.

    Attributes:
        folder: Where.
        paths: The table of each set.
        written: Tables that have been written so far.
    """

    def __init__(self, folder: Path, names: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.paths: dict[str, Path] = {}
        for name in names:
            stem = re.sub(r"[^\w.-]+", "_", name).strip("_.") or "set"
            candidates = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(2)))
            paths = (folder / f"{one}.tsv" for one in candidates)
            self.paths[name] = next(path for path in paths if path not in self.paths.values())
        self.written: list[Path] = []
        self._clock = clock

    @contextlib.contextmanager
    def keeping(self, name: str, judgements: Judgements) -> Iterator[Callable[[Sequence[MetricScores]], None]]:
        """Write the scores of a set now and then, and at the end, however that comes.

        Args:
            name: Of the set.
            judgements: The set.

        Yields:
            What is to be called with the scores so far, NaN where there is none yet.
        """
        path = self.paths[name]
        latest: list[MetricScores] = []
        before = self._clock()

        def take(rows: Sequence[MetricScores]) -> None:
            nonlocal before
            latest[:] = [row for row in rows if not np.isnan(row.scores).all()]
            if latest and self._clock() - before >= PERIOD:
                write_output(scores_table(judgements, latest)[0], path)
                self._note(path)
                before = self._clock()

        try:
            yield take
        finally:
            if latest:
                write_scores(judgements, latest, path)
                self._note(path)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Say where the scores are, where something ends the work early."""
        try:
            yield
        except KeyboardInterrupt as error:
            if not self.written:
                raise
            raise type(error)(f"interrupted: the scores so far are in {self.folder}") from None
        except InputError as error:
            if not self.written:
                raise
            raise InputError(f"{error} What was scored before is not lost: it is in {self.folder}.") from error

    def _note(self, path: Path) -> None:
        if path not in self.written:
            self.written.append(path)
