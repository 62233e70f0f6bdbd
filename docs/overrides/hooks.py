"""What the site needs beside Markdown: formulas as MathML, the help of the commands, files elsewhere."""

from __future__ import annotations

import html
import os
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
HELP = re.compile(r"<!-- help of every command -->")
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:benchmarks|checkpoints|configs|examples|src|tests)/[^)#]+)\)")
"""A link from a page to a file of the repository that the site does not hold."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the help of the commands; name files of the repository instead of linking to them."""
    return OUTSIDE.sub(_named, HELP.sub(lambda _: commands(), markdown))


def _named(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw."""
    return FORMULA.sub(lambda found: formula(found[2], block=found[1] == "div"), html)


def formula(latex: str, *, block: bool) -> str:
    """A formula of a page, whose text is HTML, as MathML."""
    return convert(html.unescape(latex).strip(), display="block" if block else "inline")


def without_usage(text: str) -> str:
    """The help of a command without its first paragraph, which lists what follows."""
    return text.split("\n\n", 1)[1].strip()


def commands() -> str:
    """The help of every command, as Markdown."""
    os.environ["COLUMNS"] = "92"
    from textmover.cli.main import COMMANDS, Parser
    from textmover.cli.options.help_files import add_options, fields_help

    parts = []
    for name, (_, purpose) in COMMANDS.items():
        parser = Parser(prog=f"textmover {name}", add_help=False)
        add_options(parser, name, purpose, fields=False)
        parts.append(f"## textmover {name}\n\n```text\n{without_usage(parser.format_help())}\n```\n")
    fields = without_usage(fields_help("textmover COMMAND"))
    parts.append(
        f"## Fields of the metric\n\nOptions of every command that has --help-metric.\n\n```text\n{fields}\n```\n"
    )
    return "\n".join(parts)
