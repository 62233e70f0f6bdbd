"""``textmover explain``: show which words contribute to the score of a text."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator, Sequence

from textmover.cli.options.input_tables import first_set_flag
from textmover.modules.tokens.text_arguments import normalize_references
from textmover.readers.column_flags import files_of
from textmover.readers.lines import is_read_once, refuse_read_once
from textmover.readers.row_streams import GivenTexts, Row, TextFiles
from textmover.report.explanation import page
from textmover.report.explanation.explanations import ExplainedLine
from textmover.report.explanation.output import choose_target, write_explained
from textmover.scoring.explain import explain_fitted
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import load_scorer, take_by_language, take_default
from textmover.terminal import progress_bars
from textmover.types import InputError, NoReferenceError

TOO_MANY = {
    "picture": "Expected one line for a picture, but got several: name it with --line, or write a page (.html).",
    "html": "Expected at most {most} lines for a page, but got more: choose fewer with --lines.",
}


def run(options: argparse.Namespace) -> None:
    """Explain the scores of the pairs that the options name."""
    take_default(options)
    files = _files(options)
    target = choose_target(options, files.paths if files else ())
    if files is None:
        rows, remark = list(GivenTexts(tuple(options.texts), options.sources)), ""
    else:
        rows, remark = _select_lines(options, files, target.format)
    for row in rows:  # report invalid rows before loading the metric
        with _line_in_errors(row, several=len(rows) > 1):
            normalize_references(row.hypotheses, [row.references], row.source and [row.source])
    take_by_language(options, (row.hypotheses[0] for row in rows), [row.references for row in rows])
    scorer = load_scorer(options)
    if scorer.metric.fits_on_call:
        _fit(scorer, rows[0], files)
    explained = _explained(scorer, rows, of_file=files is not None, quiet=options.quiet)
    signature = write_explained(target, explained, remark=remark, expected=len(rows))
    if not options.quiet:
        if remark:
            sys.stderr.write(f"{remark}\n")
        if target.format in ("text", "picture") or target.path is not None:
            sys.stderr.write(f"Signature: {signature}\n")


def _explained(scorer: Scorer, rows: Sequence[Row], *, of_file: bool, quiet: bool) -> Iterator[ExplainedLine]:
    with progress_bars(shown=not quiet and len(rows) > 1 and not sys.stdout.isatty()) as advance:
        for row in rows:
            with _line_in_errors(row, several=len(rows) > 1):
                explanation = explain_fitted(scorer, row.hypotheses[0], row.references)
            advance("explaining", 1, len(rows))
            yield ExplainedLine(explanation, row.line if of_file else None)


@contextlib.contextmanager
def _line_in_errors(row: Row, *, several: bool) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if isinstance(error, NoReferenceError) or not several:
            raise
        raise InputError(f"Line {row.line}: {error}") from error


def _files(options: argparse.Namespace) -> TextFiles | None:
    """Return the files that the options name; ``None`` if the texts are arguments."""
    hypotheses, references = files_of(options)
    if not hypotheses:
        if flag := first_set_flag(options, "line", "lines"):
            raise InputError(f"Expected `{flag}` together with -i, but got it alone: name the files.")
        return None
    if options.texts:
        raise InputError("Expected either two texts or -i with files, but got both: leave one out.")
    if len(hypotheses) > 1:
        raise InputError(f"Expected one file after --hypotheses, but got {len(hypotheses)}: name one system.")
    return TextFiles(hypotheses, references, source=options.sources)


def _line_range(options: argparse.Namespace, form: str) -> tuple[int, int | None]:
    """Return the first and last line to explain, from 1; ``None`` as last line means to the end."""
    if options.line is not None:
        if options.line < 1:
            raise InputError(f"Expected `--line` to be 1 or above, but got {options.line}: lines are counted from 1.")
        return options.line, options.line
    if options.lines is None:
        return 1, None if form == "html" else 1
    match = re.fullmatch(r"\s*(\d+)\s*(?:(-)\s*(\d+)?)?\s*", options.lines, re.ASCII)
    if match is None:
        raise InputError(f"Expected `--lines` to be like 3, 1-20 or 5-, but got {options.lines!r}.")
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if first < 1:
        raise InputError(f"Expected `--lines` from 1 on, but got {options.lines}: lines are counted from 1.")
    if last is not None and last < first:
        raise InputError(f"Expected `--lines` from the lower line up, but got {options.lines}: write {last}-{first}.")
    return first, last


def _select_lines(options: argparse.Namespace, files: TextFiles, form: str) -> tuple[list[Row], str]:
    """Return the rows of the selected lines, and a remark if lines were cut off."""
    first, last = _line_range(options, form)
    most = {"html": page.MOST_LINES, "picture": 1}.get(form)
    piped = any(map(is_read_once, files.paths))
    rows: list[Row] = []
    count = 0
    with contextlib.closing(iter(files)) as reading:
        for row in reading:
            count = row.line
            if row.line >= first and (last is None or row.line <= last):
                if most is None or len(rows) < most:
                    rows.append(row)
                elif options.lines is not None:
                    raise InputError(TOO_MANY[form].format(most=most))
            if last is not None and row.line >= last and piped:
                break  # do not wait for a pipe; files are read to the end to check that their lengths are equal
    wanted = first if last is None else last
    if wanted > count:
        raise InputError(
            f"Expected `--line{'s' * (first != last)}` to be at most {count}, the number of lines, but got {wanted}: "
            f"give a line from 1 to {count}."
        )
    if options.line is not None or options.lines is not None or len(rows) == count:
        return rows, ""
    shown = "Line 1" if len(rows) == 1 else f"The first {len(rows)}"
    return rows, f"{shown} of {count:,} lines; choose others with --lines."


def _fit(scorer: Scorer, row: Row, files: TextFiles | None) -> None:
    """Fit the idf weights of a metric on all texts, as ``textmover score`` does."""
    if files is None:
        scorer.fit_on_call(row.hypotheses, [row.references])
        return
    way_out = "give a file, or statistics with --statistics FILE"
    refuse_read_once(files.paths, "where the metric fits idf weights on the texts", way_out)
    rows = list(files)
    scorer.fit_on_call([one.hypotheses[0] for one in rows], [one.references for one in rows])
