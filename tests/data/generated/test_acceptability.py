from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from data_files import all_items, source_of, write_table

from textmover.data import LabelColumns, LabelsDataModule
from textmover.data.generated.acceptability import (
    ACCEPTABILITY,
    UNGRAMMATICAL,
    AcceptabilityDataModule,
    known_words,
    labelled_versions,
)
from textmover.data.split import is_held_back
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
    with pytest.raises(InputError, match="single sentences and the classes unacceptable, acceptable"):
        read(files, labels=labels)
