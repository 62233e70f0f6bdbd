"""The report as one page that needs nothing else: no server, no network, no further file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from textmover.files import atomic_file
from textmover.report.evaluation.texts import fold_limit, text_sizes
from textmover.report.evaluation.views import ReportSection, overview_view, section_view
from textmover.report.templating import check_jinja, colour_rules, fill, template_text
from textmover.types import InputError

PAGE = "index.html"
"""Name of the page in its folder."""


@dataclass(frozen=True)
class ReportHead:
    """What stands at the top of the page.

    Attributes:
        date: As it is written; the page asks no clock, so that the same input gives the same page.
        command: What was typed.
        versions: Versions of what was used, by name.
        title: Of the page.
    """

    date: str
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    title: str = "How well metrics agree with people"


def write_report(folder: Path | str, head: ReportHead, sections: Sequence[ReportSection]) -> Path:
    """Write the page into a folder, under its name only when it is complete.

    Args:
        folder: Made if it does not exist.
        head: What stands at the top.
        sections: One for each judgement set and dimension, at least one.

    Returns:
        Path of the page.

    Raises:
        InputError: If Jinja is not installed, there is no section, or the page cannot be written.
    """
    text = render_report(head, sections)
    path = Path(folder) / PAGE
    with atomic_file(path) as stream:
        # A lone surrogate, which broken input can hold, is no character of UTF-8.
        stream.write(text.encode("utf-8", "replace").decode("utf-8"))
    return path


def render_report(head: ReportHead, sections: Sequence[ReportSection]) -> str:
    """The page as text.

    Args:
        head: What stands at the top.
        sections: One for each judgement set and dimension, at least one.

    Returns:
        HTML with its style, its script and its pictures; the same input gives the same text.

    Raises:
        InputError: If Jinja is not installed, or there is no section.
    """
    check_jinja()
    if not sections:
        raise InputError("Expected at least one judgement set for the report, but got none: name one.")
    evaluations = [one.evaluation for one in sections]
    names = list(dict.fromkeys(metric.name for one in evaluations for metric in one.metrics))
    colours = {name: index for index, name in enumerate(names)}
    fold = fold_limit(text_sizes(one for section in sections for one in section.disagreements))
    views = [
        section_view(section, f"set-{index}", colours, evaluations, fold)
        for index, section in enumerate(sections, start=1)
    ]
    return fill(
        "page.html.j2",
        head=head,
        overview=overview_view(evaluations, colours),
        sections=views,
        colours=colour_rules(len(names)),
        style=template_text("style.css"),
        script=template_text("script.js"),
    )
