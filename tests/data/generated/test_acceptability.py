import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from data_files import all_items, source_of, write_table
from textmover.data import LabelColumns, LabelsDataModule
from textmover.data.generated.acceptability import (
    ACCEPTABILITY,
    CONFUSED,
    UNGRAMMATICAL,
    AcceptabilityDataModule,
    known_words,
    labelled_versions,
    ungrammatical,
)
from textmover.data.split import is_held_back
from textmover.perturbations.editable_sentences import Phrase, WordPool
from textmover.types import InputError

ALL = dict.fromkeys(UNGRAMMATICAL, 1.0)


@pytest.fixture
def people(tmp_path: Path) -> str:
    rows = (f"{number % 3 and 1}\tSentence {number} of people." for number in range(90))
    return write_table(tmp_path / "cola.tsv", "label\tsentence", rows)


def read(files, **options):
    return source_of(AcceptabilityDataModule(files, **{"held_back": 0.2, **options}))


def test_each_sentence_is_acceptable_and_its_version_is_not(files):
    source = read(files)
    items = all_items(source)
    assert source.classes == ACCEPTABILITY == ("unacceptable", "acceptable")
    plain = {one.texts[0] for one in items if one.label == 1}
    damaged = {one.texts[0] for one in items if one.label == 0}
    assert not plain & damaged
    assert len(plain) == 200
    assert len(damaged) > 190
    assert all((one.label == 1) == (one.groups["damage"] == "none") for one in items)


def test_the_held_back_part_goes_by_the_hash_of_the_plain_sentence(files):
    source = read(files, bare=0.0)
    for held, part in ((False, source.items), (True, source.parts["held-back"])):
        assert all(is_held_back(one.texts[0], 0.2) is held for one in part if one.label == 1)


def test_a_sentence_and_its_version_lose_their_end_mark_together(sentences):
    made = labelled_versions(sentences, ALL, seed=1, bare=0.5)
    ends = [(one.texts[0].endswith("."), two.texts[0].endswith(".")) for one, two in pairwise(made) if two.label == 0]
    assert set(ends) == {(True, True), (False, False)}
    assert 0.3 < sum(first for first, _ in ends) / len(ends) < 0.7
    assert all(one.texts[0].endswith(".") for one in labelled_versions(sentences, ALL, seed=1))


def test_kinds_come_by_their_weights(files):
    source = read(files, kinds={"swap": 9.0, "spare": 1.0, "looped": 0.0})
    kinds = Counter(one.groups["damage"] for one in source.items if one.label == 0)
    assert set(kinds) == {"swap", "spare"}
    assert kinds["swap"] > 4 * kinds["spare"]


def test_other_forms_are_words_of_the_files(files, sentences):
    known = known_words(sentences)
    source = read(files, kinds={"inflected": 1.0, "swap": 0.2})
    forms = {w for one in source.items if one.groups["damage"] == "inflected" for w in known_words(one.texts)}
    assert forms <= known


def test_labels_of_people_are_trained_on_beside_them_and_judged_apart(files, people):
    labels = LabelsDataModule([people], "cola", held_back=0.2)
    source = read(files, labels=labels)
    alone = read(files)
    (theirs,) = labels.read()
    assert source.items == [*theirs.items, *alone.items]
    assert source.parts == {"held-back": theirs.parts["held-back"], "damaged": alone.parts["held-back"]}
    assert source.describe()["training files"] == people
    assert "200 of sentences.txt" in source.describe()["plain sentences"]


def test_other_labels_are_refused(files, tmp_path):
    path = write_table(tmp_path / "pairs.tsv", "a\tb\tlabel", (f"One {n}.\tTwo {n}.\t{n % 2}" for n in range(60)))
    labels = LabelsDataModule([path], columns=LabelColumns(("a", "b"), "label"), labels=["no", "yes"])
    with pytest.raises(InputError, match="single sentences of the classes unacceptable, acceptable"):
        read(files, labels=labels)


# --- damage that breaks grammar: by hand where it can be foretold, by laws elsewhere ----------------------------------


TEXTS = [
    "The old teacher is helping her students in the garden.",
    "I don't know what they have seen at the harbour.",
    "Nora walked to the station, and he was waiting there.",
    "Are these the letters that you wanted to send?",
]
KNOWN = {"teachers", "student", "helped", "helps", "walk", "walks", "walking", "letter", "wants", "stations", "waited"}
SEEDS = range(40)


def versions(text: str, kind: str, **options) -> list[str]:
    made = (ungrammatical(text, kind, seed=seed, pool=WordPool(TEXTS), **options) for seed in SEEDS)
    return [one for one in made if one is not None]


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
@pytest.mark.parametrize("text", TEXTS)
def test_a_version_differs_in_more_than_case_and_keeps_the_end_mark_and_the_capital(kind, text):
    made = versions(text, kind)
    assert len(made) > 30
    for one in made:
        assert one.casefold() != text.casefold()
        assert one[-1] == text[-1]
        assert one[0].isupper()
        assert "  " not in one


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
def test_it_follows_from_the_arguments_and_seeds_differ(kind):
    first, again = (versions(TEXTS[0], kind) for _ in range(2))
    assert first == again
    assert len(set(first)) > 3


def test_function_words_are_left_out_and_nothing_else():
    for text in TEXTS:
        for one in versions(text, "lacking"):
            gone = Counter(words(text)) - Counter(words(one))
            assert not Counter(words(one)) - Counter(words(text))
            assert 1 <= sum(gone.values()) <= 2
            assert not set(gone) & {"teacher", "students", "garden", "harbour", "station", "letters", "walked"}


def test_spare_words_are_added_and_none_is_lost():
    for text in TEXTS:
        for one in versions(text, "spare"):
            assert not Counter(words(text)) - Counter(words(one))
            assert 1 <= len(words(one)) - len(words(text)) <= 2


def test_confused_words_are_of_one_family():
    families = [set(family) for family in CONFUSED]
    for text in TEXTS:
        for one in versions(text, "confused"):
            changed = [(old, new) for old, new in zip(words(text), words(one), strict=True) if old != new]
            assert 1 <= len(changed) <= 2
            assert all(any({old, new} <= family for family in families) for old, new in changed)


def test_other_forms_are_known_words():
    found = set()
    for text in TEXTS:
        for one in versions(text, "inflected", known=KNOWN):
            found |= set(words(one)) - set(words(text))
    assert found <= KNOWN
    assert len(found) > 4
    assert versions(TEXTS[0], "inflected", known=frozenset()) == []


def test_moved_and_swapped_words_stay_the_same_words():
    for kind in ("moved", "swap"):
        for text in TEXTS:
            assert all(Counter(words(one)) == Counter(words(text)) for one in versions(text, kind))


def test_a_loop_says_one_or_two_words_over_and_over():
    for text in TEXTS:
        for one in versions(text, "looped"):
            said = words(one)
            assert any(
                said[at : at + width] == said[at + width : at + 2 * width]
                for width in (1, 2)
                for at in range(len(said))
            )


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
@pytest.mark.parametrize("text", ["", "Stop!", "🙂", "42"])
def test_too_little_text_is_left_alone_or_broken_without_an_error(kind, text):
    made = versions(text, kind)
    assert all(one.casefold() != text.casefold() for one in made)
    if kind in ("moved", "swap", "drop", "lacking", "looped", "spare"):
        assert made == []


def test_a_function_sees_its_degree():
    phrase, pool = Phrase.parse(TEXTS[0], WordPool(TEXTS)), WordPool(TEXTS)
    function, _ = UNGRAMMATICAL["lacking"]
    assert len(function(phrase, 2, Random(1), pool).touched) == 2
    assert function(phrase, 9, Random(1), pool) is None
