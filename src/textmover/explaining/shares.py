r"""Contributions of word pairs to a score: the plans' values carried through every later step.

A value is a sum over pairs of words, :math:`v = \sum_{ij} P_{ij} r_{ij} + \sum_k e_k`. Each later step is linear in it,
or is written as linear with a factor that depends on the pair of texts:

* :math:`F = PR / (\alpha P + (1-\alpha) R)` is homogeneous of degree 1, so by Euler's theorem
  :math:`F = R\,\partial F/\partial R + P\,\partial F/\partial P`: the contribution of a pair of words is what it adds
  to recall and precision, times the partial derivative of F.
* In the division by the texts' self-similarities, these are constants.
* A cost becomes a similarity, :math:`1 - \sum_{ij} P_{ij} c_{ij}`, by :math:`P_{ij}(1 - c_{ij})`; for
  :math:`s = 1/(1+c)`, which is :math:`1 - s c`, by :math:`P_{ij}(1 - s\,c_{ij})`.
* Terms that belong to no pair (baseline, offset, entropy, mass that is not moved) are listed separately, by name.
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
from textmover.report.explanation.explanations import ExplainedMatch, Step
from textmover.rome.metric import RomeMetric
from textmover.rome.scorer.network import named_features
from textmover.types import TokenEmbeddings

ROUNDING = 5e-7  # smaller remainders are float32 rounding errors of 0
UNEXPLAINED = 1e-5  # minimum share of the score that the plan leaves unexplained to be listed as a remainder


class Contributions(NamedTuple):
    """A score as contributions of pairs of words, float64 ``[M, N]``, and the remaining terms."""

    contributions: np.ndarray
    remainders: tuple[Step, ...]


def transport_shares(
    metric: MetricModel,
    matches: Sequence[ExplainedMatch],
    own: Sequence[float] | None,
    shape: tuple[int, int],
    score: float,
) -> Contributions:
    """Split a transport metric's score by pairs of words; ``own`` are the values of the texts with themselves."""
    if not matches:
        return Contributions(np.zeros(shape), (Step("empty", score, "a side has nothing to match"),))
    config = metric.config
    if config.matching in COSTS:
        cells, remainders = _of_cost(metric, matches[0], own)
    else:
        cells, remainders = _of_similarity(metric, matches)
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
        offsets = [step._replace(value=scale * step.value) for step in offsets]
        offsets.append(Step("offset", float(metric.calibration.offset), "of the human scale"))
    return _whole(cells * factor, [*(step._replace(value=factor * step.value) for step in remainders), *offsets], score)


def _of_similarity(metric: MetricModel, matches: Sequence[ExplainedMatch]) -> tuple[np.ndarray, list[Step]]:
    """Split recall, precision, F or the single similarity by pairs of words; return contributions and remainders."""
    factors = [1.0]
    if len(matches) == 2:
        factors = [float(metric.config.score == match.name) for match in matches]
        if metric.config.score == "f":
            with torch.inference_mode(False), torch.enable_grad():
                # New tensors, as tensors created in inference mode cannot require gradients.
                pair = [torch.tensor(match.value, dtype=torch.float64, requires_grad=True) for match in matches]
                slopes = torch.autograd.grad(f_score(pair[1], pair[0], metric.config.alpha), pair)
            factors = [float(slope) for slope in slopes]
    cells = sum(factor * match.contributions for factor, match in zip(factors, matches, strict=True))
    remainders = [
        Step(name, factor * value, f"of {match.name}, not part of its plan")
        for factor, match in zip(factors, matches, strict=True)
        for name, value in match.extras.items()
        if factor
    ]
    return np.asarray(cells), remainders


def _of_cost(metric: MetricModel, match: ExplainedMatch, own: Sequence[float] | None) -> tuple[np.ndarray, list[Step]]:
    """Split a cost by pairs of words, in the form in which it is reported; return contributions and remainders."""
    remainders = [Step(name, value, "not part of the plan") for name, value in match.extras.items()]
    if metric.matching.debiased and own is not None:
        remainders.append(Step("self-transport", -sum(own) / 2, "mean cost of each text with itself, subtracted"))
    output = metric.config.output
    if output == "distance":
        return match.contributions, remainders
    cost = float(match.contributions.sum()) + sum(step.value for step in remainders)
    factor = 1.0 if output == "similarity" else 1 / (1 + cost)
    remainders = [step._replace(value=-factor * step.value) for step in remainders]
    remainders.append(Step("mass left", 1 - float(match.plan.sum()), "what the plan does not move"))
    return match.plan * (1 - factor * match.rates), remainders


def _whole(cells: np.ndarray, remainders: Sequence[Step], score: float) -> Contributions:
    """Build the shares, with a remainder for the part of the score that the plan does not explain."""
    significant = [step for step in remainders if abs(step.value) > ROUNDING]
    missing = score - float(cells.sum()) - sum(step.value for step in significant)
    if abs(missing) > UNEXPLAINED * max(1.0, abs(score)):
        significant.append(Step("unsaid", missing, "the part that the plan does not explain"))
    return Contributions(cells, tuple(significant))


# --- RoMe -------------------------------------------------------------------------------------------------------------


def rome_shares(
    metric: RomeMetric, match: ExplainedMatch, values: Mapping[str, float], *, empty: bool
) -> Contributions:
    """Split RoMe's score: the semantic feature by pairs of words, and each other feature as one term."""
    score = values["score"]
    if empty:
        return Contributions(np.zeros(match.plan.shape), (Step("empty", score, "a side has no words"),))
    shares = feature_shares(metric, values)
    scale = 1.0 if metric.calibration is None else float(metric.calibration.scale)
    similarity = match.plan * (1 - match.rates)
    semantic = float(similarity.sum())
    by_words = "semantic" in shares and abs(semantic) > ROUNDING
    cells = similarity * (scale * shares["semantic"] / semantic) if by_words else np.zeros(match.plan.shape)
    note = "its part of the mean" if metric.scorer is None else "Shapley value in the network, from all features 0"
    rest = [
        Step(name, scale * share, "the network, all features 0" if name == "network" else note)
        for name, share in shares.items()
        if not (by_words and name == "semantic")
    ]
    if metric.calibration is not None:
        rest.append(Step("offset", float(metric.calibration.offset), "of the human scale"))
    return _whole(cells, rest, score)


def feature_shares(metric: RomeMetric, values: Mapping[str, float]) -> dict[str, float]:
    r"""Return the contribution of each feature to a score before calibration.

    For the mean it is the feature's value divided by their number. A network :math:`g` is not linear, so each feature
    gets its Shapley value: its mean marginal contribution over all orders, with absent features set to 0. They add up
    to :math:`g(F) - g(0)`; the rest, :math:`g(0)`, is listed as ``network``.

    Reference:
        Shapley 1953; Lundberg and Lee 2017.
    """
    if metric.scorer is None:
        return {name: values[name] / len(metric.config.features) for name in metric.config.features}
    names = metric.scorer.config.features
    subsets = list(chain.from_iterable(combinations(range(len(names)), size) for size in range(len(names) + 1)))
    rows = torch.zeros(len(subsets), len(names), device=metric.device)
    features = named_features({name: torch.tensor([values[name]]) for name in names}, names)[0].to(rows)
    for row, subset in enumerate(subsets):
        rows[row, list(subset)] = features[list(subset)]
    outputs = dict(zip(map(frozenset, subsets), metric.scorer(rows).double().tolist(), strict=True))
    shares = {}
    for index, name in enumerate(names):
        without = [one for one in outputs if index not in one]
        shares[name] = sum(
            (outputs[one | {index}] - outputs[one]) / (len(names) * comb(len(names) - 1, len(one))) for one in without
        )
    return {**shares, "network": outputs[frozenset()]}


def own_values(metric: MetricModel, ref: TokenEmbeddings, hyp: TokenEmbeddings) -> tuple[float, float] | None:
    """Return the values of reference and hypothesis with themselves, or ``None`` if the score does not use them."""
    if not (metric.config.normalize or metric.matching.debiased):
        return None
    if ref.self_similarity is None or hyp.self_similarity is None:
        return None
    column = ("recall", "precision", "f").index(metric.config.score)
    return float(ref.self_similarity[0, 0, column]), float(hyp.self_similarity[0, 1, column])
