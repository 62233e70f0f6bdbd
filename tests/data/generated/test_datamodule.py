"""Laws of all data modules that generate their texts, the choice of plain sentences, and ratings of damaged ones."""

import re
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from data_files import all_items, source_of, write_table
from textmover.data import (
    ContrastsDataModule,
    MadeErrorsDataModule,
    MixtureDataModule,
    PerturbedDataModule,
    RecordsDataModule,
    RewordedFile,
)
from textmover.data.generated.acceptability import AcceptabilityDataModule
from textmover.data.generated.datamodule import check_kinds, perturbed_segments, read_sentences, taken_sentences
from textmover.perturbations.registry import all_perturbations
from textmover.types import InputError

TEXTS = [f"Sentence {number} has " + "very " * (number % 5) + "many words." for number in range(40)]
MODULES = {
    "perturbed": PerturbedDataModule,
    "acceptability": AcceptabilityDataModule,
    "records": lambda _, **options: RecordsDataModule(60, **options),
    "made errors": MadeErrorsDataModule,
    "contrasts": lambda files, **options: ContrastsDataModule(
        [RewordedFile(write_table(Path(f"{files[0]}.tsv"), "reference\thypothesis", map(reworded, TEXTS)))], **options
    ),
}


def reworded(text: str) -> str:
    return f"{text}\tMany words has {text}"


@pytest.mark.parametrize("kind", MODULES)
def test_the_same_seed_gives_the_same_items_and_another_one_others(kind, files):
    first, again, other = (source_of(MODULES[kind](files, seed=seed, held_back=0.3)) for seed in (1, 1, 2))
    assert (first.items, first.parts) == (again.items, again.parts)
    assert first.items != other.items
    if kind != "acceptability":
        trained, held_back = ({one.references for one in part} for part in (first.items, first.parts["held-back"]))
        assert not trained & held_back, "no text stands on both sides"


@pytest.mark.parametrize("kind", MODULES)
def test_a_mixture_gives_its_seed_to_sources_without_one(kind, files):
    def items(of_mixture, **own):
        return source_of(MixtureDataModule({"mine": MODULES[kind](files, held_back=0.3, **own)}, seed=of_mixture)).items

    assert items(0) == source_of(MODULES[kind](files, held_back=0.3)).items
    assert items(1) != items(2)
    assert items(1, seed=5) == items(2, seed=5)


@pytest.mark.parametrize("kind", MODULES)
def test_the_card_says_that_these_are_no_ratings_of_people(kind, files):
    data = MODULES[kind](files, held_back=0.3)
    source_of(data)
    assert re.search("synthetic.* not measure ", data.notices[0])
    assert any("30% " in one and "by a hash of their text" in one for one in data.describe().values())


@pytest.mark.parametrize("module", [PerturbedDataModule, AcceptabilityDataModule])
def test_as_many_sentences_as_asked_for_chosen_by_the_text_alone(module, files, sentences, tmp_path):
    def plain(found):
        if module is PerturbedDataModule:
            return {one.references[0] for one in all_items(found)}
        return {one.texts[0] for one in all_items(found) if one.label == 1}

    options = {} if module is PerturbedDataModule else {"bare": 0.0}
    few = plain(source_of(module(files, sentences=50, **options)))
    assert len(few) == 50
    turned = tmp_path / "turned.txt"
    turned.write_text("\n".join(reversed(sentences)) + "\n")
    assert plain(source_of(module([str(turned)], sentences=50, **options))) == few
    assert {len(text.split()) for text in plain(source_of(module(files, words=(10, 10), **options)))} == {10}


SENTENCES = [
    ({"words": (9, 3)}, "in ascending order"),
    ({"words": (1, 10**7)}, "`words` to be a whole number from 1 to 10,000, but got 10000000"),
    ({"sentences": -1}, "`sentences` to be a whole number from 1"),
    ({"texts": []}, "`texts` to name at least one file"),
]
EVERY = [
    ({"batch_size": 0}, "`batch_size` to be at least 1, but got 0"),
    ({"workers": 10**12}, "`workers` to be a whole number from 0 to 1,000"),
]
REFUSED = {
    PerturbedDataModule: [
        *EVERY,
        *SENTENCES,
        ({"types": {"drip": 1.0}}, f"weights of at least 0 to {', '.join(all_perturbations())}, but got drip"),
        ({"versions": 0}, "`versions` to be a whole number from 1 to 1,000, but got 0"),
        ({"words": (30, 40)}, r"sentences\.txt: give more sentences"),
    ],
    AcceptabilityDataModule: [
        *EVERY,
        *SENTENCES,
        ({"kinds": {"jumble": 1.0}}, "but got jumble"),
        ({"bare": 1.5}, "`bare` to be between 0 and 1"),
        ({"words": (90, 99)}, "at least 4 sentences and versions in the training part, but got 0"),
    ],
    RecordsDataModule: [
        *EVERY,
        ({"records": 0}, "`records` to be a whole number from 1 to 1,000,000, but got 0"),
        ({"versions": 0}, "`versions` to be a whole number from 1 to 1,000, but got 0"),
        ({"records": 4}, "at least 3 segments in the .* part, but got .: give more `records`"),
        ({"book": "none.yaml"}, "a file at .*none.yaml, but there is none"),
    ],
}


@pytest.mark.parametrize(
    ("module", "options", "message"), [(module, *one) for module, table in REFUSED.items() for one in table]
)
def test_options_that_make_no_sense_are_refused(files, module, options, message):
    given = {} if module is RecordsDataModule else {"texts": files}
    with pytest.raises(InputError, match=message):
        source_of(module(**{**given, **options}))


# --- plain sentences --------------------------------------------------------------------------------------------------


def test_files_are_read_once_for_each_text_and_without_space_around(tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text(" One. \nTwo.\n")
    second.write_text("Two.\nThree.\n")
    assert read_sentences([str(first), str(second)], None, "train") == ["One.", "Two.", "Three."]


def test_the_order_does_not_hang_on_that_of_the_files_nor_on_other_texts():
    taken = taken_sentences(TEXTS, (1, 99), None, 3)
    assert taken_sentences(TEXTS[::-1], (1, 99), None, 3) == taken
    assert taken_sentences(TEXTS[::2], (1, 99), None, 3) == [text for text in taken if text in TEXTS[::2]]
    assert taken_sentences(TEXTS, (1, 99), 7, 3) == taken[:7]
    assert taken_sentences(TEXTS, (1, 99), None, 4) != taken


def test_weights_are_as_given_or_the_same_for_all():
    assert check_kinds("kinds", None, ["drop", "swap"], ["drop", "swap", "entity"]) == {"drop": 1.0, "swap": 1.0}
    assert check_kinds("kinds", {"entity": 2}, ["drop"], ["drop", "entity"]) == {"entity": 2}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        *(({"drop": weight}, f"drop: {weight}") for weight in (-1.0, float("inf"), float("nan"))),
        *((weights, "some kind a weight above 0, but got none") for weights in ({}, {"drop": 0.0})),
    ],
)
def test_weights_that_are_no_weights_are_refused(weights, message):
    with pytest.raises(InputError, match=f"`kinds`.*{message}"):
        check_kinds("kinds", weights, ["drop"], ["drop"])


# --- ratings of damaged sentences -------------------------------------------------------------------------------------


def read(files: list[str], **options):
    return source_of(PerturbedDataModule(files, **options))


def test_the_rating_falls_with_what_was_done(files):
    by_kind: dict[str, list[float]] = {}
    for one in all_items(read(files, versions=4)):
        by_kind.setdefault(one.groups["perturbation"], []).append(one.score)
        assert (one.hypothesis == one.references[0]) == (one.groups["perturbation"] == "identity")
    mean = {kind: sum(scores) / len(scores) for kind, scores in by_kind.items()}
    assert mean["identity"] == 100
    assert mean["repeat"] > mean["drop"] > mean["negate"]


def test_unrelated_sentences_are_worth_the_least():
    texts = ["The harbour was painted.", "Petra slept.", "Eleven goats ate soup.", "Is it cold outside?"]
    found = perturbed_segments(texts, {"unrelated": 1.0}, 1, 0)
    assert [one.references[0] for one in found] == texts
    assert all(one.hypothesis in texts and one.hypothesis != one.references[0] for one in found)
    assert all(one.score == 0 for one in found)


def test_versions_of_a_text_differ(files):
    items = all_items(read(files, versions=3))
    counts = Counter(one.references for one in items)
    assert (len(counts), max(counts.values())) == (200, 3)
    assert len({(one.hypothesis, one.references) for one in items}) == sum(counts.values())


def test_kinds_come_by_their_weights(files):
    kinds = Counter(
        one.groups["perturbation"] for one in all_items(read(files, types={"drop": 9.0, "swap": 1.0, "insert": 0.0}))
    )
    assert set(kinds) == {"drop", "swap"}
    assert kinds["drop"] > 3 * kinds["swap"]


def test_a_kind_that_never_applies_is_replaced_by_another():
    texts = [f"{first} likes {second}" for first, second in permutations(["harbour", "ladder", "soup", "garden"], 2)]
    kinds = Counter(one.groups["perturbation"] for one in perturbed_segments(texts, {"number": 9.0, "swap": 1.0}, 1, 0))
    assert set(kinds) == {"swap"}


def test_sentences_are_those_of_the_column_and_the_split(sentences, tmp_path):
    datasets = pytest.importorskip("datasets")
    parts = {"train": sentences[:40], "test": sentences[40:80]}
    folder = str(tmp_path / "saved")
    datasets.DatasetDict(
        {name: datasets.Dataset.from_list([{"text": text} for text in texts]) for name, texts in parts.items()}
    ).save_to_disk(folder)
    for options, name in (({}, "train"), ({"split": "test"}, "test")):
        found = all_items(read([folder], column="text", **options))
        assert {one.references[0] for one in found} == set(parts[name])
