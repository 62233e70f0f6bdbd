"""The table of trained metrics on WMT17, from the list of all runs: each seed, and their mean with its interval.

    python benchmarks/wmt17_table.py [docs/results/wmt17_runs.csv]

Seeds of one recipe (configuration and hash) stand together. The interval is that of the mean, by Student's t over the
seeds, from the figures of the list, which have four decimals; what is printed is rounded to three at the very end.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

RUNS = Path(__file__).parents[1] / "docs" / "results" / "wmt17_runs.csv"
COLUMNS = ("mean_pearson", "cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en", "mean_kendall")
CONFIDENCE = 0.95


def table(runs: Sequence[dict[str, str]]) -> Iterator[str]:
    """Lines of Markdown for all runs that were trained and have every figure."""
    yield f"| run | {' | '.join(name.removeprefix('mean_') for name in COLUMNS)} |"
    yield f"|---|{'---|' * len(COLUMNS)}"
    recipes: dict[tuple[str, str], list[dict[str, str]]] = {}
    for run in runs:
        if run["trained_on"] != "no" and all(run[name] for name in COLUMNS):
            recipes.setdefault((run["configuration"], run["configuration_sha256"]), []).append(run)
    for (configuration, sha256), found in recipes.items():
        label = f"`{configuration}` {sha256}"
        values = np.array([[float(run[name]) for name in COLUMNS] for run in found])
        for run, row in zip(found, values, strict=True):
            yield f"| {label}, seed {run['seed']} | {' | '.join(map(shown, row))} |"
        if len(found) > 1:
            cells = [
                f"{shown(mean)} ± {shown(half)}"
                for mean, half in zip(values.mean(axis=0), half_widths(values), strict=True)
            ]
            yield f"| {label}, mean of {len(found)} ± 95 % | {' | '.join(cells)} |"


def half_widths(values: np.ndarray) -> np.ndarray:
    """Half of the interval of each column's mean, by Student's t over the rows ``[n, m]``.

    Example:
        >>> half_widths(np.array([[1.0], [2.0], [3.0]])).round(3).tolist()
        [2.484]
    """
    count = len(values)
    factor: float = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)
    widths: np.ndarray = factor * values.std(axis=0, ddof=1) / np.sqrt(count)
    return widths


def shown(value: float) -> str:
    """Three decimals, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=RUNS)
    with parser.parse_args().runs.open(newline="", encoding="utf-8") as stream:
        print("\n".join(table(list(csv.DictReader(stream)))))


if __name__ == "__main__":
    main()
