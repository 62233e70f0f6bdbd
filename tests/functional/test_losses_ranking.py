"""Ranking losses against loops, SciPy and sentence-transformers, with ties and with what they should not see."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from textmover.functional.losses import cosent_loss, hinge_loss, listwise_loss, pairwise_loss

ORDERING = {"pairwise": pairwise_loss, "cosent": cosent_loss, "hinge": hinge_loss}


def draw(count: int = 12, *, ties: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(count, generator=generator, dtype=torch.float64)
    ratings = scores + torch.randn(count, generator=generator, dtype=torch.float64)
    return (scores.round(), ratings.round()) if ties else (scores, ratings)


def pairs(ratings: torch.Tensor) -> list[tuple[int, int]]:
    """The better and the worse of every pair that is no tie."""
    count = range(len(ratings))
    return [(i, j) for i, j in product(count, count) if ratings[i] > ratings[j]]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
def test_pairwise_is_a_loop_over_pairs(ties):
    scores, ratings = draw(ties=ties)
    s, y = scores.tolist(), ratings.tolist()
    lost = sum((y[i] - y[j]) * math.log(1 + math.exp(s[j] - s[i])) for i, j in pairs(ratings))
    total = sum(y[i] - y[j] for i, j in pairs(ratings))
    assert pairwise_loss(scores, ratings).item() == pytest.approx(lost / total, rel=1e-13)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_listwise_is_the_cross_entropy_of_two_softmaxes(temperature):
    scores, ratings = draw()
    s, y = scores.numpy() / temperature, ratings.numpy() / temperature
    found = listwise_loss(scores, ratings, temperature=temperature).item()
    assert found == pytest.approx(-(softmax(y) * log_softmax(s)).sum(), rel=1e-13)
    assert found - entropy(softmax(y)) == pytest.approx(entropy(softmax(y), softmax(s)), rel=1e-9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("scale", [0.5, 5.0, 20.0])
def test_cosent_is_a_loop_over_pairs(scale, ties):
    scores, ratings = draw(ties=ties)
    lost = sum(math.exp(scale * (scores[j] - scores[i])) for i, j in pairs(ratings))
    assert cosent_loss(scores, ratings, scale=scale).item() == pytest.approx(math.log(1 + lost), rel=1e-13)


@pytest.mark.parametrize("ties", [False, True])
def test_cosent_is_that_of_sentence_transformers(ties):
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss

    _, ratings = draw(64, ties=ties)
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randn(64, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    reference = CoSENTLoss(model=None, scale=20.0)
    cosines = torch.cosine_similarity(one, other)
    expected = reference.compute_loss_from_embeddings([one, other], ratings)
    torch.testing.assert_close(cosent_loss(cosines, ratings, scale=20.0), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("gap", "margin"), [(1.0, 1.0), (0.0, 0.5), (2.0, 3.0)])
def test_hinge_is_a_loop_over_pairs_held_apart(gap, margin, ties):
    scores, ratings = draw(ties=ties)
    s, y = scores.tolist(), ratings.tolist()
    lost = [max(0.0, margin - (s[i] - s[j])) for i, j in pairs(ratings) if y[i] - y[j] >= gap]
    assert lost
    assert hinge_loss(scores, ratings, gap=gap, margin=margin).item() == pytest.approx(np.mean(lost), rel=1e-13)


def test_values_in_float32_are_those_in_float64_on_a_high_level():
    scores, ratings = draw(100)
    for loss in (*ORDERING.values(), listwise_loss):
        found = loss(100 + scores.float(), 70 + ratings.float())
        torch.testing.assert_close(found.double(), loss(scores, ratings), rtol=1e-4, atol=1e-4)


def test_far_apart_scores_do_not_overflow():
    scores = torch.tensor([-1e6, 0.0, 1e6], requires_grad=True)
    for loss in (*ORDERING.values(), listwise_loss):
        found = loss(scores, torch.tensor([1.0, 0.0, -1.0]))
        (slope,) = torch.autograd.grad(found, scores)
        assert found.isfinite()
        assert slope.isfinite().all()


# --- laws -------------------------------------------------------------------------------------------------------------


def test_hinge_is_zero_where_all_pairs_keep_the_margin_and_leaves_close_pairs_alone():
    ratings = torch.tensor([0.0, 0.2, 3.0, 3.1])
    scores = torch.tensor([0.1, 0.0, 1.5, 1.2], requires_grad=True)  # close pairs in the wrong order
    assert hinge_loss(scores, ratings).item() == 0
    (slope,) = torch.autograd.grad(hinge_loss(scores, ratings, gap=0.05), scores)
    assert (slope != 0).any()


@pytest.mark.parametrize("loss", ORDERING.values(), ids=ORDERING)
def test_equal_ratings_ask_for_nothing(loss):
    scores, _ = draw()
    scores.requires_grad_()
    found = loss(scores, torch.full_like(scores, 0.3))
    (slope,) = torch.autograd.grad(found, scores)
    assert found.item() == 0
    assert (slope == 0).all()


@pytest.mark.parametrize("loss", [*ORDERING.values(), listwise_loss], ids=[*ORDERING, "listwise"])
def test_gradients_with_ties(loss):
    ratings = torch.tensor([1.0, 0.0, 1.0, 2.5, 0.0], dtype=torch.float64)
    scores = torch.tensor([0.3, 0.3, -0.4, 0.9, 0.15], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: loss(given, ratings), scores)
