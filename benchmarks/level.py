"""Check for leaks of memory, threads and file descriptors, over a long stream and over many successive scorers.

python benchmarks/level.py --pairs 200000 --scorers 200
"""

from __future__ import annotations

import gc
import os
from argparse import Namespace
from collections.abc import Iterator

import harness

from textmover import Scorer

WORDS = ["a", "cat", "sat", "there", "the", "rain", "fell", "over", "old", "town", "people", "sang", "never", "home"]


def resources() -> tuple[float, int, int]:
    """Return resident memory in MB, threads and open file descriptors of this process (Linux only)."""
    status = harness.process_status()
    return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir("/proc/self/fd"))


def row(work: str) -> list[object]:
    gc.collect()
    memory, *others = resources()
    return [work, f"{memory:.0f}", *others]


def stream(pairs: int, distinct: int) -> Iterator[tuple[str, str]]:
    for number in range(pairs):
        one = number % distinct
        yield " ".join(WORDS[(one >> shift) % len(WORDS)] for shift in (0, 3, 6, 9)), f"{WORDS[one % 7]} {one}"


def rows(options: Namespace) -> Iterator[list[object]]:
    scorer = Scorer.from_pretrained(options.model, backend=options.backend, device="cpu", cache_bytes=1 << 26)
    done = shown = 0
    for part in scorer.score_stream(stream(options.pairs, options.distinct)):
        done += len(part)
        if done - shown >= options.pairs // 5:
            shown = done
            yield row(f"{done:,} pairs")
    yield row(f"{done:,} pairs, the end")
    for number in range(1, options.scorers + 1):
        Scorer.from_pretrained(options.model, backend=options.backend, device="cpu").score(["a cat"], ["the rain"])
        if number % (options.scorers // 5) == 0:
            yield row(f"{number} scorers")


if __name__ == "__main__":
    headers = ("work", "memory (MB)", "threads", "file descriptors")
    given = harness.parser(__doc__, model="twmd", backend="torch", pairs=200_000, distinct=20_000, scorers=200)
    harness.print_table(headers, rows(given.parse_args()), texts=None)
