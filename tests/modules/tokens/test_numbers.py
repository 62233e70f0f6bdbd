"""Numbers and dates are read by their value, and match equal ones alone."""

import pytest
import torch

from textmover import Scorer
from textmover.modules import MetricModel
from textmover.modules.error_spans.evidence import evidence
from textmover.modules.tokens.numbers import text_numbers
from textmover.types import TokenBatch

VALUES = [
    ("On Monday, 1,500 of two thousand left.", {"monday", "1500", "2000"}),
    ("1500 or 1.500,00", {"1500", "1.500,00"}),
    ("300 000 euros in 2010 300 times", {"300000", "2010", "300"}),
    ("0.50, .5, 0,5 and 007", {"0.5", "7"}),
    ("twenty-five twenty one ninety", {"25", "21", "90"}),
    ("two three, 20 five, 5 10", {"2", "3", "20", "5", "10"}),
    ("two hundred and fifty", {"250"}),
    ("one hundred and two hundred", {"100", "200"}),
    ("twelve hundred; three hundred thousand five; a thousand and six", {"1200", "300005", "1006"}),
    ("$2.5bn, 850 mln. and 1.2 billions", {"2500000000", "850000000", "1200000000"}),
    ("a million of several million, millions", {"1000000"}),
    ("one of them, 1 percent, 1%", set()),
    ("one hundred, one million", {"100", "1000000"}),
    ("5 February 2020, 2020-02-05, Feb 5", {"5", "2", "2020"}),
    ("He may march in January", set()),
    ("3 pm, 3 p.m., 15:00 or three in the afternoon", {"15:00"}),
    ("11 am, 11:00, eleven o'clock, eleven in the morning", {"11:00"}),
    ("6:30 pm and 9.30 pm, not 9.30", {"18:30", "21:30", "9.3"}),
    ("12 am to 12 pm, 1 pm", {"0:00", "12:00", "13:00"}),
    ("at 10: 18 a.m., 09:30", {"10:18", "9:30"}),
    ("10:30:15 in version 1.2.3 of 99:9", {"10:30:15", "1.2.3", "99", "9"}),
    ("25 o'clock", {"25:00"}),
    ("in the 1970s, the 70's, 10km of B52s", {"10"}),
    ("302.000 of 2.612.000 for 1.5, 1.234 and 0.500", {"302000", "2612000", "1.5", "1.234", "0.5"}),
    ("16 599,85 or 16,599.85", {"16599.85"}),
    ("$200k, £46.6m, €5m; 100m and 5 k", {"200000", "46600000", "5000000", "100", "5"}),
    ("four hundred and fifty thousand", {"450000"}),
    ("won 3:5 or 0: 0", {"3", "5", "0"}),
    ("\u0130stanbul Two ١٢", {"2", "12"}),
    ("9" * 30 + " 8" + "9" * 29 + " 1." + "0" * 27 + "1", {"9" * 30, "8" + "9" * 29, "1." + "0" * 27 + "1"}),
    ("a hundred hundred hundred; zero hundred", {"100", "0"}),
    ("1\u00a0500 or 2\u202f000\u2009000 in \u0663\u066b\u0665 or twenty\u2011five", {"1500", "2000000", "3.5", "25"}),
    ("\u0661\u0662:\u0663\u0660, ५:०५ am, \uff11\uff12:\uff13\uff10 pm", {"12:30", "5:05"}),
    ("20 in the morning, 15 pm, 8 am", {"20:00", "15:00", "8:00"}),
    ("1,00,000 of 12,34,56,789.5; 10,20,30 and 1,20,5", {"100000", "123456789.5", "10,20,30", "1,20,5"}),
    ("someone, bitten, sentence, decade", set()),
    ("", set()),
]


@pytest.mark.parametrize(("text", "values"), VALUES)
def test_numbers_are_read_by_value(text, values):
    found = list(text_numbers(text))
    assert {value for *_, value in found} == values
    assert all(0 <= start < end <= len(text) for start, end, _ in found)


@pytest.mark.parametrize(
    ("text", "values"), [("1" * 3_000 + "s", []), ("1" * 30_000 + ".1.1", ["1" * 30_000 + ".1.1"])]
)
def test_long_digits_are_read(text, values):
    assert [value for *_, value in text_numbers(text)] == values


REFERENCE = "The train leaves at 10 on Monday with 1,500 people."
SAME = [
    "The train leaves at 10 on Monday with 1500 people.",
    "The train leaves at ten on Monday with 1,500 people.",
    "On Monday, a train with fifteen hundred people leaves at 10.",
]
OTHER = [
    "The train leaves at 12 on Monday with 1,500 people.",
    "The train leaves at 10 on Tuesday with 1,500 people.",
    "The train leaves at 10 on Monday with 1,400 people.",
]


@pytest.fixture(scope="module")
def metrics(embedded_metric):
    return [embedded_metric("twmd", numbers=name) for name in ("similar", "equal")]


def scores(metric, hypotheses):
    return Scorer(metric).score(hypotheses, [REFERENCE] * len(hypotheses)).scores


def test_another_number_costs_more_than_another_notation(metrics):
    (same, other), (same_by_value, other_by_value) = (
        [scores(metric, texts) for texts in (SAME, OTHER)] for metric in metrics
    )
    assert (other > same).any()  # what the option is for
    assert (other_by_value < other - 0.02).all()
    assert (same_by_value[:2] > same[:2]).all()
    assert same_by_value[:2].min() > other_by_value.max()
    assert scores(metrics[1], [REFERENCE]) == pytest.approx(1)


def test_scores_do_not_depend_on_batch_mates_or_the_cache(metrics):
    texts = [*SAME, *OTHER, "No number here.", "\u2705 7", "7"]
    together = scores(metrics[1], texts)
    assert together == pytest.approx([scores(metrics[1], [text])[0] for text in texts], abs=1e-6)
    scorer = Scorer(metrics[1])
    for _ in range(2):  # features as computed, and as cached
        assert scorer.score(texts, [REFERENCE] * len(texts)).scores == pytest.approx(together, abs=1e-6)


def test_a_text_of_numbers_is_not_empty(metrics):
    result = Scorer(metrics[1]).score(["7", "8"], ["seven", "seven"])
    assert result.scores[0] > result.scores[1] + 0.3
    assert not result.counts.get("empty")


def test_numbers_train_and_move_with_their_batch(metrics):
    metric: MetricModel = metrics[1]
    hypotheses, references = (metric.tokenize(texts) for texts in (OTHER, [REFERENCE] * 3))
    plain = metric.tokenize(["No number here.", "Nor here."])
    assert plain.numbers is None
    joined = TokenBatch.concatenate([hypotheses, plain])
    assert joined.numbers.shape == joined.input_ids.shape
    assert not joined.numbers[3:].any()
    assert torch.equal(joined.select([1]).numbers[0], hypotheses.numbers[1][joined.select([1]).mask[0]])
    with torch.enable_grad():
        score = metric(hypotheses, references).score
        score.sum().backward()
    assert score.detach().tolist() == pytest.approx(scores(metric, OTHER).tolist(), abs=1e-5)
    assert all(weight.grad.isfinite().all() for weight in metric.parameters() if weight.grad is not None)
    metric.zero_grad()


def test_soft_tokens_have_the_numbers_of_their_likeliest_tokens(metrics):
    metric = metrics[1]
    hard = [metric.tokenize([text]) for text in (SAME[1], OTHER[0])]
    rows = [batch.input_ids[0, 1:-1] for batch in hard]
    width = metric.tokenizer.vocabulary_size
    soft = [metric.soft_tokens(torch.nn.functional.one_hot(row[None], width).float()) for row in rows]
    assert all(torch.equal(one.numbers, batch.numbers) for one, batch in zip(soft, hard, strict=True))
    with torch.inference_mode():
        found = [metric(one, metric.tokenize([REFERENCE])).score.item() for one in soft]
    assert found == pytest.approx(scores(metric, [SAME[1], OTHER[0]]).tolist(), abs=1e-5)


def test_marked_errors_see_numbers_as_they_were_trained(metrics):
    batches = [[metric.tokenize(texts) for texts in (OTHER, [REFERENCE] * 3)] for metric in metrics]
    with torch.inference_mode():
        seen = [evidence(*metric.pair_features(*batch), 0.1) for metric, batch in zip(metrics, batches, strict=True)]
    assert all(torch.equal(*pair) for pair in zip(*(one[:2] for one in seen), strict=True))
