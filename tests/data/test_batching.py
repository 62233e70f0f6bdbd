from collections import Counter

import numpy as np
import pytest
import torch

from textmover.data import batching
from textmover.data.batching import LengthBuckets, MixedBatches, PartLoader, TrainingLoader
from textmover.data.error_spans import MarkedBatch
from textmover.data.labelled import LabelBatch
from textmover.data.paraphrases import ParaphraseBatch
from textmover.data.training_sources import RatedSource, RatingBatch
from textmover.presets import build_metric, preset_config
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


def source(items=None, name="ratings", batch_size=8, **options):
    items = segments() if items is None else items
    return RatedSource(name, items, {"all": items}, batch_size=batch_size, validation_batch_size=batch_size, **options)


def training(items=None, **options):
    return TrainingLoader([source(items)], tokenize, **options)


def positions(loader):
    return [batch.positions.tolist() for batch in loader]


@pytest.mark.parametrize("pool", [1, 3, 100])
def test_every_segment_comes_once_an_epoch(monkeypatch, pool):
    monkeypatch.setattr(batching, "POOL", pool)
    buckets = LengthBuckets(list(range(53)), 8)
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


def test_batches_hold_segments_of_like_length(monkeypatch):
    lengths = np.random.default_rng(0).integers(5, 100, size=2000)
    spread = lambda batches: np.mean([np.ptp(lengths[batch]) for batch in batches])  # noqa: E731
    pooled = spread(LengthBuckets(lengths, 16).batches(0))
    monkeypatch.setattr(batching, "POOL", 1)
    assert pooled < 0.1 * spread(LengthBuckets(lengths, 16).batches(0))


def test_items_of_different_groups_do_not_meet():
    groups = ["a", "b", "c", "b"] * 11
    batches = LengthBuckets(list(range(44)), 4, groups=groups).batches(2)
    assert all(len({groups[place] for place in batch}) == 1 for batch in batches)
    assert sorted(place for batch in batches for place in batch) == list(range(44))
    assert len(batches) == 3 + 6 + 3


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_each_batch(world):
    buckets = [LengthBuckets(list(range(50)), 8)]
    whole = MixedBatches(buckets, [7]).batches(0)
    parts = [list(MixedBatches(buckets, [7], rank=rank, world=world)) for rank in range(world)]
    for number, (_, batch) in enumerate(one for one in whole if len(one[1]) >= world):
        sources, shares, sizes = zip(*(part[number][0] for part in parts), strict=True)
        assert sorted(place for share in shares for place in share) == sorted(batch)
        assert (set(sources), set(sizes)) == ({0}, {len(batch)})
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_batch_with_fewer_items_than_processes_is_left_out_by_all_of_them():
    buckets = [LengthBuckets([1] * 9, 4)]
    parts = [list(MixedBatches(buckets, [3], rank=rank, world=2)) for rank in range(2)]
    assert [len(part) for part in parts] == [2, 2]


def test_a_mixture_goes_on_in_a_large_source_and_repeats_a_small_one():
    large, small = LengthBuckets([1] * 40, 4, seed=1), LengthBuckets([1] * 8, 4, seed=1)
    mixed = MixedBatches([large, small], [5, 5], seed=1)
    epochs = [mixed.batches(epoch) for epoch in range(4)]
    of_large = [[place for source, batch in epoch if source == 0 for place in batch] for epoch in epochs]
    assert [len(places) for places in of_large] == [20] * 4
    assert sorted(of_large[0] + of_large[1]) == sorted(of_large[2] + of_large[3]) == list(range(40))
    of_small = Counter(place for epoch in epochs for source, batch in epoch if source == 1 for place in batch)
    assert of_small == Counter(dict.fromkeys(range(8), 10))


def test_the_sources_of_a_mixture_are_spread_over_the_epoch():
    mixed = MixedBatches([LengthBuckets([1] * 100, 2), LengthBuckets([1] * 100, 2)], [50, 50])
    turns = [source for source, _ in mixed.batches(0)]
    assert 10 < sum(turns[:50]) < 40


def test_a_loader_goes_on_where_its_saved_place_was():
    unbroken = positions(training())
    broken = training()
    iterator = iter(broken)
    first = [next(iterator).positions.tolist() for _ in range(3)]
    resumed = training()
    resumed.load_state_dict(broken.state_dict())
    assert first + positions(resumed) == unbroken
    assert positions(resumed) == unbroken, "the next iteration starts from the front"


@pytest.mark.parametrize("state", [{"epoch": 0, "batch": 7}, {"epoch": 1, "batch": 3}])
def test_a_place_at_the_end_or_of_another_epoch_starts_from_the_front(state):
    loader = training()
    loader.load_state_dict(state)
    assert Counter(place for batch in loader for place in batch.positions.tolist()) == Counter(range(50))


def test_iterating_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    list(training())
    assert torch.equal(before, torch.get_rng_state())


def test_several_references_become_rows_of_their_segment():
    (batch, *_) = PartLoader(source(segments(4, references=3), batch_size=2), "all", tokenize)
    assert batch.owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(batch.references) == len(batch.hypotheses) == 6
    assert batch.hypotheses.texts[0] == batch.hypotheses.texts[2]
    assert batch.ratings.dtype == torch.float64
    assert len(batch) == 2


@pytest.mark.parametrize(("count", "world"), [(51, 2), (51, 3), (20, 3), (16, 4), (3, 2), (0, 2)])
def test_ranks_of_a_loader_in_order_share_the_batches_of_one(count, world):
    kept = source(segments(count))
    alone = positions(PartLoader(kept, "all", tokenize))
    assert sorted(place for batch in alone for place in batch) == list(range(count))
    shares = [positions(PartLoader(kept, "all", tokenize, rank=rank, world=world)) for rank in range(world)]
    assert all(batch in alone for share in shares for batch in share)
    assert {tuple(batch) for share in shares for batch in share} == {tuple(batch) for batch in alone}
    sizes = [len(share) for share in shares]
    assert min(sizes) >= min(1, len(alone)), "one without a batch would skip validation"
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == (len(alone) if len(alone) >= world or not count else world)


def test_an_unrated_segment_is_refused():
    with pytest.raises(InputError, match="no score"):
        list(training([Segment("a b", ("c",))]))


def test_batches_of_several_sources_say_which_they_are_of():
    one, other = source(name="one"), source(segments(20), name="other", batch_size=4)
    batches = list(TrainingLoader([one, other], tokenize, mix=lambda counts: [counts[0], 2 * counts[1]]))
    for chosen, times in ((one, 1), (other, 2)):
        of_source = [batch for batch in batches if batch.source == chosen.name]
        assert Counter(at for batch in of_source for at in batch.positions.tolist()) == Counter(
            dict.fromkeys(range(len(chosen.items)), times)
        )
        for batch in of_source:
            assert batch.ratings.tolist() == [chosen.items[at].score for at in batch.positions.tolist()]
            assert batch.joint == len(batch)


def test_workers_give_the_same_batches():
    assert positions(training(workers=1)) == positions(training())


# --- batches of every kind move whole ---------------------------------------------------------------------------------


@pytest.fixture
def tokens(tiny_encoder):
    return build_metric(preset_config("twmd", encoder=str(tiny_encoder))).tokenize(["a cat", "the old dog"])


def kinds(tokens):
    common = {"positions": torch.tensor([4, 7]), "source": "a source", "joint": 5}
    two = torch.tensor([0, 1])
    yield RatingBatch(hypotheses=tokens, references=tokens, owners=two, ratings=two.double(), **common)
    targets = {"of_source": two.bool(), "wrong": two.float(), "missing": two.float(), "severity": two}
    yield MarkedBatch(hypotheses=tokens, references=tokens, **targets, **common)
    yield LabelBatch(texts=(tokens, tokens), labels=two, **common)
    yield ParaphraseBatch(hypotheses=tokens, references=tokens, negatives=tokens, clusters=two[:, None], **common)
    yield ParaphraseBatch(hypotheses=tokens, references=tokens, negatives=None, clusters=two[:, None], **common)


def parts(value):
    if isinstance(value, tuple):
        return [one for part in value for one in parts(part)]
    return [value]


def test_everything_moves_and_the_rest_stays(tokens):
    for batch in kinds(tokens):
        moved = batch.to("meta")
        assert type(moved) is type(batch)
        assert len(moved) == len(batch) == 2
        assert (moved.source, moved.joint) == ("a source", 5)
        for name, value in vars(batch).items():
            for old, new in zip(parts(value), parts(getattr(moved, name)), strict=True):
                if isinstance(old, torch.Tensor):
                    assert new.is_meta
                    assert (new.dtype, new.shape) == (old.dtype, old.shape)
                elif hasattr(old, "input_ids"):
                    assert new.input_ids.is_meta
                    assert new.mask.is_meta
                else:
                    assert new == old
