"""Several references to a hypothesis: the best, the mean, or all of them as one text."""

import functools
import itertools

import numpy as np
import ot
import pytest
import torch

from textmover.presets import PRESETS
from textmover.scoring import Scorer
from textmover.types import InputError

HYPOTHESES = [
    "the small dog ran to the old house in the evening",
    "she will buy a book",
    "tea",
    "go home",
    "one good day in the city",
]
REFERENCES = [
    ("a little dog runs home at night", "one dog went home , late"),
    ("she will not sell the book today", "buy me a book", "a book is what she wants"),
    ("a cold drink of water", "hot tea"),
    ("we went home on the train",),
    ("one good day in the city", "a day", "the city is good", "one evening"),
]
CORPUS = [*HYPOTHESES, *itertools.chain(*REFERENCES)]
VALUES = ("scores", "precision", "recall", "f")
TRANSPORT = [name for name, one in PRESETS.items() if one.config.kind == "transport"]
LAZY = [name for name in TRANSPORT if PRESETS[name].config.matching == "lazy-emd"]
DISTANCES = [name for name, preset in PRESETS.items() if not preset.higher_is_better]


FEW = ["twmd", "bertscore-f1-idf", "wmd", "moverscore-wmd2", "lazy-emd-en"]
MOSTLY_LONG = [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in TRANSPORT]
HARD = [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in TRANSPORT if name not in LAZY]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def build(tiny_preset):
    """Builds a scorer over a metric that is made once."""
    metric = functools.cache(lambda preset, **fields: tiny_preset(preset, CORPUS, **fields))
    return lambda preset, rule="best", **fields: Scorer(metric(preset, multi_reference=rule, **fields))


def named(found) -> dict[str, np.ndarray]:
    return {name: getattr(found, name) for name in VALUES if getattr(found, name) is not None}


def assert_same(found, expected, atol: float = 1e-6) -> None:
    assert named(found).keys() == named(expected).keys()
    for name, values in named(found).items():
        np.testing.assert_allclose(values, named(expected)[name], rtol=0, atol=atol, err_msg=name)


# --- the best, and the mean -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", MOSTLY_LONG)
@pytest.mark.parametrize("rule", ["best", "mean"])
def test_each_value_is_combined_by_itself(build, preset, rule):
    """Precision may be best with one reference, and recall with another."""
    found = named(build(preset, rule).score(HYPOTHESES, REFERENCES))
    best = np.min if preset in DISTANCES else np.max
    combine = np.mean if rule == "mean" else best
    copies = [one for one, texts in zip(HYPOTHESES, REFERENCES, strict=True) for _ in texts]
    single = named(build(preset).score(copies, list(itertools.chain(*REFERENCES))))
    ends = np.cumsum([len(one) for one in REFERENCES])[:-1]
    for name, values in found.items():
        expected = [combine(one) for one in np.split(single[name], ends)]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6, err_msg=name)


def test_the_best_of_a_distance_is_the_smallest(build):
    assert set(DISTANCES) == {*LAZY, "sinkhorn-divergence"}
    scorer = build("lazy-emd-en")
    assert scorer.metric.higher_is_better is False
    found = scorer.score(["she will buy a book"] * 2, [["go home", "she will buy a book"], ["she will buy a book"]])
    assert found.scores[0] == pytest.approx(found.scores[1], abs=1e-6)
    assert found.scores[0] < scorer.score("she will buy a book", "go home").scores[0]
    calibrated = build("lazy-emd-en", calibrate=True)  # which turns a distance into a score that rises
    with torch.no_grad():
        calibrated.metric.calibration.scale.fill_(-2.0)
    values = calibrated.score(["she will buy a book"] * 2, [["go home", "she will buy a book"], ["go home"]]).scores
    assert values[0] == pytest.approx(-2 * found.scores[0], abs=1e-6)
    assert values[0] > values[1]


@pytest.mark.parametrize("rule", ["best", "mean", "all"])
@pytest.mark.parametrize("preset", FEW)
def test_no_score_depends_on_batches_or_the_order_of_references(build, preset, rule):
    metric = build(preset, rule).metric
    alone = [named(Scorer(metric).score([one], [texts])) for one, texts in zip(HYPOTHESES, REFERENCES, strict=True)]
    turned = [one[::-1] for one in REFERENCES]
    ways = ({"batch_tokens": 1}, REFERENCES), ({"batch_tokens": 40, "cache": False}, turned), ({}, turned)
    for options, references in ways:
        for name, values in named(Scorer(metric, **options).score(HYPOTHESES, references)).items():
            np.testing.assert_allclose(values, [one[name][0] for one in alone], rtol=0, atol=1e-6, err_msg=name)


# --- all as one text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", MOSTLY_LONG)
def test_all_of_one_reference_is_that_reference(build, preset):
    single = [(one[0],) for one in REFERENCES]
    expected = build(preset).score(HYPOTHESES, [one[0] for one in REFERENCES])
    assert_same(build(preset, "all").score(HYPOTHESES, single), expected, atol=0)


@pytest.mark.parametrize("preset", HARD)
@pytest.mark.parametrize("times", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_reference_that_is_repeated_says_nothing_new(build, preset, times):
    """Every token is there twice with half the weight; between the copies, bigrams hold special tokens without idf."""
    repeated = [one[:1] * times for one in REFERENCES]
    expected = build(preset).score(HYPOTHESES, [one[0] for one in REFERENCES])
    found = build(preset, "all").score(HYPOTHESES, repeated)
    assert_same(found, expected)
    assert found.counts == expected.counts


@pytest.mark.parametrize("preset", LAZY)
def test_repeated_references_and_the_entropy_of_lazy_transport(build, preset):
    """Plain entropy grows with the number of tokens that share the mass; relative to the weights it does not."""
    repeated, single = [one[:1] * 2 for one in REFERENCES], [one[0] for one in REFERENCES]
    found = build(preset, "all", measure="product").score(HYPOTHESES, repeated)
    assert_same(found, build(preset, measure="product").score(HYPOTHESES, single))
    found, expected = build(preset, "all").score(HYPOTHESES, repeated), build(preset).score(HYPOTHESES, single)
    assert not np.allclose(found.scores, expected.scores, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-2)


def test_all_against_numpy(build):
    """Exact transport and greedy matching over the tokens of all references in turn."""
    mover, greedy = build("wmd", "all"), build("bertscore-f1", "all")
    distances, found = mover.score(HYPOTHESES, REFERENCES), greedy.score(HYPOTHESES, REFERENCES)
    for row, references in enumerate(REFERENCES):
        for scorer in (mover, greedy):
            texts = [
                scorer.metric.text_features(scorer.metric.tokenize([one])) for one in (HYPOTHESES[row], *references)
            ]
            y, *xs = (one.vectors[0].detach().double().numpy() for one in texts)
            opening, *openings = ((one.special[0] == 1).numpy() for one in texts)
            ordinary, *ordinaries = ((one.special[0] == 0).numpy() for one in texts)
            cosines = np.concatenate(xs) @ y.T
            kept = [np.concatenate(openings) | np.concatenate(ordinaries), opening | ordinary]
            if scorer is mover:  # which drops what closes a text
                sides = [np.full(one.sum(), 1 / one.sum()) for one in kept]
                value = 1 - ot.emd2(*sides, 1 - cosines[np.ix_(*kept)])
                assert distances.scores[row] == pytest.approx(value, abs=1e-6)
            else:
                assert found.recall[row] == pytest.approx(
                    cosines[np.concatenate(ordinaries)].max(axis=1).mean(), abs=1e-6
                )
                assert found.precision[row] == pytest.approx(cosines[:, ordinary].max(axis=0).mean(), abs=1e-6)


def test_stretches_that_cross_from_one_reference_to_the_next_depend_on_their_order(build):
    fields = {"ngram": 2, "hypothesis_special_tokens": "drop", "reference_special_tokens": "drop"}
    scorer = build("wmd", "all", **fields)
    one, turned = scorer.score(["go home"] * 2, [["a dog ran", "go home"], ["go home", "a dog ran"]]).scores
    assert abs(one - turned) > 1e-4


def test_texts_that_are_read_together_cannot_be_joined(build):
    for rule in ("best", "mean"):
        assert build("twmd", rule, centering="batch").score(HYPOTHESES, REFERENCES).counts == {}
    with pytest.raises(InputError, match=r"multi_reference='all' joins references, .* choose 'best' or 'mean'\."):
        build("twmd", "all", centering="batch").score(HYPOTHESES, REFERENCES)


# --- what is counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["best", "mean", "all"])
def test_a_segment_counts_once_however_many_of_its_references_are_cut(build, rule):
    long = ["the dog " * count for count in (80, 90, 100)]
    references = [["a dog", *long], [long[0]], ["a dog", "the cat"], long[:2]]
    found = build("twmd", rule).score(["a dog"] * 4, references)
    assert found.counts == {"truncated": 3}
    windows = build("twmd", rule, long_texts="window").score(["a dog"] * 4, references)
    assert windows.counts == {}
    assert np.isfinite(windows.scores).all()
    assert windows.scores[2] == pytest.approx(found.scores[2], abs=1e-6)


def test_an_empty_reference_adds_nothing_to_the_others(build):
    found = build("bertscore-r", "all").score(["a dog", "a dog"], [["the dog", ""], ["", " "]])
    assert found.counts == {"empty": 1}
    best, alone = build("bertscore-r").score(["a dog"] * 2, [["the dog", ""], ["the dog"]]).scores
    assert found.scores.tolist() == pytest.approx([alone, 0], abs=0.02)
    assert best == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("preset", ["bertscore-f1-idf", "moverscore-wmd1"])
@pytest.mark.parametrize("rule", ["best", "all"])
def test_the_references_of_a_call_are_a_corpus_of_all_of_them(build, preset, rule):
    scorer = build(preset, rule, idf_from=PRESETS[preset].config.idf_from)
    scorer.score(HYPOTHESES, REFERENCES)
    assert int(scorer.fitted_metric.statistics["idf"].documents) == sum(map(len, REFERENCES))


@pytest.mark.parametrize("rule", ["best", "mean", "all"])
def test_the_rule_is_in_the_signature(build, rule):
    assert f"|refs:{rule}|" in str(build("twmd", rule).signature)
