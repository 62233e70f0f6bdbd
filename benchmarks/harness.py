"""Shared utilities of the benchmarks: options, interleaved timing, comparison tables, cached results."""

from __future__ import annotations

import argparse
import csv
import logging
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray

from textmover.files import atomic_bytes, atomic_file
from textmover.readers.public_sets.catalogue import data_folder

ROOT = Path(__file__).resolve().parents[1]
SHARED = data_folder()  # folder of the public sets

T = TypeVar("T")
Row = dict[str, str]


# --- options ----------------------------------------------------------------------------------------------------------


def parser(document: str | None, *paths: str, **options: Any) -> argparse.ArgumentParser:
    """Build a parser with required path arguments and an option for each default, whose type is that of the default.

    A tuple lists choices; the first is the default. A mapping allows several of its keys, by default all. A list takes
    several values. ``False`` is a switch. A type makes an option whose default is ``None``.

    Example:
        >>> vars(parser("A test.", "file", pairs=10, size=("large", "tiny"), output=Path).parse_args(["a.tsv"]))
        {'file': PosixPath('a.tsv'), 'pairs': 10, 'size': 'large', 'output': None}
    """
    formatter = argparse.RawDescriptionHelpFormatter
    result = argparse.ArgumentParser(description=document, formatter_class=formatter, allow_abbrev=False)
    for path in paths:
        result.add_argument(path, type=Path)
    add_options(result, **options)
    return result


def add_options(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Add options to a parser; for the rules see :func:`parser`."""
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        elif isinstance(default, tuple):
            parser.add_argument(flag, choices=default, default=default[0])
        elif isinstance(default, dict):
            parser.add_argument(flag, nargs="+", choices=list(default), default=list(default))
        elif isinstance(default, list):
            parser.add_argument(flag, nargs="*", type=type(default[0]) if default else str, default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One measurement: wall seconds, total CPU seconds, result, and a note on what ran."""

    seconds: float
    processor: float
    result: Any = None
    note: str = ""


def timed(work: Callable[[], object], note: str = "", scale: float = 1.0) -> Run:
    """Measure a function call; seconds are multiplied by ``scale``."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return Run(scale * (time.perf_counter() - wall), scale * (time.process_time() - processor), result, note)


def seconds(work: Callable[[], object]) -> float:
    return timed(work).seconds


def rounds(
    ways: Mapping[str, Callable[[], T]], repetitions: int, shown: Callable[[T], str] | None = None
) -> dict[str, list[T]]:
    """Measure each candidate once per round, so that a temporary slowdown affects all candidates."""
    runs: dict[str, list[T]] = {name: [] for name in ways}
    for repetition in range(repetitions):
        for name, measure in ways.items():
            runs[name].append(measure())
            if shown is not None:
                print(repetition, name, shown(runs[name][-1]), flush=True)
    return runs


def median(runs: Iterable[Run], field: str = "seconds") -> float:
    return statistics.median(getattr(one, field) for one in runs)


def spread(values: Sequence[float], pattern: str = ".2f") -> str:
    """Format the median of values with minimum and maximum: ``3.00 (2.00 to 4.00)``."""
    return f"{statistics.median(values):{pattern}} ({min(values):{pattern}} to {max(values):{pattern}})"


def peer_table(
    runs: Mapping[str, Sequence[Run]],
    base: str,
    amount: float,
    extra: Mapping[str, Callable[[str, Run], object]] | None = None,
) -> str:
    """Format a table of candidates: pairs per second, speed relative to ``base``, further columns, and notes."""
    extra = extra or {}
    rows = []
    for name, times in runs.items():
        wall = median(times)
        ratio = f"{median(runs[base]) / wall:.2f}" if base in runs else ""
        cells = [spread([one.seconds for one in times]), f"{median(times, 'processor'):.1f}", f"{amount / wall:,.1f}"]
        rows.append([name, *cells, ratio, *(column(name, times[0]) for column in extra.values())])
    headers = ["candidate", "s (least to most)", "processor s", "pairs/s", f"× {base}", *extra]
    notes = [f"- {name}: {times[0].note}" for name, times in runs.items() if times[0].note]
    return "\n".join([table(headers, rows), "", *notes])


def process_status() -> dict[str, str]:
    """Return the status fields of this process; empty except on Linux."""
    path = Path("/proc/self/status")
    return dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines()) if path.is_file() else {}


def peak_memory(device: str = "cpu") -> float:
    """Return the peak memory of this process or of the GPU, in MB of 2^20 bytes."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**20
    if status := process_status():  # getrusage includes the peak memory of the parent process
        return int(status["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def in_process(work: Callable[..., T], *arguments: Any, cores: int = 0) -> T:
    """Call a function in a new process, on the first ``cores`` processors (0: all), and return its result."""
    allowed = os.sched_getaffinity(0) if cores else None
    if cores:
        os.sched_setaffinity(0, range(cores))  # inherited by the new process, in which libraries count processors
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(work, *arguments).result()
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


def quiet() -> None:
    """Silence warnings and the log messages of packages."""
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning_fabric", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)


def trainer(**options: Any) -> Any:
    """Build a Lightning trainer without output and checkpoints, for data modules with their own batch samplers."""
    import pytorch_lightning as pl

    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    return pl.Trainer(devices=1, num_sanity_val_steps=0, **dict.fromkeys(off, False), **options)


# --- reporting --------------------------------------------------------------------------------------------------------


def versions(*packages: str) -> str:
    """List packages with their versions, or as ``no PACKAGE`` if not installed."""

    def describe(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"no {package}"

    return ", ".join(map(describe, packages))


def processor(threads: int | None = None, device: str = "cpu") -> str:
    """Describe the processor (architecture, vector instructions, threads) or return the name of the GPU."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    count = threads or torch.get_num_threads()
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {capability}, {count} thread{'s' * (count > 1)} of {os.cpu_count()}"


def table(
    headers: Sequence[object], rows: Iterable[Sequence[object]], texts: int | None = 1, *, show: bool = False
) -> str:
    """Format a Markdown table whose first ``texts`` columns are left-aligned; ``None`` left-aligns all.

    ``show`` prints each row as soon as it is available.
    """
    left = len(headers) if texts is None else texts
    lines = [f"| {' | '.join(map(str, headers))} |", f"|{'---|' * left}{'--:|' * (len(headers) - left)}"]
    if show:
        print("\n".join(lines), flush=True)
    for row in rows:
        lines.append(f"| {' | '.join(map(str, row))} |")
        if show:
            print(lines[-1], flush=True)
    return "\n".join(lines)


print_table = partial(table, show=True)


def print_rows(rows: Sequence[Row], texts: int | None = 1) -> None:
    print_table(list(rows[0]), [list(row.values()) for row in rows], texts)


def write(path: Path | None, text: str) -> None:
    """Print a text, and write it to ``path`` unless it is ``None``."""
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def interval(found: Any, pattern: str = ".3f", mark: str = "") -> str:
    """Format an estimate between marks, with its interval: ``**0.500** (0.250 to 0.750)``."""
    return f"{mark}{found.estimate:{pattern}}{mark} ({found.low:{pattern}} to {found.high:{pattern}})"


# --- files ------------------------------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def ratings(files: Sequence[str], **options: Any) -> Any:
    from textmover.data import RatingsDataModule

    data = RatingsDataModule(files, **options)
    data.setup()
    return data


def cached_array(path: Path, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Load an array from a file; compute and write it first if the file is missing."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = make()
        with atomic_bytes(path) as stream:
            np.save(stream, found)
    return np.load(path)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a CSV file; empty if the file is missing."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """Write a CSV file. Default columns: those of the first row."""
    with atomic_file(path) as stream:
        writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def cached_row(path: Path, columns: Sequence[str], key: Row, make: Callable[[], Row]) -> Row:
    """Return the row of a run from a CSV file; compute and append it first if missing."""
    row = next((candidate for candidate in read_rows(path) if key.items() <= candidate.items()), None)
    if row is None:
        row = {**key, **make()}
        write_rows(path, [*read_rows(path), row], columns)
    return row
