"""Words of unlike texts have no counterparts, however close the closest of them are among themselves."""

import pytest
import torch

from textmover.explaining import word_matches
from textmover.explaining.word_matches import unrelated_similarity
from textmover.modules.score_deviation import probe_batches
from textmover.scoring import Scorer

UNLIKE = [
    ("It rained the whole day", "The sun shone all day long", {"rained"}, {"shone"}),
    ("Bananas are yellow.", "Quantum computers factor integers.", {"Bananas", "are", "yellow"}, {"Quantum", "factor"}),
    ("The dog barked loudly", "The committee approved the budget", {"dog", "barked"}, {"committee", "budget"}),
]


@pytest.fixture(scope="module")
def scorers(embedded):
    return {name: Scorer.from_pretrained(name, device="cpu", backend="torch") for name in (None, "bertscore-f1")}


@pytest.mark.parametrize("name", [None, "bertscore-f1"], ids=["default", "bertscore"])
@pytest.mark.parametrize(("hypothesis", "reference", "alone", "other"), UNLIKE)
def test_words_of_unlike_texts_are_left_over(scorers, name, hypothesis, reference, alone, other):
    found = scorers[name].explain(hypothesis, reference)
    assert alone <= {found.hypothesis.words[place] for place in found.unmatched("hypothesis")}
    assert other <= {found.reference.words[place] for place in found.unmatched("reference")}


def test_words_of_like_meaning_are_not(scorers):
    found = scorers[None].explain("The council approved the new budget on Tuesday.", "On Tuesday it passed the budget.")
    words = [found.hypothesis.words[place] for place in found.unmatched("hypothesis")]
    assert not {"approved", "budget", "Tuesday"} & set(words)


def test_the_floor_is_what_few_words_of_unrelated_sentences_reach(scorers):
    with torch.inference_mode():
        floors = {name: unrelated_similarity(scorer.metric) for name, scorer in scorers.items()}
    assert 0.3 < floors[None] < 0.5
    assert 0.2 < floors["bertscore-f1"] < 0.35


def test_the_floor_is_computed_once_for_the_present_weights(tiny_metric, monkeypatch):
    asked = []
    monkeypatch.setattr(word_matches, "probe_batches", lambda metric: asked.append(1) or probe_batches(metric))
    metric = tiny_metric()
    with torch.no_grad():
        first, again = unrelated_similarity(metric), unrelated_similarity(metric)
        next(metric.encoder.parameters()).mul_(-3)
        other = unrelated_similarity(metric)
    assert first == again != other
    assert len(asked) == 2


@pytest.mark.parametrize("preset", ["twmd", "moverscore-wmd2", "sbert-pooled", "wordset-cka", "hmd-f1"])
def test_it_is_a_cosine_for_metrics_of_every_kind(tiny_encoder, preset):
    fields = {"last_layers": 3} if preset in ("moverscore-wmd2", "hmd-f1") else {}
    scorer = Scorer.from_pretrained(preset, encoder=str(tiny_encoder), device="cpu", backend="torch", **fields)
    if scorer.metric.needs_fit:
        scorer.fit(["the small dog ran home", "she will buy a book"])
    with torch.inference_mode():
        assert -1 <= unrelated_similarity(scorer.metric) <= 1.0001
