"""Self-contained HTML pages: Jinja templates, styles, scripts and the colours of both themes."""

from __future__ import annotations

import functools
import html
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from textmover._version import __version__
from textmover.meta_evaluation import ComparedSystems, RankedSystems
from textmover.report.figures.colours import INK, metric_colours, shades
from textmover.report.figures.scales import Scale, coordinate, padded, signed
from textmover.types import isolated, needs_extra, plural

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
LETTERS = {"h": "sequential", "b": "below", "a": "above"}  # kind of heat map shades by first letter of the CSS class
PALETTES = {theme: {letter: shades(kind, theme) for letter, kind in LETTERS.items()} for theme in INK}


def check_jinja() -> None:
    """Raise an :class:`~textmover.types.InputError` before any expensive work unless Jinja is installed."""
    with needs_extra("report", "Jinja for the report", ", or leave the report out"):
        import jinja2  # noqa: F401


def template_text(*names: str) -> str:
    """Return the concatenated text of files of the template folder, such as style sheets."""
    return "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def render_page(template: str, *, metrics: int, styles: tuple[str, ...] = (), script: str = "", **values: Any) -> str:
    """Render a page template, which escapes all values except pictures; ``metrics`` is the number of metric colours."""
    check_jinja()
    from markupsafe import Markup

    shared = {
        "colours": Markup(picture("colours.css.j2", metrics=metric_colours(metrics), palettes=PALETTES).rstrip()),
        "style": Markup(template_text("style.css", *styles)),
        "script": Markup(template_text(script) if script else ""),
        "versions": f"textmover {__version__}, numpy {np.__version__}, python {platform.python_version()}",
    }
    text = _environment().get_template(template).render(**shared, **values) + "\n"
    return text.encode("utf-8", "replace").decode("utf-8")  # UTF-8 cannot encode lone surrogates


def picture(template: str, **values: Any) -> str:
    """Render an SVG template, to be inserted by the template filter ``drawn``."""
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> Environment:
    check_jinja()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "drawn": Markup,  # pictures from `picture`, whose texts are already escaped
        "attribute": lambda text: Markup(html.escape(text)),
        "coordinate": coordinate,
        "signed": signed,
        "grouped": "{:,}".format,
        "plural": plural,
        "isolated": isolated,
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",  # Jinja's `capitalize` makes the rest lower case
    }
    return environment


def interval_scale(found: ComparedSystems | RankedSystems) -> Scale:
    """Return the scale on which the template macro ``interval`` draws the means of systems."""
    return Scale(*padded(np.concatenate([found.low, found.high]), 0.04), 4.0, 100.0)
