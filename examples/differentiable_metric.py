"""The differentiable door: ``MetricModel.forward(hypotheses, references)`` inside a loop of one's own.

Token batches go in, scores with gradients come out, so a metric can be fine-tuned (or serve as a loss) in any PyTorch
code. Here a few steps of plain PyTorch teach the metric that a negated sentence is a bad one.

    python examples/differentiable_metric.py
"""

from __future__ import annotations

import torch

from textmover.presets import build_metric, preset_config

REFERENCE = "The bridge is safe for heavy trucks."
HYPOTHESES = ["Heavy trucks can cross the bridge safely.", "The bridge is not safe for heavy trucks."]
RATINGS = torch.tensor([1.0, 0.0])


def main(steps: int = 12, **overrides: object) -> tuple[list[float], list[float]]:
    """Train for some steps; returns the scores before and after."""
    torch.manual_seed(0)
    metric = build_metric(preset_config("twmd", temperature=0.1, **overrides))
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize([REFERENCE] * len(HYPOTHESES))
    optimizer = torch.optim.AdamW(metric.parameters(), lr=5e-5)

    before = metric(hypotheses, references).score.tolist()
    for _ in range(steps):
        scores = metric(hypotheses, references).score  # [B], with gradients down to the word embeddings
        loss = torch.nn.functional.mse_loss(scores, RATINGS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = metric(hypotheses, references).score.tolist()

    for text, first, last in zip(HYPOTHESES, before, after, strict=True):
        print(f"{first:.3f} -> {last:.3f}  {text}")
    return before, after


if __name__ == "__main__":
    main()
