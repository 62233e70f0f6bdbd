"""Explanations of transport metrics: plans between words, and how the values of plans become the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from textmover.explaining.shares import own_values, transport_shares
from textmover.explaining.words import Span, counterparts, unrelated_closeness, words_of_texts
from textmover.functional import f_score, fragmentation, pairwise_cost, pairwise_similarity, unit_vectors
from textmover.modules.matching.names import COSTS
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.weighting import Role, Side
from textmover.report.explanation.explanation import ExplainedMatch, ExplainedText, Step
from textmover.types import InputError, TokenBatch, TokenEmbeddings


class _Read(NamedTuple):
    """One side: its words, what is matched, and the word of each unit of that as a 0-1 matrix ``[words, units]``."""

    text: ExplainedText
    features: TokenEmbeddings
    side: Side
    units: Tensor


def explain_transport(
    metric: MetricModel, hypothesis: str, reference: str, components: Mapping[str, float]
) -> dict[str, Any]:
    """Fields of an :class:`~textmover.report.explanation.explanation.Explanation` of a pair with these components."""
    texts = reference, hypothesis
    batches = [metric.tokenize([text]).to(metric.device) for text in texts]
    features = [_features(metric, batch) for batch in batches]
    sides = metric.weighting.sides(features[0], features[1])
    roles: tuple[Role, Role] = ("reference", "hypothesis")
    given, found = map(partial(_read, metric), texts, roles, batches, features, sides)
    cosines = pairwise_similarity(unit_vectors(given.side.vectors), unit_vectors(found.side.vectors))[0].double()
    present = given.side.mask[0][:, None] & found.side.mask[0]
    similarity = _largest(cosines.masked_fill(~present, -torch.inf), given.units, found.units)
    matches: list[ExplainedMatch] = []
    if not bool(given.side.empty | found.side.empty):
        matches = _matches(metric, given, found)
    floor = unrelated_closeness(metric) if matches else 0.0
    pairs, lonely = counterparts(matches, similarity, (given.text, found.text), floor)
    own = own_values(metric, given.features, found.features)
    shares = transport_shares(metric, matches, own, similarity.shape, components["score"])
    return {
        "hypothesis": found.text,
        "reference": given.text,
        "similarity": similarity,
        "matches": tuple(matches),
        "pairs": pairs,
        "unmatched_reference": lonely[0],
        "unmatched_hypothesis": lonely[1],
        "steps": _steps(metric, matches, own, components, "reference" if bool(given.side.empty) else "hypothesis"),
        "contributions": shares.contributions,
        "remainders": shares.remainders,
    }


# --- words ------------------------------------------------------------------------------------------------------------


def _features(metric: MetricModel, batch: TokenBatch) -> TokenEmbeddings:
    features = metric.text_features(batch)
    if features is None:
        raise InputError(
            "Expected a metric that reads each text by itself to explain a pair, but centering='batch' looks at whole "
            "batches: choose 'corpus', 'sentence', 'dimension' or 'none'."
        )
    return features


def _read(
    metric: MetricModel, text: str, role: Role, batch: TokenBatch, features: TokenEmbeddings, side: Side
) -> _Read:
    words = words_of_texts(metric, batch, [text])[0]
    tokens = torch.zeros(len(words.words), features.mask.shape[1], dtype=torch.float64)
    tokens[words.of_token, torch.arange(len(words.of_token))] = 1.0
    names, spans = list(words.words), list(words.spans)
    if metric.weighting.pools:
        names, spans, units = _pooled(metric, features, role, tokens, (words.words, words.spans))
    else:
        units = tokens
    weights = units @ side.weights[0, : units.shape[1]].cpu().double()
    return _Read(ExplainedText(text, tuple(names), tuple(spans), weights.numpy()), features, side, units)


def _pooled(
    metric: MetricModel,
    features: TokenEmbeddings,
    role: Role,
    tokens: Tensor,
    words: tuple[Sequence[str], Sequence[Span | None]],
) -> tuple[list[str], list[Span | None], Tensor]:
    """The units of a metric that matches words as means of their pieces, or stretches of tokens."""
    length = features.mask.shape[1]
    # Tokens whose vectors are the axes: those of which a unit is made can be read off its vector.
    axes = torch.eye(length, dtype=features.vectors.dtype, device=features.vectors.device)[None]
    made = metric.weighting(replace(features, vectors=axes), role)
    names, spans = [], []
    for vector in made.vectors[0][made.mask[0]].cpu():
        of_unit = (tokens[:, vector != 0].sum(dim=1) > 0).nonzero()[:, 0].tolist()
        places = [span for word in of_unit if (span := words[1][word]) is not None]
        names.append(" ".join(words[0][word] for word in of_unit))
        spans.append((places[0][0], places[-1][1]) if places else None)
    units = torch.zeros(len(names), made.mask.shape[1], dtype=torch.float64)
    units[torch.arange(len(names)), made.mask[0].nonzero()[:, 0].cpu()] = 1.0
    return names, spans, units


def _largest(values: Tensor, rows: Tensor, columns: Tensor) -> np.ndarray:
    """The largest value between the units of two words, 0 where there is none, ``[M, N]``."""
    found = np.full((len(rows), len(columns)), -np.inf)
    if found.size:
        down, across = (one.argmax(dim=0).numpy() for one in (rows[:, : len(values)], columns[:, : values.shape[1]]))
        np.maximum.at(found, np.ix_(down, across), values[: len(down), : len(across)].cpu().numpy())
    return np.where(np.isinf(found), 0.0, found)


# --- plans ------------------------------------------------------------------------------------------------------------


def _matches(metric: MetricModel, given: _Read, found: _Read) -> list[ExplainedMatch]:
    """The values of the matching with their plans, by words."""
    similarity = pairwise_similarity(given.side.vectors, found.side.vectors)
    forward = metric.matching(similarity, given.side, found.side, with_plan=True)
    config = metric.config
    if forward.plan is None:
        raise RuntimeError(f"Expected a plan of the matching {config.matching}, but it gave none.")
    rates, measure = similarity, "similarity"
    if config.matching in COSTS:
        rates, measure = pairwise_cost(given.side.vectors, found.side.vectors, similarity, config.cost), "cost"
    elif config.matching == "wordset-cka":
        rates = similarity.square()
    names = ("recall", "precision") if metric.matching.has_sides else (measure,)
    plans = [(forward.plan, given.side, found.side)]
    if metric.matching.has_sides:
        turned = similarity.transpose(1, 2)
        backward = metric.matching(turned, found.side, given.side, with_plan=True).plan
        # With a tolerance both values are of the one plan that it converged to.
        same = config.matching == "twmd" and config.tolerance is not None
        plans.append((forward.plan.transpose(1, 2) if same or backward is None else backward, found.side, given.side))
    matches = []
    for name, (plan, rows, columns) in zip(names, plans, strict=True):
        extras = _extras(metric, plan, rows, columns, similarity if rows is given.side else similarity.transpose(1, 2))
        by_rows = plan if rows is given.side else plan.transpose(1, 2)
        moved, worth = (
            given.units @ one[0].cpu().double() @ found.units.T for one in (by_rows, by_rows.double() * rates.double())
        )
        plain = _largest(rates[0].double() * (1 if measure == "similarity" else -1), given.units, found.units)
        per_mass = (worth / torch.where(moved > 0, moved, 1.0)).numpy()
        per_mass = np.where(moved.numpy() > 0, per_mass, plain if measure == "similarity" else -plain)
        matches.append(ExplainedMatch(name, moved.numpy(), per_mass, measure, extras))  # type: ignore[arg-type]
    return matches


def _extras(metric: MetricModel, plan: Tensor, rows: Side, columns: Side, similarity: Tensor) -> dict[str, float]:
    """Parts of a value beside its plan: the entropy, or a penalty of order."""
    config = metric.config
    plan, a, b = plan.double(), rows.weights.double(), columns.weights.double()
    if config.matching == "emd" and config.order_penalty:
        return {"order": config.order_penalty * float(fragmentation(plan, a, b))}
    regularised = config.matching == "sinkhorn-divergence" or config.value == "objective"
    if not regularised or config.matching not in ("sinkhorn-divergence", "twmd", "trwmd"):
        return {}
    temperature = metric.matching.learned_fields().get("temperature", config.temperature)
    if config.matching == "trwmd":  # relative to all words of the other side alike, whatever they weigh
        b = columns.mask.double() / columns.mask.sum(dim=1, keepdim=True)
    product = a[:, :, None] * b[:, None, :]
    relative = torch.where(plan > 0, plan * (plan / torch.where(product > 0, product, 1.0)).log(), 0.0)
    divergence = float(relative.sum() - plan.sum() + product.sum())
    return {"entropy": temperature * divergence * (1 if config.matching == "sinkhorn-divergence" else -1)}


# --- the score --------------------------------------------------------------------------------------------------------


def _steps(
    metric: MetricModel,
    matches: Sequence[ExplainedMatch],
    own: tuple[float, float] | None,
    components: Mapping[str, float],
    empty: str,
) -> tuple[Step, ...]:
    """From the values of the plans to the score; without plans, one side is empty."""
    config, score = metric.config, components["score"]
    if not matches:
        return (Step("score", score, f"the {empty} is empty: the value of unrelated texts"),)
    steps = [Step(one.name, one.value, _sum(one)) for one in matches]
    if metric.matching.has_sides:
        alpha, formula = config.alpha, "harmonic mean of precision and recall"
        formula = formula if alpha == 0.5 else f"P R / ({alpha:g} P + {1 - alpha:g} R)"
        recall, precision = (torch.tensor(one.value, dtype=torch.float64) for one in matches)
        steps.append(Step("f", float(f_score(precision, recall, config.alpha)), formula))
    last = next((one for one in steps if one.name == config.score), steps[-1]) if len(matches) > 1 else steps[-1]
    how = ["F" if last.name == "f" else last.name]
    if own is not None:
        names = ("reference with itself", "hypothesis with itself")
        steps += [Step(name, value, f"{how[0]} of the {name}") for name, value in zip(names, own, strict=True)]
        how.append("less their mean" if metric.matching.debiased else "normalised by self-similarity")
    if config.matching in COSTS and config.output != "distance":
        how.append("as 1 - cost" if config.output == "similarity" else "as 1 / (1 + cost)")
    if metric.baseline is not None:
        how.append("rescaled by the baseline of unrelated texts")
    if metric.calibration is not None:
        scale, offset = float(metric.calibration.scale), float(metric.calibration.offset)
        how.append(f"on the human scale: {scale:.4g} * s {'+' if offset >= 0 else '-'} {abs(offset):.4g}")
    raw = len(matches) + metric.matching.has_sides if len(how) > 1 else 0
    steps = [one._replace(how=f"raw: {one.how}") if place < raw else one for place, one in enumerate(steps)]
    return (*steps, Step("score", score, ", ".join(how)))


def _sum(match: ExplainedMatch) -> str:
    of = {"recall": "of each word of the reference", "precision": "of each word of the hypothesis"}.get(match.name, "")
    beside = "".join(f", and {name}" for name in match.extras)
    return f"sum of matched mass times {match.measure} {of}".rstrip() + beside
