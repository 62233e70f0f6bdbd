from collections import Counter
from itertools import permutations

import pytest
from data_files import all_items, source_of, write_table

from textmover.data import PerturbedDataModule
from textmover.data.generated.datamodule import perturbed_segments


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


def test_versions_of_a_text_differ_and_no_text_stands_on_both_sides(files):
    source = read(files, versions=3)
    counts = Counter(one.references for one in all_items(source))
    assert len(counts) == 200
    assert max(counts.values()) == 3
    assert len({(one.hypothesis, one.references) for one in all_items(source)}) == sum(counts.values())
    assert not {one.references for one in source.items} & {one.references for one in source.parts["held-back"]}


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


def test_sentences_may_stand_in_a_column(sentences, tmp_path):
    path = write_table(tmp_path / "table.tsv", "n\ttext", (f"{n}\t{text}" for n, text in enumerate(sentences[:40])))
    assert len({one.references for one in all_items(read([path], column="text"))}) == 40


def test_sentences_are_those_of_the_split(sentences, tmp_path):
    datasets = pytest.importorskip("datasets")
    parts = {"train": sentences[:40], "test": sentences[40:80]}
    folder = str(tmp_path / "saved")
    datasets.DatasetDict(
        {name: datasets.Dataset.from_list([{"text": text} for text in texts]) for name, texts in parts.items()}
    ).save_to_disk(folder)
    for options, name in (({}, "train"), ({"split": "test"}, "test")):
        found = all_items(read([folder], column="text", **options))
        assert {one.references[0] for one in found} == set(parts[name])
