"""``textmover perturb``: write graded corruptions of texts, with type, degree, severity and rating."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence

from textmover.cli.options import perturbations
from textmover.files import atomic_file, check_output, output_format
from textmover.perturbations.registry import ALIASES, KINDS, perturb_texts
from textmover.perturbations.severity import shipped_table
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.segments import read_texts
from textmover.terminal import print_table, progress_bars
from textmover.types import InputError, plural

COLUMNS = ("original", "perturbed", "type", "degree", "severity", "rating")
SUFFIXES = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def run(options: argparse.Namespace) -> None:
    """Perturb the texts that the options name, or list the types of perturbations."""
    if options.list:
        _print_list()
        return
    if options.input is None:
        raise InputError("Expected `--input FILE` with texts, but got none: name it ('-' is standard input).")
    form, target = options.format or "tsv", None
    if options.output is not None:
        target = check_output(options.output, [options.input])
        form = output_format(target, options.format, SUFFIXES)
    with errors_with_flag_names(perturbations.FLAGS):
        types, left_out = perturbations.chosen_types(options)
        texts = read_texts(options.input, options.column, split=options.split or "train")
        perturbations.warn_of_other_languages(texts)
        if form == "tsv":
            _check_one_line(texts)
        parses, neighbours = perturbations.load_resources(options)
    versions, changed_texts = 0, Counter[str]()
    with (
        contextlib.nullcontext(sys.stdout) if target is None else atomic_file(target) as stream,
        progress_bars(shown=not options.quiet) as advance,
    ):
        if form == "tsv":
            stream.write("\t".join(COLUMNS) + "\n")
        work = perturb_texts(
            texts, types, versions=options.versions, seed=options.seed, parses=parses, neighbours=neighbours
        )
        for place, perturbed in work:
            for version in perturbed:
                cells = (texts[place], version.text, version.type, version.degree, version.severity, version.rating)
                record = dict(zip(COLUMNS, cells, strict=True))
                line = "\t".join(map(str, cells)) if form == "tsv" else json.dumps(record, ensure_ascii=False)
                stream.write(line + "\n")
            versions += len(perturbed)
            changed_texts.update({version.type for version in perturbed})
            advance("perturbing", 1, len(texts))
        if not versions:
            raise InputError(
                f"Expected a text in {options.input} that {', '.join(types)} can change, but got none: give other "
                "texts or `--types`."
            )
    if options.quiet:
        return
    counts = ", ".join(f"{name} {changed_texts[name]:,}" for name in types)
    total = f"{plural(versions, 'version')} of {plural(len(texts), 'text')}; texts that each type applied to: {counts}"
    sys.stderr.write("".join(f"{message}\n" for message in (total, *perturbations.left_out_types(left_out))))


def _check_one_line(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, start=1):
        if re.search(r"[\t\n\r]", text):
            raise InputError(
                f"Expected texts without tabs and line breaks for a .tsv, but got one in text {number}: write JSON "
                "Lines, with --format jsonl or --output FILE.jsonl."
            )


def _print_list() -> None:
    table = shipped_table()
    rows = []
    for name, kind in KINDS.items():
        degrees = table.degrees(name)
        low = table.severity(name, degrees[0])
        also = [f"{other} ({', '.join(map(str, only))})" if only else other
                for other, (meant, only) in ALIASES.items() if meant == name]  # fmt: skip
        counted = " ".join(map(str, degrees)) + ("" if kind.degree == "1" else f" ({kind.degree})")
        severities = f"{low:g} to {table.ceilings[name]:g}" if table.ceilings[name] > low else f"{low:g}"
        needs = perturbations.NEEDED.get(kind.needs, "-")
        rows.append((name, kind.summary, counted, severities, needs, ", ".join(also) or "-"))
    print_table(("type", "what is done", "degrees", "severity", "needs", "also called"), rows, narrow=("type",))
