"""Every text and pair comes once, within its budget, with mates of like length."""

import random

import numpy as np
import pytest
import torch

from textmover.scoring.engine import batches
from textmover.scoring.engine.batches import BLOCK, pair_batches, token_batches
from textmover.types import TokenBatch


def tokenize(texts):
    """Words as tokens."""
    lengths = torch.tensor([len(text.split()) for text in texts])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = mask * torch.tensor([len(text) for text in texts])[:, None]
    return TokenBatch(ids, mask, torch.zeros_like(mask, dtype=torch.int8), tuple(texts), (False,) * len(texts))


def made_texts(count: int) -> list[str]:
    generator = random.Random(0)
    return [" ".join("x" * generator.randint(1, 9) for _ in range(generator.randint(0, 40))) for _ in range(count)]


@pytest.mark.parametrize("budget", [1, 30, 100, 10**6])
@pytest.mark.parametrize(("chunk", "characters"), [(1024, 1 << 19), (7, 1 << 19), (1024, 500)])
def test_each_text_comes_once_within_the_budget(monkeypatch, budget, chunk, characters):
    monkeypatch.setattr(batches, "CHUNK", chunk)
    monkeypatch.setattr(batches, "CHUNK_CHARACTERS", characters)
    texts = made_texts(200)
    rows = []
    for places, tokens in token_batches(tokenize, texts, lambda: budget):
        assert tokens.texts == tuple(texts[place] for place in places)
        assert tokens.mask.shape[1] == int(tokens.lengths.max())
        assert len(places) == 1 or tokens.mask.numel() <= budget
        rows += places
    assert sorted(rows) == list(range(200))


def test_little_is_padding():
    batches = [tokens.mask for _, tokens in token_batches(tokenize, made_texts(3000), lambda: 400)]
    assert sum(mask.numel() for mask in batches) < 1.05 * sum(int(mask.sum()) for mask in batches)


def test_the_last_texts_come_in_numbers_that_come_again():
    def sizes(counts):
        cut = [token_batches(tokenize, ["a b c d"] * count, lambda: 400) for count in counts]
        return {len(tokens) for batches in cut for _, tokens in batches}

    assert sizes(range(17, 400)) == {1, 2, 4, 8, 16, 32, 64, 100}
    assert sizes([7]) == {7}  # few texts are encoded together


def test_texts_are_tokenised_as_they_are_needed():
    read = []
    batches = token_batches(lambda texts: (read.append(len(texts)), tokenize(texts))[1], made_texts(3000), lambda: 100)
    next(batches)
    assert read == [1024]


def test_the_budget_may_shrink_on_the_way():
    budget = [100]
    sizes = []
    for _, tokens in token_batches(tokenize, ["a b c d"] * 60, lambda: budget[0]):
        sizes.append(len(tokens))
        budget[0] = 8
    assert sizes == [25, *[2] * 17, 1]


def test_no_text_makes_no_batch():
    assert list(token_batches(tokenize, [], lambda: 10)) == []


def test_pairs_are_bounded_by_tokens_and_by_entries():
    pairs = np.array([[300, 400], [512, 512], [3, 4], [3, 500], [9, 9]] * 40)
    batches = list(pair_batches(pairs, tokens=16384))
    assert sorted(row for rows in batches for row in rows) == list(range(200))
    for rows in batches:
        width, height = pairs[rows].max(axis=0)
        assert len(rows) == 1 or (len(rows) * width * height <= BLOCK and len(rows) * (width + height) <= 16384)
