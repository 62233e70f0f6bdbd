"""The benchmark of minimum Bayes risk: its candidates, and what it says of ways that agree or do not."""

import numpy as np
import pytest


def test_candidates_are_different_versions(script, tmp_path):
    sets = script.candidate_sets(None, 3, 5, seed=0)
    assert [len(set(one)) for one in sets] == [5, 5, 5]
    assert sets == script.candidate_sets(None, 3, 5, seed=0)
    path = tmp_path / "one.txt"
    path.write_text("Traffic lost the use of the bridge for eleven days this year.\n")
    with pytest.raises(SystemExit, match="name more with --data"):
        script.candidate_sets(path, 2, 5, seed=0)


def test_pairs_of_segments_and_back(script):
    sets = [["a", "b"], ["c", "d", "e"]]
    hypotheses, references = script.pairs_of(sets)
    assert len(hypotheses) == len(references) == 4 + 9
    scores = np.array([float(one == other) for one, other in zip(hypotheses, references, strict=True)])
    assert all((one == 0).all() for one in script.from_pairs(sets, scores))  # the ones are their own


def test_agreement_is_counted(script):
    ours = [np.array([0.1, 0.5]), np.array([0.4, 0.2])]
    assert script.agreement(ours, ours) == "2 of 2"
    assert script.agreement(ours, [np.array([0.9, 0.5])]) == "0 of 1"


def test_ways_agree(script, embedded):
    sets = script.candidate_sets(None, 1, 3, seed=0)
    ours = script.by_mbr(sets)
    for way in (script.by_one_call, lambda sets: script.by_pairs(sets, 1)):
        assert script.agreement(ours.result, way(sets).result) == "1 of 1"
        np.testing.assert_allclose(ours.result[0], way(sets).result[0], rtol=0, atol=1e-6)
    table = script.report(sets, {"mbr, bertscore-f1": [ours], "other": [ours]}, "mbr, bertscore-f1")
    assert table.count("| 1.00 |") == 2
