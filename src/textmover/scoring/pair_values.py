"""Values of single pairs, by a metric that reads texts as a scorer's own metric does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textmover.scoring.engine import Engine
from textmover.scoring.scorer import Scorer
from textmover.types import SegmentMetric

__all__ = ["pair_values"]


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
    own = scorer._engine
    engine = _PairEngine(metric)
    with own._lock, scorer._progress_bar(len(hypotheses)) as advance:
        vars(engine).update(vars(own), metric=metric)
        found = engine.score(hypotheses, references, advance)
        vars(own).update(vars(engine), metric=own.metric)  # which may have found out how much the memory has room for
    return found.values


class _PairEngine(Engine):
    """An engine that gives the values of all pairs in the place of one per segment."""

    def _combine(self, values: np.ndarray, owners: np.ndarray, name: str) -> np.ndarray:
        return values
