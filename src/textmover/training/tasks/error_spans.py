"""Error marking: wrong tokens, and gaps where words are missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torchmetrics import Metric

from textmover.data.batching import PartLoader
from textmover.data.error_spans import MarkedBatch, MarkedSource
from textmover.modules.devices import evaluating
from textmover.modules.error_spans.head import ErrorHead, ErrorLogits, error_logits
from textmover.training.sharding import gather_values
from textmover.training.tasks.task import Task, TaskResult, check_fitted

REACH = 12.0  # log-odds are clipped to this size
BINS = 480  # bins of log-odds, used to calibrate probabilities and choose thresholds
ODDS = torch.linspace(-REACH, REACH, BINS, dtype=torch.float64)  # log-odds of each bin
START = np.array([1.0, 0.0])  # scale and offset that do not change log-odds
SIDES, KINDS = ("references", "sources"), ("words", "gaps")  # axes of counts, scales and thresholds


class _Counts(Metric):
    """Histograms of the log-odds of right and of wrong tokens and gaps."""

    full_state_update = False

    counts: Tensor
    items: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("counts", torch.zeros(2, len(KINDS), 2, BINS, dtype=torch.long), dist_reduce_fx="sum")
        self.add_state("items", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, side: int, kind: int, logits: Tensor, targets: Tensor) -> None:
        """Count log-odds ``[…]`` by targets of the same shape; NaN targets are ignored."""
        judged = ~targets.isnan()
        places = ((logits[judged].clamp(-REACH, REACH) + REACH) / (2 * REACH) * (BINS - 1)).round().long()
        for label in (0, 1):
            self.counts[side, kind, label] += torch.bincount(places[targets[judged] == label], minlength=BINS)

    def compute(self) -> Tensor:
        """Return counts, int64 ``[2, 2, 2, BINS]``: reference or source, word or gap, right or wrong."""
        return self.counts


class ErrorTask(Task[MarkedSource]):
    r"""Errors of one source, by binary cross entropy of tokens and of gaps.

    The loss of a text is the mean of :math:`-y \log p - (1 - y) \log(1 - p)` over its tokens, the same over its gaps,
    and the cross entropy of the severities of its wrong tokens, if known. The loss of a batch is the mean
    over its texts. Each validation of a fit calibrates the metric's head on the held-back part: scale and offset of
    its log-odds by maximum likelihood (Platt 1999), and the thresholds of the largest Matthews correlation.
    """

    collector = _Counts

    def __init__(self, source: MarkedSource, metric: Any, *, main: bool = True) -> None:
        super().__init__(source, main=main)
        source.read_as(metric)
        self._head: tuple[ErrorHead, ...] = ()  # a tuple keeps its weights out of the parameters of the task

    def prepare(self, metric: Any, start: Callable[[], Any], autocast: Callable[[], Any]) -> None:
        """Set whether severities are learned."""
        if any(one.graded for one in self.source.items):
            metric.error_head.graded.fill_(1.0)
        self.prepared.fill_(True)

    def loss(self, metric: Any, batch: MarkedBatch) -> Tensor:
        """Return the mean over the texts of the batch of all processes."""
        found = _logits(metric, batch)
        losses = _mean_loss(found.wrong, batch.wrong) + _mean_loss(found.missing, batch.missing)
        graded = batch.severity >= 0
        if found.severity is not None and bool(graded.any()):
            targets = batch.severity.clamp(min=0)
            by_token = cross_entropy(found.severity.transpose(1, 2), targets, reduction="none")
            losses = losses + (by_token * graded).sum(dim=1) / graded.sum(dim=1).clamp(min=1)
        return gather_values(losses, batch.joint).mean()

    def collect(self, part: str, metric: Any, batch: MarkedBatch) -> None:
        """Count the log-odds of a batch."""
        check_fitted(metric)
        self._head = (metric.error_head,)
        found, counts = _logits(metric, batch), self._collected[part]
        for kind, (logits, targets) in enumerate(((found.wrong, batch.wrong), (found.missing, batch.missing))):
            for side, rows in enumerate((~batch.of_source, batch.of_source)):
                counts.update(side, kind, logits[rows], targets[rows])
        counts.items += len(batch)

    @torch.no_grad()
    def calibrate(self, metric: Any) -> None:
        """Calibrate the head to the final weights on this process, which no validation may have judged."""
        part, self.fitting = next(iter(self.source.parts)), True
        self._collected = {part: _Counts(sync_on_compute=False).to(metric.device)}
        with evaluating(metric):
            for batch in PartLoader(self.source, part, metric.tokenize):
                self.collect(part, metric, batch.to(metric.device))
        self.judge(part)

    def judge(self, part: str) -> TaskResult | None:
        """Compute Matthews correlations of words (by tokens) and gaps at the best thresholds; calibrate the head."""
        collected = self._collected[part]
        counts = collected.compute().cpu().double()
        if int(collected.items) < len(self.source.parts[part]) or not self._head:
            return None
        values, lines = {}, [f"  {'':16}       n   errors     MCC  threshold"]
        sides = [side for side in (0, 1) if counts[side].sum() > 0]
        for side, (kind, name) in itertools.product(sides, enumerate(KINDS)):
            table = counts[side, kind]
            scale, offset = fit_odds(table)
            threshold, mcc = best_threshold(table, scale, offset)
            told = f"{name}, {SIDES[side]}" if len(sides) > 1 else name
            lines.append(
                f"  {told:16} {int(table.sum()):8,d} {int(table[1].sum()):8,d}  {mcc:6.4f}     {threshold:6.4f}"
            )
            if side == sides[0]:
                values["mcc" if name == "words" else f"{name}_mcc"] = mcc
            if self.fitting and self.main and part == next(iter(self.source.parts)):
                only = side if len(sides) > 1 else None
                self._head[0].take_calibration(kind, scale, offset, threshold, only)
        return TaskResult(values, "\n".join(lines), counts)


def _logits(metric: Any, batch: MarkedBatch) -> ErrorLogits:
    return error_logits(metric, *metric.pair_features(batch.hypotheses, batch.references))


def _mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy over the targets of each text ``[B]``; 0 without targets."""
    judged = ~targets.isnan()
    losses = binary_cross_entropy_with_logits(logits, targets.nan_to_num(), reduction="none")
    return (losses * judged).sum(dim=1) / judged.sum(dim=1).clamp(min=1)


def fit_odds(counts: Tensor) -> tuple[float, float]:
    r"""Fit scale and offset of log-odds by maximum likelihood to counts of right and wrong ones ``[2, BINS]``.

    The loss :math:`\sum_i \log(1 + e^{-y_i(\alpha x_i + \beta)})` has a weak pull to 1 and 0, which stands alone where
    all are right or all are wrong. A scale that would turn the order around is not taken.

    Reference: Platt 1999.
    """
    odds, (right, wrong) = ODDS.numpy(), counts.numpy()

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        values, pull = given[0] * odds + given[1], given - START
        slopes = (right + wrong) * expit(values) - wrong
        total = (right * np.logaddexp(0, values) + wrong * np.logaddexp(0, -values)).sum() + 0.5 * pull @ pull
        return float(total), np.array([slopes @ odds, slopes.sum()]) + pull

    scale, offset = minimize(loss, START, jac=True, method="L-BFGS-B").x.tolist()
    return (scale, offset) if scale > 0 else (1.0, 0.0)


def best_threshold(counts: Tensor, scale: float, offset: float) -> tuple[float, float]:
    """Return the probability threshold with the largest Matthews correlation, and that correlation.

    The threshold is 0.5 if no correlation is positive, as where nothing is wrong: the lowest one would mark everything.
    """
    right, wrong = (one.flip(0).cumsum(0).flip(0) for one in counts)  # with at least the log-odds of the bin
    totals = counts.sum(dim=1)
    marked = right + wrong
    left = totals.sum() - marked
    top = wrong * (totals[0] - right) - right * (totals[1] - wrong)
    bottom = (marked * left * totals[0] * totals[1]).sqrt()
    values = torch.where(bottom > 0, top / bottom.clamp(min=1e-12), 0.0)
    best = int(values.argmax())
    if not values[best] > 0:
        return 0.5, 0.0
    step = 2 * REACH / (BINS - 1)
    edge = float(ODDS[best]) - step / 2
    return float(expit(scale * edge + offset)), float(values[best])
