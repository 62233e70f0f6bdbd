"""Write the 200 made-up ratings of this folder: outputs drawn from the quickstart's, rated by three invented people.

Run from the root of the project: ``python examples/own_ratings/make_ratings.py``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUICKSTART = HERE.parent / "quickstart"
COLUMNS = ("output", "reference", "second_reference", "rating", "kind")
SENTENCES, OUTPUTS = 100, 2
LENIENCE = (-0.3, 0.0, 0.3)
"""What each of the three adds to a rating, in points of the scale."""
NOISE = 0.6
"""Standard deviation of one person's judgement, in points of the scale."""


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table of the quickstart."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def mean_rating(score: float, rng: random.Random) -> float:
    """Mean of three whole numbers from 1 to 5 that people could give to a text of this score, 0 to 100."""
    given = [round(1 + 4 * score / 100 + lenience + rng.gauss(0, NOISE)) for lenience in LENIENCE]
    return sum(min(5, max(1, one)) for one in given) / len(given)


def rows(seed: int, *, rest: bool = False) -> Iterator[tuple[str, str, str, str, str]]:
    """The rating rows: some sentences, some outputs of each, and a paraphrase as second reference where one is left.

    Args:
        seed: Seed of all choices.
        rest: Take the sentences that the same seed leaves out without it.
    """
    rng = random.Random(seed)
    rated, sentences = read_table(QUICKSTART / "ratings.tsv"), read_table(QUICKSTART / "sentences.tsv")
    drawn = {row["id"] for row in rng.sample(sentences, SENTENCES)}
    for sentence in [row for row in sentences if (row["id"] in drawn) != rest]:
        of_this = [row for row in rated if row["sentence_id"] == sentence["id"] and row["perturbation"] != "identity"]
        chosen = rng.sample(of_this, OUTPUTS)
        outputs = {row["hypothesis"] for row in chosen}
        left = [text for text in (sentence["paraphrase"], sentence["paraphrase2"]) if text and text not in outputs]
        for row in chosen:
            rating = mean_rating(float(row["score"]), rng)
            second = left[0] if left else ""
            yield row["hypothesis"], sentence["sentence"], second, f"{rating:.2f}", row["perturbation"]


def main() -> None:
    """Write the ratings beside the target and rename."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "ratings.csv", help="table of ratings to write")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other outputs and ratings")
    parser.add_argument("--rest", action="store_true", help="rate outputs for the sentences that are not in the table")
    arguments = parser.parse_args()
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows(arguments.seed, rest=arguments.rest))
    beside = arguments.output.with_name(arguments.output.name + ".part")
    beside.write_bytes(table.getvalue().encode("utf-8"))
    os.replace(beside, arguments.output)
    print(f"{table.getvalue().count(chr(10)) - 1} ratings written to {arguments.output}")


if __name__ == "__main__":
    main()
