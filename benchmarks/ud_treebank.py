"""Universal Dependencies: CoNLL-U reader, conversion to spaCy, and tokenizer rules of the treebank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex
from spacy.vocab import Vocab


@dataclass(frozen=True)
class Sentence:
    """Sentence of a treebank: one row of ten columns per word, and whether whitespace follows each word."""

    document: str
    rows: list[list[str]]
    spaces: list[bool]

    @property
    def text(self) -> str:
        return "".join(row[1] + " " * space for row, space in zip(self.rows, self.spaces, strict=True))


def read_conllu(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file; multiword tokens are split, and empty nodes skipped."""
    document, rows, spaces = "", [], []
    tail, tail_space = 0, True
    for line in path.read_text(encoding="utf-8").split("\n"):
        columns = line.split("\t")
        if line.startswith("# newdoc id = "):
            document = line.removeprefix("# newdoc id = ")
        elif not line:
            if rows:
                yield Sentence(document, rows, spaces)
            rows, spaces, tail = [], [], 0
        elif len(columns) == 10 and "-" in columns[0]:  # multiword token: no whitespace before its last word
            tail, tail_space = int(columns[0].partition("-")[2]), "SpaceAfter=No" not in columns[9]
        elif len(columns) == 10 and "." not in columns[0]:
            number = int(columns[0])
            rows.append(columns)
            spaces.append(
                "SpaceAfter=No" not in columns[9] if number > tail else tail_space if number == tail else False
            )


def gold_doc(sentences: Sequence[Sentence], vocab: Vocab) -> Doc:
    rows = [row for sentence in sentences for row in sentence.rows]
    spaces = [space for sentence in sentences for space in sentence.spaces]
    heads, starts = [], []
    for sentence in sentences:
        start = len(heads)
        heads += [start + (int(row[6]) - 1 if row[6] != "0" else index) for index, row in enumerate(sentence.rows)]
        starts += [index == 0 for index in range(len(sentence.rows))]
    return Doc(
        vocab,
        words=[row[1] for row in rows],
        spaces=spaces,
        lemmas=[row[2] for row in rows],
        pos=[row[3] for row in rows],
        tags=[row[4] for row in rows],
        morphs=["" if row[5] == "_" else row[5] for row in rows],
        heads=heads,
        deps=["ROOT" if row[7] == "root" else row[7] for row in rows],
        sent_starts=starts,
    )


def grouped(sentences: Sequence[Sentence], sizes: Sequence[int]) -> Iterator[list[Sentence]]:
    """Group consecutive sentences of a document; group sizes cycle through ``sizes``."""
    group: list[Sentence] = []
    turn = 0
    for sentence in sentences:
        if group and (len(group) == sizes[turn % len(sizes)] or group[0].document != sentence.document):
            yield group
            group, turn = [], turn + 1
        group.append(sentence)
    if group:
        yield group


RUN = r"([!?=*_<>$~#+^-])\1+|[!?]{2,}|[.:]\?"  # repeated marks, one word in the treebank

BOUND = "anti|co|e|ex|inter|mid|multi|non|post|pre|pro|re|semi|sub|un"  # hyphenated prefixes

WHOLE = rf"(?i:(?:{BOUND})-[a-z]+|\d{{3}}-\d{{4}}|(?:1-)?\d{{3}}-\d{{3}}-\d{{4}}|b/c|w/o|#\w+|{RUN})"
"""Single words: hyphenated compounds with a prefix, telephone numbers, hashtags, repeated marks."""

INFIXES = (r"(?<=[A-Za-z]{2})/(?=[A-Za-z]{2})", r"(?<=\d)(?=(?i:[ap]\.?m\.?$))")
"""Word boundaries inside tokens: a slash between two words, and before "am" or "pm" after a number."""

ABBREVIATIONS = ("Capt.", "Ft.", "Lt.", "No.", "etc.", "Reps.", "Attn.", "Wed.", "Fri.", "Mon.")
"""Abbreviations with a period that spaCy's English lacks."""


def adapt_tokenizer(nlp: Any) -> Any:
    """Adapt a pipeline's tokenizer to the words of the treebank, by rules in addition to spaCy's."""
    defaults = nlp.Defaults
    tokenizer = nlp.tokenizer
    tokenizer.prefix_search = compile_prefix_regex([rf"(?:{RUN})", *defaults.prefixes]).search
    tokenizer.suffix_search = compile_suffix_regex([rf"(?:{RUN})", *defaults.suffixes]).search
    tokenizer.infix_finditer = compile_infix_regex([*INFIXES, *defaults.infixes]).finditer
    tokenizer.token_match = re.compile(rf"^{WHOLE}$").match
    tokenizer.add_special_case("and/or", [{"ORTH": "and"}, {"ORTH": "/"}, {"ORTH": "or"}])
    for word in ABBREVIATIONS:
        tokenizer.add_special_case(word, [{"ORTH": word}])
    return nlp


@spacy.registry.callbacks("textmover.treebank_words")
def treebank_words() -> Any:
    """Return the callback by which a configuration adapts the tokenizer before training."""
    return adapt_tokenizer
