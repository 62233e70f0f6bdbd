"""Texts as HTML that shows them as they are, whatever they hold."""

from __future__ import annotations

import html

from textmover.types.text_words import SURROGATE

TEMPLATE_MARKS = {ord(one): f"&#{ord(one)};" for one in "{}$`"}
"""Characters of a text that the page's templates would fill in."""

CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {0x7F: 0x2421, 13: None}
"""Control characters as the pictures that Unicode has of them."""


def shown(text: object) -> str:
    r"""A text for the page: markup, formulas and templates in it are characters like any others.

    Example:
        >>> shown("<b>\x00 {{x}}")
        '&lt;b&gt;␀ &#123;&#123;x&#125;&#125;'
    """
    plain = SURROGATE.sub("\ufffd", str(text)).translate(CONTROLS)
    return html.escape(plain, quote=True).translate(TEMPLATE_MARKS)


def text_block(heading: str, text: str, kind: str = "") -> str:
    """A text under a heading, in the direction of its own script."""
    body = shown(text) if text.strip() else '<span class="tm-empty">(empty)</span>'
    return (
        f'<section class="tm-text {kind}"><h3>{shown(heading)}</h3><p class="tm-words" dir="auto">{body}</p></section>'
    )


def notice(text: str, kind: str = "bad") -> str:
    """A sentence that stands out: ``good``, ``bad`` or ``plain``.

    Example:
        >>> notice("a < b", "plain")
        '<p class="tm-notice tm-plain" role="status" dir="auto">a &lt; b</p>'
    """
    return f'<p class="tm-notice tm-{kind}" role="status" dir="auto">{shown(text)}</p>'
