"""Targets of tokens and gaps, aligned to the tokens of an encoder."""

import itertools
from random import Random

import pytest
import torch

from textmover.data.error_spans import MarkedSource
from textmover.presets import build_metric, preset_config
from textmover.readers.error_spans.tagged_words import errors_of_tags
from textmover.types import InputError, NoReferenceError, SpecialToken
from textmover.types.error_spans import ErrorSpan, MarkedSegment
from textmover.types.word_splitting import text_words

NAN = float("nan")


@pytest.fixture(scope="module")
def metric(tiny_encoder):
    return build_metric(preset_config("twmd", encoder=str(tiny_encoder)))


def batch_of(metric, *items, **options):
    source = MarkedSource("marked", list(items), {}, **options)
    return source.collate(items, range(len(items)), len(items), metric.tokenize)


def marked(text, *errors, words=None, graded=False):
    return MarkedSegment(text, tuple(errors), ("the cat",), None, words, graded)


def same(found, expected):
    assert torch.equal(found.nan_to_num(-9), torch.tensor(expected).nan_to_num(-9)), found.tolist()


def test_targets_by_hand(metric):
    item = marked(
        "  The cat sat, ", ErrorSpan(6, 9, "minor"), ErrorSpan(9, 9), ErrorSpan(10, 13, "critical"), graded=True
    )
    batch = batch_of(metric, item, marked("the cat", words=((0, 3), (4, 7))))
    tokens = metric.tokenizer._tokenizer.convert_ids_to_tokens(batch.hypotheses.input_ids[0])
    assert tokens == ["[CLS]", "the", "cat", "s", "##a", "##t", ",", "[SEP]"]
    same(batch.wrong, [[NAN, 0, 1, 1, 1, 1, 0, NAN], [NAN, 0, 0, NAN, NAN, NAN, NAN, NAN]])
    same(batch.missing, [[NAN, 0, 0, 1, NAN, NAN, 0, 0, NAN], [NAN, 0, 0, 0, NAN, NAN, NAN, NAN, NAN]])
    assert batch.severity.tolist() == [[-1, -1, 0, 2, 2, 2, -1, -1], [-1] * 8]
    assert (batch.wrong.dtype, batch.missing.dtype, batch.severity.dtype) == (torch.float32, torch.float32, torch.int64)


def test_severities_are_unknown_where_none_were_given(metric):
    assert (batch_of(metric, marked("the cat", ErrorSpan(0, 3, "critical"))).severity == -1).all()


def test_the_worst_of_two_severities_counts(metric):
    errors = ErrorSpan(0, 1, "major"), ErrorSpan(2, 3, "minor")
    assert batch_of(metric, marked("the", *errors, graded=True)).severity.tolist() == [[-1, 1, -1]]


def test_a_cut_text_has_no_gap_behind_its_end(tiny_encoder):
    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder), max_length=4))
    batch = batch_of(metric, marked("the cat the dog", ErrorSpan(15, 15)))
    same(batch.wrong, [[NAN, 0, 0, NAN]])
    same(batch.missing, [[NAN, 0, 0, NAN, NAN]])


PIECES = ["the", "cat", "Zwölf", "我爱", "👩\u200d👧", "e\u0301te\u0301", "sat", ",", "don't", "हिन्दी", "½"]


@pytest.mark.parametrize("seed", range(40))
def test_targets_agree_with_characters_one_by_one(metric, seed):
    rng = Random(seed)
    text = "".join(rng.choice(["", " ", "  "]) + rng.choice(PIECES) for _ in range(rng.randint(1, 12))) + " "
    words = text_words(text)
    tags = rng.choices(["OK", "BAD"], [3, 1], k=2 * len(words) + 1)
    item = marked(text, *errors_of_tags(words, tags), words=words if seed % 2 else None)
    batch = batch_of(metric, item)
    (offsets,) = metric.tokenizer.offsets([text]).tolist()
    bad_words = [word for word, tag in zip(words, tags[1::2], strict=True) if tag == "BAD"]
    between = {start: (tag == "BAD") for (start, _), tag in zip(words, tags[::2], strict=False)}
    own, seen = [], set()
    for place, (start, stop) in enumerate(offsets):
        if batch.hypotheses.special[0, place] == SpecialToken.NONE:
            bad = any(set(range(*word)) & set(range(start, stop)) for word in bad_words)
            assert batch.wrong[0, place] == bad
            gap = batch.missing[0, place]
            assert gap.isnan() if start in seen or start not in between else gap == between[start]
            seen.add(start)
            own.append(place)
        else:
            assert batch.wrong[0, place].isnan()
            assert batch.missing[0, place].isnan() or place == own[-1] + 1
    assert batch.missing[0, own[-1] + 1] == (tags[-1] == "BAD")


def test_a_batch_is_its_texts_one_by_one(metric):
    items = [marked("the cat", ErrorSpan(0, 3)), marked("the old dog, sitting", ErrorSpan(7, 7)), marked("dog")]
    whole = batch_of(metric, *items)
    for row, item in enumerate(items):
        alone = batch_of(metric, item)
        length = alone.wrong.shape[1]
        for name, width in (("wrong", length), ("missing", length + 1), ("severity", length)):
            padded = getattr(whole, name)[row]
            assert torch.equal(padded[:width].nan_to_num(-9), getattr(alone, name)[0].nan_to_num(-9))
            assert padded[width:].isnan().all() if name != "severity" else (padded[width:] == -1).all()


BOTH = MarkedSegment("the dog", (), ("the cat",), "eine Katze")


@pytest.mark.parametrize(
    ("options", "item", "text", "of_source"),
    [
        ({}, BOTH, "the cat", False),
        ({"mode": "source"}, BOTH, "eine Katze", True),
        ({"mode": "source", "fallback": True}, MarkedSegment("x", (), ("the cat",)), "the cat", False),
        ({"fallback": True}, MarkedSegment("x", (), (), "eine Katze"), "eine Katze", True),
    ],
)
def test_a_text_is_compared_with_what_the_metric_reads(metric, options, item, text, of_source):
    batch = batch_of(metric, item, **options)
    assert batch.references.texts == (text,)
    assert batch.of_source.tolist() == [of_source]


def test_half_of_the_texts_meet_their_source_where_the_metric_reads_both():
    source = MarkedSource("marked", [], {}, mode="both")
    items = [MarkedSegment(f"text {number}", (), ("the cat",), "eine Katze") for number in range(200)]
    found = source.compared(items)
    assert found == source.compared(items)
    assert {(tuple(one), one.source) for one in found} == {(("the cat",), None), ((), "eine Katze")}
    assert 70 < sum(one.source is not None for one in found) < 130


def test_a_text_without_what_the_metric_reads_is_refused():
    with pytest.raises(NoReferenceError, match="Expected a source"):
        MarkedSource("marked", [], {}, mode="source").compared([MarkedSegment("x", (), ("the cat",))])


def test_a_tokenizer_that_does_not_know_its_places_is_refused(metric):
    with pytest.raises(InputError, match="Expected a tokenizer that gives the places of its tokens"):
        MarkedSource("m", [], {}).collate([BOTH], [0], 1, lambda texts: metric.tokenize(texts))


def test_errors_identify_an_item():
    source = MarkedSource("marked", [], {})
    items = [marked("a cat", *errors) for errors in ((), (ErrorSpan(0, 1),), (ErrorSpan(0, 1, "minor"),))]
    assert all(source.identity(one) != source.identity(two) for one, two in itertools.combinations(items, 2))
