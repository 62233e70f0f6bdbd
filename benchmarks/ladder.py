"""Train a ladder of recipes with several seeds, and measure the agreement of each rung with human ratings.

A ladder is a YAML file with rungs and judgement sets. A rung is a list of stages. A stage is one of these:

* ``{config: configs/wmt_da.yaml, set: {key: value}}``: a training recipe with overrides; ``{previous}`` is replaced by
  the checkpoint of the previous stage, ``{seed}`` by the seed;
* ``{metric: twmd}``: an existing preset or checkpoint;
* ``{rung: ratings}``: the result of another rung with the same seed;
* ``{average: ratings}``: the mean weights of another rung over all seeds; of several rungs with
  ``{average: [ratings, mixture]}``, or weighted with ``{average: {ratings: 0.3, mixture: 0.7}}``;
* ``{untrained: 0.5}``: the previous stage interpolated with this fraction of the untrained encoder;
* ``{adapter: 34}``: the previous stage, stored as an adapter of this mean rank.

The result of each rung is scored on every set::

    python benchmarks/ladder.py configs/ladder/wmt.yaml --output runs/ladder --seeds 1 2 3

An interrupted ladder resumes: it skips exported stages and scored sets, and resumes training. Each stage has a manifest
of its inputs (``made.json``), so that results of an earlier recipe are not reused. Several ladders may run in parallel
with the same output if their rungs differ. Sets with ``test: true`` are skipped without ``--test``: choose by the other
sets first. ``compare: source`` scores against sources instead of references, ``both`` against both. ``ladder.csv``
has all results, ``ladder.md`` the means over seeds with minimum and maximum.
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

MANIFEST = "made.json"
STATISTICS = ("pearson", "spearman", "kendall")
OBSERVERS = ("LearningCurves",)  # callbacks that do not affect the trained metric


@dataclass(frozen=True)
class Ladder:
    """A ladder and its output folder; mixed weights are refitted on its texts and rated segments."""

    rungs: dict[str, list[dict[str, Any]]]
    output: Path
    seeds: list[int]
    texts: list[str]
    rated: list[Segment] | None = None

    def run(self, name: str, seed: int | None) -> str:
        """Run the missing stages of a rung; return the name or path of the final metric."""
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
                check_manifest(target, self._manifest(stage, previous, seed))
                if not (target / "config.json").is_file():
                    self._run_stage(stage, previous, seed, target, f"{name}, seed {seed}, stage {number + 1}")
                previous = str(target)
        return previous

    def agreement(self, name: str, seed: int | None, sets: dict[str, Judged]) -> dict[str, dict[str, Any]]:
        """Return the agreement of a rung's final metric on each set; existing results are reused."""
        metric, result = self.run(name, seed), self.folder(name, seed) / "agreement.json"
        results: dict[str, dict[str, Any]] = json.loads(result.read_text()) if result.is_file() else {}
        if missing := {key: judged for key, judged in sets.items() if key not in results}:
            scorer = Scorer.from_pretrained(metric)
            results |= {key: judge(scorer, judged) for key, judged in missing.items()}
            with atomic_file(result) as stream:
                json.dump(results, stream, indent=1)
        return results

    def folder(self, name: str, seed: int | None) -> Path:
        return self.output / name / f"seed{'-'.join(map(str, self.seeds)) if seed is None else seed}"

    def averages(self, name: str) -> bool:
        return any("average" in stage for stage in self.rungs[name])

    def _manifest(self, stage: dict[str, Any], previous: str, seed: int | None) -> dict[str, Any]:
        """Return the manifest of a stage: all inputs that determine its result."""
        parts = {rung: [identity_of(self.run(rung, each)) for each in self.seeds] for rung in average_of(stage)}
        inputs = {"stage": stage, "seed": seed, "previous": None if parts else identity_of(previous), "parts": parts}
        if "config" in stage:
            inputs["recipe"] = _without_observers(harness.read_yaml(ROOT / stage["config"]))
        return inputs

    def _run_stage(self, stage: dict[str, Any], previous: str, seed: int | None, target: Path, title: str) -> None:
        start = time.time()
        print(title, flush=True)
        if "config" in stage:
            train(stage, previous, seed, target)
        elif "adapter" in stage:
            save_checkpoint(load_metric(previous), target, card=f"# {title}\n", adapter=AdapterConfig(stage["adapter"]))
        else:
            if "average" in stage:
                parts = average_of(stage)
                runs = [load_metric(self.run(rung, each)) for rung in parts for each in self.seeds]
                weights = [weight for weight in parts.values() for _ in self.seeds]
                mixed = average_metrics(runs, weights, texts=self._texts(runs[0]), rated=self.rated)
            else:
                trained = load_metric(previous)
                mixed = interpolate(trained, stage["untrained"], texts=self._texts(trained))
            save_checkpoint(mixed, target, card=f"# {title}\n")
        print(f"  {time.time() - start:.0f} s", flush=True)

    def _texts(self, metric: SegmentMetric) -> list[str] | None:
        return self.texts if fitted_names(metric) else None


def _without_observers(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe without callbacks that do not affect its result."""
    trainer = recipe["trainer"]
    kept = [item for item in trainer["callbacks"] if item["class_path"].rpartition(".")[2] not in OBSERVERS]
    return {**recipe, "trainer": {**trainer, "callbacks": kept}}


def identity_of(metric: str) -> str:
    """Return the identity of a metric: the digest of its manifest, or the name of a preset."""
    note = Path(metric).parent / MANIFEST
    return hashlib.sha256(note.read_bytes()).hexdigest()[:16] if note.is_file() else metric


def check_manifest(target: Path, made: dict[str, Any]) -> None:
    """Write the manifest of a new stage, or compare it with that of an existing one."""
    note, text = target.parent / MANIFEST, json.dumps(made, indent=1, sort_keys=True)
    if not note.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(note) as stream:
            stream.write(text)
    elif not note.is_file() or note.read_text() != text:
        raise SystemExit(
            f"Expected {target.parent} to be of the present recipe, but it was made with another: remove the folder "
            f"of its rung, {target.parent.parent}, to make it again, or give another --output."
        )


def average_of(stage: dict[str, Any]) -> dict[str, float]:
    """Return the rungs whose weights a stage averages, with their weights."""
    average: str | list[str] | dict[str, float] = stage.get("average", [])
    if isinstance(average, dict):
        return average
    return dict.fromkeys([average] if isinstance(average, str) else average, 1.0)


def train(stage: dict[str, Any], previous: str, seed: int | None, target: Path) -> None:
    """Train a stage with ``train.py`` and export it; an interrupted run resumes from its last checkpoint."""
    checkpoints = target.parent / "checkpoints"
    command = [sys.executable, "train.py", "fit", "--config", str(_recipe(stage["config"], target.parent, checkpoints))]
    if (checkpoints / "resume.ckpt").is_file():
        command += ["--ckpt_path", str(checkpoints / "resume.ckpt")]
    for key, value in stage.get("set", {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        command += [f"--{key}", text.replace("{previous}", previous).replace("{seed}", str(seed))]
    # The first seeds weights and dropout, the second the order of batches.
    command += ["--seed_everything", str(seed), "--data.init_args.seed", str(seed), "--export", str(target)]
    command += ["--trainer.default_root_dir", str(target.parent), "--trainer.logger", "false"]
    with target.parent.with_suffix(".log").open("a") as log:
        subprocess.run(command, cwd=ROOT, check=True, stdout=log, stderr=subprocess.STDOUT)
    shutil.rmtree(checkpoints)


def _recipe(config: str, folder: Path, checkpoints: Path) -> Path:
    """Write the recipe with checkpoints in this run's folder, so that several runs can run in parallel."""
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
    """Read the segments of a judgement set, or its held-out part."""
    columns = Columns(**entry.get("columns", {}))
    if entry.get("held_back"):
        data = harness.ratings(entry["files"], columns=columns, held_back=entry["held_back"], scales="as-is")
        return next(iter(data.parts.values()))
    segments = [segment for name in entry["files"] for segment in read_segments(name, columns)]
    return rows_where(segments, entry.get("where", {}), ", ".join(entry["files"]))


@dataclass(frozen=True)
class Judged:
    """A judgement set."""

    segments: list[Segment]
    group: str | None
    compare: str = "reference"  # or "source" or "both"

    @classmethod
    def read(cls, entry: dict[str, Any]) -> Judged:
        return cls(read_set(entry), entry.get("group"), entry.get("compare", "reference"))

    @classmethod
    def read_all(cls, entries: dict[str, dict[str, Any]], test: bool = False) -> dict[str, Judged]:
        """Read the sets of a ladder by name; test sets only if ``test``."""
        return {name: cls.read(one) for name, one in entries.items() if test or not one.get("test")}

    @property
    def human(self) -> NDArray[np.float64]:
        return np.array([one.score for one in self.segments], dtype=np.float64)

    @property
    def texts(self) -> tuple[list[str], list[tuple[str, ...]]]:
        return [one.hypothesis for one in self.segments], [one.references for one in self.segments]

    @property
    def clusters(self) -> list[str]:
        """Return the bootstrap cluster of each segment, its references."""
        return ["\n".join(one.references) for one in self.segments]

    @property
    def groups(self) -> list[str]:
        return ["all" if self.group is None else one.groups[self.group] for one in self.segments]

    def scores(self, scorer: Scorer) -> NDArray[np.float64]:
        """Score the segments; higher is better."""
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
    config = harness.read_yaml(options.ladder)
    sets = Judged.read_all(config["sets"], options.test)
    ladder = Ladder(config["rungs"], options.output.resolve(), options.seeds, *to_fit_on(config))
    names = options.rungs or list(ladder.rungs)
    single = [name for name in names if not ladder.averages(name)]
    jobs: list[tuple[str, int | None]] = [(name, seed) for seed in options.seeds for name in single]
    jobs += [(name, None) for name in names if ladder.averages(name)]
    for name, seed in jobs:
        ladder.agreement(name, seed, sets)
        write_tables(ladder, options.output)


def to_fit_on(ladder: dict[str, Any]) -> tuple[list[str], list[Segment] | None]:
    """Return texts, and rated segments if the ladder requires them, from training parts."""
    texts = _trained_on(ladder["fit_on"]).training_texts(2000)
    if "rated_on" not in ladder:
        return texts, None
    sets = [next(iter(_trained_on(item).sources.values())).items for item in ladder["rated_on"]]
    return texts, [item for items in sets for item in items[:: max(1, len(items) // 500)]]


def _trained_on(entry: dict[str, Any]) -> RatingsDataModule:
    return harness.ratings(**{**entry, "columns": Columns(**entry.get("columns", {}))})


def write_tables(ladder: Ladder, output: Path) -> None:
    """Write all results so far: one row for each rung, seed and set, and means over seeds."""
    results = {
        (name, path.parent.name.removeprefix("seed")): json.loads(path.read_text())
        for name in ladder.rungs
        for path in sorted((output / name).glob("seed*/agreement.json"))
    }
    rows = [
        {"rung": name, "seed": seed, "set": judged, **{key: f"{values[key]:.4f}" for key in STATISTICS}}
        for (name, seed), run in results.items()
        for judged, values in run.items()
    ]
    harness.write_rows(output / "ladder.csv", rows, ("rung", "seed", "set", *STATISTICS))
    sets = list(dict.fromkeys(judged for run in results.values() for judged in run))
    with atomic_file(output / "ladder.md") as stream:
        for statistic in ("pearson", "kendall"):
            lines = []
            for name in dict.fromkeys(name for name, _ in results):
                runs = {seed: run for (rung, seed), run in results.items() if rung == name}
                cells = [_span([run[judged][statistic] for run in runs.values() if judged in run]) for judged in sets]
                lines.append([name, ", ".join(runs), *cells])
            text = harness.table(["rung", "seeds", *sets], lines, texts=None)
            stream.write(f"{statistic.capitalize()}:\n\n{text}\n\n")


def _span(values: list[float]) -> str:
    """Format the mean of values with minimum and maximum."""
    if not values:
        return ""
    texts = [f"{value:.3f}".replace("0.", ".", 1) for value in (float(np.mean(values)), min(values), max(values))]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]}-{texts[2]})"


if __name__ == "__main__":
    main()
