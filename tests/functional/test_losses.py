"""Losses against SciPy, loops and sentence-transformers, with ties, and batches in which nothing varies."""

import inspect
import itertools
import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy, pearsonr
from torch.autograd import gradcheck

from textmover.functional.losses import (
    FEWEST,
    LOSSES,
    OPTIONS,
    combined_loss,
    cosent_loss,
    hinge_loss,
    huber_loss,
    listwise_loss,
    mse_loss,
    pairwise_loss,
    pearson_loss,
)
from textmover.types import InputError

MIXED = {"mse": 0.5, "pearson": 1.0, "pairwise": 2.0, "cosent": {"weight": 0.1, "scale": 2.0}}
ALL = {**LOSSES, "combined": partial(combined_loss, weights=MIXED)}
each_loss = pytest.mark.parametrize("loss", ALL.values(), ids=ALL)
ORDERING = {"pairwise": pairwise_loss, "cosent": cosent_loss, "hinge": hinge_loss}
each_tie = pytest.mark.parametrize("ties", [False, True])


def draw(
    count: int = 12, dtype: torch.dtype = torch.float64, *, ties: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(count, generator=generator, dtype=torch.float64)
    ratings = scores + torch.randn(count, generator=generator, dtype=torch.float64)
    return (scores.round(), ratings.round()) if ties else (scores.to(dtype), ratings.to(dtype))


# --- values -----------------------------------------------------------------------------------------------------------


def test_mse_is_the_mean_of_squares():
    scores, ratings = draw()
    expected = np.mean((scores.numpy() - ratings.numpy()) ** 2)
    assert mse_loss(scores, ratings).item() == pytest.approx(expected, rel=1e-14)


def test_huber_is_quadratic_up_to_one_and_linear_beyond():
    scores, ratings = draw()
    distance = np.abs(scores.numpy() - ratings.numpy())
    assert (distance > 1).any()
    assert (distance < 1).any()
    expected = np.mean(np.where(distance <= 1, distance**2 / 2, distance - 0.5))
    assert huber_loss(scores, ratings).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-12, 0), (1e9, 0), (25, 70), (1, 1e6), (-3, 2)])
def test_pearson_is_that_of_scipy_on_any_scale(scale, shift):
    scores, ratings = draw()
    expected = 1 - pearsonr(scores, ratings).statistic * math.copysign(1, scale)
    for given in ((scale * scores + shift, ratings), (ratings, scale * scores + shift)):
        assert pearson_loss(*given).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("shift", [1.0, 70.0, 10_000.0])
def test_pearson_sees_small_differences_on_a_high_level_in_float32(shift):
    scores, ratings = draw(dtype=torch.float32)
    high = shift + shift * 1e-4 * scores
    expected = 1 - pearsonr(high.double(), ratings.double()).statistic
    assert pearson_loss(high, ratings).item() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_pearson_neither_underflows_nor_overflows_in_float32(scale):
    scores, ratings = draw(dtype=torch.float32)
    found = pearson_loss(scale * scores, scale * ratings)
    torch.testing.assert_close(found, pearson_loss(scores, ratings), rtol=0, atol=1e-5)


@each_loss
def test_order_of_the_batch_does_not_matter(loss):
    scores, ratings = draw()
    torch.testing.assert_close(loss(scores.flip(0), ratings.flip(0)), loss(scores, ratings), rtol=1e-13, atol=0)


def test_combined_is_the_weighted_sum():
    scores, ratings = draw()
    weights = {name: 0.25 * number for number, name in enumerate(LOSSES)}
    expected = sum(weight * LOSSES[name](scores, ratings).item() for name, weight in weights.items())
    assert combined_loss(scores, ratings, weights).item() == pytest.approx(expected, rel=1e-14)


def test_a_mapping_gives_weight_and_options():
    scores, ratings = draw()
    weights = {"mse": {"weight": 0.5}, "hinge": {"weight": 2.0, "gap": 0.3}, "cosent": {"scale": 3.0}}
    found = combined_loss(scores, ratings, weights)
    hinge, cosent = LOSSES["hinge"](scores, ratings, gap=0.3), LOSSES["cosent"](scores, ratings, scale=3.0)
    torch.testing.assert_close(found, 0.5 * mse_loss(scores, ratings) + 2 * hinge + cosent)


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in OPTIONS for option in OPTIONS[name]])
def test_every_option_changes_the_loss(name, option):
    scores, ratings = draw()
    usual = combined_loss(scores, ratings, {name: 1.0})
    assert combined_loss(scores, ratings, {name: {option: 0.37}}).item() != pytest.approx(usual.item(), rel=1e-3)


@pytest.mark.usefixtures("without_shape_checks")
def test_whole_numbers_will_do():
    scores, ratings = draw()
    found = combined_loss(scores, ratings, {"mse": 1, "hinge": {"weight": 2, "margin": 3}})
    assert found == combined_loss(scores, ratings, {"mse": 1.0, "hinge": {"weight": 2.0, "margin": 3.0}})


@each_loss
@pytest.mark.usefixtures("without_shape_checks")
def test_shapes_that_would_be_broadcast_are_refused(loss):
    scores, ratings = draw(4)
    for wrong in ((scores[:, None], ratings), (scores, ratings[:, None]), (scores, ratings[:1]), (scores[0], ratings)):
        with pytest.raises(ValueError, match=r"Expected `scores` and `ratings` of one shape \[B\], but got \["):
            loss(*wrong)


@pytest.mark.parametrize("name", LOSSES)
def test_options_are_those_that_the_function_takes(name):
    taken = [one.name for one in inspect.signature(LOSSES[name]).parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert tuple(taken) == OPTIONS.get(name, ())


NAMES = "Expected losses to be named among mse, huber, pearson, pairwise, listwise, cosent, hinge, but got "


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, NAMES + "none"),
        ({"mse": 1.0, "triplet": 1.0}, NAMES + "triplet"),
        ({"mse": {"delta": 1.0}}, "options of the loss `mse` to be named among weight, but got delta"),
        ({"hinge": {"margn": 1.0}}, "options of the loss `hinge` to be named among weight, gap, margin, but got margn"),
        ({"mse": "much"}, "`weight` of the loss `mse` to be a number, but got 'much'"),
        ({"mse": True}, "`weight` of the loss `mse` to be a number, but got True"),
        ({"cosent": {"scale": None}}, "`scale` of the loss `cosent` to be a number, but got None"),
        ({"mse": -1.0}, "weight of the loss `mse` to be a finite number of at least 0, but got -1.0"),
        ({"mse": {"weight": math.nan}}, "weight of the loss `mse` to be a finite number of at least 0, but got nan"),
        ({"cosent": {"scale": 0.0}}, "`scale` to be a positive finite number, but got 0.0"),
        ({"listwise": {"temperature": math.inf}}, "`temperature` to be a positive finite number, but got inf"),
        ({"hinge": {"gap": -0.1}}, "`gap` to be a finite number of at least 0, but got -0.1"),
        ({"hinge": {"margin": 0}}, "`margin` to be a positive finite number, but got 0"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_wrong_weights_are_refused_with_two_zeros_as_a_batch(weights, message):
    with pytest.raises(InputError, match=re.escape(message)):
        combined_loss(torch.zeros(2), torch.zeros(2), weights)


# --- batches in which nothing varies ----------------------------------------------------------------------------------


LEVELS = list(itertools.product([torch.float64, torch.float32], [0.0, 0.1, 70.3, -1e4], [1, 2, 7, 100]))


@each_loss
def test_constant_values_give_finite_losses_and_gradients(loss):
    for dtype, level, count in LEVELS:
        scores, ratings = draw(count, dtype)
        constant = torch.full_like(scores, level)
        for given in ((constant, ratings), (scores, constant), (constant, constant.clone())):
            leaf = given[0].detach().requires_grad_()
            found = loss(leaf, given[1])
            (slope,) = torch.autograd.grad(found, leaf)
            assert found.isfinite(), (dtype, level, count)
            assert slope.isfinite().all(), (dtype, level, count)


@pytest.mark.parametrize(("dtype", "level", "count"), [*LEVELS, (torch.float32, 70.3, 4096)], ids=str)
def test_pearson_of_a_constant_is_one_without_a_gradient(dtype, level, count):
    scores, ratings = draw(count, dtype)
    constant = torch.full_like(scores, level).requires_grad_()
    for found in (pearson_loss(constant, ratings), pearson_loss(ratings, constant)):
        (slope,) = torch.autograd.grad(found, constant)
        assert found.item() == 1
        assert (slope == 0).all()


@each_loss
@pytest.mark.parametrize("side", [0, 1])
def test_one_nan_makes_the_loss_nan(loss, side):
    given = draw(6)
    given[side][2] = torch.nan
    assert loss(*given).isnan()


@each_loss
def test_whole_numbers_are_ratings_like_any_others(loss):
    scores, stars = draw(6, torch.float32)[0].requires_grad_(), torch.tensor([1, 5, 3, 3, 2, 4])
    found, expected = loss(scores, stars), loss(scores, stars.float())
    assert found.item() == expected.item()
    assert torch.equal(*(torch.autograd.grad(one, scores)[0] for one in (found, expected)))


# --- gradients and autocast -------------------------------------------------------------------------------------------


@each_loss
def test_gradients_of_the_scores(loss):
    scores, ratings = draw(6)
    assert gradcheck(lambda given: loss(given, ratings), scores.requires_grad_())


@each_loss
def test_autocast_changes_nothing(loss):
    scores, ratings = draw(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss(scores, ratings)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss(scores, ratings))


@pytest.mark.parametrize("name", LOSSES)
def test_the_fewest_segments_are_those_from_which_a_loss_has_a_gradient(name):
    for count in range(1, 4):
        scores, ratings = torch.tensor([0.3, 1.2, -0.4][:count], requires_grad=True), torch.tensor([2.0, 0.5, 1.0])
        LOSSES[name](scores, ratings[:count]).backward()
        assert (scores.grad.abs().max() > 1e-3) == (count >= FEWEST[name]), count


# --- ranking losses ---------------------------------------------------------------------------------------------------


def pairs(ratings: torch.Tensor) -> list[tuple[int, int]]:
    """The better and the worse of every pair that is no tie."""
    count = range(len(ratings))
    return [(i, j) for i, j in itertools.product(count, count) if ratings[i] > ratings[j]]


@each_tie
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


@each_tie
@pytest.mark.parametrize("scale", [0.5, 5.0, 20.0])
def test_cosent_is_a_loop_over_pairs(scale, ties):
    scores, ratings = draw(ties=ties)
    lost = sum(math.exp(scale * (scores[j] - scores[i])) for i, j in pairs(ratings))
    assert cosent_loss(scores, ratings, scale=scale).item() == pytest.approx(math.log(1 + lost), rel=1e-13)


@each_tie
def test_cosent_is_that_of_sentence_transformers(ties):
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss

    _, ratings = draw(64, ties=ties)
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randn(64, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    reference = CoSENTLoss(model=None, scale=20.0)
    cosines = torch.cosine_similarity(one, other)
    expected = reference.compute_loss_from_embeddings([one, other], ratings)
    torch.testing.assert_close(cosent_loss(cosines, ratings, scale=20.0), expected, rtol=1e-12, atol=0)


@each_tie
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
    assert gradcheck(lambda given: loss(given, ratings), scores)
