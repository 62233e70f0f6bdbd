"""Build a released metric: run a ladder's rung if needed, store it as an adapter, and write its model card.

    python benchmarks/release.py configs/released/textmover-general.yaml --runs runs/ladder [--test]

The released metric scores 1 for identical texts and about 0 for unrelated ones: the calibration to ratings is removed,
and the baseline of unrelated texts is fitted on training texts. A trained error head is added; the script checks that
scores do not change. The card reports human agreement on the ladder's sets, compared with the metric before training;
test sets only with ``--test``, once the recipe is fixed. Processors and PyTorch versions round differently, so that
trained weights are not bit-identical.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
import yaml
from ladder import Judged, Ladder, average_of, to_fit_on
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from textmover import Scorer, __version__
from textmover.checkpoints.adapter import AdapterConfig, AdapterReport, adapter_report
from textmover.checkpoints.averaging import as_token_table, refit
from textmover.checkpoints.checkpoint_files import CARD, WEIGHTS, check_checkpoint, write_config
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import save_checkpoint
from textmover.files import atomic_file, file_sha256
from textmover.meta_evaluation.significance.bootstrap import bootstrap_gain, bootstrap_interval
from textmover.meta_evaluation.statistics.ties import calibrate_ties
from textmover.modules.score_deviation import PROBES

START = "twmd"  # the metric before training, for comparison

HEAD = "error_head."


def scores_of(name: str, judged: Judged, scorer: Scorer, kept: Path) -> NDArray[np.float64]:
    """Return scores of a set's segments, cached in a folder because several cards need the same scores."""
    key = hashlib.sha256(f"{scorer.signature}|{name}|{len(judged.segments)}".encode()).hexdigest()[:16]
    return harness.cached_array(kept / f"{key}.npy", lambda: judged.scores(scorer))


def make(spec: dict[str, Any], ladder: Ladder, folder: Path) -> None:
    """Train missing stages, rescale the metric to the common scale of released metrics, and store it."""
    trained = ladder.run(spec["rung"], None if ladder.averages(spec["rung"]) else spec["seeds"][0])
    metric = load_metric(trained, calibrate=False, rescale=True, **spec.get("overrides", {}))
    if "dimensions" in spec:
        metric = as_token_table(metric, spec["dimensions"], ladder.texts)
    else:
        refit(metric, texts=ladder.texts)
    if "source_weight" in spec:
        metric.combination.logit.data.fill_(torch.tensor(spec["source_weight"]).logit())
    adapter = AdapterConfig(spec["rank"]) if "rank" in spec else None
    save_checkpoint(metric, folder, card="", overwrite=True, adapter=adapter)
    if "head" in spec:
        put_head(trained_head(spec, folder), folder)


def trained_head(spec: dict[str, Any], folder: Path) -> Path:
    """Return the folder of the metric with the error head; train it on the metric in ``folder`` if missing."""
    trained = harness.ROOT / spec["head"]
    if not (trained / WEIGHTS).is_file():
        options = [*spec.get("head_options", []), "--model.init_args.metric", str(folder.resolve())]
        options += ["--export", str(trained)]
        command = [sys.executable, "train.py", "fit", "--config", spec["head_recipe"], *options]
        subprocess.run(command, cwd=harness.ROOT, check=True)
    return trained


def put_head(trained: Path, released: Path) -> None:
    """Add the head's weights, in float16 like adapters, to those of a released metric."""
    texts = [list(side) for side in zip(*PROBES, strict=True)]
    before = Scorer.from_pretrained(released, backend="torch").score(*texts).scores
    entries = check_checkpoint(released)
    head = {name: tensor.half() for name, tensor in load_file(trained / WEIGHTS).items() if name.startswith(HEAD)}
    weights = {name: tensor for name, tensor in load_file(released / WEIGHTS).items() if not name.startswith(HEAD)}
    save_file({**weights, **head}, released / WEIGHTS, metadata={"format": "pt"})
    entries["metric"]["mark_errors"] = True
    write_config(released, entries, list(entries["files"]))
    after = Scorer.from_pretrained(released, backend="torch").score(*texts).scores
    if before.tolist() != after.tolist():
        raise RuntimeError("Expected unchanged scores, but they changed: the head was trained with another encoder.")


def agreement(spec: dict[str, Any], ladder: Ladder, sets: dict[str, Judged], folder: Path) -> list[str]:
    start, released = Scorer.from_pretrained(START, **spec.get("start", {})), Scorer.from_pretrained(folder)
    details: list[str] = []

    def rows() -> Iterator[list[object]]:
        for name, one in sets.items():
            before, after = (scores_of(name, one, scorer, ladder.output / "scores") for scorer in (start, released))
            gain = bootstrap_gain(before, after, one.human, one.groups, clusters=one.clusters)
            own = bootstrap_interval(after, one.human, one.groups, clusters=one.clusters)
            accuracy = calibrate_ties(after, one.human, one.groups).agreement.acc23
            cells = [f"{gain.before:.3f}", harness.interval(own, mark="**"), harness.interval(gain, "+.3f")]
            yield [name, len(one.segments), *cells, f"{one.mean(after).kendall:.3f}", f"{accuracy:.3f}"]
            details.extend(_details(spec, ladder, name, one, after))

    fields = ", ".join(f"{name} {value}" for name, value in spec.get("start", {}).items())
    headers = ["judgements", "n", f"`{START}`", "this metric", "gain", "Kendall", "pairwise accuracy"]
    return [
        "Pearson, with 95 % intervals of a bootstrap that draws whole references; "
        f"`{START}` is the metric before training{f' ({fields})' if fields else ''}. Pairwise accuracy is acc23, ties "
        "calibrated.\n",
        harness.print_table(headers, rows(), texts=None),
        "",
        *details,
    ]


def _details(spec: dict[str, Any], ladder: Ladder, name: str, judged: Judged, scores: NDArray[np.float64]) -> list[str]:
    """Return lines on a set's groups, Kendall's τ, and the result of each seed."""
    if judged.group is None:
        return []
    mean = judged.mean(scores)
    listed = ", ".join(f"{group} {one.pearson:.3f}" for group, one in judged.by_group(scores).items())
    lines = [f"{name} by language pair: {listed}; mean Kendall {mean.kendall:.3f}, mean Spearman {mean.spearman:.3f}."]
    if name in spec.get("seeds_on", [name]):
        single = (ladder.agreement(spec["seeds_of"], seed, {name: judged})[name] for seed in spec["seeds"])
        values = ", ".join(f"{one['pearson']:.3f}" for one in single)
        lines.append(f"As trained, {seeds_of(spec)}: {values}.")
    return [*lines, ""]


def seeds_of(spec: dict[str, Any]) -> str:
    seeds = spec["seeds"]
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def stages_of(rungs: dict[str, list[dict[str, Any]]], name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the stages of a rung and of the rungs that it depends on."""
    stages = {name: rungs[name]}
    for stage in rungs[name]:
        for dependency in (*([stage["rung"]] if "rung" in stage else []), *average_of(stage)):
            stages |= stages_of(rungs, dependency)
    return stages


# --- cards ------------------------------------------------------------------------------------------------------------


def made_with(stages: dict[str, list[dict[str, Any]]]) -> str:
    """Describe what a rebuilt metric depends on except seeds: versions, processor, and recipe hashes."""
    recipes = dict.fromkeys(stage["config"] for rung in stages.values() for stage in rung if "config" in stage)
    hashes = [f"`{one}` {file_sha256(harness.ROOT / one)[:8]}" for one in recipes]
    versions = harness.versions("textmover", "torch", "transformers", "tokenizers")
    return f"{versions}, {processor()}; recipes by SHA-256: {', '.join(hashes)}."


def processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else harness.processor()


def stored_adapter(folder: Path) -> AdapterReport:
    report = adapter_report(folder)
    if report is None:
        raise RuntimeError(f"Expected an adapter in {folder}, but got full weights.")
    return report


def adapter_sentence(one: AdapterReport, size: float, error: float, what: str) -> str:
    """Describe a card's adapter in a sentence that starts with ``what``; ``size`` is in bytes."""
    return (
        f"{what} of mean rank {one.rank} in {one.dtype} over {one.base} (sha256 {one.sha256[:16]}…), "
        f"{size / 1e6:.2f} MB; relative error of its matrices {error:.2f}."
    )


def model_card(
    spec: Mapping[str, Any], tag: str, usage: str, results: tuple[str, Sequence[str]], command: str, made: str, end: str
) -> str:
    """Format a model card, Markdown; ``results`` are a heading and lines, ``made`` precedes the stages."""
    data = harness.table(
        ["data", "use", "terms"], ([one["name"], one["use"], one["licence"]] for one in spec["data"]), texts=None
    )
    stages = yaml.safe_dump(spec["stages"], sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    heading, lines = results
    return (
        f"---\nlibrary_name: textmover\nlanguage: {spec.get('language', 'en')}\nlicense: apache-2.0\n"
        f"base_model: {spec.get('base_model', 'sentence-transformers/all-MiniLM-L6-v2')}\n"
        f"tags: [textmover, {tag}]\n---\n\n"
        f"# {spec['name']}: {spec['title']}\n\n{spec['about'].strip()}\n\n"
        f"{usage}\n\n## {heading}\n\n" + "\n".join(lines).strip() + "\n\n"
        f"## Data and their terms\n\n{data}\n\n{spec['terms'].strip()}\n\n"
        f"## Made with\n\n```bash\npython {command}\n```\n\n{made}\n\n```yaml\n{stages.strip()}\n```\n\n{end}\n"
    )


def card(spec: dict[str, Any], folder: Path, path: Path, found: list[str]) -> str:
    weights = f"A table of token vectors, 8 bits each, {(folder / WEIGHTS).stat().st_size / 1e6:.2f} MB."
    if "rank" in spec:
        adapter = stored_adapter(folder)
        weights = adapter_sentence(adapter, adapter.size, adapter.error, "An adapter")
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
    return model_card(
        spec,
        "text-generation-metric",
        usage,
        ("Agreement with people", found),
        f"benchmarks/release.py {Path(os.path.relpath(path, harness.ROOT)).as_posix()} --test --output runs/released",
        f"With {seeds_of(spec)}; stages, of `{spec['ladder']}`:",
        f"{made_with(spec['stages'])} {spec.get('note', '')}".rstrip() + f"\n\n{weights}",
    )


def main() -> None:
    options = harness.parser(
        __doc__, "release", runs=Path("runs/ladder"), output=harness.ROOT / "checkpoints", test=False
    ).parse_args()
    spec = harness.read_yaml(options.release)
    config = harness.read_yaml(harness.ROOT / spec["ladder"])
    ladder = Ladder(config["rungs"], options.runs.resolve(), spec["seeds"], *to_fit_on(config))
    spec["stages"] = stages_of(config["rungs"], spec["rung"])
    folder = options.output / spec["name"]
    make(spec, ladder, folder)
    sets = Judged.read_all(config["sets"], options.test)
    lines = agreement(spec, ladder, sets, folder)
    with atomic_file(folder / CARD) as stream:
        stream.write(card(spec, folder, options.release, lines))


if __name__ == "__main__":
    main()
