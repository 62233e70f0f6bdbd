"""Averages of the weights of several metrics, and of a trained metric with the untrained encoder; token tables.

Corpus mean, baseline and calibration depend on the encoder in no linear way, so the average of their values is only
near what a fit with the new weights would give: both functions take texts and rated segments to fit them again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from textmover.checkpoints.encoder_weights import encoder_prefix, name_weights, trained_encoder
from textmover.checkpoints.statistics_files import fitted_names
from textmover.modules.assembly import as_table, untrained
from textmover.modules.devices import evaluating
from textmover.modules.encoder.encoder_identity import base_of
from textmover.modules.metric_model import MetricModel
from textmover.types import InputError, Segment, SegmentMetric, TokenBatch, TrainableMetric, compared_texts

BATCH = 64  # rated segments that are scored at a time


def average_metrics(
    metrics: Sequence[SegmentMetric],
    weights: Sequence[float] | None = None,
    *,
    texts: Sequence[str] | None = None,
    rated: Sequence[Segment] | None = None,
) -> SegmentMetric:
    r"""A new metric with the mean of several metrics' weights, :math:`\sum_k w_k \theta_k / \sum_k w_k`, in float64.

    It is in evaluation mode. Everything with real numbers is averaged: encoder, layer mix, temperature (its logarithm),
    and, as an approximation, corpus mean, baseline, scale and offset, unless there is something to fit them on. Idf
    tables have to be equal then.

    Args:
        metrics: At least one, all of one configuration and from one base encoder; they stay as they are.
        weights: A finite number of at least 0 for each, not all 0; equal ones if ``None``.
        texts: A corpus to fit corpus mean, idf tables and baseline on, with the averaged weights.
        rated: Segments with human scores to fit the scale and offset of the calibration head to; needed where the
            metrics were calibrated to ratings of different scales, whose mean is on none of them.

    Raises:
        InputError: If the metrics differ in what their weights mean, a statistic is fitted in some of them only, or
            there is nothing to fit on the texts or ratings.

    Reference:
        Wortsman et al. 2022 (Model soups), the uniform soup.
    """
    if len(metrics) < 1:
        raise InputError("Expected `metrics` to hold at least one metric, but got none.")
    given = [1.0] * len(metrics) if weights is None else [float(one) for one in weights]
    if len(given) != len(metrics):
        raise InputError(
            f"Expected `weights` to hold {len(metrics)} numbers, one for each metric, but got {len(given)}."
        )
    if not all(math.isfinite(one) and one >= 0 for one in given) or sum(given) <= 0:
        raise InputError(f"Expected `weights` to be finite, at least 0 and not all 0, but got {given}.")
    shares = [one / sum(given) for one in given]
    _check_alike(metrics)
    states = [_module(metric).state_dict() for metric in metrics]
    result: Any = copy.deepcopy(metrics[0])
    mixed = {name: _mean(name, [one[name] for one in states], shares, refitted=texts is not None) for name in states[0]}
    result.load_state_dict(mixed)
    name_weights(result)
    refit(result, texts=texts, rated=rated)
    return result.eval()


def interpolate(
    trained: SegmentMetric, share: float, *, texts: Sequence[str] | None = None, rated: Sequence[Segment] | None = None
) -> SegmentMetric:
    r"""A trained metric on the way back to its untrained encoder: :math:`\theta = (1 - s)\,\theta_1 + s\,\theta_0`.

    Only the encoder moves, in a new metric in evaluation mode. Layer mix, temperature, corpus mean, baseline and
    calibration, which have no untrained counterpart, stay as they were trained, unless there is something to fit them
    on.

    Args:
        trained: The metric, which stays as it is; the encoder that it started from has to be at hand.
        share: ``s`` between 0 (as trained) and 1 (the untrained encoder).
        texts: See :func:`average_metrics`.
        rated: See :func:`average_metrics`.

    Raises:
        InputError: If the share lies outside, or the untrained encoder cannot be found or is another one.

    Reference:
        Wortsman et al. 2022 (Robust fine-tuning of zero-shot models, WiSE-FT).
    """
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
        raise InputError(f"Expected `share` to be between 0 (trained) and 1 (untrained), but got {share!r}.")
    before, prefix = untrained(trained_encoder(trained)).state_dict(), encoder_prefix(trained)
    state = dict(_module(trained).state_dict())
    result: Any = copy.deepcopy(trained)
    for name, old in before.items():
        new = state.get(f"{prefix}{name}")
        if new is None or new.shape != old.shape:
            raise InputError(
                f"Expected an encoder with the weights of its base, but {name} is not the same in both: merge or "
                "remove what training added to it."
            )
        state[f"{prefix}{name}"] = _mean(name, [new, old.to(new.device)], [1 - share, share], refitted=False)
    result.load_state_dict(state)
    name_weights(result)
    refit(result, texts=texts, rated=rated)
    return result.eval()


def refit(metric: SegmentMetric, *, texts: Sequence[str] | None = None, rated: Sequence[Segment] | None = None) -> None:
    """Fit statistics on a corpus and the calibration head on rated segments again, in place; ``None`` leaves either.

    Statistics that each call fits are left to it; of each segment the first reference is read.
    """
    if texts is not None:
        metric.fit(list(texts), names=fitted_names(metric))
    if rated is None:
        return
    if not isinstance(metric, TrainableMetric):
        raise InputError("Expected a metric that can be calibrated, but got one without a calibration head.")
    scores = [math.nan if one.score is None else one.score for one in rated]
    if len(scores) < 2 or not all(map(math.isfinite, scores)):
        raise InputError(
            f"Expected at least two segments, each with a finite human score, to calibrate on, but got {len(scores)}, "
            f"{sum(not math.isfinite(one) for one in scores)} of them without: leave those out, or give more."
        )
    if min(scores) == max(scores):
        raise InputError(
            f"Expected ratings that differ, to calibrate on, but all {len(scores)} are {scores[0]:g}: check the column."
        )
    fit_scale(metric, rated, torch.tensor(scores, dtype=torch.float64))


def _module(metric: SegmentMetric) -> nn.Module:
    if not isinstance(metric, nn.Module):
        raise TypeError(f"Expected a metric that is a torch module, but got {type(metric).__name__}.")
    return metric


def _check_alike(metrics: Sequence[SegmentMetric]) -> None:
    first = _meaning(metrics[0])
    for position, metric in enumerate(metrics[1:], start=2):
        other = _meaning(metric)
        for name in dict.fromkeys([*first, *other]):
            if first.get(name) != other.get(name):
                raise InputError(
                    f"Expected metrics of one configuration to average, but `{name}` is {first.get(name)!r} in the "
                    f"first and {other.get(name)!r} in number {position}: average only runs of one recipe."
                )


def _meaning(metric: SegmentMetric) -> dict[str, Any]:
    values = metric.config.to_dict()
    # What may differ: where the encoder lies (its hash is compared), and what was trained.
    free = {"encoder", "revision", "freeze_layers", *(["temperature"] if values.get("learn_temperature") else [])}
    base = base_of(metric.runnable_encoder)
    name = metric.signature.entries.get("encoder", "") if base is None else base.sha256[:8]
    shapes = {f"shape of {key}": tuple(one.shape) for key, one in _module(metric).state_dict().items()}
    return {**{key: one for key, one in values.items() if key not in free}, "encoder": name, **shapes}


def _mean(name: str, tensors: Sequence[Tensor], shares: Sequence[float], *, refitted: bool) -> Tensor:
    """The weighted mean of a tensor; of whole numbers, which only count, those that are equal or the largest."""
    first = tensors[0]
    if first.is_floating_point():
        total = torch.zeros(first.shape, dtype=torch.float64)
        for share, one in zip(shares, tensors, strict=True):
            total += share * one.detach().cpu().double()
        return total.to(first)
    if all(torch.equal(first.cpu(), one.cpu()) for one in tensors) or refitted:
        return first
    counts = torch.stack([one.cpu() for one in tensors])
    if not name.endswith(".count") or bool((counts == 0).any()):
        raise InputError(
            f"Expected {name} to be the same in all metrics, but it differs: give texts to fit the statistics on again."
        )
    return counts.max(dim=0).values.to(first)


def fit_scale(metric: Any, rated: Sequence[Segment], ratings: Tensor) -> None:
    """Fit the calibration head to ratings ``[n]`` by first references, then what combines them with sources."""
    compared = compared_texts(metric, [one.compared for one in rated])
    kept = [place for place, one in enumerate(compared) if one] or list(range(len(rated)))
    pairs = [replace(rated[place], references=compared[place].texts[:1]) for place in kept]
    metric.fit_calibration(token_pairs(metric, pairs), ratings[kept])
    if any(one.source for one in compared):
        metric.combination.fit(*side_scores(metric, rated), ratings.cpu(), metric.ends.cpu())


@torch.no_grad()
def side_scores(metric: Any, rated: Sequence[Segment]) -> tuple[Tensor, Tensor]:
    """Scores of segments against first references and sources, ``[n]`` each on the CPU; NaN where there is none."""
    compared = compared_texts(metric, [one.compared for one in rated])
    found = torch.full((2, len(rated)), torch.nan)
    sides = [one[:1] for one in compared], [one.texts[len(one) :] for one in compared]
    for scores, texts in zip(found, sides, strict=True):
        places = [place for place, text in enumerate(texts) if text]
        pairs = token_pairs(metric, [replace(rated[place], references=texts[place]) for place in places])
        with evaluating(metric):
            for start, pair in zip(range(0, len(places), BATCH), pairs, strict=True):
                values = metric.pair_scores(*(side.to(metric.device) for side in pair)).score
                scores[places[start : start + BATCH]] = values.cpu()
    return found[0], found[1]


def first_scores(metric: Any, rated: Sequence[Segment]) -> Tensor:
    """Scores of segments against first references and sources ``[n]``, on the CPU."""
    references, sources = side_scores(metric, rated)
    if bool(sources.isnan().all()):
        return references
    combined: Tensor = metric.combine(references.to(metric.device), sources.to(metric.device)).detach().cpu()
    return combined


def token_pairs(metric: SegmentMetric, rated: Sequence[Segment]) -> Iterator[tuple[TokenBatch, TokenBatch]]:
    """Tokens of hypotheses and their first references, in batches."""
    for start in range(0, len(rated), BATCH):
        chunk = rated[start : start + BATCH]
        hypotheses = metric.tokenize([one.hypothesis for one in chunk])
        yield hypotheses, metric.tokenize([one.references[0] for one in chunk])


def as_token_table(metric: Any, dimension: int | None = None, texts: Sequence[str] = ()) -> MetricModel:
    """The metric with a table of its tokens' vectors in the place of its encoder; all else stays.

    A token's vector is the mean over its places in a text, so scores differ a little from those of the metric itself.

    Args:
        metric: Of the transport family, on layer 0.
        dimension: Directions that are kept of the vectors, those with the largest squares; ``None`` for all. Fewer are
            smaller and faster, and often agree better with people.
        texts: A corpus to fit the mean and the baseline on again, which depend on the directions.

    Raises:
        InputError: If the metric is none of the transport family, reads another layer than 0, the embeddings, or
            misses texts to be fitted on.
    """
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected a metric of the transport family to make a table of, but got {metric.config.kind}.")
    table = MetricModel(metric.config.override(freeze_layers=None), as_table(metric.parts, dimension))
    changed = ("encoder.", *(f"{one}." for one in ("centering", "baseline") if dimension is not None))
    kept = {name: one for name, one in metric.state_dict().items() if not name.startswith(changed)}
    table.load_state_dict({**table.state_dict(), **kept})
    if (missing := [name for name, one in table.statistics.items() if not one.fitted]) and not texts:
        raise InputError(
            f"Expected texts to fit {' and '.join(missing)} again on, which depend on the directions kept, but "
            "got none: give some, or keep all directions."
        )
    if missing:
        table.fit(list(texts), names=missing)
    return table.eval()
