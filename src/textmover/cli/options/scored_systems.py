"""Read the systems to compare or rank, and score their texts unless scores are given."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from textmover.cli.options.input_tables import first_set_flag, refuse_table_options, source_of
from textmover.files import write_output
from textmover.meta_evaluation.statistics.score_arrays import Vector
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.judgements.rows import read_cells
from textmover.readers.lines import COMPRESSIONS
from textmover.readers.row_streams import Row, TableFile, TextFiles
from textmover.readers.system_scores import SystemScores, check_same_segments, digest_signature, read_system_scores
from textmover.report.explanation.output import Target, choose_target
from textmover.runs.score_run import score_pairs
from textmover.scoring.metric_field_options import given_fields
from textmover.scoring.scorer_from_options import load_scorer, references_of, take_by_language
from textmover.types import InputError, plural

TEXTS = (".txt", *COMPRESSIONS)  # suffixes of text files


class ScoredSystems(NamedTuple):
    """Systems on the same segments."""

    scores: dict[str, Vector]  # segment scores, ``[n]``, by system
    rows: Sequence[Row]  # their texts, one row per segment; empty if only scores were given
    lines: Sequence[int]  # line or row of each segment
    signature: str  # signature of the scores
    higher_is_better: bool  # false for distances
    warnings: list[str]  # sentences about unusual texts


def chosen_output(options: argparse.Namespace, suffixes: Mapping[str, str]) -> Target:
    """Return the format and file of the output, checked before the work."""
    files = [*(options.hypotheses or ()), *(options.references or ()), *(options.scores or ())]
    files += [one for one in (options.sources, options.data) if one is not None]
    return choose_target(options, files, suffixes, ())


@contextlib.contextmanager
def printed_to(output: Path | None) -> Iterator[None]:
    """Write what is printed to the file, unless ``output`` is ``None``."""
    with contextlib.nullcontext() if output is None else contextlib.redirect_stdout(io.StringIO()) as written:
        yield
    if output is not None and written is not None:
        write_output(written.getvalue(), output)


def scored_systems(options: argparse.Namespace) -> ScoredSystems:
    """Return the systems that the options name; score them unless scores are given."""
    if options.scores is not None:
        return _read_systems(options)
    if flag := first_set_flag(options, "score_columns", "lower_is_better"):
        raise InputError(f"Expected `{flag}` together with --scores, but got it alone: leave it out.")
    files = _files(options)
    names = _names(files.systems, options.names, files=options.hypotheses is not None)
    rows = _rows(files)
    # Texts ordered by system; each distinct pair is scored once.
    hypotheses = [row.hypotheses[place] for place in range(len(names)) for row in rows]
    references = [row.references for row in rows] * len(names)
    count = len(rows)
    systems = [name for name in names for _ in rows]
    all_scores, signature, higher, warnings = score_texts(options, hypotheses, references, systems, count)
    scores = {name: all_scores[place * count : (place + 1) * count] for place, name in enumerate(names)}
    return ScoredSystems(scores, rows, [row.line for row in rows], signature, higher, warnings)


def score_texts(
    options: argparse.Namespace,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    systems: Sequence[str],
    parts: int,
) -> tuple[Vector, str, bool, list[str]]:
    """Score texts of systems, ``parts`` at a time; return scores, signature, whether higher is better, and warnings."""
    take_by_language(options, hypotheses, references)
    scorer = load_scorer(options)
    scores, warnings = score_pairs(scorer, hypotheses, references, systems, parts=parts, shown=not options.quiet)
    signature = scorer.signature.compared(scorer.metric, references)
    return scores, str(signature), scorer.metric.higher_is_better, warnings


def _read_systems(options: argparse.Namespace) -> ScoredSystems:
    """Read the systems from given scores, with their texts if these are given too."""
    refuse_metric(options, "--scores")
    # Without --data, its options apply to the table of scores.
    for_scores = options.data is None
    split = (options.split if for_scores else None) or "train"
    with errors_with_flag_names({"columns": "--score-columns"}):
        table = read_system_scores(
            options.scores, options.score_columns, format=options.data_format if for_scores else None, split=split
        )
    has_texts = options.hypotheses is not None or options.data is not None
    if len(table.scores) < 2:
        raise InputError(
            f"Expected the scores of two systems, but got those of {next(iter(table.scores))} alone: give a column or "
            "a file of another."
        )
    if options.references is not None and not has_texts:
        raise InputError("Expected `--references` together with --hypotheses, but got it alone: name both, or none.")
    files = _files(options) if has_texts else None
    if files is not None and len(files.systems) != len(table.scores):
        raise InputError(
            f"Expected scores of the {plural(len(files.systems), 'system')} whose texts are given, but got those of "
            f"{len(table.scores)} ({', '.join(table.scores)}): name their columns with --score-columns, in the order "
            "of the systems."
        )
    by_file = options.hypotheses is not None or (not has_texts and len(options.scores) > 1)
    names = _names(tuple(table.scores) if files is None else files.systems, options.names, files=by_file)
    if files is not None:
        _check_order(*(_names(tuple(one), None, files=True) for one in (table.scores, files.systems)))
    rows = [] if files is None else _rows(files)
    if rows and len(rows) != len(table.lines):
        raise InputError(
            f"Expected {plural(len(rows), 'score')}, one for each segment, but got {len(table.lines)} in "
            f"{options.scores[0]}: give the scores of the same segments."
        )
    if options.data not in (None, "-"):  # standard input is read once
        cells = read_cells(options.data, None, format=options.data_format, split=options.split or "train")
        check_same_segments(table, SystemScores({}, table.lines, rows=cells.rows))
    scores = dict(zip(names, table.scores.values(), strict=True))
    lines = [row.line for row in rows] or table.lines
    signature = table.signature or digest_signature(options.scores, table)
    return ScoredSystems(scores, rows, lines, signature, not options.lower_is_better, [])


def _check_order(scores: Sequence[str], texts: Sequence[str]) -> None:
    """Raise an error if the scores of a system and its texts, by their names, have different places."""
    moved = next((name for name, other in zip(scores, texts, strict=True) if name != other and name in texts), None)
    if moved is not None:
        raise InputError(
            f"Expected scores and texts of the systems in one order, but got scores of {', '.join(scores)} and texts "
            f"of {', '.join(texts)}: name both in the same order (--score-columns orders columns)."
        )


def refuse_metric(options: argparse.Namespace, instead: str) -> None:
    """Raise :class:`InputError` for options of a metric; ``instead`` is the option with existing scores."""
    names = ("model", "fit_on", "statistics", "cache", "revision")
    given = [*(name for name in names if getattr(options, name) is not None), *given_fields(options)]
    if given:
        flag = given[0].replace("_", "-")
        raise InputError(f"Expected `--{flag}` or `{instead}`, but got both: existing scores need no metric.")


def _files(options: argparse.Namespace) -> TextFiles | TableFile:
    if options.data is not None:
        if options.references is not None:
            raise InputError("Expected `--references` together with --hypotheses, but got --data: leave one out.")
        columns = tuple(options.hypothesis_column or ())
        if len(columns) < 2:
            raise InputError(
                f"Expected two systems to compare, but got {len(columns) or 'no'} --hypothesis-column: name one for "
                f"each system{', or the column of their names with --system-column' * hasattr(options, 'group')}."
            )
        split = options.split or "train"
        texts = (options.data, columns, references_of(options))
        return TableFile(*texts, format=options.data_format, split=split, source=source_of(options))
    if options.hypotheses is None:
        raise InputError(
            "Expected the texts of two systems or their scores, but got none: give --hypotheses, --data or --scores."
        )
    refuse_table_options(options, "--hypotheses")
    if len(options.hypotheses) < 2:
        raise InputError(
            f"Expected two systems to compare, but got {options.hypotheses[0]} alone: name the file of another after "
            "--hypotheses."
        )
    return TextFiles(tuple(options.hypotheses), tuple(options.references or ()), source=source_of(options))


def _rows(files: TextFiles | TableFile) -> list[Row]:
    """Read all rows, so that invalid texts are reported before the metric is loaded."""
    with errors_with_flag_names():
        rows = list(files)
    if not rows:
        raise InputError(f"Expected at least one segment to compare on, but {files.systems[0]} has none.")
    return rows


def _names(systems: Sequence[str], given: Sequence[str] | None, *, files: bool) -> tuple[str, ...]:
    """Return the names of systems: given ones, else their columns or the shortest distinct file names."""
    if given is not None:
        if len(given) != len(systems):
            raise InputError(f"Expected {plural(len(systems), 'name')}, one for each system, but got {len(given)}.")
        if len(set(given)) < len(given):
            raise InputError(f"Expected names that tell the systems apart, but got {' '.join(given)}.")
        return tuple(given)
    if files or all(Path(name).suffix.lower() in TEXTS for name in systems):  # `textmover score` writes file names
        file_names = tuple(Path(name).name for name in systems)
        for names in (tuple(name.partition(".")[0] for name in file_names), file_names):
            if all(names) and len(set(names)) == len(names):
                return names
    return tuple(systems)
