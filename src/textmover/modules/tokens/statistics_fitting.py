"""Fitting of a metric's statistics on a corpus, or on the texts of one call."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import torch

from textmover.modules.devices import evaluating, lasting
from textmover.modules.tokens.statistics import Baseline, CorpusMean, IdfTable
from textmover.modules.tokens.tokenizer import check_string
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.modules.metric_model import MetricModel

logger = logging.getLogger(__name__)

BATCH = 64  # texts encoded at a time
WINDOW = 2048  # texts sorted by length at a time to reduce padding
NEIGHBOURS = 8  # other texts of its batch that each text is compared with for the baseline

NOT_IN_BASELINE = ("rescaled", "refs", "long", "mode", "source", "target", "calibration", "backend", "precision",
                   "score")  # fmt: skip
"""Signature entries that do not affect the baseline."""


@lasting()
def fit_statistics(
    metric: MetricModel,
    texts: Iterable[str],
    hypotheses: Iterable[str] | None,
    *,
    names: Collection[str] | None = None,
    from_call: bool,
    on_progress: Callable[[int], None] | None,
) -> None:
    """See :meth:`MetricModel.fit`. Each earlier statistic stays unchanged until its new fit is complete."""
    statistics = metric.statistics
    if from_call:
        statistics = {name: one for name, one in statistics.items() if isinstance(one, IdfTable)}
    if names is not None:
        statistics = {name: one for name, one in statistics.items() if name in names}
    if not statistics:
        raise InputError(
            f"Expected a metric with statistics to fit, but got centering={metric.config.centering!r}, "
            f"weights={metric.config.weights!r} and rescale=False: choose centering='corpus', idf weights or rescale."
        )
    report = on_progress or (lambda _: None)
    tables = {name: one for name, one in statistics.items() if isinstance(one, IdfTable)}
    if len(statistics) > 1 and not (from_call and hypotheses is not None):  # an iterator can be read only once
        texts = list(texts)
    sides = {name: texts if hypotheses is None or name == "idf" else hypotheses for name in tables}
    fitted = {name: _fitted_table(metric, table, sides[name]) for name, table in tables.items()}
    for name, table in tables.items():
        fitted[name].from_call.fill_(from_call)
        table.load_state_dict(fitted[name].state_dict())
    uninformative = [name for name, table in tables.items() if not table.informative]
    if uninformative:
        side = "hypotheses" if "idf_hypothesis" in uninformative else "references"
        of_side = "" if len(uninformative) == len(tables) else f" of the {side}"
        logger.warning("idf%s was fitted on texts with equal tokens: weights are uniform.", of_side)
    with evaluating(metric):
        for statistic in statistics.values():  # the baseline last, since it needs all others
            if isinstance(statistic, CorpusMean):
                _fit_mean(metric, statistic, texts, report)
            elif isinstance(statistic, Baseline):
                _fit_baseline(metric, statistic, texts, report)


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield texts from an iterable in lists of ``size``; the last may be shorter."""
    checked = (check_string(text, position) for position, text in enumerate(texts))
    while window := list(itertools.islice(checked, size)):
        yield window


def statistic_basis(metric: MetricModel, name: str) -> dict[str, str]:
    """See :meth:`MetricModel.statistic_basis`."""
    entries = metric.signature.entries
    if name == "baseline":
        return {key: value for key, value in entries.items() if key not in NOT_IN_BASELINE}
    read = ("encoder", "unknown", *metric.layers.signature_entries()) if name == "mean" else ("encoder",)
    return {key: entries[key] for key in read if key in entries}


def _fitted_table(metric: MetricModel, table: IdfTable, texts: Iterable[str]) -> IdfTable:
    fitted = IdfTable(len(table.counts), table.formula)
    for window in windows(texts, WINDOW):
        batch = metric.tokenize(window)
        fitted.add(batch.input_ids, batch.mask)
    if not fitted.fitted:
        raise InputError("Expected texts to fit idf weights on, but got none.")
    return fitted


def _fit_mean(metric: MetricModel, mean: CorpusMean, texts: Iterable[str], report: Callable[[int], None]) -> None:
    fitted = CorpusMean(len(mean.mean)).to(mean.mean)
    for chunk in _batches(texts):
        batch = metric.tokenize(chunk).to(metric.device)
        fitted.add(metric.token_vectors(batch), batch.mask)
        report(len(chunk))
    if not fitted.fitted:
        raise InputError("Expected texts with tokens to fit a mean on, but none of them has any.")
    mean.load_state_dict(fitted.state_dict())


def _fit_baseline(metric: MetricModel, baseline: Baseline, texts: Iterable[str], report: Callable[[int], None]) -> None:
    """Fit the mean values of random text pairs of the corpus, before rescaling and calibration."""
    stripped = (text.strip() for window in windows(texts, WINDOW) for text in window)
    distinct = list(dict.fromkeys(filter(None, stripped)))
    if len(distinct) < 2:
        raise InputError("Expected two different texts at least to fit a baseline on, but got fewer: give 100.")
    order = torch.randperm(len(distinct), generator=torch.Generator().manual_seed(0)).tolist()
    fitted = Baseline().to(baseline.values.device)
    for chunk in _batches([distinct[row] for row in order], by_length=False):
        features = metric.text_features(metric.tokenize(chunk).to(metric.device))
        if features is None:
            raise InputError(
                "Expected texts to be read one by one to fit a baseline, but centering='batch' joins them."
            )
        rows = torch.arange(len(chunk), device=metric.device)
        for shift in range(1, min(NEIGHBOURS, len(chunk) - 1) + 1):
            values, flags = metric.pair_values(features.select(rows.roll(shift)), features)
            fitted.add(values[~(flags["empty"] | flags.get("off target", flags["empty"]))])
        report(len(chunk))
    if not bool((fitted.values < 1).all()):
        raise InputError(
            f"Expected unrelated texts to score below 1, but their baseline is {fitted.values.tolist()}: this corpus "
            "tells no texts apart."
        )
    baseline.load_state_dict(fitted.state_dict())


def _batches(texts: Iterable[str], *, by_length: bool = True) -> Iterator[list[str]]:
    """Yield texts in batches, sorted by length within each window if ``by_length``."""
    for window in windows(texts, WINDOW):
        if by_length:
            window.sort(key=len)
        for first in range(0, len(window), BATCH):
            yield window[first : first + BATCH]
