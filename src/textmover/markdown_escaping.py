"""Escape arbitrary texts for Markdown and figures, so that they appear literally."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")  # bidirectional control characters

SIGNS = re.compile(r"[\\`*\[\]|#~$]|(?<![^\W_])_|_(?![^\W_])|^[-=+](?=[-=+ ]{2})")
"""Markdown markup; an underscore counts unless it is between letters or digits."""


def one_line(text: str) -> str:
    r"""Put a text on one line, and escape control and bidirectional control characters.

    Example:
        >>> one_line("a\tb\x1b[31m \u202ec\ud800")
        'a b\\x1b[31m \\u202ec\\ud800'
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in ("Cc", "Cs") or REORDERING.match(character)
        else character
        for character in " ".join(text.split())
    )


def as_unicode(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def markdown_text(text: str) -> str:
    r"""Escape a text so that Markdown renders it literally.

    Example:
        >>> markdown_text("<b> a_b *c* | $x$")
        '&lt;b&gt; a_b \\*c\\* \\| \\$x\\$'
    """
    escaped = SIGNS.sub(lambda match: f"\\{match[0]}", one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_code(text: str) -> str:
    """Format a text as inline code, delimited by more backticks than it contains in a row.

    Example:
        >>> markdown_code("a"), markdown_code("`a`")
        ('`a`', '`` `a` ``')
    """
    flat = one_line(text)
    fence = "`" * (_longest_run(flat) + 1)
    return f"{fence} {flat} {fence}" if len(fence) > 1 else f"{fence}{flat}{fence}"


def markdown_fence(text: str, language: str) -> str:
    """Format text as a fenced code block, with a fence longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def markdown_link(text: str, target: str) -> str:
    """Format a link to a file in the page's folder.

    Example:
        >>> markdown_link("a", "x y.png")
        '[a](x%20y.png)'
    """
    return f"[{markdown_text(text)}]({quote(target)})"


def figure_label(text: str) -> str:
    r"""Escape a text so that matplotlib draws it literally, on one line.

    Example:
        >>> print(figure_label("$x$"))
        \$x\$
    """
    return one_line(text).replace("$", r"\$")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
