"""Average the weights of metrics, interpolate with the untrained encoder, and build token tables.

Corpus mean, baseline and calibration do not depend linearly on the encoder, so averaging their values is only an
approximation. Both averaging functions accept texts and rated segments to refit them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from textmover.checkpoints.encoder_state import (
    check_module,
    encoder_prefix,
    name_weights,
    trained_encoder,
    without_lora,
)
from textmover.checkpoints.statistics_files import fitted_names
from textmover.modules.devices import evaluating
from textmover.modules.encoder.encoder_identity import base_of
from textmover.modules.encoder_parts import as_table, untrained
from textmover.modules.metric_model import MetricModel
from textmover.types import InputError, Segment, SegmentMetric, TokenBatch, TrainableMetric
from textmover.types.segments import judged_texts

BATCH = 64  # rated segments per batch
HEAD_FLAGS = ("error_head.graded", "error_head.fitted", "error_head.words")


def average_metrics(
    metrics: Sequence[SegmentMetric],
    weights: Sequence[float] | None = None,
    *,
    texts: Sequence[str] | None = None,
    rated: Sequence[Segment] | None = None,
) -> SegmentMetric:
    r"""Return a new metric with the weighted mean of the weights, :math:`\sum_k w_k \theta_k / \sum_k w_k`, in float64.

    The new metric is in evaluation mode. All floating-point values are averaged: encoder, layer mix, temperature (its
    logarithm) and, as an approximation, corpus mean, baseline, scale and offset. ``texts`` and ``rated`` refit the
    approximated values. Without ``texts``, the idf tables of all metrics must be equal.

    Args:
        metrics: At least one metric. All have the same configuration and base encoder; none is modified.
        weights: A finite weight of at least 0 for each metric, not all 0; ``None`` for equal weights.
        texts: Corpus to refit corpus mean, idf tables and baseline on, with the averaged weights.
        rated: Segments with human scores to refit the scale and offset of the calibration head. Required if the
            metrics were calibrated to different rating scales.

    Raises:
        InputError: If the metrics differ in configuration, base encoder or shapes, a statistic is fitted in only some
            of them, or there is nothing to fit on the texts or ratings.

    Reference:
        Wortsman et al. 2022 (Model soups), the uniform soup.
    """
    if not isinstance(metrics, Sequence) or isinstance(metrics, str) or not metrics:
        got = "none" if isinstance(metrics, Sequence) and not metrics else f"{type(metrics).__name__}: give a list"
        raise InputError(f"Expected `metrics` to hold at least one metric, but got {got}.")
    # The product of averaged matrices is not the average of their products.
    merged: list[Any] = [without_lora(check_module(metric)) for metric in metrics]
    states = [metric.state_dict() for metric in merged]
    numbers = [1.0] * len(metrics) if weights is None else [float(one) for one in weights]
    if len(numbers) != len(metrics):
        raise InputError(
            f"Expected `weights` to hold {len(metrics)} numbers, one for each metric, but got {len(numbers)}."
        )
    if not all(math.isfinite(one) and one >= 0 for one in numbers) or sum(numbers) <= 0:
        raise InputError(f"Expected `weights` to be finite, at least 0 and not all 0, but got {numbers}.")
    shares = [one / sum(numbers) for one in numbers]
    _check_compatible(merged)
    result: Any = copy.deepcopy(merged[0])
    mean = {name: _mean(name, [one[name] for one in states], shares, refitted=texts is not None) for name in states[0]}
    result.load_state_dict(mean)
    name_weights(result)
    refit(result, texts=texts, rated=rated)
    return result.eval()


def interpolate(
    trained: SegmentMetric, share: float, *, texts: Sequence[str] | None = None, rated: Sequence[Segment] | None = None
) -> SegmentMetric:
    r"""Interpolate between a trained encoder and its untrained base: :math:`\theta = (1 - s)\,\theta_1 + s\,\theta_0`.

    Return a new metric in evaluation mode. Only encoder weights are interpolated. Layer mix, temperature, corpus mean,
    baseline and calibration keep their trained values; ``texts`` and ``rated`` refit the statistics and calibration.

    Args:
        trained: The trained metric, which is not modified. Its base encoder must be available.
        share: ``s`` between 0 (trained) and 1 (untrained encoder).
        texts: See :func:`average_metrics`.
        rated: See :func:`average_metrics`.

    Raises:
        InputError: If the share is out of range, or the base encoder cannot be found or has another hash.

    Reference:
        Wortsman et al. 2022 (Robust fine-tuning of zero-shot models, WiSE-FT).
    """
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
        raise InputError(f"Expected `share` to be between 0 (trained) and 1 (untrained), but got {share!r}.")
    trained = without_lora(check_module(trained))
    before, prefix = untrained(trained_encoder(trained)).state_dict(), encoder_prefix(trained)
    state = dict(check_module(trained).state_dict())
    result: Any = copy.deepcopy(trained)
    for name, old in before.items():
        new = state.get(f"{prefix}{name}")
        if new is None or new.shape != old.shape:
            raise InputError(
                f"Expected the encoder and its base to have weights of the same shapes, but {name} differs: merge or "
                "remove what training added."
            )
        state[f"{prefix}{name}"] = _mean(name, [new, old.to(new.device)], [1 - share, share], refitted=False)
    result.load_state_dict(state)
    name_weights(result)
    refit(result, texts=texts, rated=rated)
    return result.eval()


def refit(metric: SegmentMetric, *, texts: Sequence[str] | None = None, rated: Sequence[Segment] | None = None) -> None:
    """Refit statistics on a corpus and the calibration head on rated segments, in place; ``None`` skips either.

    Statistics that each scoring call fits itself are skipped. Only the first reference of each segment is used.
    """
    if texts is not None:
        if isinstance(texts, str):
            raise TypeError("Expected `texts` to be a list of texts, but got one text: give a list.")
        metric.fit(list(texts), names=fitted_names(metric))
    if rated is None:
        return
    if not isinstance(metric, TrainableMetric):
        raise InputError("Expected a metric that can be calibrated, but got one without a calibration head.")
    if not all(isinstance(one, Segment) for one in rated):
        raise TypeError("Expected `rated` to hold segments, but got other values: give `textmover.Segment`s.")
    scores = [math.nan if one.score is None else one.score for one in rated]
    if len(scores) < 2 or not all(map(math.isfinite, scores)):
        raise InputError(
            f"Expected at least two segments with finite human scores to calibrate on, but got {len(scores)}, "
            f"{sum(not math.isfinite(one) for one in scores)} of them without: leave those out, or give more."
        )
    if min(scores) == max(scores):
        raise InputError(
            f"Expected ratings that differ, to calibrate on, but all {len(scores)} are {scores[0]:g}: check the column."
        )
    fit_scale(metric, rated, torch.tensor(scores, dtype=torch.float64))


def _check_compatible(metrics: Sequence[SegmentMetric]) -> None:
    first = _compared_fields(metrics[0])
    for position, metric in enumerate(metrics[1:], start=2):
        fields = _compared_fields(metric)
        for name in dict.fromkeys([*first, *fields]):
            if first.get(name) != fields.get(name):
                raise InputError(
                    f"Expected metrics of one configuration to average, but `{name}` is {first.get(name)!r} in the "
                    f"first and {fields.get(name)!r} in number {position}: average only runs of one recipe."
                )


def _compared_fields(metric: SegmentMetric) -> dict[str, Any]:
    values = metric.config.to_dict()
    # Compare the encoder by hash, not by path; trained values may differ.
    ignored = {"encoder", "revision", "freeze_layers", *(["temperature"] if values.get("learn_temperature") else [])}
    base = base_of(metric.runnable_encoder)
    encoder = metric.signature.entries.get("encoder", "") if base is None else base.sha256[:8]
    state = check_module(metric).state_dict()
    shapes = {f"shape of {key}": tuple(one.shape) for key, one in state.items()}
    # What a head has learned is a number, 0 or 1, of which a mean says nothing.
    flags = {key: one.item() for key, one in state.items() if key in HEAD_FLAGS}
    return {**{key: one for key, one in values.items() if key not in ignored}, "encoder": encoder, **shapes, **flags}


def _mean(name: str, tensors: Sequence[Tensor], shares: Sequence[float], *, refitted: bool) -> Tensor:
    """Return the weighted mean of a float tensor. Integer tensors must be equal; for counts take the maximum."""
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
            f"Expected {name} to be the same in all metrics, but it differs: give texts to refit the statistics on."
        )
    return counts.max(dim=0).values.to(first)


def fit_scale(metric: Any, rated: Sequence[Segment], ratings: Tensor) -> None:
    """Fit the calibration head to ratings ``[n]`` on first references, then the combination with source scores."""
    compared = judged_texts(metric, rated)
    rows = [row for row, one in enumerate(compared) if one] or list(range(len(rated)))
    pairs = [replace(rated[row], references=compared[row].texts[:1]) for row in rows]
    metric.fit_calibration(token_pairs(metric, pairs), ratings[rows])
    if any(one.source for one in compared):
        metric.combination.fit(*side_scores(metric, rated), ratings.cpu(), metric.ends.cpu())


@torch.no_grad()
def side_scores(metric: Any, rated: Sequence[Segment]) -> tuple[Tensor, Tensor]:
    """Return scores against first references and against sources, ``[n]`` each on the CPU; NaN if missing."""
    compared = judged_texts(metric, rated)
    result = torch.full((2, len(rated)), torch.nan)
    sides = [one[:1] for one in compared], [one.texts[len(one) :] for one in compared]
    for scores, texts in zip(result, sides, strict=True):
        places = [place for place, text in enumerate(texts) if text]
        pairs = token_pairs(metric, [replace(rated[place], references=texts[place]) for place in places])
        with evaluating(metric):
            for start, pair in zip(range(0, len(places), BATCH), pairs, strict=True):
                values = metric.pair_scores(*(side.to(metric.device) for side in pair)).score
                scores[places[start : start + BATCH]] = values.cpu()
    return result[0], result[1]


def first_scores(metric: Any, rated: Sequence[Segment]) -> Tensor:
    """Return scores against first references, combined with source scores if there are any, ``[n]`` on the CPU."""
    references, sources = side_scores(metric, rated)
    if bool(sources.isnan().all()):
        return references
    return metric.combine(references.to(metric.device), sources.to(metric.device)).detach().cpu()


def token_pairs(metric: SegmentMetric, rated: Sequence[Segment]) -> Iterator[tuple[TokenBatch, TokenBatch]]:
    """Yield batches of tokenized hypotheses and first references."""
    for start in range(0, len(rated), BATCH):
        chunk = rated[start : start + BATCH]
        hypotheses = metric.tokenize([one.hypothesis for one in chunk])
        yield hypotheses, metric.tokenize([one.references[0] for one in chunk])


def as_token_table(metric: Any, dimension: int | None = None, texts: Sequence[str] = ()) -> MetricModel:
    """Return a copy of the metric with its encoder replaced by a table of token vectors.

    A token's vector is the mean over its positions in a text, so scores differ slightly from those of the metric.

    Args:
        metric: A metric of the transport family that uses layer 0.
        dimension: Number of principal directions to keep; ``None`` for all. Fewer directions make the table smaller
            and faster, and often improve agreement with human ratings.
        texts: Corpus to refit the corpus mean and the baseline, which depend on the directions kept.

    Raises:
        InputError: If the metric is not of the transport family, uses a layer other than 0 (the embeddings), needs
            texts to refit statistics, or has learned token weights and directions are to be cut.
    """
    check_module(metric)
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected a metric of the transport family to make a table of, but got {metric.config.kind}.")
    if dimension is not None and metric.config.weights == "learned":
        raise InputError(
            "Expected `dimension` to be null where token weights are learned, which read all directions, but got "
            f"{dimension}: learn them on the table."
        )
    config = metric.config.override(freeze_layers=None, same_token_loss=1.0)  # a table has no layers and no contexts
    table = MetricModel(config, as_table(metric.parts, dimension))
    changed = ("encoder.", *(f"{one}." for one in ("centering", "baseline") if dimension is not None))
    state = {name: one for name, one in metric.state_dict().items() if not name.startswith(changed)}
    table.load_state_dict({**table.state_dict(), **state})
    if (missing := [name for name, one in table.statistics.items() if not one.fitted]) and not texts:
        raise InputError(
            f"Expected texts to refit {' and '.join(missing)} on, since fewer directions are kept, but got none: give "
            "some, or keep all directions."
        )
    if missing:
        table.fit(list(texts), names=missing)
    return table.eval()
