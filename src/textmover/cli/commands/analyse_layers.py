"""``textmover analyse-layers``: how alike an encoder's token vectors are, layer by layer and under each centring."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from textmover.cli.console import set_up_logging
from textmover.experiments.papers.layers import SIMILARITIES, choose_texts, draw_layers, estimates, layered_metric
from textmover.files import check_output, write_output
from textmover.modules.analysis import CENTERINGS, Estimate, LayerAnalysis, analyse_layers, with_all_layers
from textmover.modules.config import DEFAULT_ENCODER
from textmover.readers.segments import read_texts
from textmover.report import check_matplotlib, report_files
from textmover.terminal import console, print_table
from textmover.types import InputError

NAME = "analyse-layers"
"""Name of the command, and default name of its files."""

HEADERS = ("centering", "layer", "baseline", "self-similarity", "intra-similarity")


@dataclass(frozen=True)
class _Found:
    """An analysis, of which encoder it is, and of how the pairs were drawn."""

    analysis: LayerAnalysis
    encoder: str
    pairs: int
    seed: int


OPTIONS = (
    f"""
--data FILE (required): texts, one a line ('-' is standard input); with --column a CSV, TSV, JSON Lines or Parquet
--column COLUMN: column of the table that holds the texts
--encoder NAME (default {DEFAULT_ENCODER}): name on the hub, folder, or file of static word vectors, which are one
    layer; %(default)s if not given
--revision TEXT: commit or tag of the encoder on the hub
--device NAME: cpu, cuda, mps, …; a GPU is taken where there is one
--batch-tokens N (default 4096, at least 1): tokens to a batch of the encoder
--texts N (default 1000, at least 2): different texts to read, a random choice of the file's; %(default)s if not given
--pairs N (default 1000, at least 2): pairs of words to draw for each similarity; %(default)s if not given. Memory grows
    with it
--seed N (default 0): seed of the choice of texts and pairs
--centering {"|".join(CENTERINGS)}... (default {" ".join(CENTERINGS)}): means to subtract, one after the other; all if
    not given (the batch mean of the TWMD paper stands in for the corpus mean, and is not among them)
--output NAME (default {NAME}): where table and figure go: a folder, or a name, to which .tsv and .png are added; a name
    in .svg or .pdf says how the figure is drawn. %(default)s in this folder if not given
--no-figure: the table alone, which needs no matplotlib (extra report)
--format table|json (default table): of what is printed
--quiet: no progress, no notes; warnings remain
""",
)


def run(options: argparse.Namespace) -> None:
    """Analyse the layers of the encoder that the options name, print, and write table and figure."""
    set_up_logging(quiet=True)
    table, figure = (check_output(path, [options.data]) for path in report_files(options.output, NAME))
    if not options.no_figure:
        check_matplotlib()
    texts = choose_texts(_texts(options), options.texts, options.seed)
    found = _analyse(options, texts)
    write_output(_as_table(found.analysis), table)
    if not options.no_figure:
        draw_layers(found.analysis, figure, found.encoder)
    files = [str(table)] if options.no_figure else [str(table), str(figure)]
    if options.format == "json":
        sys.stdout.write(json.dumps(_as_json(found, files), indent=2) + "\n")
        return
    _print(found.analysis)
    if not options.quiet:
        analysis = found.analysis
        sys.stdout.write(
            f"\nMean cosine and its standard error over {found.pairs} pairs of each kind, drawn from {analysis.tokens} "
            f"tokens of {analysis.texts} texts ({analysis.words} different words occur in more than one).\n"
            f"Encoder: {found.encoder}\nFiles: {', '.join(files)}\n"
        )


def _texts(options: argparse.Namespace) -> list[str]:
    try:
        return read_texts(options.data, options.column)
    except InputError as error:
        raise InputError(str(error).replace("`column`", "`--column`")) from error


def _analyse(options: argparse.Namespace, texts: Sequence[str]) -> _Found:
    metric = layered_metric(options.encoder, options.revision, options.device)
    stream = console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    silent = options.quiet or not stream.is_terminal
    with Progress(*columns, console=stream, transient=True, disable=silent) as bar:
        task = bar.add_task("reading", total=len(texts))
        analysis = analyse_layers(
            with_all_layers(metric.parts),
            texts,
            centerings=tuple(dict.fromkeys(options.centering)),
            pairs=options.pairs,
            seed=options.seed,
            batch_tokens=options.batch_tokens,
            on_progress=lambda done: bar.update(task, advance=done),
        )
    return _Found(analysis, metric.parts.identity, options.pairs, options.seed)


def _print(analysis: LayerAnalysis) -> None:
    rows = [
        (row.centering, str(row.layer), *(_with_error(one) for one in estimates(row).values())) for row in analysis.rows
    ]
    print_table(HEADERS, rows, numbers=HEADERS[1:], narrow=HEADERS)


def _as_table(analysis: LayerAnalysis) -> str:
    """Tab-separated values with all digits; ``nan`` where there is nothing to draw."""
    columns = [f"{name}{end}" for name in SIMILARITIES for end in ("", "_standard_error", "_pairs")]
    lines = ["\t".join(["centering", "layer", *columns])]
    for row in analysis.rows:
        cells = (repr(value) for one in estimates(row).values() for value in one)
        lines.append("\t".join([row.centering, str(row.layer), *cells]))
    return "\n".join(lines) + "\n"


def _as_json(found: _Found, files: Sequence[str]) -> dict[str, Any]:
    analysis = found.analysis
    return {
        "encoder": found.encoder,
        "texts": analysis.texts,
        "tokens": analysis.tokens,
        "words": analysis.words,
        "pairs": found.pairs,
        "seed": found.seed,
        "layers": [
            {
                "centering": row.centering,
                "layer": row.layer,
                **{
                    name: {"mean": _or_null(one.mean), "standard_error": _or_null(one.error), "pairs": one.pairs}
                    for name, one in estimates(row).items()
                },
            }
            for row in analysis.rows
        ],
        "files": list(files),
    }


def _with_error(one: Estimate) -> str:
    if math.isnan(one.mean):
        return "-"
    mean = round(one.mean, 3) + 0.0  # no minus before a zero
    return f"{mean:.3f} ± {'-' if math.isnan(one.error) else f'{one.error:.3f}'}"


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
