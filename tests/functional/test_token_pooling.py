"""Compaction, words and n-grams against loops in plain Python."""

import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional import Units, compact, ngrams, words

FLAGS = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 1, 1, 0]],
    dtype=torch.bool,
)
"""Which units of five texts take part: all, some, one, none, and none at either end."""

each_n = pytest.mark.parametrize("n", [1, 2, 3, 7, 20, None])


def make_units(seed: int = 0, dtype: torch.dtype = torch.float64, dimensions: int = 3) -> Units:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(*FLAGS.shape, dimensions, generator=generator, dtype=torch.float64)
    weights = torch.rand(FLAGS.shape, generator=generator, dtype=torch.float64) + 0.1
    return Units(vectors.to(dtype), FLAGS, weights.where(FLAGS, 0.0).to(dtype))


def listed(units: Units) -> list[list[tuple[list[float], float]]]:
    """Vectors and weights of the units that take part, text by text."""
    return [
        [
            (units.vectors[row, place].tolist(), units.weights[row, place].item())
            for place in range(units.mask.shape[1])
            if units.mask[row, place]
        ]
        for row in range(len(units.mask))
    ]


def assert_units(found: Units, expected: list[list[tuple[list[float], float]]], bound: float = 1e-14) -> None:
    """The units that take part are those expected, in their order; all others are zero."""
    for mine, theirs in zip(listed(found), expected, strict=True):
        assert len(mine) == len(theirs)
        for (vector, weight), (other, share) in zip(mine, theirs, strict=True):
            assert vector == pytest.approx(other, abs=bound)
            assert weight == pytest.approx(share, abs=bound)
    assert (found.weights[~found.mask] == 0).all()


def at_the_front(mask: torch.Tensor) -> bool:
    return bool((mask.int().diff(dim=1) <= 0).all())


# --- compaction -------------------------------------------------------------------------------------------------------


def test_compaction_keeps_the_units_that_take_part_in_their_order():
    units = make_units()
    found = compact(units)
    assert_units(found, listed(units), bound=0)
    assert at_the_front(found.mask)
    assert found.mask.shape[1] == 7
    assert compact(Units(*(tensor[1:] for tensor in units))).mask.shape[1] == 4  # the longest of the others


def test_compaction_takes_the_weights_of_units_that_do_not_take_part_for_nothing():
    units = make_units()
    found = compact(units._replace(weights=units.weights + 1))
    assert (found.weights[~found.mask] == 0).all()


def test_compaction_of_nothing():
    empty = Units(*(tensor[3:4] for tensor in make_units()))
    assert [tuple(tensor.shape) for tensor in compact(empty)] == [(1, 0, 3), (1, 0), (1, 0)]
    none = Units(*(tensor[:0] for tensor in make_units()))
    assert [tuple(tensor.shape) for tensor in compact(none)] == [(0, 0, 3), (0, 0), (0, 0)]
    assert ngrams(compact(empty), 2).mask.shape == (1, 0)
    assert ngrams(compact(none), None).mask.shape == (0, 0)


# --- n-grams ----------------------------------------------------------------------------------------------------------


def stretches(text: list[tuple[list[float], float]], n: int | None) -> list[tuple[list[float], float]]:
    size = len(text) if n is None else min(n, len(text))
    found = []
    for start in range(len(text) - size + 1 if text else 0):
        part = text[start : start + size]
        total = sum(weight for _, weight in part)
        mean = [sum(weight * vector[d] for vector, weight in part) / (total or 1.0) for d in range(3)]
        found.append((mean, total))
    return found


@each_n
def test_ngrams_are_weighted_means_of_all_stretches(n):
    units = compact(make_units())
    found = ngrams(units, n)
    assert_units(found, [stretches(text, n) for text in listed(units)])
    assert at_the_front(found.mask)


@each_n
def test_ngrams_do_not_depend_on_other_texts_and_padding(n):
    units = compact(make_units())
    units.weights[2] = 0  # a text of one unit without weight
    longer = Units(
        torch.nn.functional.pad(units.vectors, (0, 0, 0, 4), value=9.0),
        torch.nn.functional.pad(units.mask, (0, 4)),
        torch.nn.functional.pad(units.weights, (0, 4), value=5.0),
    )
    singles = [compact(Units(*(tensor[row : row + 1] for tensor in units))) for row in range(5)]
    expected = [listed(ngrams(single, n))[0] for single in singles]
    for given in (units, longer):
        found = ngrams(given, n)
        if n == 1:
            found = compact(found)
        assert_units(found, expected)


@pytest.mark.parametrize("n", [2, 3, None])
def test_units_without_weight_count_in_the_length_but_not_in_the_mean(n):
    units = compact(make_units())
    units.weights[0, 2:5] = 0
    units.weights[1] = 0
    found = ngrams(units, n)
    assert_units(found, [stretches(text, n) for text in listed(units)])
    assert found.mask[1].any()
    assert (found.vectors[1] == 0).all()
    assert (found.weights[1] == 0).all()


@each_n
def test_gradients_of_vectors_and_weights(n):
    units = compact(make_units(dimensions=2))
    inputs = (units.vectors.requires_grad_(), units.weights.requires_grad_())
    assert gradcheck(lambda vectors, weights: ngrams(Units(vectors, units.mask, weights), n)[::2], inputs)


def test_gradients_are_finite_where_nothing_has_weight():
    units = compact(make_units())
    leaves = units.vectors.requires_grad_(), torch.zeros_like(units.weights).requires_grad_()
    found = ngrams(Units(leaves[0], units.mask, leaves[1]), 2)
    (found.vectors.sum() + found.weights.sum()).backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)


@pytest.mark.parametrize("n", [0, -1])
def test_n_below_one_is_refused(n):
    with pytest.raises(ValueError, match=f"Expected `n` to be at least 1 or None, but got {n}"):
        ngrams(make_units(), n)


# --- words ------------------------------------------------------------------------------------------------------------

STARTS = [
    [1, 0, 0, 1, 1, 0, 1],
    [1, 1, 1, 1, 1, 1, 1],
    [0, 0, 1, 0, 0, 1, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [1, 0, 1, 0, 0, 1, 0],
    [1, 1, 0, 0, 1, 0, 0],
]


def joined(units: Units, starts: list[list[int]]) -> list[list[tuple[list[float], float]]]:
    """Words in plain Python: pieces by the number of starts up to them, of which those that take part are averaged."""
    texts = []
    for row, flags in enumerate(starts):
        pieces: dict[int, list[int]] = {}
        for place in range(len(flags)):
            if units.mask[row, place]:
                pieces.setdefault(sum(flags[: place + 1]), []).append(place)
        texts.append(
            [
                (units.vectors[row, places].mean(dim=0).tolist(), units.weights[row, places].mean().item())
                for places in pieces.values()
            ]
        )
    return texts


@pytest.mark.parametrize("shift", range(6))
def test_words_are_means_of_their_pieces_that_take_part(shift):
    units = make_units()
    starts = [STARTS[(row + shift) % 6] for row in range(5)]
    found = words(units, torch.tensor(starts, dtype=torch.bool))
    assert_units(found, joined(units, starts))
    assert at_the_front(found.mask)
    assert found.mask.shape == units.mask.shape


def test_pieces_whose_first_takes_no_part_do_not_join_the_word_before():
    units = Units(torch.eye(4)[None], torch.tensor([[True, True, False, True]]), torch.ones(1, 4))
    found = words(units, torch.tensor([[True, False, True, False]]))
    assert found.mask.tolist() == [[True, True, False, False]]
    assert found.vectors[0, :2].tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0, 1]]


def test_gradients_of_words():
    units = make_units(dimensions=2)
    starts = torch.tensor(STARTS[:5], dtype=torch.bool)
    inputs = (units.vectors.requires_grad_(), units.weights.requires_grad_())
    assert gradcheck(lambda vectors, weights: words(Units(vectors, FLAGS, weights), starts)[::2], inputs)
