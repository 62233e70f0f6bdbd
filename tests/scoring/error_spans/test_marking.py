"""Scorer.errors: the same spans whatever stands around them, and clear refusals."""

import csv
import itertools
import random
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from textmover import MetricConfig, MetricModel, Scorer
from textmover.explaining.word_matches import words_of_texts
from textmover.modules.error_spans.head import ErrorLogits
from textmover.rome import RomeConfig, RomeMetric
from textmover.scoring.error_spans import marking
from textmover.scoring.error_spans.spans import whole_words, word_overlap_errors
from textmover.types import ErrorSpan, InputError
from textmover.types.word_splitting import text_words

ROOT = Path(__file__).resolve().parents[3]

PAIRS = [
    ("the small dog went to the street", "the small dog went to the house"),
    ("she bought bread", "she bought bread and milk yesterday evening"),
    ("a cat", "a cat"),
    ("", "a cat"),
    ("rain", ""),
    ("yes, he will walk!", "no, he will not walk!"),
]


@pytest.fixture(scope="module")
def scorer(tiny_encoder) -> Scorer:
    return Scorer(MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder), layer=0)).eval())


@pytest.fixture(scope="module")
def general(embedded) -> Scorer:
    return Scorer.from_pretrained("textmover-general", backend="torch")


def test_a_text_is_marked_alike_in_any_company(scorer):
    together = scorer.errors([one for one, _ in PAIRS], [other for _, other in PAIRS])
    for (hypothesis, reference), found in zip(PAIRS, together, strict=True):
        (alone,) = scorer.errors([hypothesis], [reference])
        assert [replace(one, confidence=1) for one in alone] == [replace(one, confidence=1) for one in found]
        assert alone.words == found.words
        # Similarities keep to 1e-7; the rule divides them by its temperature.
        assert alone.word_probabilities == pytest.approx(found.word_probabilities, abs=1e-5)
        assert alone.gap_probabilities == pytest.approx(found.gap_probabilities, abs=1e-5)


def test_wrong_words_are_marked_and_equal_texts_are_not(scorer):
    found = scorer.errors([one for one, _ in PAIRS], [other for _, other in PAIRS])
    assert found[0].marked() == "the small dog went to the [street]"
    assert [len(found[2]), found[3].flags, found[4].flags] == [0, ("empty",), ("empty",)]
    assert found[3].spans == (ErrorSpan(0, 0, "critical", 1.0),), "all words are missing"
    assert [one.text[span.start : span.end] for one in found[4:5] for span in one] == ["rain"], "no partner at all"
    assert found.counts == {"empty": 2}
    assert str(found.signature).endswith("errors:rule-T0.02")


@pytest.mark.parametrize(
    ("text", "wrong", "marked"),
    [
        *(
            (f"a {one} b", part, f"a [{one}] b")
            for one in ("1,200", "3.14", "12:30", "1/2")
            for part in re.findall(r"\d+", one)
        ),
        ("on 2024-05-01.", "05", "on [2024-05-01]."),
        ("state-of-the-art", "art", "[state-of-the-art]"),
        ("J.J, snake_case", "snake", "J.J, [snake_case]"),
        ("I don't", "don t", "I [don't]"),
        ("I don’t", "don t", "I [don’t]"),
        ("the dog's 'tail'", "dog", "the [dog]'s 'tail'"),
        ("rain and/or 3.5€", "rain or", "[rain] and/[or] 3.5€"),
    ],
)
def test_a_word_of_several_parts_is_one_error(scorer, monkeypatch, text, wrong, marked):
    """The runs of letters and digits that stand in ``wrong`` are wrong."""
    offsets = scorer.metric.tokenizer.offsets([text])[0].tolist()
    parts = [found.span() for found in re.finditer(r"[^\W_]+", text) if found[0] in wrong.split()]
    tags = torch.tensor([[any(a <= start < end <= b for a, b in parts) for start, end in offsets]])
    between = torch.ones(1, len(offsets) + 1, dtype=torch.bool)
    logits = ErrorLogits(20.0 * tags - 10, between * -10.0, tags | True, between, tags & False)
    monkeypatch.setattr(marking, "error_logits", lambda *_: logits)
    (found,) = scorer.errors([text], ["a"])
    assert found.marked() == marked
    assert {one.confidence for one in found} == {found.word_probabilities.max()}
    assert len(found.gap_probabilities) == len(found.words) + 1


CHANGES = {
    "space behind": lambda text: f"{text} \n ",
    "space before": lambda text: f"  {text}",
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
}
WRITTEN = ["the café sold tea 😀 to me", "a naïve man read 书 at night", "👩‍👩‍👧 went home", "résumé, in the garden"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("text", WRITTEN)
def test_spans_name_the_same_words_however_a_text_is_written(scorer, text, change):
    reference = "the dog sold bread at night"
    plain, changed = (scorer.errors([one], [reference])[0] for one in (text, change(text)))
    words = [[unicodedata.normalize("NFC", one.text[a:b]) for a, b in one.words] for one in (plain, changed)]
    assert words[0] == words[1]
    assert named(plain) == named(changed)
    assert "".join(words[0]) == "".join(text.split()), "every character but white space is of a word"


def test_of_several_references_the_closest_counts(scorer):
    hypothesis, near, far = "the dog went home", "the dog went home", "a red tree stood by the river"
    several, alone, other = scorer.errors([hypothesis] * 3, [[far, near], near, far])
    assert several.word_probabilities == pytest.approx(alone.word_probabilities, abs=1e-5)
    assert other.word_probabilities.sum() > alone.word_probabilities.sum()


def test_a_source_counts_where_there_is_no_reference(tiny_multilingual, caplog):
    metrics = {
        mode: Scorer(MetricModel.from_config(MetricConfig(encoder=str(tiny_multilingual), layer=0, **fields)).eval())
        for mode, fields in {
            "reference": {},
            "source": {"mode": "source"},
            "both": {"mode": "both", "fallback": True},
        }.items()
    }
    hypothesis, reference, source = "the dog went home", "the dog ran home", "the cat went home"
    by_reference = metrics["reference"].errors([hypothesis], [reference])[0].word_probabilities
    by_source = metrics["source"].errors([hypothesis], sources=[source])[0].word_probabilities
    both = metrics["both"].errors([hypothesis, hypothesis], [[reference], []], [source, source])
    assert by_reference != pytest.approx(by_source, abs=1e-3)
    assert both[0].word_probabilities == pytest.approx(by_reference, abs=1e-5)
    assert both[1].word_probabilities == pytest.approx(by_source, abs=1e-5)
    # The source is English, too.
    assert [set(one.flags) for one in both] == [{"untranslated"}, {"untranslated", "unreferenced"}]
    metrics["source"].errors([hypothesis], sources=[source])
    said = [one.getMessage() for one in caplog.records if "source alone" in one.getMessage()]
    assert len(said) == 2, "once for each of the two scorers"
    assert said[0].endswith("source alone: such marks are unreliable (MLQE-PE: MCC .25 of words, .10 of gaps).")


@pytest.mark.parametrize("text", ["", " \n ", "\u200b"])
def test_a_text_without_words_lacks_those_that_it_is_compared_with(scorer, text):
    others = [["a cat"], [""], [" "], ["\u200b"], ["a cat", ""], ["?!"]]
    found = scorer.errors([text] * len(others), others)
    assert [one.marked() for one in found] == [f"[]{text}", *[text] * 3, *[f"[]{text}"] * 2]
    assert {one.flags for one in found} == {("empty",)}
    assert [len(one.gap_probabilities) for one in found] == [1] * len(others)


@pytest.mark.parametrize("text", ["?!", "\U0001f600"])
def test_punctuation_and_emoji_are_words(scorer, text):
    wrong, right, alone = scorer.errors([text] * 3, ["a cat", text, ""])
    assert right.spans == ()
    assert ["empty" in one.flags for one in (wrong, right, alone)] == [text == "?!", text == "?!", True]
    assert wrong.words == right.words == tuple((place, place + 1) for place in range(len(text)))
    assert alone.marked() == f"[{text}]"


def test_what_cannot_be_marked_is_refused(scorer, tiny_encoder):
    for sides, said in (((["a", "b"], ["a"]), "Expected"), ((["a"], ["a"], ["b"]), "reads sources")):
        with pytest.raises(InputError, match=said):
            scorer.errors(*sides)
    config = RomeConfig(encoder=str(tiny_encoder), parser="none", features=("semantic",))
    with pytest.raises(InputError, match="Expected a transport metric to mark errors, but got a RomeMetric"):
        Scorer(RomeMetric.from_config(config).eval()).errors(["a"], ["b"])
    fresh = Scorer(MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder), mark_errors=True)).eval())
    with pytest.raises(InputError, match="a head that learned to mark errors, but got a new one"):
        fresh.errors(["a"], ["b"])


@pytest.mark.parametrize(
    "backend",
    [pytest.param("openvino", marks=pytest.mark.slow), pytest.param("onnxruntime", marks=pytest.mark.long)],
)
def test_every_back_end_marks_the_same_errors(backend, general, real_backends):
    """By the head of the default metric, on news and everyday sentences."""
    pairs = [
        ("He paid 40 euros for the ticket.", "He paid 45 euros for the ticket."),
        ("The minister resigned on Monday after the vote.", "The minister resigned on Tuesday after the vote."),
        ("Anna met Peter in Rome.", "Peter met Anna in Rome."),
        ("They did not sign the treaty.", "They signed the treaty."),
        ("The film was long.", "The film was long, but nobody left."),
        (
            "\U0001f469\u200d\U0001f469\u200d\U0001f467 paid 1,200 \u20ac at the cafe\u0301.",
            "They paid 1,300 \u20ac at the bar.",
        ),
        ("", "It is raining."),
        ("It is raining again today in Berlin.", "It is raining again today in Berlin."),
    ]
    texts = [one for one, _ in pairs], [other for _, other in pairs]
    wanted = general.errors(*texts)
    found = Scorer.from_pretrained("textmover-general", backend=backend).errors(*texts)
    places = [[(span.start, span.end, span.severity) for span in one] for one in wanted]
    assert [[(span.start, span.end, span.severity) for span in one] for one in found] == places
    assert [len(one) > 0 for one in places] == [True] * 7 + [False]
    for one, other in zip(wanted, found, strict=True):
        assert one.word_probabilities == pytest.approx(other.word_probabilities, abs=1e-3)


SENTENCES = (
    "The minister resigned on Monday after the vote.",
    "Nobody had expected that the talks would fail so soon.",
    "A new government is to be formed by the end of the month.",
)


def test_a_sentence_that_stands_twice_or_is_missing_is_one_error(general):
    """Of the default metric: the second copy, and the place where words are missing."""
    one, two, three = SENTENCES
    texts = [" ".join((one, two, two, three)), f"{one} {three}"]
    twice, lost = general.errors(texts, [" ".join(SENTENCES)] * 2)
    assert twice.marked() == f"{one} {two} [{two}] {three}"
    assert lost.marked().replace("[]", "") == texts[1]
    assert [len(one) - 1 <= span.start <= len(one) for span in lost] == [True]


def test_other_spellings_are_marked_as_often_as_the_limits_say(general):
    """Of the default metric; a new release is measured anew, with the table that the page names."""
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    said = re.search(r"Of (\d+) other spellings \(`(\S+)`\), `textmover-general` marks (\d+), (\d+) as critical", page)
    with (ROOT / said[2]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row["hypothesis"] for row in rows], [row["reference"] for row in rows]
    found = general.errors(*texts)
    critical = sum(any(one.severity == "critical" for one in text) for text in found)
    assert [len(rows), sum(len(text) > 0 for text in found), critical] == [int(said[one]) for one in (1, 3, 4)]


PIECES = (
    "dog", "the", "Café", "na\u00efve", "e\u0301te\u0301", "1,200", "don't",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f",
    "我爱", "书", "น้ำส้ม", "ខ្ញុំ", "\u0915\u094d\u0937", "a\u0323\u0302", "?!", "(x)", "\U0001f1e9\U0001f1ea", "\u0301",
)  # fmt: skip


def random_text(rng: random.Random) -> str:
    """Pieces of several scripts with and without white space between them."""
    return "".join(rng.choice(PIECES) + rng.choice((" ", "\t", "", "  ", "\n")) for _ in range(rng.randint(0, 8)))


def named(found, form: str = "NFC") -> list[tuple[str, str]]:
    """Words and severities of the errors in a normal form."""
    return [(unicodedata.normalize(form, found.text[one.start : one.end]), one.severity) for one in found]


THAI = "เขาดื่มน้ำส้มทุกวันก่อนไปทำงานที่โรงพยาบาล"


def test_words_of_scripts_without_spaces_are_pieces_that_keep_letters_whole(scorer, monkeypatch):
    """However an encoder cuts the text, pieces are joined only where one begins within a letter."""
    rng, letters = random.Random(0), text_words(THAI)
    ends = {end for _, end in letters}
    for _ in range(50):
        cuts = sorted(rng.sample(range(1, len(THAI)), rng.randint(1, 20)))
        places = torch.tensor([list(itertools.pairwise([0, *cuts, len(THAI)]))])
        monkeypatch.setattr(scorer.metric.tokenizer, "offsets", lambda texts, places=places: places)
        lengths = torch.tensor([places.shape[1]])
        batch = SimpleNamespace(lengths=lengths, special=torch.zeros(1, int(lengths)))
        (found,) = words_of_texts(scorer.metric, batch, [THAI])
        assert "".join(found.words) == THAI
        assert [end for _, end in found.spans[:-1]] == sorted(ends & set(cuts))
        assert whole_words(THAI, found.spans)[0] == found.spans


def test_a_wrong_character_of_a_text_without_spaces_is_one_error():
    (found,) = word_overlap_errors([THAI.replace("ส้ม", "ส้น")], [[THAI]])
    assert found.marked() == THAI.replace("ส้ม", "ส้[น]")
    (found,) = word_overlap_errors([THAI.replace("น้ำ", "น้า")], [[THAI]])
    assert [found.text[one.start : one.end] for one in found] == ["น้า"]


def test_places_of_random_texts_are_right(scorer):
    rng = random.Random(0)
    texts, others = ([random_text(rng) for _ in range(60)] for _ in range(2))
    found = scorer.errors(texts, others)
    for text, one in zip(texts, found, strict=True):
        assert one.text == text
        assert all(0 <= start < end <= len(text) and not text[start:end].isspace() for start, end in one.words)
        assert all(a <= b for a, b in itertools.pairwise(itertools.chain.from_iterable(one.words)))
        assert all(a.end <= b.start and a != b for a, b in itertools.pairwise(one))
        edges = {0, *itertools.chain.from_iterable(one.words)}
        assert {place for span in one for place in (span.start, span.end)} <= edges
    padded = scorer.errors([f"{one} \t\n" for one in texts], others)
    shuffled = scorer.errors(texts[::-1], others[::-1])[::-1]
    for one, behind, mates in zip(found, padded, shuffled, strict=True):
        assert [(a.start, a.end, a.severity) for a in behind] == [(a.start, a.end, a.severity) for a in one]
        assert [(a.start, a.end, a.severity) for a in mates] == [(a.start, a.end, a.severity) for a in one]
    forms = [scorer.errors([unicodedata.normalize(form, one) for one in texts], others) for form in ("NFC", "NFD")]
    for composed, decomposed in zip(*forms, strict=True):
        assert named(composed) == named(decomposed)
