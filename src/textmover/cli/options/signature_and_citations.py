"""``--signature`` and ``--cite``: the description of a metric for a paper, for every command that has one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from textmover.checkpoints.citations import bibtex, cited
from textmover.cli.options.columns import first_given
from textmover.readers.segments import read_lines
from textmover.scoring.config_options import given_fields
from textmover.scoring.mbr import mbr_signature
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_options import build_scorer, take_default
from textmover.types import Signature

USED_FOR: Mapping[str, tuple[str, ...]] = {  # keys of what a command does beside scoring
    "mbr": ("eikema-aziz-2022-sampling",),
    "compare": ("koehn-2004-statistical", "riezler-maxwell-2005-pitfalls"),
}


def print_cite(options: argparse.Namespace) -> None:
    """Print BibTeX of each metric and of what the command does beside scoring."""
    found = [
        cited(one.model, revision=one.revision, used_for=USED_FOR.get(options.command, ()), **given_fields(one))
        for one in _metrics(options)
    ]
    sys.stdout.write(bibtex(found))


def print_signature(options: argparse.Namespace) -> None:
    """Print a paragraph on each metric, and one on the tests of the command."""
    # Not above: it brings SciPy along, for which no other command line should wait.
    from textmover.report.descriptions import describe_metric, describe_tests, latex_paragraph

    def write(told: str, before: str) -> None:
        sys.stdout.write(before + (latex_paragraph(told) if options.signature == "latex" else told) + "\n")

    for number, one in enumerate(_metrics(options)):
        scorer = build_scorer(one)
        if getattr(one, "fit_on", None) is not None:
            scorer.fit(read_lines(one.fit_on))
        waits = scorer.metric.needs_fit
        signature = _signature(one, scorer)
        if waits:  # fingerprints of statistics that have no values yet
            names = (name for name in ("weights", "centering") if "@" in signature.entries.get(name, ""))
            signature = signature.extended(**{name: signature.entries[name].partition("@")[0] for name in names})
        write(describe_metric(one.model, scorer.metric, signature), "\n" * (number > 0))
        if waits and not one.quiet:
            sys.stderr.write(
                f"Note: {one.model} fits statistics on texts. The signature that `textmover {options.command}` prints "
                "with its results names them too: take that one.\n"
            )
    tests = describe_tests(options.command, options)
    if tests is not None:
        write(tests, "\n")


def _signature(options: argparse.Namespace, scorer: Scorer) -> Signature:
    if options.command != "mbr":
        return scorer.signature
    columns = {name: getattr(options, f"{name}_column") is not None for name in ("references", "weights")}
    sources = first_given(options, "sources", "source_column") is not None
    return mbr_signature(scorer, include_self=options.include_self, sources=sources, **columns)


def _metrics(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of each metric that is named."""
    for model in options.model if isinstance(options.model, list) else [options.model]:
        one = argparse.Namespace(**{**vars(options), "model": model})
        take_default(one)
        yield one
