from collections import Counter

import numpy as np
import pytest
import torch

from textmover.data.batching import LengthBuckets, RatingLoader
from textmover.types import InputError, Segment, TokenBatch


def tokenize(texts):
    """One token for each word, numbered by its length."""
    ids = [torch.tensor([len(word) for word in text.split()]) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    return TokenBatch(
        padded, padded > 0, torch.zeros_like(padded, dtype=torch.int8), tuple(texts), (False,) * len(texts)
    )


def segments(n=50, references=1):
    rng = np.random.default_rng(0)
    return [
        Segment("w " * int(rng.integers(1, 40)), tuple(f"r{k} " * (k + 1) for k in range(references)), score=float(row))
        for row in range(n)
    ]


@pytest.mark.parametrize("pool", [1, 3, 100])
def test_every_segment_comes_once_an_epoch(pool):
    buckets = LengthBuckets(list(range(53)), 8, pool=pool)
    batches = buckets.batches(epoch=4)
    assert sorted(place for batch in batches for place in batch) == list(range(53))
    assert len(batches) == len(buckets) == 7


def test_the_order_follows_from_seed_and_epoch_alone():
    lengths = list(range(40))
    first, second = LengthBuckets(lengths, 4, seed=1), LengthBuckets(lengths, 4, seed=1)
    first.batches(0)
    assert first.batches(3) == second.batches(3)
    assert first.batches(3) != first.batches(4)
    assert first.batches(3) != LengthBuckets(lengths, 4, seed=2).batches(3)


def test_batches_hold_segments_of_like_length():
    lengths = np.random.default_rng(0).integers(5, 100, size=2000)
    spread = lambda batches: np.mean([np.ptp(lengths[batch]) for batch in batches])  # noqa: E731
    assert spread(LengthBuckets(lengths, 16).batches(0)) < 0.1 * spread(LengthBuckets(lengths, 16, pool=1).batches(0))


def test_ranks_share_the_batches_and_have_equally_many():
    lengths = list(range(50))
    whole = LengthBuckets(lengths, 4).batches(0)
    parts = [LengthBuckets(lengths, 4, rank=rank, world=3).batches(0) for rank in range(3)]
    assert {len(part) for part in parts} == {len(whole) // 3}
    assert [batch for step in zip(*parts, strict=True) for batch in step] == whole[: len(whole) // 3 * 3]


@pytest.mark.parametrize(("batch_size", "pool"), [(0, 1), (4, 0)])
def test_sizes_below_one_are_refused(batch_size, pool):
    with pytest.raises(InputError, match="at least 1"):
        LengthBuckets([1, 2], batch_size, pool=pool)


def test_a_loader_goes_on_where_its_saved_place_was():
    rated = segments()
    unbroken = [batch.positions.tolist() for batch in RatingLoader(rated, tokenize, 8, shuffle=True)]
    broken = RatingLoader(rated, tokenize, 8, shuffle=True)
    iterator = iter(broken)
    first = [next(iterator).positions.tolist() for _ in range(3)]
    resumed = RatingLoader(rated, tokenize, 8, shuffle=True)
    resumed.load_state_dict(broken.state_dict())
    rest = [batch.positions.tolist() for batch in resumed]
    assert first + rest == unbroken
    assert [batch.positions.tolist() for batch in resumed] == unbroken, "the next iteration starts from the front"


@pytest.mark.parametrize("state", [{"epoch": 0, "batch": 7}, {"epoch": 1, "batch": 3}])
def test_a_place_at_the_end_or_of_another_epoch_starts_from_the_front(state):
    rated = segments()
    loader = RatingLoader(rated, tokenize, 8, shuffle=True)
    loader.load_state_dict(state)
    assert Counter(place for batch in loader for place in batch.positions.tolist()) == Counter(range(50))


def test_iterating_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    list(RatingLoader(segments(), tokenize, 8, shuffle=True))
    assert torch.equal(before, torch.get_rng_state())


def test_several_references_become_rows_of_their_segment():
    (batch, *_) = RatingLoader(segments(4, references=3), tokenize, 2, shuffle=False)
    assert batch.owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(batch.references) == len(batch.hypotheses) == 6
    assert batch.hypotheses.texts[0] == batch.hypotheses.texts[2]
    assert batch.ratings.dtype == torch.float64
    assert len(batch) == 2


def test_ranks_of_a_loader_in_order_see_all_segments_between_them():
    seen = [
        place
        for rank in range(2)
        for batch in RatingLoader(segments(51), tokenize, 8, shuffle=False, rank=rank, world=2)
        for place in batch.positions.tolist()
    ]
    assert sorted(seen) == list(range(51))


def test_an_unrated_segment_is_refused():
    with pytest.raises(InputError, match="no score"):
        list(RatingLoader([Segment("a b", ("c",))], tokenize, 2, shuffle=False))
