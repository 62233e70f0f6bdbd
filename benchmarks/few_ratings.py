"""Measure the gain from training on a few hundred ratings: the table of docs/own-ratings.md.

    python benchmarks/few_ratings.py [--sizes 200 500 1000] [--seeds 1 2 3] [--output runs/few_ratings]

Ratings of translations are sampled from the training part of WMT15-16. A metric is trained on them with
``examples/own_ratings/recipe.yaml``, or with a variant that trains weights instead of LoRA; the last epoch is used. It
is evaluated on the held-out part of WMT15-16, which shares no texts with the training part. The seed determines the
sample, the order of batches and LoRA's initialisation. Finished runs are rows of ``few_ratings.csv`` and are skipped.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import harness
import ladder

from textmover.data import Columns
from textmover.files import atomic_file
from textmover.types import Segment

DATA = ["data:wmt15-da", "data:wmt16-da"]
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
"""Overrides of the recipe, by name."""

FIELDS = ("ratings", "recipe", "seed", "segments", "before", "after", "interval", "gain", "gain_interval")


def parts() -> tuple[list[Segment], list[Segment]]:
    """Return the pool to sample from and the held-out segments."""
    data = harness.ratings(DATA, columns=Columns(groups=("lp",)), held_back=HELD_BACK, scales="as-is")
    (source,) = data.sources.values()
    return list(source.items), list(next(iter(data.parts.values())))


def write(path: Path, segments: Sequence[Segment]) -> Path:
    with atomic_file(path) as stream:
        for one in segments:
            row = {"hypothesis": one.hypothesis, "reference": one.references[0], "score": one.score, **one.groups}
            stream.write(json.dumps(row) + "\n")
    return path


def train(folder: Path, training: Path, held_back: Path, seed: int, changes: dict[str, object]) -> list[str]:
    """Train a metric; return the cells of the card's row with Pearson's correlation."""
    columns = {"hypothesis": "hypothesis", "references": ["reference"], "score": "score", "groups": ["lp"]}
    data = {"train": [str(training)], "validation": [str(held_back)], "columns": columns, "group": "lp", "notice": None}
    settings = {f"data.init_args.{name}": value for name, value in data.items()} | {"trainer.callbacks": [], **changes}
    target = folder / "metric"
    ladder.train({"config": "examples/own_ratings/recipe.yaml", "set": settings}, "", seed, target)
    card = (target / "README.md").read_text(encoding="utf-8")
    match = re.search(r"^\|[^|]+\| (\d+) \| pearson \|([^\n]*)\|$", card, re.MULTILINE)
    if match is None:
        raise SystemExit(f"Expected the agreement with people in {target}/README.md, but found none.")
    return [match[1], *(cell.strip() for cell in match[2].split("|"))]


def main() -> None:
    options = harness.parser(
        __doc__, sizes=[200, 500, 1000], seeds=[1, 2, 3], output=Path("runs/few_ratings"), recipes=RECIPES
    ).parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    pool, held_back = parts()
    judged = write(output / "held_back.jsonl", held_back)
    for recipe, size, seed in itertools.product(options.recipes, options.sizes, options.seeds):

        def run(recipe: str = recipe, size: int = size, seed: int = seed) -> dict[str, str]:
            folder = output / f"{recipe}, {size}, seed {seed}".replace(" ", "_")
            folder.mkdir(exist_ok=True)
            drawn = write(folder / "ratings.jsonl", random.Random(seed).sample(pool, size))
            found = train(folder, drawn, judged, seed, RECIPES[recipe])
            return dict(zip(FIELDS[3:], found, strict=True))

        key = {"ratings": str(size), "recipe": recipe, "seed": str(seed)}
        row = harness.cached_row(output / "few_ratings.csv", FIELDS, key, run)
        print(" | ".join(row[name] for name in FIELDS), flush=True)


if __name__ == "__main__":
    main()
