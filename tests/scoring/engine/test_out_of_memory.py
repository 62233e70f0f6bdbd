"""Work without room gives back what it held before it is tried again or refused."""

import gc
import weakref

import pytest
import torch

from textmover.scoring.engine.text_features import NoRoomError, attempts

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
    for attempt in attempts(device, **options):
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
    with pytest.raises(NoRoomError, match="CUBLAS_STATUS_ALLOC_FAILED"):
        in_room(work, CUDA, last=False)
    assert found == [0]
    work.made.clear()
    assert in_room(work, CUDA, last=True) == 2
    assert found == [0, 0]


def test_the_last_attempt_is_made_twice_and_no_more(emptied):
    work, found = emptied
    work.fails = 5
    with pytest.raises(NoRoomError):
        in_room(work, CUDA, last=True)
    assert (len(work.made), found) == (2, [0, 0])


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


def test_what_goes_goes_once(emptied):
    """Work may fill what was let go again, and find no room again."""
    work, found = emptied
    work.fails = 5
    went = []
    with pytest.raises(NoRoomError):
        in_room(work, CUDA, last=False, spare=lambda: went.append(None) is None)
    assert (len(work.made), len(went), found) == (2, 1, [0, 0])


def test_where_nothing_goes_there_is_no_second_attempt(emptied):
    work, found = emptied
    with pytest.raises(NoRoomError):
        in_room(work, CUDA, last=False, spare=lambda: False)
    assert (len(work.made), found) == (1, [0])


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
