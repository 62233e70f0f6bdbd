"""Error spans as a torchmetrics Metric: the figures of a set, however it is cut into updates and processes."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from textmover.meta_evaluation import judge_errors, span_f1
from textmover.metrics import ErrorSpanAgreement
from textmover.types import InputError
from textmover.types.error_spans import ErrorSpan, MarkedSegment, TextErrors

TEXT = "aa bb cc dd ee"
WORDS = tuple((3 * place, 3 * place + 2) for place in range(5))


def drawn(size: int = 40):
    """Gold and found errors, with probabilities that fall into steps of their own."""
    rng = np.random.default_rng(0)
    gold, found = [], []
    for _ in range(size):
        tags, probabilities = rng.random(5) < 0.3, rng.integers(1000, size=5) / 1000 + 0.0005
        marks = [
            tuple(ErrorSpan(*WORDS[place]) for place in np.flatnonzero(one).tolist())
            for one in (tags, probabilities > 0.6)
        ]
        gold.append(MarkedSegment(TEXT, marks[0], words=WORDS))
        found.append(TextErrors(TEXT, marks[1], WORDS, probabilities, np.zeros(6)))
    return gold, found


def same(found, expected):
    assert found.keys() == expected.keys()
    assert {name: float(one) for name, one in found.items()} == pytest.approx(expected, nan_ok=True)


def expected(gold, found):
    return {name: one.estimate for name, one in judge_errors(gold, found, samples=0).figures.items()}


def test_updates_in_parts_give_the_figures_of_the_whole():
    gold, found = drawn()
    metric = ErrorSpanAgreement()
    for part in (slice(0, 1), slice(1, 30), slice(30, 30), slice(30, None)):
        metric.update(found[part], gold[part])
    same(metric.compute(), expected(gold, found))
    metric.reset()
    metric.update(found[:5], gold[:5])
    same(metric.compute(), expected(gold[:5], found[:5]))


def test_a_batch_has_its_own_value():
    gold, found = drawn()
    metric = ErrorSpanAgreement()
    same(metric(found[:20], gold[:20]), expected(gold[:20], found[:20]))
    same(metric(found[20:], gold[20:]), expected(gold[20:], found[20:]))
    same(metric.compute(), expected(gold, found))


def test_states_of_processes_are_summed():
    gold, found = drawn()
    parts = []
    for part in (slice(0, 15), slice(15, None)):
        metric = ErrorSpanAgreement()
        metric.update(found[part], gold[part])
        parts.append(pickle.loads(pickle.dumps(metric)))
    merged = copy.deepcopy(parts[0])
    merged.merge_state(parts[1])
    same(merged.compute(), expected(gold, found))
    # What torchmetrics does between processes: gather each state, then reduce.
    gathered = iter([[one.sums for one in parts], [one.histogram for one in parts]])
    synced = ErrorSpanAgreement(dist_sync_fn=lambda *_, **__: next(gathered), distributed_available_fn=lambda: True)
    synced.update(found[:15], gold[:15])
    same(synced.compute(), expected(gold, found))


def test_spans_alone_have_no_calibration():
    gold, found = drawn()
    metric = ErrorSpanAgreement()
    metric.update([list(one) for one in found], gold)
    value = metric.compute()
    assert torch.isnan(value.pop("ece"))
    same(value, {name: one for name, one in expected(gold, found).items() if name != "ece"})


def test_sums_keep_their_digits_in_a_module_of_half_precision():
    module = torch.nn.ModuleList([ErrorSpanAgreement()]).half()
    assert module[0].sums.dtype == module[0].histogram.dtype == torch.float64
    gold, found = drawn()
    module[0].update(found, gold)
    same(module[0].compute(), expected(gold, found))


def test_beside_others_and_before_the_first_update():
    both = MetricCollection({"fine": ErrorSpanAgreement(), "coarse": ErrorSpanAgreement(bins=2)})
    gold, found = drawn()
    both.update(found, gold)
    values = both.compute()
    fine, coarse = (judge_errors(gold, found, samples=0, bins=bins).figures["ece"].estimate for bins in (10, 2))
    assert (float(values["fine_ece"]), float(values["coarse_ece"])) == pytest.approx((fine, coarse))
    metric = ErrorSpanAgreement()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert all(torch.isnan(one) for one in metric.compute().values())


def test_bad_input():
    gold, found = drawn(2)
    with pytest.raises(InputError, match="at least one bin, but got 0"):
        ErrorSpanAgreement(bins=0)
    metric = ErrorSpanAgreement()
    with pytest.raises(InputError, match="errors of 2 texts, but got those of 1"):
        metric.update(found[:1], gold)
    with pytest.raises(InputError, match="within the 14 characters of text 0"):
        metric.update([[ErrorSpan(0, 99)]], gold[:1])
    for spans, places in {((3, 5), (0, 4)): "0 to 4 and 3 to 5", ((2, 2), (2, 2)): "2 to 2 and 2 to 2"}.items():
        with pytest.raises(InputError, match=f"do not overlap in text 1 .counted from 0., but got {places}: merge"):
            metric.update([found[0], [ErrorSpan(*one) for one in spans]], gold)
    for spans, said in (
        ([(2, 5)], "text 1 .counted from 0. to be an ErrorSpan, but got .2, 5.: write"),
        (None, "list of ErrorSpan for text 1 .counted from 0., but got a MarkedSegment and a NoneType"),
    ):
        for judge in (metric.update, lambda *given: judge_errors(*given[::-1]), lambda *given: span_f1(*given[::-1])):
            with pytest.raises(TypeError, match=said):
                judge([found[0], spans], gold)
    with pytest.raises(TypeError, match=r"text 0 .* to be an ErrorSpan, but got \{'start': 2\}"):
        metric.update(found[:1], [MarkedSegment(TEXT, ({"start": 2},), words=WORDS)])
    with pytest.raises(TypeError, match="but got a str and a TextErrors"):
        metric.update(found[:1], [TEXT])
    metric.update([[ErrorSpan(0, 2), ErrorSpan(2, 2), ErrorSpan(2, 3)], []], gold)  # they touch
