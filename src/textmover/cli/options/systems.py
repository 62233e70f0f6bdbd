"""Systems to compare or to rank: their texts or scores that are there already, by the options that name them."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from textmover.cli.options.columns import DATA_FORMAT, SYSTEM_COLUMNS, refuse_table_options
from textmover.cli.options.metric import CACHE, metric_options
from textmover.readers.column_flags import flags_named
from textmover.readers.lines import COMPRESSIONS
from textmover.readers.streams import Row, TableFile, TextFiles
from textmover.readers.system_scores import SystemScores, read_system_scores
from textmover.runs.progress import progress_bar
from textmover.scoring.field_flags import FIELD
from textmover.scoring.scorer_options import load_scorer
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

READY = "scores of a file"
"""The signature of scores that were computed elsewhere."""


TEXTS = (".txt", *COMPRESSIONS)
"""Suffixes of text files."""


@dataclass(frozen=True, eq=False)
class ScoredSystems:
    """Systems on the same segments.

    Attributes:
        scores: Segment scores of each, ``[n]``, by its name.
        rows: Their texts, one row a segment; none where scores alone were given.
        lines: Line or row of each segment.
        signature: What the scores depend on.
        higher_is_better: False for distances.
    """

    scores: dict[str, NDArray[np.float64]]
    rows: Sequence[Row]
    lines: Sequence[int]
    signature: str
    higher_is_better: bool


SYSTEMS = (
    """
one of:
--hypotheses FILE...: text files of two or more systems, one segment a line, also compressed as .gz or .zst
--data FILE: CSV, TSV, JSON Lines, Parquet or hub:owner/name instead, with --hypothesis-column for each system

--references FILE...: references of --hypotheses
--scores FILE...: segment scores that are there already, of any metric: a file with a column for each system, as
    `textmover score` writes it in any format, or a file for each system, with one score a line or a column 'score';
    texts are only shown then, where they are given as well
--score-columns COLUMN...: columns of --scores, one for each system, or the same one of several files
--lower-is-better: the scores of --scores are distances or errors
--names NAME...: what to call the systems; after their files or columns if not given
--samples N (default 1000, at least 1): bootstrap samples; %(default)s
--trials N (default 10000, at least 1): of randomisation; %(default)s
--seed N (default 12345): of both; %(default)s, as sacrebleu has
""",
    SYSTEM_COLUMNS,
    DATA_FORMAT,
    *metric_options(),
    CACHE,
)
"""Options that name systems, their texts, existing scores, and the metric that scores them."""


def scored_systems(options: argparse.Namespace) -> ScoredSystems:
    """The systems that the options name, scored unless their scores were given."""
    if options.scores is None:
        for name in ("score_columns", "lower_is_better"):
            if getattr(options, name):
                flag = name.replace("_", "-")
                raise InputError(f"Expected `--{flag}` together with --scores, but got it alone: leave it out.")
        files = _files(options)
        names = _names(files.systems, options.names, files=options.hypotheses is not None)
        rows = _rows(files)
        scorer = load_scorer(options)
        scores = _scores(scorer, rows, names, shown=not options.quiet)
        places = [row.line for row in rows]
        return ScoredSystems(scores, rows, places, str(scorer.signature), scorer.metric.higher_is_better)
    refuse_metric(options, "--scores")
    found = _ready(options)
    ready = found.scores
    given = options.hypotheses is not None or options.data is not None
    if options.references is not None and not given:
        raise InputError("Expected `--references` together with --hypotheses, but got it alone: name both, or none.")
    files_or_none = _files(options) if given else None
    if files_or_none is not None and len(files_or_none.systems) != len(ready):
        raise InputError(
            f"Expected scores of the {len(files_or_none.systems)} systems whose texts are given, but got those of "
            f"{len(ready)} ({', '.join(ready)}): name their columns with --score-columns, in the order of the systems."
        )
    by_file = options.hypotheses is not None or (not given and len(options.scores) > 1)
    systems = tuple(ready) if files_or_none is None else files_or_none.systems
    names = _names(systems, options.names, files=by_file)
    rows = [] if files_or_none is None else _rows(files_or_none)
    count = len(next(iter(ready.values())))
    if rows and len(rows) != count:
        raise InputError(
            f"Expected a score for each of the {len(rows)} segments, but got {count} in {options.scores[0]}: give the "
            "scores of the same segments."
        )
    scores = dict(zip(names, ready.values(), strict=True))
    lines = tuple(row.line for row in rows) or found.lines
    signature = found.signature or _signature(options.scores, list(ready.values()))
    return ScoredSystems(scores, rows, lines, signature, not options.lower_is_better)


def _signature(paths: Sequence[str], scores: Sequence[NDArray[np.float64]]) -> str:
    """Signature of given scores: their files and the start of their digest."""
    digest = hashlib.sha256(np.ascontiguousarray(np.stack(scores), dtype="<f8").tobytes()).hexdigest()[:12]
    return f"{READY}:{','.join(Path(path).name for path in paths)}|sha256:{digest}"


def inputs_of(options: argparse.Namespace) -> list[str]:
    """Every file that is read."""
    files = [*(options.hypotheses or ()), *(options.references or ()), *(options.scores or ())]
    return files if options.data is None else [*files, options.data]


def refuse_metric(options: argparse.Namespace, instead: str) -> None:
    """Refuse options of a metric where nothing is scored.

    Args:
        options: The command's options.
        instead: The flag that names scores which are there already.
    """
    given = ["model"] if options.model is not None else []
    given += [name for name in ("fit_on", "statistics", "cache", "revision") if getattr(options, name) is not None]
    given += [name.removeprefix(FIELD) for name in vars(options) if name.startswith(FIELD)]
    if given:
        flag = given[0].replace("_", "-")
        raise InputError(f"Expected `--{flag}` or `{instead}`, but got both: scores that are there need no metric.")


def _ready(options: argparse.Namespace) -> SystemScores:
    """The scores that are there already."""
    # Where there is no --data, its options are those of the table of scores.
    own = options.data is None
    with flags_named({"columns": "--score-columns"}):
        ready = read_system_scores(
            options.scores,
            options.score_columns,
            format=options.data_format if own else None,
            split=(options.split if own else None) or "train",
        )
    if len(ready.scores) < 2:
        raise InputError(
            f"Expected the scores of two systems, but got those of {next(iter(ready.scores))} alone: give a column or "
            "a file of another."
        )
    return ready


def _files(options: argparse.Namespace) -> TextFiles | TableFile:
    """The texts that the options name."""
    if options.data is not None:
        if options.references is not None:
            raise InputError("Expected `--references` together with --hypotheses, but got --data: leave one out.")
        columns = tuple(options.hypothesis_column or ())
        if len(columns) < 2:
            raise InputError(
                f"Expected two systems to compare, but got {len(columns) or 'no'} --hypothesis-column: name one for "
                "each system."
            )
        references = tuple(dict.fromkeys(options.reference_column or ["reference"]))
        return TableFile(options.data, columns, references, format=options.data_format, split=options.split or "train")
    if options.hypotheses is None:
        raise InputError(
            "Expected the texts of two systems or their scores, but got none: give --hypotheses, --data or --scores."
        )
    refuse_table_options(options, "--hypotheses")
    if len(options.hypotheses) < 2:
        raise InputError(
            f"Expected two systems to compare, but got {options.hypotheses[0]} alone: name the file of another behind "
            "--hypotheses."
        )
    return TextFiles(tuple(options.hypotheses), tuple(options.references or ()))


def _rows(files: TextFiles | TableFile) -> list[Row]:
    """All rows; texts that cannot be used are refused before the metric is loaded."""
    with flags_named():
        rows = list(files)
    if not rows:
        raise InputError(f"Expected at least one segment to compare on, but {files.systems[0]} has none.")
    return rows


def _names(systems: Sequence[str], given: Sequence[str] | None, *, files: bool) -> tuple[str, ...]:
    """Default names of systems: their columns, or the shortest distinct names of their files."""
    if given is not None:
        if len(given) != len(systems):
            raise InputError(f"Expected a name for each of the {len(systems)} systems, but got {len(given)}.")
        if len(set(given)) < len(given):
            raise InputError(f"Expected names that tell the systems apart, but got {' '.join(given)}.")
        return tuple(given)
    shorter = (lambda path: Path(path).name.partition(".")[0], lambda path: Path(path).name)
    if not files:  # unless `textmover score` wrote the names of files into the columns
        files = all(Path(name).suffix.lower() in TEXTS for name in systems)
    for short in shorter if files else ():
        names = tuple(map(short, systems))
        if all(names) and len(set(names)) == len(names):
            return names
    return tuple(systems)


def _scores(
    scorer: Scorer, rows: Sequence[Row], names: Sequence[str], *, shown: bool
) -> dict[str, NDArray[np.float64]]:
    """Segment scores of each system; each distinct text is encoded once."""
    count = len(rows)
    hypotheses = [row.hypotheses[place] for place in range(len(names)) for row in rows]
    found = score_pairs(scorer, hypotheses, [row.references for row in rows] * len(names), parts=count, shown=shown)
    return {name: found[place * count : (place + 1) * count] for place, name in enumerate(names)}


def score_pairs(
    scorer: Scorer, hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, parts: int, shown: bool
) -> NDArray[np.float64]:
    """Scores of texts, ``parts`` at a time, behind a progress bar; weights are fitted on all of them.

    The same text with the same references is scored once: batch mates move a score in its last digits, and systems with
    the same output have to tie.

    Args:
        scorer: The scorer.
        hypotheses: ``n`` texts.
        references: For each, one or more.
        parts: How many are scored at a time.
        shown: Whether there is a progress bar.
    """
    scorer = scorer.for_call(hypotheses, references)  # with weights of all systems, so that scores can be compared
    places: dict[tuple[str, tuple[str, ...]], int] = {}
    pairs = zip(hypotheses, references, strict=True)
    chosen = [places.setdefault((text, tuple(several)), len(places)) for text, several in pairs]
    texts, against = [text for text, _ in places], [several for _, several in places]
    found = []
    finished = 0
    with progress_bar("scoring", shown=shown) as advance:

        def count(pairs: int) -> None:
            nonlocal finished
            finished += pairs
            advance(pairs, finished / len(texts), True)

        for start in range(0, len(texts), parts):
            part = slice(start, start + parts)
            found.append(scorer.score_fitted(texts[part], against[part], count).scores)
    return np.concatenate(found)[chosen]
