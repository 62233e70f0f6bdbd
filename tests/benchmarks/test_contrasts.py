import math
from types import SimpleNamespace

import pytest

from textmover.types import Segment


@pytest.mark.parametrize(("slope", "share"), [(1, 1.0), (-1, 0.0)])
def test_the_share_of_rewordings_that_score_higher(script, slope, share):
    kinds = {"number": 1, "paraphrase": 2, "notation": 3}
    segments = [Segment(kind, (f"text {number}",), groups={"contrast": kind}) for number in range(3) for kind in kinds]

    scores = [slope * kinds[one.hypothesis] for one in segments]
    scorer = SimpleNamespace(score=lambda hypotheses, references: SimpleNamespace(scores=scores))
    found = script.accuracies(scorer, {"number": segments})
    assert found == {"number": (share, 3), "number, notation": (share, 3)}


def test_no_text_is_no_share(script):
    share, number = script.preferred([{"number": 1.0}], "notation", "number")
    assert (math.isnan(share), number) == (True, 0)


def test_written_texts_are_those_held_out_and_each_has_a_paraphrase(script):
    by_kind = script.written()
    rows = [one for segments in by_kind.values() for one in segments]
    assert {one.groups["part"] for one in rows} == {"held-out"}
    scorer = SimpleNamespace(
        score=lambda hypotheses, references: SimpleNamespace(
            scores=[one.groups["contrast"] == "paraphrase" for one in rows]
        )
    )
    assert script.accuracies(scorer, by_kind) == {kind: (1.0, len(found) / 2) for kind, found in by_kind.items()}
