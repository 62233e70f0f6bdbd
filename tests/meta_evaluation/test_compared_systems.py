"""Several systems beside one another: the decisions are those of sacrebleu's tests on the same segment scores."""

import itertools

import numpy as np
import pytest

from textmover.meta_evaluation import compare_systems, paired_bootstrap, paired_randomisation
from textmover.types import InputError


def made(gains=(0.0, 0.3, 0.05), n=60, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    return {f"s{place}": base + gain + 0.5 * rng.normal(size=n) for place, gain in enumerate(gains)}


def sacrebleu_p(scores, test: str, samples: int, seed: int, monkeypatch) -> list[float]:
    """p-values of sacrebleu's test against the first system, with segment scores in place of BLEU's statistics."""
    significance = pytest.importorskip("sacrebleu.significance")
    from sacrebleu.metrics.base import Metric, Score, Signature

    class Sum(Metric):
        """The sum of segment scores as a corpus metric: sacrebleu hands over sums of what is drawn."""

        _SIGNATURE_TYPE = Signature

        def __init__(self, references):
            self.num_refs, self._ref_cache = 1, []

        def _extract_corpus_statistics(self, hypotheses, _):
            return [[float(one)] for one in hypotheses]

        def _aggregate_and_compute(self, stats):
            return Score("sum", float(np.sum([one[0] for one in stats])))

        def _compute_score_from_stats(self, stats):
            return Score("sum", stats[0])

        def _compute_segment_statistics(self, *_):
            raise NotImplementedError

        def _preprocess_segment(self, text):
            return text

        def _extract_reference_info(self, refs):
            return {}

        def get_signature(self):
            return self._SIGNATURE_TYPE({"num_refs": 1})

    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    systems = [(name, [repr(float(one)) for one in values]) for name, values in scores.items()]
    test = significance.PairedTest(
        systems, {"sum": Sum(None)}, [[""] * len(systems[0][1])], test_type=test, n_samples=samples, n_jobs=1
    )
    _, found = test()
    return [one.p_value for one in found["sum"][1:]]


def test_the_numbers_of_each_two_are_those_of_the_tests():
    scores = made()
    found = compare_systems(scores, samples=200, trials=300, seed=7)
    assert [(one.first, one.second) for one in found.pairs] == list(itertools.combinations(scores, 2))
    for pair in found.pairs:
        first, second = scores[pair.first], scores[pair.second]
        assert pair.bootstrap == paired_bootstrap(first, second, samples=200, seed=7)
        expected = paired_randomisation(first, second, samples=300, bootstrap_samples=0, seed=7)
        assert pair.randomisation.p_value == expected.p_value
        assert (pair.wins, pair.losses) == (int((second > first).sum()), int((second < first).sum()))
        assert pair.wins + pair.ties + pair.losses == 60
        assert pair.bootstrap.low <= pair.bootstrap.difference <= pair.bootstrap.high


def test_means_and_intervals():
    scores = made()
    found = compare_systems(scores, samples=500, trials=100)
    np.testing.assert_allclose(found.means, [one.mean() for one in scores.values()])
    assert ((found.low < found.means) & (found.means < found.high)).all()
    drawn = np.random.default_rng(12345).choice(60, size=(500, 60), replace=True)
    ordered = np.sort([scores["s1"][rows].mean() for rows in drawn])
    assert found.high[1] - found.low[1] == pytest.approx(ordered[487] - ordered[12])
    assert found.order[0] == 1


def test_systems_that_no_test_tells_apart_share_a_rank():
    assert compare_systems(made((0.0, 1.0, 0.02)), samples=200, trials=500).ranks == (2, 1, 2)
    same = np.arange(10.0)
    found = compare_systems({"a": same, "b": same}, samples=50, trials=50)
    assert found.ranks == (1, 1)
    assert (found.pairs[0].ties, found.pairs[0].bootstrap.p_value) == (10, 1.0)
    assert found.differing(5) == []


def test_distances_are_better_if_they_are_small():
    scores = made((0.0, 1.0))
    found = compare_systems(scores, samples=100, trials=300, higher_is_better=False)
    assert found.order == [0, 1]
    assert found.ranks == (1, 2)
    assert found.pairs[0].wins == int((scores["s1"] < scores["s0"]).sum())


def test_scores_that_hardly_differ_are_ties():
    found = compare_systems({"a": [0.5, 0.5, 0.5], "b": [0.505, 0.6, 0.4]}, samples=10, trials=10, tie=0.01)
    assert (found.pairs[0].wins, found.pairs[0].ties, found.pairs[0].losses) == (1, 1, 1)


def test_segments_that_differ_most_come_first():
    found = compare_systems({"a": [0, 0, 0, 0], "b": [0.1, 0.9, 0, 0.5], "c": [-0.6, 0, 0, 0]}, samples=9, trials=9)
    assert found.differing(2) == [1, 0]
    assert found.differing(9) == [1, 0, 3]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"a": [1.0]}, "at least two systems"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "2 scores of a and 1 of b"),
        ({"a": [1.0, np.nan], "b": [1.0, 2.0]}, "scores of a"),
    ],
)
def test_what_cannot_be_compared_is_refused(scores, said):
    with pytest.raises(InputError, match=said):
        compare_systems(scores)


def test_a_negative_tie_is_refused():
    with pytest.raises(InputError, match="`tie` to be 0 or above"):
        compare_systems(made(), tie=-0.1)


@pytest.mark.parametrize(("test", "attribute"), [("bs", "bootstrap"), ("ar", "randomisation")])
@pytest.mark.parametrize("gain", [0.0, 0.2, 0.6])
def test_the_decision_is_sacrebleus(monkeypatch, gain, test, attribute):
    scores = made((0.0, gain, gain / 2), n=80, seed=3)
    expected = sacrebleu_p(scores, test, 400, 99, monkeypatch)
    found = compare_systems(scores, samples=400, trials=400, seed=99)
    values = [getattr(pair, attribute).p_value for pair in found.pairs if pair.first == "s0"]
    assert values == pytest.approx(
        expected, abs=3 / 401
    )  # where float32, as sacrebleu keeps scores, tips a sample over
    assert [one <= 0.05 for one in values] == [one <= 0.05 for one in expected]
