"""Ready scores: by order or by keys they reach their texts, and whatever does not belong together is named."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

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
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def table(tmp_path: Path, *lines: str) -> Path:
    return write(tmp_path, *(line.replace(" ", "\t") for line in lines), name="scores.tsv")


class TestPlain:
    def test_in_order(self, tmp_path):
        found = read_scores(write(tmp_path, "0.1", " -2e-3 ", "NaN", "7", "", ""), judgements())
        np.testing.assert_array_equal(found.scores["bleu"], [0.1, -0.002, math.nan, 7.0])
        assert found.scores["bleu"].dtype == np.float64
        assert found.missing == {"bleu": 1}
        assert list(read_scores(write(tmp_path, *"1234"), judgements(), name="BLEU").scores) == ["BLEU"]

    @pytest.mark.parametrize("count", [3, 5])
    def test_counts(self, tmp_path, count):
        message = rf"Expected 4 scores in .*bleu\.txt, one for each text of mine, but got {count}: give one a line"
        with pytest.raises(InputError, match=message):
            read_scores(write(tmp_path, *["1"] * count), judgements())

    @pytest.mark.parametrize("text", ["", "inf", "-inf", "n/a", "0,5", "1 2", "null", "1e999"])
    def test_refused(self, tmp_path, text):
        with pytest.raises(
            InputError,
            match=rf"number \(at most 1e\+15 in size\) or nan in line 2 of .*bleu\.txt, but got '{text}': .*write nan",
        ):
            read_scores(write(tmp_path, "1", text, "3", "4"), judgements())

    def test_arguments_of_tables(self, tmp_path):
        path = write(tmp_path, *"1234")
        with pytest.raises(InputError, match=r"a table to take columns of, but got the plain file .*bleu\.txt"):
            read_scores(path, judgements(), metrics=["a"])
        with pytest.raises(InputError, match=r"a plain file to give a `name`, but got the table .*scores\.tsv"):
            read_scores(table(tmp_path, "a", *"1234"), judgements(), name="b")


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
        message = r"tell the texts of mine apart, but got 2 texts for item '1', system 'A': add a column of the group"
        with pytest.raises(InputError, match=message):
            read_scores(path, judgements())

    def test_item_alone(self, tmp_path):
        path = table(tmp_path, "item m", "2 5", "1 4")
        found = read_scores(path, judgements([("g", "1", ""), ("g", "2", "")], systems=False))
        assert found.scores["m"].tolist() == [4.0, 5.0]

    def test_other_names_and_formats(self, tmp_path):
        records = [{"lp": g, "seg_id": int(i), "system": s, "m": float(i)} for g, i, s in reversed(KEYS)]
        records[0]["m"] = math.nan
        path = write(tmp_path, *map(json.dumps, records), name="scores.jsonl")
        found = read_scores(path, judgements(), keys={"group": "lp", "item": "seg_id"})
        np.testing.assert_array_equal(found.scores["m"], [1, 1, 2, math.nan])
        with pytest.raises(
            InputError, match=r"column 'segment' in .*scores\.jsonl, .*set `keys\['item'\]` to the name"
        ):
            read_scores(path, judgements(), keys={"item": "segment"})
        with pytest.raises(InputError, match="`keys` to name columns of group, item, system, but got 'segment'"):
            read_scores(path, judgements(), keys={"segment": "item"})

    def test_keys_that_stand_in_several_rows_in_order(self, tmp_path):
        keys = [("g", "1", "A"), ("g", "1", "A"), ("g", "2", "A")]
        path = table(tmp_path, "item system m", "1 A 3", "1 A 4", "2 A 5")
        assert read_scores(path, judgements(keys)).scores["m"].tolist() == [3, 4, 5]

    def test_unknown(self, tmp_path):
        path = table(tmp_path, "group item system m", "de-en 1 A 1", "de-en 9 A 1")
        message = (
            r"a text of mine in line 3 of .*scores\.tsv, but got group 'de-en', item '9', system 'A': correct the row"
        )
        with pytest.raises(InputError, match=message):
            read_scores(path, judgements())

    def test_repeated(self, tmp_path):
        path = table(tmp_path, "group item system m", "de-en 1 B 1", "de-en 1 A 1", "de-en 1 B 1")
        message = (
            r"one row for group 'de-en', item '1', system 'B', but got line 2 of .*scores\.tsv and line 4 of .*remove"
        )
        with pytest.raises(InputError, match=message):
            read_scores(path, judgements())

    def test_missing(self, tmp_path):
        path = table(tmp_path, "group item system m", "fi-en 1 A 1", "de-en 1 A 1")
        message = (
            r"a score in .*scores\.tsv for every text of mine, but got none for 2, the first group 'de-en', item '1', "
        )
        with pytest.raises(InputError, match=message + "system 'B': add them, with nan"):
            read_scores(path, judgements())

    def test_keys_that_the_set_does_not_have(self, tmp_path):
        path = table(tmp_path, "item m", *(f"{place} 1" for place in range(4)))
        with pytest.raises(InputError, match=r"scores\.tsv without the column 'item', since mine names no items"):
            read_scores(path, judgements(items=False))

    @pytest.mark.parametrize("text", ["", "inf", "n/a"])
    def test_scores_refused(self, tmp_path, text):
        path = table(tmp_path, "item m", "1 1", f"2 {text}")
        with pytest.raises(InputError, match=rf"nan in column 'm' of .*scores\.tsv, line 3, but got '{text}'"):
            read_scores(path, judgements([("g", "1", ""), ("g", "2", "")], systems=False))

    @pytest.mark.parametrize("value", [None, True, [1.0]])
    def test_json_refused(self, tmp_path, value):
        path = write(tmp_path, json.dumps({"item": "1", "m": value}), name="scores.jsonl")
        with pytest.raises(InputError, match=r"nan in column 'm' of .*scores\.jsonl, line 1, but got"):
            read_scores(path, judgements([("g", "1", "")], systems=False))


class TestTablesInOrder:
    def test_columns(self, tmp_path):
        found = read_scores(table(tmp_path, "a b", "1 5", "2 6", "3 nan", "4 8"), judgements())
        assert found.scores["a"].tolist() == [1, 2, 3, 4]
        assert found.missing == {"a": 0, "b": 1}

    def test_count(self, tmp_path):
        with pytest.raises(InputError, match=r"Expected 4 scores in .*scores\.tsv, .*, but got 2"):
            read_scores(table(tmp_path, "a", "1", "2"), judgements())

    def test_what_there_is_of_keys_is_compared(self, tmp_path):
        lines = [f"{system} {group} 1" for group, _, system in KEYS]
        assert list(read_scores(table(tmp_path, "system group a", *lines), judgements()).scores) == ["a"]
        lines[1], lines[0] = lines[0], lines[1]
        message = (
            r"Expected group 'de-en', system 'A' in line 2 of .*, the order of mine, but got group 'de-en', system 'B'"
        )
        with pytest.raises(InputError, match=message):
            read_scores(table(tmp_path, "system group a", *lines), judgements())

    def test_no_scores(self, tmp_path):
        with pytest.raises(InputError, match=r"scores\.tsv to have a column of scores, but got 'system'"):
            read_scores(table(tmp_path, "system", *(system for _, _, system in KEYS)), judgements())
        with pytest.raises(InputError, match=r"column 'b' in .*, but got 'a': .*set `metrics`"):
            read_scores(table(tmp_path, "a", *"1234"), judgements(), metrics=["b"])

    def test_texts_and_ratings_of_our_own_tables_are_no_scores(self, tmp_path):
        header = "hypothesis reference reference_2 source human_score human_fluency m referenced"
        path = table(tmp_path, header, *["a b c d 1 2 3 4"] * 4)
        assert list(read_scores(path, judgements()).scores) == ["m", "referenced"]
        assert list(read_scores(path, judgements(), metrics=["human_score"]).scores) == ["human_score"]

    def test_column_that_is_none_of_scores(self, tmp_path):
        path = table(tmp_path, "lp seg_id m", *["de-en 1 2"] * 4)
        with pytest.raises(InputError, match=r"in column 'lp' .*name those that do with `metrics`, and those of keys"):
            read_scores(path, judgements())

    def test_column_that_stands_twice(self, tmp_path):
        with pytest.raises(InputError, match=r"one column 'a' in .*scores\.tsv, but got 2"):
            read_scores(table(tmp_path, "a a", *["1 2"] * 4), judgements())
