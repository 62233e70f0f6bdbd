"""Shared parts of the benchmarks: options, timing of candidates in turn, tables beside a peer, kept results."""

from __future__ import annotations

import argparse
import csv
import logging
import os
import platform
import random
import resource
import statistics
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """A parser of paths that have to be given, and of an option for each default: its type is that of the default.

    A tuple of texts are choices, of which the first is the default; of the keys of a mapping several are chosen, by
    default all; a list takes several values; ``False`` is a switch; a type stands for an option that is ``None`` if
    not given.

    Example:
        >>> vars(parser("A test.", "file", pairs=10, size=("large", "tiny"), output=Path).parse_args(["a.tsv"]))
        {'file': PosixPath('a.tsv'), 'pairs': 10, 'size': 'large', 'output': None}
    """
    formatter = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=document, formatter_class=formatter, allow_abbrev=False)
    for path in paths:
        made.add_argument(path, type=Path)
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
        elif isinstance(default, dict):
            made.add_argument(flag, nargs="+", choices=list(default), default=list(default))
        elif isinstance(default, list):
            made.add_argument(flag, nargs="*", type=type(default[0]) if default else str, default=default)
        else:
            made.add_argument(flag, type=type(default), default=default)


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One measurement: seconds on the wall, those of the processors added up, its result, and what ran."""

    seconds: float
    processor: float
    result: Any = None
    note: str = ""


def timed(work: Callable[[], object], note: str = "", scale: float = 1.0) -> Run:
    """One measurement of a piece of work; seconds are multiplied by ``scale``."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return Run(scale * (time.perf_counter() - wall), scale * (time.process_time() - processor), result, note)


def seconds(work: Callable[[], object]) -> float:
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
    return statistics.median(getattr(one, field) for one in runs)


def spread(values: Sequence[float], pattern: str = ".2f") -> str:
    """The median of values, with the least and the most: ``3.00 (2.00 to 4.00)``."""
    return f"{statistics.median(values):{pattern}} ({min(values):{pattern}} to {max(values):{pattern}})"


def peer_table(
    runs: Mapping[str, Sequence[Run]],
    base: str,
    amount: float,
    further: Mapping[str, Callable[[str, Run], object]] | None = None,
) -> str:
    """A table of candidates with pairs per second, how many times those of ``base``, further columns, and notes."""
    further = further or {}
    rows = []
    for name, found in runs.items():
        took = middle(found)
        ratio = f"{middle(runs[base]) / took:.2f}" if base in runs else ""
        cells = [spread([one.seconds for one in found]), f"{middle(found, 'processor'):.1f}", f"{amount / took:,.1f}"]
        rows.append([name, *cells, ratio, *(column(name, found[0]) for column in further.values())])
    headers = ["candidate", "s (least to most)", "processor s", "pairs/s", f"× {base}", *further]
    notes = [f"- {name}: {found[0].note}" for name, found in runs.items() if found[0].note]
    return "\n".join([table(headers, rows), "", *notes])


def process_status() -> dict[str, str]:
    """Facts about this process; empty but on Linux."""
    path = Path("/proc/self/status")
    return dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines()) if path.is_file() else {}


def peak_memory(device: str = "cpu") -> float:
    """Largest memory of this process, or of the GPU, so far, in MB of 2^20 bytes."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**20
    if status := process_status():  # what getrusage reports begins with the memory of the one that started it
        return int(status["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def quiet() -> None:
    """Silence warnings, and what packages log beside their results."""
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning_fabric", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)


def trainer(**options: Any) -> Any:
    """A trainer of Lightning that shows and keeps nothing, over data that deal out their batches themselves."""
    import pytorch_lightning as pl

    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    return pl.Trainer(devices=1, num_sanity_val_steps=0, **dict.fromkeys(off, False), **options)


# --- made texts -------------------------------------------------------------------------------------------------------


def word_pairs(
    draw: random.Random, count: int, words: Sequence[str], length: Callable[[], int], changed: float
) -> Iterator[tuple[str, str]]:
    """Hypotheses and references of drawn lengths; ``changed`` is the share of a reference's words that are others."""
    for _ in range(count):
        reference = draw.choices(words, k=length())
        hypothesis = [draw.choice(words) if draw.random() < changed else word for word in reference]
        yield " ".join(hypothesis), " ".join(reference)


# --- reporting --------------------------------------------------------------------------------------------------------


def versions(*packages: str) -> str:
    """Packages with their versions; those that are not installed with ``no`` before them."""

    def one(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"no {package}"

    return ", ".join(map(one, packages))


def processor(threads: int | None = None, device: str = "cpu") -> str:
    """Architecture, vector instructions and threads of the processor; the name of a GPU."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    count = threads or torch.get_num_threads()
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {capability}, {count} thread{'s' * (count > 1)} of {os.cpu_count()}"


def table(
    headers: Sequence[object], rows: Iterable[Sequence[object]], texts: int | None = 1, *, show: bool = False
) -> str:
    """A Markdown table whose first columns are texts and whose others are numbers; ``None``: all are texts.

    ``show`` prints each row as soon as it is there.
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
    """Print a text, and write it where a path is given."""
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def interval(found: Any, pattern: str = ".3f", mark: str = "") -> str:
    """An estimate between marks, with the ends of its interval: ``**0.500** (0.250 to 0.750)``."""
    return f"{mark}{found.estimate:{pattern}}{mark} ({found.low:{pattern}} to {found.high:{pattern}})"


# --- files ------------------------------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def ratings(files: Sequence[str], **options: Any) -> Any:
    from textmover.data import RatingsDataModule

    data = RatingsDataModule(files, **options)
    data.setup()
    return data


def kept_array(path: Path, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """An array of a file, made and written where it is missing."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = make()
        with atomic_bytes(path) as stream:
            np.save(stream, found)
    return np.load(path)


def read_rows(path: Path) -> list[Row]:
    """Rows of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """Write a CSV file, by default with the columns of the first row."""
    with atomic_file(path) as stream:
        writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def kept_row(path: Path, columns: Sequence[str], key: Row, make: Callable[[], Row]) -> Row:
    """The row of a run: that of a file, or a new one, which is written at once."""
    row = next((one for one in read_rows(path) if key.items() <= one.items()), None)
    if row is None:
        row = {**key, **make()}
        write_rows(path, [*read_rows(path), row], columns)
    return row
