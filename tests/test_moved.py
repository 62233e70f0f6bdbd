"""Import paths of earlier versions stay valid."""

import csv
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from textmover.moved import MOVED, PACKAGE

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_is_the_module_of_today(old, new):
    module = importlib.import_module(PACKAGE + old)
    assert module is importlib.import_module(PACKAGE + new)
    assert module.__name__ == module.__spec__.name == PACKAGE + new


def test_an_old_path_may_come_first():
    code = "from textmover.scoring.hub import push_to_hub; import textmover.checkpoints.hub as hub; hub.push_to_hub"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_never_was_is_missing_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'textmover\.scoring\.hubs'"):
        importlib.import_module("textmover.scoring.hubs")


def test_the_table_names_files_of_today():
    with (ROOT / "docs" / "developers" / "moved-files.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row for row in rows if not (ROOT / "src" / "textmover" / row["today"]).is_file()] == []
    assert len({row["before"] for row in rows}) == len(rows)


PAGES = [
    ROOT / "README.md",
    *(path for folder in ("docs", "checkpoints", "configs") for path in (ROOT / folder).rglob("*")),
]


@pytest.mark.parametrize(
    "path",
    sorted(
        {
            found
            for page in PAGES
            if page.suffix in (".md", ".yaml")
            for found in re.findall(r"\btextmover(?:\.\w+)+", page.read_text(encoding="utf-8"))
        }
        - {"textmover.json"}
    ),
)
def test_a_path_that_pages_cards_or_recipes_name_is_there(path):
    assert pkgutil.resolve_name(path) is not None
