"""The list of everything a user can reach is the one that was written down."""

import difflib
import subprocess

import surface


def test_nothing_that_users_reach_has_changed_unnoticed(programs):
    """In a process of its own: other tests register matchings and import optional packages."""
    ran = subprocess.run([programs / "python", surface.__file__], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    before, after = surface.LIST.read_text(encoding="utf-8").splitlines(), ran.stdout.splitlines()
    assert list(difflib.unified_diff(before, after, "written", "found", n=0, lineterm="")) == [], (
        "Explain the change in the changelog, then run `python tests/surface.py --write`."
    )


def test_every_import_path_that_documents_name_leads_somewhere():
    lost = [line for line in surface.LIST.read_text(encoding="utf-8").splitlines() if "leads nowhere" in line]
    assert lost == []
