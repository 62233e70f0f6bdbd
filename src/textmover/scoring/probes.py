"""A few sentences that tell how far another arithmetic or another back-end moves the scores of a metric."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn

from textmover.modules.fitting import evaluating
from textmover.scoring.devices import whole_products
from textmover.types import EncoderRunner, RunnableEncoder, SegmentMetric

__all__ = ["PROBES", "probe_scores", "probe_states"]

PROBES = (
    ("The council approved the new budget on Tuesday.", "On Tuesday the council passed the new budget."),
    ("She has never been to Norway.", "She has been to Norway many times."),
    ("Profits rose by 14 percent in the third quarter.", "In the third quarter, earnings fell by 40 percent."),
    ("Boil the rice for twelve minutes and let it rest.", "Let the rice rest after boiling it for twelve minutes."),
    ("Heavy rain closed two roads near the river.", "Two roads by the river were shut because of the rain."),
    ("Where did you leave the keys?", "The museum opens at nine."),
    ("No one was injured in the fire.", "Nobody got hurt in the blaze, officials said."),
    ("It works.", "It does not work at all, whatever we try to do about it."),
)
"""Pairs of sentences that deviations are measured on."""


def probe_scores(metric: SegmentMetric) -> Tensor:
    """Values of the probe pairs, float32 on the CPU: before calibration where the metric has them."""
    sides = [metric.tokenize([pair[side] for pair in PROBES]).to(metric.device) for side in (0, 1)]
    # In training mode an encoder draws dropout, and runs no back-end.
    mode = evaluating(metric) if isinstance(metric, nn.Module) else contextlib.nullcontext()
    with mode, whole_products(), torch.inference_mode():
        scores = metric.pair_scores(*sides)
    return (scores.score if scores.f is None else scores.f).float().cpu()


def probe_states(
    metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner, limit: int | None = None
) -> float:
    """Largest difference between the hidden states of a runner and of the model, as a share of the largest state.

    Args:
        metric: Whose tokenizer is asked.
        encoder: The encoder.
        runner: The back-end.
        limit: Longest text in tokens, to look at texts of extreme lengths as well; that takes much longer.
    """
    texts = [text for pair in PROBES for text in pair]
    batch = metric.tokenize(texts).to(metric.device)
    ids, mask = batch.input_ids, batch.mask
    inputs = [(ids, mask)]  # a padded batch
    if limit is not None:
        # Tokens of all texts again and again: a tokenizer may refuse a text as long as that.
        longest = ids[mask].repeat(1 + limit // int(mask.sum()))[None, :limit]
        # A single text, the shortest that there is, and the longest.
        inputs += [
            (ids[:1], mask[:1]),
            (ids[:, :2], mask[:, :2]),
            (longest, torch.ones_like(longest, dtype=torch.bool)),
        ]
    graph, largest = encoder.graph(), 0.0
    with evaluating(graph), whole_products(), torch.inference_mode():
        for one, its_mask in inputs:
            wanted = graph(one.contiguous(), its_mask.long().contiguous())
            for state, found in zip(wanted, runner(one.contiguous(), its_mask.contiguous()), strict=True):
                difference = (state - found)[its_mask].abs().max() / state[its_mask].abs().max()
                largest = max(largest, float(difference))
    return largest
