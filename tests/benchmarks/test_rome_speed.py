"""The benchmark of RoMe's parts: what its clock counts, the texts it makes, and its report."""

import threading
import time
from types import SimpleNamespace

import pytest
import torch

from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring.scorer import Scorer


def busy(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_time_of_an_inner_part_is_not_that_of_the_outer_one(script):
    clock, work = script.Clock(), SimpleNamespace(inner=lambda: busy(0.04), waits=lambda: time.sleep(0.05))

    def outer():
        busy(0.02)
        work.inner()

    work.outer = outer
    parts = [script.Part(name, work, name) for name in ("outer", "inner", "waits")]
    with clock.around(parts):
        thread = threading.Thread(target=lambda: work.inner())
        thread.start()
        work.outer()
        work.waits()
        thread.join()
    assert work.outer is outer  # as it was
    assert clock.calls == {"outer": 1, "inner": 2, "waits": 1}
    assert clock.seconds["outer"] == pytest.approx(0.02, abs=0.01)
    assert clock.seconds["inner"] == pytest.approx(0.08, abs=0.02)
    assert clock.seconds["waits"] < 0.01


def test_the_texts_are_distinct_and_of_the_length_that_was_asked_for(script, tmp_path):
    text = "a the cat dog house child eats sees finds small big old red good book in on under and table tree"
    words = text.split()
    lines = [" ".join(words[(row + step) % len(words)] for step in range(3 + row)) for row in range(30)]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*lines, *lines]), encoding="utf-8")
    hypotheses, references = script.corrupted_pairs(path, 8, (10, 30), 0)
    texts = [*hypotheses, *references]
    assert len(hypotheses) == len(references) == 8
    assert len(set(texts)) == 16
    assert all(10 <= len(text.split()) <= 30 for text in texts)
    assert set(references) <= set(lines)
    assert script.corrupted_pairs(path, 8, (10, 30), 0) == (hypotheses, references)
    with pytest.raises(SystemExit, match="ask for fewer"):
        script.corrupted_pairs(path, 50, (10, 30), 0)


def test_every_part_is_met_and_no_score_changes(script, tiny_encoder, tiny_metric):
    config = RomeConfig(encoder=str(tiny_encoder), weights="uniform", parser="textmover-parser")
    metric = RomeMetric.from_config(config).eval()
    torch.manual_seed(0)
    labels = ClassifierConfig(("unacceptable", "acceptable"), "single")
    metric.take_part("acceptability", TextClassifier.untrained(tiny_metric(), labels))
    pairs = (["A cat sat.", "The dog ran home."], ["The cat sat down.", "A dog ran."])
    expected = Scorer(metric, cache=False).score(*pairs).scores
    parts, clock = script.parts_of(metric), script.Clock()
    with clock.around(parts):
        found = Scorer(metric, cache=False).score(*pairs).scores
    assert found.tolist() == expected.tolist()
    unmet = {part.name for part in parts} - {name for name, calls in clock.calls.items() if calls}
    assert not unmet


def test_the_report_ranks_the_parts_beside_another_metric(script):
    clock, calls = script.Clock(), {"words: encoder": 3, "parser": 2}
    clock.seconds |= {"words: encoder": 2.5, "parser": 1.0}
    clock.calls |= calls
    runs = {"rome": [script.Run(2.0, 4.0, clock, "a")], script.BESIDE: [script.Run(1.0, 2.0, script.Clock(), "b")]}
    lines = script.report(runs, 100).splitlines()
    assert "| words: encoder | 3 | 2.50 | 62.5% |" in lines
    assert f"| {script.REST} |  | 0.50 | 12.5% |" in lines
    assert "| rome | 2.00 (2.00 to 2.00) | 4.0 | 50.0 | 0.50 |" in lines
