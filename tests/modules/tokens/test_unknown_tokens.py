"""Tokens that the vocabulary lacks: they match their like alone, are counted and told, and change nothing else."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from textmover.metrics import TextMoverBERTScore
from textmover.modules.tokens.unknown_tokens import separate_unknown, surface_number
from textmover.presets import PRESETS
from textmover.report.explanation.parts import flag_notes
from textmover.scoring import Scorer
from textmover.types import TokenBatch

TRANSPORT = [name for name, one in PRESETS.items() if one.config.kind == "transport"]
KNOWN = [
    ("the small dog ran home", "a little dog runs home at night"),
    ("she will buy a book", "she will not sell the book today"),
    ("go home", "go home"),
]
SAME = [("tea ✅", "tea ✅"), ("the dog ✅ ran ❌", "the dog ✅ ran ❌")]
OTHERS = [("the test went well : ✅", "the test went well : ❌"), ("book 龘 day", "book 靐 day")]
NOTHING_KNOWN = [
    ("สวัสดี", "ลาก่อน"),
    ("✅", "the dog ran"),
    ("✅ ❌", "❌ ✅ ✅"),
    ("✅", "✅"),
    ("สวัสดี ครับ", "สวัสดี ครับ"),
]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def build(tiny_preset):
    return lambda preset, **fields: tiny_preset(preset, [text for pair in KNOWN for text in pair], **fields)


def scored(metric, pairs):
    return Scorer(metric).score([one for one, _ in pairs], [other for _, other in pairs])


def best(metric):
    return max(metric.range) if metric.higher_is_better else min(metric.range)


@pytest.mark.parametrize("preset", TRANSPORT)
def test_they_match_their_like_alone(build, preset):
    metric = build(preset)
    found = scored(metric, [*SAME, *OTHERS, *NOTHING_KNOWN])
    same, others, nothing = np.split(found.scores, [len(SAME), len(SAME) + len(OTHERS)])
    bound = 0.02 if "lazy" in preset else 2e-6
    assert same.tolist() == pytest.approx([best(metric)] * len(same), abs=bound)
    assert (abs(others - best(metric)) > 0.015).all()
    assert nothing.tolist() == pytest.approx([metric.matching.nothing] * len(nothing))
    assert found.counts["unknown"] == len(found.scores)
    assert found.counts["empty"] == len(NOTHING_KNOWN)


@pytest.mark.parametrize("preset", ["twmd", "bertscore-f1-idf", "wmd", "moverscore-wmd2", "lazy-emd-en", "sbert"])
def test_scores_do_not_depend_on_batch_mates_and_known_texts_are_the_same_to_the_bit(build, preset):
    metric = build(preset)
    pairs = [*KNOWN, *OTHERS, *NOTHING_KNOWN, *SAME]
    together, alone = scored(metric, pairs).scores, [scored(metric, [pair]).scores[0] for pair in pairs]
    assert together.tolist() == pytest.approx(alone, abs=1e-6)
    known, alike = (scored(one, KNOWN) for one in (metric, build(preset, unknown_tokens="alike")))
    assert known.scores.tolist() == alike.scores.tolist()
    assert known.counts == {}


@pytest.mark.parametrize(
    ("preset", "expected"), [("bertscore-f1", 4 / 5), ("wmd", 4 / 5), ("rwmd", 4 / 5), ("sbert", None)]
)
def test_an_unknown_token_has_the_similarity_of_orthogonal_ones(build, preset, expected):
    special = {"hypothesis_special_tokens": "drop", "reference_special_tokens": "drop"}
    pair = [("the dog run : ✅", "the dog run : ❌")]
    metric = build(preset, **special)
    if expected is None:  # the same by hand: the mean of all cosines, with the last token apart
        batch = metric.tokenize(list(pair[0]))
        vectors = metric.text_features(replace(batch, unknown=None)).vectors[:, batch.special[0] == 0].detach().double()
        cosines = torch.block_diag(vectors[0, :-1] @ vectors[1, :-1].T, torch.zeros(1, 1))
        own = torch.block_diag(vectors[0, :-1] @ vectors[0, :-1].T, torch.ones(1, 1))
        expected = float(cosines.mean() / own.mean())
    assert scored(metric, pair).scores[0] == pytest.approx(expected, abs=1e-6)
    assert scored(build(preset, unknown_tokens="alike", **special), pair).scores[0] == pytest.approx(1, abs=1e-6)


def test_the_signature_tells_of_tokens_that_are_alike(build):
    assert build("twmd", unknown_tokens="alike").signature.entries["unknown_tokens"] == "alike"
    assert "unknown_tokens" not in build("twmd").signature.entries


def test_they_weigh_as_what_no_document_holds(build):
    metric = build("bertscore-f1-idf")
    tokens = metric.text_features(metric.tokenize(["the dog ✅"]))
    weights = metric.weighting(tokens, "reference").weights[0]
    table = metric.weighting.table("reference")
    raw = [float(table(tokens.input_ids)[0, 1]), float(table(tokens.input_ids)[0, 2]), float(np.log(7))]
    assert weights[1:4].tolist() == pytest.approx((np.array(raw) / sum(raw)).tolist())


@pytest.mark.parametrize("preset", ["twmd", "moverscore-wmd2", "moverscore-v2", "lazy-emd-en", "bertscore-f1-idf"])
def test_they_train(build, preset):
    metric = build(preset).train()
    sides = [metric.tokenize(list(side)) for side in zip(*SAME, *OTHERS, *NOTHING_KNOWN, *KNOWN, strict=True)]
    metric(*sides).score.sum().backward()
    slopes = [one.grad for one in metric.parameters() if one.grad is not None]
    assert slopes
    assert all(bool(one.isfinite().all()) for one in slopes)
    expected = scored(build(preset), [*SAME, *OTHERS, *NOTHING_KNOWN, *KNOWN]).scores
    metric.eval()
    assert metric(*sides).score.tolist() == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        {"long_texts": "window", "max_length": 6},
        {"centering": "batch"},
        {"centering": "sentence"},
        {"multi_reference": "all"},
        {"dtype": "bfloat16"},
    ],
    ids=str,
)
def test_however_texts_are_read(build, fields):
    metric = build("twmd", **fields)
    found = scored(metric, [*OTHERS, *SAME])
    assert (found.scores[: len(OTHERS)] < 0.97).all()
    assert found.scores[len(OTHERS) :].tolist() == pytest.approx([1] * len(SAME), abs=1e-6)
    assert found.counts["unknown"] == len(found.scores)


def test_several_references_as_one_text(build):
    scorer = Scorer(build("bertscore-r", multi_reference="all"))
    with_it, without = scorer.score(["tea ✅"] * 2, [["the tea", "✅"], ["the tea", "❌"]]).scores
    assert with_it > without + 0.1


def test_candidates_are_counted(build):
    found = Scorer(build("twmd")).mbr([["tea ✅", "tea ❌"], ["the dog", "a dog"]])
    assert found.counts == {"unknown": 1, "few candidates": 2}


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_the_tokenizer_tells_them_apart(tiny_metric):
    tokenizer = tiny_metric().tokenizer
    batch = tokenizer(["a ΣΦ ✅ dog", "σφ [UNK]", "a dog"])
    numbers = [surface_number(one) for one in ("σφ", "✅", "[unk]")]
    assert batch.unknown.tolist() == [
        [0, 0, numbers[0], numbers[1], 0, 0],
        [0, numbers[0], numbers[2], 0, 0, 0],
        [0] * 6,
    ]
    assert batch.unknown_words == (("ΣΦ", "✅"), ("σφ", "[UNK]"), ())
    known = tokenizer(["a dog"])
    assert known.unknown is None
    assert known.unknown_words is None
    joined = TokenBatch.concatenate([known, batch])
    assert torch.equal(joined.unknown[1:], batch.unknown)
    assert joined.unknown_words == ((), *batch.unknown_words)
    assert joined.select([2, 0]).unknown_words == (("σφ", "[UNK]"), ())
    assert TokenBatch.concatenate([known, known]).unknown is None


def test_texts_of_a_batch_with_unknown_tokens_that_have_none_are_matched_as_they_are(tiny_metric):
    metric = tiny_metric()
    batch = metric.tokenize(["the dog", "tea ✅", "a dog"])
    sides = [metric.text_features(batch.select(rows)) for rows in ([0], [1], [2])]
    assert separate_unknown(sides[0], sides[2])[0] is sides[0]
    assert separate_unknown(sides[0], sides[1])[1].vectors.shape[-1] == sides[1].vectors.shape[-1] + 1


def test_a_tokenizer_that_does_not_know_where_tokens_stand_matches_equal_texts(build):
    metric = build("bertscore-f1")
    metric.tokenizer._rust = metric.tokenizer._words = None
    same, other = scored(metric, [("tea ✅", "tea ✅"), ("tea ✅", "tea ❌")]).scores
    assert same == pytest.approx(1, abs=1e-6)
    assert other < 0.97


# --- doors ------------------------------------------------------------------------------------------------------------


def test_a_warning_names_some_and_the_way_out_once(build, caplog):
    scorer = Scorer(build("twmd"))
    with caplog.at_level(logging.WARNING):
        scorer.score(["tea ✅", "tea"], ["tea ❌", "tea"])
        scorer.score(["day ✅"], ["day"])
    (told,) = [record.message for record in caplog.records if "unknown" in record.message]
    start = "1 segment had a text with more than a tenth of its tokens unknown to the encoder, such as '✅', '❌': "
    assert told.startswith(start)
    assert "for symbols use `--model twmd --encoder roberta-base`" in told


@pytest.mark.parametrize("idf", [False, True])
def test_the_torchmetrics_class(tiny_encoder, idf, caplog):
    def found(**options):
        metric = TextMoverBERTScore(str(tiny_encoder), idf=idf, device="cpu", backend="torch", **options)
        metric.update(*map(list, zip(*OTHERS, *SAME, *NOTHING_KNOWN, *KNOWN, strict=True)))
        return metric.compute()["f1"].tolist()

    values = found()
    assert max(values[: len(OTHERS)]) < 0.97
    assert values[len(OTHERS) : len(OTHERS) + len(SAME)] == pytest.approx([1] * len(SAME), abs=1e-6)
    assert values[len(OTHERS) + len(SAME) : -len(KNOWN)] == [0] * len(NOTHING_KNOWN)
    alike = found(unknown_tokens="alike")
    assert min(alike[: len(OTHERS)]) == pytest.approx(1, abs=1e-6)
    assert any("unknown to the encoder" in record.message for record in caplog.records)


def test_an_explanation_shows_them(build):
    found = Scorer(build("twmd")).explain("tea went ✅", "tea went ❌")
    assert found.flags == ("unknown",)
    assert found.to_dict()["unknown_words"] == ["✅", "❌"]
    assert flag_notes(found)[-1].endswith("matched only with the same spelling: ✅, ❌")
    place = found.hypothesis.words.index("✅"), found.reference.words.index("❌")
    assert place[0] in found.unmatched_hypothesis
    assert place[1] in found.unmatched_reference
    assert found.similarity[place[1]].max() == 0
    assert found.score == pytest.approx(scored(build("twmd"), [("tea went ✅", "tea went ❌")]).scores[0])
