"""Write the synthetic ratings of this folder: every sentence with its paraphrases and a dozen graded corruptions.

Run from the root of the project: ``python examples/quickstart/make_ratings.py``.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from textmover.perturbations.editable_sentences import WordPool
from textmover.perturbations.perturbations import PERTURBATIONS, Perturbation, perturb
from textmover.perturbations.severity import SeverityTable

HERE = Path(__file__).resolve().parent
COLUMNS = ("reference", "hypothesis", "score", "perturbation", "degree", "sentence_id")
DEALT = ("repeat", "swap", "drop", "insert", "truncate", "replace")


def read_sentences(path: Path) -> list[dict[str, str]]:
    """The rows of the sentence file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def graded(
    text: str, number: int, seed: int, pool: WordPool, table: SeverityTable, turns: Counter[str]
) -> Iterator[Perturbation]:
    """The corruptions of sentence ``number``; ``turns`` deals out the degrees, so that each occurs equally often."""
    for place, name in enumerate(PERTURBATIONS):
        degrees = table.degrees(name)
        if name in DEALT:  # one degree for each sentence, two for every fourth
            turn = turns[name]
            turns[name] += 2 if (number + place) % 4 == 0 else 1
            degrees = tuple(degrees[other % len(degrees)] for other in range(turn, turns[name]))
        for degree in degrees:
            made = perturb(text, name, degree, seed=seed, pool=pool, severities=table)
            if made is not None:
                yield made


def rows(sentences: list[dict[str, str]], seed: int) -> Iterator[tuple[str, str, str, str, int, str]]:
    """The rating rows, without a repeated pair."""
    table = SeverityTable.load()
    everything = WordPool(text for row in sentences for text in list(row.values())[1:] if text)
    turns: Counter[str] = Counter()
    for number, row in enumerate(sentences):
        reference = row["sentence"]
        paraphrases = [text for text in (row["paraphrase"], row["paraphrase2"]) if text]
        severity = table.severity("paraphrase", 1)
        made = [Perturbation(text, "paraphrase", 1, severity) for text in paraphrases]
        made += graded(reference, number, seed, everything.avoiding(paraphrases), table, turns)
        for item in {item.text: item for item in made}.values():
            yield reference, item.text, f"{item.rating:.1f}", item.type, item.degree, row["id"]


def main() -> None:
    """Read the sentences, write the ratings beside the target and rename."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=Path, default=HERE / "sentences.tsv", help="table of sentences")
    parser.add_argument("--output", type=Path, default=HERE / "ratings.tsv", help="table of ratings to write")
    parser.add_argument("--seed", type=int, default=1, help="another seed corrupts other words")
    arguments = parser.parse_args()
    lines = ["\t".join(map(str, row)) for row in (COLUMNS, *rows(read_sentences(arguments.sentences), arguments.seed))]
    beside = arguments.output.with_name(arguments.output.name + ".part")
    beside.write_bytes(("\n".join(lines) + "\n").encode("utf-8"))
    os.replace(beside, arguments.output)
    print(f"{len(lines) - 1} ratings written to {arguments.output}")


if __name__ == "__main__":
    main()
