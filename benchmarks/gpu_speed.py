"""Scoring speed on a GPU: roberta-large's architecture beside bert-score as it ships, and what the encoder leaves over.

    python benchmarks/gpu_speed.py [--pairs 20000] [--repetitions 3] [--device cuda] [--size large]

The encoder has random weights, which cost as much time as trained ones, and each word is a token. bert-score runs as it
ships: float32, batches of 64. ``outside the encoder`` is the share of the scoring time that is left when the encoder
alone has read the same batches of the same texts, tokenised beforehand. The candidates take turns within each
repetition; each is warmed up once on a part of the pairs. ``--device cpu --size tiny`` tries the script without a GPU.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import harness
import numpy as np
import torch
import transformers
from word_encoder import write_encoder

from textmover import Scorer
from textmover.scoring.engine.batches import token_batches
from textmover.scoring.engine.text_features import default_batch_tokens
from textmover.scoring.engine.threads import spread, worker_count

VOCABULARY = [f"w{number}" for number in range(20_000)]
LAYERS = {"large": 17, "tiny": 2}
"""The layer that is read; 17 is bert-score's choice for roberta-large."""
SIZES: dict[str, dict[str, int]] = {
    "large": {
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    },
    "tiny": {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128},
}  # fmt: skip
CHANGED = 0.3
"""Share of the words of a reference that are others in the hypothesis."""

Pairs = tuple[list[str], list[str]]


class Measured(NamedTuple):
    """Seconds of one pass, its peak memory on the GPU in bytes, the scores if it has any, and what ran."""

    seconds: float
    peak: int
    scores: np.ndarray | None
    note: str


def make_pairs(count: int) -> Pairs:
    """Pairs of the lengths of everyday sentences, 18 words in the median."""
    draw = random.Random(0)
    references, hypotheses = [], []
    for _ in range(count):
        words = draw.choices(VOCABULARY, k=min(120, max(3, round(draw.lognormvariate(2.9, 0.5)))))
        references.append(" ".join(words))
        hypotheses.append(" ".join(draw.choice(VOCABULARY) if draw.random() < CHANGED else one for one in words))
    return hypotheses, references


class Bench:
    """The candidates, over one encoder on one device."""

    def __init__(self, encoder: str, layer: int, device: torch.device, pairs: Pairs) -> None:
        self.encoder, self.layer, self.device, self.pairs = encoder, layer, device, pairs

    def candidates(self) -> dict[str, Callable[[], Measured]]:
        found: dict[str, Callable[[], Measured]] = {"bert-score": self.bert_score}
        for precision in ("exact", "fast"):
            found[f"bertscore-f1 {precision}"] = partial(self.ours, "bertscore-f1", precision)
            found[f"encoder {precision}"] = partial(self.encoder_alone, precision)
        return found | {f"{one} fast": partial(self.ours, one, "fast") for one in ("twmd", "wmd")}

    def bert_score(self) -> Measured:
        """bert-score with its own settings."""
        from bert_score import BERTScorer

        scorer = BERTScorer(model_type=self.encoder, num_layers=self.layer, device=str(self.device))
        scorer.score(*(side[:256] for side in self.pairs))
        return self._timed(lambda: scorer.score(*self.pairs)[2].numpy(), "float32, batches of 64")

    def ours(self, preset: str, precision: str) -> Measured:
        """This project's scorer, nothing kept from before."""
        scorer = self._scorer(preset, precision)
        scorer.score(*(side[:256] for side in self.pairs))
        scorer.clear_cache()
        return self._timed(lambda: scorer.score(*self.pairs).scores, str(scorer.signature))

    def encoder_alone(self, precision: str) -> Measured:
        """The encoder over the same batches, and nothing else."""
        metric = self._scorer("bertscore-f1", precision).metric
        texts = list(dict.fromkeys([*self.pairs[0], *self.pairs[1]]))
        made = token_batches(metric.tokenize, texts, lambda: default_batch_tokens(metric.device))
        batches = [batch.to(metric.device) for _, batch in made]
        tokens = sum(int(batch.mask.sum()) for batch in batches)

        def encode() -> None:
            for _ in spread(metric.runnable_encoder.encode, batches, worker_count(metric.device)):
                pass

        encode()
        return self._timed(encode, f"{tokens:,} tokens in {len(batches):,} batches")

    def _scorer(self, preset: str, precision: str) -> Scorer:
        chosen = {"encoder": self.encoder, "layer": self.layer, "precision": precision, "backend": "torch"}
        return Scorer.from_pretrained(preset, device=str(self.device), **chosen)

    def _timed(self, work: Callable[[], np.ndarray | None], note: str) -> Measured:
        on_gpu = self.device.type == "cuda"
        scores: list[np.ndarray | None] = []

        def run() -> None:
            scores.append(work())
            if on_gpu:
                torch.cuda.synchronize()

        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        seconds = harness.seconds(run)
        return Measured(seconds, torch.cuda.max_memory_allocated() if on_gpu else 0, scores[0], note)


def table(runs: dict[str, list[Measured]], pairs: int) -> str:
    """The candidates beside bert-score, and what ran."""
    medians = {name: statistics.median(one.seconds for one in found) for name, found in runs.items()}
    exact = runs["bert-score"][0].scores
    rows = []
    for name, found in runs.items():
        scores = found[0].scores
        outside = deviation = correlation = ""
        if not name.startswith(("encoder", "bert-score")):
            alone = medians[f"encoder {name.rpartition(' ')[2]}"]
            outside = f"{max(0.0, 1 - alone / medians[name]):.0%}"
        if name.startswith("bertscore") and exact is not None and scores is not None:
            deviation, correlation = f"{np.abs(scores - exact).max():.1e}", f"{np.corrcoef(scores, exact)[0, 1]:.6f}"
        ratio, peak = medians["bert-score"] / medians[name], max(one.peak for one in found) / 2**20
        times = harness.spread([one.seconds for one in found])
        rate = f"{pairs / medians[name]:,.0f}"
        rows.append([name, times, rate, f"{ratio:.2f}", outside, f"{peak:,.0f}", deviation, correlation])
    head = "candidate, s (least to most), pairs/s, × bert-score, outside the encoder, peak MB, largest deviation from "
    headers = f"{head}bert-score, Pearson with it".split(", ")
    notes = (f"- {name}: {found[0].note}" for name, found in runs.items())
    return "\n".join([harness.table(headers, rows, texts=None), "", *notes])


def main() -> None:
    options = harness.parser(
        __doc__, pairs=20_000, repetitions=3, device="cuda", size=tuple(SIZES),
        output=harness.ROOT / "docs/results/gpu_speed.md",
    ).parse_args()  # fmt: skip
    device, layer = torch.device(options.device), LAYERS[options.size]
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no GPU here: --device cpu --size tiny tries the script.")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        encoder = write_encoder(Path(folder), VOCABULARY, SIZES[options.size])
        bench = Bench(encoder, layer, device, make_pairs(options.pairs))
        runs = harness.rounds(bench.candidates(), options.repetitions, lambda one: f"{one.seconds:.2f} s")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else harness.processor()
    packages = harness.versions("torch", "transformers", "bert-score", "textmover")
    head = (
        f"{options.pairs:,} pairs, RoBERTa of the size '{options.size}' with random weights, layer {layer}; medians of "
        f"{options.repetitions}. {name}, {packages}."
    )
    harness.write(options.output, f"{head}\n\n{table(runs, options.pairs)}\n")


if __name__ == "__main__":
    main()
