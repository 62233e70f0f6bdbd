"""``--signature`` and ``--cite``: describe a metric for a paper, for all commands with a metric."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from textmover.checkpoints.citations import bibtex, cited
from textmover.cli.options.input_tables import first_set_flag
from textmover.readers.segments import read_lines
from textmover.scoring.mbr import mbr_signature
from textmover.scoring.metric_field_options import given_fields
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import build_scorer, take_default
from textmover.types import InputError, Signature

USED_FOR: Mapping[str, tuple[str, ...]] = {  # citation keys of a command's methods other than scoring
    "mbr": ("eikema-aziz-2022-sampling",),
    "compare": ("koehn-2004-statistical", "riezler-maxwell-2005-pitfalls"),
}


def print_cite(options: argparse.Namespace) -> None:
    """Print BibTeX entries of each metric and of the other methods of the command."""
    citations = [
        cited(one.model, revision=one.revision, used_for=USED_FOR.get(options.command, ()), **given_fields(one))
        for one in _metrics(options)
    ]
    sys.stdout.write(bibtex(citations))


def print_signature(options: argparse.Namespace) -> None:
    """Print a paragraph about each metric, and one about the tests of the command."""
    # Late import: it imports SciPy, which is slow and not needed otherwise.
    from textmover.report.paper_sentences import describe_metric, describe_tests, latex_paragraph

    def write(text: str, before: str) -> None:
        sys.stdout.write(before + (latex_paragraph(text) if options.signature == "latex" else text) + "\n")

    for number, each in enumerate(_metrics(options)):
        scorer = build_scorer(each)
        if getattr(each, "fit_on", None) is not None:
            scorer.fit(read_lines(each.fit_on))
        unfitted = scorer.metric.needs_fit
        signature = _signature(each, scorer)
        if unfitted:  # drop fingerprints of statistics that are not fitted yet
            names = (name for name in ("weights", "centering") if "@" in signature.entries.get(name, ""))
            signature = signature.extended(**{name: signature.entries[name].partition("@")[0] for name in names})
        write(describe_metric(each.model, scorer.metric, signature), "\n" * (number > 0))
        if unfitted and not each.quiet:
            sys.stderr.write(
                f"Note: {each.model} fits statistics on texts. The signature that `textmover {options.command}` prints "
                "with its results names them too: take that one.\n"
            )
    tests = describe_tests(options.command, options)
    if tests is not None:
        write(tests, "\n")


def _signature(options: argparse.Namespace, scorer: Scorer) -> Signature:
    if options.command != "mbr":
        return scorer.signature
    columns = {name: getattr(options, f"{name}_column") is not None for name in ("references", "weights")}
    sources = first_set_flag(options, "sources", "source_column") is not None
    return mbr_signature(scorer, include_self=options.include_self, sources=sources, **columns)


def _metrics(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yield the options of each named metric."""
    if first_set_flag(options, "output"):
        flag = first_set_flag(options, "signature", "cite")
        raise InputError(f"Expected {flag} without --output, but got both: redirect what is printed with > FILE.")
    for model in options.model if isinstance(options.model, list) else [options.model]:
        single = argparse.Namespace(**{**vars(options), "model": model})
        take_default(single)
        yield single
