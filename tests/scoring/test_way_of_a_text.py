"""The way of a text: the functions that a reference passes between ``textmover score`` and its score.

A function is on the way if the text, its tokens (:data:`CARRIERS`) or the scores made of them are among its arguments,
``self`` apart, or what it returns or yields. Loading the metric is not on the way, nor are the classes of ``types/``,
which *are* tokens and scores, nor functions of plain tensors.
"""

import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

from textmover.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "textmover"
REFERENCE = "there sat a red dog"
CARRIERS = {
    "TokenBatch", "TokenEmbeddings", "PackedEmbeddings", "PairScores", "SegmentScores",
    "RawScores", "TextChunk", "TextTable", "PairTable", "ShardScores",
}  # fmt: skip
"""Classes of the engine and of ``types/`` that a text becomes."""

FUNCTIONS, FILES = 45, 19  # the present figures: they may fall, not rise


def holds_text(value: object, depth: int = 4) -> bool:
    """Return whether a value is the reference, or what it became, or holds it."""
    if isinstance(value, str):
        return REFERENCE in value
    if type(value).__name__ in CARRIERS:
        return True
    if depth == 0 or isinstance(value, type):
        return False
    inner: list[object] = []
    if isinstance(value, list | tuple):
        inner = list(value[:8])
    elif isinstance(value, dict):
        inner = [*value.keys(), *value.values()][:16]
    elif is_dataclass(value):
        inner = [getattr(value, one.name, None) for one in fields(value)]
    return any(holds_text(one, depth - 1) for one in inner)


class Trace:
    """Functions on the way, by file and name, in order."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], None] = {}
        self.loading = False
        self.looking = threading.local()

    def __call__(self, frame, event, result) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(SOURCE)):
            return
        file, name = Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_name
        if name == "load_scorer":
            self.loading = event == "call"
        own = name.startswith("<") and name != "<lambda>"  # comprehensions are part of their function
        if self.loading or own or file.startswith("types/") or getattr(self.looking, "now", False):
            return
        self.looking.now = True  # what is looked at may be a property of ours
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        names = [one for one in code.co_varnames[:count] if one != "self"]
        values = [frame.f_locals.get(one) for one in names] if event == "call" else [result]
        if name != "__init__" and any(map(holds_text, values)):
            self.found.setdefault((file, name))
        self.looking.now = False


def traced(tiny_encoder: Path, folder: Path) -> list[tuple[str, str]]:
    for name, lines in (("h.txt", "the cat sat\na dog\n"), ("r.txt", f"{REFERENCE}\nthe cat\n")):
        (folder / name).write_text(lines)
    options = ["--encoder", str(tiny_encoder), "--device", "cpu", "--backend", "torch", "--quiet"]
    trace, before = Trace(), sys.getprofile()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        assert main(["score", "-i", str(folder / "h.txt"), str(folder / "r.txt"), *options]) == 0
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(trace.found)


def written() -> list[tuple[str, str]]:
    """The way that docs/developers/design-notes.md lists, one function in backquotes after another behind its file."""
    page = (ROOT / "docs" / "developers" / "design-notes.md").read_text(encoding="utf-8")
    section = page.partition("\n## The way of a text\n")[2]
    steps: Mapping[str, str] = dict(
        re.findall(r"^\d+\. `([\w/]+\.py)`: ((?:.|\n(?!\d+\. |\n))+)", section, re.MULTILINE)
    )
    return [(file, name) for file, text in steps.items() for name in re.findall(r"`(\w+)`", text)]


def test_the_way_of_a_text_is_short_and_written_down(tiny_encoder, tmp_path, capsys):
    found = traced(tiny_encoder, tmp_path)
    assert len(capsys.readouterr().out.splitlines()) == 2
    listed = "\n".join(f"{file} {name}" for file, name in found)
    assert len(found) <= FUNCTIONS, f"Expected at most {FUNCTIONS} functions, but got {len(found)}:\n{listed}"
    assert len({file for file, _ in found}) <= FILES
    assert sorted(written()) == sorted(found)
