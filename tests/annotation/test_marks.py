"""Marked errors: what is refused, what is kept, agreement by hand, and an export that reads back."""

import json
import os
import shlex
import subprocess

import pytest
import yaml

from textmover.annotation import (
    ErrorMark,
    Marks,
    error_agreement,
    export_errors,
    known_criteria,
    open_project,
    parse_marks,
)
from textmover.annotation.store import words_and_gaps
from textmover.data import MarkedDataModule
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.scoring import Scorer
from textmover.types import ErrorSpan, InputError


def mark(*places, done=True, rejected=()):
    """Marks at ``(start, end, severity)``."""
    errors = tuple(ErrorMark(ErrorSpan(*place)) for place in places)
    return Marks(errors, tuple(ErrorSpan(*place) for place in rejected), done, "a metric" if rejected else "")


@pytest.fixture
def project(folder):
    return open_project(folder, errors=True)


REFUSED = [
    ('{"errors": [{"start": 0, "end": 3, "severity": "major"}, {"start": 2, "end": 4, "severity": "minor"}]}',
     "do not overlap, but got 'tex' and 'xt'"),
    ('{"errors": [{"start": 2, "end": 2, "severity": "major"}, {"start": 2, "end": 2, "severity": "minor"}]}',
     "do not overlap, but got a gap and a gap"),
    ('{"errors": [{"start": 0, "end": 3, "severity": "major"}, {"start": 2, "end": 2, "severity": "minor"}]}',
     "overlap"),
    ('{"errors": [{"start": 3, "end": 1, "severity": "major"}]}', "from its first character up, but got 3 to 1"),
    ('{"errors": [{"start": -1, "end": 1, "severity": "major"}]}', "from its first character up"),
    ('{"errors": [{"start": 4, "end": 7, "severity": "major"}]}', "of the text, but got one up to 7"),
    ('{"rejected": [{"start": 4, "end": 7, "severity": "major"}]}', "within the 6 characters"),
    ('{"errors": [{"start": 0, "end": 3, "severity": "grave"}]}', "a `severity` among minor, major, critical"),
    ('{"errors": [{"start": true, "end": 3, "severity": "major"}]}', "Expected marks with"),
    ('{"errors": [{"start": 0, "severity": "major"}]}', "Expected marks with"),
    ('{"errors": [4]}', "Expected marks with"),
    ('{"errors": {}}', "Expected marks with"),
    ('{"errors": [], "done": 1}', "Expected marks with"),
    ("[]", "Expected marks with"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "why"), REFUSED)
def test_bad_marks_are_refused_and_change_nothing(project, given, why):
    project.mark("Ada", "i0", mark((0, 4, "minor")))
    with pytest.raises(InputError, match=why) as refused:
        project.mark("Ada", "i0", parse_marks(json.loads(given)))
    assert str(refused.value).count(". ") == 0, "one sentence"
    assert project.said("Ada")["i0"].marks == mark((0, 4, "minor"))


def test_marks_are_kept_in_order_beside_ratings_of_several_annotators(folder, project):
    found = Marks(
        (ErrorMark(ErrorSpan(5, 6, "critical"), ErrorSpan(0, 6, "minor")), ErrorMark(ErrorSpan(0, 0))), (), True, "m"
    )
    project.mark("Ada", "i0", found)
    project.rate("Ada", "i0", "fluency", 2)
    project.comment("Ada", "i0", "so")
    project.mark("Bob", "i0", mark(done=False, rejected=[(0, 4)]))
    again = open_project(folder)
    ada, bob = (again.said(name)["i0"] for name in ("Ada", "Bob"))
    assert again.errors, "as in the last session"
    assert ada.marks == Marks(found.errors[::-1], (), True, "m")
    assert (ada.ratings, ada.comment) == ({"fluency": 2}, "so")
    assert bob.marks == mark(done=False, rejected=[(0, 4)])
    assert again.left(ada) == ["semantic correctness", "grammatical correctness"]
    assert "errors" in again.left(bob)


def test_errors_alone_are_asked_for_and_stay_so(folder):
    project = open_project(folder, criteria=(), errors=True)
    assert (project.criteria, project.progress("Ada")) == ((), (0, 0, 10))
    project.mark("Ada", "i0", mark(done=False))
    project.mark("Ada", "i1", mark())
    again = open_project(folder)
    assert (again.criteria, again.errors, again.progress("Ada"), again.next_unrated("Ada")) == ((), True, (1, 1, 10), 0)
    assert known_criteria(folder, "items.json") == ()
    both = open_project(folder, errors=True)
    assert len(both.criteria) == 3
    with pytest.raises(InputError, match="asks for errors"):
        open_project(folder, errors=False).mark("Ada", "i0", mark())


def test_marks_of_a_text_that_changed(folder, project):
    project.mark("Ada", "i0", mark((0, 4, "minor")))
    seen = project.items[0].fingerprint
    rows = json.loads((folder / "items.json").read_text())
    rows[0]["hypothesis"] = "another"
    (folder / "items.json").write_text(json.dumps(rows))
    changed = open_project(folder)
    assert changed.said("Ada") == {}
    with pytest.raises(InputError, match="has changed: load the page again"):
        changed.mark("Ada", "i0", mark((0, 4, "minor")), seen=seen)
    changed.mark("Ada", "i0", mark((0, 7, "minor")))
    assert changed.said("Ada")["i0"].marks.spans == (ErrorSpan(0, 7, "minor"),)


def test_words_and_gaps_are_the_text():
    for text in ("", "   ", "A cat.", " 我爱 👩‍👩‍👧, e\u0301t\u0301 \n", "don't 1,000 €"):
        places = words_and_gaps(text)
        assert "".join(text[start:end] for start, end in places) == text
        assert len(places) % 2 == 1
        assert all(text[start:end].strip() for start, end in places[1::2])


def test_agreement_by_hand(project):
    # "text 0": both mark "text", with other severities; Bob marks "0" too.
    project.mark("Ada", "i0", mark((0, 4, "minor")))
    project.mark("Bob", "i0", mark((0, 4, "major"), (5, 6, "major")))
    project.mark("Ada", "i1", mark())
    project.mark("Bob", "i1", mark())
    project.mark("Ada", "i2", mark((0, 4, "minor")))
    project.mark("Bob", "i2", mark((0, 4, "minor"), done=False))
    project.mark("Eve", "i3", mark())
    (found,) = error_agreement(project)
    # Characters: half of 4 in common, 4 and 5 marked. Words: one of both, one of Bob's alone, two of none's.
    assert found[:3] == ("Ada", "Bob", 2)
    assert found.span_f1 == pytest.approx(2 * 2 / 9)
    assert found.mcc_words == pytest.approx((1 * 2 - 1 * 0) / (1 * 3 * 2 * 2) ** 0.5)


def test_one_annotator_who_marks_nothing(project):
    project.mark("Ada", "i0", mark())
    project.mark("Bob", "i0", mark((0, 4, "major")))
    (found,) = error_agreement(project)
    assert (found.span_f1, found.mcc_words) == (0, 0)


def test_the_export_reads_back_to_the_same_spans(folder):
    rows = json.loads((folder / "items.json").read_text())
    for number, row in enumerate(rows):
        row |= {"hypothesis": f"=text 😀, {number}\nand «more»", "reference": f"reference {number}", "spans": "taken"}
    (folder / "items.json").write_text(json.dumps(rows))
    project = open_project(folder, criteria=(), errors=True)
    given = {}
    for number in range(10):
        for name in ("Ada", "Bob")[: 1 + number % 2]:
            spans = [(0, 5 + number % 2, "minor"), (8, 8, "critical"), (9, 10, "major")][: number % 4]
            given[f"i{number}", name] = tuple(ErrorSpan(*one) for one in spans)
            project.mark(name, f"i{number}", mark(*spans, rejected=[(0, 1)]))
    project.mark("Ada", "i3", Marks((ErrorMark(ErrorSpan(0, 5), ErrorSpan(0, 4, "minor")),), (), True, "m"))
    given["i3", "Ada"] = (ErrorSpan(0, 5),)
    project.mark("Bob", "i0", mark((0, 5, "minor"), done=False))
    found = export_errors(project)
    assert (found.rows, found.errors, found.suggested, found.unfinished) == (15, sum(map(len, given.values())), 1, 1)
    segments = read_marked(found.table, MarkedColumns(spans="spans", groups=("id", "annotator", "given_spans")))
    assert {(one.groups["id"], one.groups["annotator"]): one.errors for one in segments} == given
    assert {one.hypothesis for one in segments} == {row["hypothesis"] for row in rows}
    assert all(one.graded and one.groups["given_spans"] == "taken" for one in segments)
    recipe = yaml.safe_load(found.recipe.read_text(encoding="utf-8"))
    arguments = recipe["data"]["init_args"]
    data = MarkedDataModule(**{**arguments, "columns": MarkedColumns(**arguments["columns"])})
    data.setup("fit")
    assert found.command == f"textmover train --config {found.recipe}"


def test_exports_that_nothing_can_be_trained_on(folder):
    project = open_project(folder, errors=True)
    project.mark("Ada", "i0", mark((0, 4, "minor"), done=False))
    with pytest.raises(InputError, match="mark some first"):
        export_errors(project)
    project.mark("Ada", "i0", mark((0, 4, "minor")))
    found = export_errors(project)
    assert (found.recipe, found.command) == (None, "")
    assert "mark more" in found.reason
    (folder / "items.json").write_text('[{"hypothesis": "alone"}]')
    project = open_project(folder, errors=True)
    project.mark("Ada", project.items[0].key, mark((0, 5, "minor")))
    assert export_errors(project).reason == "the texts have no references"


@pytest.mark.slow
def test_the_recipe_trains_a_metric_that_marks_errors(folder, tiny_encoder, programs):
    project = open_project(folder, criteria=(), errors=True)
    for number in range(10):
        project.mark("Ada", f"i{number}", mark((0, 4, "minor"), (6, 6, "major")))
    command = shlex.split(export_errors(project).command)
    tiny = ["--model.init_args.metric", "twmd", "--model.init_args.overrides.encoder", str(tiny_encoder)]
    short = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--model.init_args.overrides.freeze_layers=1"]
    how = {"cwd": folder, "capture_output": True, "text": True, "env": {**os.environ, "HF_HUB_OFFLINE": "1"}}
    ran = subprocess.run([programs / command[0], *command[1:], *tiny, *short], check=False, **how)
    assert ran.returncode == 0, ran.stderr
    found = Scorer.from_pretrained(project.place / "errors_metric").errors(["text 0"], ["reference 0"])
    assert found.signature.entries["errors"].startswith("head@")
