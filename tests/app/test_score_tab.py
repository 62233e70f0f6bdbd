"""Scores and alignments of typed texts, without a browser."""

import pytest

from textmover import Scorer
from textmover.app.score_tab import LONGEST_DRAWN, LONGEST_SCORED, Explorer, score_table
from textmover.types import InputError


@pytest.fixture(scope="module")
def explorer(checkpoint):
    return Explorer([str(checkpoint)], "cpu")


@pytest.fixture
def name(checkpoint):
    return str(checkpoint)


def test_scores_are_those_of_the_scorer(explorer, name):
    text, references = "the cat sat here", ["a cat sat there", "a dog"]
    (row,) = explorer.scores(text, [*references, "", None, "  "], [name, name])
    wanted = Scorer.from_pretrained(name, device="cpu").score([text], [references])
    assert row.values["score"] == pytest.approx(wanted.scores[0], abs=1e-6)
    assert row.values["precision"] == pytest.approx(wanted.precision[0], abs=1e-6)
    assert f"{row.values['score']:.3f}" in score_table([row])


def test_the_alignment_is_drawn_and_harmless(explorer, name):
    found = explorer.alignment("the <b>cat</b> <script>alert(1)</script> ${x}", ["a cat sat {{y}}"], name)
    assert "<iframe" in found
    assert 'sandbox="allow-scripts"' in found
    assert "<script" not in found  # all of it stands escaped in the frame's attribute
    assert found.count('"') % 2 == 0
    (row,) = explorer.scores("القطة جلست", ["جلست القطة"], [name])  # from right to left
    assert not row.failed
    assert "<iframe" in explorer.alignment("القطة جلست", ["جلست القطة"], name)


def test_a_metric_that_fails_does_not_take_the_others_along(name, tmp_path):
    bad = str(tmp_path / "none")
    first, second = Explorer([bad, name], "cpu").scores("a cat", ["a dog"], [bad, name])
    assert first.failed
    assert "to be a checkpoint folder" in first.note
    assert "score" in second.values
    assert "to be a checkpoint folder" in score_table([first, second])


@pytest.mark.parametrize(
    ("text", "references", "message"),
    [
        ("", ["a"], "type both"),
        ("a", [], "type both"),
        ("a", ["", None], "type both"),
        ("a", ["b " * (LONGEST_SCORED + 1)], "at most 5,000 words"),
    ],
)
def test_texts_that_are_none_or_endless_are_refused(explorer, name, text, references, message):
    with pytest.raises(InputError, match=message):
        explorer.scores(text, references, [name])


def test_metrics_that_are_not_offered_are_not_loaded(explorer, name):
    assert explorer.names[0] == name
    assert "twmd" in explorer.names
    assert "twmd-b" not in explorer.names  # it needs a corpus
    assert set(explorer.first) <= set(explorer.names)
    with pytest.raises(InputError, match="at least one metric"):
        explorer.scores("a", ["b"], ["/etc", "owner/name"])
    with pytest.raises(InputError, match="at most 12"):
        explorer.scores("a", ["b"], explorer.names[:13])
    assert "choose one" in explorer.alignment("a", ["b"], "/etc")


def test_two_thousand_words_are_scored_and_not_drawn(explorer, name):
    text = "the cat sat on the red street " * 286
    (row,) = explorer.scores(text, [text], [name])
    assert not row.failed
    assert row.values["score"] == pytest.approx(1, abs=1e-3)
    drawn = explorer.alignment(text, [text], name)
    assert f"at most {LONGEST_DRAWN} words" in drawn
    assert "<iframe" not in drawn


def test_a_source_is_read_by_metrics_that_can(tiny_metric, tiny_multilingual, tiny_encoder, tmp_path):
    from textmover.scoring import save_checkpoint
    from textmover.types import SourcedReferences

    for name, fields in (("plain", {}), ("reads", {"encoder": str(tiny_multilingual), "mode": "source"})):
        save_checkpoint(tiny_metric(**fields), tmp_path / name, card="")
    names = [str(tmp_path / "plain"), str(tmp_path / "reads")]
    explorer = Explorer(names, "cpu")
    plain, reads = explorer.scores("a cat", SourcedReferences(["", "a dog"], "a cat"), names)
    assert plain.values["score"] < reads.values["score"] == pytest.approx(1, abs=1e-5)
    assert (plain.note, reads.note) == ("", "with the source, copied")
    assert "<iframe" in explorer.alignment("a cat", SourcedReferences([], "the dog"), names[1])
    failed, _ = explorer.scores("a cat", SourcedReferences([], "the dog"), names)
    assert failed.failed
    assert "a reference" in failed.note
