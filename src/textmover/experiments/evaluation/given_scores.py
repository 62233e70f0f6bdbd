"""Existing scores that ``textmover evaluate`` reads from files and columns of the data."""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover.experiments.evaluation.output import SUFFIX
from textmover.experiments.evaluation.sets import SetFiles, metric_columns
from textmover.meta_evaluation import MetricScores
from textmover.readers.column_flags import flags_named
from textmover.readers.judgements import read_scores
from textmover.readers.tables import is_table
from textmover.types import InputError, Judgements, plural

logger = logging.getLogger(__name__)

ROLES = ("group", "item", "system")  # roles of the columns of a score table
FLAGS = {
    "metrics": "--scores NAME,NAME=FILE",
    "keys": "--score-key ROLE=COLUMN",
    **{f"keys[{role!r}]": f"--score-key {role}=COLUMN" for role in ROLES},
}
"""The flag behind each argument of :func:`~textmover.data.read_scores`."""


class _Given(NamedTuple):
    labels: frozenset[str]  # names of the set that it is for; none where it is for all
    names: str  # columns of a table, or the name of a plain file
    path: str  # file, or folder of files

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
    """Existing scores of each set, with file, column and a digest of the values as signature."""
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
    with flags_named(FLAGS):
        if is_table(path):
            columns = [name.strip() for name in names.split(",")] if names else None
            ready = read_scores(path, judgements, metrics=columns, keys=keys)
        else:
            ready = read_scores(path, judgements, name=names or None)
    for name, number in ready.missing.items():
        if number:
            logger.warning(
                "%s: %s has no score (nan) for %d of %s.", path, name, number, plural(len(judgements), "segment")
            )
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
    digest = hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()[:12]
    parts = [
        f"scores of a file:{Path(path).name}",
        *([] if column is None else [f"column:{column}"]),
        f"sha256:{digest}",
    ]
    return "|".join(parts)
