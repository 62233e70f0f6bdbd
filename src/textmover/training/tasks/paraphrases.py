"""Paraphrase retrieval: find the paraphrase of a text among other texts by the scores of the metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textmover.data.paraphrases import ParaphraseBatch, ParaphraseSource, nearest_others
from textmover.functional.losses import contrastive_loss
from textmover.training.sharding import gather_values
from textmover.training.tasks.task import Task, TaskResult, check_fitted
from textmover.types import InputError, TokenEmbeddings

SHORTLIST = 16  # candidates by mean vector, among which the metric searches for the hardest negatives
ALONE = -1.0  # outcome of a pair without negatives
BATCH = 64  # texts, and pairs of them, per batch when negatives are mined


class ContrastiveTask(Task[ParaphraseSource]):
    r"""Contrast paraphrases of one source with the other texts of a batch (InfoNCE).

    The scores :math:`s_{ij}` of every first text with every second one are those of the metric, before calibration;
    each text is encoded once. Texts of one cluster are not negatives of each other. A mined negative counts in both
    directions. See :func:`~textmover.functional.losses.contrastive_loss`.

    Evaluated by recall@1: how often the paraphrase of a text scores highest among the second texts of its batch. The
    value depends on the batch size. The temperature is in units of the scores.
    """

    def __init__(
        self, source: ParaphraseSource, metric: Any = None, *, main: bool = True, temperature: float = 0.05
    ) -> None:
        if not 0 < temperature < float("inf"):
            raise InputError(f"Expected `temperature` to be a finite number above 0, but got {temperature}.")
        super().__init__(source, main=main)
        self.temperature = temperature

    def prepare(self, metric: Any, start: Callable[[], Any], autocast: Callable[[], Any]) -> None:
        """Mine negatives, if requested, with the metric that training starts from; a resumed run repeats this."""
        if metric.config.centering == "batch":
            raise InputError(
                "Expected a metric that reads each text by itself to learn from paraphrases, but got "
                "centering='batch': override it with 'corpus', 'sentence' or 'none'."
            )
        source = self.source
        if source.negatives and source.mining == "metric" and not source.items[0].negatives:
            source.take_negatives(_mine(start(), source))
        self.prepared.fill_(True)

    def loss(self, metric: Any, batch: ParaphraseBatch) -> Tensor:
        """Return InfoNCE in both directions over the batch of all processes."""
        sides = [batch.hypotheses, batch.references]
        features = [joint_features(metric.text_features(one), batch.joint, len(batch)) for one in sides]
        clusters = gather_values(batch.clusters, batch.joint)
        owners = clusters[:, 0]
        scores = all_scores(metric, features[0], features[1])
        if batch.negatives is None:
            return contrastive_loss(scores, self.temperature, exclude=owners[:, None] == owners)
        mined = joint_features(metric.text_features(batch.negatives), batch.joint, len(batch))
        positives, extended = _extended(metric, scores, features, mined)
        everyone = torch.cat([owners, clusters[:, 1:].flatten()])
        return contrastive_loss(extended, self.temperature, positives, everyone[:, None] == everyone)

    def collect(self, part: str, metric: Any, batch: ParaphraseBatch) -> None:
        """Collect which paraphrases of a batch were found."""
        check_fitted(metric)
        self._collected[part].update(self.outcome(metric, batch), batch.positions)

    def outcome(self, metric: Any, batch: ParaphraseBatch) -> Tensor:
        """Return 1 for pairs whose second text scores highest of the batch with the first, else 0 ``[B]``.

        The value is -1 if all other texts are of the same cluster.
        """
        scores = all_scores(metric, metric.text_features(batch.hypotheses), metric.text_features(batch.references))
        owners = batch.clusters[:, 0]
        rivals = torch.where(owners[:, None] == owners, float("-inf"), scores).amax(dim=1)
        found = (scores.diagonal() > rivals).float()
        return torch.where(rivals == float("-inf"), ALONE, found)

    def judge(self, part: str) -> TaskResult | None:
        """Compute the share of paraphrases found."""
        outcome = self.collected(part)
        if outcome is None:
            return None
        found = outcome[outcome != ALONE]
        size = self.source.validation_batch_size
        if not len(found):
            return TaskResult(
                {"recall": math.nan}, f"  recall@1 among up to {size} texts: undefined, since no batch holds negatives"
            )
        recall = float(found.mean())
        return TaskResult({"recall": recall}, f"  recall@1 among up to {size} texts: {recall:.4f} (n={len(found)})")


def all_scores(metric: Any, hypotheses: TokenEmbeddings, references: TokenEmbeddings) -> Tensor:
    """Return uncalibrated scores of every hypothesis (row) and reference (column), higher is better ``[B, R]``."""
    rows, columns = len(hypotheses), len(references)
    index = torch.arange(rows * columns, device=hypotheses.mask.device)
    sides = hypotheses.select(index // columns), references.select(index % columns)
    head = metric.calibration
    rising = metric.higher_is_better if head is None else head.sign > 0
    metric.calibration = None  # the temperature is in units of uncalibrated scores
    try:
        scores: Tensor = metric.pair_scores(*sides).score
    finally:
        metric.calibration = head
    return (scores if rising else -scores).view(rows, columns)


def joint_features(features: TokenEmbeddings, joint: int, items: int) -> TokenEmbeddings:
    """Gather the features of the texts of all processes, as if one process had the whole batch of ``joint`` items.

    Gradients flow only through the texts of this process. Each of its ``items`` has equally many, in item order.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return features
    each, width = len(features) // items, features.mask.shape[1]
    longest = torch.tensor(width, device=features.mask.device)
    torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX)
    more = int(longest) - width

    def gathered(values: Tensor, *, padded: bool = True) -> Tensor:
        if padded:
            values = torch.nn.functional.pad(values, (*((0, 0) * (values.ndim - 2)), 0, more))
        return gather_values(values.view(items, each, *values.shape[1:]), joint).flatten(0, 1)

    own, nothing = features.self_similarity, torch.zeros_like(features.input_ids)
    return replace(
        features,
        vectors=gathered(features.vectors),
        mask=gathered(features.mask.to(torch.int8)).bool(),
        special=gathered(features.special),
        input_ids=gathered(features.input_ids),
        self_similarity=None if own is None else gathered(own, padded=False),
        traits=None if features.traits is None else gathered(features.traits),
        unknown=gathered(nothing if features.unknown is None else features.unknown),
        numbers=gathered(nothing if features.numbers is None else features.numbers),
    )


def _extended(
    metric: Any, scores: Tensor, features: Sequence[TokenEmbeddings], mined: TokenEmbeddings
) -> tuple[Tensor, Tensor]:
    """Return positive pairs and scores ``[B + N, B + N]``, with the mined texts appended to both sides."""
    pairs, more = len(scores), len(mined)
    right, below = all_scores(metric, features[0], mined), all_scores(metric, mined, features[1])
    # Pairs of mined texts are neither positive nor in the row or column of a positive.
    corner = scores.new_zeros(more, more)
    extended = torch.cat([torch.cat([scores, right], dim=1), torch.cat([below, corner], dim=1)])
    positives = torch.zeros_like(extended, dtype=torch.bool)
    positives[:pairs, :pairs] = torch.eye(pairs, dtype=torch.bool, device=scores.device)
    return positives, extended


@torch.no_grad()
def _mine(metric: Any, source: ParaphraseSource) -> list[list[int]]:
    """Return, for each pair, those pairs whose first texts score highest among the nearest by mean vector."""
    texts = [item.texts[0] for item in source.items]
    clusters = [item.cluster for item in source.items]
    means: list[NDArray[np.float64]] = []
    for at in range(0, len(texts), BATCH):
        features = metric.text_features(metric.tokenize(texts[at : at + BATCH]).to(metric.device))
        summed = (features.vectors * features.mask[:, :, None]).sum(dim=1)
        means.append(torch.nn.functional.normalize(summed, dim=1).cpu().double().numpy())
    others = max(source.negatives, min(SHORTLIST, len(clusters) - int(np.bincount(clusters).max())))
    near = nearest_others(np.concatenate(means), clusters, others)
    if others == source.negatives:
        return near
    chosen = []
    for text, places in zip(texts, near, strict=True):
        own = metric.text_features(metric.tokenize([text]).to(metric.device))
        theirs = metric.text_features(metric.tokenize([texts[place] for place in places]).to(metric.device))
        order = all_scores(metric, own, theirs)[0].argsort(descending=True, stable=True).tolist()
        chosen.append([places[place] for place in order[: source.negatives]])
    return chosen
