"""Explain transport metrics: plans between words, and the steps from plan values to the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from textmover.explaining.shares import own_values, transport_shares
from textmover.explaining.word_matches import Span, TokenWords, counterparts, unrelated_similarity, words_of_texts
from textmover.functional import f_score, fragmentation, pairwise_cost, pairwise_similarity, token_score, unit_vectors
from textmover.modules.devices import scoring_mode
from textmover.modules.matching.names import COSTS
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.weighting import Role, Side
from textmover.report.evaluation.disagreements import Alignment, Link
from textmover.report.explanation.explanations import ExplainedMatch, ExplainedText, Step
from textmover.types import InputError, SegmentMetric, TokenBatch, TokenEmbeddings
from textmover.types.word_splitting import legible


class _ExplainedSide(NamedTuple):
    """One side of a pair: its words, what is matched, and the words of each matched unit, 0-1 ``[words, units]``."""

    text: ExplainedText
    features: TokenEmbeddings
    side: Side
    units: Tensor


def explain_transport(
    metric: MetricModel, hypothesis: str, reference: str, components: Mapping[str, float]
) -> dict[str, Any]:
    """Return the fields of an :class:`~textmover.report.explanation.explanations.Explanation` of a pair."""
    ref, hyp, similarity, matches = _matched(metric, hypothesis, reference)
    floor = unrelated_similarity(metric) if matches else 0.0
    pairs, unmatched = counterparts(matches, similarity, (ref.text, hyp.text), floor)
    with_self = own_values(metric, ref.features, hyp.features)
    shares = transport_shares(metric, matches, with_self, similarity.shape, components["score"])
    empty = [name for name, one in (("hypothesis", hyp), ("reference", ref)) if bool(one.side.empty)]
    return {
        "hypothesis": hyp.text,
        "reference": ref.text,
        "similarity": similarity,
        "matches": tuple(matches),
        "pairs": pairs,
        "unmatched_reference": unmatched[0],
        "unmatched_hypothesis": unmatched[1],
        "steps": _steps(metric, matches, with_self, components, empty),
        **shares._asdict(),
    }


FAINT = 0.15  # minimum mass of a link, as a share of the smaller maximum of its two words


def align_words(metric: SegmentMetric, hypothesis: str, reference: str, number: int = 0) -> Alignment | None:
    """Align whitespace-separated words by a metric's plan, with the largest cosine of their tokens.

    ``number`` is the reference's index. Return ``None`` if the metric matches no words, or cannot locate them.
    """
    if not isinstance(metric, MetricModel) or metric.weighting.pools:
        return None
    try:
        with scoring_mode(metric):
            ref, hyp, similarity, matches = _matched(metric, hypothesis, reference)
    except InputError:
        return None
    words = tuple(legible(hypothesis).split()), tuple(legible(reference).split())
    size = len(words[1]), len(words[0])
    mass, closeness = np.zeros(size), np.full(size, -np.inf)
    rows, columns = _spaced_words(ref.text), _spaced_words(hyp.text)
    for match in matches[:1]:
        to, of = np.ix_(rows[rows >= 0], columns[columns >= 0]), np.ix_(rows >= 0, columns >= 0)
        np.add.at(mass, to, match.plan[of])
        np.maximum.at(closeness, to, similarity[of])
    heaviest = np.minimum(mass.max(axis=1, keepdims=True, initial=0.0), mass.max(axis=0, keepdims=True, initial=0.0))
    links = tuple(
        Link(column, row, float(mass[row, column]), float(min(1.0, closeness[row, column])))
        for row, column in np.argwhere((mass > 0) & (mass >= FAINT * heaviest)).tolist()
    )
    return Alignment(*words, links, number)


def _spaced_words(text: ExplainedText) -> np.ndarray:
    """Return the index of each unit's whitespace-separated word, or -1 for special tokens and units without weight."""
    weighted = zip(text.spans, text.weights, strict=True)
    ends = [span[1] if span is not None and weight > 0 else 0 for span, weight in weighted]
    return np.array([len(text.text[:end].split()) - 1 for end in ends], dtype=np.int64)


def _matched(
    metric: MetricModel, hypothesis: str, reference: str
) -> tuple[_ExplainedSide, _ExplainedSide, np.ndarray, list[ExplainedMatch]]:
    """Return reference and hypothesis, the cosines of their words, and the plans; none if a side is empty."""
    texts = reference, hypothesis
    batches = [metric.tokenize([text]).to(metric.device) for text in texts]
    features = [_features(metric, batch) for batch in batches]
    sides = metric.weighting.sides(features[0], features[1])
    roles: tuple[Role, Role] = ("reference", "hypothesis")
    ref, hyp = map(partial(_read, metric), texts, roles, batches, features, sides)
    cosines = pairwise_similarity(unit_vectors(ref.side.vectors), unit_vectors(hyp.side.vectors))[0].double()
    present = ref.side.mask[0][:, None] & hyp.side.mask[0]
    similarity = _largest(cosines.masked_fill(~present, -torch.inf), ref.units, hyp.units)
    matches = [] if bool(ref.side.empty) or bool(hyp.side.empty) else _matches(metric, ref, hyp)
    return ref, hyp, similarity, matches


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
) -> _ExplainedSide:
    words = words_of_texts(metric, batch, [text])[0]
    tokens = torch.zeros(len(words.words), features.mask.shape[1], dtype=torch.float64)
    tokens[words.of_token, torch.arange(len(words.of_token))] = 1.0
    names, spans, units = list(words.words), list(words.spans), tokens
    if metric.weighting.pools:
        names, spans, units = _pooled(metric, features, role, tokens, words)
    weights = units @ side.weights[0, : units.shape[1]].cpu().double()
    return _ExplainedSide(ExplainedText(text, tuple(names), tuple(spans), weights.numpy()), features, side, units)


def _pooled(
    metric: MetricModel, features: TokenEmbeddings, role: Role, tokens: Tensor, words: TokenWords
) -> tuple[list[str], list[Span | None], Tensor]:
    """Return the units of a metric that pools tokens into words or n-grams."""
    length = features.mask.shape[1]
    # With unit vectors as token vectors, a unit's nonzero components are its tokens.
    axes = torch.eye(length, dtype=features.vectors.dtype, device=features.vectors.device)[None]
    pooled = metric.weighting(replace(features, vectors=axes), role)
    names, spans = [], []
    for vector in pooled.vectors[0][pooled.mask[0]].cpu():
        words_of_unit = (tokens[:, vector != 0].sum(dim=1) > 0).nonzero()[:, 0].tolist()
        spans_of_unit = [span for word in words_of_unit if (span := words.spans[word]) is not None]
        names.append(" ".join(words.words[word] for word in words_of_unit))
        spans.append((spans_of_unit[0][0], spans_of_unit[-1][1]) if spans_of_unit else None)
    units = torch.zeros(len(names), pooled.mask.shape[1], dtype=torch.float64)
    units[torch.arange(len(names)), pooled.mask[0].nonzero()[:, 0].cpu()] = 1.0
    return names, spans, units


def _largest(values: Tensor, rows: Tensor, columns: Tensor) -> np.ndarray:
    """Return the largest value between the units of two words, 0 without any, ``[M, N]``."""
    largest = np.full((len(rows), len(columns)), -np.inf)
    if largest.size:
        down, across = (one.argmax(dim=0).numpy() for one in (rows[:, : len(values)], columns[:, : values.shape[1]]))
        np.maximum.at(largest, np.ix_(down, across), values[: len(down), : len(across)].cpu().numpy())
    return np.where(np.isinf(largest), 0.0, largest)


# --- plans ------------------------------------------------------------------------------------------------------------


def _matches(metric: MetricModel, ref: _ExplainedSide, hyp: _ExplainedSide) -> list[ExplainedMatch]:
    """Return the values of the matching with their plans, aggregated by words."""
    similarity = metric.weighting.similarity(ref.side, hyp.side)
    forward = metric.matching(similarity, ref.side, hyp.side, with_plan=True)
    config = metric.config
    if forward.plan is None:
        raise InputError(f"Expected a plan of the matching {config.matching}, but it gave none: choose another one.")
    rates, measure = similarity, "similarity"
    if config.matching in COSTS:
        rates, measure = pairwise_cost(ref.side.vectors, hyp.side.vectors, similarity, config.cost), "cost"
    elif config.matching == "wordset-cka":
        rates = similarity.square()
    names = ("recall", "precision") if metric.matching.has_sides else (measure,)
    plans = [(forward.plan, ref.side, hyp.side)]
    if metric.matching.has_sides:
        transposed = similarity.transpose(1, 2)
        backward = metric.matching(transposed, hyp.side, ref.side, with_plan=True).plan
        # With a tolerance, both values come from the single converged plan.
        same = config.matching == "twmd" and config.tolerance is not None
        plans.append((forward.plan.transpose(1, 2) if same or backward is None else backward, hyp.side, ref.side))
    matches = []
    for name, (plan, rows, columns) in zip(names, plans, strict=True):
        extras = _extras(metric, plan, rows, columns)
        if name == "precision" and config.error_norm != 1:
            rates = _rates_of_losses(plan.transpose(1, 2), similarity, hyp.side.weights, config.error_norm)
        by_rows = plan if rows is ref.side else plan.transpose(1, 2)
        mass, values = (
            ref.units @ one[0].cpu().double() @ hyp.units.T for one in (by_rows, by_rows.double() * rates.double())
        )
        plain = _largest(rates[0].double() * (1 if measure == "similarity" else -1), ref.units, hyp.units)
        per_mass = (values / torch.where(mass > 0, mass, 1.0)).numpy()
        per_mass = np.where(mass.numpy() > 0, per_mass, plain if measure == "similarity" else -plain)
        matches.append(ExplainedMatch(name, mass.numpy(), per_mass, measure, extras))  # type: ignore[arg-type]
    return matches


def _rates_of_losses(plan: Tensor, similarity: Tensor, weights: Tensor, norm: float) -> Tensor:
    r"""Return what a unit of mass between two tokens adds to precision by a norm of losses, ``[B, M, N]``.

    The norm :math:`L` of the losses :math:`l_j` is homogeneous: by Euler's theorem :math:`L = \sum_j b_j s_j l_j` with
    :math:`s_j = (l_j/L)^{p-1}`, so that :math:`1 - L = \sum_{ij} P_{ij} (1 - s_j (1 - S_{ij}))`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        # Clones, as tensors created in inference mode cannot require gradients.
        weights, similarity = weights.double().clone(), similarity.double().clone()
        divisors = torch.where(weights > 0, weights, 1.0)
        values = ((plan.clone() * similarity).sum(dim=1) / divisors).requires_grad_()
        (slopes,) = torch.autograd.grad(token_score(values, weights, norm).sum(), values)
    return 1 - (slopes / divisors)[:, None, :] * (1 - similarity)


def _extras(metric: MetricModel, plan: Tensor, rows: Side, columns: Side) -> dict[str, float]:
    """Return the terms of a value other than its plan: the entropy, or the order penalty."""
    config = metric.config
    plan, a, b = plan.double(), rows.weights.double(), columns.weights.double()
    if config.matching == "emd" and config.order_penalty:
        return {"order": config.order_penalty * float(fragmentation(plan, a, b))}
    regularised = config.matching == "sinkhorn-divergence" or config.value == "objective"
    if not regularised or config.matching not in ("sinkhorn-divergence", "twmd", "trwmd"):
        return {}
    temperature = metric.matching.learned_fields().get("temperature", config.temperature)
    if config.matching == "trwmd":  # relative to a uniform distribution over the other side, independent of weights
        b = columns.mask.double() / columns.mask.sum(dim=1, keepdim=True)
    product = a[:, :, None] * b[:, None, :]
    relative = torch.where(plan > 0, plan * (plan / torch.where(product > 0, product, 1.0)).log(), 0.0)
    divergence = float(relative.sum() - plan.sum() + product.sum())
    return {"entropy": temperature * divergence * (1 if config.matching == "sinkhorn-divergence" else -1)}


# --- the score --------------------------------------------------------------------------------------------------------


def _steps(
    metric: MetricModel,
    matches: Sequence[ExplainedMatch],
    with_self: tuple[float, float] | None,
    components: Mapping[str, float],
    empty: Sequence[str],
) -> tuple[Step, ...]:
    """Return the steps from plan values to the score; there are no matches if a side is empty."""
    config, score = metric.config, components["score"]
    if not matches:
        return (
            Step("score", score, f"nothing to match in the {' and the '.join(empty)}: the value of unrelated texts"),
        )
    steps = [Step(match.name, match.value, _sum(match, config.error_norm)) for match in matches]
    if metric.matching.has_sides:
        alpha, formula = config.alpha, "harmonic mean of precision and recall"
        formula = formula if alpha == 0.5 else f"P R / ({alpha:g} P + {1 - alpha:g} R)"
        recall, precision = (torch.tensor(match.value, dtype=torch.float64) for match in matches)
        steps.append(Step("f", float(f_score(precision, recall, config.alpha)), formula))
    last = next((step for step in steps if step.name == config.score), steps[-1]) if len(matches) > 1 else steps[-1]
    notes = ["F" if last.name == "f" else last.name]
    if with_self is not None:
        names = ("reference with itself", "hypothesis with itself")
        steps += [Step(name, value, f"{notes[0]} of the {name}") for name, value in zip(names, with_self, strict=True)]
        notes.append("less their mean" if metric.matching.debiased else "normalised by self-similarity")
    if config.matching in COSTS and config.output != "distance":
        notes.append("as 1 - cost" if config.output == "similarity" else "as 1 / (1 + cost)")
    if metric.baseline is not None:
        notes.append("rescaled by the baseline of unrelated texts")
    if metric.calibration is not None:
        scale, offset = float(metric.calibration.scale), float(metric.calibration.offset)
        notes.append(f"on the human scale: {scale:.4g} * s {'+' if offset >= 0 else '-'} {abs(offset):.4g}")
    raw = len(matches) + metric.matching.has_sides if len(notes) > 1 else 0
    steps = [step._replace(how=f"raw: {step.how}") if index < raw else step for index, step in enumerate(steps)]
    return (*steps, Step("score", score, ", ".join(notes)))


def _sum(match: ExplainedMatch, norm: float) -> str:
    if match.name == "precision" and norm != 1:
        return f"1 - the {norm:g}-norm of what each word of the hypothesis lacks"
    of = {"recall": "of each word of the reference", "precision": "of each word of the hypothesis"}.get(match.name, "")
    and_extras = "".join(f", and {name}" for name in match.extras)
    return f"sum of matched mass times {match.measure} {of}".rstrip() + and_extras
