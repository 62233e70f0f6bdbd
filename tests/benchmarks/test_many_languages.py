"""The order of right and wrong translations is that of their scores, on whichever side they are compared."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

WRONG = ("number", "negation", "another language", "source copied")
TEXTS = {
    "de": ("zwei Hunde", ("a pair of dogs", "five dogs", "no dogs", "dos perros", "zwei Hunde")),
    "es": ("dos perros", ("a pair of dogs", "six dogs", "no dogs", "zwei Hunde", "dos perros")),
}
ITEMS = [
    (language, source, "two dogs", dict(zip(("right", *WRONG), texts, strict=True)))
    for language, (source, texts) in TEXTS.items()
]


class Judge:
    """Stands in for a scorer: texts have the scores that it is given, others 0.5; copies of sources are flagged."""

    def __init__(self, scores):
        self.scores, self.given = scores, []

    def score(self, hypotheses, references, sources):
        self.given.append((references, sources))
        copied = {} if sources is None else {"copied": np.array(hypotheses) == np.array(sources)}
        return SimpleNamespace(scores=np.array([self.scores.get(one, 0.5) for one in hypotheses]), flags=copied)


def test_every_wrong_translation_is_compared_with_the_right_one_of_its_sentence(script):
    judge = Judge({"a pair of dogs": 0.75, "six dogs": 1.0})
    found = list(script.orders(judge, ITEMS, "both"))
    assert [(one.language, one.kind) for one in found] == [(item[0], kind) for item in ITEMS for kind in WRONG]
    assert [one.margin for one in found] == [0.25] * 4 + [-0.25] + [0.25] * 3
    assert [one.flagged for one in found] == [one.kind == "source copied" for one in found]
    assert (found[4].source, found[4].wrong) == ("dos perros", "six dogs")


@pytest.mark.parametrize(
    ("place", "given"), list(enumerate([(True, False), (False, True), (False, True), (True, True)]))
)
def test_each_side_is_given_its_texts(script, place, given):
    judge = Judge({})
    list(script.orders(judge, ITEMS, script.SIDES[place]))
    ((references, sources),) = judge.given
    assert (references is not None, sources is not None) == given
    assert references in (None, ("two dogs",) * 10)
    assert sources in (None, ("zwei Hunde",) * 5 + ("dos perros",) * 5)


def test_shares_in_order_and_the_pairs_that_are_not(script):
    scores = {"a pair of dogs": 0.75, "six dogs": 1.0}
    in_english = Judge({**scores, "dos perros": 0.0, "zwei Hunde": 0.0, "no dogs": 0.8})
    scorers = {"untrained": (Judge({}), Judge({})), script.METRIC: (Judge(scores), in_english)}
    rows, wrong = script.order_rows(scorers, ITEMS)
    assert [(row["metric"], row["compared with"]) for row in rows] == [
        (n, side) for n in scorers for side in script.SIDES
    ]
    ties, judged, told = rows[3], rows[7], rows[6]
    assert [told[kind] for kind in (*WRONG, "all")] == ["0.500", "0.000", "1.000", "1.000", "0.625"]
    assert {ties[kind] for kind in (*WRONG, "all")} == {"0.000"}  # equal scores are no order
    assert [judged[kind] for kind in (*WRONG, "all")] == ["0.500", "1.000", "1.000", "1.000", "0.875"]
    assert [row["copies flagged"] for row in rows] == ["0", "2", "2", "2"] * 2
    six = {"kind": "number", "language": "es", "source": "dos perros", "wrong": "six dogs"}
    none = [
        {"kind": "negation", "language": language, "source": texts[0], "wrong": "no dogs"}
        for language, texts in TEXTS.items()
    ]
    failed = {side: [none[0], six, none[1]] if side == script.TARGET else [six] for side in script.SIDES}
    assert wrong == [
        {"metric": script.METRIC, "compared with": side, **one} for side, rows in failed.items() for one in rows
    ]


def test_the_sentences_have_a_right_and_four_wrong_translations(script):
    items = script.translations(Path(script.__file__).with_name("translations.yaml"))
    assert (len(items), len({language for language, *_ in items})) == (60, 20)
    sources = {source for _, source, *_ in items}
    for _, source, reference, texts in items:
        assert set(texts) == {"right", *WRONG}
        assert texts["source copied"] == source
        assert texts["another language"] in sources - {source}
        assert len({reference, *texts.values()}) == 6
