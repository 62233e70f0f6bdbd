"""``textmover robustness``: measure how perturbations change the scores of metrics, by type of perturbation."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from textmover.cli.options import perturbations
from textmover.experiments import robustness as experiment
from textmover.experiments.evaluation.metrics import KeptScores, Metrics
from textmover.experiments.evaluation.sets import ENDINGS, check_no_partial_table, write_scores
from textmover.files import check_output, write_output
from textmover.meta_evaluation.robustness import robustness
from textmover.readers.column_flags import errors_with_flag_names
from textmover.report import check_matplotlib, report_files
from textmover.report.table_formats import Page, page_text, print_blocks
from textmover.terminal import progress_bars
from textmover.types import InputError

NAME = "robustness"  # name of the command, and of its files in a folder
PARSER = "--perturbation-parser NAME"  # for passive and active; `--parser` is a field of RoMe

NEEDED_HERE = {**perturbations.NEEDED, "parser": PARSER}

FLAGS = {**perturbations.FLAGS, "parses": PARSER, "hypothesis": "--column", "references": "--reference-column"}
"""Flag by the argument that an error may name."""


def run(options: argparse.Namespace) -> None:
    """Perturb the texts, score them with each metric, print the result, and write page and figure."""
    files = _files(options)
    keep = None if options.keep is None else check_output(options.keep, [options.input], ENDINGS, "--keep")
    kept = KeptScores({} if keep is None else {NAME: check_no_partial_table(keep)})
    metrics = Metrics(options)
    with errors_with_flag_names(FLAGS):
        types, left_out = perturbations.chosen_types(options, NEEDED_HERE)
        if types.pop("identity", None) is not None and options.types is not None:
            raise InputError("Expected `types` that change a text, but got identity: leave it out.")
        types = {**types, experiment.YARDSTICK: (1,)}
        subjects = experiment.read_subjects(options)
        perturbations.warn_of_other_languages(subjects.texts)
        parses, neighbours = perturbations.load_resources(options)
    metrics.load()
    with kept.told(), progress_bars(shown=not options.quiet) as advance:
        changed = experiment.change(subjects, types, parses, neighbours, options.seed, advance)
        total = len(changed.judgements) * metrics.steps
        with kept.keeping(NAME, changed.judgements) as take:
            rows = metrics.scores(
                changed.judgements,
                lambda done: advance("scoring", done, total),
                lambda rows: take([*changed.facts, *rows]),
            )
    if keep is not None:
        write_scores(changed.judgements, [*changed.facts, *rows], keep)
    bootstrap = {"samples": options.samples, "seed": options.seed}
    result = robustness(changed.versions, rows, keeping=experiment.KEEPING, yardstick=experiment.YARDSTICK, **bootstrap)
    kinds = experiment.kind_names(types)
    drawn = not options.no_figure and kinds != [experiment.YARDSTICK]
    figure = files[2] if files and drawn else None
    command = [Path(one).name if one == options.input else one for one in options.command_line]
    page = Page(
        "Robustness to changes of the text",
        "Rony et al. 2022 (RoMe), section 4.6 and table 7",
        NAME,
        shlex.join(["textmover", *command]),
        tuple(experiment.notes(subjects, kinds, perturbations.left_out_types(left_out, NEEDED_HERE), options.seed)),
        tuple(experiment.blocks(result, kinds, None if figure is None else figure.name)),
    )
    for path, form in zip(files, ("markdown", "csv"), strict=False):
        write_output(page_text(page, form), path)
    if figure is not None:
        experiment.draw_drops(result, kinds, figure)
    if options.format != "table":
        sys.stdout.write(page_text(page, options.format))
        return
    if not options.quiet:
        sys.stdout.write("".join(f"{note}\n" for note in page.notes) + "\n")
    print_blocks(page.blocks, (), quiet=options.quiet)


def _files(options: argparse.Namespace) -> list[Path]:
    """Return the paths of page, table and figure, checked before the work; empty without ``--output``."""
    if options.output is None:
        return []
    path = Path(options.output)
    has_suffix = path.suffix.lower() in (".md", ".csv") and not path.is_dir()
    table, figure = report_files(str(path.with_suffix("")) if has_suffix else options.output, NAME)
    files = [table.with_suffix(".md"), table.with_suffix(".csv"), figure]
    for path in files:
        check_output(path, [options.input])
    if not options.no_figure:
        check_matplotlib()
    return files
