"""Agreement of marked errors with those that people marked, as a torchmetrics Metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.meta_evaluation.error_spans.agreement import BINS, Cells, check_bins, judged_probabilities, reliability
from textmover.meta_evaluation.error_spans.segment_sums import COLUMNS, check_pairs, figures, segment_sums
from textmover.metrics.ordered_states import FullPrecision
from textmover.types.error_spans import ErrorSpan, MarkedSegment

CELLS = 1000  # steps of the probabilities that are counted; bins of the calibration are made of these


class ErrorSpanAgreement(FullPrecision):
    """Agreement of marked errors with those that people marked, accumulated over batches and processes.

    States are sums, so that nothing grows with the number of texts. :meth:`compute` gives the figures of
    :class:`~textmover.meta_evaluation.SpanAgreement` over all segments.

    Args:
        bins: Bins of the calibration error, about equally full, made of 1,000 steps of the probabilities.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …).

    Raises:
        InputError: If there are no bins.

    Example:
        >>> metric = ErrorSpanAgreement()
        >>> gold = [MarkedSegment("a cat sat", (ErrorSpan(2, 5),), words=((0, 1), (2, 5), (6, 9)))]
        >>> metric.update([[ErrorSpan(2, 9)]], gold)
        >>> found = metric.compute()
        >>> found["mcc_words"], found["span_f1"]
        (tensor(0.5000, dtype=torch.float64), tensor(0.6000, dtype=torch.float64))
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    sums: Tensor
    histogram: Tensor

    def __init__(self, *, bins: int = BINS, **kwargs: Any) -> None:
        check_bins(bins)
        super().__init__(**kwargs)
        self.bins = bins
        self.add_state("sums", torch.zeros(COLUMNS, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("histogram", torch.zeros(CELLS, len(Cells._fields), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, found: Sequence[Sequence[ErrorSpan]], gold: Sequence[MarkedSegment]) -> None:
        """Judge the errors of further texts.

        Args:
            found: For each text what :meth:`Scorer.errors` gives, or its spans alone, which have no calibration.
            gold: Errors that people marked in the same texts.

        Raises:
            TypeError: If an item is not a span.
            InputError: If the texts differ, a span ends behind its text, or found spans overlap or share a gap.
        """
        errors = check_pairs(gold, found)
        sums = sum(map(segment_sums, gold, errors), np.zeros(COLUMNS))
        words, _ = judged_probabilities(gold, errors)
        histogram = np.zeros((CELLS, len(Cells._fields)))
        cell = np.minimum((words.probabilities * CELLS).astype(np.int64), CELLS - 1)
        np.add.at(histogram, cell, np.stack([np.ones(len(cell)), words.wrong, words.probabilities], axis=1))
        self.sums = self.sums + torch.from_numpy(sums).to(self.sums)
        self.histogram = self.histogram + torch.from_numpy(histogram).to(self.histogram)

    def compute(self) -> dict[str, Tensor]:
        """Figures by name, float64; NaN where there is nothing to judge."""
        values = {name: float(one) for name, one in figures(self.sums.cpu().numpy()).items()}
        values["ece"] = reliability(Cells(*self.histogram.cpu().numpy().T), self.bins).error
        return {name: torch.tensor(one, dtype=torch.float64) for name, one in values.items()}
