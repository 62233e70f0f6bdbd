"""Tasks of labelled texts: the columns and classes that they have on the hub, and how labels are written elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from textmover.types import InputError, check_choice

TaskName = Literal["mnli", "qnli", "qqp", "snli", "rte", "wnli", "mrpc", "paws", "cola", "sst2", "scitail"]

UNLABELLED = ("-1", "-")
"""Label of items whose class is withheld (test parts on the hub) or that annotators did not agree on."""


@dataclass(frozen=True)
class LabelColumns:
    """Columns of a table of labelled texts.

    Attributes:
        texts: The column of the text, or the two of a pair; empty for those that the task has on the hub.
        label: Column of the label; ``None`` for that of the task.
        groups: Columns kept as group keys, to choose rows by.

    Raises:
        InputError: If there are more than two texts, or a name is empty.
    """

    texts: tuple[str, ...] = ()
    label: str | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.texts) > 2:
            raise InputError(f"Expected `texts` to name one or two columns, but got {len(self.texts)}: name fewer.")
        if not all((*self.texts, *self.groups)) or self.label == "":
            raise InputError(f"Expected `columns` to name columns, but got an empty name in {self}: name them all.")


@dataclass(frozen=True)
class LabelTask:
    """A task as it is on the hub."""

    columns: LabelColumns
    labels: tuple[str, ...]  # classes in the order of the numbers that stand for them there
    written: Mapping[str, str] = field(default_factory=dict)  # class by other ways to write it, in lower case
    paraphrase: str | None = None  # class of pairs that mean the same
    validation: str = "validation"  # split


_NLI = ("entailment", "neutral", "contradiction")
_PAIR = LabelColumns(("sentence1", "sentence2"), "label")
_PREMISE = LabelColumns(("premise", "hypothesis"), "label")

TASKS: dict[str, LabelTask] = {
    "mnli": LabelTask(_PREMISE, _NLI, validation="validation_matched"),
    "qnli": LabelTask(LabelColumns(("question", "sentence"), "label"), ("entailment", "not_entailment")),
    "qqp": LabelTask(
        LabelColumns(("question1", "question2"), "label"), ("not_duplicate", "duplicate"), paraphrase="duplicate"
    ),
    "snli": LabelTask(_PREMISE, _NLI),
    "rte": LabelTask(_PAIR, ("entailment", "not_entailment")),
    "wnli": LabelTask(_PAIR, ("not_entailment", "entailment")),
    "mrpc": LabelTask(_PAIR, ("not_equivalent", "equivalent"), paraphrase="equivalent"),
    "paws": LabelTask(_PAIR, ("different", "paraphrase"), paraphrase="paraphrase"),
    "cola": LabelTask(LabelColumns(("sentence",), "label"), ("unacceptable", "acceptable")),
    "sst2": LabelTask(LabelColumns(("sentence",), "label"), ("negative", "positive")),
    "scitail": LabelTask(
        _PREMISE, ("entailment", "not_entailment"), {"entails": "entailment", "neutral": "not_entailment"}
    ),
}
"""The tasks by name. GLUE's are ``hub:nyu-mll/glue/<name>``; beside them ``hub:stanfordnlp/snli``,
``hub:google-research-datasets/paws/labeled_final`` and ``hub:allenai/scitail/tsv_format``."""


@dataclass(frozen=True)
class LabelNames:
    """Names of the classes."""

    classes: tuple[str, ...]  # in the order of a classifier's outputs
    numbers: tuple[str, ...]  # what whole numbers stand for, from 0 on, in the words of `written`
    written: Mapping[str, str]  # class by each way to write it, in lower case

    def place(self, value: object) -> int | None:
        """Number of the class that a cell names; ``None`` for a missing label, KeyError for anything else."""
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise KeyError(value)
        text = str(value).strip().casefold()
        if text in UNLABELLED and text not in self.written:
            return None
        if text not in self.written and re.fullmatch(r"\d{1,9}", text) and int(text) < len(self.numbers):
            text = self.numbers[int(text)]
        return self.classes.index(self.written[text])

    @property
    def known(self) -> str:
        """All that can be written, for people to read."""
        numbers = f" (or 0 to {len(self.numbers) - 1})" if self.numbers else ""
        return ", ".join(self.written) + numbers


def label_names(task: str | None, labels: Sequence[str] | Mapping[str, str] | None) -> LabelNames:
    """The classes of a task, or those that a user names, in order or by each way to write them.

    A mapping such as ``{"contradi": "contradiction"}`` is added to what the task knows and may join classes of it.

    Example:
        >>> joined = {"neutral": "not_entailment", "contradiction": "not_entailment"}
        >>> names = label_names("mnli", joined)
        >>> names.classes, names.place(2), names.place("neutral"), names.place("-1")
        (('entailment', 'not_entailment'), 1, 1, None)
    """
    if task is not None:
        check_choice("task", task, TASKS)
    known = None if task is None else TASKS[task]
    if known is None and labels is None:
        raise InputError("Expected a `task` or `labels`, to know the classes, but got neither: name one of the two.")
    changed = {key.casefold(): one for key, one in labels.items()} if isinstance(labels, Mapping) else {}
    if labels is not None and not isinstance(labels, Mapping):
        classes: tuple[str, ...] = tuple(labels)
        numbers, written = classes, {one.casefold(): one for one in classes}
    else:
        own = () if known is None else known.labels
        classes = tuple(dict.fromkeys([*(changed.get(one, one) for one in own), *changed.values()]))
        numbers = own
        written = {one.casefold(): one for one in classes} | {one: changed.get(one, one) for one in own}
        if known is not None:
            written |= {other: changed.get(one, one) for other, one in known.written.items()}
        written |= changed
    if len(set(classes)) < max(2, len(classes)):
        raise InputError(f"Expected at least two classes, each named once, but got {', '.join(classes) or 'none'}.")
    return LabelNames(classes, tuple(one.casefold() for one in numbers), written)
