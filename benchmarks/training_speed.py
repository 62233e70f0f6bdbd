"""Compare training speed with sentence-transformers' trainer and a plain PyTorch loop on the same machine.

All use the same encoder, segments, batch size, precision, learning rate and number of steps:

* ``plain loop``: the metric ``twmd`` in a simple loop, with tokenisation in the step;
* ``sentence-transformers``: ``SentenceTransformerTrainer`` with ``CosineSimilarityLoss`` over mean-pooled vectors
  (skipped if the package is not installed);
* ``textmover twmd``: metric and losses of the plain loop, in Lightning;
* ``textmover twmd, LoRA``: the same, with low-rank updates of rank 16 instead of full weights.

Time includes the steps after a warm-up: forward, backward, clipping, optimiser and batch loading. Set-up, validation
and saving are excluded. Each trainer runs in its own process, which reports its peak memory.

    python benchmarks/training_speed.py [--data ratings.tsv …] [--steps 60] [--repetitions 3] [--batch 16]
        [--encoder sentence-transformers/all-mpnet-base-v2] [--layer 9]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sized
from functools import partial
from typing import Any, NamedTuple

import harness
import pytorch_lightning as pl
import torch

from textmover.data import Columns, RatingsDataModule, read_segments
from textmover.functional.losses import combined_loss
from textmover.modules.encoder.lora import LoraConfig
from textmover.modules.encoder.source import resolve_encoder
from textmover.presets import build_metric, preset_config
from textmover.scoring.precision_and_backend import has_bfloat16
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.optimization import build_schedule
from textmover.types import Segment

LOSSES = {"mse": 1.0, "pearson": 1.0}
OVERRIDES = {"temperature": 0.1, "centering": "corpus", "calibrate": True}
RATE = 1e-4
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BFLOAT16 = has_bfloat16(DEVICE)


class Setting(NamedTuple):
    """Settings shared by all trainers."""

    data: list[str]
    steps: int
    warmup: int
    batch: int
    encoder: str | None = None  # default: that of the preset
    layer: int | None = None  # last layer

    @property
    def fields(self) -> dict[str, Any]:
        return {name: value for name in ("encoder", "layer") if (value := getattr(self, name)) is not None}

    @property
    def segments(self) -> list[Segment]:
        return [one for name in self.data for one in read_segments(name, Columns())]


class Stopwatch(pl.Callback):
    """Counter of pairs in the steps after a warm-up; also a Lightning callback."""

    def __init__(self, warmup: int) -> None:
        self.warmup, self.done, self.pairs, self.seconds, self._start = warmup, 0, 0, 0.0, 0.0

    def on_train_batch_start(self, *_: Any) -> None:
        if self.done == self.warmup:
            self._start = self._now()

    def on_train_batch_end(self, trainer: Any, module: Any, out: Any, batch: Sized, batch_idx: int) -> None:
        self.end(len(batch))

    def end(self, pairs: int) -> None:
        if self.done >= self.warmup:
            self.pairs += pairs
            self.seconds = self._now() - self._start
        self.done += 1

    @property
    def rate(self) -> float:
        return self.pairs / self.seconds

    @staticmethod
    def _now() -> float:
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def framework(setting: Setting, lora: LoraConfig | None = None) -> float:
    pl.seed_everything(0, verbose=False)
    watch = Stopwatch(setting.warmup)
    optimizer = OptimizerConfig(learning_rate=RATE)
    module = RatingsModule("twmd", {**OVERRIDES, **setting.fields}, LOSSES, optimizer=optimizer, lora=lora)
    data = RatingsDataModule(setting.data, batch_size=setting.batch)
    options = {"max_steps": setting.warmup + setting.steps, "callbacks": [watch], "limit_val_batches": 0}
    with tempfile.TemporaryDirectory() as folder:
        harness.trainer(default_root_dir=folder, **options).fit(module, data)
    return watch.rate


def plain_loop(setting: Setting) -> float:
    torch.manual_seed(0)
    metric = build_metric(preset_config("twmd", **OVERRIDES, **setting.fields)).to(DEVICE).train()
    segments = setting.segments
    metric.fit([one.references[0] for one in segments[:64]])
    optimizer = torch.optim.AdamW(metric.parameters(), lr=RATE, weight_decay=0.01)
    schedule = build_schedule(optimizer, setting.warmup + setting.steps, OptimizerConfig())
    options = {"batch_size": setting.batch, "collate_fn": list, "drop_last": True}
    loader = torch.utils.data.DataLoader(segments, shuffle=True, **options)
    watch = Stopwatch(setting.warmup)
    while watch.done < setting.warmup + setting.steps:
        for batch in loader:
            watch.on_train_batch_start()
            hypotheses = metric.tokenize([one.hypothesis for one in batch]).to(DEVICE)
            references = metric.tokenize([one.references[0] for one in batch]).to(DEVICE)
            with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=BFLOAT16):
                scores = metric.pair_scores(metric.text_features(hypotheses), metric.text_features(references)).score
            ratings = torch.tensor([one.score for one in batch], dtype=torch.float32, device=DEVICE)
            loss = combined_loss(scores, ratings, LOSSES)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(metric.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            watch.end(len(batch))
            if watch.done == setting.warmup + setting.steps:
                break
    return watch.rate


def sentence_transformers(setting: Setting) -> float:
    """Train with ``SentenceTransformerTrainer`` and ``CosineSimilarityLoss``, on ratings scaled to 0 … 1."""
    import sentence_transformers as package
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from transformers import TrainerCallback

    config = preset_config("sbert", **setting.fields)
    encoder = resolve_encoder(config.encoder, config.revision)
    model = package.SentenceTransformer(str(encoder.folder), device=str(DEVICE))
    layers: Any = model[0].auto_model.encoder.layer  # type: ignore[union-attr]
    del layers[setting.layer or len(layers) :]
    model.max_seq_length = build_metric(config).tokenizer.max_length
    segments = setting.segments
    low, high = min(one.score for one in segments), max(one.score for one in segments)
    rows = [(one.hypothesis, one.references[0], (one.score - low) / (high - low)) for one in segments]
    data = Dataset.from_dict(dict(zip(("hypothesis", "reference", "label"), zip(*rows, strict=True), strict=True)))
    watch = Stopwatch(setting.warmup)

    class Timed(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            watch.on_train_batch_start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch.end(setting.batch)

    with tempfile.TemporaryDirectory() as folder:
        arguments = package.SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=setting.warmup + setting.steps,
            per_device_train_batch_size=setting.batch,
            dataloader_drop_last=True,
            learning_rate=RATE,
            weight_decay=0.01,
            warmup_steps=0.1,
            bf16=BFLOAT16,
            use_cpu=DEVICE.type == "cpu",
            eval_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            seed=0,
        )
        watching = {"loss": CosineSimilarityLoss(model), "callbacks": [Timed()]}
        package.SentenceTransformerTrainer(model, arguments, train_dataset=data, **watching).train()
    return watch.rate


CONTESTANTS: dict[str, Callable[[Setting], float]] = {
    "plain loop": plain_loop,
    "textmover twmd": framework,
    "textmover twmd, LoRA": partial(framework, lora=LoraConfig(rank=16, alpha=32, targets="all")),
    "sentence-transformers": sentence_transformers,
}


def measure(name: str, setting: Setting) -> tuple[float, float]:
    """Return pairs per second of a contestant, and the peak memory of the process or GPU in MiB."""
    harness.quiet()
    return CONTESTANTS[name](setting), harness.peak_memory(DEVICE.type)


def main() -> None:
    data = [str(harness.ROOT / "examples/quickstart/ratings.tsv")]
    options = harness.parser(
        __doc__, data=data, steps=60, warmup=5, repetitions=3, batch=16, encoder=str, layer=int
    ).parse_args()
    setting = Setting(*(getattr(options, name) for name in Setting._fields))
    versions = harness.versions("textmover", "torch", "pytorch-lightning", "transformers", "sentence-transformers")
    names = [name for name in CONTESTANTS if f"no {name}" not in versions]
    rates = harness.rounds(
        {name: partial(harness.in_process, measure, name, setting) for name in names}, options.repetitions
    )
    encoder = f"{options.encoder or 'the preset'}{f', layer {options.layer}' if options.layer else ''}"
    print(f"{versions}; {harness.processor(device=DEVICE.type)}, bf16 autocast: {BFLOAT16}")
    print(f"encoder of {encoder}, batch {options.batch}, {options.steps} steps")
    rows = []
    for name, values in rates.items():
        ratios = [one[0] / two[0] for one, two in zip(values, rates["plain loop"], strict=True)]
        pairs, memory = map(statistics.median, zip(*values, strict=True))
        rows.append([name, f"{pairs:.1f}", harness.spread(ratios), f"{memory:,.0f}"])
    harness.print_table(["trainer", "pairs/s", "× plain loop", "MB"], rows)


if __name__ == "__main__":
    main()
