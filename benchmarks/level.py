"""Whether memory, threads and file descriptors stay level: over a long stream, and over scorers made one after another.

python benchmarks/level.py --pairs 200000 --scorers 200
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import harness

from textmover import Scorer

HELD = "| work | memory (MB) | threads | file descriptors |\n|---|---|---|---|"
WORDS = ["a", "cat", "sat", "there", "the", "rain", "fell", "over", "old", "town", "people", "sang", "never", "home"]


def held() -> tuple[float, int, int]:
    """Resident memory in MB, threads and open file descriptors of this process; Linux alone tells them."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir("/proc/self/fd"))


def report(work: str) -> None:
    """Print a row."""
    gc.collect()
    print("| {} | {:.0f} | {} | {} |".format(work, *held()), flush=True)


def stream(pairs: int, distinct: int) -> Iterator[tuple[str, str]]:
    """Pairs of short texts, some of them again and again."""
    for number in range(pairs):
        one = number % distinct
        yield " ".join(WORDS[(one >> shift) % len(WORDS)] for shift in (0, 3, 6, 9)), f"{WORDS[one % 7]} {one}"


def main() -> None:
    """Print the table."""
    options = harness.parser(
        __doc__, model="twmd", backend="torch", pairs=200_000, distinct=20_000, scorers=200
    ).parse_args()
    scorer = Scorer.from_pretrained(options.model, backend=options.backend, device="cpu", cache_bytes=1 << 26)
    print(HELD, flush=True)
    done = shown = 0
    for part in scorer.score_stream(stream(options.pairs, options.distinct)):
        done += len(part)
        if done - shown >= options.pairs // 5:
            shown = done
            report(f"{done:,} pairs")
    report(f"{done:,} pairs, the end")
    for number in range(1, options.scorers + 1):
        Scorer.from_pretrained(options.model, backend=options.backend, device="cpu").score(["a cat"], ["the rain"])
        if number % (options.scorers // 5) == 0:
            report(f"{number} scorers")


if __name__ == "__main__":
    main()
