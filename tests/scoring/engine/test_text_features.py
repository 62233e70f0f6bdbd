"""A device without room: what is kept goes first, batches are halved then, and scores stay what they are."""

import gc
import weakref

import numpy as np
import pytest
import torch

from textmover import Scorer
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.engine.engine import Engine
from textmover.scoring.engine.text_features import DeviceMemoryError, out_of_memory_retries
from textmover.types import InputError
from textmover.types.tokens import Ragged

HYPOTHESES = ["the small dog ran to the old house", "she will buy a book", "tea", "go home"]
REFERENCES = [["a little dog runs home at night"], ["she sold it"], ["a cold drink of water"], ["one went home"]]
SEVERAL = [["a little dog runs home", "one dog"], ["she sold it"], ["hot tea", "a drink", "water"], ["home", "go"]]
EARLIER = ["many people walk in the rain", "I hear a song", "red never sings"]

WITHOUT = "Out of memory on cpu: features of earlier texts were removed from its memory."


pytestmark = pytest.mark.usefixtures("one_thread")


def assert_same(found, expected):
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values, rtol=0, atol=1e-6)


ALL = {"multi_reference": "all"}


@pytest.mark.parametrize(
    ("name", "fields", "references", "most", "expected"),
    [
        ("text_features", {}, REFERENCES, None, [8, 8]),
        ("text_features", {}, REFERENCES, 4, [8, 8, 4, 4]),
        ("pair_scores", {}, REFERENCES, None, [4, 4]),
        ("join", ALL, SEVERAL, None, [2, 2, 3, 2]),
    ],
)
def test_what_is_kept_goes_and_batches_are_halved_where_that_was_not_enough(
    tiny_metric, failing, logged, name, fields, references, most, expected
):
    """There is no room while anything is kept, or for more than so many."""
    metric = tiny_metric(**fields)
    scores = Engine(metric).score(HYPOTHESES, references)
    engine = Engine(metric, batch_tokens=1000)
    engine.score(EARLIER, [[one] for one in EARLIER])
    asked = failing(metric, name, lambda _, batch, *__: len(batch) > most if most else engine._cache.nbytes > 0)
    assert_same(engine.score(HYPOTHESES, references), scores)
    assert asked == expected
    said = logged()
    assert said.pop(0) == WITHOUT
    assert (engine.batch_tokens < 1000) == (most is not None)
    assert [one.startswith("Out of memory on cpu: going on with batches of ") for one in said] == [True] * bool(most)


def test_it_is_said_once_that_they_go(tiny_metric, failing, logged):
    metric = tiny_metric()
    engine = Engine(metric, batch_tokens=8)
    asked = failing(metric, "text_features", lambda *_: engine._cache.nbytes > 0)
    engine.score(HYPOTHESES, REFERENCES)
    assert len(asked) > 8
    assert logged() == [WITHOUT]


def test_states_that_metrics_share_go_too(tiny_encoder, failing, logged):
    """Those of other encoders on the same device as well, and none of another device."""
    memory = EncoderMemory()
    options = {"encoder": str(tiny_encoder), "device": "cpu", "memory": memory}
    scorer = Scorer.from_pretrained("twmd", cache=False, batch_tokens=1000, **options)
    others = [Scorer.from_pretrained("twmd", long_texts="window", max_length=one, **options) for one in (20, 30)]
    for one in (scorer, *others):
        one.score(EARLIER, EARLIER)
    ours, same, elsewhere = memory._groups
    elsewhere.device = "cuda:1"
    held = elsewhere.cache.nbytes
    assert min(ours.cache.nbytes, same.cache.nbytes, held) > 0
    full = lambda *_: ours.cache.nbytes + same.cache.nbytes > 0  # noqa: E731
    asked = failing(scorer.metric.encoder, "encode", full)
    found = scorer.score(HYPOTHESES, [one for (one,) in REFERENCES]).scores
    assert asked == [8, 8]
    assert same.cache.nbytes == 0
    assert elsewhere.cache.nbytes == held
    assert logged() == [WITHOUT]
    expected = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu")
    np.testing.assert_allclose(found, expected.score(HYPOTHESES, [one for (one,) in REFERENCES]).scores, atol=1e-6)


def test_features_that_are_looked_up_without_room_are_made_anew(tiny_metric, failing, logged):
    engine = Engine(tiny_metric())
    expected = engine.score(HYPOTHESES, REFERENCES)
    asked = failing(Ragged, "select", lambda *_: True)
    found = engine.score(HYPOTHESES[:2], REFERENCES[:2])
    assert_same(found, type(found)({name: values[:2] for name, values in expected.values.items()}))
    assert len(asked) == 1
    assert logged() == [WITHOUT]


def test_halves_need_no_room_to_be_put_together(tiny_metric, failing):
    metric = tiny_metric()
    expected = Engine(metric).score(HYPOTHESES, REFERENCES)
    failing(metric, "text_features", lambda _, batch: len(batch) > 2)
    failing(Ragged, "join", lambda *_: True)
    assert_same(Engine(metric, batch_tokens=1000).score(HYPOTHESES, REFERENCES), expected)


def test_references_that_are_too_long_together_are_an_error(tiny_metric, failing):
    metric = tiny_metric(**ALL)
    asked = failing(metric, "join", lambda _, parts: len(parts) > 2)
    message = r"references that fit into the memory of cpu, but 3 of a segment are too long together: set `max_len"
    with pytest.raises(InputError, match=message):
        Engine(metric).score(HYPOTHESES, SEVERAL)
    assert asked == [2, 3, 3]


# --- attempts ---------------------------------------------------------------------------------------------------------


CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Held:
    """Stands for a tensor that an attempt has made before its memory ended."""


class Work:
    """Finds no room at its first attempts."""

    def __init__(self, fails: int, error: str = "cuBLAS error: CUBLAS_STATUS_ALLOC_FAILED") -> None:
        self.fails, self.error = fails, error
        self.made: list[weakref.ref] = []

    def __call__(self) -> int:
        made = Held()
        self.made.append(weakref.ref(made))
        if len(self.made) <= self.fails:
            raise RuntimeError(self.error)
        return len(self.made)


def in_room(work: Work, device: torch.device, **options: object) -> int:
    for attempt in out_of_memory_retries(device, **options):
        with attempt:
            found = work()
    return found


@pytest.fixture
def emptied(monkeypatch):
    """What attempts still hold each time when the allocator's cache is emptied."""
    found: list[int] = []
    work = Work(fails=1)

    def empty():
        gc.disable()  # nothing may wait for it
        found.append(sum(one() is not None for one in work.made))
        gc.enable()

    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    return work, found


def test_the_allocator_gives_back_what_nothing_holds_any_more(emptied):
    work, found = emptied
    with pytest.raises(DeviceMemoryError, match="CUBLAS_STATUS_ALLOC_FAILED"):
        in_room(work, CUDA, last=False)
    assert found == [0]
    work.made.clear()
    assert in_room(work, CUDA, last=True) == 2
    assert found == [0, 0]


@pytest.mark.parametrize(("goes", "attempts_made"), [(None, 2), (True, 2), (False, 1)])
def test_there_is_a_second_attempt_at_the_last_piece_or_where_something_goes_and_no_third(emptied, goes, attempts_made):
    """What goes goes once: work may fill what was let go again, and find no room again."""
    work, found = emptied
    work.fails = 5
    went = []
    spare = {} if goes is None else {"spare": lambda: went.append(None) is None and goes}
    with pytest.raises(DeviceMemoryError):
        in_room(work, CUDA, last=goes is None, **spare)
    assert (len(work.made), len(went), found) == (attempts_made, len(spare), [0] * attempts_made)


@pytest.mark.parametrize("last", [False, True])
def test_what_can_be_made_again_goes_before_the_second_attempt(emptied, last):
    work, found = emptied
    went = []

    def spare():
        assert len(found) == len(went)  # before the allocator gives back what it has
        went.append(len(work.made))
        return True

    assert in_room(work, CUDA, last=last, spare=spare) == 2
    assert (went, found) == ([1], [0])


def test_other_devices_have_no_such_cache(emptied):
    work, found = emptied
    assert in_room(work, CPU, last=True) == 2
    assert found == []


def test_other_errors_go_through():
    work = Work(1, "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED")
    with pytest.raises(RuntimeError, match="NOT_SUPPORTED") as caught:
        in_room(work, CUDA, last=True)
    assert type(caught.value) is RuntimeError
    assert len(work.made) == 1
