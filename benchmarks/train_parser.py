"""Build the released parser: convert the treebank, train word vectors and parser, evaluate, and write the card.

    python benchmarks/train_parser.py [--work runs/parser] [--output checkpoints/textmover-parser] [--test]

Each step caches its result in ``--work`` and is skipped if the result exists. The test part is read only with
``--test``, once the recipe is fixed. Requires the extra ``rome`` and, for the word vectors, ``embedded``.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import spacy
import thinc
import torch
from numpy.typing import NDArray
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.vectors import Vectors
from ud_treebank import Sentence, gold_doc, grouped, read_conllu  # also registers the configuration's callback

import textmover
from textmover.files import atomic_file, atomic_folder, file_sha256
from textmover.modules.encoder.source import resolve_encoder
from textmover.rome.parsers.pipelines import SpacyParser, parsed_doc
from textmover.types import ParsedText

SOURCE = "https://github.com/UniversalDependencies/UD_English-EWT"
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


# --- card -------------------------------------------------------------------------------------------------------------

COLUMNS = (
    "words", "UPOS", "morphology", "lemmas", "UAS", "LAS", "LAS with subtypes", "UAS, no punctuation",
    "LAS, no punctuation",
)  # fmt: skip
"""Columns of the card's table."""

TEMPLATE = """---
library_name: spacy
language: en
license: cc-by-sa-4.0
tags: [spacy, dependency-parsing, universal-dependencies, textmover]
---

# textmover-parser: English words, lemmas and dependency trees

A small spaCy pipeline (tagger, morphologizer, lemmatizer and dependency parser over one convolutional network), \
{size:.1f} MB: what RoMe parses with where no parser is named. Tags, features and relations are those of Universal
Dependencies.

```python
from textmover.rome.parsers.pipelines import load_parser

parsed = load_parser("textmover-parser")(["The cats were sleeping."])[0]
print(parsed.lemmas, parsed.heads, parsed.relations)
```

`{identity}`

## Agreement with the treebank

Percent, on UD English EWT. Where the parser is given text it finds words and sentences itself, and figures are F1 over
words with the same span, as in the shared task of CoNLL 2018 (universal relations; punctuation counts). "No
punctuation": of the treebank's words other than punctuation, those whose head (and relation) is found. Of morphology
all features have to agree.

{table}

The checkpoint was chosen on a part of the development part.

## Data and their terms

| data | use | terms |
|---|---|---|
| [UD English EWT]({treebank}), commit 15d613d8, training part | trees, tags, lemmas | CC BY-SA 4.0 |
| Tatoeba English sentences (as in LASER), the first {plain:,} | plain text under the word vectors | CC BY 2.0 FR |
| {encoder} (sha256 {encoder_hash}…) | word vectors: means of layer {layer} over a word's occurrences, \
{width} principal axes, {words:,} words | Apache 2.0 |

The treebank is under CC BY-SA 4.0, so this model is given on under the same licence: name the treebank and its authors
(Universal Dependencies English Web Treebank; Silveira et al. 2014), and give changed versions of the model on under the
same terms. The code that uses it is not touched by that. The texts beneath the treebank (weblogs, newsgroups, e-mails,
reviews, questions) are their writers'.

English only, of the kinds above; headlines, verse and text without case or punctuation are parsed worse, and other
languages not at all: name another parser there (`stanza:de`, any spaCy pipeline).

## Made with

```bash
python benchmarks/train_parser.py --test
```

Configuration: `{config}` (sha256 {config_hash}…). Data: `ud-ewt` and `tatoeba` as in
`docs/training-data.md`. Versions: {versions}.
"""


def agreements(gold: ParsedText, found: ParsedText) -> Counter[str]:
    """Count words and their agreements, as in the CoNLL 2018 shared task; words match if their spans are equal."""
    counts: Counter[str] = Counter({"gold": len(gold), "found": len(found)})
    indices = {span: index for index, span in enumerate(found.spans)}
    for index, span in enumerate(gold.spans):
        counts["gold, no punctuation"] += gold.tags[index] != "PUNCT"
        if span not in indices:
            continue
        match = indices[span]
        sides = ((gold, index), (found, match))
        head = len({one.spans[one.heads[at]] if one.heads[at] >= 0 else None for one, at in sides}) == 1
        labelled = head and len({one.relations[at].partition(":")[0] for one, at in sides}) == 1
        counts["words"] += 1
        counts["UPOS"] += gold.tags[index] == found.tags[match]
        counts["morphology"] += len({frozenset(one.features[at].split("|")) for one, at in sides}) == 1
        counts["lemmas"] += gold.lemmas[index] == found.lemmas[match]
        counts["UAS"] += head
        counts["LAS"] += labelled
        counts["LAS with subtypes"] += head and gold.relations[index] == found.relations[match]
        if gold.tags[index] != "PUNCT":
            counts["UAS, no punctuation"] += head
            counts["LAS, no punctuation"] += labelled
    return counts


def evaluate(folder: Path, source: Path) -> dict[str, dict[str, float]]:
    """Return percentages on a treebank part by kind of parser input; F1 if the parser finds the words itself."""
    sentences = list(read_conllu(source))
    parser, nlp = SpacyParser(folder), spacy.load(folder)
    by_document: dict[str, list[Sentence]] = defaultdict(list)
    for sentence in sentences:
        by_document[sentence.document].append(sentence)
    alone, together = (
        [gold_doc(group, nlp.vocab) for group in groups] for groups in (zip(sentences), by_document.values())
    )
    docs = [Doc(nlp.vocab, words=[row[1] for row in sentence.rows], spaces=sentence.spaces) for sentence in sentences]
    kinds = {
        "gold words, one sentence at a time": (alone, list(map(parsed_doc, nlp.pipe(docs)))),
        "text of one sentence": (alone, parser([doc.text for doc in alone])),
        "text of a whole document": (together, parser([doc.text for doc in together])),
    }
    table: dict[str, dict[str, float]] = {}
    for kind, (groups, parses) in kinds.items():
        counts: Counter[str] = Counter()
        for doc, parse in zip(groups, parses, strict=True):
            counts += agreements(parsed_doc(doc), parse)
        total = (counts["gold"] + counts["found"]) / 2
        table[kind] = {name: 100 * counts[name] / total for name in COLUMNS}
        for name in COLUMNS[-2:]:  # recall, since punctuation is defined by gold tags
            table[kind][name] = 100 * counts[name] / counts["gold, no punctuation"]
    return table


def parser_card(
    folder: Path, config: Path, results: Mapping[str, Mapping[str, Mapping[str, float]]], vectors: Mapping[str, object]
) -> str:
    kinds = [(part, kind, values) for part, table in results.items() for kind, values in table.items()]
    rows = [[part, kind, *(f"{values[name]:.1f}" for name in COLUMNS)] for part, kind, values in kinds]
    unseen = "" if "test" in results else "\n\nThe test part has not been looked at."
    return TEMPLATE.format(
        table=harness.table(["part", "given", *COLUMNS], rows, texts=None) + unseen,
        size=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        identity=SpacyParser(folder).identity,
        config=config.as_posix(),
        config_hash=file_sha256(config)[:16],
        encoder_hash=resolve_encoder(str(vectors["encoder"])).sha256[:16],
        versions=", ".join(f"{one.__name__} {one.__version__}" for one in (textmover, spacy, thinc, torch)),
        treebank=SOURCE,
        **vectors,
    )


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
