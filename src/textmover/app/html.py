"""Escape texts for HTML, and build small blocks of HTML."""

from __future__ import annotations

import html

from textmover.types.word_splitting import SURROGATE

TEMPLATE_MARKS = {ord(one): f"&#{ord(one)};" for one in "{}$`"}
"""Escapes of characters that the templates of the page interpret."""

CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {0x7F: 0x2421, 13: None}
"""Visible symbols for control characters."""


def escape(text: object) -> str:
    r"""Escape a text for the page, so that markup, formulas and templates in it are shown literally.

    Example:
        >>> escape("<b>\x00 {{x}}")
        '&lt;b&gt;␀ &#123;&#123;x&#125;&#125;'
    """
    plain = SURROGATE.sub("\ufffd", str(text)).translate(CONTROLS)
    return html.escape(plain, quote=True).translate(TEMPLATE_MARKS)


def text_block(heading: str, text: str, kind: str = "") -> str:
    """Return a text with a heading; the text direction follows its script."""
    body = escape(text) if text.strip() else '<span class="tm-empty">(empty)</span>'
    return (
        f'<section class="tm-text {kind}"><h3>{escape(heading)}</h3><p class="tm-words" dir="auto">{body}</p></section>'
    )


def notice(text: str, kind: str = "bad") -> str:
    """Return a highlighted message of kind ``good``, ``bad`` or ``plain``.

    Example:
        >>> notice("a < b", "plain")
        '<p class="tm-notice tm-plain" role="status">a &lt; b</p>'
    """
    return f'<p class="tm-notice tm-{kind}" role="status">{escape(text)}</p>'
