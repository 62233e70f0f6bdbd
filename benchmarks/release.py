"""Makes a released metric: runs a ladder's rung where needed, stores it as an adapter, and writes its card.

    python benchmarks/release.py configs/released/textmover-general.yaml --runs runs/ladder [--test] [--compare FOLDER]

The released metric scores 1 for identical texts and about 0 for unrelated ones: the scale that training had fitted to
the ratings is left out, and the baseline of unrelated texts fitted on texts that were trained on. Its card holds the
agreement with people on the ladder's sets, beside that of the metric that training started from; test sets only with
``--test``, once the recipe is fixed. With ``--compare`` it is told how far what was made is from an earlier make of it:
other processors and versions of PyTorch round otherwise, so that trained weights are not the same bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from ladder import ROOT, Judged, Ladder, averaged, read_set, training_texts
from numpy.typing import NDArray

from textmover import Scorer, __version__
from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.averaging import refit
from textmover.checkpoints.files import CARD
from textmover.checkpoints.folder import load_metric, save_checkpoint
from textmover.files import atomic_file
from textmover.meta_evaluation.significance.bootstrap import bootstrap_gain, bootstrap_interval
from textmover.meta_evaluation.statistics.correlation import grouped_correlations, mean_correlation

START = "twmd"
"""The metric that training starts from, whose agreement stands beside that of the released one."""


def clusters_of(judged: Judged) -> list[str]:
    """Segments with the same references are drawn together."""
    return ["\n".join(one.references) for one in judged.segments]


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
    refit(metric, texts=ladder.texts)
    save_checkpoint(metric, folder, card="", overwrite=True, adapter=AdapterConfig(spec["rank"]))


def agreement(spec: dict[str, Any], ladder: Ladder, sets: dict[str, Judged], folder: Path) -> list[str]:
    """The lines of the card on agreement with people."""
    start, released = Scorer.from_pretrained(START), Scorer.from_pretrained(folder)
    kept = ladder.output / "scores"
    lines = [
        "Pearson, with 95 % intervals of a bootstrap that draws whole references; "
        f"`{START}` is the metric before training.\n",
        f"| judgements | n | `{START}` | this metric | gain |",
        "|---|---|---|---|---|",
    ]
    details: list[str] = []
    for name, one in sets.items():
        before, after = (scores_of(name, one, scorer, kept) for scorer in (start, released))
        clusters = clusters_of(one)
        gain = bootstrap_gain(before, after, one.human, one.groups, clusters=clusters)
        own = bootstrap_interval(after, one.human, one.groups, clusters=clusters)
        lines.append(
            f"| {name} | {len(one.segments)} | {gain.before:.3f} | **{own.estimate:.3f}** "
            f"({own.low:.3f} to {own.high:.3f}) | {gain.estimate:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) |"
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
    single = (ladder.agreement(spec["seeds_of"], seed, {name: judged})[name] for seed in spec["seeds"])
    told = ", ".join(f"{one['pearson']:.3f}" for one in single)
    lines.append(f"As trained, {seeds_of(spec)}: {told}.")
    return [*lines, ""]


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
    lines = [
        f"| judgements | {earlier} | {folder} | correlation of the two | largest difference of a score |",
        "|---|---|---|---|---|",
    ]
    for name, one in sets.items():
        scores = [one.scores(scorer) for scorer in (first, second)]
        found = [mean_correlation(grouped_correlations(values, one.human, one.groups)).pearson for values in scores]
        lines.append(
            f"| {name} | {found[0]:.4f} | {found[1]:.4f} | {np.corrcoef(*scores)[0, 1]:.4f} | "
            f"{np.abs(scores[0] - scores[1]).max():.3f} |"
        )
    return lines


def made_with(stages: dict[str, list[dict[str, Any]]]) -> str:
    """What a rebuilt metric hangs on beside its seeds: versions, processor, and the recipes by their hashes."""
    recipes = dict.fromkeys(stage["config"] for rung in stages.values() for stage in rung if "config" in stage)
    hashes = [f"`{one}` {hashlib.sha256((ROOT / one).read_bytes()).hexdigest()[:8]}" for one in recipes]
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers"))
    return f"textmover {__version__}, {versions}, {processor()}; recipes by SHA-256: {', '.join(hashes)}."


def processor() -> str:
    """The name of the processor."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def card(spec: dict[str, Any], folder: Path, path: Path, found: list[str]) -> str:
    """The model card, Markdown."""
    report = adapter_report(folder)
    if report is None:
        raise RuntimeError(f"Expected an adapter in {folder}, but got full weights.")
    data = "\n".join(f"| {one['name']} | {one['use']} | {one['licence']} |" for one in spec["data"])
    rung = yaml.safe_dump(spec["stages"], sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return (
        "---\nlibrary_name: textmover\nlanguage: en\nlicense: apache-2.0\n"
        "base_model: sentence-transformers/all-MiniLM-L6-v2\n"
        "tags: [textmover, text-generation-metric]\n---\n\n"
        f"# {spec['name']}: {spec['title']}\n\n{spec['about'].strip()}\n\n"
        f"```bash\ntextmover score -i hypotheses.txt references.txt --model {spec['name']}\n```\n\n"
        "Scores: 1 for identical texts, about 0 for unrelated ones, below 0 where texts have even less in common.\n\n"
        f"Signature: `textmover:{__version__}|{load_metric(folder).signature}`\n\n"
        "## Agreement with people\n\n" + "\n".join(found).strip() + "\n\n"
        "## Data and their terms\n\n"
        f"| data | use | terms |\n|---|---|---|\n{data}\n\n{spec['terms'].strip()}\n\n"
        "## Made with\n\n"
        f"```bash\npython benchmarks/release.py {path.as_posix()} --test --output runs/released\n```\n\n"
        f"With {seeds_of(spec)}; stages, of `{spec['ladder']}`:\n\n"
        f"```yaml\n{rung.strip()}\n```\n\n"
        f"{made_with(spec['stages'])}\n\n"
        f"An adapter of mean rank {report.rank} in {report.dtype} over {report.base} (sha256 {report.sha256[:16]}…), "
        f"{report.size / 1e6:.2f} MB; relative error of its matrices {report.error:.2f}.\n"
    )


def main() -> None:
    """Make a released metric and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/ladder"), help="where the ladder's results are, or go")
    parser.add_argument("--output", type=Path, default=ROOT / "checkpoints")
    parser.add_argument("--test", action="store_true", help="judge by the test sets too")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="an earlier make, to be compared with")
    options = parser.parse_args()
    spec = yaml.safe_load(options.release.read_text())
    found = yaml.safe_load((ROOT / spec["ladder"]).read_text())
    ladder = Ladder(found["rungs"], options.runs.resolve(), spec["seeds"], training_texts(found["fit_on"]))
    spec["stages"] = stages_of(found["rungs"], spec["rung"])
    folder = options.output / spec["name"]
    make(spec, ladder, folder)
    sets = {
        name: Judged(read_set(one), one.get("group"))
        for name, one in found["sets"].items()
        if options.test or not one.get("test")
    }
    lines = agreement(spec, ladder, sets, folder)
    with atomic_file(folder / CARD) as stream:
        stream.write(card(spec, folder, options.release, lines))
    if options.compare is not None:
        print("\n".join(differences(folder, options.compare, sets)))


if __name__ == "__main__":
    main()
