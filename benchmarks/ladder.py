"""A ladder of training recipes: every rung with every seed, and how each agrees with people.

A ladder is a YAML file with rungs and judgement sets. A rung is a list of stages, which are one of these:

* ``{config: configs/wmt_da.yaml, set: {key: value}}``: a recipe with keys to change; ``{previous}`` stands for the
  checkpoint of the stage before, ``{seed}`` for the seed;
* ``{metric: twmd}``: a preset or a checkpoint as it is;
* ``{rung: ratings}``: what another rung ended with, for the same seed;
* ``{average: ratings}``: the mean of the weights that another rung ended with, over all seeds; of several rungs with
  ``{average: [ratings, mixture]}``, or ``{average: {ratings: 0.3, mixture: 0.7}}`` where they count differently;
* ``{untrained: 0.5}``: the stage before, with this share of the untrained encoder;
* ``{adapter: 34}``: the stage before, stored as an adapter of this mean rank.

What each rung ends with is scored on every set::

    python benchmarks/ladder.py configs/ladder/wmt.yaml --output runs/ladder --seeds 1 2 3

A ladder that was stopped goes on where it was: stages that have exported and sets that have been judged stay, and a
training is resumed. Each stage notes what it is made of (``made.json``), so that nothing of an earlier recipe is taken.
Several may run beside one another with the same output, as long as their rungs differ. Sets with ``test: true`` are
left out unless ``--test`` is given: choose by the others first. ``compare: source`` or ``both`` gives a set's sources
in place of its references, or beside them. ``ladder.csv`` has every figure, ``ladder.md`` the means over seeds with the
lowest and the highest.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
import yaml
from harness import ROOT
from numpy.typing import NDArray

from textmover import Scorer
from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.averaging import average_metrics, interpolate
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import save_checkpoint
from textmover.checkpoints.statistics_files import fitted_names
from textmover.data import Columns, RatingsDataModule, read_segments
from textmover.data.leakage import rows_where
from textmover.files import atomic_file
from textmover.meta_evaluation import Correlation, MeanCorrelation, grouped_correlations, mean_correlation
from textmover.types import Segment, SegmentMetric

MADE = "made.json"
STATISTICS = ("pearson", "spearman", "kendall")
WATCHING = ("LearningCurves",)  # callbacks that only look on: with or without them, a recipe makes the same metric


@dataclass(frozen=True)
class Ladder:
    """A ladder, and where its results are; weights that are mixed are fitted on its texts and rated segments."""

    rungs: dict[str, list[dict[str, Any]]]
    output: Path
    seeds: list[int]
    texts: list[str]
    rated: list[Segment] | None = None

    def run(self, name: str, seed: int | None) -> str:
        """Run the stages of a rung that have not been run; returns what scores in the end."""
        folder = self.folder(name, seed)
        folder.mkdir(parents=True, exist_ok=True)
        previous = "twmd"
        for number, stage in enumerate(self.rungs[name]):
            target = folder / f"stage{number}" / "metric"
            if "metric" in stage:
                previous = stage["metric"]
            elif "rung" in stage:
                previous = self.run(stage["rung"], seed)
            else:
                check_made(target, self._made_of(stage, previous, seed))
                if not (target / "config.json").is_file():
                    self._make(stage, previous, seed, target, f"{name}, seed {seed}, stage {number + 1}")
                previous = str(target)
        return previous

    def agreement(self, name: str, seed: int | None, sets: dict[str, Judged]) -> dict[str, dict[str, Any]]:
        """How what a rung ends with agrees with people on each set; what was found before is kept."""
        made, result = self.run(name, seed), self.folder(name, seed) / "agreement.json"
        known: dict[str, dict[str, Any]] = json.loads(result.read_text()) if result.is_file() else {}
        if missing := {key: one for key, one in sets.items() if key not in known}:
            scorer = Scorer.from_pretrained(made)
            known |= {key: judge(scorer, one) for key, one in missing.items()}
            with atomic_file(result) as stream:
                json.dump(known, stream, indent=1)
        return known

    def folder(self, name: str, seed: int | None) -> Path:
        return self.output / name / f"seed{'-'.join(map(str, self.seeds)) if seed is None else seed}"

    def averages(self, name: str) -> bool:
        return any("average" in stage for stage in self.rungs[name])

    def _made_of(self, stage: dict[str, Any], previous: str, seed: int | None) -> dict[str, Any]:
        """All that the result of a stage hangs on."""
        parts = {rung: [made_before(self.run(rung, one)) for one in self.seeds] for rung in averaged(stage)}
        found = {"stage": stage, "seed": seed, "previous": None if parts else made_before(previous), "parts": parts}
        if "config" in stage:
            found["recipe"] = _decisive(harness.read_yaml(ROOT / stage["config"]))
        return found

    def _make(self, stage: dict[str, Any], previous: str, seed: int | None, target: Path, title: str) -> None:
        start = time.time()
        print(title, flush=True)
        if "config" in stage:
            train(stage, previous, seed, target)
        elif "adapter" in stage:
            save_checkpoint(load_metric(previous), target, card=f"# {title}\n", adapter=AdapterConfig(stage["adapter"]))
        else:
            if "average" in stage:
                parts = averaged(stage)
                runs = [load_metric(self.run(rung, one)) for rung in parts for one in self.seeds]
                weights = [weight for weight in parts.values() for _ in self.seeds]
                mixed = average_metrics(runs, weights, texts=self._texts(runs[0]), rated=self.rated)
            else:
                trained = load_metric(previous)
                mixed = interpolate(trained, stage["untrained"], texts=self._texts(trained))
            save_checkpoint(mixed, target, card=f"# {title}\n")
        print(f"  {time.time() - start:.0f} s", flush=True)

    def _texts(self, metric: SegmentMetric) -> list[str] | None:
        return self.texts if fitted_names(metric) else None


def _decisive(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe without the callbacks that its result does not hang on."""
    trainer = recipe["trainer"]
    kept = [one for one in trainer["callbacks"] if one["class_path"].rpartition(".")[2] not in WATCHING]
    return {**recipe, "trainer": {**trainer, "callbacks": kept}}


def made_before(metric: str) -> str:
    """What tells one make of a metric from another: the digest of its note; of a preset, its name."""
    note = Path(metric).parent / MADE
    return hashlib.sha256(note.read_bytes()).hexdigest()[:16] if note.is_file() else metric


def check_made(target: Path, made: dict[str, Any]) -> None:
    """Note what a stage is made of before it is begun, or compare with what it was begun with."""
    note, text = target.parent / MADE, json.dumps(made, indent=1, sort_keys=True)
    if not note.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(note) as stream:
            stream.write(text)
    elif not note.is_file() or note.read_text() != text:
        raise SystemExit(
            f"Expected {target.parent} to be made of the present recipe, but it was made of another: remove the folder "
            f"of its rung, {target.parent.parent}, to make it again, or give another --output."
        )


def averaged(stage: dict[str, Any]) -> dict[str, float]:
    """The rungs whose weights a stage averages, and what each counts."""
    named: str | list[str] | dict[str, float] = stage.get("average", [])
    if isinstance(named, dict):
        return named
    return dict.fromkeys([named] if isinstance(named, str) else named, 1.0)


def train(stage: dict[str, Any], previous: str, seed: int | None, target: Path) -> None:
    """Train a stage as a user would, and export it; a run that was stopped goes on from its last checkpoint."""
    checkpoints = target.parent / "checkpoints"
    command = [sys.executable, "train.py", "fit", "--config", str(_recipe(stage["config"], target.parent, checkpoints))]
    if (checkpoints / "resume.ckpt").is_file():
        command += ["--ckpt_path", str(checkpoints / "resume.ckpt")]
    for key, value in stage.get("set", {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        command += [f"--{key}", text.replace("{previous}", previous).replace("{seed}", str(seed))]
    # Weights and dropout by the one, the order of the batches by the other.
    command += ["--seed_everything", str(seed), "--data.init_args.seed", str(seed), "--export", str(target)]
    command += ["--trainer.default_root_dir", str(target.parent), "--trainer.logger", "false"]
    with target.parent.with_suffix(".log").open("a") as log:
        subprocess.run(command, cwd=ROOT, check=True, stdout=log, stderr=subprocess.STDOUT)
    shutil.rmtree(checkpoints)


def _recipe(config: str, folder: Path, checkpoints: Path) -> Path:
    """The recipe with checkpoints in a folder of this run, so that several runs can go on beside one another."""
    recipe = harness.read_yaml(ROOT / config)
    places = {"dirpath": str(checkpoints), "folder": str(folder)}
    for callback in recipe["trainer"]["callbacks"]:
        options = callback.get("init_args", {})
        options |= {name: places[name] for name in places.keys() & options.keys()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


def read_set(entry: dict[str, Any]) -> list[Segment]:
    """The segments of a judgement set, or the part of them that training holds back."""
    columns = Columns(**entry.get("columns", {}))
    if entry.get("held_back"):
        data = harness.ratings(entry["files"], columns=columns, held_back=entry["held_back"], scales="as-is")
        return next(iter(data.parts.values()))
    segments = [one for name in entry["files"] for one in read_segments(name, columns)]
    return rows_where(segments, entry.get("where", {}), ", ".join(entry["files"]))


@dataclass(frozen=True)
class Judged:
    """A judgement set."""

    segments: list[Segment]
    group: str | None
    compare: str = "reference"  # or "source", or "both"

    @classmethod
    def read(cls, entry: dict[str, Any]) -> Judged:
        return cls(read_set(entry), entry.get("group"), entry.get("compare", "reference"))

    @classmethod
    def read_all(cls, entries: dict[str, dict[str, Any]], test: bool = False) -> dict[str, Judged]:
        """The sets of a ladder by name, those for tests only if they are wanted."""
        return {name: cls.read(one) for name, one in entries.items() if test or not one.get("test")}

    @property
    def human(self) -> NDArray[np.float64]:
        return np.array([one.score for one in self.segments], dtype=np.float64)

    @property
    def texts(self) -> tuple[list[str], list[tuple[str, ...]]]:
        return [one.hypothesis for one in self.segments], [one.references for one in self.segments]

    @property
    def clusters(self) -> list[str]:
        """Segments of the same references, which are drawn together."""
        return ["\n".join(one.references) for one in self.segments]

    @property
    def groups(self) -> list[str]:
        return ["all" if self.group is None else one.groups[self.group] for one in self.segments]

    def scores(self, scorer: Scorer) -> NDArray[np.float64]:
        """What a metric gives the segments; higher is better."""
        hypotheses, references = self.texts
        if self.compare == "source":
            references = None
        sources = None if self.compare == "reference" else [one.source or "" for one in self.segments]
        return (1 if scorer.metric.higher_is_better else -1) * scorer.score(hypotheses, references, sources).scores

    def by_group(self, scores: NDArray[np.float64]) -> dict[str, Correlation]:
        return grouped_correlations(scores, self.human, self.groups)

    def mean(self, scores: NDArray[np.float64]) -> MeanCorrelation:
        return mean_correlation(self.by_group(scores))


def judge(scorer: Scorer, judged: Judged) -> dict[str, Any]:
    scores = judged.scores(scorer)
    mean = {name: getattr(judged.mean(scores), name) for name in STATISTICS}
    return {**mean, "groups": {name: one.pearson for name, one in judged.by_group(scores).items()}}


def main() -> None:
    parser = harness.parser(__doc__, "ladder", output=Path("runs/ladder"), seeds=[1], rungs=[], test=False)
    options = parser.parse_args()
    found = harness.read_yaml(options.ladder)
    sets = Judged.read_all(found["sets"], options.test)
    ladder = Ladder(found["rungs"], options.output.resolve(), options.seeds, *to_fit_on(found))
    names = options.rungs or list(ladder.rungs)
    single = [name for name in names if not ladder.averages(name)]
    jobs: list[tuple[str, int | None]] = [(name, seed) for seed in options.seeds for name in single]
    jobs += [(name, None) for name in names if ladder.averages(name)]
    for name, seed in jobs:
        ladder.agreement(name, seed, sets)
        write_tables(ladder, options.output)


def to_fit_on(ladder: dict[str, Any]) -> tuple[list[str], list[Segment] | None]:
    """Texts, and rated segments if the ladder wants them, of parts of sets that are trained on."""
    texts = _trained_on(ladder["fit_on"]).training_texts(2000)
    if "rated_on" not in ladder:
        return texts, None
    sets = [next(iter(_trained_on(one).sources.values())).items for one in ladder["rated_on"]]
    return texts, [one for items in sets for one in items[:: max(1, len(items) // 500)]]


def _trained_on(entry: dict[str, Any]) -> RatingsDataModule:
    return harness.ratings(**{**entry, "columns": Columns(**entry.get("columns", {}))})


def write_tables(ladder: Ladder, output: Path) -> None:
    """All that has been found so far: one row for each rung, seed and set, and means over seeds."""
    found = {
        (name, path.parent.name.removeprefix("seed")): json.loads(path.read_text())
        for name in ladder.rungs
        for path in sorted((output / name).glob("seed*/agreement.json"))
    }
    rows = [
        {"rung": name, "seed": seed, "set": judged, **{key: f"{values[key]:.4f}" for key in STATISTICS}}
        for (name, seed), one in found.items()
        for judged, values in one.items()
    ]
    harness.write_rows(output / "ladder.csv", rows, ("rung", "seed", "set", *STATISTICS))
    sets = list(dict.fromkeys(judged for one in found.values() for judged in one))
    with atomic_file(output / "ladder.md") as stream:
        for statistic in ("pearson", "kendall"):
            lines = []
            for name in dict.fromkeys(name for name, _ in found):
                runs = {seed: one for (rung, seed), one in found.items() if rung == name}
                cells = [_span([one[judged][statistic] for one in runs.values() if judged in one]) for judged in sets]
                lines.append([name, ", ".join(runs), *cells])
            text = harness.table(["rung", "seeds", *sets], lines, texts=None)
            stream.write(f"{statistic.capitalize()}:\n\n{text}\n\n")


def _span(values: list[float]) -> str:
    """Mean of values, with the lowest and the highest."""
    if not values:
        return ""
    shown = [f"{one:.3f}".replace("0.", ".", 1) for one in (float(np.mean(values)), min(values), max(values))]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]}-{shown[2]})"


if __name__ == "__main__":
    main()
