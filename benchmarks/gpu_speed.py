"""Scoring speed on a GPU: roberta-large's architecture beside bert-score as it ships, and what the encoder leaves over.

    python benchmarks/gpu_speed.py [--pairs 20000] [--repetitions 3] [--device cuda] [--size large]

The encoder has random weights, which cost as much time as trained ones, and each word is a token. bert-score runs as it
ships: float32, batches of 64. ``outside the encoder`` is the share of the scoring time that is left when the encoder
alone has read the same batches of the same texts, tokenised beforehand. The candidates take turns within each
repetition; each is warmed up once on a part of the pairs. ``--device cpu --size tiny`` tries the script without a GPU.
"""

from __future__ import annotations

import argparse
import gc
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from textmover import Scorer
from textmover.scoring.engine.batches import token_batches
from textmover.scoring.engine.text_features import default_batch_tokens
from textmover.scoring.engine.threads import spread, worker_count

ROOT = Path(__file__).resolve().parents[1]
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
VOCABULARY = 20_000
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


def write_encoder(folder: Path, size: str) -> str:
    """A RoBERTa with random weights, of which every word is a token."""
    words = [*SPECIAL, *(f"w{number}" for number in range(VOCABULARY))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    roles = {
        "bos_token": "<s>", "cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "eos_token": "</s>",
        "unk_token": "<unk>", "mask_token": "<mask>",
    }  # fmt: skip
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **roles).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(words), max_position_embeddings=514, type_vocab_size=1, **SIZES[size])
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return str(folder)


def make_pairs(count: int) -> Pairs:
    """Pairs of the lengths of everyday sentences, 18 words in the median."""
    draw = random.Random(0)

    def word() -> str:
        return f"w{draw.randrange(VOCABULARY)}"

    references = [[word() for _ in range(min(120, max(3, round(draw.lognormvariate(2.9, 0.5)))))] for _ in range(count)]
    hypotheses = [[word() if draw.random() < CHANGED else one for one in words] for words in references]
    return [" ".join(words) for words in hypotheses], [" ".join(words) for words in references]


class Bench:
    """The candidates, over one encoder on one device.

    Args:
        encoder: Folder.
        layer: The layer that is read.
        device: Where it runs.
    """

    def __init__(self, encoder: str, layer: int, device: torch.device) -> None:
        self.encoder, self.layer, self.device = encoder, layer, device

    def candidates(self) -> dict[str, Callable[[Pairs], Measured]]:
        """What is measured, by name."""
        found: dict[str, Callable[[Pairs], Measured]] = {"bert-score": self.bert_score}
        for precision in ("exact", "fast"):
            found[f"bertscore-f1 {precision}"] = self.ours("bertscore-f1", precision)
            found[f"encoder {precision}"] = self.encoder_alone(precision)
        return found | {f"{one} fast": self.ours(one, "fast") for one in ("twmd", "wmd")}

    def bert_score(self, pairs: Pairs) -> Measured:
        """bert-score with its own settings."""
        from bert_score import BERTScorer

        scorer = BERTScorer(model_type=self.encoder, num_layers=self.layer, device=str(self.device))
        scorer.score(pairs[0][:256], pairs[1][:256])
        return self._timed(lambda: scorer.score(*pairs)[2].numpy(), "float32, batches of 64")

    def ours(self, preset: str, precision: str) -> Callable[[Pairs], Measured]:
        """This project's scorer, nothing kept from before."""

        def run(pairs: Pairs) -> Measured:
            scorer = self._scorer(preset, precision)
            scorer.score(pairs[0][:256], pairs[1][:256])
            scorer.clear_cache()
            told: list[str] = []

            def score() -> np.ndarray:
                found = scorer.score(*pairs)
                told.append(str(found.signature))
                return found.scores

            measured = self._timed(score, "")
            return measured._replace(note=told[0])

        return run

    def encoder_alone(self, precision: str) -> Callable[[Pairs], Measured]:
        """The encoder over the same batches, and nothing else."""

        def run(pairs: Pairs) -> Measured:
            metric = self._scorer("bertscore-f1", precision).metric
            texts = list(dict.fromkeys([*pairs[0], *pairs[1]]))
            made = token_batches(metric.tokenize, texts, lambda: default_batch_tokens(metric.device))
            batches = [batch.to(metric.device) for _, batch in made]
            tokens = sum(int(batch.mask.sum()) for batch in batches)

            def encode() -> None:
                for _ in spread(metric.runnable_encoder.encode, batches, worker_count(metric.device)):
                    pass

            encode()
            return self._timed(encode, f"{tokens:,} tokens in {len(batches):,} batches")

        return run

    def _scorer(self, preset: str, precision: str) -> Scorer:
        options: dict[str, Any] = {"encoder": self.encoder, "layer": self.layer}
        return Scorer.from_pretrained(preset, precision=precision, device=str(self.device), backend="torch", **options)

    def _timed(self, work: Callable[[], np.ndarray | None], note: str) -> Measured:
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        scores = work()
        if on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return Measured(seconds, torch.cuda.max_memory_allocated() if on_gpu else 0, scores, note)


def table(runs: dict[str, list[Measured]], pairs: int) -> list[str]:
    """Lines of Markdown."""
    medians = {name: statistics.median(one.seconds for one in found) for name, found in runs.items()}
    exact = runs["bert-score"][0].scores
    lines = [
        "| candidate | s (least to most) | pairs/s | × bert-score | outside the encoder | peak MB | largest deviation "
        "from bert-score | Pearson with it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in runs.items():
        times, scores = [one.seconds for one in found], found[0].scores
        outside = deviation = correlation = ""
        if not name.startswith(("encoder", "bert-score")):
            alone = medians[f"encoder {name.rpartition(' ')[2]}"]
            outside = f"{max(0.0, 1 - alone / medians[name]):.0%}"
        if name.startswith("bertscore") and exact is not None and scores is not None:
            deviation, correlation = f"{np.abs(scores - exact).max():.1e}", f"{np.corrcoef(scores, exact)[0, 1]:.6f}"
        cells = [
            name,
            f"{medians[name]:.2f} ({min(times):.2f} to {max(times):.2f})",
            f"{pairs / medians[name]:,.0f}",
            f"{medians['bert-score'] / medians[name]:.2f}",
            outside,
            f"{max(one.peak for one in found) / 2**20:,.0f}",
            deviation,
            correlation,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *(f"- {name}: {found[0].note}" for name, found in runs.items())]


def machine(device: torch.device) -> str:
    """Device and versions."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    packages = ("torch", "transformers", "bert-score", "textmover")
    return ", ".join([name, *(f"{package} {version(package)}" for package in packages)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=tuple(SIZES), default="large")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/gpu_speed.md")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no GPU here: --device cpu --size tiny tries the script.")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    pairs = make_pairs(options.pairs)
    runs: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        bench = Bench(write_encoder(Path(folder), options.size), LAYERS[options.size], device)
        for repetition in range(options.repetitions):
            for name, run in bench.candidates().items():
                runs.setdefault(name, []).append(run(pairs))
                print(repetition, name, f"{runs[name][-1].seconds:.2f} s", flush=True)
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
    head = (
        f"{options.pairs:,} pairs, RoBERTa of the size '{options.size}' with random weights, layer "
        f"{LAYERS[options.size]}; medians of {options.repetitions}. {machine(device)}."
    )
    text = "\n".join([head, "", *table(runs, options.pairs)]) + "\n"
    print(text)
    options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
