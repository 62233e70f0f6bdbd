"""Threads: spread work over several that share the CPU cores, or read ahead in one."""

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

MOST = 8  # maximum number of workers; with more cores, each worker gets several threads

FAREWELL = 0.5
"""Seconds to wait for a reading thread to end; a thread blocked on standard input ends with the process."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def worker_count(device: torch.device) -> int:
    """Return the number of concurrent batches: one on a GPU, else one per thread of torch, at most :data:`MOST`."""
    return min(torch.get_num_threads(), MOST) if device.type == "cpu" else 1


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield results of ``work`` in input order; items are drawn a few ahead, and workers share the threads of torch."""
    guarded: Callable[[Item], Result] = torch.inference_mode()(work)  # inference mode is per thread
    items = iter(items)
    first_items = list(itertools.islice(items, 2))
    items = itertools.chain(first_items, items)
    if workers < 2 or len(first_items) < 2:
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
    """End marker of a reading thread, with its error if it failed."""

    error: BaseException | None = None


@contextlib.contextmanager
def prefetch(items: Generator[Item, None, None], ahead: int = 1) -> Iterator[Iterator[Item]]:
    """Compute the next ``ahead`` items in a thread while the caller works on the current one."""
    waiting: queue.SimpleQueue[Item | _End] = queue.SimpleQueue()
    slots = threading.Semaphore(ahead)
    stopped = threading.Event()

    def work() -> None:
        end = _End()
        try:
            with contextlib.closing(items):
                for item in items:
                    slots.acquire()
                    if stopped.is_set():
                        return
                    waiting.put(item)
        except BaseException as error:  # passed on to the consumer
            end = _End(error)
        waiting.put(end)

    def taken() -> Iterator[Item]:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            slots.release()
            yield item

    thread = threading.Thread(target=work, name="reader", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        stopped.set()
        slots.release()
        thread.join(FAREWELL)
