"""What annotators see and do, without a browser."""

import errno
import json
import os
import re
from itertools import product

import pytest

from textmover.annotation import ErrorMark, Scale, export_ratings, open_project, parse_criteria
from textmover.app.annotation_session import Session, Suggestions
from textmover.app.html import escape, notice, text_block
from textmover.app.interface import agreement_view, export_view
from textmover.scoring import Scorer
from textmover.types import ErrorSpan, InputError

FILE = "items.json"
HOSTILE = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "[a](javascript:alert(1)) **b** `c`", "$x^2$ \\(y\\)",
    "${alert(1)} {{value}} {{#each value}}x{{/each}}", "&lt;b&gt; &amp;", '" onmouseover="alert(1)', "</p></article>",
]  # fmt: skip


@pytest.fixture
def desk(folder):
    return Session(folder)


def text(html):
    """What a browser would show of it."""
    from html import unescape

    return unescape(re.sub(r"<[^>]*>", " ", html))


# --- rating -----------------------------------------------------------------------------------------------------------


def test_it_begins_at_the_first_text_that_is_not_rated(desk):
    found = desk.start(FILE, "  Ada ")
    assert (found.key, found.ratings, found.comment) == ("i0", (None, None, None), "")
    assert "Text 1 of 10" in text(found.card)
    assert "0 of 10 rated" in text(found.bar)
    for criterion in range(3):  # in windows that have not seen one another's
        found = desk.rate(FILE, "Ada", "i0", criterion, 3)
    assert found.ratings == (3.0, 3.0, 3.0)
    assert "all rated" in text(found.status)
    again = Session(desk.folder).start(FILE, "Ada")
    assert again.key == "i1"
    assert "Welcome back, Ada: 1 rated" in text(again.status)
    # A page that is loaded again stays at its text.
    assert [desk.start(FILE, "Ada", key).key for key in ("i0", "i5", None, "gone")] == ["i0", "i5", "i1", "i1"]


def test_a_comment_is_saved_only_if_it_was_changed(folder):
    desk, project = Session(folder), open_project(folder)
    assert desk.comment(FILE, "Ada", "i0", "", shown="") is None, "its field was only left"
    assert not project.place.exists()
    assert desk.comment(FILE, "Ada", "i0", "mine", shown="").shown == "mine"
    assert desk.comment(FILE, "Ada", "i0", "mine", shown="mine") is None
    # A window that shows an older comment does not overwrite the one of another window.
    found = desk.comment(FILE, "Ada", "i0", "other", shown="")
    assert (found.refused, found.comment, found.shown) == (True, "other", "")
    assert "another window saved others: copy yours" in text(found.status)
    assert project.said("Ada")["i0"].comment == "mine"
    assert not desk.comment(FILE, "Ada", "i0", "mine", shown="").refused, "the same request twice"
    desk.comment(FILE, "Ada", "i0", "", shown="mine")
    assert project.said("Ada") == {}, "nothing is left to be kept"


def test_leaving_the_field_of_a_comment_keeps_ratings_of_texts_that_changed(folder):
    desk, before = Session(folder), (folder / FILE).read_text()
    desk.rate(FILE, "Ada", "i0", 0, 2)
    (folder / FILE).write_text(before.replace("text 0", "another text"))
    found = desk.start(FILE, "Ada", "i0")
    assert desk.comment(FILE, "Ada", "i0", found.comment, found.seen, found.comment) is None
    (folder / FILE).write_text(before)
    assert open_project(folder).said("Ada")["i0"].ratings == {"fluency": 2}


def test_it_moves_and_stays_at_the_ends(desk):
    keys = [desk.move(FILE, "Ada", key, step).key for key, step in (("i0", 1), ("i0", -1), ("i9", 1), ("gone", 1))]
    assert keys == ["i1", "i0", "i9", "i1"]
    assert desk.next_unrated(FILE, "Ada", "i9").key == "i0"
    assert desk.go_to(FILE, "Ada", "i0", " 7 ").key == "i6"
    for wrong in ("0", "11", "x", "", None, "1.5", "９", "-1", "9" * 9, "9" * 5000):
        found = desk.go_to(FILE, "Ada", "i3", wrong)
        assert (found.key, "Expected a number from 1 to 10" in text(found.status)) == ("i3", True)
    for number, criterion in product(range(10), range(3)):
        desk.rate(FILE, "Ada", f"i{number}", criterion, 2)
    assert "Everything is rated" in text(desk.next_unrated(FILE, "Ada", "i4").status)


def test_what_was_sent_first_and_arrives_last_is_not_saved(desk):
    desk.rate(FILE, "Ada", "i0", 0, 3, "w:2")
    assert desk.rate(FILE, "Ada", "i0", 0, 1, "w:1") is None
    assert desk.rate(FILE, "Ada", "i0", 1, 1, "w:1").ratings == (3, 1, None)
    assert desk.rate(FILE, "Ada", "i0", 0, 2, "w:10").ratings[0] == 2
    assert desk.rate(FILE, "Ada", "i0", 0, 1, "another:1").ratings[0] == 1
    for odd in ("", "w", "w:x", None, ":1", "w:-1"):
        assert not desk.rate(FILE, "Ada", "i0", 0, 2, odd).refused


def test_what_is_sent_twice_is_taken_back_once(desk):
    first, again = (desk.rate(FILE, "Ada", "i0", 0, 9, "w:1") for _ in range(2))
    assert (first.refused, again.refused) == (True, False)
    assert "Not saved" in text(first.status)
    assert "Not saved" in text(again.status)
    assert desk.rate(FILE, "Ada", "i0", 0, 9, "w:2").refused
    assert desk.rate(FILE, "Ada", "i0", 1, 9, "w:2").refused
    assert desk.rate(FILE, "Ada", "i0", 1, 9).refused


def test_a_clock_that_is_set_back_makes_nothing_older(desk, monkeypatch):
    def times(found):
        return [int(re.search(r'data-at="(\d+)"', part)[1]) for part in (found.status, found.card, found.bar)]

    before = times(desk.start(FILE, "Ada"))
    monkeypatch.setattr("time.time_ns", lambda: 5)
    assert times(desk.move(FILE, "Ada", "i0", 1)) == [one + 1 for one in before]


def test_what_is_not_saved_is_not_shown_as_saved(desk, monkeypatch):
    desk.rate(FILE, "Ada", "i0", 0, 1)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    found = desk.rate(FILE, "Ada", "i0", 0, 3)
    assert found.refused
    assert found.ratings == (1.0, None, None)
    assert "Not saved." in text(found.status)
    assert "No space left on device" in text(found.status)
    assert "Saved" not in text(found.status)
    for value in (None, "", 4, -1, 2.5, "<b>"):
        found = desk.rate(FILE, "Ada", "i0", 0, value)
        assert found.refused
        assert "Not saved. Expected a whole number from 1 to 3" in text(found.status)


def test_texts_that_change_while_the_page_is_open(desk, folder):
    desk.rate(FILE, "Ada", "i0", 0, 1)
    rows = json.loads((folder / FILE).read_text())
    rows[0]["hypothesis"] = "Something else."
    (folder / FILE).write_text(json.dumps(rows))
    found = desk.move(FILE, "Ada", "i1", -1)
    assert "Something else." in found.card
    assert found.ratings == (None, None, None)
    assert "1 saved rating is of texts that have changed" in text(desk.start(FILE, "Ada").status)


def test_files_that_can_be_chosen(folder, tmp_path):
    (folder / "broken.json").write_text("[")
    desk = Session(folder)
    assert desk.files() == ["broken.json", FILE]
    assert desk.start(FILE, "Ada").key == "i0"
    with pytest.raises(InputError, match=r"broken\.json"):
        desk.start("broken.json", "Ada")
    for name in ("../x.json", "/etc/passwd", "annotations", "other.json", "", None, ["items.json"], "\0"):
        with pytest.raises(InputError, match="file of items of this folder"):
            desk.start(name, "Ada")
    desk = Session(folder, FILE)
    assert desk.files() == [FILE]
    desk.start(FILE, "Ada")
    (folder / FILE).rename(folder / "away")
    with pytest.raises(InputError, match=r"the texts in items\.json, but got: No such file"):
        desk.move(FILE, "Ada", "i0", 1)
    assert Session(tmp_path).files() == []


def test_scale_and_criteria_of_what_has_been_rated_are_taken_up(folder):
    (folder / "more.json").write_text(json.dumps([{"id": "m0", "hypothesis": "a", "reference": "b"}]))
    criteria = parse_criteria(["adequacy", "style: How?"])
    Session(folder, FILE, scale=Scale(0, 100), criteria=criteria).rate(FILE, "Ada", "i0", 1, 75)
    found = Session(folder)
    assert str(found.scale) == "0-100"
    assert [str(one) for one in found.criteria] == ["adequacy", "style: How?"]
    assert found.start(FILE, "Ada").ratings == (None, 75)
    with pytest.raises(InputError, match="0-100, on which"):
        Session(folder, FILE, scale=Scale(1, 3)).start(FILE, "Ada")
    Session(folder, "more.json", scale=Scale(1, 3)).rate("more.json", "Ada", "m0", 0, 3)
    said = r"the scale 0-100 for items\.json and 1-3 for more\.json: choose one with --items"
    with pytest.raises(InputError, match=said):
        Session(folder)
    assert str(Session(folder, "more.json").scale) == "1-3"


def test_texts_that_changed_while_they_were_shown_are_shown_anew_and_not_rated(folder):
    desk = Session(folder)
    seen = desk.start(FILE, "Ada").seen
    assert not desk.rate(FILE, "Ada", "i0", 0, 1, seen=seen).refused
    rows = json.loads((folder / FILE).read_text())
    rows[0]["hypothesis"] = "quite another text"
    (folder / FILE).write_text(json.dumps(rows))
    for found in (desk.rate(FILE, "Ada", "i0", 0, 3, seen=seen), desk.comment(FILE, "Ada", "i0", "mine", seen=seen)):
        assert found.refused
        assert "has changed: load the page again" in text(found.status)
        assert "quite another text" in found.card
        assert found.ratings == (None, None, None)
        assert found.seen != seen
    assert found.comment == "mine"  # to be sent again
    assert not desk.rate(FILE, "Ada", "i0", 0, 3, seen=found.seen).refused


def test_a_damaged_file_stops_nobody_else_and_is_named(folder):
    desk = Session(folder)
    desk.rate(FILE, "Ada", "i0", 0, 3)
    place = open_project(folder).place
    (place / "bob-1.jsonl").write_text("garbage")
    assert Session(folder).start(FILE, "Carl").key == "i0"
    assert "bob-1.jsonl is not a valid file of ratings" in agreement_view(open_project(folder))


# --- texts are texts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_a_text_holds_is_shown_as_it_is(folder, hostile):
    (folder / FILE).write_text(json.dumps([{"hypothesis": hostile, "reference": hostile, "source": hostile}]))
    desk = Session(folder, criteria=parse_criteria(["fluency"]))
    name = re.sub(r"\s+", " ", hostile)[:80]
    found = desk.start(FILE, name)
    key = found.key
    found = desk.comment(FILE, name, key, hostile)
    assert found.comment == hostile
    for html in (found.card, found.bar, found.status, agreement_view(open_project(folder))):
        assert not re.search(r"<(?!/?(section|article|p|h3|div|span|table|thead|tbody|tr|th|td)\b)", html)
        assert not re.search(r"[{}$`]", html)
        assert 'onmouseover="' not in html
    assert text(found.card).count(hostile) == 3


def test_control_characters_and_direction():
    assert escape("a\x00b\x1bc\r\n\td\ud800\x7f") == "a␀b␛c\n\td\ufffd␡"
    assert 'dir="auto"' in text_block("Reference", "שלום")
    assert "(empty)" in text_block("Reference", "  ")
    assert notice("<b>").count("<b>") == 0


def test_names_read_from_right_to_left_leave_numbers_in_their_places(folder):
    desk, name = Session(folder, criteria=parse_criteria(["\u05d0"])), "\u05d1\u05d2"
    saved = desk.rate(FILE, name, desk.start(FILE, name).key, 0, 2).status
    assert ": \u2068\u05d0\u2069 2; all rated." in saved
    assert f"Welcome back, \u2068{name}\u2069: 1 rated so far." in desk.start(FILE, name).status


def test_other_columns_are_not_shown_to_who_rates(folder):
    rows = [{"hypothesis": "a", "reference": "b", "system": "the-best-one", "source": "shown"}]
    (folder / FILE).write_text(json.dumps(rows))
    card = Session(folder).start(FILE, "Ada").card
    assert "the-best-one" not in card
    assert "shown" in card


# --- agreement and export ---------------------------------------------------------------------------------------------


def rated(folder, scale=None, annotators=("Ada", "Bob"), items=FILE):
    project = open_project(folder, items, scale=scale)
    for shift, name in enumerate(annotators):
        for number, item in enumerate(project.items):
            for criterion in project.criteria:
                spread = project.scale.high - project.scale.low
                value = project.scale.low + (number + shift * (number % 2)) * spread // 11
                project.rate(name, item.key, criterion.name, value)
    return project


def test_agreement_of_two_and_of_three(folder):
    assert "Nobody has rated" in agreement_view(open_project(folder))
    project = rated(folder, annotators=["Ada"])
    assert "rated by two annotators" in text(agreement_view(project))
    rated(folder)
    two = text(agreement_view(project))
    assert "Cohen’s κ" in two
    assert "Krippendorff’s α, ordinal" in two
    assert "these numbers are rough" in two
    rated(folder, annotators=["Ada", "Bob", "Eve"])
    three = text(agreement_view(project))
    assert "Fleiss’ κ" in three
    assert "Cohen’s" not in three
    assert "Ada – Eve" in three
    (folder / "more.json").write_text((folder / FILE).read_text())
    slider = text(agreement_view(rated(folder, Scale(0, 100), items="more.json")))
    assert "Krippendorff’s α, interval" in slider
    assert "Cohen" not in slider


def test_export_says_what_trains_on_it(folder):
    project = rated(folder)
    found = export_view(project, standardise=False)
    assert "Written: 10 texts, rated by 2 annotators" in text(found)
    assert export_ratings(project).command in text(found)
    assert "fewer than 100 rated texts" in text(found)
    assert "rate some first" in export_view(open_project(folder, criteria=parse_criteria(["x"])), standardise=True)


# --- errors -----------------------------------------------------------------------------------------------------------


class Suggesting(Suggestions):
    """Suggests the same errors in each text, without a metric."""

    def __init__(self, *spans):
        super().__init__("a metric")
        self.spans = spans

    def of(self, item):
        return self.spans, ""


def marks(*errors, done=True, **others):
    named = [dict(zip(("start", "end", "severity", "suggested"), one, strict=False)) for one in errors]
    return json.dumps({"errors": named, "rejected": [], "done": done, **others})


def drawn(card):
    """What marks.js is given, and the words and gaps."""
    from html import unescape

    given = json.loads(unescape(re.search(r'data-marks="([^"]*)"', card)[1]))
    units = re.findall(r'class="tm-[wg]" data-from="(\d+)" data-to="(\d+)">([^<]*)<', card)
    return given, [(int(start), int(end), unescape(words)) for start, end, words in units]


def test_errors_are_saved_and_shown_again(folder):
    desk = Session(folder, criteria=(), errors=True)
    assert drawn(desk.start(FILE, "Ada").card)[0] == {
        "errors": [], "rejected": [], "done": False, "metric": "", "suggested": [],
    }  # fmt: skip
    found = desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor"), (0, 0, "critical"), done=False))
    assert ("2 errors; 1 to go" in text(found.status), found.refused) == (True, False)
    assert "all rated" in text(desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor"), (0, 0, "critical"))).status)
    again = Session(folder).start(FILE, "Ada", "i0")
    given, _ = drawn(again.card)
    assert [(one["start"], one["severity"]) for one in given["errors"]] == [(0, "critical"), (4, "minor")]
    assert given["done"]
    assert "1 of 10 rated" in text(again.bar)


def test_marks_that_another_window_has_changed_are_refused(folder):
    desk = Session(folder, errors=True)
    none, one, other = {"errors": []}, json.loads(marks((4, 7, "minor"))), json.loads(marks((0, 3, "major")))
    first = {"shown": [none]}
    assert not desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor"), **first), "w:1").refused
    found = desk.mark(FILE, "Ada", "i0", marks((0, 3, "major"), **first), "v:1")
    assert found.refused
    assert "another window saved others: add yours to those shown now" in text(found.status)
    assert [mark["start"] for mark in drawn(found.card)[0]["errors"]] == [4]
    assert not desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor"), **first), "w:1").refused, "the same request twice"
    both = marks((0, 3, "major"), (4, 7, "minor"), shown=[none, other, one])
    assert not desk.mark(FILE, "Ada", "i0", both, "v:2").refused, "an earlier request of the window was saved"


def test_marks_that_are_refused_are_taken_back(folder):
    desk = Session(folder, errors=True)
    seen = desk.start(FILE, "Ada").seen
    saved = desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor")), "w:1", seen)
    assert 'data-saved="w:1"' in saved.status, "by which the page knows what it need not keep"
    for wrong in (marks((4, 7, "minor"), (6, 9, "minor")), marks((7, 4, "minor")), marks((4, 99, "minor")), "{", None):
        found = desk.mark(FILE, "Ada", "i0", wrong, seen=seen)
        assert found.refused
        assert "Not saved. Expected" in text(found.status)
        assert 'data-saved=""' in found.status
        assert [one["start"] for one in drawn(found.card)[0]["errors"]] == [4]
    assert desk.mark(FILE, "Ada", "i0", marks(), "w:1", seen) is not None
    assert desk.mark(FILE, "Ada", "i0", marks(), "w:0", seen) is None, "sent first and arrived last"
    rows = json.loads((folder / FILE).read_text())
    rows[0]["hypothesis"] = "Something else."
    (folder / FILE).write_text(json.dumps(rows))
    found = desk.mark(FILE, "Ada", "i0", marks((4, 7, "minor")), seen=seen)
    assert "has changed: load the page again" in text(found.status)
    assert drawn(found.card)[0]["errors"] == []
    assert "asks for errors" in text(Session(folder, errors=False).mark(FILE, "Ada", "i0", marks()).status)


def test_suggestions_are_no_judgements(folder):
    desk = Session(folder, errors=True, suggestions=Suggesting(ErrorSpan(4, 7, "minor", 0.7), ErrorSpan(9, 9)))
    given, _ = drawn(desk.start(FILE, "Ada").card)
    assert [(one["start"], one["label"]) for one in given["suggested"]] == [(4, "minor 0.70"), (9, "major 1.00")]
    project = open_project(folder, errors=True)
    assert project.said("Ada") == {}
    found = desk.mark(FILE, "Ada", "i0", marks())
    assert "got 2 undecided: decide first" in text(found.status)
    first = {"start": 4, "end": 7, "severity": "minor"}
    moved = (4, 12, "critical", first)
    assert "got 1 undecided" in text(desk.mark(FILE, "Ada", "i0", marks(moved)).status)
    rejected = [{"start": 9, "end": 9, "severity": "major"}]
    assert not desk.mark(FILE, "Ada", "i0", marks(moved, rejected=rejected)).refused
    saved = project.said("Ada")["i0"].marks
    assert saved.errors == (ErrorMark(ErrorSpan(4, 12, "critical"), ErrorSpan(4, 7, "minor")),)
    assert (saved.rejected, saved.metric) == ((ErrorSpan(9, 9),), "a metric")
    # A session without suggestions keeps the name of the metric that made these.
    Session(folder, errors=True).mark(FILE, "Ada", "i0", marks(moved, rejected=rejected, done=False))
    assert project.said("Ada")["i0"].marks.metric == "a metric"


def test_a_metric_suggests_errors_or_the_page_says_why_not(folder, checkpoint):
    suggestions = Suggestions(str(checkpoint))
    suggestions.load()
    desk = Session(folder, errors=True, suggestions=suggestions)
    card = desk.start(FILE, "Ada").card
    item = open_project(folder).items[0]
    wanted = Scorer.from_pretrained(checkpoint).errors([item.hypothesis], [item.references])[0]
    assert [(one["start"], one["end"]) for one in drawn(card)[0]["suggested"]] == [
        (one.start, one.end) for one in wanted
    ]
    assert wanted.spans
    (folder / FILE).write_text('[{"id": "i0", "hypothesis": "alone"}, {"id": "i1", "hypothesis": ""}]')
    assert "No suggestions. Expected" in text(desk.start(FILE, "Ada").card)
    assert drawn(desk.move(FILE, "Ada", "i0", 1).card)[1] == [(0, 0, "")]


@pytest.mark.parametrize("hostile", [*HOSTILE, "😀 e\u0301t 我爱", "\x00 {{x}}\n\n b"])
def test_words_and_gaps_show_a_text_as_it_is(folder, hostile):
    (folder / FILE).write_text(json.dumps([{"hypothesis": hostile, "reference": "b"}]))
    card = Session(folder, errors=True).start(FILE, "Ada").card
    assert not re.search(r"<(?!/?(section|article|p|h3|div|span|i|button)\b)", card)
    assert not re.search(r"[{}$`]", card)
    _, units = drawn(card)
    assert "".join(words for _, _, words in units) == hostile.replace("\x00", "␀")
    assert [hostile[start:end].replace("\x00", "␀") for start, end, _ in units] == [words for _, _, words in units]


def test_agreement_on_errors_and_their_export(folder):
    desk = Session(folder, errors=True, criteria=())
    assert "Nobody has rated" in agreement_view(desk.project(FILE))
    for number, name in product(range(10), ("Ada", "Bob")):
        desk.mark(FILE, name, f"i{number}", marks((4, 7 + 7 * (name == "Bob"), "minor")))
    found = text(agreement_view(desk.project(FILE)))
    # Characters: 2 · 3 / (3 + 10). Words: "cat" of both, "number" of Bob alone, and five others.
    assert re.search(r"Ada – Bob\s+10\s+0\.46\s+0\.65", found)
    assert "rated by two annotators yet" not in found
    written = text(export_view(desk.project(FILE), standardise=False))
    assert "Written: 20 errors in 20 marked texts, to" in written
    assert "textmover train --config" in written
    desk = Session(folder, errors=True, criteria=parse_criteria(["fluency"]))
    both = text(export_view(desk.project(FILE), standardise=False))
    assert "rate some first" in both
    assert "20 errors" in both
