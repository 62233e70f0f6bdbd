"""Scoring of inputs that need not fit into memory: read ahead in a thread, score shard by shard, keep what is done."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from textmover.modules.devices import scoring_mode
from textmover.readers.streams import Row, Rows
from textmover.runs.score_summary import Tally, check_any_left
from textmover.runs.shards.shards import Parts, Shard, ShardScores
from textmover.scoring.scorer import Scorer
from textmover.types import InputError, SegmentMetric


class Done(NamedTuple):
    """A shard that is finished.

    Attributes:
        shard: The shard.
        tally: What is known of its scores.
        scores: The scores, or ``None`` where they were kept from an earlier run.
    """

    shard: Shard
    tally: Tally
    scores: ShardScores | None


def score_shards(
    scorer: Scorer,
    shards: Iterable[Shard],
    systems: Sequence[str],
    parts: Parts | None = None,
    on_progress: Callable[[Shard, int], None] | None = None,
) -> Iterator[Done]:
    """Score shards one after the other.

    Args:
        scorer: The scorer, its statistics fitted.
        shards: From :func:`~textmover.runs.shards.shards.read_shards`.
        systems: What the systems are called.
        parts: Where finished shards are written; those that are there already are not scored again.
        on_progress: Called with a shard that is being scored and the pairs of it that were finished since the last
            call.

    Yields:
        Each shard when it is finished, and written if there is a place for it.
    """
    for shard in shards:
        kept = None if parts is None else parts.finished(shard)
        if kept is not None:
            yield Done(shard, kept, None)
            continue
        scores = score_shard(scorer, shard, systems, on_progress)
        if parts is not None:
            parts.write(shard, scores)
        yield Done(shard, scores.tally, scores)


def score_shard(
    scorer: Scorer,
    shard: Shard,
    systems: Sequence[str],
    on_progress: Callable[[Shard, int], None] | None = None,
) -> ShardScores:
    """Score one shard, to the same bytes whatever was scored before it.

    The pairs of all systems are scored together, so that a reference is encoded once for all of them.

    Args:
        scorer: The scorer, its statistics fitted.
        shard: The shard.
        systems: What the systems are called.
        on_progress: See :func:`score_shards`.
    """
    rows = [place for place, row in enumerate(shard.rows) if row.hypotheses]
    given = [shard.rows[place] for place in rows]
    scorer.clear_cache()
    try:
        tell = None if on_progress is None else functools.partial(on_progress, shard)
        values, counts = _score_rows(scorer, given, len(systems), tell)
    except InputError as error:
        if shard.index == 0 and len(systems) == 1:
            raise
        last = shard.first + len(shard.rows) - 1
        raise InputError(f"{str(error).rstrip('.')} (in rows {shard.first} to {last} of the input).") from error
    placed = {}
    for name, array in values.items():
        placed[name] = np.full((len(shard.rows), len(systems)), np.nan)
        placed[name][rows] = array
    tally = Tally(
        rows=len(shard.rows),
        skipped=len(shard.rows) - len(rows),
        problem=next((row.problem for row in shard.rows if row.problem), ""),
        sums=tuple(float(np.sum(column)) for column in np.ascontiguousarray(values["score"].T)),
        counts=counts,
        names=tuple(values),
    )
    return ShardScores(placed, tally)


def _score_rows(
    scorer: Scorer, rows: Sequence[Row], systems: int, on_progress: Callable[[int], None] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Values ``[rows, systems]`` by name, and the counts of segments that were out of the ordinary."""
    # Texts that are read together are batched in input order, so that each system needs batches of its own.
    alone = systems > 1 and _joint(scorer.metric)
    calls = [[system] for system in range(systems)] if alone else [list(range(systems))]
    columns: dict[str, list[np.ndarray]] = {}
    counts: dict[str, int] = {}
    for call in calls:
        hypotheses = [row.hypotheses[system] for system in call for row in rows]
        references = [row.references for _ in call for row in rows]
        result = scorer.score_fitted(hypotheses, references, on_progress, warn=False)
        named = {name: getattr(result, name) for name in ("precision", "recall", "f")} | dict(result.components)
        for name, array in {"score": result.scores, **named}.items():
            if array is not None:
                columns.setdefault(name, []).append(array.reshape(len(call), len(rows)))
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    return {name: np.concatenate(parts).T for name, parts in columns.items()}, counts


def _joint(metric: SegmentMetric) -> bool:
    """Return whether the metric reads texts together."""
    with scoring_mode(metric):
        return metric.text_features(metric.tokenize(["a"]).to(metric.device)) is None


def fit_on_rows(scorer: Scorer, rows: Rows) -> None:
    """Fit the idf weights of a metric on the texts that it is to score, which are read for that, not kept.

    Args:
        scorer: The scorer, whose metric wants it (``fits_on_call``).
        rows: Where the texts can be read more than once: one time for the weights of each side, then to be scored.
    """

    def references() -> Iterator[tuple[str, ...]]:
        count, skipped, problem = 0, 0, ""
        for row in rows:
            count += 1
            if row.hypotheses:
                yield row.references
            else:
                skipped, problem = skipped + 1, problem or row.problem
        check_any_left(count, skipped, problem)

    hypotheses = (text for row in rows for text in row.hypotheses)
    scorer.fit_on_call(hypotheses, references())
