"""What ``textmover evaluate`` reads and keeps: sets of judgements, and tables of their scores."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from textmover.cli.options import check_output, flags_named
from textmover.data.judgements import SetDescription, load_description, read_judgements
from textmover.meta_evaluation import MetricScores
from textmover.types import InputError, Judgements

__all__ = ["add_set_options", "read_sets", "scores_files", "scores_table"]

SUFFIX = ".scores.tsv"


def add_set_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is judged and where its scores go."""
    parser.add_argument(
        "--data",
        nargs="+",
        metavar="FILE",
        help="judged texts as CSV, TSV, JSON Lines, Parquet or hub:owner/name; each file is a set of its own",
    )
    parser.add_argument(
        "--set",
        metavar="NAME",
        help="what the columns of --data mean: a built-in description (see docs/judgement-sets.md) or a YAML file; if "
        "not given, the columns named below",
    )
    parser.add_argument(
        "--dimension",
        action="append",
        metavar="NAME",
        help="of several kinds of ratings the one to agree with; repeat it for several; all if not given",
    )
    parser.add_argument(
        "--group",
        action="append",
        metavar="COLUMN",
        help="agreement is computed within each value of this column, such as a language pair; repeat it for "
        "combinations",
    )
    parser.add_argument("--item-column", metavar="COLUMN", help="what each text is an output for, such as a document")
    parser.add_argument("--system-column", metavar="COLUMN", help="what produced each text")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="where the scores go, as TSV; a folder where there are several sets; if not given, the data file's name "
        f"with {SUFFIX}, in this folder",
    )


def read_sets(options: argparse.Namespace) -> list[Judgements]:
    """The sets that the options name.

    Raises:
        InputError: If a file, a column, a cell or a dimension cannot be used, or two sets have the same name.
    """
    description = _description(options)
    with flags_named():
        sets = [read_judgements(path, description, split=options.split or "train") for path in options.data]
    if len(sets) > 1:
        names = [one.name for one in sets]
        # Several files of one description are told apart by their paths.
        sets = [
            one if names.count(one.name) == 1 else replace(one, name=path)
            for one, path in zip(sets, options.data, strict=True)
        ]
        twice = next((one.name for one in sets if [other.name for other in sets].count(one.name) > 1), None)
        if twice is not None:
            raise InputError(f"Expected each file of --data once, but got {twice} twice: leave the repetition out.")
    for name in options.dimension or ():
        for one in sets:
            if name not in one.ratings:
                raise InputError(
                    f"Expected `--dimension` to be one of {', '.join(one.ratings)} in {one.name}, but got {name!r}: "
                    "choose one of them."
                )
    return sets


def _description(options: argparse.Namespace) -> SetDescription:
    """What the columns mean: as described, or as the flags say."""
    flags = {
        "--hypothesis-column": options.hypothesis_column,
        "--reference-column": options.reference_column,
        "--score-column": options.score_column,
        "--group": options.group,
        "--item-column": options.item_column,
        "--system-column": options.system_column,
    }
    ready = {column: column for column in options.metric_column or ()}
    if options.set is not None:
        given = next((flag for flag, value in flags.items() if value is not None), None)
        if given is not None:
            raise InputError(
                f"Expected the meaning of columns from --set or from flags, but got --set {options.set} and {given}: "
                "leave one out, or write a description of your own."
            )
        described = load_description(options.set)
        return replace(described, scores={**described.scores, **ready}) if ready else described
    score = options.score_column or "score"
    return SetDescription(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=tuple(dict.fromkeys(options.reference_column or ["reference"])),
        ratings={score: score},
        groups=tuple(dict.fromkeys(options.group or ())),
        item=options.item_column,
        system=options.system_column,
        scores=ready,
        duplicates="keep",
        origin="a description (--set)",
    )


def scores_files(options: argparse.Namespace) -> list[Path]:
    """Where the scores of each set go, checked before the work.

    Raises:
        InputError: If a place cannot be written to.
    """
    stems = [Path(path.removeprefix("hub:")).stem for path in options.data]
    stems = [stem if stems.count(stem) == 1 else f"{stem}.{place}" for place, stem in enumerate(stems, start=1)]
    if len(stems) == 1:
        return [check_output(options.output or f"{stems[0]}{SUFFIX}", options.data)]
    folder = Path(options.output or ".")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"Expected `--output` to be a folder for {len(stems)} sets, but got the file {folder}.")
    return [check_output(folder / f"{stem}{SUFFIX}", options.data) for stem in stems]


def scores_table(judgements: Judgements, rows: Sequence[MetricScores]) -> tuple[str, int]:
    """Tab-separated values that our readers read back, and in how many texts white space had to be replaced.

    Columns: group, item and system as far as there are any, hypothesis, reference (reference_2, … where a text has
    more), human_<dimension>, and a column for each metric; numbers with all digits of a float64.
    """
    most = max(map(len, judgements.references))
    texts: dict[str, Sequence[str]] = {}
    if len(set(judgements.groups)) > 1:
        texts["group"] = judgements.groups
    known = (("item", judgements.items), ("system", judgements.systems))
    texts |= {name: values for name, values in known if values is not None}
    texts["hypothesis"] = judgements.hypotheses
    for place in range(most):
        name = "reference" if place == 0 else f"reference_{place + 1}"
        texts[name] = [one[place] if place < len(one) else "" for one in judgements.references]
    numbers: dict[str, np.ndarray] = {f"human_{name}": values for name, values in judgements.ratings.items()}
    numbers |= {row.name: np.asarray(row.scores) for row in rows}
    lines = ["\t".join(map(_cell, (*texts, *numbers)))]
    cells = [[_cell(text) for text in column] for column in texts.values()]
    altered = sum(
        cell != text
        for column, shown in zip(texts.values(), cells, strict=True)
        for text, cell in zip(column, shown, strict=True)
    )
    figures = [list(map(repr, values.tolist())) for values in numbers.values()]
    lines += ["\t".join(row) for row in zip(*cells, *figures, strict=True)]
    return "\n".join(lines) + "\n", altered


def _cell(text: str) -> str:
    """A text without what would end a cell or a line."""
    return re.sub(r"[\t\r\n]+", " ", text)
