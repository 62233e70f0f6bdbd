"""Agreement among annotators: against statsmodels, scikit-learn and krippendorff, by its laws, and at its limits."""

import math

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as fleiss_oracle

from textmover.meta_evaluation import cohen_kappa, fleiss_kappa, krippendorff_alpha
from textmover.meta_evaluation.agreement.annotators import annotator_agreement, pairwise_agreement
from textmover.types import InputError

NAN = math.nan


@pytest.fixture(params=range(6))
def drawn(request):
    """Ratings of several annotators who agree somewhat, ``[annotators, items]``."""
    rng = np.random.default_rng(request.param)
    annotators, items, highest = rng.integers(2, 6), rng.integers(5, 40), rng.choice([3, 5, 100])
    truth = rng.integers(1, highest + 1, items)
    noise = rng.integers(1, highest + 1, (annotators, items))
    return np.where(rng.random((annotators, items)) < 0.6, truth, noise).astype(float)


def with_gaps(ratings):
    rng = np.random.default_rng(len(ratings))
    found = np.where(rng.random(ratings.shape) < 0.25, NAN, ratings)
    found[:2, :3] = ratings[:2, :3]
    return found


# --- oracles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_cohen_is_that_of_scikit_learn(drawn, weights):
    from sklearn.metrics import cohen_kappa_score

    first, second = drawn[:2].astype(int)
    # Without all labels scikit-learn weights by the places of those that occur, and not by the ratings.
    labels = range(1, 101) if weights != "none" else None
    wanted = cohen_kappa_score(first, second, labels=labels, weights=None if weights == "none" else weights)
    assert cohen_kappa(first, second, weights=weights) == pytest.approx(wanted, abs=1e-12)


def test_fleiss_is_that_of_statsmodels(drawn):
    counts, _ = aggregate_raters(drawn.T.astype(int))
    assert fleiss_kappa(drawn) == pytest.approx(fleiss_oracle(counts), abs=1e-12)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_that_of_krippendorff(drawn, level):
    for ratings in (drawn, with_gaps(drawn)):
        wanted = krippendorff.alpha(reliability_data=ratings, level_of_measurement=level)
        assert krippendorff_alpha(ratings, level) == pytest.approx(wanted, abs=1e-12)


# --- laws -------------------------------------------------------------------------------------------------------------


def test_perfect_agreement_is_one_and_its_opposite_below_zero():
    same = annotator_agreement([[1, 2, 3, 1], [1, 2, 3, 1]])
    assert (same.same, same.cohen, same.weighted, same.fleiss) == (1, 1, 1, 1)
    assert set(same.alpha.values()) == {1}
    assert annotator_agreement([[1, 3, 1, 3], [3, 1, 3, 1]]).cohen == -1


def test_items_of_a_single_annotator_have_no_part():
    ratings = np.array([[1, 2, 3, 3], [1, 2, 3, 2.0]])
    more = np.hstack([ratings, [[3, NAN, NAN], [NAN, 1, NAN]]])
    with_a_third = np.vstack([more, [NAN] * 6 + [2]])
    for one in (more, with_a_third):
        assert annotator_agreement(one) == annotator_agreement(ratings)


def test_fleiss_counts_what_all_have_rated():
    ratings = [[1, 2, 3, 3, 1], [1, 2, 3, 2, NAN], [1, 2, 3, 3, 1]]
    found = annotator_agreement(ratings)
    assert (found.annotators, found.items, found.common) == (3, 5, 4)
    assert found.fleiss == fleiss_kappa(np.array(ratings)[:, :4])
    assert math.isnan(found.cohen)


def test_pairs():
    ratings = [[1, 2, 3], [1, 2, 3], [3, 2, 1]]
    found = pairwise_agreement(ratings, lambda two: float((two[0] == two[1]).mean()))
    assert np.isnan(np.diag(found)).all()
    assert found[0, 1] == found[1, 0] == 1
    assert found[0, 2] == pytest.approx(1 / 3)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratings",
    [np.zeros((0, 0)), [[1, 2]], [[NAN, NAN], [NAN, NAN]], [[1, NAN], [NAN, 2]], np.zeros((2, 0))],
    ids=["nobody", "one alone", "nothing", "no common item", "no item"],
)
def test_without_a_common_item_there_is_no_agreement(ratings):
    found = annotator_agreement(ratings)
    assert (found.annotators, found.items, found.common) == (0, 0, 0)
    assert all(map(math.isnan, (found.same, found.cohen, found.weighted, found.fleiss, *found.alpha.values())))


def test_where_all_ratings_are_the_same_chance_says_all():
    found = annotator_agreement([[2, 2, 2], [2, 2, 2]])
    assert found.same == 1
    assert np.isnan([found.cohen, found.weighted, found.fleiss, *found.alpha.values()]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_kappa([1], [1, 2]), "same items"),
        (lambda: cohen_kappa([1], [1], weights="cubic"), "none, linear, quadratic"),
        (lambda: cohen_kappa([1, math.inf], [1, 2], weights="linear"), "infinity"),
        (lambda: krippendorff_alpha([1, 2]), "1 dimensions"),
        (lambda: krippendorff_alpha([[1], [2]], "ratio"), "nominal, ordinal, interval"),
        (lambda: fleiss_kappa([[1, math.inf], [1, 2]]), "infinity"),
    ],
)
def test_what_is_no_rating_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
