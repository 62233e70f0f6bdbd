import re

import pytest

from textmover.data import Columns, RatingsDataModule
from textmover.data.datamodule import HELD_BACK, HELD_OUT
from textmover.types import InputError


@pytest.fixture
def ratings(tmp_path):
    path = tmp_path / "ratings.tsv"
    kinds = ["drop", "swap", "same"]
    rows = [f"{kinds[n % 3]}\tr{n // 3}\th{n}\t{n}" for n in range(180)]
    path.write_text("kind\treference\thypothesis\tscore\n" + "\n".join(rows) + "\n")
    return str(path)


COLUMNS = Columns(groups=("kind",))


def test_no_reference_stands_on_both_sides(ratings):
    data = RatingsDataModule([ratings], columns=COLUMNS)
    data.setup()
    train = {one.references for one in data.segments}
    held = {one.references for one in data.parts[HELD_BACK]}
    assert train
    assert held
    assert not train & held
    assert len(data.segments) + len(data.parts[HELD_BACK]) == 180


def test_held_out_kinds_are_judged_on_held_back_references_only(ratings):
    data = RatingsDataModule(
        [ratings], columns=COLUMNS, held_out={"kind": ["swap"]}, beside={"kind": ["same"]}, held_back=0.3
    )
    data.setup()
    kinds = lambda part: {one.groups["kind"] for one in part}  # noqa: E731
    assert kinds(data.segments) == kinds(data.parts[HELD_BACK]) == {"drop", "same"}
    assert kinds(data.parts[HELD_OUT]) == {"swap", "same"}
    assert not {one.references for one in data.segments} & {one.references for one in data.parts[HELD_OUT]}


def test_validation_files_replace_the_held_back_part(ratings):
    data = RatingsDataModule([ratings], validation=[ratings], columns=COLUMNS)
    data.setup()
    assert len(data.segments) == len(data.parts[HELD_BACK]) == 180


def test_too_few_ratings_are_refused_with_the_file(tmp_path):
    path = tmp_path / "few.tsv"
    path.write_text("reference\thypothesis\tscore\na\tb\t1\n")
    with pytest.raises(InputError, match=re.escape(str(path))):
        RatingsDataModule([str(path)]).setup()


def test_a_group_that_is_not_read_is_refused(ratings):
    with pytest.raises(InputError, match=r"columns\.groups"):
        RatingsDataModule([ratings], group="kind")


def test_ratings_need_a_column():
    with pytest.raises(InputError, match=r"columns\.score"):
        RatingsDataModule(["x.tsv"], columns=Columns(score=None))


def test_training_texts_are_distinct_and_at_most_as_many(ratings):
    data = RatingsDataModule([ratings], columns=COLUMNS)
    data.setup()
    texts = data.training_texts(10)
    assert len(texts) == len(set(texts)) == 10


def test_groups_of_segments(ratings):
    data = RatingsDataModule([ratings], columns=COLUMNS, group="kind")
    data.setup()
    assert set(data.groups_of(data.segments)) == {"drop", "swap", "same"}
    assert set(RatingsDataModule([ratings]).groups_of(data.segments)) == {"all"}
