"""What RoMe remembers is computed once, comes back in order, and is bounded."""

import torch

from textmover.rome.features import text_features
from textmover.rome.features.text_features import RomeCache


class Counted:
    """Judges texts by their length, and features pairs by both; notes what it was asked for."""

    def __init__(self):
        self.asked = []

    def judge(self, texts):
        self.asked += texts
        return torch.tensor([float(len(text)) for text in texts])

    def compute(self, hypotheses, references):
        pairs = list(zip(hypotheses.texts, references.texts, strict=True))
        self.asked += pairs
        values = torch.tensor([[float(len(one)), float(len(other))] for one, other in pairs])
        return values, values > 2


def test_texts_are_judged_once_until_it_is_cleared():
    memory, counted = RomeCache(), Counted()
    assert memory.acceptability(["a", "bb", "a"], counted.judge).tolist() == [1, 2, 1]
    assert memory.acceptability(["ccc", "bb"], counted.judge).tolist() == [3, 2]
    memory = memory.without_pairs()
    memory.acceptability(["a"], counted.judge)
    assert counted.asked == ["a", "bb", "ccc"]
    memory.clear()
    memory.acceptability(["a"], counted.judge)
    assert counted.asked[3:] == ["a"]


def test_pairs_are_computed_once_and_come_back_in_order(tiny_metric):
    memory, counted, tokenize = RomeCache(), Counted(), tiny_metric().tokenize
    first = memory.features(tokenize(["a", "bbb"]), tokenize(["dd", "e"]), counted.compute)
    assert first[0].tolist() == [[1, 2], [3, 1]]
    features, flags = memory.features(tokenize(["bbb", "c", "a"]), tokenize(["e", "f", "dd"]), counted.compute)
    assert features.tolist() == [[3, 1], [1, 1], [1, 2]]
    assert flags.tolist() == [[True, False], [False, False], [False, False]]
    assert counted.asked == [("a", "dd"), ("bbb", "e"), ("c", "f")]
    memory = memory.without_pairs()
    memory.features(tokenize(["a"]), tokenize(["dd"]), counted.compute)
    assert counted.asked[3:] == [("a", "dd")]


def test_no_more_than_so_many_are_kept(tiny_metric, monkeypatch):
    monkeypatch.setattr(text_features, "CACHE_SIZE", 2)
    memory, counted, tokenize = RomeCache(), Counted(), tiny_metric().tokenize
    for text in ("a", "bb", "ccc"):
        memory.acceptability([text], counted.judge)
        memory.features(tokenize([text]), tokenize(["d"]), counted.compute)
    memory.acceptability(["a"], counted.judge)
    memory.features(tokenize(["a"]), tokenize(["d"]), counted.compute)
    assert counted.asked[-2:] == ["a", ("a", "d")]
