"""Import paths of earlier versions stay valid."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from textmover.moved import MOVED, PACKAGE


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
    root = Path(__file__).parents[1]
    with (root / "docs" / "developers" / "moved-files.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row for row in rows if not (root / "src" / "textmover" / row["today"]).is_file()] == []
    assert len({row["before"] for row in rows}) == len(rows)
