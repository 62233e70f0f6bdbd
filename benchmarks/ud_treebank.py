"""Universal Dependencies: sentences of CoNLL-U files, their trees as spaCy has them, and words as in the treebank."""

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
    """A sentence of a treebank: one row of ten columns to a word, and whether white space follows each word."""

    document: str
    rows: list[list[str]]
    spaces: list[bool]

    @property
    def text(self) -> str:
        return "".join(row[1] + " " * space for row, space in zip(self.rows, self.spaces, strict=True))


def read_conllu(path: Path) -> Iterator[Sentence]:
    """Sentences of a CoNLL-U file; multiword tokens are taken apart, empty nodes left out."""
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
        elif len(columns) == 10 and "-" in columns[0]:  # a multiword token: no white space before its last word
            tail, tail_space = int(columns[0].partition("-")[2]), "SpaceAfter=No" not in columns[9]
        elif len(columns) == 10 and "." not in columns[0]:
            number = int(columns[0])
            rows.append(columns)
            spaces.append(
                "SpaceAfter=No" not in columns[9] if number > tail else tail_space if number == tail else False
            )


def gold_doc(sentences: Sequence[Sentence], vocab: Vocab) -> Doc:
    rows = [row for one in sentences for row in one.rows]
    spaces = [space for one in sentences for space in one.spaces]
    heads, starts = [], []
    for one in sentences:
        start = len(heads)
        heads += [start + (int(row[6]) - 1 if row[6] != "0" else place) for place, row in enumerate(one.rows)]
        starts += [place == 0 for place in range(len(one.rows))]
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
    """Neighbouring sentences of one document together, as many as the sizes say in turn."""
    group: list[Sentence] = []
    turn = 0
    for one in sentences:
        if group and (len(group) == sizes[turn % len(sizes)] or group[0].document != one.document):
            yield group
            group, turn = [], turn + 1
        group.append(one)
    if group:
        yield group


RUN = r"([!?=*_<>$~#+^-])\1+|[!?]{2,}|[.:]\?"  # marks in a row, which the treebank takes for one

BOUND = "anti|co|e|ex|inter|mid|multi|non|post|pre|pro|re|semi|sub|un"  # parts before a hyphen that are not words

WHOLE = rf"(?i:(?:{BOUND})-[a-z]+|\d{{3}}-\d{{4}}|(?:1-)?\d{{3}}-\d{{3}}-\d{{4}}|b/c|w/o|#\w+|{RUN})"
"""What is one word: compounds with a bound part, telephone numbers, tags, marks in a row."""

INFIXES = (r"(?<=[A-Za-z]{2})/(?=[A-Za-z]{2})", r"(?<=\d)(?=(?i:[ap]\.?m\.?$))")
"""Where a word ends within others: at a slash between two words, and between the hour and its half of the day."""

ABBREVIATIONS = ("Capt.", "Ft.", "Lt.", "No.", "etc.", "Reps.", "Attn.", "Wed.", "Fri.", "Mon.")
"""Words with a point of their own, which spaCy's English does not list."""


def adapt_tokenizer(nlp: Any) -> Any:
    """Bring the tokenizer of a pipeline nearer to the words of the treebank, by rules before spaCy's own."""
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
    """What a configuration names to adapt the tokenizer before training."""
    return adapt_tokenizer
