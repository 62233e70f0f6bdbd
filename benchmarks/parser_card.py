"""Evaluation of a parser on a treebank, and the model card of the released parser."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import harness
import spacy
import thinc
import torch
from spacy.tokens import Doc
from ud_treebank import Sentence, gold_doc, read_conllu

import textmover
from textmover.files import file_sha256
from textmover.modules.encoder.source import resolve_encoder
from textmover.rome.parsers.pipelines import SpacyParser, parsed_doc
from textmover.types import ParsedText

COLUMNS = (
    "words", "UPOS", "morphology", "lemmas", "UAS", "LAS", "LAS with subtypes", "UAS, no punctuation",
    "LAS, no punctuation",
)  # fmt: skip
"""Columns of the card's table."""

SOURCE = "https://github.com/UniversalDependencies/UD_English-EWT"

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
