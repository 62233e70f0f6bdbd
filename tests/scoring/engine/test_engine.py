"""Scores do not depend on batches, order, or what is kept; whatever is out of the ordinary is counted."""

import contextlib
import csv
import logging
import math
import pickle
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from textmover.modules.encoder.encoder import Encoder
from textmover.scoring.backends.torch_runners import CompiledRunner
from textmover.scoring.engine.engine import Engine
from textmover.scoring.engine.pair_results import PairTable
from textmover.types import InputError, PairScores, Signature, TokenBatch

RATINGS = Path(__file__).resolve().parents[3] / "examples" / "quickstart" / "ratings.tsv"
VALUES = ("score", "precision", "recall", "f")

INVARIANT = ("twmd", "twmd-b", "bertscore-f1", "trwmd", "wmd", "lazy-emd-en", "moverscore-wmd2")
"""Presets whose scores may not depend on their batch mates, one of each kind of matching and weighting."""

HYPOTHESES = ["the small dog ran to the old house in the evening", "she will buy a book", "tea", "go home"] * 3
REFERENCES = [
    [text] for text in ("a little dog runs home at night", "she sold it", "a cold drink of water", "go home")
] * 3


def made_pairs(count: int) -> tuple[list[str], list[list[str]]]:
    """Pairs of a sentence or two a side, most of them about the same."""
    with RATINGS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    generator = random.Random(0)
    hypotheses, references = [], []
    for _ in range(count):
        chosen = generator.sample(rows, generator.choice((1,) * 9 + (2,)))
        hypotheses.append(" ".join(row["hypothesis"] for row in chosen))
        references.append([" ".join(row["reference"] for row in chosen[: generator.choice((1, len(chosen)))])])
    return hypotheses, references


def difference(one, other, order=None) -> float:
    order = slice(None) if order is None else order
    return max(float(np.abs(one.values[name][order] - other.values[name]).max()) for name in other.values)


def logged(found, log):
    """A method or a property that logs its use."""
    if isinstance(found, property):
        return property(lambda self: (log(), found.fget(self))[1])
    return lambda self, *arguments: (log(), found(self, *arguments))[1]


class FixedBatches(Engine):
    """Reads a given number of texts, and of pairs, at a time."""

    def __init__(self, metric, size: int) -> None:
        super().__init__(metric, cache=False)
        self.size = size

    def score(self, *given):
        def batches(count):
            return (list(range(start, min(start + self.size, count))) for start in range(0, count, self.size))

        def token_batches(tokenize, texts, _):
            return ((rows, tokenize([texts[row] for row in rows])) for rows in batches(len(texts)))

        with (
            patch("textmover.scoring.engine.text_features.token_batches", token_batches),
            patch("textmover.scoring.engine.engine.pair_batches", lambda lengths, *_: batches(len(lengths))),
        ):
            return super().score(*given)


ENCODED: dict[tuple[object, ...], list[torch.Tensor]] = {}


@pytest.fixture
def batches_encoded_once(monkeypatch):
    """Each batch is encoded once for all presets that read the same layers; another batch is encoded again."""
    encode = Encoder.encode

    def remembered(self, batch):
        key = (self.computed, tuple(batch.mask.shape), batch.input_ids.numpy().tobytes(), batch.mask.numpy().tobytes())
        if key not in ENCODED:
            ENCODED[key] = encode(self, batch)
        return ENCODED[key]

    monkeypatch.setattr(Encoder, "encode", remembered)


# --- invariance -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_thread", "batches_encoded_once")
@pytest.mark.parametrize(
    ("preset", "count"),
    [
        *((preset, 20) for preset in INVARIANT[:-2]),
        *(pytest.param(preset, 20, marks=pytest.mark.long) for preset in INVARIANT[-2:]),
        *(pytest.param(preset, 500, marks=pytest.mark.long) for preset in INVARIANT),
    ],
)
def test_pairs_score_the_same_in_any_batches_and_order(embedded_metric, preset, count):
    metric = embedded_metric(preset)
    hypotheses, references = made_pairs(count)
    if metric.needs_fit:
        metric.fit(hypotheses[:96])
    usual = Engine(metric, cache=False).score(hypotheses, references)
    assert usual.values["score"].std() > (0.01 if "lazy" in preset else 0.03)

    worst = {
        f"batches of {size}": difference(usual, FixedBatches(metric, size).score(hypotheses, references))
        for size in (1, 7, 64)
    }
    order = random.Random(1).sample(range(count), count)
    shuffled = Engine(metric, batch_tokens=900).score([hypotheses[i] for i in order], [references[i] for i in order])
    worst["shuffled"] = difference(usual, shuffled, order)
    engine = Engine(metric, cache=False)
    alone = [engine.score([hypotheses[i]], [references[i]]).values["score"][0] for i in range(0, count, 10)]
    worst["one by one"] = float(np.abs(usual.values["score"][::10] - alone).max())
    assert max(worst.values()) <= 1e-6, worst


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_windows_are_joined_in_order(tiny_metric, monkeypatch, size):
    metric = tiny_metric()
    usual = Engine(metric).score(HYPOTHESES[:size], REFERENCES[:size])
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 2)
    done = []
    found = Engine(metric).score(HYPOTHESES[:size], REFERENCES[:size], done.append)
    assert sum(done) == size
    assert found.values["score"].dtype == np.float64
    assert len(found.values["score"]) == size
    assert difference(usual, found) <= 1e-6


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(0, ["read", "values"] * 3), (1, ["read", "read", "values", "read", "values", "values"])],
)
def test_a_window_is_handed_over_before_the_values_of_the_last_are_waited_for(
    tiny_metric, monkeypatch, ahead, expected
):
    usual = Engine(tiny_metric()).score(HYPOTHESES[:6], REFERENCES[:6])
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 2)
    engine, events = Engine(tiny_metric(), cache=False), []
    for owner, name, event in ((Engine, "_text_table", "read"), (PairTable, "values", "values")):
        monkeypatch.setattr(owner, name, logged(getattr(owner, name), lambda event=event: events.append(event)))
    monkeypatch.setattr(Engine, "_pending_windows", ahead)
    found = engine.score(HYPOTHESES[:6], REFERENCES[:6])
    assert events == expected
    assert difference(usual, found) <= 1e-6


@pytest.mark.parametrize(("device", "ahead"), [("cpu", 0), ("cuda", 1), ("mps", 1)])
def test_windows_are_in_flight_where_a_device_works_on_its_own(tiny_metric, monkeypatch, device, ahead):
    metric = tiny_metric()
    monkeypatch.setattr(type(metric), "device", torch.device(device))
    assert Engine(metric)._pending_windows == ahead


@pytest.mark.parametrize("fields", [{}, {"centering": "batch"}])
def test_progress_is_told_within_a_window(tiny_metric, fields):
    done = []
    engine = Engine(tiny_metric(**fields), batch_tokens=20)
    hypotheses = [f"{text} {number}" for number, text in enumerate(HYPOTHESES * 6)]
    for expected_steps in (3, 1):  # what is kept from the first time is no work, and what is left is one step or more
        engine.score(hypotheses, REFERENCES * 6, done.append)
        assert sum(done) == len(hypotheses)
        assert min(done) > 0
        assert len(done) >= expected_steps
        del done[:]


def test_windows_are_bounded_by_segments_and_by_memory(tiny_metric, monkeypatch):
    engine = Engine(tiny_metric())
    hypotheses = ["a", "b", "c", "d", "dog " * 30, "f", "g" * 5]
    references = [["r"], ["r"], ["r"], ["r"], ["r"], ["r"], ["r", "r" * 2]]
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 3)
    assert [(one.start, one.stop) for one in engine._windows(hypotheses, references)] == [(0, 3), (3, 6), (6, 7)]
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 100)
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW_BYTES", 40 * engine.metric.token_bytes)
    assert [(one.start, one.stop) for one in engine._windows(hypotheses, references)] == [(0, 4), (4, 5), (5, 7)]
    assert list(engine._windows([], [])) == []


def test_texts_of_more_tokens_to_a_character_come_in_smaller_windows(tiny_metric, monkeypatch):
    engine = Engine(tiny_metric())
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW_BYTES", 2000 * engine.metric.token_bytes)
    sizes = []
    for text in ("evening people friend morning", "qxzjkvwyqxzjkvwyqxzjkvwyqxzjk"):  # words, and single letters
        held = []
        for rows in engine._windows([text] * 1000, [[text]] * 1000):
            tokens = engine.metric.tokenize([text] * 2).mask.sum() * (rows.stop - rows.start)
            held.append(int(tokens))
        sizes.append(len(held))
        assert max(held) <= 1.1 * 2000
    assert sizes[1] > 3 * sizes[0]


def test_one_worker_and_several_give_the_same_scores(tiny_metric, threads):
    found = []
    for count in (1, 3):
        threads(count)
        found.append(Engine(tiny_metric(), batch_tokens=20).score(HYPOTHESES, REFERENCES))
        assert torch.get_num_threads() == count
    assert difference(*found) <= 1e-6


def test_calls_that_wait_for_one_another_get_one_worker_with_all_threads(tiny_metric, threads):
    metric = tiny_metric()
    threads(2)
    assert Engine(metric)._workers == 2
    metric.encoder.run_with(CompiledRunner(metric.encoder.graph()))
    assert Engine(metric)._workers == 1


# --- memory of the device ---------------------------------------------------------------------------------------------


NO_ROOM = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
)


def above(most: int):
    """Whether a batch is larger."""
    return lambda _, batch, *more: len(batch) > most


@pytest.mark.parametrize("error", NO_ROOM, ids=str)
@pytest.mark.parametrize("name", ["text_features", "pair_scores"])
def test_batches_without_room_are_halved_and_the_run_goes_on(tiny_metric, failing, caplog, name, error):
    metric = tiny_metric()
    expected = Engine(metric).score(HYPOTHESES, REFERENCES)
    failing(metric, name, above(2), error)
    found = Engine(metric, batch_tokens=1000).score(HYPOTHESES, REFERENCES)
    assert difference(expected, found) <= 1e-6
    assert caplog.records[-1].getMessage().startswith("Out of memory on cpu: going on with ")


def test_later_batches_are_small_from_the_start(tiny_metric, failing):
    metric = tiny_metric()
    engine = Engine(metric, batch_tokens=1000, cache=False)
    asked = failing(metric, "text_features", above(2))
    engine.score(HYPOTHESES, REFERENCES)
    del asked[:]
    engine.score(HYPOTHESES, REFERENCES)
    assert max(asked) < 7
    assert engine.batch_tokens < 100


@pytest.mark.parametrize("name", ["text_features", "pair_scores"])
def test_other_errors_of_a_device_end_the_run(tiny_metric, failing, name):
    metric = tiny_metric()
    asked = failing(metric, name, above(0), RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"))
    with pytest.raises(RuntimeError, match="CUDNN_STATUS_NOT_SUPPORTED"):
        Engine(metric, batch_tokens=1000).score(HYPOTHESES, REFERENCES)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("centering", "name"), [("none", "text_features"), ("none", "pair_scores"), ("batch", "pair_scores")]
)
def test_what_can_be_no_smaller_is_tried_again_before_it_is_refused(tiny_metric, one_thread, failing, centering, name):
    metric = tiny_metric(centering=centering)
    expected = Engine(metric).score(["tea"], [["go home"]])
    asked = failing(metric, name, lambda number, *_: number % 2, NO_ROOM[2])
    engine = Engine(metric, batch_tokens=1, cache=False)
    assert difference(expected, engine.score(["tea"], [["go home"]])) <= 1e-6
    assert asked == [1] * (4 if name == "text_features" else 2)


@pytest.mark.parametrize(
    ("centering", "name", "most", "message"),
    [
        ("none", "text_features", 0, "fit into the memory of cpu, but a single one is too long: set `max_length`"),
        ("batch", "pair_scores", 3, "12 pairs that are read together to fit into the memory of cpu"),
    ],
)
def test_texts_that_have_no_room_in_any_way_are_an_error(tiny_metric, failing, centering, name, most, message):
    metric = tiny_metric(centering=centering)
    failing(metric, name, above(most))
    with pytest.raises(InputError, match=message):
        Engine(metric).score(HYPOTHESES, REFERENCES)


# --- cache ------------------------------------------------------------------------------------------------------------


def test_each_distinct_text_is_read_once(tiny_metric, failing):
    metric = tiny_metric()
    read = failing(metric, "text_features", lambda *_: False)
    engine = Engine(metric)
    engine.score(HYPOTHESES, REFERENCES)
    assert sum(read) == 7  # "go home" stands on both sides
    engine.score(HYPOTHESES, REFERENCES)
    assert sum(read) == 7
    engine.clear_cache()
    engine.score(HYPOTHESES[:1], REFERENCES[:1])
    assert sum(read) == 9


def test_scores_are_the_same_bytes_with_and_without_a_cache(tiny_metric):
    metric = tiny_metric()
    kept, plain = Engine(metric), Engine(metric, cache=False)
    kept.score(HYPOTHESES, REFERENCES)
    one, other = kept.score(HYPOTHESES, REFERENCES), plain.score(HYPOTHESES, REFERENCES)
    assert all(one.values[name].tobytes() == other.values[name].tobytes() for name in VALUES)
    assert len(kept._cache) == 7
    assert len(plain._cache) == 0


def test_callers_in_several_threads_wait_for_one_another(tiny_metric):
    engine = Engine(tiny_metric())
    expected = engine.score(HYPOTHESES, REFERENCES).values["score"]

    def work(number):
        if number % 3 == 0:
            engine.clear_cache()
        return engine.score(HYPOTHESES, REFERENCES).values["score"]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(12)):
            np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
    assert pickle.loads(pickle.dumps(engine)).score(HYPOTHESES, REFERENCES).values["score"].tolist() == list(expected)


# --- counts -----------------------------------------------------------------------------------------------------------


def test_segments_are_counted_once_and_warned_of_once(tiny_metric, caplog):
    metric = tiny_metric(max_length=8)
    engine = Engine(metric)
    hypotheses = ["", "tea", HYPOTHESES[0], HYPOTHESES[0], "tea"]
    references = [["tea", ""], ["tea", " "], ["tea", "go"], [HYPOTHESES[0]], ["tea"]]
    with caplog.at_level(logging.WARNING):
        first = engine.score(hypotheses, references)
        second = engine.score(hypotheses, references)
    assert dict(first.counts) == dict(second.counts) == {"empty": 2, "truncated": 2}
    assert first.values["score"][:2].tolist() == [0, pytest.approx(1, abs=1e-6)]
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 2
    assert (
        "2 segments had an empty or unreadable hypothesis or reference, "
        "and scored as texts with nothing in common: `score --format tsv` flags each." in warned
    )
    said = r"2 segments had a text .* the encoder allows and was cut after \d+ tokens: `--long-texts window`"
    assert any(re.match(said, message) for message in warned)


def test_the_examples_of_repetition_are_hypotheses(tiny_metric, caplog):
    engine = Engine(tiny_metric(max_length=64))
    loops = ["go home " * 8, "drink tea " * 8]
    with caplog.at_level(logging.WARNING):
        found = engine.score([loops[0], "tea"], [[loops[1]], [loops[1]]])
    assert dict(found.counts) == {"repetition": 1}
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"1 segment had a hypothesis that repeats one phrase, such as {loops[0][:40] + '…'!r}: ")


def test_cut_texts_are_counted_where_texts_are_read_together(tiny_metric):
    metric = tiny_metric(max_length=8, centering="batch")
    found = Engine(metric).score(["tea", HYPOTHESES[0], ""], [["go home"], ["tea"], ["tea"]])
    assert dict(found.counts) == {"truncated": 1, "empty": 1}


@pytest.mark.parametrize("fields", [{}, {"matching": "bertscore", "normalize": False}, {"matching": "sbert"}])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("ahead", [0, 1])
def test_damaged_weights_are_an_error_that_names_the_segment(tiny_metric, monkeypatch, fields, value, ahead):
    metric = tiny_metric(**fields)
    monkeypatch.setattr("textmover.scoring.engine.engine.WINDOW", 2)
    monkeypatch.setattr(Engine, "_pending_windows", ahead)
    tea = metric.tokenize(["tea"]).input_ids[0, 1]
    with torch.no_grad():
        metric.encoder.model.embeddings.word_embeddings.weight[tea] = value
    with pytest.raises(InputError, match=r"Expected finite values from the metric, but its .* of segment 3 is nan"):
        Engine(metric).score(HYPOTHESES, REFERENCES)


# --- the live model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_modes_of_a_live_model_come_back(tiny_metric, monkeypatch, fails):
    metric = tiny_metric(centering="corpus").train()
    metric.fit(["tea"])
    metric.encoder.model.embeddings.eval()
    before = [module.training for module in metric.modules()]
    mean = metric.centering.statistic.mean.clone()
    modes, real = [], metric.pair_scores

    def watched(*sides):
        modes.append(any(module.training for module in metric.modules()))
        if fails:
            raise RuntimeError("stop")
        return real(*sides)

    monkeypatch.setattr(metric, "pair_scores", watched)
    with pytest.raises(RuntimeError, match="stop") if fails else contextlib.nullcontext():
        Engine(metric).score(["tea"], [["go"]])
    assert modes == [False]
    assert [module.training for module in metric.modules()] == before
    assert torch.equal(metric.centering.statistic.mean, mean)


def test_a_live_model_can_be_trained_after_it_has_scored(tiny_metric):
    metric = tiny_metric(learn_temperature=True).train()
    Engine(metric).score(HYPOTHESES, REFERENCES)
    metric(metric.tokenize(["tea"]), metric.tokenize(["go home"])).score.sum().backward()
    assert all(one.grad is not None for one in metric.parameters())


def test_cached_texts_follow_the_training_of_a_head(tiny_metric):
    metric = tiny_metric(weights="learned", learn_temperature=True)
    engine = Engine(metric)
    engine.score(HYPOTHESES, REFERENCES)
    with torch.no_grad():
        metric.weighting.importance.weight.normal_(std=0.3)
        metric.matching.temperature.log_temperature.fill_(-1.0)
    again, anew = (one.score(HYPOTHESES, REFERENCES) for one in (engine, Engine(metric)))
    assert again.values["score"].tolist() == anew.values["score"].tolist()


# --- any metric of the protocol ---------------------------------------------------------------------------------------


class Overlap:
    """A distance without an encoder, which reads texts together: share of words of the longer text not in the other."""

    config = None
    higher_is_better = False
    needs_fit = False
    device = torch.device("cpu")
    runnable_encoder = None
    token_bytes = 100
    range = (0.0, 1.0)
    signature = Signature({"metric": "overlap"})

    def __init__(self, multi_reference: str) -> None:
        self.multi_reference = multi_reference

    def tokenize(self, texts):
        length = max(len(text.split()) for text in texts)
        mask = torch.tensor([[place < len(text.split()) for place in range(length)] for text in texts])
        return TokenBatch(mask.long(), mask, mask.to(torch.int8) * 0, tuple(texts), (False,) * len(texts))

    def text_features(self, batch):
        return None

    def pair_scores(self, hypotheses, references):
        pairs = [(set(h.split()), set(r.split())) for h, r in zip(hypotheses.texts, references.texts, strict=True)]
        values = torch.tensor([1 - len(h & r) / max(len(h), len(r)) for h, r in pairs])
        return PairScores(values, components={"words": torch.tensor([float(len(h)) for h, _ in pairs])})


@pytest.mark.parametrize(("rule", "expected"), [("best", [0.0, 0.5]), ("mean", [0.5, 0.5])])
def test_a_distance_without_features_is_scored_by_the_same_engine(rule, expected):
    found = Engine(Overlap(rule)).score(["a b", "c"], [["a b", "x y"], ["c d"]])
    assert found.values["score"].tolist() == expected
    assert set(found.values) == {"score", "words"}
    assert dict(found.counts) == {}


def test_with_batch_centring_batches_are_32_pairs_in_input_order(tiny_metric):
    metric = tiny_metric(centering="batch", temperature=0.1).eval()
    hypotheses = [*["the dog ran"] * 31, "she will sing", "a cat", "go"]
    references = [*["a dog ran"] * 31, "he can sing", "the house", "go"]
    found = Engine(metric).score(hypotheses, [(one,) for one in references]).values["score"]
    for rows in (slice(0, 32), slice(32, None)):
        with torch.inference_mode():
            expected = metric(metric.tokenize(hypotheses[rows]), metric.tokenize(references[rows])).score
        assert found[rows] == pytest.approx(expected.numpy(), abs=1e-6)
