"""Docstrings for the site: roles of reStructuredText, which Python's own tools read, as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(func|class|meth|mod|attr|data):`(~?)([\w.]+)`")
MATH = re.compile(r":math:`([^`]+)`")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
BLOCK = re.compile(r"^( *)\.\. math::[ \t]*(.*(?:\n\1 +.*)*)", re.MULTILINE)


class Roles(griffe.Extension):
    """Turns roles into links and formulas of Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    r"""A docstring with links and formulas that Markdown knows.

    Example:
        >>> as_markdown("See :func:`score`: :math:`a_i`.")
        'See <autoref identifier="score" optional><code>score</code></autoref>: \\(a_i\\).'
    """
    text = EXAMPLE.sub("Examples:", text)  # which is the section whose code is shown as code
    text = BLOCK.sub(lambda found: f"{found[1]}$${' '.join(found[2].split())}$$", text)
    text = MATH.sub(lambda found: rf"\({' '.join(found[1].split())}\)", text)
    return ROLE.sub(_link, text)


def _link(found: re.Match[str]) -> str:
    name = found[3].rsplit(".", 1)[-1] if found[2] else found[3]
    return f'<autoref identifier="{found[3]}" optional><code>{name}</code></autoref>'
