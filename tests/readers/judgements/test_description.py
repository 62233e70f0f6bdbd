"""Descriptions: YAML gives the fields, and whatever is wrong is named with file and key."""

import dataclasses
import re
from pathlib import Path

import pytest

from textmover.readers.error_spans import marked_description
from textmover.readers.judgements.description import (
    FIELDS,
    KEYS,
    SetDescription,
    built_in_descriptions,
    load_description,
)
from textmover.types import InputError

EVERY_KEY = """
name: Mine
about: A line
hypothesis: output
references: [first, second]
ratings: {fluency: flu, errors: err}
lower_is_better: errors
groups: [year, task]
item: document
system: model
source: article
scores: {BLEU: bleu}
where: {split: [dev, test], year: 2017}
leave_out: {output: ["", "null"]}
optional: article
missing_ratings: keep
missing_references: leave out
duplicates: keep
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


class TestYaml:
    def test_every_key(self, tmp_path):
        assert load_description(write(tmp_path, EVERY_KEY)) == SetDescription(
            name="Mine",
            about="A line",
            hypothesis="output",
            references=("first", "second"),
            ratings={"fluency": "flu", "errors": "err"},
            lower_is_better=("errors",),
            groups=("year", "task"),
            item="document",
            system="model",
            source="article",
            scores={"BLEU": "bleu"},
            where={"split": ("dev", "test"), "year": ("2017",)},
            leave_out={"output": ("", "null")},
            optional=("article",),
            missing_ratings="keep",
            missing_references="leave out",
            duplicates="keep",
        )
        assert {line.split(":")[0] for line in EVERY_KEY.split("\n") if line} == set(FIELDS)
        assert set(KEYS) == {*FIELDS, "based_on"}

    def test_based_on_a_built_in_one(self, tmp_path):
        found = load_description(write(tmp_path, "based_on: wmt-da\nitem: sid\nmissing_ratings: keep"))
        assert found == dataclasses.replace(
            load_description("wmt-da"), item="sid", missing_ratings="keep", optional=("system", "source")
        )
        assert found.place("item") == f"`item` of {tmp_path / 'mine.yaml'}"
        assert load_description(write(tmp_path, "based_on: sts\noptional: year")).optional == ("year",)
        for value in ("mine", "[sts]"):
            with pytest.raises(InputError, match=r"Expected `based_on` of .*mine\.yaml to be bagel, .*: choose one"):
                load_description(write(tmp_path, f"based_on: {value}"))

    def test_short_forms(self, tmp_path):
        found = load_description(write(tmp_path, "references: r\nratings: stars\nscores: [bleu, chrf]\nitem: null\n"))
        assert found.references == ("r",)
        assert found.ratings == {"score": "stars"}
        assert found.scores == {"bleu": "bleu", "chrf": "chrf"}
        assert found.item is None
        assert load_description(write(tmp_path, "ratings: [a, b]")).ratings == {"a": "a", "b": "b"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "refrences: r",
                r"keys of .*mine\.yaml to be among name, .*, but got 'refrences': did you mean 'references'",
            ),
            ("17: r", r"keys of .*mine\.yaml to be among name, .*, but got 17: remove it"),
            ("origin: r", "but got 'origin'"),
            ("hypothesis: 3", r"Expected `hypothesis` of .*mine\.yaml to be text, but got 3:"),
            ("hypothesis: null", "Expected `hypothesis` of .* to be text, but got null:"),
            ("references: [a, [b]]", "Expected `references` of .* to be text, but got a list:"),
            ("references: []", "Expected `references` of .* to name at least one column, but got none:"),
            ("ratings: {}", "Expected `ratings` of .* to name at least one column, but got none:"),
            ("ratings: {a: 1}", "Expected `ratings` of .* to be text, but got 1:"),
            ("lower_is_better: b", "`lower_is_better` of .* to name a dimension of `ratings`, but got 'b'.*'score'"),
            ("optional: b", "Expected `optional` of .*, but got 'b': choose among none"),
            ("where: split", "Expected `where` of .* to be columns with their values, but got 'split':"),
            (
                "leave_out: {hypothesis: null}",
                "values of 'hypothesis' in `leave_out` of .* but got null: put it in quot",
            ),
            ("where: {human: no}", "values of 'human' in `where` of .* but got false: put it in quotation marks"),
            ("duplicates: leave out", "Expected `duplicates` of .* to be 'error' or 'keep', but got 'leave out'"),
            ("item: a.*.b", r"Expected `item` of .* to be one value, but got 'a\.\*\.b'"),
            ("item: a..b", r"Expected `item` of .* to name columns, but got 'a\.\.b'"),
            ("- a", "to hold keys with values, but got \\['a'\\]:"),
            ("", "to hold keys with values, but got nothing:"),
            ("a: [b\nc: d", r"Expected .*mine\.yaml to be YAML, but got '.*' in line 2: correct it"),
        ],
    )
    def test_refused(self, tmp_path, text, message):
        with pytest.raises(InputError, match=message) as caught:
            load_description(write(tmp_path, text))
        assert "mine.yaml" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_no_such_file(self, tmp_path):
        with pytest.raises(InputError, match=r"description \(bagel, .*\) or a YAML file, but got 'wmt-ad': did you"):
            load_description("wmt-ad")
        with pytest.raises(InputError, match=r"no\.yaml': correct the name or the path"):
            load_description(tmp_path / "no.yaml")
        with pytest.raises(InputError, match="got the folder"):
            load_description(tmp_path)


class TestDescription:
    def test_columns_name_what_they_are_for(self):
        found = SetDescription(groups=("lp",), item="seg", where={"split": ("test",), "lp": ("de-en",)})
        assert found.columns == {
            "hypothesis": "hypothesis",
            "reference": "references",
            "score": "ratings",
            "lp": "groups",
            "seg": "item",
            "split": "where",
        }

    @pytest.mark.parametrize("fields", [{"references": ()}, {"hypothesis": ""}, {"duplicates": "yes"}, {"ratings": {}}])
    def test_refused_in_code(self, fields):
        with pytest.raises(InputError, match=f"Expected `{next(iter(fields))}` of the description to"):
            SetDescription(**fields)


class TestBuiltIn:
    def test_all_load(self):
        found = built_in_descriptions()
        assert {"wmt-da", "sts", "stsb", "sick", "webnlg", "bagel", "sfhotel", "summeval", "table"} <= set(found)
        assert all(one.about for one in found.values())
        assert all(one.origin == f"the built-in description {name}" for name, one in found.items())

    def test_every_one_is_documented(self):
        page = (Path(__file__).parents[3] / "docs" / "judgement-sets.md").read_text(encoding="utf-8")
        assert [name for name in built_in_descriptions() if f"`{name}`" not in page] == []

    def test_keys_in_the_documentation_exist(self, tmp_path):
        page = (Path(__file__).parents[3] / "docs" / "judgement-sets.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
        assert blocks
        for block in blocks:
            path = write(tmp_path, block)
            assert marked_description(path) or load_description(path)
        assert [key for key in KEYS if f"`{key}`" not in page] == []
