"""``textmover analyse-layers``: similarity of an encoder's token vectors by layer and centering."""

from __future__ import annotations

import argparse
import json
import sys

from textmover.experiments.anisotropy import SIMILARITIES, analyse, draw_layers
from textmover.experiments.papers.specification import LayerSpec
from textmover.files import check_output, check_unnamed, write_output
from textmover.readers.column_flags import errors_with_flag_names
from textmover.report import check_matplotlib, report_files
from textmover.report.table_formats import pick, plain
from textmover.terminal import print_table, progress_bars
from textmover.types import plural

NAME = "analyse-layers"  # name of the command, and the default name of its files
FLAGS = {"column": "--column", "encoder": "--encoder"}
HEADERS = ("centering", "layer", "baseline", "self-similarity", "intra-similarity")


def run(options: argparse.Namespace) -> None:
    """Analyse the layers of an encoder; print the result, and write a table and a figure."""
    table, figure = (check_output(path, [options.data]) for path in report_files(options.output or NAME, NAME))
    if options.output is None:
        check_unnamed(table, HEADERS[:3], *[figure] * (not options.no_figure))
    if not options.no_figure:
        check_matplotlib()
    centerings = tuple(dict.fromkeys(options.centering))
    spec = LayerSpec("", NAME, options.data, options.column, centerings, options.texts, options.pairs)
    with errors_with_flag_names(FLAGS), progress_bars(shown=not options.quiet) as advance:
        analysis, encoder = analyse(spec, options.data, options.encoder, options, advance)
    rows = [(row.centering, str(row.layer), pick(row, *SIMILARITIES)) for row in analysis.rows]
    lines = [
        ["centering", "layer", *(f"{one}{end}" for one in SIMILARITIES for end in ("", "_standard_error", "_pairs"))]
    ]
    lines += [[*place, *(repr(value) for one in values.values() for value in one)] for *place, values in rows]
    write_output("".join("\t".join(line) + "\n" for line in lines), table)
    if not options.no_figure:
        draw_layers(analysis, figure, encoder)
    files = [str(table)] if options.no_figure else [str(table), str(figure)]
    if options.format == "json":
        layers = [
            {
                **pick(row, "centering", "layer"),
                **{
                    name: {"mean": one.mean, "standard_error": one.error, "pairs": one.pairs}
                    for name, one in pick(row, *SIMILARITIES).items()
                },
            }
            for row in analysis.rows
        ]
        counts = pick(analysis, "texts", "tokens", "words")
        results = {**pick(options, "pairs", "seed"), "layers": plain(layers), "files": files}
        sys.stdout.write(json.dumps({"encoder": encoder, **counts, **results}, indent=2) + "\n")
        return
    cells = [(*place, *map(str, values.values())) for *place, values in rows]
    print_table(HEADERS, cells, numbers=HEADERS[1:], narrow=HEADERS)
    if not options.quiet:
        sys.stdout.write(
            f"\nMean cosine and its standard error over {plural(options.pairs, 'pair')} of each kind, drawn from "
            f"{plural(analysis.tokens, 'token')} of {plural(analysis.texts, 'text')} (words that occur in more than "
            f"one: {analysis.words}). Repeated pairs count once in the error.\nEncoder: {encoder}\n"
        )
