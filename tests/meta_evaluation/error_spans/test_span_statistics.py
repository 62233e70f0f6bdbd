"""Figures of marked errors: against scikit-learn, loops over characters, and counts by hand."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from textmover.meta_evaluation import span_f1
from textmover.meta_evaluation.error_spans.span_statistics import COLUMNS, figures, segment_sums
from textmover.types import InputError
from textmover.types.error_spans import SEVERITIES, ErrorSpan, MarkedSegment, TextErrors

TEXT = "one two three four five six"
WORDS = ((0, 3), (4, 7), (8, 13), (14, 18), (19, 23), (24, 27))


def spans(rng: np.random.Generator) -> tuple[ErrorSpan, ...]:
    """Some errors in order, of a word or more, or at a gap."""
    found, place = [], 0
    while place < len(WORDS):
        chance = rng.random()
        if chance < 0.2:
            found.append(ErrorSpan(WORDS[place][0], WORDS[place][0], rng.choice(SEVERITIES)))
        if chance < 0.4:
            found.append(ErrorSpan(*WORDS[place], rng.choice(SEVERITIES)))
        place += 1
    return tuple(found)


def drawn(seed: int, size: int = 40):
    rng = np.random.default_rng(seed)
    gold = [MarkedSegment(TEXT, spans(rng), words=WORDS, graded=True) for _ in range(size)]
    return gold, [TextErrors(TEXT, spans(rng)) for _ in range(size)]


def summed(gold, found) -> dict[str, float]:
    sums = np.sum([segment_sums(*pair) for pair in zip(gold, found, strict=True)], axis=0)
    return {name: float(value) for name, value in figures(sums).items()}


@pytest.mark.parametrize("seed", range(5))
def test_tags_are_judged_as_scikit_learn_does(seed):
    gold, found = drawn(seed)

    def tags(marked, gaps):
        at = {one.start for spans in [marked] for one in spans if one.missing is gaps}
        return [start in at for start, _ in WORDS] + [False] * gaps

    words, gaps = (
        np.array([[tags(one.errors, part), tags(other.spans, part)] for one, other in zip(gold, found, strict=True)])
        for part in (False, True)
    )
    (gold_words, found_words), (gold_gaps, found_gaps) = (
        (part[:, 0].ravel(), part[:, 1].ravel()) for part in (words, gaps)
    )
    values = summed(gold, found)
    bad, ok = f1_score(gold_words, found_words), f1_score(~gold_words, ~found_words)
    both = [np.concatenate(one) for one in ((gold_words, gold_gaps), (found_words, found_gaps))]
    assert values["mcc_words"] == pytest.approx(matthews_corrcoef(gold_words, found_words))
    assert values["mcc_gaps"] == pytest.approx(matthews_corrcoef(gold_gaps, found_gaps))
    assert values["mcc"] == pytest.approx(matthews_corrcoef(*both))
    together = f1_score(*both) * f1_score(*(~one for one in both))
    assert values["f1_mult_tags"] == pytest.approx(together)
    assert (values["f1_bad"], values["f1_ok"], values["f1_mult"]) == pytest.approx((bad, ok, bad * ok))


def by_character(gold, found, graded=True):
    """Credit, found and known characters, one character at a time."""
    credit = marked = known = 0
    for one, other in zip(gold, found, strict=True):
        for place in range(len(TEXT) + 1):
            theirs, ours = (
                {
                    span.severity
                    for span in several
                    if span.start <= place < span.end or (span.missing and place == span.start)
                }
                for several in (one.errors, other)
            )
            marked, known = marked + bool(ours), known + bool(theirs)
            if ours and theirs:
                credit += 1 if ours & theirs or not graded else 0.5
    return credit, marked, known


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_characters_are_counted_as_one_at_a_time(seed, graded):
    gold, found = drawn(seed)
    gold = [MarkedSegment(TEXT, one.errors, graded=graded) for one in gold]
    credit, marked, known = by_character(gold, found, graded)
    values = span_f1(gold, found)
    assert values[:3] == pytest.approx((credit / marked, credit / known, 2 * credit / (marked + known)))
    each = [by_character([one], [other], graded) for one, other in zip(gold, found, strict=True)]
    shares = [2 * one / (two + three) if two + three else 1 for one, two, three in each]
    assert values.segments == pytest.approx(np.mean(shares))


@pytest.mark.parametrize(
    ("gold", "found", "expected"),
    [  # (start, end, severity) of each: precision, recall, F1
        ([(0, 3, "major")], [(0, 3, "major")], (1, 1, 1)),
        ([(0, 3, "major")], [(0, 3, "minor")], (0.5, 0.5, 0.5)),
        ([(0, 3, "critical")], [(0, 3, "major")], (0.5, 0.5, 0.5)),
        ([(0, 4, "major")], [(2, 6, "major")], (0.5, 0.5, 0.5)),
        ([(0, 3, "major"), (0, 3, "minor")], [(0, 3, "minor")], (1, 1, 1)),
        ([(3, 3, "minor")], [(3, 3, "minor")], (1, 1, 1)),
        ([(27, 27, "minor")], [(27, 27, "minor")], (1, 1, 1)),  # at the end of the text
        ([(27, 27, "minor")], [(24, 27, "minor")], (0, 0, 0)),
        ([(0, 3, "major")], [], (np.nan, 0, 0)),
        ([], [(0, 3, "major")], (0, np.nan, np.nan)),
        ([], [], (np.nan, np.nan, np.nan)),
    ],
)
def test_partial_credit_by_hand(gold, found, expected):
    judged = MarkedSegment(TEXT, tuple(ErrorSpan(*one) for one in gold), graded=True)
    assert span_f1([judged], [[ErrorSpan(*one) for one in found]])[:3] == pytest.approx(expected, nan_ok=True)


def test_marking_as_people_did_is_perfect_and_order_does_not_matter():
    gold, found = drawn(0)
    own = summed(gold, [TextErrors(TEXT, one.errors) for one in gold])
    assert {round(value, 12) for value in own.values()} == {1.0}
    assert summed(gold, found) == pytest.approx(summed(gold[::-1], found[::-1]))


def test_nothing_to_judge_is_nan():
    values = figures(np.zeros((2, COLUMNS)))
    assert np.isnan(np.stack(list(values.values()))).all()


def test_other_texts_are_refused():
    gold = [MarkedSegment("a cat", (ErrorSpan(0, 1),))] * 2
    cases = [
        ([()], "errors of 2 texts, but got those of 1"),
        ([TextErrors("a cat", ()), TextErrors("a dog", ())], "errors of text 1 .*'a cat', but got those of 'a dog'"),
        ([(), (ErrorSpan(2, 9),)], "within the 5 characters of text 1 .*, but got one up to 9"),
    ]
    for found, message in cases:
        with pytest.raises(InputError, match=message):
            span_f1(gold, found)


def test_a_correlation_needs_both_tags_of_people():
    gold, found = drawn(0)
    none = [MarkedSegment(TEXT, (), words=WORDS) for _ in gold]
    for marks in (found, [TextErrors(TEXT, ()) for _ in gold]):
        values = summed(none, marks)
        undefined = {name for name, value in values.items() if np.isnan(value)} - {"precision", "span_precision"}
        assert undefined == {
            *("mcc_words", "mcc_gaps", "mcc", "f1_bad", "f1_mult", "f1_mult_tags", "span_recall", "span_f1", "recall")
        }, "it depends on people alone, so that groups count for all metrics or for none"
    silent = [TextErrors(TEXT, ()) for _ in gold]
    assert [summed(gold, silent)[name] for name in ("mcc_words", "mcc_gaps", "f1_bad")] == [0, 0, 0]
