"""Minimum Bayes risk: the same as the double loop over single scores, whatever is saved on the way."""

import functools
import itertools
from collections import Counter

import numpy as np
import pytest
from tests.sentences import sentences

from textmover.readers.candidates import Candidates
from textmover.scoring.mbr import choose, choose_each, is_symmetric
from textmover.types import InputError

SIDED = ("bertscore-p", "moverscore-wmd2", "lazy-emd-en", "sinkhorn-divergence")
ALIKE = ("twmd", "trwmd", "bertscore-f1", "bertscore-f1-idf", "wmd", "sbert", "sbert-pooled", "wordset-cka")
PRESETS = {**dict.fromkeys(ALIKE, True), **dict.fromkeys(SIDED, False)}
"""Whether the order of the texts makes no difference."""


@pytest.fixture(scope="module")
def sets():
    """Unequal numbers, copies, an empty text, one candidate, all of them equal."""
    first, second, third = sentences(5, 0), sentences(4, 1), sentences(3, 2)
    return [first, [*second, second[1], second[1], ""], third, ["a dog"], ["red rain"] * 3]


@pytest.fixture(scope="module")
def made(load_tiny):
    return functools.cache(load_tiny)


def loop(scorer, candidates, references):
    """All utilities, as scores of plain pairs."""
    pairs = list(itertools.product(candidates, references))
    found = scorer.score_fitted([one for one, _ in pairs], [[other] for _, other in pairs], warn=False)
    return found.scores.reshape(len(candidates), -1)


@pytest.fixture(scope="module")
def matrices(made, sets):
    """All utilities of each set by the name of a preset."""
    return functools.cache(lambda name: [loop(made(name), one, one) for one in sets])


def without_own(matrix):
    return np.array([np.delete(row, place).mean() if len(row) > 1 else row[0] for place, row in enumerate(matrix)])


def first_best(scorer, utilities):
    best = utilities.max() if scorer.metric.higher_is_better else utilities.min()
    return int(np.flatnonzero(np.abs(utilities - best) <= 1e-6)[0])


@pytest.mark.parametrize("name", PRESETS)
def test_the_same_as_the_double_loop(made, sets, matrices, name):
    scorer = made(name)
    found = choose(scorer, sets, matrices=True)
    for choice, candidates, matrix in zip(found.choices, sets, matrices(name), strict=True):
        expected = without_own(matrix)
        np.testing.assert_allclose(choice.matrix, matrix, rtol=0, atol=1e-6)
        np.testing.assert_allclose(choice.utilities, expected, rtol=0, atol=1e-6)
        assert choice.index == first_best(scorer, expected)
        assert choice.text == candidates[choice.index]
        assert choice.utility == choice.utilities[choice.index]
    assert found.signature.entries["mbr"] == "others"
    assert list(found.indices) == [one.index for one in found.choices]
    assert found.texts == [one.text for one in found.choices]


@pytest.mark.parametrize(
    ("name", "fields", "symmetric"),
    [
        *((name, {}, symmetric) for name, symmetric in PRESETS.items()),
        *(("twmd", fields, True) for fields in ({"iterations": 3}, {"value": "objective"}, {"rescale": True})),
        ("twmd", {"alpha": 0.7}, False),
        *((name, {"error_norm": 8.0}, False) for name in ("twmd", "bertscore-f1")),
        ("twmd", {"score": "recall"}, False),
        ("twmd", {"tolerance": 0.3}, False),
        ("twmd", {"hypothesis_special_tokens": "drop"}, False),
        ("wmd", {"order_penalty": 0.2}, False),
    ],
)
def test_what_is_called_symmetric_is(made, name, fields, symmetric):
    scorer, texts = made(name, **fields), sentences(6, 3)
    assert is_symmetric(scorer.metric) == symmetric
    if scorer.metric.fits_on_call:
        scorer.fit_on_call(texts, [[one] for one in sentences(6, 4)])
    elif scorer.metric.needs_fit:
        scorer.fit(sentences(20, 6))
    matrix = loop(scorer, texts, texts)
    apart = float(np.abs(matrix - matrix.T).max())
    rounding = 4e-6 if "rescale" in fields else 1e-6  # rescaling divides by one minus the baseline
    assert apart <= rounding if symmetric else apart > 1e-5 or not fields
    if fields and not symmetric:
        (choice,) = choose(scorer, [texts], matrices=True).choices
        np.testing.assert_allclose(choice.matrix, matrix, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["twmd", "bertscore-p"])
@pytest.mark.parametrize("include_self", [None, True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_the_candidate_itself(made, sets, matrices, name, include_self, weighted):
    scorer = made(name)
    draw = np.random.default_rng(0)
    weights = [draw.random(len(one)).tolist() for one in sets] if weighted else None
    found = choose(scorer, sets, weights=weights, include_self=include_self)
    with_self = weighted if include_self is None else include_self
    assert found.signature.entries["mbr"] == ("all" if with_self else "others") + "-weighted" * weighted
    for number, (choice, candidates, matrix) in enumerate(zip(found.choices, sets, matrices(name), strict=True)):
        masses = np.tile(np.ones(len(candidates)) if weights is None else weights[number], (len(candidates), 1))
        if not with_self and len(candidates) > 1:
            np.fill_diagonal(masses, 0.0)
        expected = (matrix * masses).sum(axis=1) / masses.sum(axis=1)
        np.testing.assert_allclose(choice.utilities, expected, rtol=0, atol=1e-6)
        assert choice.index == first_best(scorer, expected)


@pytest.mark.parametrize("name", ["twmd", "moverscore-wmd2"])
def test_references_of_their_own(made, sets, name):
    scorer = made(name)
    references = [sentences(4, 7), [*sentences(2, 8), sets[1][0], sets[1][0]], sentences(1, 9), ["a dog", "tea"], ["a"]]
    found = choose(scorer, sets, references, matrices=True)
    assert found.signature.entries["mbr"] == "references"
    for choice, candidates, texts in zip(found.choices, sets, references, strict=True):
        matrix = loop(scorer, candidates, texts)
        np.testing.assert_allclose(choice.matrix, matrix, rtol=0, atol=1e-6)
        np.testing.assert_allclose(choice.utilities, matrix.mean(axis=1), rtol=0, atol=1e-6)
    weights = [[0.0] * (len(one) - 1) + [2.0] for one in references]  # only the last one counts
    for choice, candidates, texts in zip(
        choose(scorer, sets, references, weights).choices, sets, references, strict=True
    ):
        np.testing.assert_allclose(choice.utilities, loop(scorer, candidates, texts[-1:])[:, 0], rtol=0, atol=1e-6)


def test_copies_weigh_as_much_as_weights(made):
    scorer = made("twmd")
    first, second, third = sentences(3, 11)
    copies = choose(scorer, [[first, second, second, third]], include_self=True).choices[0].utilities
    weights = choose(scorer, [[first, second, third]], weights=[[1, 2, 1]]).choices[0].utilities
    np.testing.assert_allclose(copies[[0, 1, 3]], weights, rtol=0, atol=1e-12)


def test_nothing_but_a_text_itself_has_weight(made):
    scorer = made("sbert")
    (choice,) = choose(scorer, [["a cat", "a dog"]], weights=[[0, 1]], include_self=False).choices
    alone = loop(scorer, ["a cat", "a dog"], ["a dog"])[:, 0]
    np.testing.assert_allclose(choice.utilities, alone, rtol=0, atol=1e-6)  # the dog is compared with itself


def test_ties_go_to_the_first(made):
    scorer = made("twmd")
    assert choose(scorer, [["red rain", "a dog", "a dog"]]).indices.tolist() == [1]
    assert choose(scorer, [["the cat", "a dog"], ["a", "a"], [""]]).indices.tolist() == [0, 0, 0]
    lower = made("lazy-emd-en")
    assert choose(lower, [["red rain never", "a dog", "a dog"]]).indices.tolist() == [1]


def test_idf_weights_are_fitted_on_all_texts(made, sets):
    scorer = made("bertscore-f1-idf")
    before = choose(scorer, sets)
    again = choose(scorer, sets[::-1])
    for one, other in zip(before.choices, again.choices[::-1], strict=True):
        np.testing.assert_allclose(one.utilities, other.utilities, rtol=0, atol=1e-6)
    assert str(before.signature) == str(again.signature)


def test_each_text_is_encoded_once_and_each_pair_matched_once(load_tiny, sets, monkeypatch, texts_read):
    scorer = load_tiny("twmd", cache=False)
    matched, pair_scores = [], scorer.metric.pair_scores
    texts_read.clear()
    monkeypatch.setattr(scorer.metric, "pair_scores", lambda a, b: (matched.append(len(a)), pair_scores(a, b))[1])
    choose(scorer, sets)
    assert sum(texts_read) == len({text for one in sets for text in one})
    kinds = [Counter(one) for one in sets]
    copies = sum(sum(number > 1 or len(one) == 1 for number in one.values()) for one in kinds)
    assert sum(matched) == sum(len(one) * (len(one) - 1) // 2 for one in kinds) + copies


def test_windows_of_any_size_choose_alike(made, sets, monkeypatch):
    scorer = made("twmd")
    whole = choose(scorer, sets)
    for block, stretch in ((1, 1), (6, 3)):
        monkeypatch.setattr("textmover.scoring.mbr.BLOCK", block)
        monkeypatch.setattr("textmover.scoring.engine.engine.STRETCH", stretch)
        monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 2)
        scorer.clear_cache()
        done = []
        given = (Candidates(tuple(one)) for one in sets)
        counts = Counter()
        found = list(choose_each(scorer, given, on_progress=done.append, counts=counts))
        assert sum(done) == len(sets)
        assert dict(counts) == whole.counts == {"empty": 1, "few candidates": 1}
        for one, other in zip(found, whole.choices, strict=True):
            np.testing.assert_allclose(one.utilities, other.utilities, rtol=0, atol=1e-6)


def test_segments_are_read_as_they_are_worked_on(made, monkeypatch):
    monkeypatch.setattr("textmover.scoring.mbr.BLOCK", 4)
    read = []

    def given():
        for number in range(100):
            read.append(number)
            yield Candidates(("a cat", "a dog"))

    found = choose_each(made("twmd"), given())
    next(found)
    assert len(read) == 2


def test_the_scorer_has_it_too(made, sets):
    found = made("twmd").mbr(sets)
    assert found.texts == choose(made("twmd"), sets).texts
    none = made("twmd").mbr([])
    assert (len(found), len(none), none.texts, none.counts) == (len(sets), 0, [], {})


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("a cat",), TypeError, "a list of texts for each segment"),
        ((["a cat", "a dog"],), TypeError, "one text for segment 1"),
        (([["a"], []],), InputError, "at least one candidate in segment 2, but got none"),
        (([["a"], ["b", 3]],), TypeError, "got int in segment 2"),
        (([["a"], ["\ud800"]],), InputError, "segment 2"),
        (([["a"]], [["x"], ["y"]]), InputError, "references for every segment (1), but got 2"),
        (([["a"], ["b"]], [["x"], None]), TypeError, "references to be a text or a list of texts, but got NoneType"),
        (([["a"]], None, [None]), TypeError, "weights to be a text or a list of texts, but got NoneType"),
        (([["a"]], [[]]), InputError, "at least one reference in segment 1"),
        (([["a", "b"]], None, [[1]]), InputError, "a weight for each candidate in segment 1"),
        (([["a", "b"]], None, [["x", "y"]]), InputError, "weights of at least 0"),
        (([["a", "b"]], None, [0.5, 0.5]), InputError, "weights for every segment (1)"),
    ],
)
def test_bad_input(made, arguments, error, said):
    with pytest.raises(error) as caught:
        choose(made("twmd"), *arguments)
    assert said in str(caught.value)


def test_what_does_not_fit_together(made):
    with pytest.raises(InputError, match="leave one out"):
        choose(made("twmd"), [["a"]], [["b"]], include_self=True)
    with pytest.raises(InputError, match="corpus statistics"):
        choose(made("twmd-b"), [["a", "b"]])
    with pytest.raises(InputError, match="centering='batch'"):
        choose(made("twmd-b", centering="batch"), [["a", "b"]])
