"""A metric inside a Lightning training loop: a small generator is judged by ``TextMoverScore`` at every validation.

The generator is a word-level GRU autoencoder that learns to repeat sentences; its outputs are compared with the
sentences. Any metric of the project can stand in for ``twmd``, also one that is being trained in the same module: give
``TextMoverScore(model=self.metric)`` and it scores with the live weights without registering them a second time.

    python examples/validation_step.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from textmover import TextMoverScore

SENTENCES = Path(__file__).parent / "quickstart" / "sentences.tsv"


class Copier(pl.LightningModule):
    """Reads a sentence into one vector and writes it again."""

    def __init__(self, vocabulary: list[str], metric: TextMoverScore) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(len(vocabulary), 96, padding_idx=0)
        self.reader, self.writer = (nn.GRU(96, 192, batch_first=True) for _ in range(2))
        self.head = nn.Linear(192, len(vocabulary))
        self.metric = metric

    def forward(self, words: Tensor) -> Tensor:
        _, state = self.reader(self.embedding(words))
        shifted = torch.nn.functional.pad(words, (1, 0))[:, :-1]
        return self.head(self.writer(self.embedding(shifted), state)[0])

    def training_step(self, words: Tensor, _: int) -> Tensor:
        return nn.functional.cross_entropy(self(words).flatten(0, 1), words.flatten(), ignore_index=0)

    def validation_step(self, words: Tensor, _: int) -> None:
        self.metric.update(self.texts(self(words).argmax(dim=2) * (words > 0)), self.texts(words))
        self.log("val/twmd", self.metric, prog_bar=True)  # Lightning computes, logs and resets it

    def texts(self, words: Tensor) -> list[str]:
        return [" ".join(self.vocabulary[word] for word in row if word > 0) for row in words.tolist()]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main(epochs: int = 30, **metric_options: Any) -> list[float]:
    """Train; returns the metric before training and after it."""
    pl.seed_everything(0)
    with SENTENCES.open(encoding="utf-8") as stream:
        texts = [row["sentence"].split() for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]
    vocabulary = ["", *sorted({word for text in texts for word in text})]
    index = {word: number for number, word in enumerate(vocabulary)}
    rows = [torch.tensor([index[word] for word in text]) for text in texts]
    words = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    loader: Any = torch.utils.data.DataLoader(words, batch_size=25, shuffle=True)
    held: Any = torch.utils.data.DataLoader(words[:50], batch_size=25)

    model = Copier(vocabulary, TextMoverScore("twmd", **metric_options))
    options: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=epochs, check_val_every_n_epoch=max(1, epochs // 3), **options)
    scores = [trainer.validate(model, held, verbose=False)[0]["val/twmd"]]
    trainer.fit(model, loader, held)
    scores.append(trainer.callback_metrics["val/twmd"].item())
    print(f"twmd of the generated texts: {scores[0]:.3f} before training, {scores[1]:.3f} after")
    return scores


if __name__ == "__main__":
    main()
