"""Descriptions of sets of marked errors."""

import pytest

from textmover.readers.error_spans import MarkedColumns, marked_description
from textmover.types import InputError


def described(tmp_path, text):
    path = tmp_path / "set.yaml"
    path.write_text(text)
    return marked_description(path)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("tags: t\nwords: w\n", MarkedColumns(tags="t", words="w")),
        ("spans: errors\nreferences: []\nsource: src\n", MarkedColumns(spans="errors", references=(), source="src")),
        (
            "marked: target\nseverity: s\nsegment: [system, id]\nreferences: [a, b]\n",
            MarkedColumns(marked="target", severity="s", segment=("system", "id"), references=("a", "b")),
        ),
        ("tags: t\nsource: null\ngroups: lp\n", MarkedColumns(tags="t", groups=("lp",))),
    ],
)
def test_keys_are_the_fields_of_the_columns(tmp_path, text, columns):
    found = described(tmp_path, text)
    assert found.columns.fields == columns.fields


def test_keys_of_the_set(tmp_path):
    found = described(
        tmp_path, "name: Dev\nabout: a set\ntags: t\nwhere: {part: dev, year: 2020}\nunusable: leave out\n"
    )
    assert (found.name, found.about, found.unusable) == ("Dev", "a set", "leave out")
    assert found.where == {"part": ("dev",), "year": ("2020",)}


@pytest.mark.parametrize("text", ["ratings: score\n", "- a list\n", "based_on: wmt-da\n", "spans: null\n"])
def test_others_are_not_descriptions_of_marked_errors(tmp_path, text):
    assert described(tmp_path, text) is None
    assert marked_description("wmt-da") is None
    assert marked_description(None) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tags: t\nword: w\n", "keys of .*set.yaml to be among hypothesis, .*, but got 'word': did you mean 'words'?"),
        ("tags: t\nratings: score\n", "but got 'ratings'"),
        ("tags: 3\n", "`tags` of .*set.yaml to be text, but got 3"),
        ("tags: t\nhypothesis: null\n", "`hypothesis` of .* to be text, but got null"),
        ("tags: t\nwhere: dev\n", "`where` of .* to be columns with their values, but got 'dev'"),
        ("tags: t\nunusable: keep\n", "`unusable` of .*set.yaml to be 'error' or 'leave out', but got 'keep'"),
        ("tags: t: u\n", "set.yaml"),
    ],
)
def test_bad_input(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        described(tmp_path, text)
