"""Templates of all pages, and the colours of both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textmover.report.figures.svg import diverging, metric_colours, sequential
from textmover.types import InputError

TEMPLATES = Path(__file__).parent / "templates"

AS_IT_IS = ("colours", "style", "script")
"""Values of a template that are ours and not escaped."""


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


def template_text(*names: str) -> str:
    """Files of the templates' folder, such as style sheets, one behind the other."""
    return "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def fill(template: str, **values: Any) -> str:
    """A template with its values, which are escaped but for :data:`AS_IT_IS` and what the filter ``drawn`` marks.

    Args:
        template: Name of its file.
        **values: What it names.
    """
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
    for name in AS_IT_IS:
        if name in values:
            values[name] = Markup(values[name])
    environment.filters["drawn"] = Markup  # pictures of ours, whose texts are escaped where they are made
    return environment.get_template(template).render(**values) + "\n"


def colour_rules(metrics: int) -> str:
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
