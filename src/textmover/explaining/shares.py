r"""Contributions of word pairs to a score: the plans' values carried through every later step.

A value is a sum over pairs of words, :math:`v = \sum_{ij} P_{ij} r_{ij} + \sum_k e_k`. Each step from there to the
score is linear in it, or is written as one whose factor is that of the pair of texts at hand:

* :math:`F = PR / (\alpha P + (1-\alpha) R)` is homogeneous of degree 1, so that by Euler's theorem
  :math:`F = R\,\partial F/\partial R + P\,\partial F/\partial P`: a pair of words counts by what it adds to recall and
  precision, times what one more of these would do to F.
* Division by the similarities of the texts with themselves takes these as given.
* A cost becomes a similarity, :math:`1 - \sum_{ij} P_{ij} c_{ij}`, by :math:`P_{ij}(1 - c_{ij})`; for
  :math:`s = 1/(1+c)`, which is :math:`1 - s c`, by :math:`P_{ij}(1 - s\,c_{ij})`.
* What is the same for all words (baseline, offset, entropy, mass that is not moved) stands beside them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np
import torch

from textmover.functional import f_score
from textmover.modules.matching.names import COSTS
from textmover.modules.metric_model import MetricModel
from textmover.report.explanation.explanation import ExplainedMatch, Step
from textmover.rome.metric import RomeMetric
from textmover.rome.scorer.network import named_features
from textmover.types import TokenEmbeddings

ROUNDING = 5e-7  # below this a remainder is what float32 leaves of 0
UNSAID = 1e-5  # part of the score, at least, that has to be missing before it is said that the plan does not tell all


class Shares(NamedTuple):
    """A score as contributions of pairs of words, float64 ``[M, N]``, and what is added beside the words."""

    contributions: np.ndarray
    remainders: tuple[Step, ...]


def transport_shares(
    metric: MetricModel,
    matches: Sequence[ExplainedMatch],
    own: Sequence[float] | None,
    shape: tuple[int, int],
    score: float,
) -> Shares:
    """The score of a transport metric by pairs of words; ``own`` are the values of the texts with themselves."""
    if not matches:
        return Shares(np.zeros(shape), (Step("empty", score, "a side has nothing to match"),))
    config = metric.config
    if config.matching in COSTS:
        cells, rest = _of_cost(metric, matches[0], own)
    else:
        cells, rest = _of_similarity(metric, matches)
    factor = 1.0
    if own is not None and not metric.matching.debiased:
        factor = 0.0 if min(own) <= 0 else float(own[0] ** -0.5 * own[1] ** -0.5)
    offsets = []
    if metric.baseline is not None:
        column = metric.config.score if metric.matching.has_sides else "f"
        base = float(metric.baseline.values[("recall", "precision", "f").index(column)])
        factor /= 1 - base
        offsets.append(Step("baseline", -base / (1 - base), "score of unrelated texts, subtracted"))
    if metric.calibration is not None:
        scale = float(metric.calibration.scale)
        factor *= scale
        offsets = [one._replace(value=scale * one.value) for one in offsets]
        offsets.append(Step("offset", float(metric.calibration.offset), "of the human scale"))
    return _whole(cells * factor, [*(one._replace(value=factor * one.value) for one in rest), *offsets], score)


def _of_similarity(metric: MetricModel, matches: Sequence[ExplainedMatch]) -> tuple[np.ndarray, list[Step]]:
    """Pairs of words and remainders of recall, precision, F or the one similarity."""
    factors = [1.0]
    if len(matches) == 2:
        factors = [float(metric.config.score == one.name) for one in matches]
        if metric.config.score == "f":
            with torch.inference_mode(False), torch.enable_grad():
                # Tensors of their own: those made under inference mode can have no gradient.
                pair = [torch.tensor(one.value, dtype=torch.float64, requires_grad=True) for one in matches]
                slopes = torch.autograd.grad(f_score(pair[1], pair[0], metric.config.alpha), pair)
            factors = [float(one) for one in slopes]
    cells = sum(factor * one.contributions for factor, one in zip(factors, matches, strict=True))
    rest = [
        Step(name, factor * value, f"of {one.name}, beside its plan")
        for factor, one in zip(factors, matches, strict=True)
        for name, value in one.extras.items()
        if factor
    ]
    return np.asarray(cells), rest


def _of_cost(metric: MetricModel, match: ExplainedMatch, own: Sequence[float] | None) -> tuple[np.ndarray, list[Step]]:
    """Pairs of words and remainders of a cost, in the form in which it is reported."""
    rest = [Step(name, value, "beside the plan") for name, value in match.extras.items()]
    if metric.matching.debiased and own is not None:
        rest.append(Step("self-transport", -sum(own) / 2, "mean cost of each text with itself, subtracted"))
    output = metric.config.output
    if output == "distance":
        return match.contributions, rest
    cost = float(match.contributions.sum()) + sum(one.value for one in rest)
    factor = 1.0 if output == "similarity" else 1 / (1 + cost)
    rest = [one._replace(value=-factor * one.value) for one in rest]
    rest.append(Step("mass left", 1 - float(match.plan.sum()), "what the plan does not move"))
    return match.plan * (1 - factor * match.rates), rest


def _whole(cells: np.ndarray, rest: Sequence[Step], score: float) -> Shares:
    """The parts, with one for what they lack, where a matching has more to its value than its plan says."""
    kept = [one for one in rest if abs(one.value) > ROUNDING]
    lacking = score - float(cells.sum()) - sum(one.value for one in kept)
    if abs(lacking) > UNSAID * max(1.0, abs(score)):
        kept.append(Step("unsaid", lacking, "what the plan does not tell"))
    return Shares(cells, tuple(kept))


# --- RoMe -------------------------------------------------------------------------------------------------------------


def rome_shares(metric: RomeMetric, match: ExplainedMatch, values: Mapping[str, float], *, empty: bool) -> Shares:
    """The score of RoMe: the semantic feature by pairs of words, every other feature as a whole."""
    score = values["score"]
    if empty:
        return Shares(np.zeros(match.plan.shape), (Step("empty", score, "a side has no words"),))
    shares = feature_shares(metric, values)
    scale = 1.0 if metric.calibration is None else float(metric.calibration.scale)
    worth = match.plan * (1 - match.rates)
    semantic = float(worth.sum())
    by_words = "semantic" in shares and abs(semantic) > ROUNDING
    cells = worth * (scale * shares["semantic"] / semantic) if by_words else np.zeros(match.plan.shape)
    how = "its part of the mean" if metric.scorer is None else "Shapley value in the network, from all features 0"
    rest = [
        Step(name, scale * share, "the network, all features 0" if name == "network" else how)
        for name, share in shares.items()
        if not (by_words and name == "semantic")
    ]
    if metric.calibration is not None:
        rest.append(Step("offset", float(metric.calibration.offset), "of the human scale"))
    return _whole(cells, rest, score)


def feature_shares(metric: RomeMetric, values: Mapping[str, float]) -> dict[str, float]:
    r"""Contribution of each feature to a score before calibration.

    For the mean it is a feature's value by their number. A network :math:`g` is not linear, so each feature gets its
    Shapley value, the mean over all orders of what it adds to those before it, where absent features are 0; these add
    up to :math:`g(F) - g(0)`, which stands beside them as ``network``.

    Reference:
        Shapley 1953; Lundberg and Lee 2017.
    """
    if metric.scorer is None:
        return {name: values[name] / len(metric.config.features) for name in metric.config.features}
    names = metric.scorer.config.features
    subsets = list(chain.from_iterable(combinations(range(len(names)), size) for size in range(len(names) + 1)))
    rows = torch.zeros(len(subsets), len(names), device=metric.device)
    given = named_features({name: torch.tensor([values[name]]) for name in names}, names)[0].to(rows)
    for row, subset in enumerate(subsets):
        rows[row, list(subset)] = given[list(subset)]
    worth = dict(zip(map(frozenset, subsets), metric.scorer(rows).double().tolist(), strict=True))
    shares = {}
    for place, name in enumerate(names):
        without = [one for one in worth if place not in one]
        shares[name] = sum(
            (worth[one | {place}] - worth[one]) / (len(names) * comb(len(names) - 1, len(one))) for one in without
        )
    return {**shares, "network": worth[frozenset()]}


def own_values(metric: MetricModel, given: TokenEmbeddings, found: TokenEmbeddings) -> tuple[float, float] | None:
    """The value of reference and hypothesis with themselves, of those that the score is relative to."""
    if not (metric.config.normalize or metric.matching.debiased):
        return None
    if given.self_similarity is None or found.self_similarity is None:
        return None
    column = ("recall", "precision", "f").index(metric.config.score)
    return float(given.self_similarity[0, 0, column]), float(found.self_similarity[0, 1, column])
