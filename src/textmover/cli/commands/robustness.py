"""``textmover robustness``: what changes of a text do to the scores of metrics, by kind of change."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

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
    blocks,
    change,
    draw_drops,
    kind_names,
    notes,
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
    files = _files(options)
    keep = None if options.keep is None else check_output(options.keep, [options.input])
    metrics = Metrics(options)
    with flags_named(FLAGS):
        types, left_out = chosen_types(options, NEEDED_HERE)
        if types.pop("identity", None) is not None and options.types is not None:
            raise InputError("Expected `types` that change a text, but got identity: leave it out.")
        types = {**types, YARDSTICK: (1,)}
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
    drawn = {"samples": options.samples, "seed": options.seed}
    found = robustness(changed.versions, rows, keeping=KEEPING, yardstick=YARDSTICK, **drawn)
    kinds = kind_names(types)
    if options.no_figure or kinds == [YARDSTICK]:
        files = files[:2]
    figure = files[2] if len(files) > 2 else None
    # The input's name alone.
    command = [Path(one).name if one == options.input else one for one in options.command_line]
    page = Page(
        "Robustness to changes of the text",
        "Rony et al. 2022 (RoMe), section 4.6 and table 7",
        NAME,
        shlex.join(["textmover", *command]),
        tuple(notes(subjects, kinds, left_out_types(left_out, NEEDED_HERE), options.seed)),
        tuple(blocks(found, kinds, None if figure is None else figure.name)),
    )
    for path, form in zip(files, ("markdown", "csv"), strict=False):
        write_output(as_text(page, form), path)
    if figure is not None:
        draw_drops(found, kinds, figure)
    if options.format != "table":
        sys.stdout.write(as_text(page, options.format))
        return
    if not options.quiet:
        sys.stdout.write("".join(f"{note}\n" for note in page.notes) + "\n")
    print_blocks(page.blocks, (), quiet=options.quiet)
    if files and not options.quiet:
        sys.stdout.write(f"\nFiles: {', '.join(map(str, files))}\n")


def _files(options: argparse.Namespace) -> list[Path]:
    """Page, table and figure, checked before the work; nothing where none is wanted."""
    if options.output is None:
        return []
    named = Path(options.output).suffix.lower() in FORMATS and not Path(options.output).is_dir()
    table, figure = report_files(str(Path(options.output).with_suffix("")) if named else options.output, NAME)
    files = [table.with_suffix(".md"), table.with_suffix(".csv"), figure]
    for path in files:
        check_output(path, [options.input])
    if not options.no_figure:
        check_matplotlib()
    return files
