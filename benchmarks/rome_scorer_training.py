"""Training of RoMe's scorer networks, and figures of how well a score tells pairs apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from release_acceptability import area
from rome_scorer_data import Judged, Material, Pair
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from textmover.meta_evaluation.statistics.correlation import grouped_correlations, mean_correlation
from textmover.rome.scorer.network import FeatureScorer
from textmover.rome.scorer.scorers import build_scorer

BINS = 10
"""Bins of equal width for reliability."""


class Bin(NamedTuple):
    """Pairs whose scores are near one another."""

    count: int
    score: float
    good: float


def train(scorer: FeatureScorer, features: Tensor, targets: Tensor, recipe: Mapping[str, Any], seed: int) -> float:
    """Fit a network to targets in [0, 1] by cross-entropy."""
    generator = torch.Generator().manual_seed(seed)
    weights = [one for one in scorer.parameters() if one.requires_grad]
    optimizer = getattr(torch.optim, recipe["optimizer"])(weights, **recipe["options"])
    mean = float("nan")
    for _ in range(recipe["epochs"]):
        total = 0.0
        for rows in torch.randperm(len(features), generator=generator).split(recipe["batch"]):
            optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(scorer.logits(features[rows]), targets[rows])
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        mean = total / len(features)
    return mean


def targets_of(pairs: Sequence[Pair], kind: str) -> Tensor:
    """What a network is to say of pairs: ``labels`` (1 for good ones), or ``severity`` (1 less how bad they are)."""
    values = {"labels": [float(one.good) for one in pairs], "severity": [1 - one.severity for one in pairs]}
    return torch.tensor(values[kind])


def fit_network(recipe: Mapping[str, Any], material: Material, seed: int) -> tuple[FeatureScorer, float]:
    """A network trained as a recipe says, calibrated on the part that is there for it if the recipe wants it."""
    built = build_scorer(recipe["layers"], material.names)
    if built is None:
        raise RuntimeError("Expected a network to train, but got none.")
    scorer = FeatureScorer(built.config, seed=seed)
    parts = {
        name: (material.rated[name][0], torch.from_numpy(material.rated[name][1]).float())
        if recipe["targets"] == "ratings"
        else (material.features[name], targets_of(material.pairs[name], recipe["targets"]))
        for name in ("training", "calibration")
    }
    loss = train(scorer, *parts["training"], recipe, seed)
    if recipe["calibrated"]:
        features, targets = parts["calibration"]
        labels = targets if recipe["targets"] == "ratings" else targets_of(material.pairs["calibration"], "labels")
        scorer.calibrate(features, labels)
    return scorer, loss


def areas(scores: NDArray[np.float64], pairs: Sequence[Pair]) -> dict[str, tuple[int, float]]:
    """Number of pairs and area under the ROC curve, by kind: of a damage against all good pairs, and the other way."""
    good = np.array([one.good for one in pairs])
    found = {}
    for kind in dict.fromkeys(one.kind for one in pairs):
        own = np.array([one.kind == kind for one in pairs])
        kept = bool(good[own].all())
        higher, lower = (scores[own], scores[~good]) if kept else (scores[good], scores[own])
        found[kind] = int(own.sum()), area(higher, lower)
    return found


def threshold(scores: NDArray[np.float64], good: NDArray[np.bool_]) -> float:
    """The score from which on pairs are best called good: most are called rightly; of several the lowest.

    Example:
        >>> threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
        0.5
    """
    order = np.sort(np.unique(scores))
    middles = np.concatenate([[order[0] - 1], (order[1:] + order[:-1]) / 2, [order[-1] + 1]])
    right = [float(((scores > limit) == good).mean()) for limit in middles]
    return float(middles[int(np.argmax(right))])


def reliability(scores: NDArray[np.float64], good: NDArray[np.float64]) -> list[Bin]:
    """Bins of equal width over [0, 1] that hold something, ascending."""
    place = np.minimum((scores * BINS).astype(int), BINS - 1)
    return [
        Bin(int(own.sum()), float(scores[own].mean()), float(good[own].mean()))
        for own in (place == one for one in range(BINS))
        if own.any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    r"""Expected calibration error :math:`\sum_b n_b\,|s_b - g_b| / n` (Naeini et al. 2015).

    Example:
        >>> calibration_error([Bin(1, 0.2, 0.0), Bin(3, 0.8, 1.0)])
        0.2
    """
    total = sum(one.count for one in bins)
    return round(sum(one.count * abs(one.score - one.good) for one in bins) / total, 12)


def agreement(scores: NDArray[np.float64], judged: Judged) -> tuple[float, float]:
    """Pearson and Spearman correlation with people, the mean over groups."""
    mean = mean_correlation(grouped_correlations(scores, judged.human, judged.groups))
    return mean.pearson, mean.spearman
