"""Several metrics over the same texts, each text encoded once for all of them, in memory that does not grow."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.engine.progress_and_flags import unusual
from textmover.scoring.scorer import Scorer
from textmover.types import SegmentScores

logger = logging.getLogger(__name__)

WINDOW = 2048
"""Segments that all metrics score before the next ones: bounds what is kept of their texts."""


def score_together(
    scorers: Mapping[str, Scorer],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    memory: EncoderMemory | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, SegmentScores]:
    """Score the same segments with several metrics.

    The segments are taken some thousand at a time, and all metrics score those before the next come, so that hidden
    states have to be kept only that long. Nothing is said of segments that are out of the ordinary: see
    :func:`tell_unusual`.

    Args:
        scorers: The metrics by name, with their statistics fitted; those that fit idf weights on the texts of a call
            do so on all of them.
        hypotheses: ``n`` texts.
        references: For each, one or more texts.
        memory: The memory that was given to the scorers; it is emptied.
        on_progress: Called with the number of segments that have been finished since the last call, summed over the
            metrics.

    Returns:
        Scores by the name of the metric, in input order.

    Raises:
        InputError: If a metric refuses a text or gives a value that is not finite.
    """
    scorers = {name: scorer.for_call(hypotheses, references) for name, scorer in scorers.items()}
    parts: dict[str, list[SegmentScores]] = {name: [] for name in scorers}
    for start in range(0, max(1, len(hypotheses)), WINDOW):
        rows = slice(start, start + WINDOW)
        for metric, scorer in scorers.items():
            parts[metric].append(scorer.score_fitted(hypotheses[rows], references[rows], on_progress, warn=False))
            scorer.clear_cache()
        if memory is not None:
            memory.forget()
    return {metric: _joined(found) for metric, found in parts.items()}


def tell_unusual(name: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Warn of the segments of a set that were out of the ordinary, once for all metrics of which that is true.

    Args:
        name: Of the set.
        counts: For each metric how many segments of each kind there were.
    """
    metrics: dict[tuple[str, int], list[str]] = {}
    for metric, kinds in counts.items():
        for kind, number in kinds.items():
            metrics.setdefault((kind, number), []).append(metric)
    for (kind, number), named in metrics.items():
        logger.warning("%s: %s (%s).", name, unusual(kind, number), ", ".join(named))


def _joined(parts: Sequence[SegmentScores]) -> SegmentScores:
    """Scores of consecutive segments as one."""
    first = parts[0]
    counts = sum((Counter(part.counts) for part in parts), Counter[str]())
    return SegmentScores(
        scores=_concatenated(part.scores for part in parts),
        precision=None if first.precision is None else _concatenated(part.precision for part in parts),
        recall=None if first.recall is None else _concatenated(part.recall for part in parts),
        f=None if first.f is None else _concatenated(part.f for part in parts),
        components={name: _concatenated(part.components[name] for part in parts) for name in first.components},
        signature=first.signature,
        counts=dict(counts),
    )


def _concatenated(arrays: Iterable[np.ndarray | None]) -> np.ndarray:
    return np.concatenate([array for array in arrays if array is not None])
