"""Ready scores: by order or by keys they reach their texts, and whatever does not belong together is named."""

import dataclasses
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from tests.readers.shared import write_lines

from textmover.readers.judgements.metric_scores import read_scores
from textmover.types import InputError, Judgements

KEYS = [("de-en", "1", "A"), ("de-en", "1", "B"), ("de-en", "2", "A"), ("fi-en", "1", "A")]


def judgements(keys=KEYS, *, items: bool = True, systems: bool = True) -> Judgements:
    return Judgements(
        name="mine",
        hypotheses=tuple(f"text {place}" for place in range(len(keys))),
        references=(("reference",),) * len(keys),
        ratings={},
        groups=tuple(group for group, _, _ in keys),
        items=tuple(item for _, item, _ in keys) if items else None,
        systems=tuple(system for _, _, system in keys) if systems else None,
    )


def write(tmp_path: Path, *lines: str, name: str = "bleu.txt") -> Path:
    return write_lines(tmp_path / name, *lines)


def table(tmp_path: Path, *lines: str) -> Path:
    return write(tmp_path, *(line.replace(" ", "\t") for line in lines), name="scores.tsv")


class TestPlain:
    def test_in_order(self, tmp_path):
        found = read_scores(write(tmp_path, "0.1", " -2e-3 ", "NaN", "7", "", ""), judgements())
        np.testing.assert_array_equal(found.scores["bleu"], [0.1, -0.002, math.nan, 7.0])
        assert found.scores["bleu"].dtype == np.float64
        assert found.missing == {"bleu": 1}
        assert list(read_scores(write(tmp_path, *"1234"), judgements(), name="BLEU").scores) == ["BLEU"]


class TestKeys:
    def test_any_order(self, tmp_path):
        rows = [(*key, place, place * 0.1) for place, key in enumerate(KEYS)]
        random.Random(3).shuffle(rows)
        lines = ["\t".join(map(str, row)) for row in rows]
        path = write(tmp_path, "group\titem\tsystem\tchrf\tBLEU 4", *lines, name="scores.tsv")
        found = read_scores(path, judgements())
        assert found.scores["chrf"].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert found.scores["BLEU 4"].tolist() == [place * 0.1 for place in range(4)]
        assert found.missing == {"chrf": 0, "BLEU 4": 0}
        assert list(read_scores(path, judgements(), metrics=["BLEU 4"]).scores) == ["BLEU 4"]

    def test_item_and_system(self, tmp_path):
        path = table(tmp_path, "system item m", "A 2 3", "A 1 1", "B 1 nan")
        np.testing.assert_array_equal(read_scores(path, judgements(KEYS[:3])).scores["m"], [1, math.nan, 3])

    def test_other_names_and_formats(self, tmp_path):
        records = [{"lp": g, "seg_id": int(i), "system": s, "m": float(i)} for g, i, s in reversed(KEYS)]
        records[0]["m"] = math.nan
        path = write(tmp_path, *map(json.dumps, records), name="scores.jsonl")
        found = read_scores(path, judgements(), keys={"group": "lp", "item": "seg_id"})
        np.testing.assert_array_equal(found.scores["m"], [1, 1, 2, math.nan])

    def test_keys_that_stand_in_several_rows_in_order(self, tmp_path):
        keys = [("g", "1", "A"), ("g", "1", "A"), ("g", "2", "A")]
        path = table(tmp_path, "item system m", "1 A 3", "1 A 4", "2 A 5")
        assert read_scores(path, judgements(keys)).scores["m"].tolist() == [3, 4, 5]


class TestTablesInOrder:
    def test_columns(self, tmp_path):
        found = read_scores(table(tmp_path, "a b", "1 5", "2 6", "3 nan", "4 8"), judgements())
        assert found.scores["a"].tolist() == [1, 2, 3, 4]
        assert found.missing == {"a": 0, "b": 1}

    def test_what_there_is_of_keys_is_compared(self, tmp_path):
        lines = [f"{system} {group} 1" for group, _, system in KEYS]
        assert list(read_scores(table(tmp_path, "system group a", *lines), judgements()).scores) == ["a"]

    def test_texts_and_ratings_of_our_own_tables_are_no_scores(self, tmp_path):
        header = "hypothesis reference reference_2 source human_score human_fluency m referenced"
        lines = ["\t".join((f"text {place}", "reference", "", "d", "1", "2", "3", "4")) for place in range(4)]
        path = write(tmp_path, header.replace(" ", "\t"), *lines, name="scores.tsv")
        assert list(read_scores(path, judgements()).scores) == ["m", "referenced"]
        assert list(read_scores(path, judgements(), metrics=["human_score"]).scores) == ["human_score"]

    @pytest.mark.parametrize("column", ["hypothesis", "reference", "reference_2", "source", "human_score"])
    @pytest.mark.parametrize("keyed", [False, True])
    def test_what_contradicts_the_set_is_refused(self, tmp_path, column, keyed):
        """A table that says which text a row is of is in the order that its texts say."""
        cells = {
            "hypothesis": [f"text {place}" for place in range(4)],
            "reference": ["r a", "r b", "caf\u00e9", "r\td"],
            "reference_2": ["s0", "", "s2", "s3"],
            "source": ["q0", "q1", "q2", "q3"],
            "human_score": [1.5, math.nan, 1 / 3, 4],
        }
        pairs = zip(cells["reference"], cells["reference_2"], strict=True)
        references = tuple(tuple(filter(None, pair)) for pair in pairs)
        ratings = {"score": np.array(cells["human_score"])}
        of_set = dataclasses.replace(
            judgements(), references=references, ratings=ratings, sources=tuple(cells["source"])
        )
        rows = [{"m": place, **{name: values[place] for name, values in cells.items()}} for place in range(4)]
        if keyed:
            rows = [
                {**row, **dict(zip(("group", "item", "system"), key, strict=True))}
                for row, key in zip(rows, KEYS, strict=True)
            ]
            rows.reverse()
        rows[1] = {**rows[1], "reference": rows[1]["reference"].replace("\u00e9", "e\u0301") + " "}  # another spelling
        path = tmp_path / "scores.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert read_scores(path, of_set).scores["m"].tolist() == [0, 1, 2, 3]
        first, last = rows[0][column], rows[3][column]
        rows[0], rows[3] = {**rows[0], column: last}, {**rows[3], column: first}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        line = 4 if keyed else 1
        with pytest.raises(
            InputError, match=rf"in column '{column}' of .*scores.jsonl, line {line}, as in mine, but got"
        ):
            read_scores(path, of_set)


ROWS = "group item system m|"
REFUSED = [
    *(("1|" * count, {}, rf"Expected 4 scores in .*scores\.txt, one for each text of mine, but got {count}: give")
      for count in (3, 5)),
    ("1|1|1|1|", {"metrics": ["a"]}, r"a table to take columns of, but got the plain file .*scores\.txt"),
    *((f"1|{text}|3|4|", {}, rf"number.* or nan in line 2 of .*scores\.txt, but got '{text}': .*write nan")
      for text in ("", "inf", "-inf", "n/a", "1 2", "null", "1e999")),
    ("m|1|1|", {}, r"Expected 4 scores in .*scores\.tsv, .*, but got 2"),
    ("m|1|1|1|1|", {"name": "b"}, r"a plain file to give a `name`, but got the table .*scores\.tsv"),
    ("m|1|1|1|1|", {"metrics": ["b"]}, r"column 'b' in .*, but got 'm': .*set `metrics`"),
    ("m m|1 1|1 1|1 1|1 1|", {}, r"one column 'm' in .*scores\.tsv, but got 2"),
    ("system|A|B|A|A|", {}, r"scores\.tsv to have a column of scores, but got 'system'"),
    ("lp seg_id m|a 1 2|a 1 2|a 1 2|a 1 2|", {}, r"column 'lp' of .*name those that do with `metrics`, and those of"),
    ("system item m|A 2 3|A 1 1|B 1 nan|", {}, r"apart, but got 2 texts for item '1', system 'A': add a column of the"),
    ("item m|1 1|", {"keys": {"item": "segment"}}, r"column 'segment' in .*, .*set `keys\['item'\]` to the name"),
    ("item m|1 1|", {"keys": {"segment": "item"}}, "`keys` to name columns of group, item, system, but got 'segment'"),
    (f"{ROWS}de-en 1 A 1|de-en 9 A 1|", {}, r"text of mine in line 3 .* group 'de-en', item '9', system 'A': correct"),
    (f"{ROWS}de-en 1 B 1|de-en 1 A 1|de-en 1 B 1|", {}, r"one row for group 'de-en', item '1', system 'B', .* line 4"),
    (f"{ROWS}fi-en 1 A 1|de-en 1 A 1|", {}, r"but got none for 2, the first group 'de-en', item '1', system 'B'"),
    ("system group m|B de-en 1|A de-en 1|A de-en 1|A fi-en 1|", {}, r"system 'A' in line 2 of .*, the order of mine"),
    *((f"a m|A 1|A {text}|A 1|A 1|", {"metrics": ["m"]}, rf"nan in column 'm' of .*, line 3, but got '{text}'")
      for text in ("", "inf", "n/a")),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "options", "message"), REFUSED)
def test_what_does_not_belong_to_the_set_is_refused(tmp_path, rows, options, message):
    """Rows of a plain file where the first one is a number, and of a table else."""
    lines = rows.removesuffix("|").split("|")
    path = table(tmp_path, *lines) if lines[0][0].isalpha() else write(tmp_path, *lines, name="scores.txt")
    with pytest.raises(InputError, match=message):
        read_scores(path, judgements(), **options)


def test_keys_that_the_set_does_not_have(tmp_path):
    with pytest.raises(InputError, match=r"scores\.tsv without the column 'item', since mine names no items"):
        read_scores(table(tmp_path, "item m", "0 1"), judgements(items=False))


@pytest.mark.parametrize("value", [None, True, [1.0]])
def test_values_of_json_that_are_no_scores(tmp_path, value):
    path = write(tmp_path, json.dumps({"item": "1", "m": value}), name="scores.jsonl")
    with pytest.raises(InputError, match=r"nan in column 'm' of .*scores\.jsonl, line 1, but got"):
        read_scores(path, judgements([("g", "1", "")], systems=False))


def test_names_match_as_they_are_written_and_others_show_their_code_points(tmp_path):
    of_set = judgements([("g", "a\tb", "x\ny"), ("g", "caf\u00e9", "z")])
    found = read_scores(write(tmp_path, "item\tsystem\tm", "caf\u00e9\tz\t2", "a b\tx y\t1", name="s.tsv"), of_set)
    assert found.scores["m"].tolist() == [1, 2]
    decomposed = write(tmp_path, "item\tsystem\tm", "cafe\u0301\tz\t2", "a b\tx y\t1", name="s.tsv")
    with pytest.raises(InputError, match=r"item 'cafe\u0301' \('cafe\\u0301'\), system 'z': correct"):
        read_scores(decomposed, of_set)
