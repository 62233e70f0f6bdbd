"""What the site needs beside Markdown: formulas as MathML, the help of the commands, files elsewhere."""

from __future__ import annotations

import html
import os
import re
from importlib import import_module
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
    from textmover.cli.options.declaration import HelpFormatter, add_options
    from textmover.cli.options.metric import fields_help

    parts = []
    for name, (module, purpose) in COMMANDS.items():
        parts.append(f"## textmover {name}\n\n{purpose[0].upper()}{purpose[1:]}.\n")
        if name == "train":
            continue
        parser = Parser(prog=f"textmover {name}", formatter_class=HelpFormatter)
        add_options(parser, import_module(f"textmover.cli.{module}").OPTIONS)
        parts.append(f"```text\n{without_usage(parser.format_help())}\n```\n")
    fields = without_usage(fields_help("textmover COMMAND"))
    parts.append(
        f"## Fields of the metric\n\nOptions of every command that has --help-metric.\n\n```text\n{fields}\n```\n"
    )
    return "\n".join(parts)
