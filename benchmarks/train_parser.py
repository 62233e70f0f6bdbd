"""Build the released parser: convert the treebank, train word vectors and parser, evaluate, and write the card.

    python benchmarks/train_parser.py [--work runs/parser] [--output checkpoints/textmover-parser] [--test]

Each step caches its result in ``--work`` and is skipped if the result exists. The test part is read only with
``--test``, once the recipe is fixed. Requires the extra ``rome`` and, for the word vectors, ``embedded``.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import spacy
import torch
from numpy.typing import NDArray
from parser_card import SOURCE, evaluate, parser_card
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.vectors import Vectors
from ud_treebank import gold_doc, grouped, read_conllu  # also registers the callback of the configuration

from textmover.files import atomic_file, atomic_folder
from textmover.modules.encoder.source import resolve_encoder

VERSION = "0.1.0"  # of the released parser
GROUPS = (10, 1, 6, 2, 10, 3)
"""Sentences per training text, in turn: long texts teach sentence boundaries; single sentences are the usual input."""

CAPITALS = (str, str.capitalize, str.upper)  # spellings that share a vector

PLAIN = 40_000  # number of plain sentences for word vectors, in addition to the treebank

ENCODER, LAYER, OCCURRENCES = "all-MiniLM-L6-v2", 3, 20  # maximum occurrences per word
VECTORS, WIDTH = 14_000, 64  # number of word vectors and their dimension


def convert(source: Path, target: Path, sizes: Sequence[int]) -> None:
    vocab = spacy.blank("en").vocab
    DocBin(docs=[gold_doc(group, vocab) for group in grouped(list(read_conllu(source)), sizes)]).to_disk(target)


def plain_words(texts: Sequence[str]) -> list[list[str]]:
    tokenizer = spacy.blank("en").tokenizer
    return [[word.lower_ for word in doc if not word.is_space] for doc in tokenizer.pipe(texts)]


@torch.no_grad()
def contextual_means(texts: list[list[str]], wanted: set[str]) -> dict[str, NDArray[np.float32]]:
    """Compute the mean vector of each wanted word over its first occurrences, at a layer of the encoder."""
    from transformers import AutoModel, AutoTokenizer

    folder = resolve_encoder(ENCODER).folder
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    model.encoder.layer = model.encoder.layer[:LAYER]
    sums: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    texts = sorted((words[:100] for words in texts if words), key=len)
    for start in range(0, len(texts), 64):
        incomplete = {word for word in wanted if seen[word] < OCCURRENCES}
        batch = [words for words in texts[start : start + 64] if not incomplete.isdisjoint(words)]
        if not batch:
            continue
        pieces = tokenizer(batch, is_split_into_words=True, return_tensors="pt", padding=True, truncation=True)
        states = model(**pieces).last_hidden_state.numpy()
        for row, words in enumerate(batch):
            positions_of = defaultdict(list)
            for position, word in enumerate(pieces.word_ids(row)):
                if word is not None:
                    positions_of[word].append(position)
            for number, positions in positions_of.items():
                word = words[number]
                if word in wanted and seen[word] < OCCURRENCES:
                    seen[word] += 1
                    sums[word] = sums.get(word, 0) + states[row, positions].mean(0)
    return {word: total / seen[word] for word, total in sums.items()}


def make_vectors(texts: list[str], target: Path) -> None:
    """Write low-dimensional static vectors of the most frequent words, as an otherwise empty pipeline.

    Additional words come from the encoder's vocabulary and are encoded alone.
    """
    from transformers import AutoTokenizer

    words = plain_words(texts)
    counts = Counter(word for one in words for word in one)
    chosen = [word for word, count in counts.most_common(VECTORS) if count > 1]
    pieces = AutoTokenizer.from_pretrained(resolve_encoder(ENCODER).folder).get_vocab()
    more = sorted((place, word) for word, place in pieces.items() if word.isalpha() and word not in counts)
    chosen += [word for _, word in more][: VECTORS - len(chosen)]
    means = contextual_means([*words, *([word] for _, word in more)], set(chosen))
    chosen = [word for word in chosen if word in means]
    table = np.stack([means[word] for word in chosen])
    table -= table.mean(0)
    _, scale, axes = np.linalg.svd(table, full_matrices=False)
    table = table @ axes[:WIDTH].T / np.sqrt(scale[:WIDTH])  # partial whitening
    table /= np.linalg.norm(table, axis=1).mean()
    nlp = spacy.blank("en")
    keys = {spelling(word): row for spelling in reversed(CAPITALS) for row, word in enumerate(chosen)}
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=table.astype(np.float32), keys=[], name="textmover")
    for key, row in keys.items():
        nlp.vocab.vectors.add(nlp.vocab.strings.add(key), row=row)
    nlp.to_disk(target)


def prepare(args: argparse.Namespace) -> None:
    """Convert the treebank to spaCy's format and compute word vectors, if missing."""
    args.work.mkdir(parents=True, exist_ok=True)
    for part, sizes in (("train", GROUPS), ("dev", (10,))):
        if not (args.work / f"{part}.spacy").is_file():
            convert(args.data / f"en_ewt-ud-{part}.conllu", args.work / f"{part}.spacy", sizes)
    if not (args.work / "vectors").is_dir():
        texts = [one.text for one in read_conllu(args.data / "en_ewt-ud-train.conllu")]
        texts += args.plain.read_text(encoding="utf-8").split("\n")[:PLAIN]
        with atomic_folder(args.work / "vectors") as folder:
            make_vectors(texts, folder)


def fit(args: argparse.Namespace) -> Path:
    """Train by the configuration, if not done yet; return the folder of the best pipeline on the dev part."""
    best = args.work / "trained" / "model-best"
    if not best.is_dir():
        logging.getLogger("spacy").setLevel(logging.INFO)
        places = {f"paths.{part}": str(args.work / f"{part}.spacy") for part in ("train", "dev")}
        train(args.config, best.parent, overrides={**places, "paths.vectors": str(args.work / "vectors")})
    return best


def store(best: Path, folder: Path) -> None:
    """Store the released pipeline, with name and licence and without local paths."""
    nlp = spacy.load(best)
    nlp.meta.update(
        name="textmover_parser",
        version=VERSION,
        spacy_version=">=3.8.0,<4.0.0",
        description="English tags, morphology, lemmas and Universal Dependencies",
        license="CC BY-SA 4.0",
        sources=[{"name": "UD English EWT", "license": "CC BY-SA 4.0", "url": SOURCE}],
        performance={},
    )
    nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])
    nlp.config["initialize"].update(vectors=None, before_init=None)
    for part in ("train", "dev"):
        nlp.config["corpora"][part]["path"] = None
    with atomic_folder(folder, overwrite=True) as written:
        nlp.to_disk(written)


def main() -> None:
    shared = harness.SHARED
    args = harness.parser(
        __doc__,
        config=Path("configs/parser/textmover-parser.cfg"),
        data=shared / "ud_ewt",
        plain=shared / "english_sentences/tatoeba_laser_eng.txt",
        work=Path("runs/parser"),
        output=Path("checkpoints/textmover-parser"),
        test=False,
    ).parse_args()
    prepare(args)
    store(fit(args), args.output)
    parts = ["dev", "test"] if args.test else ["dev"]
    results = {part: evaluate(args.output, args.data / f"en_ewt-ud-{part}.conllu") for part in parts}
    vectors = {"encoder": ENCODER, "layer": LAYER, "width": WIDTH, "words": VECTORS, "plain": PLAIN}
    text = parser_card(args.output, args.config, results, vectors)
    with atomic_file(args.output / "README.md") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
