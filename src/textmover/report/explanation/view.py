"""Explanations that draw, save and show themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textmover.files import atomic_file
from textmover.report.explanation.figure import explanation_figure
from textmover.report.explanation.values import ExplanationValues
from textmover.types import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Explanation(ExplanationValues):
    """Why a hypothesis got its score against a reference, as numbers and to look at."""

    def draw(self, path: str | Path | None = None, *, plan: str | None = None) -> Figure:
        """The plan over the similarities, as a figure of matplotlib, which notebooks show.

        Args:
            path: Where it is written as well, if at all; ``.png``, ``.svg`` or ``.pdf``.
            plan: Name of the one plan to draw, such as ``"recall"``; all that there are if ``None``.

        Returns:
            The figure; see :func:`~textmover.report.explanation.figure.explanation_figure`.
        """
        return explanation_figure(self, path, plan=plan)

    def to_html(self) -> str:
        """A page that needs nothing else, in which words light up with what they are matched with."""
        from textmover.report.explanation.page import ExplainedLine, render_explanations

        return render_explanations([ExplainedLine(self)])

    def save(self, path: str | Path) -> Path:
        """Write a picture (``.png``, ``.svg``, ``.pdf``), a page (``.html``) or everything (``.json``) into a file.

        Args:
            path: Its suffix says what is written; the file appears under its name only when it is complete.
        """
        from textmover.report.figures.panels import FORMATS

        path = Path(path)
        suffix = path.suffix.lower()
        if suffix in FORMATS:
            self.draw(path)
        elif suffix in (".html", ".htm", ".json"):
            text = json.dumps(self.to_dict(), ensure_ascii=False) + "\n" if suffix == ".json" else self.to_html()
            with atomic_file(path) as stream:
                stream.write(text.encode("utf-8", "replace").decode("utf-8"))
        else:
            raise InputError(
                f"Expected a file that ends in {', '.join(FORMATS)}, .html or .json, but got {path}: give another name."
            )
        return path

    def _repr_html_(self) -> str | None:
        """HTML for notebooks: the page in a frame of its own; the plain text if Jinja is not installed."""
        from textmover.report.explanation.page import frame

        try:
            return frame(self)
        except InputError:
            return None
