"""``--signature`` and ``--cite``: the description of a metric for a paper, for every command that has one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from textmover.cli.console import set_up_logging
from textmover.report.descriptions import describe_metric, describe_tests, latex_paragraph
from textmover.scoring.field_flags import FIELD
from textmover.scoring.scorer_options import build_scorer, take_default
from textmover.types import Signature

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

FORMS = ("text", "latex")

USED_FOR: Mapping[str, tuple[str, ...]] = {
    "mbr": ("eikema-aziz-2022-sampling",),
    "compare": ("koehn-2004-statistical", "riezler-maxwell-2005-pitfalls"),
}
"""Keys of what a command does beside scoring."""


class _Instead(argparse.Action):
    """Lets a command print something of its metric in place of its work, for which no texts are needed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values if isinstance(values, str) else True)
        namespace.run = _print_signature if self.dest == "signature" else _print_citations
        needed: list[Any] = [*parser._actions, *parser._mutually_exclusive_groups]
        for one in needed:  # as --help needs none of them
            one.required = False


def add_citing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that print the metric's description for a paper, and end the command."""
    group = parser.add_argument_group(
        "for a paper", "These need no texts: they tell of the metric, and nothing is done."
    )
    group.add_argument(
        "--signature",
        action=_Instead,
        nargs="?",
        const="text",
        choices=FORMS,
        metavar="text|latex",
        help="print a paragraph on the metric and one on tests, each with its full signature; text if nothing is named",
    )
    group.add_argument(
        "--cite",
        action=_Instead,
        nargs=0,
        help="print BibTeX of the metric, its encoder, solvers and training data, and of textmover",
    )


def _print_citations(options: argparse.Namespace) -> None:
    from textmover.checkpoints.citations import bibtex, cited

    found = [
        cited(one.model, revision=one.revision, used_for=USED_FOR.get(options.command, ()), **_fields(one))
        for one in _metrics(options)
    ]
    sys.stdout.write(bibtex(found))


def _print_signature(options: argparse.Namespace) -> None:
    set_up_logging(quiet=True)
    for number, one in enumerate(_metrics(options)):
        scorer = build_scorer(one)
        if getattr(one, "fit_on", None) is not None:
            from textmover.readers.segments import read_lines

            scorer.fit(read_lines(one.fit_on))
        waits = scorer.metric.needs_fit
        signature = _signature(one, scorer)
        signature = _without_prints(signature) if waits else signature
        told = describe_metric(one.model, scorer.metric, signature)
        sys.stdout.write("\n" * (number > 0) + (latex_paragraph(told) if options.signature == "latex" else told) + "\n")
        if waits and not one.quiet:
            sys.stderr.write(
                f"Note: {one.model} fits statistics on texts. The signature that `textmover {options.command}` prints "
                "with its results names them too: take that one.\n"
            )
    tests = describe_tests(options.command, options)
    if tests is not None:
        sys.stdout.write("\n" + (latex_paragraph(tests) if options.signature == "latex" else tests) + "\n")


def _signature(options: argparse.Namespace, scorer: Scorer) -> Signature:
    """The signature that the command gives its results."""
    if options.command != "mbr":
        return scorer.signature
    from textmover.scoring.mbr import mbr_signature

    columns = {name: getattr(options, f"{name}_column") is not None for name in ("references", "weights")}
    return mbr_signature(scorer, include_self=options.include_self, **columns)


def _metrics(options: argparse.Namespace) -> list[argparse.Namespace]:
    """The options of each metric that is named."""
    if not isinstance(options.model, list):
        one = copy(options)
        take_default(one)
        return [one]
    found = []
    for model in options.model:
        one = copy(options)
        one.model = model
        found.append(one)
    return found


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    return {name.removeprefix(FIELD): value for name, value in vars(options).items() if name.startswith(FIELD)}


def _without_prints(signature: Signature) -> Signature:
    """The signature without the fingerprints of statistics that have no values yet."""
    waiting = {
        name: signature.entries[name].partition("@")[0]
        for name in ("weights", "centering")
        if "@" in signature.entries.get(name, "")
    }
    return signature.extended(**waiting)
