"""``textmover robustness``: what changes of a text do to the scores of metrics, by kind of change."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from textmover.cli.console import set_up_logging
from textmover.cli.options.columns import SPLIT
from textmover.cli.options.metric import CACHE, metric_options
from textmover.cli.options.perturbations import (
    NEEDED,
    PERTURBATION_FLAGS,
    chosen_types,
    left_out_types,
    load_neighbour_search,
    load_parses,
    perturbation_options,
)
from textmover.experiments.evaluation.metrics import BASELINES, Metrics
from textmover.experiments.evaluation.output import write_scores
from textmover.experiments.page import FORMATS, Page, as_text, print_blocks
from textmover.experiments.robustness import (
    KEEPING,
    YARDSTICK,
    Subjects,
    blocks,
    change,
    draw_drops,
    kind_names,
    read_subjects,
)
from textmover.files import check_output, write_output
from textmover.meta_evaluation.robustness import robustness
from textmover.readers.column_flags import flags_named
from textmover.report import check_matplotlib, report_files
from textmover.terminal import progress_bars
from textmover.types import InputError

NAME = "robustness"
"""Name of the command, and of its files in a folder."""

TITLE = "Robustness to changes of the text"

PAPER = "Rony et al. 2022 (RoMe), section 4.6 and table 7"

PARSES = "--perturbation-parser"
"""The flag of the parser that makes passive and active possible; ``--parser`` is a field of RoMe."""

NEEDED_HERE = {**NEEDED, "parser": f"{PARSES} NAME"}

FLAGS = {
    **PERTURBATION_FLAGS,
    "types": "--kinds",
    "parses": f"{PARSES} NAME",
    "hypothesis": "--column",
    "references": "--reference-column",
}
"""The flag behind each argument that an error may name."""

SUBSTITUTE = (
    "No person rated these versions, and the ratings behind RoMe's table 7 are not public. In their place stands the "
    "severity that was written down for each kind of change (docs/perturbations.md); a correlation with it is no "
    "correlation with people and not to be compared with that table."
)
NOT_RATED = (
    "The ratings that came with the texts ({rated}) have no part in this: people gave them to the texts as they are. A "
    "rating less a severity would be on no scale that people used. Versions that people have rated are judged with "
    "`textmover evaluate --statistic spearman --group KIND`."
)
OWN = (
    "Each text is its own reference, which gives the text as it is the best score that there is: scoring below it is "
    "no feat. Give references of people with --reference-column or --set where there are some."
)


class _Files(NamedTuple):
    """Paths of the outputs."""

    page: Path
    table: Path
    figure: Path


OPTIONS = (
    f"""
-i, --input FILE (required): texts in English, one a line ('-' is standard input); with --column, --reference-column or
    --set a CSV, TSV, JSON Lines, Parquet or hub:owner/name
--column COLUMN: column of the table that holds the texts
--reference-column COLUMN (repeat): column of references that texts and versions are scored against; repeat it for
    several; the texts themselves if not given
--set NAME: what the columns mean: a built-in description of judged texts (docs/judgement-sets.md) or a YAML file
{SPLIT}
--limit N (default 300, at least 2): different texts to take, a random choice of the file's; %(default)s if not given
{perturbation_options(types="--kinds", parses=PARSES, usual="all")}
--models NAME... (repeat, as model): several of --model at once
{BASELINES}
--samples N (default 1000, at least 1): draws of the bootstrap
--format table|{"|".join(FORMATS.values())} (default table): of what is printed
--output NAME: write a page (.md), a table with all digits (.csv) and a heat map (.png): a folder, or a name to which
    these are added; a name in .svg or .pdf says how the figure is drawn
--no-figure: no heat map, which needs matplotlib (extra report)
--keep FILE: write texts, versions, severities and scores there, as TSV, as soon as scored
""",
    *metric_options(several=True),
    CACHE,
    # What `Metrics` asks for: there are no scores of versions before there are versions.
    lambda parser: parser.set_defaults(scores=None, metric_column=None),
)


def run(options: argparse.Namespace) -> None:
    """Change the texts that the options name, score them with each metric, print, and write page and figure."""
    set_up_logging(quiet=True)
    files = _files(options)
    keep = None if options.keep is None else check_output(options.keep, [options.input])
    metrics = Metrics(options)
    with flags_named(FLAGS):
        types, left_out = _types(options)
        subjects = read_subjects(options)
        parses, neighbours = load_parses(options), load_neighbour_search(options)
    metrics.load()
    with progress_bars(shown=not options.quiet) as advance:
        changed = change(
            subjects,
            types,
            seed=options.seed,
            parses=parses,
            neighbours=neighbours,
            on_progress=lambda done: advance("perturbing", done, len(subjects.texts)),
        )
        total = len(changed.judgements) * metrics.steps
        rows = metrics.scores(changed.judgements, lambda done: advance("scoring", done, total))
    if keep is not None:
        write_scores(changed.judgements, [*changed.facts, *rows], keep)
    found = robustness(
        changed.versions, rows, keeping=KEEPING, yardstick=YARDSTICK, samples=options.samples, seed=options.seed
    )
    kinds = kind_names(types)
    figure = None if files is None or options.no_figure or kinds == [YARDSTICK] else files.figure
    page = Page(
        TITLE,
        PAPER,
        NAME,
        _command(options),
        tuple(_notes(subjects, kinds, left_out, options.seed)),
        tuple(blocks(found, kinds, None if figure is None else figure.name)),
    )
    if files is not None:
        write_output(as_text(page, "markdown"), files.page)
        write_output(as_text(page, "csv"), files.table)
        if figure is not None:
            draw_drops(found, kinds, figure)
    _print(page, options, [] if files is None else [files.page, files.table, *([figure] if figure else [])])


def _files(options: argparse.Namespace) -> _Files | None:
    """Page, table and figure, checked before the work; nothing where none is wanted."""
    if options.output is None:
        return None
    output = options.output
    if Path(output).suffix.lower() in FORMATS and not Path(output).is_dir():
        output = str(Path(output).with_suffix(""))
    table, figure = report_files(output, NAME)
    files = _Files(table.with_suffix(".md"), table.with_suffix(".csv"), figure)
    for path in files:
        check_output(path, [options.input])
    if not options.no_figure:
        check_matplotlib()
    return files


def _types(options: argparse.Namespace) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The wanted kinds of change and always the yardstick; and those that are left out for want of something."""
    types, left_out = chosen_types(options, NEEDED_HERE)
    if types.pop("identity", None) is not None and options.types is not None:
        raise InputError("Expected `types` that change a text, but got identity: leave it out.")
    return {**types, YARDSTICK: (1,)}, left_out


def _notes(subjects: Subjects, kinds: Sequence[str], left_out: Sequence[str], seed: int) -> Iterator[str]:
    """Notes for reading the tables."""
    count, among = len(subjects.texts), subjects.among
    chosen = f"all {count:,}" if count == among else f"{count:,} of {among:,}"
    by_chance = "" if count == among else f" (chosen by seed {seed})"
    against = "themselves" if subjects.own else "their references"
    yield f"Texts: {chosen} different texts of {Path(subjects.name).name}{by_chance}, scored against {against}."
    kept = [name for name in kinds if name in KEEPING]
    if kept:
        yield f"Meant to keep the meaning: {', '.join(kept)}. By rule, so that a few of them do not."
    yield SUBSTITUTE
    if subjects.rated:
        yield NOT_RATED.format(rated=", ".join(subjects.rated))
    if subjects.own:
        yield OWN
    yield from (f"{one}." for one in left_out_types(left_out, NEEDED_HERE))


def _command(options: argparse.Namespace) -> str:
    """Command line with the input's name alone."""
    asked = [Path(one).name if one == options.input else one for one in options.command_line]
    return shlex.join(["textmover", *asked])


def _print(page: Page, options: argparse.Namespace, files: Sequence[Path]) -> None:
    """Tables with what is said of them, or the page in another format."""
    if options.format != "table":
        sys.stdout.write(as_text(page, options.format))
        return
    if not options.quiet:
        sys.stdout.write("".join(f"{note}\n" for note in page.notes) + "\n")
    print_blocks(page.blocks, (), quiet=options.quiet)
    if files and not options.quiet:
        sys.stdout.write(f"\nFiles: {', '.join(map(str, files))}\n")
