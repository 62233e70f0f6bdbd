"""Texts, alone or side by side in rows, and pairs: each once, none cut, within a budget, with mates of like length."""

import random

import numpy as np
import pytest
import torch

from textmover.scoring.engine import batches
from textmover.scoring.engine.batches import (
    BLOCK,
    TextRows,
    best_fit,
    encoded_in_rows,
    pair_batches,
    row_groups,
    token_batches,
)
from textmover.types import TokenBatch

VOCABULARY = 1000


def tokenize(texts):
    """Words as tokens: numbers as they are, others by their length."""
    words = [[int(word) if word.isdigit() else len(word) for word in text.split()] for text in texts]
    ids = torch.zeros(len(texts), max(map(len, words)), dtype=torch.long)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, one in enumerate(words):
        ids[row, : len(one)] = torch.tensor(one)
        mask[row, : len(one)] = True
    special = torch.zeros_like(mask, dtype=torch.int8)
    return TokenBatch(ids, mask, special, tuple(texts), (False,) * len(texts))


def noting(read: list[int]):
    """Tokenises, and notes how many texts it was given."""
    return lambda texts: (read.append(len(texts)), tokenize(texts))[1]


def made_texts(count: int, longest: int = 12, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(str(generator.randrange(1, VOCABULARY)) for _ in range(generator.randint(1, longest)))
        for _ in range(count)
    ]


class Runner:
    """States that tell the token, its position and how many tokens its text has."""

    row_shape = (4, 10)
    state_sizes = (3, 2)

    def __init__(self):
        self.calls, self.tokens = 0, 0

    def rows(self, input_ids, positions, texts, into):
        self.calls += 1
        self.tokens += int((texts > 0).sum())
        assert input_ids.shape == positions.shape == texts.shape == self.row_shape
        sizes = (texts[:, :, None] == texts[:, None, :]).sum(axis=2)
        into[0][...] = np.stack([input_ids, positions, sizes], axis=2)
        into[1][...] = np.stack([-input_ids, -positions], axis=2)


def states_of(text: str) -> np.ndarray:
    words = [int(word) for word in text.split()]
    return np.array([[word, place, len(words)] for place, word in enumerate(words)], dtype=np.float32)


@pytest.mark.parametrize("capacity", [10, 13, 64])
@pytest.mark.parametrize("count", [0, 1, 7, 400])
def test_each_text_is_in_one_row_that_has_room(capacity, count):
    lengths = [random.Random(place).randint(1, 10) for place in range(count)]
    found = best_fit(lengths, capacity)
    assert sorted(place for row in found for place in row) == list(range(count))
    assert all(sum(lengths[place] for place in row) <= capacity for row in found)


def test_rows_are_full_where_lengths_vary():
    generator = random.Random(0)
    lengths = [min(60, max(4, round(generator.lognormvariate(3.2, 0.5)))) for _ in range(1000)]
    assert sum(lengths) / (64 * len(best_fit(lengths, 64))) > 0.98


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize(("count", "longest"), [(1, 5), (3, 10), (200, 10), (500, 25)])
def test_groups_hold_every_text_once_in_whole_batches(monkeypatch, count, longest, order):
    monkeypatch.setattr(batches, "TEXTS", 60)
    texts = made_texts(count, longest)
    texts = sorted(texts, key=len) if order == "sorted" else texts
    names = []
    for group in row_groups(tokenize, texts, Runner()):
        assert group.tokens.texts == tuple(texts[name] for name in group.names)
        assert group.rows.tokens.shape == (3, group.rows.batches * Runner.row_shape[0], Runner.row_shape[1])
        assert group.rows.tokens[2, :, 0].all()  # no row is empty
        in_rows = group.starts >= 0
        assert in_rows.any() == bool(group.rows.batches)
        assert not (in_rows & (group.tokens.lengths.numpy() > 10)).any()
        names += group.names
    assert sorted(names) == list(range(count))


def test_texts_that_leave_much_of_a_row_empty_are_in_none(monkeypatch):
    monkeypatch.setattr(batches, "TEXTS", 60)
    texts = [" ".join(["7"] * 6)] * 200 + made_texts(100)
    runner, found = Runner(), []
    for group in row_groups(tokenize, texts, runner):
        assert ((group.rows.tokens[2] > 0).sum(axis=1) >= 8).all()
        found += group.names
        assert len(group.names) < 100  # none wait for ever
    assert sorted(found) == list(range(300))


def test_a_text_goes_where_least_room_is_left():
    assert best_fit([7, 6, 3, 4], capacity=10) == [[0, 2], [1, 3]]


def test_rows_that_do_not_make_a_batch_full_are_empty():
    tokens = tokenize(["1 2 3", "4 5"])
    found = TextRows(Runner(), tokens.input_ids.numpy(), tokens.lengths.numpy(), [[1], [0]])
    _, positions, numbers = found.tokens
    assert found.batches == 1
    assert found.starts.tolist() == [10, 0]
    assert numbers.sum(axis=1).tolist() == [2, 3, 0, 0]
    assert positions[1, :3].tolist() == [0, 1, 2]


def test_the_first_group_is_small_and_so_are_those_of_wide_states(monkeypatch):
    monkeypatch.setattr(batches, "TEXTS", 80)
    wide = Runner()
    wide.state_sizes = (1 << 18,)
    for count, runner, expected in ((240, Runner(), [20, 80, 80, 60]), (9, wide, [1, *[2] * 4])):
        read = []
        groups = row_groups(noting(read), made_texts(count), runner)
        next(groups)
        assert read == expected[:1]  # the others wait for it
        list(groups)
        assert read == expected


def used(given):
    names, batch = given
    states = [None] * len(names) if batch.states is None else [one.numpy() for one in batch.states[0]]
    return [
        (name, text, None if state is None else state[:length].copy())
        for name, text, state, length in zip(names, batch.texts, states, batch.lengths.tolist(), strict=True)
    ]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("count", "longest"), [(2, 5), (40, 10), (700, 14)])
def test_every_text_comes_with_its_own_states(monkeypatch, count, longest, workers):
    monkeypatch.setattr(batches, "TEXTS", 90)
    texts, runner = made_texts(count, longest), Runner()
    groups = row_groups(tokenize, texts, runner)
    found = [one for part in encoded_in_rows(groups, used, 40, workers) for one in part]
    assert sorted(name for name, _, _ in found) == list(range(count))
    alone = 0
    for name, text, states in found:
        assert text == texts[name]
        if states is None:
            alone += 1
        else:
            np.testing.assert_array_equal(states, states_of(text))
    long = sum(len(text.split()) > 10 for text in texts)
    assert long <= alone <= long + 40  # and what is left over in the end
    assert runner.tokens == sum(len(text.split()) for _, text, states in found if states is not None)


def test_batches_are_within_the_budget_and_of_like_length():
    sizes = []

    def look(given):
        sizes.append((given[1].mask.numel(), int(given[1].mask.sum())))
        return given[0]

    runner = Runner()
    list(encoded_in_rows(row_groups(tokenize, made_texts(600, 10), runner), look, 200, 2))
    assert all(size <= 200 for size, _ in sizes)
    assert sum(size for size, _ in sizes) < 1.15 * sum(tokens for _, tokens in sizes)


def test_texts_in_no_row_are_used_as_they_are_tokenised(monkeypatch):
    monkeypatch.setattr(batches, "TEXTS", 40)
    read = []
    texts = [" ".join(["7"] * 6)] * 800
    groups = row_groups(noting(read), texts, Runner())
    found = encoded_in_rows(groups, used, 60, 1)
    assert len(next(found)) == 10
    assert sum(read) < 200


def test_what_fails_is_raised():
    class Broken(Runner):
        def rows(self, *given):
            raise RuntimeError("broken")

    runner = Broken()
    with pytest.raises(RuntimeError, match="broken"):
        list(encoded_in_rows(row_groups(tokenize, made_texts(100), runner), used, 40, 2))


# --- batches of like length -------------------------------------------------------------------------------------------


def worded_texts(count: int) -> list[str]:
    generator = random.Random(0)
    return [" ".join("x" * generator.randint(1, 9) for _ in range(generator.randint(0, 40))) for _ in range(count)]


@pytest.mark.parametrize("count", [0, 200])
@pytest.mark.parametrize("budget", [1, 30, 100, 10**6])
@pytest.mark.parametrize(("chunk", "characters"), [(1024, 1 << 19), (7, 1 << 19), (1024, 500)])
def test_each_text_comes_once_within_the_budget(monkeypatch, count, budget, chunk, characters):
    monkeypatch.setattr(batches, "CHUNK", chunk)
    monkeypatch.setattr(batches, "CHUNK_CHARACTERS", characters)
    texts = worded_texts(count)
    rows = []
    for places, tokens in token_batches(tokenize, texts, lambda: budget):
        assert tokens.texts == tuple(texts[place] for place in places)
        assert tokens.mask.shape[1] == int(tokens.lengths.max())
        assert len(places) == 1 or tokens.mask.numel() <= budget
        rows += places
    assert sorted(rows) == list(range(count))


def test_little_is_padding():
    masks = [tokens.mask for _, tokens in token_batches(tokenize, worded_texts(3000), lambda: 400)]
    assert sum(mask.numel() for mask in masks) < 1.05 * sum(int(mask.sum()) for mask in masks)


def test_the_last_texts_come_in_numbers_that_come_again():
    def sizes(counts):
        cut = [token_batches(tokenize, ["a b c d"] * count, lambda: 400) for count in counts]
        return {len(tokens) for texts in cut for _, tokens in texts}

    assert sizes(range(17, 400, 3)) == {1, 2, 4, 8, 16, 32, 64, 100}
    assert sizes([7]) == {7}  # few texts are encoded together


def test_texts_are_tokenised_as_they_are_needed():
    read = []
    found = token_batches(noting(read), worded_texts(3000), lambda: 100)
    next(found)
    assert read == [1024]


def test_the_budget_may_shrink_on_the_way():
    budget = [100]
    sizes = []
    for _, tokens in token_batches(tokenize, ["a b c d"] * 60, lambda: budget[0]):
        sizes.append(len(tokens))
        budget[0] = 8
    assert sizes == [25, *[2] * 17, 1]


def test_pairs_are_bounded_by_tokens_and_by_entries():
    pairs = np.array([[300, 400], [512, 512], [3, 4], [3, 500], [9, 9]] * 40)
    found = list(pair_batches(pairs, tokens=16384))
    assert sorted(row for rows in found for row in rows) == list(range(200))
    for rows in found:
        width, height = pairs[rows].max(axis=0)
        assert len(rows) == 1 or (len(rows) * width * height <= BLOCK and len(rows) * (width + height) <= 16384)
