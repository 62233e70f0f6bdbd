"""Files of items: what is read of them, and what is refused in one sentence."""

import json

import pytest

from textmover.annotation import Item, ItemColumns, read_items
from textmover.types import InputError

ROW = {"id": "a", "hypothesis": "A cat.", "reference": "The cat."}


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps([ROW])),
        ("a.json", json.dumps([ROW], indent=4)),
        ("a.json", json.dumps(ROW)),
        ("a.json", f"{json.dumps(ROW)}\n"),
        ("a.jsonl", f"{json.dumps(ROW)}\n"),
        ("a.csv", "id,hypothesis,reference\na,A cat.,The cat.\n"),
        ("a.tsv", "id\thypothesis\treference\na\tA cat.\tThe cat.\n"),
        ("a.csv", b"\xef\xbb\xbfid,hypothesis,reference\r\na,A cat.,The cat.\r\n"),
    ],
)
def test_every_format_gives_the_same_items(file, name, content):
    assert read_items(file(name, content)) == (Item("a", "A cat.", ("The cat.",)),)


def test_references_may_be_a_list_or_several_columns_or_none(file):
    rows = [
        {"hypothesis": "a", "references": ["b", "c"]},
        {"hypothesis": "d", "reference": "e", "reference_2": "f", "reference_3": ""},
        {"hypothesis": "g", "reference": None, "references": []},
        {"hypothesis": "h"},
    ]
    found = read_items(file("a.json", json.dumps(rows)))
    assert [item.references for item in found] == [("b", "c"), ("e", "f"), (), ()]


def test_what_a_text_was_made_from_is_shown_and_other_columns_are_kept(file):
    row = {
        **ROW,
        "triples": [["Oslo", "country", "Norway"], {"s": "Oslo", "p": "sea", "o": "fjord"}],
        "mr": {"name": "x"},
    }
    row |= {"system": "b", "length": 3, "tags": ["x", 1], "none": None}
    (found,) = read_items(file("a.json", json.dumps([row])))
    assert found.sources == {"mr": "name: x", "triples": "Oslo | country | Norway\nOslo | sea | fjord"}
    assert found.others == {"system": "b", "length": "3", "tags": "x\n1", "none": ""}


def test_columns_of_other_names(file):
    path = file("a.csv", "output,gold,also,reference\na,b,c,d\n")
    (found,) = read_items(path, ItemColumns("output", ("gold", "also")))
    assert (found.hypothesis, found.references, found.others) == ("a", ("b", "c"), {"reference": "d"})


def test_without_ids_an_item_is_known_by_its_texts_wherever_it_stands(file):
    first = read_items(file("a.csv", "hypothesis,reference\na,b\nc,d\n"))
    second = read_items(
        file("b.jsonl", '{"reference": "d", "hypothesis": "c"}\n{"hypothesis": "a", "reference": "b"}\n')
    )
    assert {item.key for item in first} == {item.key for item in second}
    assert len({item.key for item in first}) == 2


def test_the_fingerprint_changes_with_every_text_that_is_shown_and_with_nothing_else(file):
    def fingerprint(**changed):
        return read_items(file("a.json", json.dumps([{**ROW, "source": "s", "system": "x", **changed}])))[0].fingerprint

    same = fingerprint()
    assert fingerprint(system="y", id="b") == same
    assert len({same, fingerprint(hypothesis="B"), fingerprint(reference="B"), fingerprint(source="B")}) == 4


def test_texts_are_kept_character_by_character(file):
    text = " <b>{{x}}</b>\t\u202eabc\u0000 \u0645 \n"
    assert read_items(file("a.json", json.dumps([{**ROW, "hypothesis": text}])))[0].hypothesis == text


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", "it is empty"),
        ("a.json", " \n", "it is empty"),
        ("a.csv", "", "it is empty"),
        ("a.json", "[]", "holds none"),
        ("a.csv", "hypothesis,reference\n", "holds none"),
        ("a.json", '[{"hypothesis": "a"},', "to be JSON, but got .* in line 1"),
        ("a.json", "[" * 100_000, "at most 100 levels"),
        ("a.json", '{"items": [{"hypothesis": "a"}]}', "one object with 'items'"),
        ("a.json", '"text"', "list of objects in a.json, but got 'text'"),
        ("a.json", '[{"hypothesis": "a"}, 3]', "but got 3 as element 2"),
        ("a.jsonl", '{"hypothesis": "a"}\n{"hypothesis": \n', "line 2"),
        ("a.csv", "text,reference\na,b\n", "column 'hypothesis' in a.csv, but got 'text', 'reference'"),
        ("a.csv", "Hypothesis,reference\na,b\n", "did you mean 'Hypothesis'.*--hypothesis-column"),
        ("a.csv", "hypothesis,hypothesis\na,b\n", "one column 'hypothesis'"),
        ("a.csv", "hypothesis,reference\na\n", "2 fields as in the header, but got 1 in line 2"),
        ("a.json", '[{"hypothesis": NaN}]', "Expected text in column 'hypothesis' of a.json, element 1, but got nan"),
        ("a.json", '[{"hypothesis": "a"}, {"reference": "b"}]', "element 2, but got nothing"),
        ("a.json", '[{"hypothesis": "a", "reference": 4}]', "column 'reference'.*but got 4"),
        ("a.json", '[{"hypothesis": "\\ud800"}]', "half a surrogate"),
        (
            "a.json",
            '[{"hypothesis": "a", "note": "\\ud800"}]',
            "column 'note' of a.json, element 1, but got half a surrog",
        ),
        ("a.json", '[{"hypothesis": "a", "source": "\\ud800"}]', "column 'source' of a.json.*half a surrogate"),
        ("a.json", '[{"id": 1, "hypothesis": "a"}, {"id": "1", "hypothesis": "b"}]', "'1' in elements 1 and 2"),
        ("a.json", '[{"id": NaN, "hypothesis": "a"}]', "an id of 1 to 200 characters.*but got nan"),
        ("a.json", '[{"id": "a", "hypothesis": "a"}, {"hypothesis": "b"}]', "element 2, but got nothing"),
        ("a.json", '[{"id": true, "hypothesis": "a"}]', "but got True"),
        ("a.csv", "hypothesis,reference\na,b\na,b\n", "lines 2 and 3 of a.csv are the same"),
        ("a.json", b'[{"hypothesis": "\xfc"}]', "byte 0xfc"),
        ("a.csv", b"hypothesis,reference\n\xfc,b\n", "byte 0xfc in line 2"),
        ("a.xlsx", "x", "ends in .json"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(file, name, content, message):
    with pytest.raises(InputError, match=message) as refusal:
        read_items(file(name, content))
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is none"):
        read_items(tmp_path / "a.json")
    (tmp_path / "b.json").mkdir()
    with pytest.raises(InputError, match="folder"):
        read_items(tmp_path / "b.json")
