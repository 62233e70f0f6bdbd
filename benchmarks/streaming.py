"""Stream many pairs through ``textmover score``: peak memory, speed, and resuming after being killed.

The script writes random sentence pairs and a tiny encoder to a temporary folder. It scores them in one run, and again
in a run that is killed (SIGKILL) at random times and resumed. Then it compares both files byte by byte. Peak memory is
that of the scoring process, including model and libraries.

    python benchmarks/streaming.py [--pairs 1000000] [--kills 2] [--seed 0] [--model bertscore-f1-idf]
"""

from __future__ import annotations

import filecmp
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import harness
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

WORDS = [f"w{number}" for number in range(20_000)]
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64,
    "initializer_range": 0.2,
}  # fmt: skip
ROLES = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}


class Run(NamedTuple):
    """Exit code, duration and peak memory in bytes of a process."""

    code: int
    seconds: float
    peak: int


def write_pairs(folder: Path, pairs: int, seed: int) -> tuple[Path, Path]:
    """Write references of random lengths, and hypotheses in which a fifth of the words are replaced."""
    draw = random.Random(seed)
    hypotheses, references = folder / "hypotheses.txt", folder / "references.txt"
    with hypotheses.open("w", encoding="utf-8") as first, references.open("w", encoding="utf-8") as second:
        for _ in range(pairs):
            words = draw.choices(WORDS, k=draw.randint(3, 20))
            second.write(" ".join(words) + "\n")
            first.write(" ".join(draw.choice(WORDS) if draw.random() < 0.2 else word for word in words) + "\n")
    return hypotheses, references


def write_encoder(folder: Path, seed: int = 0) -> str:
    """Write an encoder with random weights in which each word is a token."""
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys([*ROLES.values(), *WORDS]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocabulary[token]) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    roles = {f"{role}_token": token for role, token in ROLES.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **roles).save_pretrained(folder)
    torch.manual_seed(seed)
    config = RobertaConfig(vocab_size=len(vocabulary), max_position_embeddings=514, type_vocab_size=1, **SIZES)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return str(folder)


def finished(parts: Path) -> int:
    return len(list(parts.glob("_[0-9]*.json")))


def run(command: list[str], parts: Path, kill_behind: int | None = None, delay: float = 0.0) -> Run:
    """Run a command; kill it ``delay`` seconds after ``kill_behind`` shards are finished, if still running."""
    start = time.monotonic()
    process = subprocess.Popen(command)
    while kill_behind is not None:
        if finished(parts) >= kill_behind:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            break
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.01)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    kilobytes = used.ru_maxrss if sys.platform != "darwin" else used.ru_maxrss // 1024
    return Run(process.returncode, time.monotonic() - start, kilobytes * 1024)


def main() -> int:
    options = harness.parser(__doc__, pairs=1_000_000, kills=2, seed=0, shard_size=4096, model=str).parse_args()
    print(f"{harness.versions('textmover', 'torch')}, {harness.processor()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = write_pairs(folder, options.pairs, options.seed)
        encoder = write_encoder(folder / "encoder", options.seed)
        command = [sys.executable, "-m", "textmover", "score", "-i", *map(str, texts), "--encoder", encoder]
        command += ["--device", "cpu", "--quiet", "--shard-size", str(options.shard_size)]
        command += ["--model", options.model] if options.model else []
        command.append("--output")
        whole, resumed = folder / "whole.txt", folder / "resumed.txt"
        parts, shards = Path(f"{resumed}.parts"), -(-options.pairs // options.shard_size)
        draw = random.Random(options.seed)

        def report(name: str, *arguments: object, **kill: float) -> Run:
            found = run([*command, *map(str, arguments)], parts, **kill)
            kept = f", exit code {found.code}, {finished(parts)} of {shards} shards kept" if kill else ""
            print(f"{name}: {found.seconds:.1f} s, peak memory {found.peak / 1e9:.2f} GB{kept}", flush=True)
            return found

        runs = [report("unbroken", whole)]
        if runs[0].code:
            return runs[0].code
        print(f"{options.pairs / runs[0].seconds:,.0f} pairs/s with loading")
        moments = sorted(draw.randrange(shards) for _ in range(options.kills))
        killed = (report("killed", resumed, "--resume", kill_behind=one, delay=draw.uniform(0, 1)) for one in moments)
        runs += [*killed, report("resumed", resumed, "--resume")]
        same = runs[-1].code == 0 and filecmp.cmp(whole, resumed, shallow=False)
        print(f"bytes: {'identical' if same else 'DIFFERENT'} ({whole.stat().st_size:,})")
        print(f"largest peak memory: {max(one.peak for one in runs) / 1e9:.2f} GB")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
