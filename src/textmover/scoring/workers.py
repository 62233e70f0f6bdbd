"""Work spread over threads, each of which computes on its share of the processor."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["spread", "worker_count"]

MOST = 8
"""Workers at most; on larger processors each has several threads of its own."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def worker_count(device: torch.device) -> int:
    """How many batches are worked on at a time: one on a GPU, else one for each thread that torch may use.

    Two threads that each take a batch of their own are faster than two that share every matrix product, since they
    never wait for one another and small batches stay in their caches.
    """
    return min(torch.get_num_threads(), MOST) if device.type == "cpu" else 1


def spread(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Results of ``work`` in the order of the items, which are drawn only a few ahead.

    While it runs, torch computes with as many threads in each worker as make up those that it had; a single item has
    them all. Where an item fails, the others that wait are dropped.

    Args:
        work: Called in one of the workers' threads, without gradients.
        items: What to work on.
        workers: Threads; 1 works in the caller's own.

    Example:
        >>> list(spread(lambda item: item * item, range(5), workers=2))
        [0, 1, 4, 9, 16]
    """

    def guarded(item: Item) -> Result:
        with torch.inference_mode():  # which each thread has to enter for itself
            return work(item)

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
