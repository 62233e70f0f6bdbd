"""Metric scores of an experiment and their files; metric fields and idf weights may differ by group."""

from __future__ import annotations

import argparse
import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from textmover.checkpoints.statistics_files import unfitted_statistics
from textmover.experiments.evaluation.metrics import OnScores, baseline_scores, shared_memory
from textmover.experiments.papers.experiment import Experiment
from textmover.experiments.papers.specification import MetricSpec
from textmover.meta_evaluation import MetricScores
from textmover.modules.encoder_parts import EncoderParts
from textmover.modules.metric_model import MetricModel
from textmover.presets import PRESETS
from textmover.scoring.metric_set import Fitted, described_config, fit_once, score_together, vectors_key, warn_of_flags
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import build_scorer, load_scorer
from textmover.types import InputError, Judgements, SegmentScores, Signature

Variant = tuple[str, str]  # metric name, and the repr of its fields for a group


class Scored(NamedTuple):
    """Scores of a metric for a set, and its encoder and layers (or its package) as shown in tables."""

    scores: MetricScores
    encoder: str


class ExperimentMetrics:
    """Metrics of an experiment with a shared encoder.

    ``failed`` names the metrics that could not be loaded, for example with more layers than the encoder has, and why.
    ``fitted`` names the metrics without stored statistics; they were fitted on the texts of the sets.
    """

    def __init__(
        self, options: argparse.Namespace, experiment: Experiment, names: Collection[str], sets: Iterable[Judgements]
    ) -> None:
        self._memory = shared_memory(options, "metrics that share their encoder")
        self.failed: dict[str, str] = {}
        self.fitted: dict[str, None] = {}
        self._options = argparse.Namespace(**{**vars(options), "quiet": True})
        self._metrics = {name: one for name, one in experiment.all_metrics.items() if name in names}
        self._baselines, self._idf_by_group = experiment.baselines, experiment.idf_by_group
        self._parts: dict[tuple[tuple[str, str], ...], EncoderParts] = {}
        self._scorers: dict[Variant, Scorer] = {}
        self._missing: dict[Variant, list[str]] = {}
        self._higher_is_better: dict[str, bool] = {}
        groups = list(dict.fromkeys(group for one in sets for group in one.groups))
        for name, spec in self._metrics.items():
            for group in groups:
                if name not in self.failed:
                    self._load(name, spec, spec.fields_for(group))
        if self._metrics and len(self.failed) == len(self._metrics):
            raise InputError(next(iter(self.failed.values())))

    def scores(
        self, judgements: Judgements, names: Collection[str], on_progress: Callable[[int], None], on_scores: OnScores
    ) -> dict[str, Scored]:
        """Score a set with the metrics that could be loaded."""
        loaded = [name for name in names if name in self._metrics and name not in self.failed]
        values = {name: np.full(len(judgements), np.nan) for name in loaded}
        signatures: dict[str, dict[str, dict[str, None]]] = {name: {} for name in loaded}
        entries: dict[str, Mapping[str, str]] = {}
        counts: dict[str, Counter[str]] = {name: Counter() for name in loaded}
        self._fit_missing(judgements, loaded)

        def take(rows: Sequence[int], results: Mapping[str, SegmentScores]) -> None:
            for name, result in results.items():
                values[name][rows[: len(result)]] = result.scores
            on_scores([MetricScores(name, one, self._higher_is_better[name]) for name, one in values.items()])

        for groups, variants in self._grouped(judgements, loaded):
            scorers = {name: self._scorers[name, variant] for name, variant in variants.items()}
            rows = [row for row, group in enumerate(judgements.groups) if group in groups]
            hypotheses = [judgements.hypotheses[row] for row in rows]
            references = [judgements.references[row] for row in rows]
            on_window = functools.partial(take, rows)
            results = score_together(scorers, hypotheses, references, self._memory, on_progress, on_window)
            for name, result in results.items():
                counts[name].update(result.counts)
                signature = self._signature(result.signature, scorers[name])
                signatures[name].setdefault(str(signature), {}).update(dict.fromkeys(groups))
                entries.setdefault(name, signature.entries)
        warn_of_flags(judgements.name, counts)
        scored = {}
        for name in loaded:
            computed = MetricScores(name, values[name], self._higher_is_better[name], _joined(signatures[name]))
            scored[name] = Scored(computed, _encoder_name(entries[name]))
        for one, package in baseline_scores(judgements, [one for one in self._baselines if one in names], on_progress):
            scored[one.name] = Scored(one, package)
            on_scores([other.scores for other in scored.values()])
        return scored

    # --- loading ------------------------------------------------------------------------------------------------------

    def _load(self, name: str, spec: MetricSpec, fields: Mapping[str, Any]) -> None:
        """Load a variant; use the user's statistics only if some are missing."""
        variant = (name, repr(fields))
        if variant in self._scorers:
            return
        options = argparse.Namespace(**{**vars(self._options), "model": spec.model, "statistics": None})
        try:
            scorer = self._build(options, fields)
        except InputError as error:
            self.failed[name] = str(error)
            return
        missing = unfitted_statistics(scorer.metric)
        if missing and (options.fit_on or self._options.statistics):
            options.statistics = self._options.statistics
            scorer, missing = load_scorer(options, self._memory, one_of_several=True, **fields), []
        self._scorers[variant], self._missing[variant] = scorer, missing
        self._higher_is_better[name] = scorer.metric.higher_is_better

    def _build(self, options: argparse.Namespace, fields: Mapping[str, Any]) -> Scorer:
        """Build a scorer; reuse encoder and back-end of an earlier one that computes the same vectors."""
        # The fields of a checkpoint are unknown.
        config: Any = described_config(options, options.model, fields) if options.model in PRESETS else None
        key = () if config is None else vectors_key(config)
        if key in self._parts:
            parts = self._parts[key]
            metric = MetricModel(config, parts).to(parts.encoder.device).eval()
            if not unfitted_statistics(metric):
                return Scorer(metric, batch_tokens=options.batch_tokens, cache=not options.no_cache)
        scorer = build_scorer(options, self._memory, **fields)
        if key and isinstance(scorer.metric, MetricModel):
            self._parts.setdefault(key, scorer.metric.parts)
        return scorer

    def _fit_missing(self, judgements: Judgements, names: Collection[str]) -> None:
        """Fit missing statistics, such as the mean of an encoder without a statistics file, on the texts of the set."""
        texts = [*judgements.hypotheses, *(text for texts in judgements.references for text in texts)]
        fitted: Fitted = {}
        for (name, variant), scorer in self._scorers.items():
            if name in names and (missing := self._missing[name, variant]):
                self.fitted[name] = None
                fit_once(scorer, texts, missing, fitted)

    # --- scoring ------------------------------------------------------------------------------------------------------

    def _grouped(self, judgements: Judgements, names: Sequence[str]) -> list[tuple[tuple[str, ...], dict[str, str]]]:
        """Return the groups to score together, each with its metrics and their variants."""
        result: dict[tuple[str, ...], dict[str, str]] = {}
        for name in names:
            by_variant: dict[tuple[str, ...], list[str]] = {}
            for group in dict.fromkeys(judgements.groups):
                variant = repr(self._metrics[name].fields_for(group))
                by_variant.setdefault((variant, group) if self._idf_by_group else (variant,), []).append(group)
            for (variant, *_), groups in by_variant.items():
                result.setdefault(tuple(groups), {})[name] = variant
        return list(result.items())

    def _signature(self, signature: Signature, scorer: Scorer) -> Signature:
        weights = signature.entries.get("weights", "")
        if not (self._idf_by_group and scorer.metric.fits_on_call and "@" in weights):
            return signature
        return signature.extended(weights=re.sub("@.*", "@each group", weights))


def _joined(signatures: Mapping[str, Collection[str]]) -> str:
    """Join signatures; if there are several, name the groups of each."""
    if len(signatures) == 1:
        return next(iter(signatures))
    return "; ".join(f"{signature} ({', '.join(groups)})" for signature, groups in signatures.items())


def _encoder_name(entries: Mapping[str, str]) -> str:
    """Return encoder and layers as shown in tables.

    Example:
        >>> _encoder_name({"encoder": "all-MiniLM-L6-v2@53aa5117", "layers": "2-6"}), _encoder_name({"encoder": "a"})
        ('all-MiniLM-L6-v2, layers 2-6', 'a')
    """
    name = entries.get("encoder", "-").split("@")[0]
    return ", ".join([name, *(f"{key} {entries[key]}" for key in ("layer", "layers") if key in entries)])
