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


@pytest.fixture(scope="module")
def script(load_script):
    """The benchmark that hands segment scores to sacrebleu's own tests."""
    return load_script("benchmarks/compare_with_sacrebleu.py")


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


def test_ties_the_best_of_a_segment_and_the_largest_differences():
    found = compare_systems({"a": [0.5, 0.5, 0.5], "b": [0.505, 0.6, 0.4]}, samples=20, trials=10, tie=0.01)
    assert (found.pairs[0].wins, found.pairs[0].ties, found.pairs[0].losses) == (1, 1, 1)
    found = compare_systems({"a": [0.3, 0.2, 80.1], "b": [0.4, 0.1, 80.2]}, samples=20, trials=10, tie=0.1)
    assert found.pairs[0].ties == 3  # though .4 - .3 > .1 in floating point
    scores = {"a": [0, 0, 0, 0], "b": [0.1, 0.9, 0, 0.5], "c": [-0.6, 0, 0, 0.9]}
    found = compare_systems(scores, samples=20, trials=9)
    assert (found.differing(2), found.differing(9)) == ([1, 3], [1, 3, 0])
    assert found.best_first(0) == [1, 0, 2]
    falling = compare_systems(scores, samples=20, trials=9, higher_is_better=False)
    assert falling.best_first(3) == [0, 1, 2]
    assert falling.pairs[0].losses == found.pairs[0].wins == 3


@pytest.mark.parametrize(
    ("scores", "options", "said"),
    [
        ({"a": [1.0]}, {}, "at least two systems"),
        ({"a": [1.0, 2.0], "b": [1.0]}, {}, "2 scores of a and 1 of b"),
        ({"a": [1.0, np.nan], "b": [1.0, 2.0]}, {}, "scores of a"),
        ({"a": [], "b": []}, {}, "at least one segment, but got none"),
        (made(), {"tie": -0.1}, "`tie` to be 0 or above"),
        (made(), {"trials": 0}, "at least one trial, but got 0"),
        (made(), {"trials": -1}, "at least one trial, but got -1"),
    ],
)
def test_what_cannot_be_compared_is_refused(scores, options, said):
    with pytest.raises(InputError, match=said):
        compare_systems(scores, **options)


@pytest.mark.parametrize(("test", "attribute"), [("bs", "bootstrap"), ("ar", "randomisation")])
@pytest.mark.parametrize("gain", [0.0, 0.2, 0.6])
def test_the_decision_is_sacrebleus(script, gain, test, attribute):
    scores = made((0.0, gain, gain / 2), n=80, seed=3)
    expected = script.sacrebleu_p(scores, test, 400, 99)
    found = compare_systems(scores, samples=400, trials=400, seed=99)
    values = [getattr(pair, attribute).p_value for pair in found.pairs if pair.first == "s0"]
    # Float32, as sacrebleu keeps scores, may tip a sample over.
    assert values == pytest.approx(expected, abs=3 / 401)
    assert [one <= 0.05 for one in values] == [one <= 0.05 for one in expected]


def test_a_decision_needs_both_tests():
    found = compare_systems(made((0.0, 1.0)), samples=200, trials=500)
    assert found.decision(found.pairs[0]) == ("s1", True)
    falling = compare_systems(made((0.0, 1.0)), samples=200, trials=500, higher_is_better=False)
    assert falling.decision(falling.pairs[0]) == ("s0", True)
    assert (falling.order, falling.ranks) == ([0, 1], (1, 2))
    alike = compare_systems(made((0.0, 0.0), n=20), samples=200, trials=500)
    assert alike.decision(alike.pairs[0]) == (None, True)
    # A difference of many small gains: the bootstrap's interval leaves 0 out before randomisation is sure.
    pair = found.pairs[0]._replace(randomisation=found.pairs[0].randomisation._replace(p_value=0.06))
    assert found.decision(pair) == (None, False)


# --- systems of WMT17 and WebNLG --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored(script, embedded):
    """Scores of systems by the preset twmd; one scorer for all."""
    from textmover.scoring import Scorer

    scorer = Scorer.from_pretrained("twmd", encoder=str(embedded), backend="torch", progress=False)
    return lambda systems: script.scored(scorer, systems)


def check_decisions(script, pairs):
    """Both tests with sacrebleu's own numbers of samples and its seed; returns in how many pairs systems differ."""
    differing = 0
    for scores in pairs:
        found = compare_systems(scores).pairs[0]
        assert found.bootstrap.signature == "test:paired-bootstrap|samples:1000|seed:12345"
        assert found.randomisation.signature == "test:paired-randomisation|samples:10000|seed:12345"
        first, second = scores.values()
        if (first == second).all():  # which sacrebleu calls as significant as can be
            assert (found.bootstrap.p_value, found.randomisation.p_value) == (1.0, 1.0)
            assert max(p for name in ("bs", "ar") for p in script.sacrebleu_p(scores, name, 99, 12345)) < 0.05
            continue
        differing += 1
        for name, test, samples in (("bs", found.bootstrap, 1000), ("ar", found.randomisation, 10_000)):
            (expected,) = script.sacrebleu_p(scores, name, samples, 12345)
            assert test.p_value == pytest.approx(expected, abs=3 / samples), (list(scores), name)
            assert (test.p_value <= 0.05) == (expected <= 0.05), (list(scores), name)
    return differing


def each_two(scores):
    """The scores of each two systems."""
    return [{name: scores[name] for name in names} for names in itertools.combinations(scores, 2)]


@pytest.mark.parametrize(
    ("options", "count", "differing"),
    [({}, 5, 5), pytest.param({"languages": None, "least": 5}, 65, 61, marks=pytest.mark.long)],
)
def test_decisions_on_systems_of_wmt17_are_sacrebleus(script, scored, shared_folder, options, count, differing):
    """The two systems of WMT17 of which people rated the most segments in common, and the others of cs-en, or all."""
    pairs = script.wmt17(shared_folder / "data", **options)
    if not options:
        assert (sorted(pairs[0].texts), len(pairs[0].references)) == (["PJATK.4760", "uedin-nmt.4955"], 17)
    assert (len(pairs), check_decisions(script, map(scored, pairs))) == (count, differing)


@pytest.mark.long  # the other sets hold the same decisions sooner
def test_decisions_on_all_systems_of_webnlg_are_sacrebleus(script, scored, shared_folder):
    systems = script.webnlg(shared_folder / "data")
    assert (len(systems.texts), len(systems.references)) == (9, 198)
    scores = scored(systems)
    assert check_decisions(script, each_two(scores)) == 36
    p_values = [pair.randomisation.p_value for pair in compare_systems(scores).pairs]
    assert min(p_values) < 0.05 < max(p_values)  # so that both decisions are there


def test_the_table_of_the_documents(script):
    rows = script.compared("made up", made((0.0, 1.0, 0.9), n=40), 100, 200, 12345)
    lines = script.table(rows).splitlines()
    assert len(lines) == 2 + 2
    assert lines[2].startswith("| made up | s1 − s2 | 40 |")
    assert lines[3].endswith("| better, better |")
    assert script.table([rows[2]._replace(theirs=0.5), rows[3]]).endswith("| DIFFER |")
