"""Work in threads: spread over several that compute on their shares of the processor, or done ahead in one."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import torch

MOST = 8  # workers at most; on larger processors each has several threads of its own

FAREWELL = 0.5
"""Seconds that the end of a reading thread is waited for; one that hangs on standard input ends with the process."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def worker_count(device: torch.device) -> int:
    """Number of batches at a time: one on a GPU, else one for each thread of torch, which never wait for each other."""
    return min(torch.get_num_threads(), MOST) if device.type == "cpu" else 1


def spread(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Results of ``work`` in the order of the items, drawn a few ahead; workers share the threads of torch."""
    guarded: Callable[[Item], Result] = torch.inference_mode()(work)  # which each thread has to enter for itself
    items = iter(items)
    first = list(itertools.islice(items, 2))
    items = itertools.chain(first, items)
    if workers < 2 or len(first) < 2:
        yield from map(guarded, items)
        return
    threads = torch.get_num_threads()
    share = max(1, threads // workers)
    torch.set_num_threads(share)
    waiting: deque[Future[Result]] = deque()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(guarded, item))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
    finally:
        torch.set_num_threads(threads)


class _End(NamedTuple):
    """The end of what a thread reads, and why, if it is not that there is no more."""

    error: BaseException | None = None


@contextlib.contextmanager
def read_ahead(items: Generator[Item, None, None], ahead: int = 1) -> Iterator[Iterator[Item]]:
    """Let a thread make the next items while this one works on the last."""
    waiting: queue.SimpleQueue[Item | _End] = queue.SimpleQueue()
    room = threading.Semaphore(ahead)
    unwanted = threading.Event()

    def work() -> None:
        end = _End()
        try:
            with contextlib.closing(items):
                for item in items:
                    room.acquire()
                    if unwanted.is_set():
                        return
                    waiting.put(item)
        except BaseException as error:  # whatever it is, the reader of the items has to hear of it
            end = _End(error)
        waiting.put(end)

    def taken() -> Iterator[Item]:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            room.release()
            yield item

    thread = threading.Thread(target=work, name="reader", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        unwanted.set()
        room.release()
        thread.join(FAREWELL)
