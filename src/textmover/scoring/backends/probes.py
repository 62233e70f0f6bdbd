"""A few sentences that tell how far another arithmetic or another back-end moves the scores of a metric."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from textmover.modules.devices import scoring_mode
from textmover.modules.probes import PROBES, probe_values
from textmover.scoring.engine.packed_rows import best_fit, states_in_rows
from textmover.types import EncoderRunner, RowRunner, RunnableEncoder, SegmentMetric, TextFeatures, TokenBatch

_Read = Callable[[Tensor, Tensor], Sequence[Tensor]]

UNLIKE = 256
"""Tokens of a text in whose company a short one is probed; more than local attention sees."""


def probe_row_scores(metric: SegmentMetric, runner: RowRunner) -> Tensor:
    """Values of the probe pairs where texts that a row has room for are read side by side."""
    sides = [metric.tokenize([pair[side] for pair in PROBES]).to(metric.device) for side in (0, 1)]
    with scoring_mode(metric):
        values = probe_values(metric, *sides)
        room = torch.stack([side.lengths <= runner.row_shape[1] for side in sides]).all(dim=0)
        fit = room.nonzero().flatten()
        hypotheses, references = (_features_in_rows(metric, side.select(fit.tolist()), runner) for side in sides)
        if hypotheses is not None and references is not None:  # as they are where texts are read one by one
            values[fit] = probe_values(metric, hypotheses, references)
    return values


def _features_in_rows(metric: SegmentMetric, batch: TokenBatch, runner: RowRunner) -> TextFeatures | None:
    return metric.text_features(replace(batch, states=tuple(_read_in_rows(runner, batch.input_ids, batch.mask))))


def _read_in_rows(runner: RowRunner, ids: Tensor, mask: Tensor) -> Sequence[Tensor]:
    """Hidden states of texts that a row has room for."""
    lengths = mask.sum(dim=1).numpy()
    return states_in_rows(runner, ids.numpy(), lengths, best_fit(lengths.tolist(), runner.row_shape[1]))


def probe_states(
    metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner, limit: int | None = None
) -> float:
    """Largest difference between the hidden states of a runner and of the model, as a share of the largest state.

    Args:
        metric: Whose tokenizer is asked.
        encoder: The encoder.
        runner: The back-end; where it reads texts side by side as well, both ways are looked at.
        limit: Longest text in tokens, to look at texts of extreme lengths as well; that takes much longer.
    """
    texts = [text for pair in PROBES for text in pair]
    batch = metric.tokenize(texts).to(metric.device)
    ids, mask = batch.input_ids, batch.mask
    cases: list[tuple[_Read, Tensor, Tensor]] = [(runner, ids, mask)]  # a padded batch
    if runner.row_runner is not None:
        length = runner.row_runner.row_shape[1]
        cases.append((functools.partial(_read_in_rows, runner.row_runner), ids[:, :length], mask[:, :length]))
    if limit is not None:
        # Tokens of all texts again and again: a tokenizer may refuse a text as long as that.
        longest = ids[mask].repeat(1 + limit // int(mask.sum()))[None, :limit]
        # A short text behind much padding, a single text, the shortest that there is, and the longest.
        unlike = ids[mask].repeat(2)[None, : min(limit, UNLIKE)].repeat(2, 1)
        held = torch.ones_like(unlike, dtype=torch.bool)
        held[1, 2:] = False
        cases += [
            (runner, unlike, held),
            (runner, ids[:1], mask[:1]),
            (runner, ids[:, :2], mask[:, :2]),
            (runner, longest, torch.ones_like(longest, dtype=torch.bool)),
        ]
    graph, differences = encoder.graph(), []
    with scoring_mode(graph):
        for read, given, held in cases:
            wanted = graph(given.contiguous(), held.long().contiguous())
            for state, found in zip(wanted, read(given.contiguous(), held.contiguous()), strict=True):
                differences.append((state - found)[held].abs().max() / state[held].abs().max())
    # Where one is no number, nor is the largest, which no bound lets pass.
    return float(torch.stack(differences).max())
