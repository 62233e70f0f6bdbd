"""Soft tokens: one-hot ones are the ids, gradients are right, and batch mates change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from textmover.types import InputError, SpecialToken

HYPOTHESES = ["the cat reads", "a little dog runs home at night, slowly", "go"]
REFERENCES = ["a cat is reading the book", "the small dog ran to the old house", "go home"]

SETTINGS = [
    {"matching": "twmd", "centering": "batch"},
    {"matching": "bertscore", "subwords": "first", "punctuation": "drop"},
    {"matching": "emd", "aggregation": "power-means", "last_layers": 2, "ngram": 2, "subwords": "mean"},
    {"matching": "sbert-pooled", "hypothesis_special_tokens": "keep"},
    {"matching": "twmd", "long_texts": "window", "max_length": 8},
]


def ordinary(metric, texts):
    """Ids and mask of texts, without special tokens."""
    batch = metric.tokenize(texts)
    rows = [
        ids[special == SpecialToken.NONE][: int(n) - 2]
        for ids, special, n in zip(batch.input_ids, batch.special, batch.lengths, strict=True)
    ]
    mask = torch.arange(max(map(len, rows))) < torch.tensor([[len(row)] for row in rows])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), mask


def soft(metric, texts, kind="distributions"):
    ids, mask = ordinary(metric, texts)
    if kind == "inputs_embeds":
        return metric.soft_tokens(mask=mask, inputs_embeds=metric.encoder.embed(ids))
    return metric.soft_tokens(one_hot(ids, metric.tokenizer.vocabulary_size).to(next(metric.parameters()).dtype), mask)


@pytest.mark.parametrize("kind", ["distributions", "inputs_embeds"])
@pytest.mark.parametrize("fields", SETTINGS, ids=lambda one: "-".join(map(str, one.values())))
def test_one_hot_tokens_score_as_their_ids(tiny_metric, fields, kind):
    metric = tiny_metric(**fields)
    references = metric.tokenize(REFERENCES)
    batch = soft(metric, HYPOTHESES, kind)
    hard = metric.tokenize(HYPOTHESES)
    assert torch.equal(batch.input_ids, hard.input_ids)
    assert torch.equal(batch.special, hard.special)
    expected = metric(hard, references).score
    torch.testing.assert_close(metric(batch, references).score, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(metric(references, batch).score, metric(references, hard).score, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["distributions", "inputs_embeds"])
def test_soft_tokens_under_autocast_are_the_same(tiny_metric, kind):
    metric = tiny_metric()
    expected = soft(metric, HYPOTHESES, kind).embeddings
    with torch.autocast("cpu", torch.bfloat16):
        found = soft(metric, HYPOTHESES, kind)
        assert metric(found, metric.tokenize(REFERENCES)).score.isfinite().all()
    assert torch.equal(found.embeddings, expected)


def test_batch_mates_change_nothing(tiny_metric):
    metric = tiny_metric(temperature=0.1)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(3, 6, metric.tokenizer.vocabulary_size, generator=generator).mul(3).softmax(dim=2)
    mask = torch.tensor([[True] * 6, [True] * 2 + [False] * 4, [True, False] * 3])  # gaps are closed
    together = metric(metric.soft_tokens(tokens, mask), metric.tokenize(REFERENCES)).score
    alone = [
        metric(metric.soft_tokens(tokens[row : row + 1, mask[row]]), metric.tokenize(REFERENCES[row : row + 1])).score
        for row in range(3)
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-6)


def test_gradients_are_those_of_finite_differences(tiny_metric):
    metric = tiny_metric(temperature=0.3).double()
    references = metric.tokenize(["a cat reads", "go home"])
    logits = torch.randn(2, 3, metric.tokenizer.vocabulary_size, generator=torch.Generator().manual_seed(1)).double()
    logits.requires_grad_()
    mask = torch.tensor([[True, True, True], [True, True, False]])

    def score(logits):
        return metric(metric.soft_tokens(logits.softmax(dim=2), mask), references).score

    assert torch.autograd.gradcheck(score, (logits,), fast_mode=True)
    (gradient,) = torch.autograd.grad(score(logits).sum(), logits)
    assert gradient[mask].abs().sum(dim=1).min() > 0
    assert gradient[~mask].abs().max() == 0


def test_an_unknown_soft_token_matches_nothing(tiny_metric):
    metric = tiny_metric()
    unknown = metric.tokenizer._tokenizer.unk_token_id
    ids = torch.full((1, 2), unknown)
    batch = metric.soft_tokens(one_hot(ids, metric.tokenizer.vocabulary_size).float())
    assert metric(batch, metric.tokenize(["日本"])).score.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda v: {}, "either `distributions` or `inputs_embeds`, but got both or neither"),
        (lambda v: {"distributions": torch.ones(2, v) / v}, r"shape \[B, L, \d+\], but got \[2, \d+\]"),
        (lambda v: {"distributions": torch.ones(1, 2, 3) / 3}, r"shape \[B, L, \d+\], but got \[1, 2, 3\]"),
        (lambda v: {"distributions": torch.randn(1, 2, v)}, "sum to 1, but got sums of .*: take the softmax of logits"),
        (lambda v: {"distributions": torch.full((1, 2, v), float("nan"))}, "sum to 1, but got sums of nan"),
        (lambda v: {"distributions": torch.eye(v)[None, :2].roll(1, 2) * 2 - torch.eye(v)[:2]}, "values from -1 up"),
        (lambda v: {"distributions": np.ones((1, 2, v))}, r"shape \[B, L, \d+\], but got"),
        (lambda v: {"distributions": torch.ones(1, 200, v) / v}, "at most 128 tokens, .* but got 202: give fewer"),
        (lambda v: {"inputs_embeds": torch.ones(1, 2, 31)}, r"`inputs_embeds` of shape \[B, L, 32\], but got"),
        (lambda v: {"inputs_embeds": torch.ones(1, 2, 32), "mask": torch.ones(1, 3)}, r"`mask` of shape \[1, 2\]"),
    ],
)
def test_soft_tokens_that_are_none_are_refused(tiny_metric, arguments, message):
    metric = tiny_metric()
    with pytest.raises(InputError, match=message):
        metric.soft_tokens(**arguments(metric.tokenizer.vocabulary_size))
