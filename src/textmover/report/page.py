"""The report as one page that needs nothing else: no server, no network, no further file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textmover.files import atomic_file
from textmover.report.palette import diverging, metric_colours, sequential
from textmover.report.texts import fold_limit, text_sizes
from textmover.report.views import ReportSection, overview_view, section_view
from textmover.types import InputError

__all__ = ["PAGE", "ReportHead", "check_jinja", "render_report", "write_report"]

PAGE = "index.html"
"""Name of the page in its folder."""

TEMPLATES = Path(__file__).parent / "templates"


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


def check_jinja() -> None:
    """Make sure that a page can be made, before the work whose result it shows.

    Raises:
        InputError: If Jinja is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise InputError(
            'Expected Jinja for the report, but it is not installed: pip install "textmover[report]", or leave the '
            "report out."
        ) from error


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
    return _render(
        head=head,
        overview=overview_view(evaluations, colours),
        sections=views,
        colours=_colours(len(names)),
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "script.js").read_text(encoding="utf-8"),
    )


def _render(**values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    for name in ("colours", "style", "script"):
        values[name] = Markup(values[name])
    environment.filters["drawn"] = Markup  # pictures of ours, whose texts are escaped where they are made
    return environment.get_template("page.html.j2").render(**values) + "\n"


def _colours(metrics: int) -> str:
    """Colours of metrics and heat maps as a style sheet, for light, for dark, and light again in print."""
    rules = []
    for theme, place in (("light", 0), ("dark", 1)):
        settings = [f"--m{index}:{pair[place]}" for index, pair in enumerate(metric_colours(metrics))]
        below, above = diverging(theme)
        for letter, shades in (("h", sequential(theme)), ("b", below), ("a", above)):
            first = 0 if letter == "h" else 1
            for index, shade in enumerate(shades, start=first):
                settings += [f"--{letter}{index}:{shade.fill}", f"--{letter}{index}t:{shade.text}"]
        rule = f":root{{{';'.join(settings)}}}"
        rules.append(rule if theme == "light" else f"@media screen and (prefers-color-scheme:dark){{{rule}}}")
    rules += [f".m{index}{{--c:var(--m{index})}}" for index in range(metrics)]
    steps = [f"h{index}" for index in range(len(sequential("light")))]
    steps += [f"{letter}{index + 1}" for letter in "ab" for index in range(len(diverging("light")[0]))]
    rules += [f".{step}{{background:var(--{step});color:var(--{step}t)}}" for step in steps]
    return "\n".join(rules)
