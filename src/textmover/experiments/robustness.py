"""Robustness tests: perturbed texts, and tables and a heat map of the effect of each perturbation kind."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from textmover.experiments.anisotropy import choose_texts
from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.robustness import MetricRobustness, Robustness, Versions
from textmover.meta_evaluation.significance.bootstrap import FEW, UNKNOWN, Interval, few_to_draw
from textmover.perturbations.parsed_clauses import Parses
from textmover.perturbations.perturbations import Perturbation
from textmover.perturbations.registry import ALIASES, KINDS, perturb_texts
from textmover.perturbations.word_substitution import Neighbours
from textmover.readers.judgements import load_description, read_judgements
from textmover.readers.segments import Columns, read_segments, read_texts
from textmover.report.figures.matplotlib_figures import HeatGroup, draw_heat_map
from textmover.report.table_formats import Section, block, interval, number, pick
from textmover.scoring.metric_field_options import given_fields
from textmover.terminal import AdvancePart
from textmover.types import InputError, Judgements, plural

KEEPING = ("notation", "synonym", "substitute", "passive", "active")  # kinds that should keep the meaning
YARDSTICK = "unrelated"  # the kind that other drops are relative to
TEXT = "text"  # kind of unchanged texts in the score table
NAMES: Mapping[tuple[str, int], str] = {
    (meant, degree): alias for alias, (meant, degrees) in ALIASES.items() for degree in degrees or ()
}
"""Names of degrees that tables show as a kind of their own, such as all words in random order."""


class OriginalTexts(NamedTuple):
    """Distinct texts and their references."""

    name: str
    texts: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    among: int  # number of distinct texts that they were sampled from
    own: bool  # whether each text is its own reference
    rated: tuple[str, ...] = ()  # rating dimensions of the unchanged texts


class PerturbedTexts(NamedTuple):
    """Texts followed by their perturbed versions, for scoring."""

    judgements: Judgements
    versions: Versions

    @property
    def facts(self) -> list[MetricScores]:
        """Degree and severity of texts (0) and versions, as columns of the score table."""
        columns = {"degree": self.versions.degrees, "severity": self.versions.severities}
        return [
            MetricScores(name, np.concatenate([np.zeros(self.versions.texts), values]), higher_is_better=False)
            for name, values in columns.items()
        ]


def read_subjects(options: argparse.Namespace) -> OriginalTexts:
    """Read the input texts and sample distinct ones, in the order of the file."""
    if (mode := given_fields(options).get("mode", "reference")) != "reference":
        raise InputError(f"Expected no `--mode {mode}`, since versions of a text have no sources: leave it out.")
    split = options.split or "train"
    rated: tuple[str, ...] = ()
    if options.set is not None:
        if options.column is not None or options.reference_column is not None:
            raise InputError(
                "Expected columns to be described by --set or by --column and --reference-column, but got both: leave "
                "one out."
            )
        judged = read_judgements(options.input, load_description(options.set), split=split)
        texts, references, rated = judged.hypotheses, judged.references, tuple(judged.ratings)
    elif options.reference_column is not None:
        columns = Columns(options.column or "hypothesis", tuple(dict.fromkeys(options.reference_column)), score=None)
        segments = read_segments(options.input, columns, split=split)
        texts, references = tuple(one.hypothesis for one in segments), tuple(one.references for one in segments)
    else:
        texts = tuple(read_texts(options.input, options.column, split=split))
        references = tuple((text.strip(),) for text in texts)
    by_text: dict[str, tuple[str, ...]] = {}
    for text, text_references in zip(texts, references, strict=True):
        if text.strip():
            by_text.setdefault(text.strip(), tuple(text_references))
    if len(by_text) < 2:
        raise InputError(
            f"Expected at least two different texts in {options.input}, but got {len(by_text)}: give more of them."
        )
    chosen = tuple(choose_texts(list(by_text), options.limit, options.seed))
    references = tuple(by_text[one] for one in chosen)
    own = options.set is None and options.reference_column is None
    return OriginalTexts(str(options.input), chosen, references, len(by_text), own, rated)


def change(
    subjects: OriginalTexts,
    types: Mapping[str, Sequence[int]],
    parses: Parses | None,
    neighbours: Neighbours | None,
    seed: int,
    advance: AdvancePart,
) -> PerturbedTexts:
    """Apply each requested perturbation to each text that allows it."""
    owners: list[int] = []
    changes: list[Perturbation] = []
    for place, variants in perturb_texts(subjects.texts, types, seed=seed, parses=parses, neighbours=neighbours):
        owners += [place] * len(variants)
        changes += variants
        advance("perturbing", 1, len(subjects.texts))
    kinds = tuple(NAMES.get((one.type, one.degree), one.type) for one in changes)
    requested = kind_names(types)
    if not set(kinds) - {YARDSTICK} and requested != [YARDSTICK]:
        raise InputError(
            f"Expected texts that allow {', '.join(name for name in requested if name != YARDSTICK)}, but got none in "
            f"{subjects.name}: give other texts or kinds."
        )
    count = len(subjects.texts)
    places = [*range(count), *owners]
    texts = (*subjects.texts, *(one.text for one in changes))
    references = tuple(subjects.references[place] for place in places)
    items = tuple(str(place + 1) for place in places)
    judgements = Judgements(subjects.name, texts, references, {}, (*[TEXT] * count, *kinds), items=items)
    degrees = tuple(one.degree for one in changes)
    severities = np.asarray([one.severity for one in changes], dtype=np.float64)
    return PerturbedTexts(judgements, Versions(count, np.asarray(owners, dtype=np.int64), kinds, degrees, severities))


def kind_names(types: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of perturbation kinds in tables: harmful kinds first, then those that keep the meaning.

    Example:
        >>> kind_names({"synonym": (1,), "swap": (1, 9), "drop": (1,)})
        ['swap', 'shuffle', 'drop', 'synonym']
    """
    ordered = [name for name in KINDS if name in types]
    names = dict.fromkeys(NAMES.get((name, degree), name) for name in ordered for degree in types[name])
    return sorted(names, key=lambda name: name in KEEPING)


CHANGED, KEPT = "changed", "kept"  # effects on the meaning
INTERVAL = "95 % interval"  # header of the intervals

BY_KIND: Mapping[str, tuple[str, str]] = {
    "Drop, relative to the drop of an unrelated text": (
        "share",
        "Mean of score(text) - score(version) over all degrees, divided by the mean drop when an unrelated text takes "
        "its place: at 0 the change costs nothing, at 1 as much as an unrelated text.",
    ),
    "Drop, in each metric's own unit": ("drop", "Not comparable across metrics."),
    "Share of versions that score below their text": (
        "below",
        "For a kind that keeps the meaning, it only says that the metric sees the change.",
    ),
    "Share of pairs in which a harmed version scores below one of the same text that keeps the meaning": (
        "below_keeping",
        "Both of the mildest degree of their kinds.",
    ),
    "Chance that a harmed version drops more than one that keeps the meaning, of any text (AUC)": (
        "auc",
        "Both of the mildest degree of their kinds; .5 is chance.",
    ),
    "Spearman's ρ of the scores with the generated severity": (
        "spearman",
        "Over the versions of all degrees, signed so that 1 is agreement; missing if all versions have the same "
        "severity. Kendall's τ-b is in CSV and JSON.",
    ),
}
"""Tables by kind: title, result field and reading aid."""

SUMMARY = (
    "harmful, kept: drop relative to that of an unrelated text, averaged over the kinds that harm the meaning and over "
    "those that keep it; a robust metric has a high value for harmful kinds and a low one for kept.",
    "AUC: chance that a harmed version drops more than one that keeps the meaning; pairs: share of texts whose harmed "
    "version scores lower than one that keeps the meaning. Both are means over the harmful kinds, of versions of the "
    "mildest degree.",
    "ρ, τ: Spearman's and Kendall's correlation of the scores with the generated severity over all versions.",
    f"unit: mean drop of an unrelated text; drops are divided by it. The means exclude the kind {YARDSTICK}.",
)


def blocks(found: Robustness, kinds: Sequence[str], figure: str | None) -> list[Section]:
    """Return the summary and the tables by kind that have a value."""
    counts = {one.kind: one for one in found.metrics[0].kinds}
    few = [name for name in kinds if name in counts and counts[name].texts < FEW]
    tables = [_summary(found)]
    headers = ("kind", "meaning", "n", *(metric.name for metric in found.metrics))
    for title, (shown, remark) in BY_KIND.items():
        rows = tuple(_row(name, found.metrics, shown) for name in kinds if name in counts)
        if any(cell != "-" for row in rows for cell in row[3:]):
            tables.append(block(title, headers if len(found.metrics) > 1 else (*headers, INTERVAL), rows, (remark,)))
    remarks = [*tables[1].remarks, f"Intervals: bootstrap, {plural(found.samples, 'draw')} of whole texts."]
    if len(found.metrics) > 1:
        remarks[-1] += " Those by kind are in CSV and JSON, with each degree."
    if few:
        remarks.append(f"Fewer than {FEW} texts, too few to trust: {', '.join(few)}.")
        remarks[-1] += " Intervals of means over kinds are over draws with all kinds; if too few, there is none."
    missing = [name for name in kinds if name not in counts]
    if missing:
        remarks.append(f"No text allows {', '.join(missing)}.")
    tables[1] = replace(tables[1], remarks=remarks, records=list(_records(found)), figure=figure)
    return tables


def notes(subjects: OriginalTexts, kinds: Sequence[str], left_out: Sequence[str], seed: int) -> Iterator[str]:
    """Yield notes for reading the tables, including those on excluded kinds."""
    count, among = len(subjects.texts), subjects.among
    chosen = f"all {count:,}" if count == among else f"{count:,} of {among:,}"
    by_chance = "" if count == among else f" (chosen by seed {seed})"
    against = "themselves" if subjects.own else "their references"
    yield f"Texts: {chosen} different texts of {Path(subjects.name).name}{by_chance}, scored against {against}."
    if few := few_to_draw({"": count}, "text"):
        yield few
    kept = [name for name in kinds if name in KEEPING]
    if kept:
        yield f"Changes that should keep the meaning: {', '.join(kept)}. Rules make them, so a few versions do not."
    yield (
        "The severity of a change is not rated by people: it comes from a table by kind (docs/perturbations.md). "
        "Correlations with it cannot be compared with RoMe's table 7, whose ratings are not public."
    )
    if subjects.rated:
        yield (
            f"The ratings of the texts ({', '.join(subjects.rated)}) are not used: they belong to the unchanged texts. "
            "Judge rated versions with `textmover evaluate --statistic spearman --group KIND`."
        )
    if subjects.own:
        yield (
            "Each text is its own reference and has the best possible score, so all versions score below it. If you "
            "have human references, name them with --reference-column or --set."
        )
    yield from (f"{one}." for one in left_out)


def draw_drops(found: Robustness, kinds: Sequence[str], path: Path) -> None:
    """Draw a heat map (kinds by metrics) of drops relative to an unrelated text; kinds without a value have no row."""
    shares = [{one.kind: one.share.estimate for one in metric.kinds} for metric in found.metrics]
    groups = []
    for title, keeps in (("changes that harm", False), ("changes that keep the meaning", True)):
        named = [name for name in kinds if (name in KEEPING) == keeps and name != YARDSTICK]
        names = [name for name in named if any(math.isfinite(one.get(name, math.nan)) for one in shares)]
        values = [[one.get(name, math.nan) for one in shares] for name in names]
        if names:
            groups.append(HeatGroup(title, names, values))
    if groups:
        columns = [Path(metric.name).name for metric in found.metrics]
        draw_heat_map(
            groups, columns, path, title="How far a changed text drops", low="like the text", high="like another text"
        )


def _summary(found: Robustness) -> Section:
    headers = ("metric", "harmful", KEPT, "AUC", INTERVAL, "pairs", INTERVAL, "ρ", "τ", "unit")
    rows = []
    records = []
    for one in found.metrics:
        harmful, kept, auc, pairs, spearman = (
            number(value.estimate) for value in (one.harmful, one.keeping, one.auc, one.below_keeping, one.spearman)
        )
        ends = interval(*one.auc[1:3]), interval(*one.below_keeping[1:3])
        last = number(one.kendall), number(one.unit)
        rows.append((one.name, harmful, kept, auc, ends[0], pairs, ends[1], spearman, *last))
        shares = {"harmful_share": one.harmful, "keeping_share": one.keeping, "below_keeping": one.below_keeping}
        records.append(
            {
                "table": "summary",
                "metric": one.name,
                **pick(found, "texts", "versions"),
                "unit": one.unit,
                **_with_bounds(**shares, **pick(one, "auc", "spearman")),
                **pick(one, "kendall", "signature"),
            }
        )
    signatures = tuple((one.name, one.signature) for one in found.metrics if one.signature)
    return block("Summary", headers, rows, SUMMARY, signatures=signatures, records=records)


def _row(name: str, metrics: Sequence[MetricRobustness], shown: str) -> tuple[str, ...]:
    found = [next((one for one in metric.kinds if one.kind == name), None) for metric in metrics]
    cells = [name, KEPT if name in KEEPING else CHANGED, "0" if found[0] is None else f"{found[0].versions:,}"]
    for kind in found:
        value: Interval = UNKNOWN if kind is None else getattr(kind, shown)
        cells += [number(value.estimate), *([interval(*value[1:3])] if len(metrics) == 1 else [])]
    return tuple(cells)


def _records(found: Robustness) -> Iterator[Mapping[str, Any]]:
    for metric in found.metrics:
        for kind in (*metric.kinds, *metric.by_degree):
            yield {
                "table": "kinds",
                "metric": metric.name,
                "kind": kind.kind,
                "degree": "all" if kind.degree is None else kind.degree,
                "meaning": KEPT if kind.keeping else CHANGED,
                **pick(kind, "texts", "versions"),
                **_with_bounds(**pick(kind, "drop", "share", "below")),
                "pairs": kind.pairs,
                **_with_bounds(**pick(kind, "below_keeping", "auc", "spearman")),
                "kendall": kind.kendall,
                "signature": metric.signature,
            }


def _with_bounds(**values: Interval) -> dict[str, float]:
    ends = (("", "estimate"), ("_low", "low"), ("_high", "high"))
    return {f"{name}{end}": getattr(one, part) for name, one in values.items() for end, part in ends}
