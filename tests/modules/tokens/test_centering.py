"""What each centring subtracts, and from what it takes it."""

import pytest
import torch

from textmover.modules.tokens.statistics import Centering
from textmover.types import InputError, SpecialToken

MODES = ("none", "dimension", "sentence", "batch", "corpus")


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    return vectors, mask


def fitted(mode: str, vectors, mask) -> Centering:
    module = Centering(mode, vectors.shape[-1]).double()
    if module.statistic is not None:
        module.statistic.add(vectors, mask)
    return module


def test_each_mode_subtracts_its_mean(batch):
    vectors, mask = batch
    tokens = vectors[mask]
    expected = {
        "none": tokens,
        "dimension": tokens - tokens.mean(dim=1, keepdim=True),
        "sentence": torch.cat([row[kept] - row[kept].mean(dim=0) for row, kept in zip(vectors, mask, strict=True)]),
        "batch": tokens - tokens.mean(dim=0),
        "corpus": tokens - tokens.mean(dim=0),
    }
    for mode in MODES:
        found = fitted(mode, vectors, mask)(vectors, mask)[mask]
        torch.testing.assert_close(found, expected[mode], rtol=0, atol=1e-6 if mode == "corpus" else 1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_padding_has_no_part_in_a_mean(batch, mode):
    vectors, mask = batch
    module = fitted(mode, vectors, mask)
    other = torch.where(mask[:, :, None], vectors, 1e6)
    padded = torch.nn.functional.pad(other, (0, 0, 0, 3), value=-1e6)
    padded_mask = torch.nn.functional.pad(mask, (0, 3))
    torch.testing.assert_close(
        module(padded, padded_mask)[padded_mask], module(vectors, mask)[mask], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("mode", MODES)
def test_batch_mates_matter_to_batch_centring_alone(batch, mode):
    vectors, mask = batch
    module = fitted(mode, vectors, mask)
    alone, together = module(vectors[:1], mask[:1])[0], module(vectors, mask)[0]
    assert torch.allclose(alone, together, rtol=0, atol=1e-12) == (mode != "batch")


@pytest.mark.parametrize("mode", ["none", "dimension", "sentence", "batch"])
def test_a_text_without_tokens_stays_finite(mode):
    module = Centering(mode, 4)
    assert module(torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool)).isfinite().all()


def test_a_corpus_mean_that_is_not_there_is_an_error_with_the_way_out(batch):
    with pytest.raises(InputError, match=r"corpus mean to be fitted.* call `fit\(texts\)`"):
        Centering("corpus", 4)(*batch)


@pytest.mark.parametrize("mode", MODES)
def test_only_a_corpus_mean_is_tracked_and_saved(batch, mode):
    module = Centering(mode, 4)
    module.track(*batch)
    assert set(module.state_dict()) == ({"statistic.mean", "statistic.count"} if mode == "corpus" else set())


def test_no_gradient_flows_through_a_corpus_mean(batch):
    vectors, mask = batch
    vectors = vectors.float().requires_grad_()
    module = Centering("corpus", 4)
    module.track(vectors, mask)
    module(vectors, mask).sum().backward()
    assert torch.equal(vectors.grad, torch.ones_like(vectors))
    assert not module.statistic.mean.requires_grad


@pytest.mark.parametrize("centering", ["batch", "sentence"])
@pytest.mark.parametrize(
    ("roles", "dropped"),
    [
        (("first", "first"), {SpecialToken.OTHER}),
        (("drop", "drop"), {SpecialToken.FIRST, SpecialToken.OTHER}),
        (("drop", "first"), {SpecialToken.OTHER}),
        (("keep", "drop"), set()),
        (("targets", "targets"), set()),
    ],
    ids=str,
)
def test_special_tokens_that_take_no_part_have_none_in_a_mean(tiny_metric, centering, roles, dropped):
    """The TWMD authors leave [SEP] out before they centre."""
    fields = dict(zip(("hypothesis_special_tokens", "reference_special_tokens"), roles, strict=True))
    metric = tiny_metric(centering=centering, **fields)
    side = metric.tokenize(["the dog ran home", "a cat", "she will buy a book ."])
    vectors = metric.token_vectors(side).detach()
    kept = side.mask & ~torch.isin(side.special, torch.tensor(sorted(dropped), dtype=side.special.dtype))
    rows = [range(3)] if centering == "batch" else [[row] for row in range(3)]
    for group in map(list, rows):
        mean = vectors[group][kept[group]].mean(dim=0)
        expected = torch.nn.functional.normalize(vectors[group] - mean, dim=-1)[side.mask[group]]
        found = metric._features(vectors, side).vectors[group][side.mask[group]]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
