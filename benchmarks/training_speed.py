"""Training speed beside a plain PyTorch loop, in one run on the same machine.

Both train the same metric (same encoder, loss, optimiser settings, batch size, precision) on the same segments for the
same number of steps. The plain loop is what one would write first: shuffled batches, two passes through the encoder
(hypotheses, references), tokenisation in the step, AdamW as PyTorch configures it by default.

    python benchmarks/training_speed.py [--data ratings.tsv …] [--steps 60] [--repetitions 3]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from textmover import __version__
from textmover.data import Columns, RatingsDataModule, read_segments
from textmover.functional.losses import combined_loss
from textmover.presets import build_metric, preset_config
from textmover.scoring.precision import has_bfloat16
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.optimization import warmup_then_linear_decay

LOSSES = {"mse": 1.0, "pearson": 1.0}
OVERRIDES = {"temperature": 0.1, "centering": "corpus", "calibrate": True}
RATE, BATCH = 1e-4, 16


class Clock(pl.Callback):
    """Times the steps after a warm-up, validation and set-up left out."""

    def __init__(self, warmup: int) -> None:
        self.warmup, self.tokens, self.seconds = warmup, 0, 0.0
        self._start = 0.0

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == self.warmup:
            self._start = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, out: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx >= self.warmup:
            self.tokens += int(batch.hypotheses.mask.sum() + batch.references.mask.sum())
            self.seconds = time.perf_counter() - self._start


def framework(files: list[str], steps: int, warmup: int) -> tuple[float, float]:
    """Tokens and pairs per second of ``RatingsModule`` under Lightning."""
    pl.seed_everything(0)
    clock = Clock(warmup)
    module = RatingsModule("twmd", dict(OVERRIDES), LOSSES, OptimizerConfig(learning_rate=RATE))
    data = RatingsDataModule(files, batch_size=BATCH)
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_steps=warmup + steps,
            callbacks=[clock],
            limit_val_batches=0,
            num_sanity_val_steps=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            use_distributed_sampler=False,
        )
        trainer.fit(module, data)
    return clock.tokens / clock.seconds, steps * BATCH / clock.seconds


def plain_loop(files: list[str], steps: int, warmup: int) -> tuple[float, float]:
    """Tokens and pairs per second of a loop without this project's training."""
    torch.manual_seed(0)
    metric = build_metric(preset_config("twmd", **OVERRIDES)).train()
    segments = [one for name in files for one in read_segments(name, Columns())]
    metric.fit([metric.tokenize([one.references[0] for one in segments[:64]])])
    optimizer = torch.optim.AdamW(metric.parameters(), lr=RATE, weight_decay=0.01)
    schedule = warmup_then_linear_decay(optimizer, warmup + steps, OptimizerConfig())
    loader = torch.utils.data.DataLoader(segments, batch_size=BATCH, shuffle=True, collate_fn=list, drop_last=True)
    bfloat16 = has_bfloat16(torch.device("cpu"))
    tokens, start, done = 0, 0.0, 0
    while done < warmup + steps:
        for batch in loader:
            if done == warmup:
                start = time.perf_counter()
            hypotheses = metric.tokenize([one.hypothesis for one in batch])
            references = metric.tokenize([one.references[0] for one in batch])
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
                scores = metric.pair_scores(metric.text_features(hypotheses), metric.text_features(references)).score
            loss = combined_loss(scores, torch.tensor([one.score for one in batch], dtype=torch.float32), LOSSES)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(metric.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if done >= warmup:
                tokens += int(hypotheses.mask.sum() + references.mask.sum())
            done += 1
            if done == warmup + steps:
                break
    seconds = time.perf_counter() - start
    return tokens / seconds, steps * BATCH / seconds


def main() -> None:
    """Run both in turn and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = str(Path(__file__).parents[1] / "examples/quickstart/ratings.tsv")
    parser.add_argument("--data", nargs="+", default=[default], help="files with hypothesis, reference, score")
    parser.add_argument("--steps", type=int, default=60, help="timed steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    rates: dict[str, list[tuple[float, float]]] = {"plain loop": [], "textmover": []}
    for _ in range(options.repetitions):
        rates["plain loop"].append(plain_loop(options.data, options.steps, options.warmup))
        rates["textmover"].append(framework(options.data, options.steps, options.warmup))
    ratios = [ours[1] / plain[1] for ours, plain in zip(rates["textmover"], rates["plain loop"], strict=True)]
    versions = {"torch": torch.__version__, "lightning": pl.__version__, "Python": platform.python_version()}
    print(f"textmover {__version__}, " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"{torch.get_num_threads()} CPU threads, bf16 autocast: {has_bfloat16(torch.device('cpu'))}, batch {BATCH}")
    for name, values in rates.items():
        tokens, pairs = (statistics.median(value[place] for value in values) for place in (0, 1))
        print(f"{name:12} {tokens:8.0f} tokens/s {pairs:7.1f} pairs/s")
    print(f"ratio in pairs/s: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(json.dumps({"rates": rates, "ratios": ratios}))


if __name__ == "__main__":
    main()
