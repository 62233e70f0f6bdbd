import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from textmover.data import LabelColumns, LabelsDataModule
from textmover.data.generated.acceptability import (
    ACCEPTABILITY,
    AcceptabilityDataModule,
    known_words,
    labelled_versions,
)
from textmover.data.generated.ungrammatical import UNGRAMMATICAL
from textmover.data.split import is_held_back
from textmover.types import InputError

NOUNS = ["harbour", "ladder", "soup", "garden", "letter", "bridge", "candle", "winter", "kitchen", "river"]
VERBS = ["was painted", "has been sold", "will arrive", "is cold", "had twelve visitors"]
ALL = dict.fromkeys(UNGRAMMATICAL, 1.0)


def sentences(n: int = 120) -> list[str]:
    rng = random.Random(1)
    made: dict[str, None] = {}
    while len(made) < n:
        first, second = rng.sample(NOUNS, 2)
        made[f"The {first} near the {second} {rng.choice(VERBS)} on the {rng.choice(NOUNS)}."] = None
    return list(made)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join([*sentences(), sentences()[0], "Short."]) + "\n")
    return [str(path)]


@pytest.fixture
def people(tmp_path: Path) -> str:
    path = tmp_path / "cola.tsv"
    rows = [f"{number % 3 and 1}\tSentence {number} of people." for number in range(90)]
    path.write_text("label\tsentence\n" + "\n".join(rows) + "\n")
    return str(path)


def read(files, **options):
    data = AcceptabilityDataModule(files, **{"held_back": 0.2, **options})
    data.setup()
    (source,) = data.sources.values()
    return source


def test_each_sentence_is_acceptable_and_its_version_is_not(files):
    source = read(files)
    items = [*source.items, *source.parts["held-back"]]
    assert source.classes == ACCEPTABILITY == ("unacceptable", "acceptable")
    plain = {one.texts[0] for one in items if one.label == 1}
    damaged = {one.texts[0] for one in items if one.label == 0}
    assert not plain & damaged
    assert len(plain) == 120
    assert len(damaged) > 110
    assert all((one.label == 1) == (one.groups["damage"] == "none") for one in items)


def test_the_held_back_part_goes_by_the_hash_of_the_plain_sentence(files):
    source = read(files, bare=0.0)
    for held, part in ((False, source.items), (True, source.parts["held-back"])):
        assert all(is_held_back(one.texts[0], 0.2) is held for one in part if one.label == 1)


def test_a_sentence_and_its_version_lose_their_end_mark_together():
    made = labelled_versions(sentences(), ALL, seed=1, bare=0.5)
    ends = [(one.texts[0].endswith("."), two.texts[0].endswith(".")) for one, two in pairwise(made) if two.label == 0]
    assert set(ends) == {(True, True), (False, False)}
    assert 0.3 < sum(first for first, _ in ends) / len(ends) < 0.7
    assert all(one.texts[0].endswith(".") for one in labelled_versions(sentences(), ALL, seed=1))


def test_kinds_come_by_their_weights(files):
    source = read(files, kinds={"swap": 9.0, "spare": 1.0, "looped": 0.0})
    kinds = Counter(one.groups["damage"] for one in source.items if one.label == 0)
    assert set(kinds) == {"swap", "spare"}
    assert kinds["swap"] > 4 * kinds["spare"]


def test_the_same_seed_gives_the_same_items_and_another_one_others(files):
    first, again, other = (read(files, seed=seed, sentences=50).items for seed in (1, 1, 2))
    assert first == again
    assert {one.texts for one in first} != {one.texts for one in other}


def test_words_and_sentences_bound_what_is_taken(files):
    assert (
        sum(one.label for part in (read(files, sentences=40),) for one in [*part.items, *part.parts["held-back"]]) == 40
    )
    long = read(files, words=(10, 10), bare=0.0)
    assert {len(one.texts[0].split()) for one in long.items if one.label == 1} == {10}


def test_other_forms_are_words_of_the_files(files):
    known = known_words(sentences())
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
    assert "120 of sentences.txt" in source.describe()["plain sentences"]


def test_other_labels_are_refused(files, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tlabel\n" + "".join(f"One {n}.\tTwo {n}.\t{n % 2}\n" for n in range(60)))
    labels = LabelsDataModule([str(path)], columns=LabelColumns(("a", "b"), "label"), labels=["no", "yes"])
    with pytest.raises(InputError, match="single sentences and the classes unacceptable, acceptable"):
        read(files, labels=labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"jumble": 1.0}}, "but got jumble"),
        ({"kinds": {"swap": -1.0}}, "at least 0"),
        ({"kinds": {"swap": 0.0}}, "a weight above 0"),
        ({"words": (9, 3)}, "in ascending order"),
        ({"bare": 1.5}, "`bare` to be between 0 and 1"),
        ({"batch_size": 0}, "`batch_size` to be at least 1"),
        ({"words": (90, 99)}, "at least 2 sentences"),
    ],
)
def test_what_does_not_fit_is_refused(files, options, message):
    with pytest.raises(InputError, match=message):
        read(files, **options)


def test_no_files_are_refused():
    with pytest.raises(InputError, match="`texts` to name at least one file"):
        AcceptabilityDataModule([])
