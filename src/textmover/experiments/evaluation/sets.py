"""Judgement sets of ``textmover evaluate``, and tables of their scores."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from textmover.meta_evaluation import MetricScores
from textmover.readers.column_flags import COLUMN_OPTIONS, flags_named, references_of, source_column
from textmover.readers.judgements import READERS, SetDescription, load_description, read_judgements
from textmover.readers.named.catalogue import place_of
from textmover.readers.streams import check_distinct
from textmover.types import InputError, Judgements

CAPTIONS = "coco-captions"  # the set whose ratings are those of systems
CHANGES = ("missing_references", "missing_ratings", "duplicates")  # keys of a description that a flag overrides
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
"""The flag behind each key of a description, where the flags are the description."""

READER_FLAGS = {"system": "--system-column", "dimensions": "--dimension"}
"""The flag behind each argument of the readers of other files than tables."""


class SetFiles(NamedTuple):
    """The files that one set is read from, by argument of the reader, and the name of files about the set."""

    paths: Mapping[str, str]
    stem: str


def set_files(options: argparse.Namespace) -> list[SetFiles]:
    """The files of each set, in the order of ``--data``."""
    if options.set in READERS:
        found = _by_key(options.set, READERS[options.set][1], options.data)
    else:
        found = [{"path": path} for path in options.data]
    stems = [Path(place_of(next(iter(paths.values()))).removeprefix("hub:")).stem for paths in found]
    stems = [stem if stems.count(stem) == 1 else f"{stem}.{place}" for place, stem in enumerate(stems, start=1)]
    return [SetFiles(paths, stem) for paths, stem in zip(found, stems, strict=True)]


def _by_key(name: str, keys: Sequence[str], entries: Sequence[str]) -> list[dict[str, str]]:
    """The files of ``KEY=FILE`` entries; a key that stands there again begins another set."""
    shape = " ".join(f"{key}=FILE" for key in keys)
    by_key: dict[str, list[str]] = {key: [] for key in keys}
    for entry in entries:
        found = re.fullmatch(r"([\w-]+)=(.+)", entry, flags=re.DOTALL)
        if found and found[1] in by_key:
            by_key[found[1]].append(found[2])
        elif len(keys) == 1:
            by_key[keys[0]].append(entry)
        else:
            raise InputError(f"Expected --data {shape} for --set {name}, but got {entry!r}: say which of them it is.")
    counts = {key: len(paths) for key, paths in by_key.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {key}" for key, count in counts.items())
        raise InputError(f"Expected --data {shape} for each set of --set {name}, but got {listed}: give all of them.")
    return [dict(zip(keys, paths, strict=True)) for paths in zip(*by_key.values(), strict=True)]


def read_sets(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Judgements]:
    """The sets that the options name."""
    if options.set in READERS:
        sets = _read_other(options, files)
    else:
        description = _description(options)
        sets = [read_judgements(one.paths["path"], description, split=options.split or "train") for one in files]
    if len(sets) > 1:
        names, paths = [one.name for one in sets], [next(iter(one.paths.values())) for one in files]
        # Several files of one description are distinguished by their paths.
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


def metric_columns(options: argparse.Namespace) -> Mapping[str, str]:
    """The column behind each metric whose scores the data bring along."""
    return {} if options.set in READERS else _description(options).scores


def _read_other(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Judgements]:
    further: dict[str, Any] = {}
    if options.set == CAPTIONS:
        given = {"system": options.system_column, "dimensions": options.dimension}
        further = {name: value for name, value in given.items() if value is not None}
    refused = [*COLUMN_OPTIONS, "group", "item_column", *CHANGES, "metric_column"]
    refused += [] if options.set == CAPTIONS else ["system_column"]
    for name in refused:
        if getattr(options, name) is not None:
            raise InputError(
                f"Expected no --{name.replace('_', '-')} for --set {options.set}, whose files have a shape of their "
                "own, but got one: leave it out."
            )
    with flags_named(READER_FLAGS):
        return [READERS[options.set][0](**one.paths, **further) for one in files]


def _description(options: argparse.Namespace) -> SetDescription:
    """Description of the columns: the given one, or one made from the flags."""
    ready = {column: column for column in options.metric_column or ()}
    flags = {key: f"--{key.replace('_', '-')}" for key in CHANGES}
    changes: dict[str, Any] = {
        key: getattr(options, key).replace("-", " ") for key in CHANGES if getattr(options, key) is not None
    }
    if options.set is not None:
        names = {flag: flag.removeprefix("--").replace("-", "_") for key, flag in FLAGS.items() if key != "scores"}
        given = next((flag for flag, name in names.items() if getattr(options, name) is not None), None)
        if given is not None:
            raise InputError(
                f"Expected the meaning of columns from --set or from flags, but got --set {options.set} and {given}: "
                "leave one out, or write a description of your own."
            )
        described = load_description(options.set)
        return replace(described, scores={**described.scores, **ready}, flags=flags, **changes)
    score = options.score_column or "score"
    return SetDescription(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=references_of(options),
        source=source_column(options),
        ratings={score: score},
        groups=tuple(dict.fromkeys(options.group or ())),
        item=options.item_column,
        system=options.system_column,
        scores=ready,
        flags={**FLAGS, **flags},
        **changes,
    )


def scores_table(judgements: Judgements, rows: Sequence[MetricScores]) -> tuple[str, int]:
    """Tab-separated values that our readers read back, and in how many texts white space had to be replaced.

    Columns: group, item and system as far as there are any, hypothesis, reference (reference_2, … where a text has
    more), human_<dimension>, and a column for each metric; numbers with all digits of a float64.
    """
    texts: dict[str, Sequence[str]] = {}
    if len(set(judgements.groups)) > 1:
        texts["group"] = judgements.groups
    known = (("item", judgements.items), ("system", judgements.systems))
    texts |= {name: values for name, values in known if values is not None}
    texts["hypothesis"] = judgements.hypotheses
    for place in range(max(map(len, judgements.references), default=0)):
        name = "reference" if place == 0 else f"reference_{place + 1}"
        texts[name] = [one[place] if place < len(one) else "" for one in judgements.references]
    numbers: dict[str, np.ndarray] = {f"human_{name}": values for name, values in judgements.ratings.items()}
    numbers |= {row.name: np.asarray(row.scores) for row in rows}
    cells = [list(map(_cell, column)) for column in texts.values()]
    altered = sum(map(str.__ne__, itertools.chain(*cells), itertools.chain(*texts.values())))
    figures = [list(map(repr, values.tolist())) for values in numbers.values()]
    header = map(_cell, (*texts, *numbers))
    return "".join("\t".join(row) + "\n" for row in [header, *zip(*cells, *figures, strict=True)]), altered


def _cell(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)
