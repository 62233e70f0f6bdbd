"""Agreement of marked errors with human annotations, as a torchmetrics metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.meta_evaluation.error_spans.agreement import BINS, Cells, check_bins, judged_probabilities, reliability
from textmover.meta_evaluation.error_spans.span_statistics import COLUMNS, check_pairs, figures, segment_sums
from textmover.metrics.ordered_states import FullPrecision
from textmover.types.error_spans import ErrorSpan, MarkedSegment

CELLS = 1000  # bins of probability in the histogram state; the calibration bins consist of these


class ErrorSpanAgreement(FullPrecision):
    """Agreement of marked errors with human annotations, accumulated over batches and processes.

    The states are sums, so memory is constant. :meth:`compute` returns the figures of
    :class:`~textmover.meta_evaluation.SpanAgreement` over all segments.

    Args:
        bins: Number of bins of the calibration error, about equally full; built from 1,000 probability steps.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …).

    Raises:
        InputError: If ``bins`` is not positive.

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
        """Add the errors of further texts.

        Args:
            found: For each text the result of :meth:`Scorer.errors`, or its spans only, without calibration.
            gold: Human annotations of the same texts.

        Raises:
            TypeError: If an item is not a span.
            InputError: If the texts differ, a span ends after its text, or found spans overlap or share a gap.
        """
        errors = check_pairs(gold, found)
        sums = sum(map(segment_sums, gold, errors), np.zeros(COLUMNS))
        words, _ = judged_probabilities(gold, errors)
        histogram = np.zeros((CELLS, len(Cells._fields)))
        cells = np.minimum((words.probabilities * CELLS).astype(np.int64), CELLS - 1)
        np.add.at(histogram, cells, np.stack([np.ones(len(cells)), words.wrong, words.probabilities], axis=1))
        self.sums = self.sums + torch.from_numpy(sums).to(self.sums)
        self.histogram = self.histogram + torch.from_numpy(histogram).to(self.histogram)

    def compute(self) -> dict[str, Tensor]:
        """Return the figures by name, float64; NaN if undefined."""
        values = {name: float(value) for name, value in figures(self.sums.cpu().numpy()).items()}
        values["ece"] = reliability(Cells(*self.histogram.cpu().numpy().T), self.bins).error
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
