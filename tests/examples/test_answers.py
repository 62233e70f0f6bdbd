"""The rated answers of conversations, which rungs of the ladder are trained on."""

import csv
from collections import Counter
from pathlib import Path

from textmover.data import Columns, RatingsDataModule

ANSWERS = Path(__file__).parents[2] / "examples" / "answers.tsv"


def test_each_conversation_has_seven_different_answers_with_ratings():
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert set(Counter(row["dialogue"] for row in rows).values()) == {7}
    assert len({(row["dialogue"], row["hypothesis"].lower()) for row in rows}) == len(rows)
    assert all(0 <= int(row["score"]) <= 100 for row in rows)
    assert len({(row["dialogue"], row["part"], row["context"], row["reference"]) for row in rows}) == len(rows) / 7


def test_a_third_of_the_conversations_is_kept_from_training():
    data = RatingsDataModule(
        [str(ANSWERS)], columns=Columns(groups=("part",)), where={"part": ["train"]}, held_back=0.1
    )
    data.setup()
    assert len(data.segments) + sum(map(len, data.parts.values())) == 160 * 7
