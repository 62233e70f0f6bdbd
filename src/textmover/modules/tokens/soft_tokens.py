"""Soft tokens: distributions over a vocabulary, or input embeddings, in place of token ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from textmover.modules.tokens.numbers import mark_numbers
from textmover.types import InputError, TokenBatch

TOLERANCE = 1e-2  # largest deviation of a distribution's sum from 1, large enough for half precision


def soft_batch(
    metric: Any, distributions: Tensor | None, mask: Tensor | None, inputs_embeds: Tensor | None
) -> TokenBatch:
    """Build a token batch with differentiable embeddings; see :meth:`MetricModel.soft_tokens`."""
    encoder = metric.runnable_encoder
    if encoder is None:
        raise InputError("Expected a metric on a pretrained encoder, but got static vectors, which read words alone.")
    if (distributions is None) == (inputs_embeds is None):
        raise InputError("Expected either `distributions` or `inputs_embeds`, but got both or neither: give one.")
    table = encoder.embed(torch.arange(encoder.vocabulary_size, device=encoder.device))  # [V, E], with input scaling
    soft: Any = inputs_embeds if distributions is None else distributions
    width = {table.shape[1]} if distributions is None else {len(table), metric.tokenizer.vocabulary_size}
    if not isinstance(soft, Tensor) or soft.dim() != 3 or soft.shape[2] not in width:
        name, sizes = ("inputs_embeds" if distributions is None else "distributions"), " or ".join(map(str, width))
        raise InputError(f"Expected `{name}` of shape [B, L, {sizes}], but got {list(getattr(soft, 'shape', []))}.")
    mask = soft.new_ones(soft.shape[:2], dtype=torch.bool) if mask is None else mask.bool()
    if mask.shape != soft.shape[:2]:
        raise InputError(f"Expected `mask` of shape {list(soft.shape[:2])}, but got {list(mask.shape)}.")
    chosen = soft[mask]  # [T, V] or [T, E]
    with torch.no_grad():
        if distributions is None:
            ids = torch.cdist(chosen.to(table.dtype), table).argmin(dim=1)
        else:
            sums = chosen.sum(dim=1)
            if not ((sums - 1).abs() <= TOLERANCE).all() or (chosen < 0).any():
                low, high, least = sums.min().item(), sums.max().item(), chosen.min().item()
                raise InputError(
                    f"Expected `distributions` from 0 up that sum to 1, but got sums of {low:.3g} to {high:.3g} and "
                    f"values from {least:.3g} up: take the softmax of logits."
                )
            ids = chosen.argmax(dim=1)
    rows = [one.tolist() for one in torch.split(ids, mask.sum(dim=1).tolist())]
    batch: TokenBatch = metric.tokenizer.from_ids(rows)
    batch = mark_numbers(batch, metric.tokenizer) if metric.config.numbers == "equal" else batch
    batch = batch.to(encoder.device)
    with torch.autocast(table.device.type, enabled=False):
        read = chosen.to(table.dtype) @ table[: soft.shape[2]] if inputs_embeds is None else chosen.to(table.dtype)
    ordinary = batch.ordinary
    return replace(batch, embeddings=encoder.embed(batch.input_ids).masked_scatter(ordinary[:, :, None], read))


def with_embeddings(encoder: Any, *batches: TokenBatch) -> tuple[TokenBatch, ...]:
    """Prepare batches for concatenation: if any holds soft tokens, replace ids by embeddings in the others."""
    if all(one.embeddings is None for one in batches):
        return batches
    return tuple(
        one if one.embeddings is not None else replace(one, embeddings=encoder.embed(one.input_ids)) for one in batches
    )
