"""The corpus mean: exact when it is fitted, a running one while an encoder is trained, joint over processes."""

import pytest
import torch

from textmover.modules.tokens.statistics import CorpusMean


def random_batches(count: int, dimension: int = 6, offset: float = 3.0):
    generator = torch.Generator().manual_seed(0)
    for index in range(count):
        rows, length = 1 + index % 4, 2 + index % 7
        vectors = torch.randn(rows, length, dimension, generator=generator) + offset
        yield vectors, torch.rand(rows, length, generator=generator) < 0.8


def test_the_fit_is_the_mean_over_all_tokens():
    mean, batches = CorpusMean(6), list(random_batches(2000))
    for vectors, mask in batches:
        mean.add(vectors, mask)
    tokens = torch.cat([vectors[mask] for vectors, mask in batches]).double()
    assert mean.count == len(tokens)
    # Not a last digit more than the rounding of the mean to float32.
    torch.testing.assert_close(mean.mean, tokens.mean(dim=0).float(), rtol=2e-7, atol=0)


def test_tracking_follows_the_formula():
    mean, expected = CorpusMean(6, momentum=0.9), None
    for vectors, mask in random_batches(20):
        mean.track(vectors, mask)
        batch = vectors[mask].mean(dim=0) if mask.any() else torch.zeros(6)
        expected = batch if expected is None else 0.9 * expected + 0.1 * batch
    torch.testing.assert_close(mean.mean, expected, rtol=1e-5, atol=1e-6)


def test_a_batch_without_tokens_leaves_the_mean_alone():
    mean, (vectors, mask) = CorpusMean(6), next(random_batches(1))
    mean.track(vectors, torch.zeros_like(mask))
    assert not mean.fitted
    mean.track(vectors, mask)
    before = mean.mean.clone()
    mean.track(vectors, torch.zeros_like(mask))
    mean.add(vectors, torch.zeros_like(mask))
    assert torch.equal(mean.mean, before)


def test_a_saved_mean_is_the_same_and_goes_on():
    first, *rest = random_batches(3)
    mean = CorpusMean(6)
    mean.add(*first)
    again = CorpusMean(6)
    again.load_state_dict(mean.state_dict())
    assert again.fitted
    assert again.fingerprint == mean.fingerprint
    for one in (mean, again):
        for batch in rest:
            one.add(*batch)
    torch.testing.assert_close(again.mean, mean.mean, rtol=2e-7, atol=0)


@pytest.mark.slow
def test_two_processes_track_the_mean_of_their_joint_batch(in_two_processes):
    # Shares of unlike size, one of them without any token.
    shares = list(random_batches(8))
    batches = [[shares[index], shares[index + 1]] for index in range(0, 8, 2)]
    batches.append([shares[0], (shares[1][0], torch.zeros_like(shares[1][1]))])
    results = in_two_processes("tracked_mean", batches)

    mean = CorpusMean(6, momentum=0.9)
    for pair in batches:
        tokens = torch.cat([vectors[mask] for vectors, mask in pair])[None]
        mean.track(tokens, torch.ones(tokens.shape[:2], dtype=torch.bool))
    for result in results:
        assert torch.equal(result["mean"], results[0]["mean"])
        torch.testing.assert_close(result["mean"], mean.mean, rtol=1e-6, atol=0)
        assert result["count"] == mean.count
