"""Judgement sets of ``textmover evaluate``: input files, existing scores and output score tables."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from textmover.files import atomic_file, check_output, check_unnamed, write_output
from textmover.meta_evaluation import MetricScores
from textmover.readers.column_flags import COLUMN_OPTIONS, errors_with_flag_names
from textmover.readers.judgements import READERS, SetDescription, load_description, read_judgements, read_scores
from textmover.readers.judgements.metric_scores import as_written, text_columns
from textmover.readers.public_sets.catalogue import place_of
from textmover.readers.row_streams import check_distinct
from textmover.readers.segments import OptionalColumn
from textmover.readers.tables import is_table
from textmover.scoring.scorer_from_options import references_of, source_column
from textmover.types import InputError, Judgements, plural

logger = logging.getLogger(__name__)

CAPTIONS = "coco-captions"  # the set with ratings of systems, not of segments
CHANGES = ("missing_references", "missing_ratings", "duplicates")  # description keys that flags override
FLAGS = {
    "hypothesis": "--hypothesis-column",
    "references": "--reference-column",
    "source": "--source-column",
    "ratings": "--score-column",
    "groups": "--group",
    "item": "--item-column",
    "system": "--system-column",
    "scores": "--metric-column",
}
"""Flag of each description key, for descriptions built from flags."""

READER_FLAGS = {"system": "--system-column", "dimensions": "--dimension"}
"""Flag of each argument of readers of formats other than tables."""


class SetFiles(NamedTuple):
    """Input files of a set by reader argument, and the stem of its output files."""

    paths: Mapping[str, str]
    stem: str


def set_files(options: argparse.Namespace) -> list[SetFiles]:
    """Return the input files of each set, in the order of ``--data``."""
    if options.set in READERS:
        path_sets = _files_by_set(options.set, READERS[options.set][1], options.data)
    else:
        path_sets = [{"path": path} for path in options.data]
    stems = [Path(place_of(next(iter(paths.values()))).removeprefix("hub:")).stem for paths in path_sets]
    stems = [stem if stems.count(stem) == 1 else f"{stem}.{place}" for place, stem in enumerate(stems, start=1)]
    return [SetFiles(paths, stem) for paths, stem in zip(path_sets, stems, strict=True)]


def _files_by_set(name: str, keys: Sequence[str], entries: Sequence[str]) -> list[dict[str, str]]:
    """Group ``KEY=FILE`` entries by set; the n-th entry of a key belongs to the n-th set."""
    shape = " ".join(f"{key}=FILE" for key in keys)
    by_key: dict[str, list[str]] = {key: [] for key in keys}
    for entry in entries:
        match = re.fullmatch(r"([\w-]+)=(.+)", entry, flags=re.DOTALL)
        if match and match[1] in by_key:
            by_key[match[1]].append(match[2])
        elif len(keys) == 1:
            by_key[keys[0]].append(entry)
        else:
            raise InputError(f"Expected --data {shape} for --set {name}, but got {entry!r}: write KEY= before it.")
    counts = {key: len(paths) for key, paths in by_key.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {key}" for key, count in counts.items())
        raise InputError(f"Expected --data {shape} for each set of --set {name}, but got {listed}: give all of them.")
    return [dict(zip(keys, paths, strict=True)) for paths in zip(*by_key.values(), strict=True)]


def read_sets(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Judgements]:
    """Read the judgement sets given by the options."""
    if options.set in READERS:
        sets = _read_public(options, files)
    else:
        description = _description(options)
        sets = [read_judgements(one.paths["path"], description, split=options.split or "train") for one in files]
    if len(sets) > 1:
        names, paths = [one.name for one in sets], [next(iter(one.paths.values())) for one in files]
        # Sets that share a name are named by their paths.
        sets = [
            one if names.count(one.name) == 1 else replace(one, name=path)
            for one, path in zip(sets, paths, strict=True)
        ]
        check_distinct([one.name for one in sets], "file of --data")
    for name in options.dimension or ():
        for one in sets:
            if name not in one.ratings:
                raise InputError(
                    f"Expected `--dimension` to be one of {', '.join(one.ratings) or 'none'} in {one.name}, but got "
                    f"{name!r}: choose one of them."
                )
    return sets


def refuse_options(options: argparse.Namespace, names: Sequence[str], sets: str) -> None:
    """Raise an error if an option that does not apply to the sets is given."""
    for name in names:
        if getattr(options, name, None) is not None:
            flag = name.replace("_", "-")
            raise InputError(f"Expected no --{flag} for {sets}, but got one: leave it out.")


def _read_public(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Judgements]:
    arguments: dict[str, Any] = {}
    if options.set == CAPTIONS:
        columns = {"system": options.system_column, "dimensions": options.dimension}
        arguments = {name: value for name, value in columns.items() if value is not None}
    refused = [*COLUMN_OPTIONS, "group", "item_column", *CHANGES, "metric_column"]
    refused += [] if options.set == CAPTIONS else ["system_column"]
    refuse_options(options, refused, f"--set {options.set}, which has a fixed format")
    with errors_with_flag_names(READER_FLAGS):
        return [READERS[options.set][0](**one.paths, **arguments) for one in files]


def _description(options: argparse.Namespace) -> SetDescription:
    """Return the description given by ``--set``, or one built from the flags."""
    scores = {column: column for column in options.metric_column or ()}
    flags = {key: f"--{key.replace('_', '-')}" for key in CHANGES}
    changes: dict[str, Any] = {
        key: getattr(options, key).replace("-", " ") for key in CHANGES if getattr(options, key) is not None
    }
    if options.set is not None:
        names = {flag: flag.removeprefix("--").replace("-", "_") for key, flag in FLAGS.items() if key != "scores"}
        clash = next((flag for flag, name in names.items() if getattr(options, name) is not None), None)
        if clash is not None:
            raise InputError(
                f"Expected columns to be described by --set or by flags, but got --set {options.set} and {clash}: "
                "leave one out, or write a description."
            )
        description = load_description(options.set)
        return replace(description, scores={**description.scores, **scores}, flags=flags, **changes)
    score = options.score_column or "score"
    return SetDescription(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=references_of(options),
        source=source_column(options),
        ratings={score: score},
        groups=tuple(dict.fromkeys(options.group or ())),
        item=options.item_column,
        system=options.system_column,
        scores=scores,
        flags={**FLAGS, **flags},
        **changes,
    )


# --- tables of scores -------------------------------------------------------------------------------------------------

SUFFIX = ".scores.tsv"  # of score tables
ENDINGS = (".tsv", ".txt")  # allowed ones


def scores_files(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Path]:
    """Return the checked path of each set's score table."""
    inputs = [path for one in files for path in one.paths.values()]
    if len(files) == 1:
        tables = [check_output(options.output or f"{files[0].stem}{SUFFIX}", inputs, ENDINGS)]
    elif ((folder := Path(options.output or ".")).exists() and not folder.is_dir()) or options.output == "-":
        raise InputError(
            f"Expected `--output` to be a folder for {len(files)} sets, but got the file {folder}: name a folder."
        )
    else:
        tables = [check_output(folder / f"{one.stem}{SUFFIX}", inputs) for one in files]
    for one in () if options.output else tables:
        check_unnamed(one, ("hypothesis",))
    for one in tables:
        check_no_partial_table(one, way_out="rename it and give its finished metrics with `--scores NAME=FILE`")
    return tables


def check_no_partial_table(path: Path, *, way_out: str = "rename it") -> Path:
    """Return :func:`partial_table`; raise an error if an interrupted run has left it; ``way_out`` says what to do."""
    if (partial := partial_table(path)).exists():
        raise InputError(
            f"Expected {partial} to be new, but it holds the scores of an interrupted run: {way_out}, or remove it."
        )
    return partial


def partial_table(path: Path) -> Path:
    """Return the path of the scores so far of a score table."""
    return path.with_name(f"{path.stem}.partial.tsv")


def write_scores(judgements: Judgements, rows: Sequence[MetricScores], path: Path, *, final: bool = True) -> None:
    """Write the scores of a set as tab-separated values that textmover can read.

    Columns: group, item and system if present, the texts, human_<dimension>, and one column for each metric. Numbers
    have all digits of a float64.
    A ``final`` table warns of changed texts, and is printed if it cannot be written.
    """
    groups = judgements.groups if len(set(judgements.groups)) > 1 else None
    optional = {"group": groups, "item": judgements.items, "system": judgements.systems}
    texts = {name: values for name, values in optional.items() if values is not None} | text_columns(judgements)
    numbers: dict[str, np.ndarray] = {f"human_{name}": values for name, values in judgements.ratings.items()}
    numbers |= {row.name: np.asarray(row.scores) for row in rows}
    cells = [list(map(as_written, column)) for column in texts.values()]
    altered = sum(map(str.__ne__, itertools.chain(*cells), itertools.chain(*texts.values())))
    figures = [list(map(repr, values.tolist())) for values in numbers.values()]
    header = map(as_written, (*texts, *numbers))
    text = "".join("\t".join(row) + "\n" for row in [header, *zip(*cells, *figures, strict=True)])
    if not final:
        with atomic_file(path) as stream:
            stream.write(text)
        return
    write_output(text, path)
    if altered:
        logger.warning("%s: a tab or line break in %d of the texts and names was written as a space.", path, altered)


# --- existing scores --------------------------------------------------------------------------------------------------

ROLES = ("group", "item", "system")  # of score table columns
SCORE_FLAGS = {
    "metrics": "--scores NAME,NAME=FILE",
    "keys": "--score-key ROLE=COLUMN",
    **{f"keys[{role!r}]": f"--score-key {role}=COLUMN" for role in ROLES},
}
"""Flag of each argument of :func:`~textmover.data.read_scores`."""


class _ScoreOption(NamedTuple):
    labels: frozenset[str]  # names of the set it applies to; empty for all sets
    names: str  # table columns, or the metric name of a plain file
    path: str  # file or folder

    def file(self, judgements: Judgements, files: SetFiles) -> str | None:
        """Return the score file of a set, or ``None`` if the option is for another set."""
        if self.labels and not self.labels & {files.stem, judgements.name}:
            return None
        folder = Path(self.path)
        if not folder.is_dir() or any((folder / one).exists() for one in ("dataset_info.json", "dataset_dict.json")):
            return self.path  # a data set saved as a folder
        path = folder / f"{files.stem}{SUFFIX}"
        if not path.is_file():
            raise InputError(
                f"Expected the scores of {judgements.name} at {path}, but there is no file: add it, or name the file "
                "of each set with --scores SET:FILE."
            )
        return str(path)


def read_precomputed(
    options: argparse.Namespace, sets: Sequence[Judgements], files: Sequence[SetFiles], outputs: Sequence[Path]
) -> list[list[MetricScores]]:
    """Read the existing scores of each set; their signature has file, column and a digest of the values."""
    score_options = [_parse_option(option, sets, files) for option in options.scores or ()]
    keys = _parse_keys(options, score_options)
    described = None if options.set in READERS else _description(options)
    columns = {} if described is None else described.scores  # column of each score in the data
    lower = set(options.lower_is_better or ())
    rows: list[list[MetricScores]] = []
    for judgements, of_set, output in zip(sets, files, outputs, strict=True):
        scores: dict[str, tuple[np.ndarray, str]] = {}
        data = next(iter(of_set.paths.values()))
        for name, values in judgements.scores.items():
            scores[name] = (values, _signature(data, columns.get(name, name), values))
        for option in score_options:
            path = option.file(judgements, of_set)
            if path is None:
                continue
            same = Path(path).exists() and output.exists() and Path(path).samefile(output)
            if same and (options.output is not None or option.names):  # a default output may be overwritten
                raise InputError(
                    f"Expected the scores to go to a new file, but got {output}, which --scores names: give another "
                    "place with --output."
                )
            for name, values in _file_scores(option.names, path, judgements, keys, _own_keys(described)).items():
                if name in scores:
                    raise InputError(
                        f"Expected each metric of {judgements.name} once, but got {name!r} twice: give one another "
                        "name."
                    )
                scores[name] = (values, _signature(path, name if is_table(path) else None, values))
        rows.append([MetricScores(name, values, name not in lower, sig) for name, (values, sig) in scores.items()])
    names = list(dict.fromkeys(row.name for scores in rows for row in scores))
    if unknown := lower - set(names):
        raise InputError(
            f"Expected `--lower-is-better` to name scores of --scores or --metric-column, but got "
            f"{', '.join(sorted(unknown))}: they are {', '.join(names) or 'none'}."
        )
    return rows


def _parse_option(given: str, sets: Sequence[Judgements], files: Sequence[SetFiles]) -> _ScoreOption:
    labels = [frozenset((of_set.stem, one.name)) for one, of_set in zip(sets, files, strict=True)]
    matches = [(label, set_names) for set_names in labels for label in set_names if given.startswith(f"{label}:")]
    label, set_names = max(matches, key=lambda one: len(one[0]), default=("", frozenset[str]()))
    rest = given.removeprefix(f"{label}:") if label else given
    names, _, path = ("", "", rest) if Path(rest).exists() else rest.rpartition("=")
    if not label and len(sets) > 1 and ":" in names:
        raise InputError(
            f"Expected a set of {', '.join(one.stem for one in files)} before the colon of --scores {given}, but got "
            f"{names.partition(':')[0]!r}: name one of them, or leave the colon out."
        )
    return _ScoreOption(set_names, names, path)


def _parse_keys(options: argparse.Namespace, given: Sequence[_ScoreOption]) -> dict[str, str] | None:
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


def _own_keys(described: SetDescription | None) -> dict[str, str]:
    """Return the columns of the data that identify its texts; a table of scores that has them has them as keys."""
    if described is None:
        return {}
    group = described.groups[0] if len(described.groups) == 1 else None
    columns = {"group": group, "item": described.item, "system": described.system}
    return {role: OptionalColumn(column) for role, column in columns.items() if column}


def _file_scores(
    names: str, path: str, judgements: Judgements, keys: Mapping[str, str] | None, own: Mapping[str, str]
) -> Mapping[str, np.ndarray]:
    with errors_with_flag_names(SCORE_FLAGS):
        if is_table(path):
            columns = [name.strip() for name in names.split(",")] if names else None
            result = read_scores(path, judgements, metrics=columns, keys={**own, **(keys or {})})
        else:
            result = read_scores(path, judgements, name=names or None)
    for name, number in result.missing.items():
        if number:
            logger.warning(
                "%s: %s has no score (nan) for %d of %s.", path, name, number, plural(len(judgements), "segment")
            )
    return result.scores


def _signature(path: str, column: str | None, values: np.ndarray) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()[:12]
    named = "" if column is None else f"|column:{column}"
    return f"scores of a file:{Path(path).name}{named}|sha256:{digest}"
