"""Evaluate error spans of metrics: MLQE-PE by language pair, and sentences with synthetic errors by kind.

    python benchmarks/error_spans.py --metrics textmover-general --source-metrics textmover-multilingual

The tags of MLQE-PE are edits from a translation to its post-edit, so word overlap finds most of them.
Further tables therefore use a paraphrase of the post-edit, the closest other post-edit, or the source alone. A metric
with a trained error head is compared with the rule based on its transport plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import harness
import numpy as np
from matplotlib.figure import Figure

from textmover import Scorer
from textmover.data.error_spans import made_errors, with_references
from textmover.meta_evaluation import grouped_correlations, judge_errors, mean_correlation
from textmover.meta_evaluation.error_spans.agreement import cells_of, judged_probabilities, reliability
from textmover.modules.metric_model import MetricModel
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.segments import Columns, read_segments
from textmover.report.figures.matplotlib_figures import save_figure
from textmover.scoring.error_spans.spans import WORD_OVERLAP, word_overlap_errors
from textmover.types import MarkedSegment, TextErrors

REFERENCES = {
    "given": "the post-edit, against which the tags were made",
    "paraphrase": "the post-edit in other words, by rules for English",
    "other": "the closest post-edit of another source",
}
"""Kinds of references, in table order."""

KINDS = ("number", "entity", "negate", "antonym", "drop", "insert", "replace", "repeat")  # kinds of synthetic errors

PUBLISHED = {
    "OpenKiwi (baseline of WMT20), test part": {"en-de": 0.4111, "en-zh": 0.5583},
    "MicroTransQuest, test part": {"en-de": 0.6013, "en-zh": 0.6402},
}
"""F1-mult of all tags, words and gaps: https://tharindudr.github.io/TransQuest/examples/word_level_examples."""

ENGLISH = ("et-en", "ne-en", "ro-en", "ru-en", "si-en")


def tagged(most: int) -> list[MarkedSegment]:
    """Read the development part of MLQE-PE, at most ``most`` texts per language pair (0: all)."""
    columns, segments = MarkedColumns(source="source", groups=("lp",)), list[MarkedSegment]()
    for name in ("data:mlqe-pe", "data:mlqe-pe-from-english"):
        left_out: list[Exception] = []
        segments += read_marked(name, columns, where={"part": ["dev"]}, left_out=left_out)
        print(f"{name}: {len(left_out)} rows left out, whose tokens are not those of their text")
    counts = Counter[str]()
    selected = []
    for segment in segments:
        counts[segment.groups["lp"]] += 1
        if not most or counts[segment.groups["lp"]] <= most:
            selected.append(segment)
    return selected


def marked_by(
    scorers: dict[str, Scorer], segments: Sequence[MarkedSegment], *, source: bool = False
) -> dict[str, Sequence[TextErrors]]:
    """Predict errors with each metric, and with exact word overlap."""
    texts = [segment.hypothesis for segment in segments]
    if source:
        sources = [segment.source or "" for segment in segments]
        return {name: scorer.errors(texts, sources=sources) for name, scorer in scorers.items()}
    references = [segment.references for segment in segments]
    results = {name: scorer.errors(texts, references) for name, scorer in scorers.items()}
    return {WORD_OVERLAP: word_overlap_errors(texts, references), **results}


def with_rules(names: Sequence[str], **fields: object) -> dict[str, Scorer]:
    """Load scorers by name; for those with an error head, also load the rule without the head."""
    scorers: dict[str, Scorer] = {}
    for name in names:
        scorer = Scorer.from_pretrained(name, **fields)
        headed = isinstance(scorer.metric, MetricModel) and scorer.metric.error_head is not None
        scorers[name if headed else f"{name}, rule"] = scorer
        if headed:
            scorers[f"{name}, rule"] = Scorer.from_pretrained(name, mark_errors=False, **fields)
    return scorers


def by_pair(gold: Sequence[MarkedSegment], marked: dict[str, Sequence[TextErrors]]) -> list[list[str]]:
    """Return MCC of words and gaps by language pair and their mean, one row per metric."""
    rows = []
    for name, errors in marked.items():
        agreement = judge_errors(gold, errors, "lp")
        cells = [f"{group['mcc_words']:.3f} / {group['mcc_gaps']:.3f}" for group in agreement.by_group.values()]
        gaps, both, ece = (f"{agreement.figures[figure].estimate:.3f}" for figure in ("mcc_gaps", "mcc", "ece"))
        rows.append([name, *cells, f"{harness.interval(agreement.figures['mcc_words'])} / {gaps}", both, ece])
    return rows


def by_kind(scorers: dict[str, Scorer], texts: Sequence[str], seeds: Sequence[int], paraphrased: float) -> None:
    """Print recall and precision of synthetic errors by kind, mean and standard deviation over seeds."""
    cells: dict[str, dict[str, list[tuple[float, float]]]] = {}
    counts: dict[str, int] = {}
    reworded: list[bool] = []
    for seed in seeds:
        gold = made_errors(texts, dict.fromkeys(KINDS, 1.0), 3, seed, paraphrased)
        reworded += [segment.groups["reference"] == "paraphrase" for segment in gold]
        for name, errors in marked_by(scorers, gold).items():
            for kind, result in judge_errors(gold, errors, samples=0).by_kind.items():
                counts[kind] = result.errors
                values = (result.recall.estimate, result.precision.estimate)
                cells.setdefault(name, {}).setdefault(kind, []).append(values)
    print(f"\n## Made errors, recall / precision, {np.mean(reworded):.0%} of the references in other words\n")
    print(f"Mean over the seeds {', '.join(map(str, seeds))} ± standard deviation.\n")
    present = [kind for kind in KINDS if kind in counts]
    rows = [["errors", *(str(counts[kind]) for kind in present)]]
    for name, kinds in cells.items():
        tables = [np.array(kinds[kind]) for kind in present]
        shown = ("{:.3f} / {:.3f} ± {:.3f}".format(*table.mean(axis=0), table.std(axis=0).max()) for table in tables)
        rows.append([name, *shown])
    harness.print_table(["metric", *present], rows)


def costs_and_people(gold: Sequence[MarkedSegment], marked: dict[str, Sequence[TextErrors]]) -> list[list[str]]:
    """Return Pearson's r of negative error cost with direct assessments by language pair, one row per metric."""
    columns = Columns(score="z_mean", groups=("part",))
    rated = [one for name in ("data:mlqe-pe", "data:mlqe-pe-from-english") for one in read_segments(name, columns)]
    people = {(one.hypothesis, one.references[0]): one.score for one in rated if one.groups["part"] == "dev"}
    human = [people[one.hypothesis, one.references[0]] for one in gold]
    rows = []
    for name, errors in marked.items():
        result = grouped_correlations([-one.cost for one in errors], human, [one.groups["lp"] for one in gold])
        values = [one.pearson for one in (*result.values(), mean_correlation(result))]
        rows.append([name, *(f"{one:.3f}" for one in values)])
    return rows


def by_source(
    gold: Sequence[MarkedSegment], names: Sequence[str], pairs: Sequence[str], headers: Sequence[str]
) -> None:
    marked = marked_by(with_rules(names, mode="source"), gold, source=True)
    print("\n## MLQE-PE dev, MCC of words / gaps: the source alone\n")
    harness.print_table(headers, by_pair(gold, marked))
    print("\n## F1-mult of all tags, the source alone\n")
    by_group = {name: judge_errors(gold, errors, "lp", samples=0).by_group for name, errors in marked.items()}
    table = {name: {pair: one[pair]["f1_mult_tags"] for pair in one} for name, one in by_group.items()} | PUBLISHED
    rows = [[name, *(f"{one[pair]:.3f}" if pair in one else "" for pair in pairs)] for name, one in table.items()]
    harness.print_table(["metric", *pairs], rows)


def picture(gold: Sequence[MarkedSegment], marked: dict[str, Sequence[TextErrors]], path: Path) -> None:
    """Plot the observed error rates of words and gaps over predicted probabilities, one curve per metric."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for place, (axes, title) in enumerate(zip(figure.subplots(1, 2), ("words", "gaps"), strict=True)):
        axes.plot((0, 1), (0, 1), color="grey", linewidth=1, linestyle=":")
        for name, errors in marked.items():
            judged = judged_probabilities(gold, errors)[place]
            curve = reliability(cells_of(judged.probabilities, judged.wrong)[0], 20)
            axes.plot(curve.probability, curve.wrong, marker="o", markersize=3, label=f"{name}: {curve.error:.3f}")
        axes.set(title=title, xlabel="probability of an error", ylabel="share that people marked")
        axes.legend(title="calibration error", fontsize="small")
    save_figure(figure, path)


def main() -> None:
    options = harness.parser(
        __doc__, metrics=["textmover-general", "twmd"], source_metrics=["textmover-multilingual"], most=0,
        sentences=500, seeds=[0, 1, 2], paraphrased=[0.0, 1.0], picture=Path,
    ).parse_args()  # fmt: skip
    gold = tagged(options.most)
    pairs = list(dict.fromkeys(one.groups["lp"] for one in gold))
    headers = ["metric", *pairs, "mean words / gaps", "both", "ECE"]
    scorers = with_rules(options.metrics)
    for kind, about in REFERENCES.items():
        segments = with_references(gold, {kind: 1.0}, options.seeds[0])
        changed = [(one, old) for one, old in zip(segments, gold, strict=True) if one.groups["reference"] == kind]
        print(f"\n## MLQE-PE dev, MCC of words / gaps: {about}\n\n{len(changed):,} of {len(gold):,} references\n")
        subset = [replace(one, groups=old.groups) for one, old in changed]
        own_pairs = [pair for pair in pairs if any(one.groups["lp"] == pair for one in subset)]
        marked = marked_by(scorers, subset)
        harness.print_table(["metric", *own_pairs, *headers[-3:]], by_pair(subset, marked))
        if kind == "given":
            print("\n## MLQE-PE dev, Pearson of the negative MQM cost of the errors with direct assessments\n")
            harness.print_table(["metric", *own_pairs, "mean"], costs_and_people(subset, marked))
            if options.picture is not None:
                picture(subset, {name: one for name, one in marked.items() if name != WORD_OVERLAP}, options.picture)
    if options.source_metrics:
        by_source(gold, options.source_metrics, pairs, headers)
    texts = list(dict.fromkeys(one.references[0] for one in gold if one.groups["lp"] in ENGLISH))
    order = np.random.default_rng(0).permutation(len(texts))[: options.sentences]
    for share in options.paraphrased:
        by_kind(scorers, [texts[place] for place in order], options.seeds, share)


if __name__ == "__main__":
    main()
