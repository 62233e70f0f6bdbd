"""Alignment of words with positions: by hand, against brute force, and its laws."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional.exact import partial_transport
from textmover.functional.word_alignment import (
    aligned_distances,
    aligned_transport,
    alignment_scores,
    hard_alignment,
    partners,
)
from textmover.types import InputError

PASSIVE = "tesla motors is founded by elon musk", "elon musk founded tesla motors"  # figure 3
REPEATED = "elon musk founded tesla motors", "elon elon elon founded tesla tesla tesla"  # figure 4
POSITIONS, PENALTIES = ("near", "penalty", "literal"), ("paper", "code", "none")


def same_words(reference, hypothesis):
    """Cosines that are 1 for the same word and 0 otherwise, with masks."""
    r, h = reference.split(), hypothesis.split()
    similarity = torch.tensor([[[float(one == other) for other in h] for one in r]], dtype=torch.float64)
    return similarity, torch.ones(1, len(r), dtype=torch.bool), torch.ones(1, len(h), dtype=torch.bool)


def align(similarity, *masks, position="near"):
    return hard_alignment(alignment_scores(similarity, *masks, position=position), *masks)


def sides(given):
    return given.reference_mask, given.hypothesis_mask


# --- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", POSITIONS)
def test_figure_3(position):
    found = partners(align(*same_words(*PASSIVE), position=position))[0]
    assert found.tolist() == [5, 6, 3, 0, 1]  # elon, musk, founded, tesla, motors


def test_figure_3_in_numbers():
    given = same_words(*PASSIVE)
    elon = (0, 5, 0)  # i = 5 of 7, j = 0 of 5
    apart = (5 * 6 - 7 * 1) / 35
    assert alignment_scores(*given, position="near")[elon].item() == pytest.approx(1 - 5 / 7)
    assert alignment_scores(*given, position="literal")[elon].item() == pytest.approx(apart)
    assert alignment_scores(*given, position="penalty")[elon].item() == pytest.approx(math.exp(-5 / 7 * apart))


@pytest.mark.parametrize("position", ["near", "penalty"])
def test_figure_4(position):
    """A repeated word is aligned once, in the place that fits best; the copies get words that are nothing like them."""
    similarity, *masks = same_words(*REPEATED)
    aligned = align(similarity, *masks, position=position)
    assert aligned.sum() == 5
    _, matched = aligned_distances(similarity, aligned, *masks)
    # elon, founded, tesla: 3/5 is as far from 4/7 as it can be near, 5/7 is further, 6/7 the furthest
    assert partners(matched)[0].tolist() == [0, -1, -1, 2, 3, -1, -1]


def test_a_text_and_itself_word_by_word_except_as_printed():
    given = same_words("a b c d", "a b c d")
    for position in ("near", "penalty"):
        assert partners(align(*given, position=position))[0].tolist() == [0, 1, 2, 3]
    scores = alignment_scores(*given, position="literal")
    assert (scores == 0).all()


def test_scores_by_hand():
    similarity = torch.full((1, 2, 4), 0.5, dtype=torch.float64)
    masks = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 4, dtype=torch.bool)
    near, literal = (alignment_scores(similarity, *masks, position=one)[0] for one in ("near", "literal"))
    torch.testing.assert_close(near[1], 0.5 * torch.tensor([0.5, 0.75, 1.0, 0.75]).double())
    torch.testing.assert_close(literal[1], 0.5 * torch.tensor([6, 4, 2, 0]).double() / 8)


# --- the hard constraint ----------------------------------------------------------------------------------------------


def greedily(scores, rows, columns):
    """The best free pair again and again; ``max`` takes the first of several, rows before columns."""
    pairs = [(i, j) for i in range(scores.shape[0]) for j in range(scores.shape[1]) if rows[i] and columns[j]]
    found = np.zeros(scores.shape, dtype=bool)
    while pairs:
        i, j = max(pairs, key=lambda pair: scores[pair])
        found[i, j] = True
        pairs = [(one, other) for one, other in pairs if one != i and other != j]
    return found


@pytest.mark.parametrize("levels", [3, 20, 10**6])
@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (1, 5)], ids=str)
def test_one_pair_at_a_time_gives_the_same(levels, shape):
    """Also with many ties, and words that take no part anywhere."""
    generator = torch.Generator().manual_seed(levels + shape[0])
    scores = torch.randint(-levels, levels + 1, (40, *shape), generator=generator) / levels
    masks = [torch.rand(40, size, generator=generator) > 0.2 for size in shape]
    found = hard_alignment(scores, *masks)
    for row in range(40):
        expected = greedily(scores[row].double().numpy().round(6), masks[0][row], masks[1][row])
        assert (found[row].numpy() == expected).all()


def test_a_chain_takes_a_round_for_each_pair():
    size = 8
    scores = torch.full((1, size, size), -1.0)
    for k in range(2 * size - 1):
        scores[0, k // 2, (k + 1) // 2] = 1 - k / 20  # each pair waits for the one before it
    both = torch.ones(1, size, dtype=torch.bool)
    assert partners(hard_alignment(scores, both, both))[0].tolist() == list(range(size))


def test_rounding_decides_no_tie():
    both = torch.ones(2, 2, dtype=torch.bool)
    scores = torch.full((2, 2, 2), 0.9)
    scores[1, 1, 0] += 1e-7
    assert scores[1, 1, 0] > scores[1, 0, 0]
    assert partners(hard_alignment(scores, both, both)).tolist() == [[0, 1], [0, 1]]


def test_every_word_is_aligned_once_at_most_and_no_padding_is(problem):
    given = problem(8, ragged=True)
    found = hard_alignment(given.similarity, *sides(given))
    assert (found.sum(dim=1) <= 1).all()
    assert (found.sum(dim=2) <= 1).all()
    assert not found[~(given.reference_mask[:, :, None] & given.hypothesis_mask[:, None])].any()
    least = torch.minimum(given.reference_mask.sum(dim=1), given.hypothesis_mask.sum(dim=1))
    assert (found.sum(dim=(1, 2)) == least).all()


# --- distances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("threshold", [0.0, 0.6])
def test_range_of_distances(problem, penalty, threshold):
    given = problem(64, 9, 7, ragged=True, dimensions=2)
    aligned = align(given.similarity, *sides(given))
    distance, matched = aligned_distances(
        given.similarity, aligned, *sides(given), penalty=penalty, threshold=threshold
    )
    assert (distance >= 0).all()
    assert (distance[~matched] == 1).all()
    assert (distance[matched] < 1 - threshold / math.e).all()
    assert (matched == (aligned & (given.similarity > threshold))).all()
    assert matched.any()
    assert not matched.all(dim=2).all()


def test_a_cosine_at_the_threshold_is_not_above_it():
    both = torch.ones(1, 2, dtype=torch.bool)
    similarity, aligned = torch.tensor([[[0.5, 0.0], [0.0, 0.51]]]), torch.eye(2, dtype=torch.bool)[None]
    assert aligned_distances(similarity, aligned, both, both, threshold=0.5)[1].tolist() == [
        [[False, False], [False, True]]
    ]


def test_penalties_by_hand():
    """Reference word 0 of 2 and hypothesis word 2 of 4: D = |4 - 6| / 8, gamma = -2 / 4."""
    masks = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 4, dtype=torch.bool)
    similarity = torch.full((1, 2, 4), 0.8, dtype=torch.float64)
    aligned = torch.zeros(1, 2, 4, dtype=torch.bool)
    aligned[0, 0, 2] = True
    expected = {"paper": math.exp(-0.5 * 0.25), "code": math.exp(-0.07 * 4 / 6 * 0.5), "none": 1}
    for penalty, factor in expected.items():
        distance, _ = aligned_distances(similarity, aligned, *masks, penalty=penalty)
        assert distance[0, 0, 2].item() == pytest.approx(1 - 0.8 * factor)


def test_a_cosine_above_1_by_rounding_is_at_no_distance():
    one = torch.ones(1, 1, dtype=torch.bool)
    distance, _ = aligned_distances(torch.full((1, 1, 1), 1 + 1e-6), one[:, :, None], one, one)
    assert distance.item() == 0


def test_nan_is_seen():
    both = torch.ones(1, 2, dtype=torch.bool)
    similarity = torch.tensor([[[float("nan"), 0.1], [0.2, 0.9]]])
    aligned = align(similarity, both, both)
    distance, matched = aligned_distances(similarity, aligned, both, both)
    assert aligned_transport(distance, matched, *torch.full((2, 1, 2), 0.5)).emd.isnan().all()


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_padding_batch_mates_and_gaps_change_nothing(problem, position, penalty):
    given = problem(6, ragged=True, dimensions=3)

    def distances(one):
        aligned = align(one.similarity, *sides(one), position=position)
        return aligned_distances(one.similarity, aligned, *sides(one), penalty=penalty, threshold=0.3)[0]

    found = distances(given)
    assert (found < 1).any()
    torch.testing.assert_close(distances(given.padded(3, 2))[:, :6, :5], found, rtol=0, atol=0)
    for row, single in enumerate(given.singles()):
        alone = distances(single)[0]
        torch.testing.assert_close(alone, found[row, : alone.shape[0], : alone.shape[1]], rtol=0, atol=1e-15)
    gap = torch.tensor([0, 1, 1, 2, 3, 4, 5])  # a word that takes no part stands between the others
    mask = given.reference_mask[:, gap].clone()
    mask[:, 1] = False
    wide = distances(given._replace(similarity=given.similarity[:, gap], reference_mask=mask))
    torch.testing.assert_close(wide[:, [0, 2, 3, 4, 5, 6]], found, rtol=0, atol=0)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_sides_can_be_exchanged(problem, position, penalty):
    found = []
    for one in (problem(6, ragged=True), problem(6, ragged=True).transposed()):
        aligned = align(one.similarity, *sides(one), position=position)
        found.append(aligned_distances(one.similarity, aligned, *sides(one), penalty=penalty, threshold=0.3)[0])
    torch.testing.assert_close(found[0], found[1].transpose(1, 2), rtol=0, atol=1e-15)


# --- transport --------------------------------------------------------------------------------------------------------


def aligned_problem(problem, *args, masses=(1.0, 1.0), **kwargs):
    given = problem(*args, dimensions=3, **kwargs)
    aligned = align(given.similarity, *sides(given))
    distance, matched = aligned_distances(given.similarity, aligned, *sides(given), threshold=0.3)
    return distance, matched, given.a * masses[0], given.b * masses[1]


@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.0, 0.3), (0.2, 4.0)], ids=str)
def test_the_closed_form_is_the_exact_transport(problem, masses):
    distance, matched, a, b = aligned_problem(problem, 40, 9, 7, ragged=True, masses=masses)
    found, expected = aligned_transport(distance, matched, a, b), partial_transport(distance, a, b)
    assert (expected.emd < 0.99).any()
    for one, other in zip(found[1:4], expected[1:4], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("masses", [(1.0, 1.0), (1.0, 0.3)], ids=str)
def test_the_plan_is_an_optimal_one(problem, masses):
    distance, matched, a, b = aligned_problem(problem, 40, 9, 7, ragged=True, masses=masses)
    found = aligned_transport(distance, matched, a, b)
    assert (found.plan >= 0).all()
    assert (found.plan.sum(dim=2) <= a + 1e-12).all()
    assert (found.plan.sum(dim=1) <= b + 1e-12).all()
    torch.testing.assert_close(found.plan.sum(dim=(1, 2)), found.mass, rtol=0, atol=1e-12)
    torch.testing.assert_close((found.plan * distance).sum(dim=(1, 2)), found.work, rtol=0, atol=1e-12)


def test_gradients_of_transport(problem):
    given = problem(3, 4, 5, dimensions=3)
    aligned = align(given.similarity, *sides(given))

    def value(similarity, a, b):
        distance, matched = aligned_distances(similarity, aligned, *sides(given), threshold=0.3)
        return aligned_transport(distance, matched, a, 1.7 * b).emd

    leaves = [one.clone().requires_grad_() for one in given[:3]]
    assert gradcheck(value, leaves)
    value(*leaves).sum().backward()
    assert (leaves[0].grad != 0).any()
    assert (leaves[0].grad[~aligned] == 0).all()


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 0, 0)], ids=str)
def test_no_problem_or_no_word_at_all(shape):
    batch, rows, columns = shape
    masks = torch.ones(batch, rows, dtype=torch.bool), torch.ones(batch, columns, dtype=torch.bool)
    similarity = torch.zeros(shape)
    aligned = align(similarity, *masks)
    assert partners(aligned).tolist() == [[-1] * columns] * batch if rows == 0 else True
    distance, matched = aligned_distances(similarity, aligned, *masks)
    found = aligned_transport(distance, matched, torch.zeros(batch, rows), torch.ones(batch, columns))
    assert found.emd.tolist() == [0.0] * batch


# --- bad arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_shape_checks")
def test_unknown_names_and_values_are_refused(problem):
    given = problem()
    with pytest.raises(InputError, match=r"`position` to be one of 'penalty', 'near', 'literal', but got 'far'\."):
        alignment_scores(given.similarity, *sides(given), position="far")
    aligned = align(given.similarity, *sides(given))
    with pytest.raises(InputError, match=r"`penalty` to be one of 'paper', 'code', 'none', but got 'hard'\."):
        aligned_distances(given.similarity, aligned, *sides(given), penalty="hard")
    with pytest.raises(InputError, match=r"`threshold` to be between 0 and 1, but got 1\.5\."):
        aligned_distances(given.similarity, aligned, *sides(given), threshold=1.5)
