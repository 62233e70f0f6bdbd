"""Shared parts of the benchmarks: options, timing of candidates in turn, tables beside a peer, kept rows."""

from __future__ import annotations

import argparse
import csv
import math
import os
import platform
import resource
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from textmover.files import atomic_file
from textmover.readers.named.catalogue import data_folder

ROOT = Path(__file__).resolve().parents[1]
SHARED = data_folder()
"""Folder of the public sets."""

T = TypeVar("T")
Row = dict[str, str]


# --- options ----------------------------------------------------------------------------------------------------------


def parser(document: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser with an option for each default: its type is that of the default.

    A tuple of texts are choices, of which the first is the default; a list takes several values; ``False`` is a
    switch; a type stands for an option that is ``None`` if not given.

    Example:
        >>> vars(parser("A test.", pairs=10, size=("large", "tiny"), output=Path).parse_args(["--pairs", "3"]))
        {'pairs': 3, 'size': 'large', 'output': None}
    """
    made = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_options(made, **options)
    return made


def add_options(made: argparse.ArgumentParser, **options: Any) -> None:
    """Add options to a parser, see :func:`parser`."""
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            made.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            made.add_argument(flag, type=default)
        elif isinstance(default, tuple):
            made.add_argument(flag, choices=default, default=default[0])
        elif isinstance(default, list):
            made.add_argument(flag, nargs="*", type=type(default[0]) if default else str, default=default)
        else:
            made.add_argument(flag, type=type(default), default=default)


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One measurement: seconds on the wall, those of the processors added up, its result, and what ran."""

    seconds: float
    processor: float = math.nan
    result: Any = None
    note: str = ""


def timed(work: Callable[[], object], note: str = "", scale: float = 1.0) -> Run:
    """Time a piece of work; seconds are multiplied by ``scale``."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return Run(scale * (time.perf_counter() - wall), scale * (time.process_time() - processor), result, note)


def seconds(work: Callable[[], object]) -> float:
    """Seconds that a piece of work takes on the wall."""
    return timed(work).seconds


def rounds(
    ways: Mapping[str, Callable[[], T]], repetitions: int, shown: Callable[[T], str] | None = None
) -> dict[str, list[T]]:
    """Measure every way once in each round: what slows the machine for a while slows all of them."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    for repetition in range(repetitions):
        for name, way in ways.items():
            found[name].append(way())
            if shown is not None:
                print(repetition, name, shown(found[name][-1]), flush=True)
    return found


def middle(runs: Iterable[Run], field: str = "seconds") -> float:
    """Median seconds of several runs."""
    return statistics.median(getattr(one, field) for one in runs)


def spread(values: Sequence[float], pattern: str = ".2f") -> str:
    """The median of values, with the least and the most.

    Example:
        >>> spread([3.0, 2.0, 4.0])
        '3.00 (2.00 to 4.00)'
    """
    return f"{statistics.median(values):{pattern}} ({min(values):{pattern}} to {max(values):{pattern}})"


def peer_table(
    runs: Mapping[str, Sequence[Run]],
    base: str,
    amount: float,
    unit: str,
    further: Mapping[str, Callable[[str, Run], object]] | None = None,
) -> str:
    """A table of candidates with their speed, how many times it is that of ``base``, further columns, and notes."""
    further = further or {}
    rows = []
    for name, found in runs.items():
        ratio = middle(runs[base]) / middle(found) if base in runs else math.nan
        cells = [
            or_nothing(middle(found, "processor"), ".1f"),
            f"{amount / middle(found):,.1f}",
            or_nothing(ratio, ".2f"),
        ]
        times = spread([one.seconds for one in found])
        rows.append([name, times, *cells, *(column(name, found[0]) for column in further.values())])
    headers = ["candidate", "s (least to most)", "processor s", f"{unit}/s", f"× {base}", *further]
    notes = [f"- {name}: {found[0].note}" for name, found in runs.items() if found[0].note]
    return "\n".join([table(headers, rows), "", *notes])


def or_nothing(value: float, pattern: str) -> str:
    """A number, or nothing where there is none."""
    return "" if math.isnan(value) else f"{value:{pattern}}"


def deviations(values: Any, exact: Any) -> tuple[str, str]:
    """Largest deviation of values from others, and Pearson's correlation with them; empty where one is lacking."""
    if values is None or exact is None:
        return "", ""
    return f"{np.abs(np.subtract(values, exact)).max():.1e}", f"{np.corrcoef(values, exact)[0, 1]:.6f}"


def peak_memory() -> float:
    """Largest memory of this process so far, in MB of 2^20 bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage reports begins with the memory of the one that started it
        found = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(found.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


# --- reporting --------------------------------------------------------------------------------------------------------


def versions(*packages: str) -> str:
    """Packages with their versions.

    Example:
        >>> versions("no-such-package")
        'no no-such-package'
    """

    def one(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"no {package}"

    return ", ".join(map(one, packages))


def processor(threads: int | None = None) -> str:
    """Architecture, vector instructions and threads of the processor."""
    import torch

    count = threads or torch.get_num_threads()
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {capability}, {count} thread{'s' * (count > 1)} of {os.cpu_count()}"


def table_lines(headers: Sequence[object], rows: Iterable[Sequence[object]], texts: int | None = 1) -> Iterator[str]:
    """Lines of a Markdown table, one as soon as its row is there, see :func:`table`."""
    left = len(headers) if texts is None else texts
    yield f"| {' | '.join(map(str, headers))} |"
    yield f"|{'---|' * left}{'--:|' * (len(headers) - left)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def table(headers: Sequence[object], rows: Iterable[Sequence[object]], texts: int | None = 1) -> str:
    """A Markdown table whose first columns are texts and whose others are numbers; ``None``: all are texts.

    Example:
        >>> print(table(["a", "b"], [["x", 1]]))
        | a | b |
        |---|--:|
        | x | 1 |
    """
    return "\n".join(table_lines(headers, rows, texts))


def print_table(headers: Sequence[object], rows: Iterable[Sequence[object]], texts: int | None = 1) -> None:
    """Print a table, each row as soon as it is there."""
    for line in table_lines(headers, rows, texts):
        print(line, flush=True)


def write(path: Path | None, text: str) -> None:
    """Print a text, and write it where a path is given."""
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def wrapped(text: str) -> str:
    """A paragraph in lines of the project's width."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


# --- kept rows --------------------------------------------------------------------------------------------------------


def read_rows(path: Path) -> list[Row]:
    """Rows of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a CSV file; an earlier one stays until the new one is whole."""
    with atomic_file(path) as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def kept_row(path: Path, columns: Sequence[str], key: Row, make: Callable[[], Row]) -> Row:
    """The row of a run: that of a file, or a new one, which is written at once."""
    row = next((one for one in read_rows(path) if key.items() <= one.items()), None)
    if row is None:
        row = {**key, **make()}
        write_rows(path, columns, [*read_rows(path), row])
    return row
