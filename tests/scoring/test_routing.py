"""``--model auto``: English texts are scored by the default metric, others by the multilingual one, never silently."""

import argparse
import logging

import pytest

from textmover.cli.main import main
from textmover.modules.encoder.source import MULTILINGUAL
from textmover.runs import score_inputs
from textmover.scoring import Scorer, scorer_options
from textmover.scoring.field_flags import FIELD, given_fields
from textmover.types import InputError

ENGLISH = ["The train arrives at eight o'clock and the cat is asleep."] * 5
GERMAN = ["Der Zug kommt um acht Uhr an, und die Katze schläft auf dem Stuhl."] * 5
CHINESE = ["火车八点钟到达。"]


@pytest.mark.parametrize(
    ("sides", "released", "model", "fields"),
    [
        ((ENGLISH, ENGLISH), True, "textmover-general", {}),
        ((ENGLISH, ["Yes."]), True, "textmover-general", {}),
        ((GERMAN, ENGLISH), False, "twmd", {"encoder": MULTILINGUAL}),
        ((ENGLISH, GERMAN), False, "twmd", {"encoder": MULTILINGUAL}),
        ((CHINESE, CHINESE), True, "textmover-multilingual", {}),
    ],
)
def test_the_metric_follows_the_language(monkeypatch, caplog, sides, released, model, fields):
    monkeypatch.setattr(scorer_options, "released_folder", lambda name: released)
    options = argparse.Namespace(model="auto")
    with caplog.at_level(logging.WARNING):
        scorer_options.take_by_language(options, *sides)
    assert (options.model, given_fields(options)) == (model, fields)
    told = [one.message for one in caplog.records]
    expected = f"The texts are not all English: {model} over {MULTILINGUAL} scores them."
    assert told == ([] if model == "textmover-general" else [expected])


def test_an_encoder_beside_it_is_refused():
    options = argparse.Namespace(model="auto", **{f"{FIELD}encoder": "x"})
    with pytest.raises(InputError, match="Expected `--model auto` or `--encoder`, but got both"):
        scorer_options.take_by_language(options, ENGLISH)


@pytest.mark.parametrize(
    ("flag", "other", "expected"),
    [
        ("--references", ENGLISH[0], "textmover-general"),
        ("--references", CHINESE[0], "twmd"),
        ("--sources", CHINESE[0], "twmd"),
    ],
)
def test_score_reads_texts_before_it_takes_a_metric(monkeypatch, tmp_path, flag, other, expected):
    class ReachedError(Exception):
        pass

    def load_scorer(options):
        raise ReachedError(options.model)

    monkeypatch.setattr(scorer_options, "released_folder", lambda name: None)
    monkeypatch.setattr(score_inputs, "load_scorer", load_scorer)
    for name, text in (("h.txt", ENGLISH[0]), ("r.txt", other)):
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(ReachedError, match=expected):
        main(["score", "--hypotheses", str(tmp_path / "h.txt"), flag, str(tmp_path / "r.txt"), "--model", "auto"])


def test_elsewhere_it_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"but got 'auto'\. `auto` is for `textmover score`"):
        Scorer.from_pretrained("auto")
