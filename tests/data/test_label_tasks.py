import re

import pytest

from textmover.data.labelled import TASKS, LabelColumns, LabelsDataModule, label_names, read_labelled
from textmover.types import InputError

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
    data = LabelsDataModule([str(tmp_path / task)], task, validation=[f"hub:{tmp_path / task}"])
    data.setup()
    (source,) = data.sources.values()
    assert source.classes == known.labels
    assert [item.label for item in source.items] == [number for number in rows[known.columns.label] if number >= 0]
    assert all(len(item.texts) == len(known.columns.texts) for item in source.items)
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
    message = re.escape(f"{path}, line 3, among entailment, neutral, contradiction (or 0 to 2), but got 'contradi'")
    with pytest.raises(InputError, match=message):
        read_labelled(str(path), TASKS["mnli"].columns, label_names("mnli", None))


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("mnly", None, "`task` to be one of 'mnli'"),
        (None, None, "a `task` or `labels`"),
        (None, ["one"], "at least two classes"),
        (None, ["one", "one"], "each named once"),
        ("rte", {"entailment": "same", "not_entailment": "same"}, "at least two classes"),
    ],
)
def test_classes_that_cannot_be_are_refused(task, labels, message):
    with pytest.raises(InputError, match=message):
        label_names(task, labels)


@pytest.mark.parametrize("fields", [{"texts": ("a", "b", "c")}, {"texts": ("",)}, {"label": ""}, {"groups": ("",)}])
def test_columns_that_cannot_be_are_refused(fields):
    with pytest.raises(InputError, match="name"):
        LabelColumns(**fields)
