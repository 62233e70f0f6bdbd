"""The pictures of docs/compare.md and docs/rank.md, made anew from texts of examples/quickstart.

    python benchmarks/screenshots_compare.py [--output docs/images]

Three made-up systems choose among the texts that the example has for each reference: the better a system, the higher
the ratings of what it chooses. Needs the extra ``report``, selenium, chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from screenshots_explain import browser, keep_small, shot

RATINGS = Path(__file__).parents[1] / "examples" / "quickstart" / "ratings.tsv"
SYSTEMS = {"baseline": 1.4, "tuned": 1.9, "large": 2.0}
"""How far up in the order of ratings each system chooses on average."""

SEGMENTS, SEED = 80, 1


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as kept:
        write_systems(Path(kept))
        texts = ["--hypotheses", *(f"{name}.txt" for name in SYSTEMS), "--references", "references.txt"]
        textmover(kept, "compare", *texts, "--model", "twmd", "--output", "comparison.html")
        rows = ["--data", "outputs.tsv", "--system-column", "system", "--group", "kind", "--score-column", "score"]
        textmover(kept, "rank", *rows, "--model", "twmd", "--output", "ranks.html")
        comparison, ranks = Path(kept, "comparison.html"), Path(kept, "ranks.html")
        with browser(1100, 900) as chrome:
            shot(chrome, comparison, folder / "compare-html.png", height=1500)
        with browser(360, 760, dark=True) as chrome:
            shot(chrome, comparison, folder / "compare-html-narrow-dark.png", height=1500)
        with browser(1100, 900) as chrome:
            shot(chrome, ranks, folder / "rank-html.png", height=1000)
    for name in ("compare-html.png", "compare-html-narrow-dark.png", "rank-html.png"):
        keep_small(folder / name)
        sys.stdout.write(f"{name}: {(folder / name).stat().st_size / 1000:.0f} kB\n")


def write_systems(folder: Path) -> None:
    """Texts of the systems, one file each, and a table with a row for each output."""
    with RATINGS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    of: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        of[row["reference"]].append(row)
    references = list(of)[:SEGMENTS]
    table = ["kind\tsystem\treference\thypothesis\tscore"]
    chance = random.Random(SEED)
    for name, level in SYSTEMS.items():
        chosen = []
        for reference in references:
            ordered = sorted(of[reference], key=lambda row: float(row["score"]))
            chosen.append(ordered[min(len(ordered) - 1, max(0, round(chance.gauss(level, 1))))])
        (folder / f"{name}.txt").write_text("".join(f"{row['hypothesis']}\n" for row in chosen), encoding="utf-8")
        table += [
            f"{('news', 'reviews')[place % 2]}\t{name}\t{row['reference']}\t{row['hypothesis']}\t{row['score']}"
            for place, row in enumerate(chosen)
        ]
    (folder / "references.txt").write_text("".join(f"{one}\n" for one in references), encoding="utf-8")
    (folder / "outputs.tsv").write_text("".join(f"{line}\n" for line in table), encoding="utf-8")


def textmover(folder: str, *arguments: str) -> None:
    """Run a command in a folder."""
    subprocess.run([sys.executable, "-m", "textmover", *arguments, "--quiet"], check=True, cwd=folder)


if __name__ == "__main__":
    main()
