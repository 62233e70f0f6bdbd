"""Compare human agreement and speed of bert-score, torchmetrics, sacrebleu, all presets and all released metrics.

    python benchmarks/frontier.py                          # agreement and speed, in one run
    python benchmarks/frontier.py --only textmover-static  # update one metric; other rows are unchanged

Agreement is the mean Pearson correlation on the six test sets of the released metrics' cards, with default options and
``fast`` precision. Speed is pairs per second on WMT17 with empty caches, on one and on two cores; each measurement runs
in its own process. ``textmover list`` shows the table; the picture is drawn from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import harness
import numpy as np
from ladder import Judged
from matplotlib.figure import Figure
from scoring_speed import CANDIDATES, Setting, machine, measured, read_pairs

from textmover import Scorer
from textmover.checkpoints.hub import released_metrics
from textmover.presets import PRESETS
from textmover.report.figures.matplotlib_figures import save_figure
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.lexical import lexical_scores
from textmover.scoring.metric_set import score_together
from textmover.types import InputError

TABLE = harness.ROOT / "src/textmover/presets.csv"
PICTURE = harness.ROOT / "docs/images/frontier.png"
SAME = {"bert-score": "bertscore-f1", "torchmetrics": "bertscore-f1"}
"""Packages that compute the same scores as a preset, and therefore have its agreement."""

OVERLAP = {"chrF": "chrf", "BLEU": "sentbleu"}
PEERS = (*SAME, *OVERLAP)

QUICK = ("bertscore-f1", *(f"textmover-{name}" for name in ("general", "wmt", "fast", "base", "multilingual")))
"""Metrics also measured with ``fast`` and ``int8`` precision; other metrics with the same encoder gain equally."""

OURS, OTHERS, INK = "#3f51b5", "#a3a7b0", "#33363c"
CORES, PRECISIONS = (1, 2), ("exact", "fast", "int8")
OFFSETS = {
    "textmover-wmt": (9, -4), "textmover-multilingual": (-100, -18), "bert-score": (-40, 14),
    "torchmetrics": (-72, -14), "textmover-static": (-46, 12), "chrF": (-28, -4), "BLEU": (-12, 9),
}  # fmt: skip
"""Label offsets of names that would overlap."""


def judged_sets() -> dict[str, Judged]:
    found = harness.read_yaml(harness.ROOT / "configs/ladder/wmt.yaml")["sets"]
    return {name: Judged.read(one) for name, one in found.items() if one.get("test")}


def agreement(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return Pearson's r of each metric on each set; metrics share the outputs of their encoder."""
    memory, scorers = EncoderMemory(1 << 31, evict=False), {}
    for name in names:
        if name not in PEERS:
            try:
                scorers[name] = Scorer.from_pretrained(name, precision="fast")
            except (InputError, ImportError) as error:  # missing package or encoder
                print(f"{name}: {error}", flush=True)
                continue
            memory.join(scorers[name].metric, "fast")
    results: dict[str, dict[str, float]] = {name: {} for name in [*scorers, *(name for name in names if name in PEERS)]}
    for title, judged in judged_sets().items():
        values = {
            name: scored.scores * (1 if scorers[name].metric.higher_is_better else -1)
            for name, scored in score_together(scorers, *judged.texts, memory).items()
        }
        values |= {name: lexical_scores(metric, *judged.texts).scores for name, metric in OVERLAP.items()}
        for name in results.keys() & values.keys():
            results[name][title] = judged.mean(values[name]).pearson
        print(title, flush=True)
    for name, preset in SAME.items():
        if name in results:
            results[name] = results.get(preset) or agreement([preset])[preset]
    return results


def speeds(names: Iterable[str], limit: int, repetitions: int) -> dict[str, dict[str, float]]:
    """Measure pairs per second of each metric by precision and number of cores."""
    pairs = read_pairs("data:wmt17-da", limit)
    rates: dict[str, dict[str, float]] = {}
    for cores, name, precision in itertools.product(CORES, names, PRECISIONS):
        if precision != "exact" and name not in QUICK:
            continue
        candidate = name if name in CANDIDATES else f"{name} {precision}"
        runs = [measured(candidate, pairs, Setting(cores=cores)) for _ in range(repetitions)]
        if "error" in runs[0]:
            print(f"{name}: {runs[0]['error']}", flush=True)
            continue
        rate = len(pairs[0]) / float(np.median([one["score"] for one in runs]))
        rates.setdefault(name, {})[column(precision, cores)] = rate
        print(f"{name}, {precision}, {cores}: {rate:,.0f} pairs/s", flush=True)
    return rates


def column(precision: str, cores: int) -> str:
    return f"pairs/s, {precision}, {cores} core{'s' * (cores > 1)}"


def merged(found: Mapping[str, Mapping[str, float]], rates: Mapping[str, Mapping[str, float]]) -> list[harness.Row]:
    """Merge new results into the rows of the table, sorted by agreement."""
    rows = {row["metric"]: row for row in harness.read_rows(TABLE)}
    cells = [(name, {"agreement": np.mean(list(sets.values())), **sets}, ".3f") for name, sets in found.items()]
    cells += [(name, columns, ".0f") for name, columns in rates.items()]
    for name, values, pattern in cells:
        columns = {key: f"{value:{pattern}}" for key, value in values.items()}
        rows[name] = {**rows.get(name, {}), "metric": name, **columns}
    return sorted(rows.values(), key=lambda row: -float(row.get("agreement") or 0))


def draw(rows: Sequence[Mapping[str, str]], path: Path, title: str) -> None:
    """Draw all metrics, and a line through the Pareto-optimal ones."""
    at = column("exact", 2)
    places = {row["metric"]: (float(row[at]), float(row["agreement"])) for row in rows if row.get(at)}
    optimal = [name for name, (x, y) in places.items() if not any(a > x and b > y for a, b in places.values())]
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*sorted(places[name] for name in optimal), strict=True), color=OURS, linewidth=1, alpha=0.4)
    for name, (x, y) in places.items():
        named = name in PEERS or name in released_metrics()
        colour = OURS if name in released_metrics() else INK if name in PEERS else OTHERS
        axes.scatter(x, y, color=colour, s=34 if named else 14, zorder=3 if named else 2)
        if named:
            axes.annotate(name, (x, y), xytext=OFFSETS.get(name, (6, 3)), textcoords="offset points", fontsize=8.5)
    axes.annotate("presets", (places["trwmd-b"]), xytext=(-46, 0), textcoords="offset points", color=OTHERS)
    axes.set_xscale("log")
    axes.set_xlabel("pairs per second, two cores", color=INK)
    axes.set_ylabel("Pearson with people, mean of six test sets", color=INK)
    axes.set_title(title, fontsize=9, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    save_figure(figure, path)


def main() -> None:
    options = harness.parser(
        __doc__, only=[], limit=1000, repetitions=1, without_agreement=False, without_speed=False, picture=PICTURE
    ).parse_args()
    names = options.only or [*PEERS, *PRESETS, *released_metrics()]
    found = {} if options.without_agreement else agreement(names)
    rows = merged(found, {} if options.without_speed else speeds(names, options.limit, options.repetitions))
    columns = ["metric", "agreement", *judged_sets(), *(column(one, n) for one in PRECISIONS for n in CORES)]
    harness.write_rows(TABLE, rows, columns)
    draw(rows, options.picture, f"Float32, {options.limit} pairs of WMT17, cold caches: {harness.processor()}")
    print(machine())


if __name__ == "__main__":
    main()
