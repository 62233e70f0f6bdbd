"""Score inputs shard by shard, so that they need not fit into memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from textmover.modules.devices import scoring_mode
from textmover.readers.row_streams import Row, Rows
from textmover.runs.progress import PairCount
from textmover.runs.score_summary import ShardSummary, Summary, check_any_left
from textmover.runs.shards.score_formats import Layout, LineLayout
from textmover.runs.shards.shards import Shard, ShardFolder, ShardLines, ShardScores
from textmover.scoring.scorer import Scorer
from textmover.types import InputError, NoReferenceError, SegmentMetric, compared_sides, compared_texts


class ShardStream:
    """Stream that shards are written to one by one, in place of a folder; JSON and means wait for the last shard."""

    def __init__(self, layout: Layout | LineLayout, stream: IO[str]) -> None:
        self._layout, self._stream = layout, stream
        self._encoded: list[bytes] = []

    def finished(self, _: Shard) -> None:
        """Return ``None``: an earlier run has left no shard."""

    def write(self, shard: Shard, scores: ShardScores | ShardLines) -> None:
        """Write a shard, unless the output needs all of them first."""
        layout = self._layout
        if layout.only_mean:
            return
        if layout.format == "json":
            self._encoded.append(scores.encoded(layout))
            return
        self._stream.write(layout.header(scores.tally.names) if shard.index == 0 else "")
        if isinstance(scores, ShardLines):
            scores.write_to(self._stream)  # in colour on a terminal
        else:
            self._stream.write(scores.encoded(layout).decode())
        self._stream.flush()

    def finish(self, shards: int, summary: Summary) -> None:
        """Write the parts of the output that need all shards."""
        layout = self._layout
        if layout.only_mean or layout.format == "json" or (isinstance(layout, LineLayout) and not shards):
            whole = io.BytesIO()
            layout.join(self._encoded, summary, whole)
            self._stream.write(whole.getvalue().decode())


def finish_shards(
    shards: Iterable[Shard],
    work: Callable[..., ShardScores | ShardLines],
    store: ShardFolder | ShardStream,
    count: PairCount,
) -> Iterator[tuple[ShardSummary, bool]]:
    """Do the work of each shard in order and store its result; yield its tally and whether an earlier run had it."""
    for shard in shards:
        count.read(shard.end, shard.share)
        kept = store.finished(shard)
        tally = kept
        if tally is None:
            scores = work(shard, on_progress=count.within)
            tally = scores.tally
            store.write(shard, scores)
        count.finished(tally.rows, scored=kept is None)
        yield tally, kept is not None


SKIPPED = "skipped"  # flag of an excluded row


def score_shard(
    scorer: Scorer, shard: Shard, systems: Sequence[str], on_progress: Callable[[int], None] | None = None
) -> ShardScores:
    """Score one shard for all systems; the scores do not depend on shards scored before."""
    rows = [place for place, row in enumerate(shard.rows) if row.hypotheses]
    scored_rows = [shard.rows[place] for place in rows]
    scorer.clear_cache()
    # Metrics that encode texts jointly batch pairs in input order, so each system needs separate batches.
    separately = len(systems) > 1 and _encodes_jointly(scorer.metric)
    calls = [[system] for system in range(len(systems))] if separately else [list(range(len(systems)))]
    values: dict[str, np.ndarray] = {}
    by_system: dict[str, list[int]] = {}
    flags = np.full((len(shard.rows), len(systems)), SKIPPED, dtype=object)
    flags[rows] = ""
    try:
        for call in calls:
            hypotheses = [row.hypotheses[system] for system in call for row in scored_rows]
            references = [row.references for _ in call for row in scored_rows]
            result = scorer.score_fitted(hypotheses, references, on_progress, warn=False)
            for name, array in result.values.items():
                empty = np.full((len(shard.rows), len(systems)), np.nan)
                values.setdefault(name, empty)[np.ix_(rows, call)] = array.reshape(len(call), len(scored_rows)).T
            for name, mask in result.flags.items():
                grid = mask.reshape(len(call), len(scored_rows))
                for system, number in zip(call, grid.sum(axis=1).tolist(), strict=True):
                    by_system.setdefault(name, [0] * len(systems))[system] += number
                for system, row in zip(*np.nonzero(grid), strict=True):
                    cell = rows[row], call[system]
                    flags[cell] += f";{name}" if flags[cell] else name
    except InputError as error:
        if isinstance(error, NoReferenceError) or (shard.index == 0 and len(systems) == 1):
            raise
        where = f"(in rows {shard.first} to {shard.end} of the input)"
        raise InputError(f"{str(error).rstrip('.')} {where}.") from error
    scored = np.ascontiguousarray(values["score"][rows].T)
    reference_counts = [len(row.references) for row in scored_rows]
    tally = ShardSummary(
        rows=len(shard.rows),
        skipped=len(shard.rows) - len(rows),
        problem=next((row.problem for row in shard.rows if row.problem), ""),
        sums=tuple(float(np.sum(column)) for column in scored),
        counts={name: sum(numbers) for name, numbers in by_system.items()},
        by_system=by_system,
        names=tuple(values),
        squares=tuple(float(np.var(column) * len(column)) if rows else 0.0 for column in scored),
        sides=compared_sides(scorer.metric, [row.references for row in scored_rows]),
        references=(min(reference_counts, default=1), max(reference_counts, default=1)),
    )
    return ShardScores(values, tally, flags, [row.kept for row in shard.rows])


def _encodes_jointly(metric: SegmentMetric) -> bool:
    with scoring_mode(metric):
        return metric.text_features(metric.tokenize(["a"]).to(metric.device)) is None


def usable_row(metric: SegmentMetric, rows: Rows, row: Row) -> Row:
    """Return the row, excluded if it lacks a text that the metric needs; call it only if options allow that."""
    try:
        compared_texts(metric, [row.references] if row.hypotheses else [])
    except NoReferenceError as problem:
        return rows.left_out(problem, row.line)._replace(kept=row.kept)
    return row


def fit_on_rows(scorer: Scorer, rows: Rows, usable: Callable[[Row], Row] | None = None) -> None:
    """Fit the idf weights of a metric on the texts to score. This reads the input twice."""

    def read() -> Iterable[Row]:
        return rows if usable is None else map(usable, rows)

    def references() -> Iterator[tuple[str, ...]]:
        count, skipped, problem = 0, 0, ""
        for row in read():
            count += 1
            if row.hypotheses:
                yield row.references
            else:
                skipped, problem = skipped + 1, problem or row.problem
        check_any_left(count, skipped, problem)

    hypotheses = (text for row in read() for text in row.hypotheses)
    scorer.fit_on_call(hypotheses, references())
