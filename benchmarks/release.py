"""Makes a released metric: runs a ladder's rung where needed, stores it as an adapter, and writes its card.

    python benchmarks/release.py configs/released/textmover-general.yaml --runs runs/ladder [--test] [--compare FOLDER]

The released metric scores 1 for identical texts and about 0 for unrelated ones: the scale that training had fitted to
the ratings is left out, and the baseline of unrelated texts fitted on texts that were trained on. Its card holds the
agreement with people on the ladder's sets, beside that of the metric that training started from; test sets only with
``--test``, once the recipe is fixed. ``--compare`` prints how far the metric is from an earlier one:
other processors and versions of PyTorch round otherwise, so that trained weights are not the same bit for bit.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import cards
import harness
import numpy as np
import yaml
from ladder import Judged, Ladder, averaged, to_fit_on
from numpy.typing import NDArray
from release_head import put_head

from textmover import Scorer, __version__
from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.averaging import as_token_table, refit
from textmover.checkpoints.files import CARD, WEIGHTS
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import save_checkpoint
from textmover.files import atomic_file
from textmover.meta_evaluation.significance.bootstrap import bootstrap_gain, bootstrap_interval
from textmover.meta_evaluation.statistics.correlation import grouped_correlations, mean_correlation
from textmover.meta_evaluation.statistics.ties import calibrate_ties

START = "twmd"
"""The metric that training starts from, whose agreement stands beside that of the released one."""


def scores_of(name: str, judged: Judged, scorer: Scorer, kept: Path) -> NDArray[np.float64]:
    """Scores of a set's segments; kept in a folder, since several cards need those of the same metric."""
    key = hashlib.sha256(f"{scorer.signature}|{name}|{len(judged.segments)}".encode()).hexdigest()[:16]
    path = kept / f"{key}.npy"
    if not path.is_file():
        kept.mkdir(parents=True, exist_ok=True)
        np.save(path, judged.scores(scorer))
    found: NDArray[np.float64] = np.load(path)
    return found


def make(spec: dict[str, Any], ladder: Ladder, folder: Path) -> None:
    """Train what is missing, put the metric on the scale of all released ones, and store it."""
    trained = ladder.run(spec["rung"], None if ladder.averages(spec["rung"]) else spec["seeds"][0])
    metric = load_metric(trained, calibrate=False, rescale=True)
    if "dimensions" in spec:
        metric = as_token_table(metric, spec["dimensions"], ladder.texts)
    else:
        refit(metric, texts=ladder.texts)
    adapter = AdapterConfig(spec["rank"]) if "rank" in spec else None
    save_checkpoint(metric, folder, card="", overwrite=True, adapter=adapter)
    if "head" in spec:
        put_head(trained_head(spec, folder), folder)


def trained_head(spec: dict[str, Any], folder: Path) -> Path:
    """Folder of the metric whose head marks errors; trained on the one in ``folder`` where it is missing."""
    trained = harness.ROOT / spec["head"]
    if not (trained / WEIGHTS).is_file():
        options = [*spec.get("head_options", []), "--model.init_args.metric", str(folder.resolve())]
        options += ["--export", str(trained)]
        command = [sys.executable, "train.py", "fit", "--config", spec["head_recipe"], *options]
        subprocess.run(command, cwd=harness.ROOT, check=True)
    return trained


def agreement(spec: dict[str, Any], ladder: Ladder, sets: dict[str, Judged], folder: Path) -> list[str]:
    """The lines of the card on agreement with people."""
    start, released = Scorer.from_pretrained(START, **spec.get("start", {})), Scorer.from_pretrained(folder)
    kept = ladder.output / "scores"
    lines = [
        "Pearson, with 95 % intervals of a bootstrap that draws whole references; "
        f"`{START}` is the metric before training{told_fields(spec)}. Pairwise accuracy is acc23, ties calibrated.\n",
        f"| judgements | n | `{START}` | this metric | gain | Kendall | pairwise accuracy |",
        "|---|---|---|---|---|---|---|",
    ]
    details: list[str] = []
    for name, one in sets.items():
        before, after = (scores_of(name, one, scorer, kept) for scorer in (start, released))
        clusters = ["\n".join(segment.references) for segment in one.segments]  # drawn together
        gain = bootstrap_gain(before, after, one.human, one.groups, clusters=clusters)
        own = bootstrap_interval(after, one.human, one.groups, clusters=clusters)
        lines.append(
            f"| {name} | {len(one.segments)} | {gain.before:.3f} | **{own.estimate:.3f}** "
            f"({own.low:.3f} to {own.high:.3f}) | {gain.estimate:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) "
            f"| {mean_correlation(grouped_correlations(after, one.human, one.groups)).kendall:.3f} "
            f"| {calibrate_ties(after, one.human, one.groups).agreement.acc23:.3f} |"
        )
        print(lines[-1], flush=True)
        details += _details(spec, ladder, name, one, after)
    return [*lines, "", *details]


def _details(spec: dict[str, Any], ladder: Ladder, name: str, judged: Judged, scores: NDArray[np.float64]) -> list[str]:
    """Groups of a set, Kendall's tau, and each seed by itself."""
    if judged.group is None:
        return []
    by_group = grouped_correlations(scores, judged.human, judged.groups)
    mean = mean_correlation(by_group)
    found = ", ".join(f"{group} {one.pearson:.3f}" for group, one in by_group.items())
    lines = [f"{name} by language pair: {found}; mean Kendall {mean.kendall:.3f}, mean Spearman {mean.spearman:.3f}."]
    if name in spec.get("seeds_on", [name]):
        single = (ladder.agreement(spec["seeds_of"], seed, {name: judged})[name] for seed in spec["seeds"])
        told = ", ".join(f"{one['pearson']:.3f}" for one in single)
        lines.append(f"As trained, {seeds_of(spec)}: {told}.")
    return [*lines, ""]


def told_fields(spec: dict[str, Any]) -> str:
    """The fields of the metric before training, for people to read."""
    fields = ", ".join(f"{name} {value}" for name, value in spec.get("start", {}).items())
    return f" ({fields})" if fields else ""


def seeds_of(spec: dict[str, Any]) -> str:
    """The seeds, for people to read."""
    seeds = spec["seeds"]
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def stages_of(rungs: dict[str, list[dict[str, Any]]], name: str) -> dict[str, list[dict[str, Any]]]:
    """The stages of a rung, and of the rungs that it builds on."""
    found = {name: rungs[name]}
    for stage in rungs[name]:
        for other in (*([stage["rung"]] if "rung" in stage else []), *averaged(stage)):
            found |= stages_of(rungs, other)
    return found


def differences(folder: Path, earlier: Path, sets: dict[str, Judged]) -> list[str]:
    """How far two makes of a metric are from one another: on each set, their scores, and both their agreements."""
    first, second = (Scorer.from_pretrained(one) for one in (earlier, folder))
    rows = []
    for name, one in sets.items():
        scores = [one.scores(scorer) for scorer in (first, second)]
        found = [mean_correlation(grouped_correlations(values, one.human, one.groups)).pearson for values in scores]
        apart = np.abs(scores[0] - scores[1]).max()
        rows.append([name, *(f"{value:.4f}" for value in (*found, np.corrcoef(*scores)[0, 1])), f"{apart:.3f}"])
    headers = ("judgements", earlier, folder, "correlation of the two", "largest difference of a score")
    return harness.table(headers, rows, texts=None).splitlines()


def made_with(stages: dict[str, list[dict[str, Any]]]) -> str:
    """What a rebuilt metric hangs on beside its seeds: versions, processor, and the recipes by their hashes."""
    recipes = dict.fromkeys(stage["config"] for rung in stages.values() for stage in rung if "config" in stage)
    hashes = [f"`{one}` {hashlib.sha256((harness.ROOT / one).read_bytes()).hexdigest()[:8]}" for one in recipes]
    versions = harness.versions("textmover", "torch", "transformers", "tokenizers")
    return f"{versions}, {processor()}; recipes by SHA-256: {', '.join(hashes)}."


def processor() -> str:
    """The name of the processor."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else harness.processor()


def card(spec: dict[str, Any], folder: Path, path: Path, found: list[str]) -> str:
    """The model card, Markdown."""
    weights = f"A table of token vectors, 8 bits each, {(folder / WEIGHTS).stat().st_size / 1e6:.2f} MB."
    if "rank" in spec:
        one = cards.stored_adapter(folder)
        weights = (
            f"An adapter of mean rank {one.rank} in {one.dtype} over {one.base} (sha256 {one.sha256[:16]}…), "
            f"{one.size / 1e6:.2f} MB; relative error of its matrices {one.error:.2f}."
        )
    command = f"textmover score -i hypotheses.txt references.txt --model {spec['name']}"
    signature = load_metric(folder).signature
    sourced = " (beside a source, or from it alone, a little below or above)" if "mode" in signature.entries else ""
    usage = (
        f"```bash\n{spec.get('usage', command).strip()}\n```\n\n"
        f"Scores: 1 for identical texts{sourced}, about 0 for unrelated ones, "
        "below 0 where texts have even less in common.\n\n"
        f"Signature: `textmover:{__version__}|{signature}`"
    )
    usage += f"\n\n## Errors that it marks\n\n{spec['errors'].strip()}" if "errors" in spec else ""
    return cards.card(
        spec,
        "text-generation-metric",
        usage,
        ("Agreement with people", found),
        f"benchmarks/release.py {path.as_posix()} --test --output runs/released",
        f"With {seeds_of(spec)}; stages, of `{spec['ladder']}`:",
        f"{made_with(spec['stages'])} {spec.get('note', '')}".rstrip() + f"\n\n{weights}",
    )


def main() -> None:
    """Make a released metric and its card."""
    parser = harness.parser(
        __doc__, runs=Path("runs/ladder"), output=harness.ROOT / "checkpoints", test=False, compare=Path
    )
    parser.add_argument("release", type=Path)
    options = parser.parse_args()
    spec = yaml.safe_load(options.release.read_text())
    found = yaml.safe_load((harness.ROOT / spec["ladder"]).read_text())
    ladder = Ladder(found["rungs"], options.runs.resolve(), spec["seeds"], *to_fit_on(found))
    spec["stages"] = stages_of(found["rungs"], spec["rung"])
    folder = options.output / spec["name"]
    make(spec, ladder, folder)
    sets = {name: Judged.read(one) for name, one in found["sets"].items() if options.test or not one.get("test")}
    lines = agreement(spec, ladder, sets, folder)
    with atomic_file(folder / CARD) as stream:
        stream.write(card(spec, folder, options.release, lines))
    if options.compare is not None:
        print("\n".join(differences(folder, options.compare, sets)))


if __name__ == "__main__":
    main()
