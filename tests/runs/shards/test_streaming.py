"""Streaming: a thread reads ahead, and a shard's scores depend on nothing but its texts."""

import io
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pytest
from tests.sentences import sentences

from textmover.readers.row_streams import Row, TextFiles
from textmover.runs.progress import PairCount
from textmover.runs.score_summary import ShardSummary, summarize
from textmover.runs.shards import streaming
from textmover.runs.shards.score_formats import Layout
from textmover.runs.shards.shards import Shard, ShardFolder, describe, read_shards
from textmover.runs.shards.streaming import ShardStream, finish_shards, fit_on_rows, score_shard
from textmover.scoring import Scorer
from textmover.scoring.engine.threads import prefetch
from textmover.types import InputError


def cut(*systems: list[str], references: list[str], size: int) -> list[Shard]:
    texts = enumerate(zip(*systems, references, strict=True), 1)
    rows = [Row(number, tuple(hypotheses), (reference,)) for number, (*hypotheses, reference) in texts]
    starts = range(0, len(rows), size)
    return [Shard(index, start + 1, rows[start : start + size], None) for index, start in enumerate(starts)]


def scored(
    scorer: Scorer, shards: Iterable[Shard], parts: ShardFolder | None = None
) -> list[tuple[ShardSummary, bool]]:
    work = partial(streaming.score_shard, scorer, systems=("h",))
    store = parts or ShardStream(Layout("text", ("h",)), io.StringIO())
    return list(finish_shards(shards, work, store, PairCount(1, lambda *_: None)))


@pytest.fixture(scope="module")
def make(tiny_encoder):
    return partial(Scorer.from_pretrained, encoder=str(tiny_encoder), device="cpu", backend="torch")


@pytest.fixture(scope="module")
def scorer(make):
    return make("twmd")


# --- reading ahead ----------------------------------------------------------------------------------------------------


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "reader"]


def test_items_come_in_order_and_few_are_made_ahead():
    made = []

    def items():
        for number in range(20):
            made.append(number)
            yield number

    with prefetch(items()) as taken:
        assert next(taken) == 0
        time.sleep(0.3)
        assert len(made) <= 4
        assert list(taken) == list(range(1, 20))
    assert not readers()


def test_an_error_comes_behind_the_items_before_it():
    def items():
        yield 1
        raise InputError("line 2")

    with prefetch(items()) as taken:
        assert next(taken) == 1
        with pytest.raises(InputError, match="line 2"):
            next(taken)


def test_whoever_stops_early_ends_the_thread_and_closes_what_it_reads():
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    def interrupted():
        with prefetch(items()) as taken:
            next(taken)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert closed.wait(5)
    assert not readers()


def test_a_thread_that_hangs_is_not_waited_for():
    release = threading.Event()

    def items():
        yield 1
        release.wait()

    start = time.monotonic()
    with prefetch(items()) as taken:
        assert next(taken) == 1
    assert time.monotonic() - start < 5
    release.set()


# --- a shard ----------------------------------------------------------------------------------------------------------


def test_a_shard_has_the_bytes_of_a_call_of_its_own_whatever_came_before(scorer, make):
    hypotheses, references = sentences(60, 1), sentences(60, 2)
    shards = cut(hypotheses, references=references, size=20)
    fresh = make("twmd")
    alone = fresh.score(hypotheses[20:40], references[20:40])
    for order in ([1], [0, 1], [2, 1, 0, 1]):
        *_, last = [score_shard(scorer, shards[index], ("h",)) for index in order]
        for name in ("score", "precision", "recall", "f"):
            expected = alone.scores if name == "score" else getattr(alone, name)
            np.testing.assert_array_equal(last.values[name][:, 0], expected)
        assert last.tally.sums == (float(np.sum(alone.scores)),)


def test_several_systems_score_as_each_by_itself_where_texts_are_encoded_jointly(make):
    scorer = make("twmd", centering="batch")
    systems, references = [sentences(100, seed) for seed in range(3)], sentences(100, 9)
    shards = cut(*systems, references=references, size=64)
    found = np.concatenate([score_shard(scorer, one, ("a", "b", "c")).values["score"] for one in shards])
    for place, hypotheses in enumerate(systems):
        alone = scorer.score(hypotheses, references)
        np.testing.assert_allclose(found[:, place], alone.scores, rtol=0, atol=1e-6)


def test_a_shared_reference_is_encoded_once(scorer, monkeypatch):
    (shard,) = cut(sentences(8, 1), sentences(8, 2), references=sentences(8, 3), size=8)
    encoded = []
    features = scorer.metric.text_features
    monkeypatch.setattr(scorer.metric, "text_features", lambda batch: encoded.extend(batch.texts) or features(batch))
    score_shard(scorer, shard, ("a", "b"))
    for reference in dict.fromkeys(row.references[0] for row in shard.rows):
        assert encoded.count(reference) == 1


def test_rows_that_were_left_out_have_no_score_and_count_nowhere(scorer):
    (shard,) = cut(sentences(4, 1), references=sentences(4, 2), size=4)
    whole = score_shard(scorer, shard, ("h",))
    shard.rows[1] = Row(2, (), (), "line 2 is bad")
    found = score_shard(scorer, shard, ("h",))
    assert np.isnan(found.values["score"][1])
    kept = [0, 2, 3]
    np.testing.assert_allclose(found.values["score"][kept], whole.values["score"][kept], rtol=0, atol=1e-6)
    assert (found.tally.rows, found.tally.skipped, found.tally.problem) == (4, 1, "line 2 is bad")
    assert found.tally.sums == (pytest.approx(float(np.nansum(found.values["score"]))),)
    shard.rows[:] = [Row(number, (), (), "bad") for number in range(1, 5)]
    nothing = score_shard(scorer, shard, ("h",))
    assert nothing.tally.names == whole.tally.names
    assert all(np.isnan(array).all() and array.shape == (4, 1) for array in nothing.values.values())
    assert (nothing.tally.skipped, nothing.tally.sums, nothing.tally.counts) == (4, (0.0,), {})


def test_what_the_metric_refuses_is_told_with_its_rows(make):
    scorer = make("twmd", long_texts="error")
    shards = cut(["a"] * 3 + ["the cat " * 100], references=["a"] * 4, size=2)
    with pytest.raises(InputError, match=r"128 tokens.*\(in rows 3 to 4 of the input\)\.$"):
        scored(scorer, shards)


def test_warnings_are_left_to_the_caller_who_knows_all_counts(make, caplog):
    scorer = make("twmd")
    shards = cut(["", "a", "", "a"], references=["a"] * 4, size=2)
    tallies = [tally for tally, _ in scored(scorer, shards)]
    warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not warned
    caplog.clear()
    scorer.warn(summarize(tallies, ("h",), __import__("textmover.types").types.Signature({})).counts)
    assert [record.message.split()[:2] for record in caplog.records] == [["2", "segments"]]


@pytest.mark.parametrize("preset", ["bertscore-f1-idf", "moverscore-wmd2"])
def test_weights_that_are_fitted_on_the_call_are_those_of_all_shards(make, preset):
    fields = {"layer": 3, "aggregation": "single"} if preset.startswith("mover") else {}
    scorer = make(preset, **fields)
    hypotheses, references = sentences(30, 1), sentences(30, 2)
    expected = scorer.score(hypotheses, references)
    other = make(preset, **fields)
    shards = cut(hypotheses, references=references, size=8)
    fit_on_rows(other, Given([row for shard in shards for row in shard.rows]))
    found = np.concatenate([score_shard(other, one, ("h",)).values["score"][:, 0] for one in shards])
    np.testing.assert_allclose(found, expected.scores, rtol=0, atol=1e-6)
    assert str(other.signature) == str(expected.signature)


class Given:
    """Rows of a list."""

    systems, share = ("h",), None

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


class Text(str):
    """A text that knows how many there are."""

    alive = most = 0

    def __init__(self, _: str) -> None:
        Text.alive += 1
        Text.most = max(Text.most, Text.alive)

    def __del__(self) -> None:
        Text.alive -= 1


class Read(Given):
    """Rows whose texts are made when they are read."""

    def __iter__(self) -> Iterator[Row]:
        return (Row(one.line, tuple(map(Text, one.hypotheses)), tuple(map(Text, one.references))) for one in self.rows)


def test_texts_that_weights_are_fitted_on_are_not_kept(make):
    scorer = make("moverscore-wmd2", layer=3, aggregation="single")
    fit_on_rows(scorer, Read([Row(number, ("a cat",), ("a dog",)) for number in range(20_000)]))
    assert (Text.alive, int(scorer.fitted_metric.statistics["idf_hypothesis"].documents)) == (0, 20_000)
    assert 2048 < Text.most < 6000  # a window of one side, and the other side of its rows


def test_rows_without_texts_are_left_out_of_the_fit_and_not_all_of_them(make):
    scorer = make("bertscore-f1-idf")
    bad = Row(1, (), (), "line 1 is bad")
    fit_on_rows(scorer, Given([bad, Row(2, ("a",), ("b", "c"))]))
    assert int(scorer.fitted_metric.statistics["idf"].documents) == 2
    with pytest.raises(InputError, match="line 1 is bad"):
        fit_on_rows(scorer, Given([bad, bad._replace(line=2)]))


# --- shards into a folder ---------------------------------------------------------------------------------------------


def test_processes_may_share_the_shards(scorer, tmp_path):
    hypotheses, references = sentences(50, 1), sentences(50, 2)
    for name, texts in (("h", hypotheses), ("r", references)):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    rows = TextFiles((str(tmp_path / "h"),), (str(tmp_path / "r"),))
    layout = Layout("text", rows.systems)
    contents = []
    for world in (1, 3):
        places = [
            ShardFolder(tmp_path / "out.parts", layout, describe(scorer.signature, layout, size=8))
            for _ in range(world)
        ]
        places[0].begin()
        for rank in reversed(range(world)):
            shards = (one for one in read_shards(rows, 8) if one.index % world == rank)
            scored(scorer, shards, places[rank])
        tallies = places[0].tallies(7)
        places[0].merge(tmp_path / "out", 7, summarize(tallies, rows.systems, scorer.signature))
        contents.append((tmp_path / "out").read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0].splitlines()) == 50


def test_finished_shards_are_not_scored_again(scorer, tmp_path, monkeypatch):
    shards = cut(sentences(9, 1), references=sentences(9, 2), size=3)
    layout = Layout("text", ("h",))
    parts = ShardFolder(tmp_path / "out.parts", layout, describe(scorer.signature, layout))
    parts.begin()
    scored(scorer, [shards[0], shards[2]], parts)
    again = []
    monkeypatch.setattr(
        "textmover.runs.shards.streaming.score_shard",
        lambda *given, **options: again.append(given[1].index) or score_shard(*given, **options),
    )
    done = scored(scorer, shards, parts)
    assert again == [1]
    assert [kept for _, kept in done] == [True, False, True]
