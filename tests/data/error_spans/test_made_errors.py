"""Made errors stand where the damage is."""

from collections import Counter

import pytest

from data_files import source_of, write_table
from textmover.data import MadeErrorsDataModule
from textmover.data.error_spans.made_errors import CLEAN, WRONG, errors_between, made_errors
from textmover.data.generated.contrasts import RewordedFile
from textmover.types import InputError
from textmover.types.error_spans import TextErrors

TEXT = "The old lake was frozen in 1986, said Anna Smith."


@pytest.mark.parametrize(
    ("damaged", "marked"),
    [
        (TEXT, TEXT),
        ("The old lake was frozen in 1912, said Anna Smith.", "The old lake was frozen in [1912], said Anna Smith."),
        (
            "The old lake was not frozen in 1986, said Anna Smith.",
            "The old lake was [not] frozen in 1986, said Anna Smith.",
        ),
        ("The lake was frozen in 1986, said Anna.", "The[] lake was frozen in 1986, said Anna[]."),
        ("Old lake was frozen in 1986, said Anna Smith.", "[]Old lake was frozen in 1986, said Anna Smith."),
        ("The old lake was frozen in 1986, said Bob.", "The old lake was frozen in 1986, said [Bob]."),
        ("The young sea was frozen in 1986, said Anna Smith.", "The [young sea] was frozen in 1986, said Anna Smith."),
        ("The old lake.", "The old lake[]."),
        ("Go!", "[Go!]"),
        ("", ""),
    ],
)
def test_places_of_errors(damaged, marked):
    assert TextErrors(damaged, errors_between(TEXT, damaged)).marked() == marked


def test_an_article_that_follows_its_word_is_no_error():
    assert TextErrors("", errors_between("It was a big house.", "It was an old house.")).spans[0].start == 10


ADJECTIVES, NAMES = ("big", "beautiful", "old", "strange"), ("Paris", "London", "Berlin", "Rome")
TEXTS = [
    f"In {NAMES[number % 4]} there was a {ADJECTIVES[number // 4 % 4]} house with {number // 8 + 3} rooms, and people "
    f"said it could be seen from {NAMES[(number + 1 + number // 32) % 4]}."
    for number in range(64)
]


def test_every_kind_marks_its_damage_alone():
    found = made_errors(TEXTS, dict.fromkeys((*WRONG, *CLEAN), 1.0), 4, 0)
    kinds = Counter(one.groups["kind"] for one in found)
    assert set(kinds) == {*WRONG, *CLEAN}
    assert min(kinds.values()) > 0.5 * max(kinds.values())
    for one in found:
        assert bool(one.errors) == (one.groups["kind"] in WRONG)
        assert one.graded
        assert one.groups["reference"] == "given"
        parts = [one.hypothesis[error.start : error.end] for error in one.errors]
        if one.groups["kind"] == "number":
            assert all(any(map(str.isdigit, part)) for part in parts)
        if one.groups["kind"] in ("drop", "truncate"):
            assert set(parts) == {""}
        if one.groups["kind"] in ("insert", "entity", "replace", "repeat"):
            assert "" not in parts


def test_versions_follow_from_the_seed():
    types = {"number": 1.0, "identity": 1.0}
    found = made_errors(TEXTS, types, 1, 0, 0.5)
    assert found == made_errors(TEXTS, types, 1, 0, 0.5) != made_errors(TEXTS, types, 1, 1, 0.5)
    assert Counter(one.groups["kind"] for one in found) == {"number": 32, "identity": 32}
    reworded = [one for one in found if one.groups["reference"] == "paraphrase"]
    assert 15 < len(reworded) < 50
    assert not {one.references[0] for one in reworded} & set(TEXTS)


@pytest.fixture
def texts(tmp_path) -> list[str]:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return [str(path)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"swap": 1.0}}, r"weights of at least 0 to number, .*, but got swap: 1\.0"),
        ({"paraphrased": 2.0}, r"`paraphrased` to be between 0 and 1, but got 2\.0"),
        ({"words": (90, 99)}, "at least 3 texts in the training part, but got 0"),
        ({"types": {"identity": 1.0}}, "texts with errors in the training part"),
    ],
)
def test_options_that_cannot_be_used_are_named(texts, options, message):
    with pytest.raises(InputError, match=message):
        MadeErrorsDataModule(texts, **options).setup()


def test_rewordings_of_people_are_the_references(tmp_path):
    others = [f"In 1986 ice covered the old lake number {n}." for n in range(30)]
    rows = (f"The old lake number {n} was frozen in 1986.\t{other}" for n, other in enumerate(others))
    pairs = [RewordedFile(write_table(tmp_path / "pairs.tsv", "text\tother", rows), ("text", "other"))]
    items = source_of(MadeErrorsDataModule(pairs=pairs, types={"identity": 1, "number": 1}, held_back=0.2)).items
    by_kind = {one.groups["kind"]: one for one in items}
    assert by_kind["identity"].errors == ()
    assert by_kind["number"].errors != ()
    assert {one.references[0] for one in items} <= set(others)
    with pytest.raises(InputError, match="`texts` or `pairs`"):
        MadeErrorsDataModule()
