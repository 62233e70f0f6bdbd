"""Universal Dependencies in CoNLL-U: sentences, and texts of several with their trees as spaCy has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.tokens import Doc
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
    """Sentences as one text with gold words and trees."""
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
