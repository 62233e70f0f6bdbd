"""Several metrics over the same texts: the scores of each alone, each text encoded once."""

import numpy as np
import pytest
from tests.sentences import sentences

from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.metric_set import score_together

PRESETS = ("twmd", "bertscore-f1", "bertscore-f1-idf", "sbert", "moverscore-wmd2")


@pytest.fixture
def pairs():
    references = sentences(12, 1) * 2  # the same in both halves, as several systems have them
    return sentences(24, 0), [[one] for one in references]


@pytest.fixture
def made(load_tiny):
    return lambda memory=None: {name: load_tiny(name, memory=memory) for name in PRESETS}


def test_scores_are_those_of_each_alone_in_windows_of_any_size(made, pairs, monkeypatch):
    alone = {name: scorer.score(*pairs) for name, scorer in made().items()}
    for window in (5, 1000):
        monkeypatch.setattr("textmover.scoring.metric_set.WINDOW", window)
        memory, done = EncoderMemory(), []
        found = score_together(made(memory), *pairs, memory, done.append)
        assert sum(done) == len(PRESETS) * 24
        for name, scores in alone.items():
            for value in ("scores", "precision", "recall", "f"):
                one, other = getattr(found[name], value), getattr(scores, value)
                assert (one is None) == (other is None)
                if one is not None:
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
            assert str(found[name].signature) == str(scores.signature)
            assert dict(found[name].counts) == dict(scores.counts)


def test_each_text_is_encoded_once_for_all_metrics(made, pairs, texts_read):
    memory = EncoderMemory()
    scorers = made(memory)
    assert len({id(scorer.metric.encoder.model) for scorer in scorers.values()}) == 1
    texts_read.clear()
    score_together(scorers, *pairs, memory)
    assert sum(texts_read) == len({*pairs[0], *(text for (text,) in pairs[1])})


def test_memory_does_not_grow_with_the_texts(made, monkeypatch):
    monkeypatch.setattr("textmover.scoring.metric_set.WINDOW", 8)
    memory, held = EncoderMemory(), []
    scorers = made(memory)
    (group,) = memory._groups

    def measure(_: int) -> None:
        held.append(group.cache.nbytes + sum(scorer._engine._cache.nbytes for scorer in scorers.values()))

    score_together(scorers, sentences(80, 0), [[one] for one in sentences(80, 1)], memory, measure)
    first, last = max(held[: len(held) // 2]), max(held[len(held) // 2 :])
    assert 0 < last <= 1.5 * first
