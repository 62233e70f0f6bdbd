"""One scorer in several threads: every call has the values and the signature that it has alone."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.sentences import sentences

from textmover.interfaces.evaluate import EvaluationModule
from textmover.presets import PRESETS
from textmover.runs.score_run import score_pairs
from textmover.scoring import Scorer
from textmover.scoring.metric_set import score_together
from textmover.types import InputError

THREADS, CALLS, TIMES = 8, 4, 3


def call(number):
    """Texts of one call, whose idf weights are like those of no other."""
    size = 2 + number % 5
    return sentences(size, number), [sentences(1 + row % 2, 10 * number + row) for row in range(size)]


def scored(scorer, hypotheses, references):
    found = scorer.score(hypotheses, references)
    return found.scores, str(found.signature)


def chosen(scorer, hypotheses, references):
    found = scorer.mbr([hypotheses, *references], matrices=True)
    return np.concatenate([one.matrix.ravel() for one in found.choices]), str(found.signature)


def compared(scorer, hypotheses, references):
    return score_pairs(scorer, hypotheses, references, ["one"] * len(hypotheses), parts=2, shown=False)[0], ""


def explained(scorer, hypotheses, references):
    found = scorer.explain(hypotheses[0], references[0][0])
    return np.array([found.score, *found.components.values()]), str(found.signature)


def evaluated(scorer, hypotheses, references):
    found = EvaluationModule(scorer).compute(predictions=hypotheses, references=references)
    return np.array(found["scores"]), found["signature"]


def together(scorer, hypotheses, references):
    found = score_together({"one": scorer}, hypotheses, references)["one"]
    return found.scores, str(found.signature)


DOORS = {one.__name__: one for one in (scored, chosen, compared, explained, evaluated, together)}


@pytest.fixture(scope="module")
def made(load_tiny):
    @functools.cache
    def make(name):
        scorer = load_tiny(name, **({"idf_from": "references"} if name == "rome" else {}))
        return scorer.fit(sentences(20, 0)) if scorer.metric.needs_fit and not scorer.metric.fits_on_call else scorer

    return make


def fits_on_call(name):
    return name == "rome" or PRESETS[name].config.weights == "idf"


@pytest.mark.parametrize(
    ("name", "door"),
    [
        *(
            pytest.param(name, door, marks=() if fits_on_call(name) else pytest.mark.slow)
            for name in PRESETS
            for door in ("scored", "chosen")
        ),
        *(
            (name, door)
            for name in ("bertscore-f1-idf", "moverscore-wmd1", "rome")
            for door in ("compared", "explained", "evaluated", "together")
        ),
    ],
)
def test_threads_that_share_a_scorer_have_the_values_and_signatures_of_their_own_calls(made, name, door):
    calls, scorer = [call(number) for number in range(CALLS)], made(name)
    alone = [DOORS[door](scorer, *texts) for texts in calls]
    with ThreadPoolExecutor(THREADS) as pool:
        at_once = list(pool.map(lambda texts: DOORS[door](scorer, *texts), calls * TIMES))
    for (values, signature), (found, signed) in zip(alone * TIMES, at_once, strict=True):
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-6)
        assert signed == signature


def test_a_stream_keeps_its_weights_whatever_is_scored_meanwhile(made):
    scorer = made("bertscore-f1-idf")
    hypotheses, references = call(1)
    pairs = list(zip(hypotheses, references, strict=True))
    expected = scored(scorer, hypotheses, references)
    stream = scorer.score_stream(pairs, shard_size=1)
    found = []
    for number in range(len(pairs)):
        found.append(next(stream))
        scorer.score(*call(2 + number))
    np.testing.assert_allclose([one.scores[0] for one in found], expected[0], rtol=0, atol=1e-6)
    assert {str(one.signature) for one in found} == {expected[1]}


def test_after_a_call_the_scorer_has_its_weights_and_the_metric_has_none(made):
    scorer = made("bertscore-f1-idf")
    found = scorer.score(*call(3))
    assert str(scorer.signature) == str(found.signature)
    assert scorer.metric.needs_fit
    assert not scorer.fitted_metric.needs_fit
    assert scorer.fitted_metric.encoder is scorer.metric.encoder


def test_weights_of_a_corpus_take_the_place_of_those_of_the_last_call(tiny_metric):
    metric = tiny_metric(matching="bertscore", normalize=False, weights="idf", idf_from="references")
    scorer = Scorer(metric)
    scorer.score(*call(3))
    metric.fit(sentences(20, 9))
    assert scorer.fitted_metric is metric
    assert str(scorer.score(*call(3)).signature) == str(scorer.score(*call(4)).signature)
    with pytest.raises(InputError, match=r"fits idf weights on the texts of each call.*call `Scorer\.fit\(texts\)`"):
        scorer.fit_on_call(*call(3))


@pytest.mark.parametrize(("normalize", "again"), [(False, False), (True, True)])
def test_texts_are_read_again_only_where_their_features_depend_on_the_weights(
    tiny_metric, texts_read, normalize, again
):
    scorer = Scorer(tiny_metric(normalize=normalize, weights="idf", idf_from="references"))
    hypotheses, references = call(3)
    scorer.score(hypotheses, references)
    texts_read.clear()
    scorer.score(hypotheses[:2], references[:2])
    assert (sum(texts_read) > 0) == again
