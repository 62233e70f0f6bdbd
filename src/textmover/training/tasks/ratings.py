"""Agreement with ratings by regression, correlation or ranking, and with the scores of other metrics."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.checkpoints.averaging import first_scores, fit_scale
from textmover.data.training_sources import RatedSource, RatingBatch, evenly_spread
from textmover.functional.losses import FEWEST, combined_loss, pearson_loss
from textmover.meta_evaluation.statistics.correlation import (
    Correlation,
    MeanCorrelation,
    grouped_correlations,
    mean_correlation,
)
from textmover.modules.base_metric import Calibration
from textmover.scoring.lexical import LEXICAL, lexical_scores
from textmover.scoring.scorer import Scorer
from textmover.training.sharding import gather_values
from textmover.training.tasks.task import Task, TaskResult, check_fitted
from textmover.types import InputError, SegmentMetric, fixed

logger = logging.getLogger(__name__)

CALIBRATION_SEGMENTS = 1000  # rated segments that scale and offset are initialised on

STATISTICS = ("pearson", "spearman", "kendall")

IDLE = 0.9  # share of segments without effect on a loss above which a warning is logged
UNTRAINED = "untrained"  # signal of the metric before training

LOSSES: Mapping[str, Any] = {"mse": 1.0, "pearson": 1.0}  # default weights


class RatingTask(Task[RatedSource]):
    r"""Agreement with the ratings of one source.

    Ratings keep their scale: losses see scores and ratings in units of the standard deviation of the ratings. The
    ``main`` source sets the scale of the calibration head of the metric. Every other source has a second head after
    it, used only in training. *Signals* are further targets for the same pairs, scores :math:`z` of other metrics
    (or of the metric itself before training), each with the loss :math:`1 - r(s, z)` within the batch (Sellam et al.
    2020, BLEURT, section 4.2).
    """

    def __init__(
        self,
        source: RatedSource,
        metric: SegmentMetric,
        *,
        main: bool = True,
        losses: Mapping[str, Any] = LOSSES,
        signals: Mapping[str, float] = {},
        mask_references: float = 0.0,
        mask_sources: float = 0.0,
    ) -> None:
        check_references(metric, source)
        check_batches(source, losses, signals)
        super().__init__(source, main=main)
        self.masks = mask_references, mask_sources  # shares of segments with both that lose one of them
        self.losses, self.signals = dict(losses), dict(signals)
        self.head = None if main else Calibration()
        self.rating_mean: Tensor
        self.rating_deviation: Tensor
        self.register_buffer("rating_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("rating_deviation", torch.ones((), dtype=torch.float64))
        # Signals of every training segment, one column each; a resumed run recomputes them. They are data, not state of
        # the module: as a buffer they would enter averages of weights.
        self.signal_values: Tensor | None = None

    def prepare(self, metric: Any, start: Callable[[], Any], autocast: Callable[[], Any]) -> None:
        """Compute mean and deviation of the ratings, fit the calibration head, and compute the signals."""
        if self.signals:
            values = self._compute_signals(start) if self.signal_values is None else self.signal_values
            self.signal_values = values.to(self.rating_mean.device)
        if bool(self.prepared):
            return
        segments = self.source.items
        ratings = torch.from_numpy(self.source.ratings_of(segments))
        if not ratings.max() > ratings.min():
            raise InputError(
                f"Expected ratings that differ, but all ratings to train on are equal in {self.source.name}: check the "
                "column."
            )
        self.rating_mean.copy_(ratings.mean())
        self.rating_deviation.copy_(ratings.std())
        sample = evenly_spread(segments, CALIBRATION_SEGMENTS)
        human = torch.from_numpy(self.source.ratings_of(sample))
        with autocast():
            if self.head is None:
                fit_scale(metric, sample, human)
            else:
                self.head.fit(first_scores(metric, sample), human)
        self.prepared.fill_(True)

    def loss(self, metric: Any, batch: RatingBatch) -> Tensor:
        """Return the weighted losses of scores and ratings, plus one minus the correlations with the signals."""
        scores = segment_scores(metric, batch, self.masks)
        scores = scores if self.head is None else self.head(scores)
        scores = gather_values(self._standardized(scores), batch.joint)
        ratings = gather_values(self._standardized(batch.ratings), batch.joint)
        loss = combined_loss(scores, ratings, self.losses)
        if self.signal_values is not None:
            values = gather_values(self.signal_values[batch.positions], batch.joint)
            for place, weight in enumerate(self.signals.values()):
                loss = loss + weight * pearson_loss(scores, values[:, place])
        return loss

    def collect(self, part: str, metric: Any, batch: RatingBatch) -> None:
        """Collect the scores of a batch."""
        check_fitted(metric)
        self._collected[part].update(segment_scores(metric, batch), batch.positions)

    def judge(self, part: str) -> TaskResult | None:
        """Compute the mean over groups of the correlations of scores and ratings."""
        segments, scores = self.source.parts[part], self.collected(part)
        if scores is None:
            return None
        by_group = grouped_correlations(scores, self.source.ratings_of(segments), self.source.groups_of(segments))
        mean = mean_correlation(by_group)
        return TaskResult({name: getattr(mean, name) for name in STATISTICS}, _table(by_group, mean), by_group)

    def _standardized(self, values: Tensor) -> Tensor:
        return ((values - self.rating_mean) / self.rating_deviation).float()

    def _compute_signals(self, start: Callable[[], Any]) -> Tensor:
        """Return standardised scores of every training segment by every signal ``[n, K]``, higher is better."""
        hypotheses = [one.hypothesis for one in self.source.items]
        references = self.source.compared(self.source.items)
        columns = []
        for name in self.signals:
            if name in LEXICAL:
                result, rising = lexical_scores(name, hypotheses, references), LEXICAL[name].higher_is_better
            else:
                scorer = Scorer(start()) if name == UNTRAINED else Scorer.from_pretrained(name)
                result, rising = scorer.score(hypotheses, references), scorer.metric.higher_is_better
            values = np.asarray(result.scores, dtype=np.float64) * (1 if rising else -1)
            if not np.isfinite(values).all() or not np.ptp(values) > 0:
                raise InputError(
                    f"Expected the signal {name!r} to give finite scores that differ over {self.source.name}, but it "
                    "does not: leave it out."
                )
            columns.append((values - values.mean()) / values.std())
        return torch.tensor(np.stack(columns, axis=1), dtype=torch.float32)


def check_options(
    losses: Mapping[str, Any] = LOSSES,
    signals: Mapping[str, float] = {},
    mask_references: float = 0.0,
    mask_sources: float = 0.0,
) -> None:
    """Check the options of a :class:`RatingTask`, before any data are read."""
    if min(mask_references, mask_sources) < 0 or not mask_references + mask_sources <= 1:
        raise InputError(
            "Expected `mask_references` and `mask_sources` to be shares of at least 0 with a sum of at most 1, but got "
            f"{mask_references} and {mask_sources}: lower them."
        )
    combined_loss(torch.zeros(2), torch.zeros(2), losses)
    for name, weight in signals.items():
        if not 0 <= weight < float("inf"):
            raise InputError(
                f"Expected the weight of the signal {name!r} to be a finite number of at least 0, but got {weight}: "
                "choose another."
            )
    if not _fewest(losses, signals):
        raise InputError(
            "Expected `losses` or `signals` with a weight above 0, but all weights are 0, so that nothing would be "
            "learned: raise one."
        )


def check_references(metric: SegmentMetric, source: RatedSource) -> None:
    """Tell the source which texts the metric reads; refuse several references if the metric would join them."""
    source.read_as(metric)
    for items in (source.items, *source.parts.values()):
        source.compared(items)
    if metric.multi_reference == "all" and any(len(one.references) > 1 for one in source.items):
        raise InputError(
            "Expected multi_reference 'best' or 'mean' to train on several references, but got 'all': override it, "
            "and set it to 'all' where the trained metric scores."
        )


def check_batches(source: RatedSource, losses: Mapping[str, Any], signals: Mapping[str, float]) -> None:
    """Refuse batches too small for all losses; warn if most are too small for one of them."""
    fewest = _fewest(losses, signals)
    least, names = min(fewest.values()), " and ".join(fewest)
    if source.batch_size < least:
        raise InputError(
            f"Expected `batch_size` of the source {source.name} to be at least {least}, since every loss "
            f"({names}) compares segments of a batch, but got {source.batch_size}: raise it, or add the loss mse or "
            "huber."
        )
    total = len(source.items)
    sizes = [total] if source.batch_groups is None else list(Counter(source.batch_groups).values())
    if max(sizes) < least:
        raise InputError(
            f"Expected `batch_group` to leave at least {least} segments of the source {source.name} together, since "
            f"every loss ({names}) compares segments of a batch, but none of its {len(sizes)} groups has as many: name "
            "a column with fewer values, leave it out, or add the loss mse or huber."
        )
    for name, needed in fewest.items():
        idle = sum(size for size in sizes if min(size, source.batch_size) < needed)
        if idle >= IDLE * total:
            logger.warning(
                "%s learns nothing from %d of the %d segments of %s, which are in batches of fewer than %d: raise "
                "`batch_size`, or name a column with fewer values as `batch_group`.",
                name, idle, total, source.name, needed,
            )  # fmt: skip


def _fewest(losses: Mapping[str, Any], signals: Mapping[str, float]) -> dict[str, int]:
    """Return the minimum batch size for all losses with a weight, and for signals, which need a correlation."""
    weights = {name: one.get("weight", 1.0) if isinstance(one, Mapping) else one for name, one in losses.items()}
    found = {name: FEWEST[name] for name, weight in weights.items() if weight}
    return found | ({"signals": FEWEST["pearson"]} if any(signals.values()) else {})


def segment_scores(metric: Any, batch: RatingBatch, masks: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """Return the score of each segment ``[B]``: best or mean over references, combined with the source.

    ``masks`` are the shares of segments with both whose references, or whose source, are hidden at random; hidden texts
    are not encoded.
    """
    hypotheses, references, owners, of_source = batch.hypotheses, batch.references, batch.owners, batch.of_source
    if of_source is None:
        return _over_references(metric, metric(hypotheses, references).score, owners, len(batch))
    if any(masks):
        draws = torch.rand(len(batch)).to(owners.device)
        sides = torch.zeros(2, len(batch), dtype=torch.bool, device=owners.device)
        sides[of_source.long(), owners] = True
        hidden = sides.all(dim=0) & torch.stack([draws < masks[0], draws >= 1 - masks[1]])
        kept = (~hidden[of_source.long(), owners]).nonzero().flatten()
        hypotheses, references = (texts.select(kept.tolist()) for texts in (hypotheses, references))
        owners, of_source = owners[kept], of_source[kept]
    scores: Tensor = metric(hypotheses, references).score
    return metric.combine(
        *(_over_references(metric, scores[rows], owners[rows], len(batch)) for rows in (~of_source, of_source))
    )


def _over_references(metric: Any, scores: Tensor, owners: Tensor, count: int) -> Tensor:
    """Return the best or mean score of each of ``count`` segments; NaN without references."""
    if torch.equal(owners, torch.arange(count, device=owners.device)):
        return scores
    reduce = "mean" if metric.multi_reference == "mean" else "amax"
    start = torch.full((count,), torch.nan, dtype=scores.dtype, device=scores.device)
    return start.scatter_reduce(0, owners, scores, reduce, include_self=False)


def _table(by_group: Mapping[str, Correlation], mean: MeanCorrelation) -> str:
    width = max(len("mean"), *(len(group) for group in by_group))
    lines = [f"  {'':{width}}      n  Pearson Spearman Kendall"]
    rows: list[tuple[str, Any]] = [*by_group.items()]
    if len(rows) > 1:
        rows.append(("mean", mean))
    for group, row in rows:
        pearson, spearman, kendall = (fixed(one, 4) for one in (row.pearson, row.spearman, row.kendall))
        lines.append(f"  {group:{width}} {row.n:6d}  {pearson:>7}  {spearman:>7} {kendall:>7}")
    return "\n".join(lines)
