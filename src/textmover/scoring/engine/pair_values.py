"""Values of single pairs, by a metric that reads texts as a scorer's own metric does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textmover.scoring.scorer import Scorer
from textmover.types import SegmentMetric


def pair_values(
    scorer: Scorer, metric: SegmentMetric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Values of each hypothesis with each of its references, for callers that combine them in a way of their own.

    Texts are read as if the scorer scored: each distinct one once, in its batches, from its cache and into it.

    Args:
        scorer: Whose batches, cache and warnings are used.
        metric: What gives the values; its features of texts are those of the scorer's metric.
        hypotheses: ``n`` texts.
        references: For each, one or more texts.

    Returns:
        Values of all pairs by name, float64, in input order.
    """
    with scorer._engine.matching_by(metric) as engine, scorer._progress_bar(len(hypotheses)) as advance:
        found = engine.score(hypotheses, references, advance, by_pair=True)
    return found.values
