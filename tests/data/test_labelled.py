import re
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml

from data_files import source_of, texts_of, write_table
from textmover.data import LabelColumns, LabelsDataModule, PairFile
from textmover.data.labelled import TASKS, label_names, read_labelled
from textmover.types import InputError, plural

COLUMNS = LabelColumns(groups=("genre",))


@pytest.fixture
def pairs(tmp_path):
    """300 pairs of 100 premises; some hypotheses are shared, and one is the premise of another pair."""
    rows = [
        f"Premise {n // 3}.\t{f'Common {n % 7}.' if n % 20 == 0 else f'Hypothesis {n}.'}\t{n % 3}\tg{n % 2}"
        for n in range(300)
    ]
    rows[1] = "Premise 0.\tpremise  50.\t1\tg1"
    return write_table(tmp_path / "pairs.tsv", "premise\thypothesis\tlabel\tgenre", rows)


def read(*arguments, **options):
    return source_of(LabelsDataModule(*arguments, **options))


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_no_text_stands_on_both_sides_and_what_is_left_out_is_counted(pairs, share):
    source = read([pairs], "mnli", held_back=share)
    held_back = source.parts["held-back"]
    assert not texts_of(source.items) & texts_of(held_back)
    assert abs(len(held_back) - 300 * share) < 30
    left_out = 300 - len(source.items) - len(held_back)
    assert left_out > 0, "some hypotheses are shared"
    assert f"({plural(left_out, 'item')} left out that share a text with them)" in source.describe()["held back"]


def test_the_held_back_part_does_not_hang_on_the_order_of_the_file(pairs, tmp_path):
    header, *rows = Path(pairs).read_text().splitlines()
    other = write_table(tmp_path / "turned.tsv", header, rows[::-1])
    first, second = (read([path], "mnli") for path in (pairs, other))
    assert texts_of(first.parts["held-back"]) == texts_of(second.parts["held-back"])


def test_validation_files_take_the_place_of_a_held_back_part(pairs):
    source = read(
        [pairs], "mnli", COLUMNS, validation=[pairs], where={"genre": ["g0"]}, validation_where={"genre": ["g1"]}
    )
    assert {item.groups["genre"] for item in source.items} == {"g0"}
    assert {item.groups["genre"] for item in source.parts["held-back"]} == {"g1"}
    assert len(source.items) == len(source.parts["held-back"]) == 150


def test_validation_items_that_share_their_first_text_are_counted_and_warned_of(pairs, caplog):
    caplog.set_level("INFO", logger="textmover")
    read([pairs], "mnli")
    assert "not apart" not in caplog.text
    assert re.search(r" held back, \d+ left out$", caplog.text, re.MULTILINE), "some share a text with held-back ones"
    caplog.clear()
    header, *rows = Path(pairs).read_text().splitlines()
    rows = [*rows[:30], *(f"New {row}" for row in rows[30:60])]
    validation = write_table(Path(pairs).with_name("validation.tsv"), header, rows)
    source = read([pairs], "mnli", validation=[validation])
    assert source.describe()["held-back, not apart"] == "30 of 60 share their first text"
    assert "In the held-back part, 30 of 60 share their first text with items to train on." in caplog.text
    assert "left out" not in caplog.text


def test_a_warning_names_the_only_class_of_a_held_back_part_and_those_that_nothing_teaches(tmp_path, caplog):
    rows = [f"Sentence {n}.\t{n % 2}" for n in range(40)]
    training = write_table(tmp_path / "train.tsv", "sentence\tlabel", rows)
    held = write_table(tmp_path / "held.tsv", "sentence\tlabel", [f"Other {n}.\t1" for n in range(9)])
    read([training], "cola", validation=[held])
    assert "All 9 items of the held-back part are 'acceptable'" in caplog.text
    assert "No item to train on" not in caplog.text
    rows = [f"A premise {n}.\tText {n}.\t{n % 2}" for n in range(40)]
    read([write_table(tmp_path / "nli.tsv", "premise\thypothesis\tlabel", rows)], "mnli")
    assert "No item to train on is of the class contradiction" in caplog.text


def test_the_pairs_of_a_test_set_are_not_trained_on(pairs, tmp_path):
    path = write_table(tmp_path / "test.tsv", "a\tb", ["HYPOTHESIS 4.\tpremise 1.", "Premise 2.\tnothing"])
    source = read([pairs], "mnli", validation=[pairs], without=[PairFile(path, ("a", "b"))])
    assert len(source.items) == 299
    assert ("Premise 1.", "Hypothesis 4.") not in [item.texts for item in source.items]
    assert "(1 item left out)" in source.describe()["without the pairs of"]


@pytest.mark.parametrize("most", [30, 100, 150])
def test_a_part_of_the_items_has_all_classes_and_all_places_of_the_file(pairs, most):
    source = read([pairs], "mnli", validation=[pairs], most=most)  # whose classes take turns
    counts = Counter(item.label for item in source.items)
    assert sum(counts.values()) == most
    assert min(counts.values()) > most / 6
    premises = [int(re.findall(r"\d+", item.texts[0])[0]) for item in source.items]
    assert premises == sorted(premises)
    assert min(premises) < 10
    assert max(premises) > 90
    whole = read([pairs], "mnli", validation=[pairs], most=1000)
    assert [item for item in whole.items if item in source.items] == source.items


def test_a_batch_holds_both_texts_and_the_labels(pairs):
    source = read([pairs], "mnli")
    batch = source.collate(source.items[:4], [0, 1, 2, 3], 8, list)
    assert batch.texts == tuple([item.texts[side] for item in source.items[:4]] for side in (0, 1))
    assert batch.labels.tolist() == [item.label for item in source.items[:4]]
    assert (batch.source, batch.joint, len(batch)) == ("labels", 8, 4)
    assert batch.positions.dtype == torch.int64
    assert source.length(dict.fromkeys(source.items[0].texts, 3), source.items[0]) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "mnli", "where": {"genre": ["g0"]}}, r"`columns\.groups`, but got 'genre'"),
        ({"task": "mnli", "most": 2}, "`most` to be at least 3"),
        ({"labels": ["a", "b"]}, r"`columns\.texts`"),
        ({"labels": ["a", "b"], "columns": LabelColumns(("premise",))}, r"`columns\.label`"),
        ({"task": "mnli", "columns": LabelColumns(("premise", "hypo"))}, "a column 'hypo'"),
        ({"task": "mnli", "held_back": 0.0}, "at least 3 items in the held-back part"),
        ({"task": "mnli", "held_back": 1.5}, "between 0 and 1"),
        ({"task": "mnli", "columns": COLUMNS, "where": {"genre": ["g7"]}}, "'g7', but got none"),
        ({"labels": {"0": "a", "1": "b", "2": "c"}, "columns": LabelColumns(("genre",), "hypothesis")}, "line 2"),
    ],
)
def test_what_cannot_be_read_is_refused(pairs, options, message):
    with pytest.raises(InputError, match=message):
        read([pairs], **options)


def test_one_class_alone_is_refused(tmp_path):
    rows = (f"a{n}\tb{n}\t1" for n in range(50))
    path = write_table(tmp_path / "positives.tsv", "question1\tquestion2\tlabel", rows)
    with pytest.raises(InputError, match=r"two classes to learn, but all items .* are 'duplicate'"):
        read([path], "qqp")


def test_recipes_that_train_on_development_parts_say_so():
    found = 0
    for path in (Path(__file__).parents[2] / "configs" / "stages").glob("*.yaml"):
        options = yaml.safe_load(path.read_text(encoding="utf-8"))["data"]["init_args"]
        for data in [one["init_args"] for one in options.get("sources", {"": {"init_args": options}}).values()]:
            for name in [name.removeprefix("data:") for name in data.get("train", []) if "-dev" in name]:
                assert name in data["notice"], path
                found += 1
    assert found >= 4


def test_the_files_at_hand_are_read(shared_folder):
    folder = shared_folder / "data"
    named = LabelColumns(("premise", "hypothesis"), "label")
    sick = LabelColumns(("sentence1", "sentence2"), "entailment", ("split",))
    for name, options, size, classes in (
        ("nli_paraphrase/mnli_dev.tsv", {"task": "mnli"}, 19_647, 3),
        ("nli_paraphrase/qnli_dev.tsv", {"task": "qnli", "columns": named}, 5_732, 2),
        ("nli_paraphrase/scitail_dev.tsv", {"task": "scitail"}, 2_126, 2),
        ("cola/in_domain_train.tsv", {"task": "cola"}, 8_551, 2),
        ("sts/sick2014.tsv", {"task": "snli", "columns": sick, "where": {"split": ["train"]}}, 4_500, 3),
    ):
        path = folder / name
        source = read([str(path)], **options, validation=[str(path)])
        assert len(source.items) == size, name
        assert len({item.label for item in source.items}) == classes


# --- classes ----------------------------------------------------------------------------------------------------------


SENTENCES = ("It rains.", "It is wet.")


def hub_rows(task: str) -> dict[str, list]:
    """Four items of each class as the task has them on the hub, and two without a label."""
    known = TASKS[task]
    numbers = [number for number in range(len(known.labels)) for _ in range(4)] + [-1, -1]
    texts = {
        column: [f"{SENTENCES[place]} {row}" for row in range(len(numbers))]
        for place, column in enumerate(known.columns.texts)
    }
    return {**texts, known.columns.label: numbers, "idx": list(range(len(numbers)))}


@pytest.mark.parametrize("task", list(TASKS))
def test_each_task_is_read_as_it_is_on_the_hub(task, tmp_path):
    """A data set with parts and integer labels, saved as the hub's library saves them."""
    import datasets

    known, rows = TASKS[task], hub_rows(task)
    part = datasets.Dataset.from_dict(rows)
    if task != "scitail":  # which has names there
        part = part.cast_column(known.columns.label, datasets.ClassLabel(names=list(known.labels)))
    parts = datasets.DatasetDict({"train": part, known.validation: part.select(range(6))})
    parts.save_to_disk(str(tmp_path / task))
    source = read([str(tmp_path / task)], task, validation=[f"hub:{tmp_path / task}"])
    assert source.classes == known.labels
    assert [item.label for item in source.items] == [number for number in rows[known.columns.label] if number >= 0]
    assert all(len(item.texts) == len(known.columns.texts) == 1 + source.pairs for item in source.items)
    assert len(source.parts["held-back"]) == 6
    assert source.describe()["without a label"] == "2 left out"
    assert source.describe()["classes"] == ", ".join(f"4 {name}" for name in known.labels)


@pytest.mark.parametrize(
    ("task", "labels", "written", "expected"),
    [
        ("mnli", None, ["entailment", "NEUTRAL", " contradiction ", 1, "2", "-"], [0, 1, 2, 1, 2, None]),
        ("mnli", {"contradi": "contradiction"}, ["contradi", "neutral", 2], [2, 1, 2]),
        ("wnli", None, [0, "entailment"], [0, 1]),
        ("scitail", None, ["entails", "neutral", "not_entailment"], [0, 1, 1]),
        ("sst2", None, ["positive", 0, "1"], [1, 0, 1]),
        (None, ["bad", "good"], ["good", 0, "1", -1], [1, 0, 1, None]),
        (None, {"yes": "good", "no": "bad", "1": "good"}, ["yes", "bad", 1, "-1"], [0, 1, 0, None]),
        (None, {"-1": "bad", "1": "good"}, [-1, "1"], [0, 1]),
        (None, {"False": "bad", "true": "good", "1.0": "good"}, [False, True, 1.0], [0, 1, 1]),
        ("snli", ["contradiction", "entailment", "neutral"], [0, "neutral"], [0, 2]),
    ],
)
def test_labels_are_known_by_name_number_and_mapping(task, labels, written, expected):
    names = label_names(task, labels)
    assert [names.place(one) for one in written] == expected


@pytest.mark.parametrize("value", ["maybe", 3, "7", True, None, 1.0, "", ["entailment"]])
def test_what_is_no_label_is_not_guessed(value):
    with pytest.raises(KeyError):
        label_names("mnli", None).place(value)


def test_an_unknown_label_is_told_with_its_place_and_what_is_known(tmp_path):
    path = tmp_path / "nli.tsv"
    path.write_text("premise\thypothesis\tlabel\na\tb\tneutral\nc\td\tcontradi\n")
    message = re.escape(
        "line 3, to hold one of entailment, neutral, contradiction (or 0 to 2), but got 'contradi': correct it, map it "
        "to a class with `labels`, or write - to leave the row out."
    )
    with pytest.raises(InputError, match=message):
        read_labelled(str(path), TASKS["mnli"].columns, label_names("mnli", None))


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("mnly", None, "`task` to be one of 'mnli'"),
        (None, None, "a `task` or `labels`"),
        (None, ["one"], "at least two classes"),
        (None, ["one", "one"], "each named once"),
        (None, ["Good", "good"], "each named once"),
        ("rte", {"entailment": "same", "not_entailment": "same"}, "at least two classes"),
    ],
)
def test_classes_that_cannot_be_are_refused(task, labels, message):
    with pytest.raises(InputError, match=message):
        label_names(task, labels)


def test_where_classes_are_numbers_no_label_is_their_place():
    """0 became the class 1, and 1 of [0, 2] the class 2."""
    assert [label_names(None, ["1", "2", "3"]).place(one) for one in ("1", 3)] == [0, 2]
    for labels, unknown in ((["1", "2", "3"], 0), (["0", "2"], "1")):
        with pytest.raises(KeyError):
            label_names(None, labels).place(unknown)


@pytest.mark.parametrize("fields", [{"texts": ("a", "b", "c")}, {"texts": ("",)}, {"label": ""}, {"groups": ("",)}])
def test_columns_that_cannot_be_are_refused(fields):
    with pytest.raises(InputError, match="name"):
        LabelColumns(**fields)
