import random
from collections import Counter
from pathlib import Path

import pytest

from textmover.data import MixtureDataModule, PerturbedDataModule
from textmover.data.generated.perturbed import perturbed_segments
from textmover.perturbations.kinds import all_perturbations
from textmover.types import InputError

NOUNS = ["harbour", "ladder", "soup", "garden", "letter", "bridge", "candle", "winter", "kitchen", "river"]
VERBS = ["was painted", "has been sold", "will arrive", "is cold", "had 12 visitors"]


def sentences(n: int = 200) -> list[str]:
    rng = random.Random(1)
    made: dict[str, None] = {}
    while len(made) < n:
        first, second = rng.sample(NOUNS, 2)
        made[f"The {first} near the {second} {rng.choice(VERBS)} on day {rng.randint(1, 900)}."] = None
    return list(made)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join([*sentences(), sentences()[0], "Too short."]) + "\n")
    return [str(path)]


def read(files: list[str], **options) -> PerturbedDataModule:
    data = PerturbedDataModule(files, **options)
    data.setup()
    return data


def all_segments(data: PerturbedDataModule):
    (source,) = data.sources.values()
    return [*source.items, *source.parts["held-back"]]


def test_the_rating_falls_with_what_was_done(files):
    by_kind: dict[str, list[float]] = {}
    for one in all_segments(read(files, versions=4)):
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


def test_versions_of_a_text_differ_and_no_text_stands_on_both_sides(files):
    data = read(files, versions=3)
    (source,) = data.sources.values()
    counts = Counter(one.references for one in all_segments(data))
    assert len(counts) == 200
    assert max(counts.values()) == 3
    assert len({(one.hypothesis, one.references) for one in all_segments(data)}) == sum(counts.values())
    assert not {one.references for one in source.items} & {one.references for one in source.parts["held-back"]}


def test_the_same_seed_gives_the_same_segments_and_another_one_others(files):
    first, again, other = (all_segments(read(files, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_mixture_gives_its_seed_to_sources_without_one(files):
    def segments(of_mixture, **own):
        mixture = MixtureDataModule({"damaged": PerturbedDataModule(files, **own)}, seed=of_mixture)
        mixture.setup()
        return mixture.sources["damaged"].items

    alone = PerturbedDataModule(files)
    alone.setup()
    assert segments(0) == alone.sources["perturbed"].items
    assert segments(1) != segments(2)
    assert segments(1, seed=5) == segments(2, seed=5)


def test_kinds_come_by_their_weights(files):
    kinds = Counter(
        one.groups["perturbation"] for one in all_segments(read(files, types={"drop": 9.0, "swap": 1.0, "insert": 0.0}))
    )
    assert set(kinds) == {"drop", "swap"}
    assert kinds["drop"] > 3 * kinds["swap"]


def test_a_kind_that_never_applies_is_replaced_by_another():
    texts = [f"{first} likes {second}" for first in NOUNS for second in NOUNS if first != second]
    kinds = Counter(one.groups["perturbation"] for one in perturbed_segments(texts, {"number": 9.0, "swap": 1.0}, 1, 0))
    assert set(kinds) == {"swap"}


def test_as_many_sentences_as_asked_for_chosen_by_the_text_alone(files, tmp_path):
    references = lambda data: {one.references for one in all_segments(data)}  # noqa: E731
    few = references(read(files, sentences=50))
    assert len(few) == 50
    turned = tmp_path / "turned.txt"
    turned.write_text("\n".join(reversed(sentences())) + "\n")
    assert references(read([str(turned)], sentences=50)) == few


def test_sentences_may_stand_in_a_column(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("n\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(sentences(40))))
    assert len({one.references for one in all_segments(read([str(path)], column="text"))}) == 40


def test_sentences_are_those_of_the_split(tmp_path):
    datasets = pytest.importorskip("datasets")
    parts = {"train": sentences(80)[:40], "test": sentences(80)[40:]}
    folder = str(tmp_path / "saved")
    datasets.DatasetDict(
        {name: datasets.Dataset.from_list([{"text": text} for text in texts]) for name, texts in parts.items()}
    ).save_to_disk(folder)
    for options, name in (({}, "train"), ({"split": "test"}, "test")):
        data = read([folder], column="text", **options)
        assert {one.references[0] for one in all_segments(data)} == set(parts[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"drip": 1.0}}, f"weights of at least 0 to {', '.join(all_perturbations())}, but got drip"),
        ({"types": {"drop": -1.0}}, "drop: -1"),
        ({"types": {"drop": 0.0}}, "above 0, but got none"),
        ({"versions": 0}, "`versions` to be a whole number from 1 to 1,000, but got 0"),
        ({"versions": 10**12}, "`versions` to be a whole number from 1 to 1,000"),
        ({"words": (1, 10**7)}, "`words` to be a whole number from 1 to 10,000, but got 10000000"),
        ({"sentences": -1}, "`sentences` to be a whole number from 1"),
        ({"workers": 10**12}, "`workers` to be a whole number from 0 to 1,000"),
        ({"words": (9, 4)}, "ascending"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        PerturbedDataModule(["x.txt"], **options)


def test_too_few_sentences_are_refused_with_the_file(files):
    with pytest.raises(InputError, match=r"sentences\.txt: give more sentences"):
        read(files, words=(30, 40))


def test_the_card_says_that_these_are_no_ratings_of_people(files):
    data = read(files)
    assert data.notices
    assert "not agreeing with people" in data.notices[0]
    assert data.describe()["sentences"] == "200 of sentences.txt"
    assert data.describe()["held back"] == "15% of the sentences by a hash of their text"
