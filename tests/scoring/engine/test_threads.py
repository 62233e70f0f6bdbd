"""Work is done once each, in order, without gradients, and torch's threads are as before."""

import threading
import time

import pytest
import torch

from textmover.scoring.engine.threads import MOST, map_in_threads, worker_count


@pytest.fixture(autouse=True)
def four(threads):
    threads(4)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_order(workers, count):
    def work(item):
        time.sleep(0.001 * (item % 3))
        return item, torch.is_inference_mode_enabled(), torch.get_num_threads()

    found = list(map_in_threads(work, iter(range(count)), workers))
    share = 4 if count < 2 or workers == 1 else 4 // workers
    assert found == [(item, True, share) for item in range(count)]
    assert torch.get_num_threads() == 4


def test_several_threads_work_and_items_are_drawn_a_few_ahead():
    drawn, names = [], set()

    def items():
        for item in range(100):
            drawn.append(item)
            yield item

    def work(item):
        names.add(threading.current_thread().name)
        time.sleep(0.002)
        return item

    results = map_in_threads(work, items(), 2)
    next(results)
    assert len(drawn) <= 7
    assert list(results) == list(range(1, 100))
    assert len(names) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_out_and_the_rest_is_dropped(workers):
    done = []

    def work(item):
        done.append(item)
        time.sleep(0.002)
        if item == 3:
            raise ValueError("stop")
        return item

    with pytest.raises(ValueError, match="stop"):
        list(map_in_threads(work, range(1000), workers))
    assert len(done) < 20
    assert torch.get_num_threads() == 4


def test_whoever_stops_listening_leaves_nothing_behind():
    results = map_in_threads(lambda item: item, range(1000), 2)
    assert next(results) == 0
    results.close()
    assert torch.get_num_threads() == 4


def test_workers_by_device(threads):
    assert worker_count(torch.device("cpu")) == 4
    assert worker_count(torch.device("cuda")) == 1
    threads(64)
    assert worker_count(torch.device("cpu")) == MOST
