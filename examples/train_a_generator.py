"""A generator that is trained through the metric: soft tokens go in, gradients of the score come out.

The toy generator writes each text at once, as distributions over words of its own. They become distributions over the
metric's vocabulary, which ``MetricModel.soft_tokens`` reads in place of ids. The only loss is the score.

    python examples/train_a_generator.py
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import one_hot

from textmover.presets import build_metric, preset_config

REFERENCES = ["the bridge is safe for heavy trucks", "it will rain in the north today", "the old house was sold again"]
DISTRACTORS = "a new car not never snow south bought tomorrow light small"
WORDS = sorted({*" ".join([*REFERENCES, DISTRACTORS]).split()})


def main(steps: int = 40, **overrides: object) -> tuple[list[float], list[float]]:
    """Train for some steps; returns the scores of the likeliest texts before and after."""
    torch.manual_seed(0)
    metric = build_metric(preset_config("twmd", temperature=0.1, **overrides)).eval().requires_grad_(False)
    references = metric.text_features(metric.tokenize(REFERENCES))
    of_words = one_hot(metric.tokenize(WORDS).input_ids[:, 1], metric.tokenizer.vocabulary_size).float()  # [W, V]
    mask = torch.arange(7) < torch.tensor([[len(text.split())] for text in REFERENCES])
    logits = nn.Parameter(torch.randn(*mask.shape, len(WORDS)))  # a real generator computes them from its input
    optimizer = torch.optim.Adam([logits], lr=0.3)

    def texts() -> list[str]:
        rows = zip(logits.argmax(dim=2), mask, strict=True)
        return [" ".join(WORDS[word] for word in row[kept].tolist()) for row, kept in rows]

    def scores(written: list[str]) -> list[float]:
        return metric(metric.text_features(metric.tokenize(written)), references).score.tolist()

    before = scores(texts())
    for _ in range(steps):
        hypotheses = metric.soft_tokens(logits.softmax(dim=2) @ of_words, mask)
        loss = 1 - metric(metric.text_features(hypotheses), references).score.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = scores(texts())
    for first, last, text in zip(before, after, texts(), strict=True):
        print(f"{first:.3f} -> {last:.3f}  {text}")
    return before, after


if __name__ == "__main__":
    main()
