"""What a few hundred ratings bring: the table of docs/own-ratings.md.

    python benchmarks/few_ratings.py [--sizes 200 500 1000] [--seeds 1 2 3] [--output runs/few_ratings]

So many ratings of translations are drawn from the training part of WMT15-16, and a metric is trained on all of them by
``examples/own_ratings/recipe.yaml`` (or by one with weights in place of LoRA), the last epoch, chosen by nothing. It is
judged on the held-back part of WMT15-16, no text of which is among what was drawn from. The seed draws the ratings,
orders the batches and starts LoRA. A run that has ended is a row of ``few_ratings.csv`` and is not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from textmover.data import Columns, RatingsDataModule
from textmover.files import atomic_file
from textmover.types import Segment

ROOT = Path(__file__).resolve().parents[1]
DATA = [f"../shared/data/wmt_da/newstest{year}_da_toen.tsv" for year in (2015, 2016)]
HELD_BACK = 0.15
RECIPES: dict[str, dict[str, object]] = {
    "this recipe": {},
    "weights of the upper three layers, rate 1e-4": {
        "model.init_args.lora": None,
        "model.init_args.optimizer.learning_rate": 1e-4,
        "model.init_args.overrides.freeze_layers": 3,
        "adapter": None,
    },
}
"""What is changed in the recipe."""

FIELDS = ("ratings", "recipe", "seed", "segments", "before", "after", "interval", "gain", "gain_interval")


def parts() -> tuple[list[Segment], list[Segment]]:
    """What is drawn from, and what is held back."""
    data = RatingsDataModule(
        [str(ROOT / one) for one in DATA], columns=Columns(groups=("lp",)), held_back=HELD_BACK, scales="as-is"
    )
    data.setup()
    (source,) = data.sources.values()
    return list(source.items), list(next(iter(data.parts.values())))


def write(path: Path, segments: Sequence[Segment]) -> Path:
    """Segments as a file that training reads."""
    with atomic_file(path) as stream:
        for one in segments:
            row = {"hypothesis": one.hypothesis, "reference": one.references[0], "score": one.score, **one.groups}
            stream.write(json.dumps(row) + "\n")
    return path


def train(folder: Path, training: Path, held_back: Path, seed: int, changes: dict[str, object]) -> list[str]:
    """Train as a user would; returns the cells of the row on Pearson's correlation in the card."""
    target = folder / "metric"
    settings: dict[str, object] = {
        "data.init_args.train": [str(training)],
        "data.init_args.validation": [str(held_back)],
        "data.init_args.columns": {
            "hypothesis": "hypothesis", "references": ["reference"], "score": "score", "groups": ["lp"],
        },
        "data.init_args.group": "lp",
        "data.init_args.notice": None,
        "trainer.default_root_dir": str(folder),
        "trainer.logger": False,
        "trainer.callbacks": [],
        **changes,
        "seed_everything": seed,
        "data.init_args.seed": seed,
        "export": str(target),
    }  # fmt: skip
    command = [sys.executable, "train.py", "fit", "--config", "examples/own_ratings/recipe.yaml"]
    for name, value in settings.items():
        command += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    with (folder / "train.log").open("w") as log:
        subprocess.run(command, cwd=ROOT, check=True, stdout=log, stderr=subprocess.STDOUT)
    card = (target / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^\|[^|]+\| (\d+) \| pearson \|([^\n]*)\|$", card, re.MULTILINE)
    if found is None:
        raise SystemExit(f"Expected the agreement with people in {target}/README.md, but found none.")
    return [found[1], *(cell.strip() for cell in found[2].split("|"))]


def read_rows(path: Path) -> list[dict[str, str]]:
    """What has been run."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--output", type=Path, default=Path("runs/few_ratings"))
    options = parser.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    pool, held_back = parts()
    judged = write(output / "held_back.jsonl", held_back)
    table = output / "few_ratings.csv"
    for recipe in options.recipes:
        for size in options.sizes:
            for seed in options.seeds:
                key = {"ratings": str(size), "recipe": recipe, "seed": str(seed)}
                if any(key.items() <= one.items() for one in read_rows(table)):
                    continue
                folder = output / f"{recipe}, {size}, seed {seed}".replace(" ", "_")
                folder.mkdir(exist_ok=True)
                drawn = write(folder / "ratings.jsonl", random.Random(seed).sample(pool, size))
                found = train(folder, drawn, judged, seed, RECIPES[recipe])
                rows = [*read_rows(table), dict(zip(FIELDS, [*key.values(), *found], strict=True))]
                with atomic_file(table) as stream:
                    writer = csv.DictWriter(stream, FIELDS)
                    writer.writeheader()
                    writer.writerows(rows)
                print(" | ".join([*key.values(), *found]), flush=True)


if __name__ == "__main__":
    main()
