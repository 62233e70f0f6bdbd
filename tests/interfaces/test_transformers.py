from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, EvalPrediction

from textmover import InputError
from textmover.interfaces.transformers import compute_metrics

OUTPUTS = ["the cat will sit on the street", "a dog"]  # words of the tiny vocabulary, which come back as they were
GOLDS = ["a cat will sleep in the street", "the dog"]


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture
def ids(tokenizer):
    def ids(texts, padding):
        rows = tokenizer(texts)["input_ids"]
        longest = max(map(len, rows))
        return np.array([row + [padding] * (longest - len(row)) for row in rows])

    return ids


def test_texts_are_decoded_and_scored(tokenizer, ids, tiny_scorer):
    expected = tiny_scorer.score(OUTPUTS, GOLDS)
    metrics = compute_metrics(tokenizer, tiny_scorer)
    for padding in (-100, tokenizer.pad_token_id):
        found = metrics(EvalPrediction(predictions=ids(OUTPUTS, padding), label_ids=ids(GOLDS, -100)))
        assert list(found) == ["textmover", "textmover_precision", "textmover_recall", "textmover_f1"]
        assert found["textmover"] == pytest.approx(expected.mean)
        assert found["textmover_recall"] == pytest.approx(expected.recall.mean())


def test_the_first_of_several_outputs(tokenizer, ids, tiny_scorer):
    metrics = compute_metrics(tokenizer, tiny_scorer, name="twmd")
    prediction = SimpleNamespace(predictions=(ids(OUTPUTS, -100), np.zeros((2, 3))), label_ids=ids(GOLDS, -100))
    assert metrics(prediction)["twmd"] == pytest.approx(tiny_scorer.score(OUTPUTS, GOLDS).mean)


def test_batch_by_batch(tokenizer, ids, tiny_scorer):
    metrics = compute_metrics(tokenizer, tiny_scorer)
    whole = metrics(EvalPrediction(ids(OUTPUTS, -100), ids(GOLDS, -100)))
    for _ in range(2):  # nothing is left of the first time
        parts = [
            (torch.tensor(ids([output], -100)), torch.tensor(ids([gold], -100)))
            for output, gold in zip(OUTPUTS, GOLDS, strict=True)
        ]
        assert metrics(EvalPrediction(*parts[0]), compute_result=False) == {}
        assert metrics(EvalPrediction(*parts[1]), compute_result=True) == pytest.approx(whole)


def test_the_metric_is_loaded_when_it_is_needed(tokenizer, ids):
    metrics = compute_metrics(tokenizer, "no-such-metric")
    with pytest.raises(InputError, match="no-such-metric"):
        metrics(EvalPrediction(ids(OUTPUTS, -100), ids(GOLDS, -100)))


@pytest.mark.parametrize("logits", [np.zeros((2, 3, 5)), np.zeros((2, 3))])
def test_logits_are_refused_with_the_way_out(tokenizer, ids, tiny_scorer, logits):
    metrics = compute_metrics(tokenizer, tiny_scorer)
    with pytest.raises(InputError, match="predict_with_generate=True"):
        metrics(EvalPrediction(logits, ids(GOLDS, -100)))
    with pytest.raises(InputError, match="Expected label_ids to be rows of token ids"):
        metrics(EvalPrediction(ids(OUTPUTS, -100), logits), compute_result=False)
    whole = metrics(EvalPrediction(ids(OUTPUTS, -100), ids(GOLDS, -100)))
    assert whole["textmover"] == pytest.approx(tiny_scorer.score(OUTPUTS, GOLDS).mean), "nothing is left of what failed"


def test_rows_of_unlike_lengths_are_refused_with_the_way_out(tokenizer, ids, tiny_scorer):
    with pytest.raises(InputError, match=r"Expected predictions to be rows of token ids of one length, .* with -100"):
        compute_metrics(tokenizer, tiny_scorer)(EvalPrediction([[5, 6, 7], [5]], ids(GOLDS, -100)))


def test_nothing_to_score(tokenizer, tiny_scorer):
    with pytest.raises(InputError, match="Expected predictions to score, but got none"):
        compute_metrics(tokenizer, tiny_scorer)(EvalPrediction(np.zeros((0, 3), int), np.zeros((0, 3), int)))
