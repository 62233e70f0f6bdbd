"""Texts of others in Markdown and figures of ours: they are shown as they are, and mark nothing up."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")  # characters that turn the direction of whatever follows them

SIGNS = re.compile(r"[\\`*\[\]|#~$]|(?<![^\W_])_|_(?![^\W_])|^[-=+](?=[-=+ ]{2})")
"""Characters of markup; an underscore within a word is one."""


def one_line(text: str) -> str:
    r"""A text on one line, with escapes for control characters and those that turn the direction of what follows.

    Example:
        >>> one_line("a\tb\x1b[31m \u202ec\ud800")
        'a b\\x1b[31m \\u202ec\\ud800'
    """
    return "".join(
        one.encode("unicode_escape").decode()
        if unicodedata.category(one) in ("Cc", "Cs") or REORDERING.match(one)
        else one
        for one in " ".join(text.split())
    )


def markdown_text(text: str) -> str:
    r"""A text that no reader of Markdown takes for anything else.

    Example:
        >>> markdown_text("<b> a_b *c* | $x$")
        '&lt;b&gt; a_b \\*c\\* \\| \\$x\\$'
    """
    escaped = SIGNS.sub(lambda found: f"\\{found[0]}", one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_code(text: str) -> str:
    """A text as code, with more back quotes around it than it holds in a row.

    Example:
        >>> markdown_code("a"), markdown_code("`a`")
        ('`a`', '`` `a` ``')
    """
    flat = one_line(text)
    fence = "`" * (_longest_run(flat) + 1)
    return f"{fence} {flat} {fence}" if len(fence) > 1 else f"{fence}{flat}{fence}"


def markdown_fence(text: str, language: str) -> str:
    """Lines of code as a block that ends where they end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def markdown_link(text: str, target: str) -> str:
    """A link to a file beside the page.

    Example:
        >>> markdown_link("a", "x y.png")
        '[a](x%20y.png)'
    """
    return f"[{markdown_text(text)}]({quote(target)})"


def figure_label(text: str) -> str:
    r"""A text that matplotlib draws as it is, on one line.

    Example:
        >>> print(figure_label("$x$"))
        \$x\$
    """
    return one_line(text).replace("$", r"\$")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
