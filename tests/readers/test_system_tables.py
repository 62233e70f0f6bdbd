"""Tables with a row for each output of each system."""

import pytest
from tests.readers.shared import write_lines

from textmover.readers.system_scores import read_system_table
from textmover.types import InputError

ROWS = [
    ("lp", "system", "seg", "reference", "hypothesis", "score", "m"),
    ("de-en", "A", "1", "the cat", "a cat", "0.5", "1"),
    ("de-en", "B", "1", "the cat", "cat", "0.25", "2"),
    ("zh-en", "A+B", "1", "the cat", "that cat", "-1", "3"),
    ("fi-en", "A", "2", "the dog", "a dog", "0", "4"),
]


@pytest.fixture
def path(tmp_path):
    return write_lines(tmp_path / "outputs.tsv", *map("\t".join, ROWS))


def test_rows_become_outputs(path):
    found = read_system_table(str(path), system="system", separator="+", item="seg", groups=("lp",), human="score")
    assert found.systems == ["A", "B", "A", "B"]
    assert found.groups == ["de-en", "de-en", "zh-en", "zh-en"]
    assert found.items == ["1"] * 4
    assert found.hypotheses == ["a cat", "cat", "that cat", "that cat"]
    assert found.references == [("the cat",)] * 4
    assert found.human.tolist() == [0.5, 0.25, -1.0, -1.0]
    assert found.scores is None
    assert found.lone == ("fi-en",)


def test_references_say_which_outputs_belong_together(path):
    found = read_system_table(str(path), system="system", separator="+", groups=("lp",))
    assert len(set(found.items)) == 1
    assert found.human is None


def test_scores_need_no_texts(path):
    found = read_system_table(str(path), system="system", item="seg", groups=("lp", "reference"), metric="m")
    assert found.scores.tolist() == [1.0, 2.0]
    assert found.groups == ["de-en / the cat"] * 2
    assert found.lone == ("zh-en / the cat", "fi-en / the dog")
    assert found.hypotheses == []


def test_a_row_without_the_name_of_a_system_is_refused(path):
    with pytest.raises(InputError, match="the name of a system in column 'system' of line 3"):
        read_system_table(str(path), system="system", separator="B")


def test_an_item_without_a_name_is_refused_and_a_group_without_one_is_called_empty(tmp_path):
    rows = ["lp\tdom\tseg\tsystem\tm", *(f"{lp}\t{dom}\t1\t{one}\t1" for lp, dom in GROUPS for one in "AB")]
    path = str(write_lines(tmp_path / "groups.tsv", *rows))
    found = read_system_table(path, system="system", item="seg", groups=("lp", "dom"), metric="m")
    assert found.groups[::2] == ["a \\/ b / c", "a / b \\/ c", "(empty) / c"]
    write_lines(tmp_path / "groups.tsv", *rows, "x\ty\t \tA\t1")
    with pytest.raises(InputError, match=r"the name of an item in column 'seg' of line 8 of .*, but got ' ': name it"):
        read_system_table(path, system="system", item="seg", groups=("lp", "dom"), metric="m")


GROUPS = [("a / b", "c"), ("a", "b / c"), ("", "c")]
