"""A ladder of training recipes: every rung with every seed, and how each agrees with people.

A ladder is a YAML file with rungs and judgement sets. A rung is a list of stages, each a recipe of ``configs/`` with
keys to change; ``{previous}`` stands for the checkpoint of the stage before, ``{seed}`` for the seed. What each rung
exports is scored on every set::

    python benchmarks/ladder.py configs/ladder/wmt.yaml --output runs/ladder --seeds 1 2 3

A run that was stopped goes on where it was: stages that have exported and sets that have been judged stay. Sets with
``test: true`` are left out unless ``--test`` is given: choose by the others first.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from textmover import Scorer
from textmover.data import Columns, RatingsDataModule, read_segments
from textmover.data.overlap import rows_where
from textmover.meta_evaluation.correlation import grouped_correlations, mean_correlation
from textmover.types import Segment

ROOT = Path(__file__).parents[1]
STATISTICS = ("pearson", "spearman", "kendall")


def run_rung(name: str, stages: list[dict[str, Any]], seed: int, folder: Path) -> str:
    """Train the stages of a rung; returns what scores in the end: a preset, or the last checkpoint."""
    previous = "twmd"
    for number, stage in enumerate(stages):
        if "metric" in stage:  # no training: a preset, or an average of what other rungs exported
            previous = stage["metric"]
            continue
        target = folder / f"stage{number}"
        if not (target / "metric" / "config.json").is_file():
            shutil.rmtree(target, ignore_errors=True)
            changes = {key: _filled(value, seed, previous) for key, value in stage.get("set", {}).items()}
            command = [sys.executable, "train.py", "fit", "--config", stage["config"]]
            command += [part for key, value in changes.items() for part in (f"--{key}", _argument(value))]
            command += ["--seed_everything", str(seed), "--export", str(target / "metric")]
            command += ["--trainer.default_root_dir", str(target), "--trainer.logger", "false"]
            print(f"{name}, seed {seed}, stage {number + 1} of {len(stages)}", flush=True)
            start = time.time()
            with (folder / f"stage{number}.log").open("w") as log:
                subprocess.run(command, cwd=ROOT, check=True, stdout=log, stderr=subprocess.STDOUT)
            print(f"  {time.time() - start:.0f} s", flush=True)
        previous = str(target / "metric")
    return previous


def read_set(entry: dict[str, Any]) -> list[Segment]:
    """The segments of a judgement set, or the part of them that training holds back."""
    columns = Columns(**entry.get("columns", {}))
    if entry.get("held_back"):
        data = RatingsDataModule(entry["files"], columns=columns, held_back=entry["held_back"], scales="as-is")
        data.setup()
        return next(iter(data.parts.values()))
    segments = [one for name in entry["files"] for one in read_segments(name, columns)]
    return rows_where(segments, entry.get("where", {}), ", ".join(entry["files"]))


def judge(scorer: Scorer, segments: list[Segment], group: str | None) -> dict[str, Any]:
    """Mean correlation over groups, and that of each group."""
    scores = scorer.score([one.hypothesis for one in segments], [one.references for one in segments]).scores
    human = np.array([one.score for one in segments], dtype=np.float64)
    labels = ["all" if group is None else one.groups[group] for one in segments]
    sign = 1 if scorer.metric.higher_is_better else -1
    found = grouped_correlations(sign * scores, human, labels)
    mean = mean_correlation(found)
    return {
        **{name: getattr(mean, name) for name in STATISTICS},
        "groups": {name: one.pearson for name, one in found.items()},
    }


def main() -> None:
    """Run what is missing of a ladder, and write the table anew after every rung."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/ladder"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rungs", nargs="+", help="names of rungs; all if not given")
    parser.add_argument("--test", action="store_true", help="score the test sets too")
    options = parser.parse_args()
    ladder = yaml.safe_load(options.ladder.read_text())
    wanted = {name: one for name, one in ladder["sets"].items() if options.test or not one.get("test")}
    sets = {name: (read_set(one), one.get("group")) for name, one in wanted.items()}
    for seed in options.seeds:
        for name, stages in ladder["rungs"].items():
            if options.rungs and name not in options.rungs:
                continue
            folder = options.output / name / f"seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            result = folder / "agreement.json"
            known = json.loads(result.read_text()) if result.is_file() else {}
            if set(sets) <= set(known):
                continue
            scorer = Scorer.from_pretrained(run_rung(name, stages, seed, folder))
            known |= {key: judge(scorer, *one) for key, one in sets.items() if key not in known}
            result.write_text(json.dumps(known, indent=1))
            write_table(options.output)


def write_table(output: Path) -> None:
    """All that has been found so far, one row for each rung, seed and set."""
    with (output / "ladder.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("rung", "seed", "set", *STATISTICS))
        for path in sorted(output.glob("*/seed*/agreement.json")):
            for name, one in json.loads(path.read_text()).items():
                row = (path.parts[-3], path.parts[-2].removeprefix("seed"), name)
                writer.writerow((*row, *(f"{one[key]:.4f}" for key in STATISTICS)))


def _filled(value: Any, seed: int, previous: str) -> Any:
    if isinstance(value, str):
        return value.replace("{previous}", previous).replace("{seed}", str(seed))
    return value


def _argument(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    main()
