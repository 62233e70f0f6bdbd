"""Scores for ``textmover evaluate``: computed by metrics that share an encoder, or read from files and columns."""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from textmover.checkpoints.hub import default_metric
from textmover.experiments.evaluation.output import SUFFIX
from textmover.experiments.evaluation.sets import SetFiles, metric_columns
from textmover.meta_evaluation import MetricScores
from textmover.readers.column_flags import flags_named
from textmover.readers.judgements import read_scores
from textmover.readers.tables import is_table
from textmover.scoring.field_flags import given_fields
from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.scoring.scorer_options import folder_limit, load_scorer
from textmover.types import InputError, Judgements

if TYPE_CHECKING:
    from textmover.scoring.cache.hidden_states import EncoderMemory
    from textmover.scoring.scorer import Scorer

logger = logging.getLogger(__name__)

READY = "scores of a file"
"""The signature of scores that were computed elsewhere begins with it."""

ROLES = ("group", "item", "system")
"""Roles of the columns of a score table."""

FLAGS = {
    "metrics": "--scores NAME,NAME=FILE",
    "keys": "--score-key ROLE=COLUMN",
    **{f"keys[{role!r}]": f"--score-key {role}=COLUMN" for role in ROLES},
}
"""The flag behind each argument of :func:`~textmover.data.read_scores`."""


def add_ready_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name scores which are there already."""
    parser.add_argument(
        "--scores",
        action="append",
        metavar="[SET:][NAME=]FILE",
        help="also scores that were computed elsewhere: one number a line in the order of the data, or a table with a "
        "column for each metric (NAME,NAME=FILE takes these columns) and the columns item, system and group where "
        "its rows are in another order; repeat it for several. Of several sets, SET: (the name of the data file "
        f"without its suffix) says whose they are, or a folder holds SET{SUFFIX} for each, as --output writes them",
    )
    parser.add_argument(
        "--score-key",
        action="append",
        metavar="ROLE=COLUMN",
        help="what the tables of --scores call their columns item, system or group, such as item=seg_id; repeat it "
        "for several",
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
class _Given:
    """One value of ``--scores``.

    Attributes:
        labels: What the set that it is for may be called; none where it is for all.
        names: Columns of a table, or the name of a plain file; empty where none is said.
        path: File, or folder of files.
    """

    labels: frozenset[str]
    names: str
    path: str

    def file(self, judgements: Judgements, files: SetFiles) -> str | None:
        """The file with the scores of a set; ``None`` where they are those of another."""
        if self.labels and not self.labels & {files.stem, judgements.name}:
            return None
        folder = Path(self.path)
        if not folder.is_dir() or any((folder / one).exists() for one in ("dataset_info.json", "dataset_dict.json")):
            return self.path  # a data set may be a folder as well
        path = folder / f"{files.stem}{SUFFIX}"
        if not path.is_file():
            raise InputError(
                f"Expected the scores of {judgements.name} at {path}, but there is no file: add it, or name the file "
                "of each set with --scores SET:FILE."
            )
        return str(path)


def read_ready(
    options: argparse.Namespace, sets: Sequence[Judgements], files: Sequence[SetFiles], outputs: Sequence[Path]
) -> list[list[MetricScores]]:
    """The scores of each set that are there already.

    Args:
        options: The command's options.
        sets: The sets.
        files: Those of each set.
        outputs: Where the scores of each set will go.

    Returns:
        For each set its scores, with file, column and a digest of the values as signature.
    """
    given = [_parsed(one, sets, files) for one in options.scores or ()]
    keys = _keys(options, given)
    columns = metric_columns(options)
    falling = set(options.lower_is_better or ())
    rows: list[list[MetricScores]] = []
    for judgements, of_set, output in zip(sets, files, outputs, strict=True):
        found: dict[str, tuple[np.ndarray, str]] = {}
        data = next(iter(of_set.paths.values()))
        for name, values in judgements.scores.items():
            found[name] = (values, _signature(data, columns.get(name, name), values))
        for one in given:
            path = one.file(judgements, of_set)
            if path is None:
                continue
            _check_kept(path, output, options, one)
            for name, values in _file_scores(one.names, path, judgements, keys).items():
                if name in found:
                    raise InputError(
                        f"Expected each metric of {judgements.name} once, but got {name!r} twice: give one another "
                        "name."
                    )
                found[name] = (values, _signature(path, name if is_table(path) else None, values))
        rows.append([MetricScores(name, values, name not in falling, said) for name, (values, said) in found.items()])
    names = list(dict.fromkeys(row.name for found in rows for row in found))
    if unknown := falling - set(names):
        raise InputError(
            f"Expected `--lower-is-better` to name scores of --scores or --metric-column, but got "
            f"{', '.join(sorted(unknown))}: they are {', '.join(names) or 'none'}."
        )
    return rows


def _parsed(given: str, sets: Sequence[Judgements], files: Sequence[SetFiles]) -> _Given:
    """Set, names and path of ``[SET:][NAME=]FILE``."""
    labels = [frozenset((of_set.stem, one.name)) for one, of_set in zip(sets, files, strict=True)]
    meant = [(label, alike) for alike in labels for label in alike if given.startswith(f"{label}:")]
    label, alike = max(meant, key=lambda one: len(one[0]), default=("", frozenset[str]()))
    rest = given.removeprefix(f"{label}:") if label else given
    names, _, path = ("", "", rest) if Path(rest).exists() else rest.rpartition("=")
    if not label and len(sets) > 1 and ":" in names:
        raise InputError(
            f"Expected a set of {', '.join(one.stem for one in files)} before the colon of --scores {given}, but got "
            f"{names.partition(':')[0]!r}: name one of them, or leave the colon out."
        )
    return _Given(alike, names, path)


def _keys(options: argparse.Namespace, given: Sequence[_Given]) -> dict[str, str] | None:
    """The columns that ``--score-key`` names, by their role."""
    keys: dict[str, str] = {}
    for entry in options.score_key or ():
        role, _, column = entry.partition("=")
        if role not in ROLES or not column or role in keys:
            raise InputError(
                f"Expected --score-key ROLE=COLUMN with a role of {', '.join(ROLES)}, each once, but got {entry!r}: "
                "correct it."
            )
        keys[role] = column
    if keys and not any(is_table(one.path) for one in given):
        raise InputError("Expected `--score-key` with a table of --scores, but got none: leave it out.")
    return keys or None


def _file_scores(
    names: str, path: str, judgements: Judgements, keys: Mapping[str, str] | None
) -> Mapping[str, np.ndarray]:
    """Scores of a file by metric; ``names`` are columns of a table, or the name of a plain file."""
    with flags_named(FLAGS):
        if is_table(path):
            columns = [name.strip() for name in names.split(",")] if names else None
            ready = read_scores(path, judgements, metrics=columns, keys=keys)
        else:
            ready = read_scores(path, judgements, name=names or None)
    for name, number in ready.missing.items():
        if number:
            logger.warning("%s: %s has no score (nan) for %d of %d segments.", path, name, number, len(judgements))
    return ready.scores


def _check_kept(path: str, output: Path, options: argparse.Namespace, given: _Given) -> None:
    """Make sure that no file of scores is replaced, unless by one of ours with all of its scores and further ones."""
    if not (Path(path).exists() and output.exists() and Path(path).samefile(output)):
        return
    if options.output is not None or given.names:
        raise InputError(
            f"Expected the scores to go to a new file, but got {output}, which --scores names: give another place "
            "with --output."
        )


def _signature(path: str, column: str | None, values: np.ndarray) -> str:
    """Signature of given scores: file, column, and the start of their digest."""
    digest = hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()[:12]
    parts = [f"{READY}:{Path(path).name}", *([] if column is None else [f"column:{column}"]), f"sha256:{digest}"]
    return "|".join(parts)


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
        """Load the models."""
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
        """Number of metrics to compute."""
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
