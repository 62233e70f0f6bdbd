"""The code blocks of the documents, and what a comment above one says of how a test runs it.

A directive is an HTML comment in the line above the fence (several stand in several lines)::

    <!-- run with: --trainer.max_epochs 1 -->     options that are appended to every command of the block
    <!-- before: cp a.txt b.txt -->               a command that makes what the page assumes to be there
    <!-- among the commands -->                   Python that needs what the bash blocks before it write
    <!-- not run: needs several machines -->      a reason of `REASONS`; options and syntax are checked all the same
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

DIRECTIVES = ("run with", "before", "among the commands", "not run")

REASONS = ("needs several machines", "makes a page of results", "needs an account on the hub", "needs the extra")
"""Why a block may stay unrun."""

RUNS_ON = "# runs until Ctrl-C"
"""A bash block with this remark is interrupted as soon as it says where it can be reached."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, the line of its fence, its text without indentation, and directives above it."""

    page: str
    line: int
    language: str
    text: str
    directives: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.directives if key == name]

    @property
    def reason(self) -> str | None:
        """Why it is not run, if it is not."""
        return next(iter(self.values("not run")), None)

    @property
    def among_the_commands(self) -> bool:
        """Whether it is Python that needs what commands have written."""
        return bool(self.values("among the commands"))


FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)[^`]*$")
COMMENT = re.compile(r"^\s*<!--\s*(?P<name>[\w -]+?)\s*(?::\s*(?P<value>.*?))?\s*-->\s*$")


def blocks_of(text: str, page: str) -> list[Block]:
    """The fenced blocks of a page; a fence that is not closed or a comment that is no directive is an error."""
    lines, found, number = text.split("\n"), [], 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].strip() != opening["fence"]:
            end += 1
        if end == len(lines):
            raise ValueError(f"{page}:{number + 1}: Expected the end of the block, but the page ends.")
        body = textwrap.dedent("\n".join(lines[number + 1 : end])) + "\n"
        found.append(Block(page, number + 1, opening["language"], body, _directives(lines, number, page)))
        number = end + 1
    return found


def _directives(lines: list[str], fence: int, page: str) -> tuple[tuple[str, str], ...]:
    found = []
    while fence > 0 and (comment := COMMENT.match(lines[fence - 1])):
        fence -= 1
        if comment["name"] not in DIRECTIVES:
            raise ValueError(f"{page}:{fence + 1}: Expected one of {DIRECTIVES}, but got {comment['name']!r}.")
        found.append((comment["name"], comment["value"] or ""))
    return tuple(reversed(found))


def pages() -> list[Path]:
    """README.md and everything under docs/ and examples/ that is Markdown."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def all_blocks() -> dict[str, list[Block]]:
    """The blocks of every page that has some, by page."""
    named = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in pages()}
    return {page: blocks for page, text in named.items() if (blocks := blocks_of(text, page))}


def without_blocks(text: str) -> str:
    """The prose of a page: blocks are blank lines, so that line numbers stay."""
    lines = text.split("\n")
    for block in blocks_of(text, ""):
        for number in range(block.line - 1, block.line + block.text.count("\n") + 1):
            lines[number] = ""
    return "\n".join(lines)
