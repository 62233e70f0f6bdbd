"""Texts or text pairs with labels: reading from tables or the hub, splitting and batching."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.leakage import PairFile, normalised_pair, warn_of_shared, without_files, worth_a_warning
from textmover.data.split import HELD_BACK_SHARE, is_held_back, normalise_reference, sample_by_hash
from textmover.data.training_sources import Batch, Source, Tokenize, check_least
from textmover.readers.lines import usable
from textmover.readers.segments import read_rows
from textmover.readers.tables import named_tables, rows_where
from textmover.types import InputError, TokenBatch, check_choice, plural

logger = logging.getLogger(__name__)

TaskName = Literal["mnli", "qnli", "qqp", "snli", "rte", "wnli", "mrpc", "paws", "cola", "sst2", "scitail"]

UNLABELLED = ("-1", "-")  # withheld labels (test splits on the hub), or labels without agreement of annotators


@dataclass(frozen=True)
class LabelColumns:
    """Columns of a table of labelled texts.

    Attributes:
        texts: Column of the text, or two columns of a pair; empty for those of the task on the hub.
        label: Column of the label; ``None`` for that of the task.
        groups: Columns kept as group keys, to filter rows.

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
    """A task in its format on the hub."""

    columns: LabelColumns
    labels: tuple[str, ...]  # classes in the order of their numbers on the hub
    written: Mapping[str, str] = field(default_factory=dict)  # class by alternative spelling, in lower case
    paraphrase: str | None = None  # class of paraphrase pairs
    validation: str = "validation"  # split


_NLI = ("entailment", "neutral", "contradiction")
_ENTAILED = ("entailment", "not_entailment")
_PAIR = LabelColumns(("sentence1", "sentence2"), "label")
_PREMISE = LabelColumns(("premise", "hypothesis"), "label")

TASKS: dict[str, LabelTask] = {
    "mnli": LabelTask(_PREMISE, _NLI, validation="validation_matched"),
    "qnli": LabelTask(LabelColumns(("question", "sentence"), "label"), _ENTAILED),
    "qqp": LabelTask(
        LabelColumns(("question1", "question2"), "label"), ("not_duplicate", "duplicate"), paraphrase="duplicate"
    ),
    "snli": LabelTask(_PREMISE, _NLI),
    "rte": LabelTask(_PAIR, _ENTAILED),
    "wnli": LabelTask(_PAIR, _ENTAILED[::-1]),
    "mrpc": LabelTask(_PAIR, ("not_equivalent", "equivalent"), paraphrase="equivalent"),
    "paws": LabelTask(_PAIR, ("different", "paraphrase"), paraphrase="paraphrase"),
    "cola": LabelTask(LabelColumns(("sentence",), "label"), ("unacceptable", "acceptable")),
    "sst2": LabelTask(LabelColumns(("sentence",), "label"), ("negative", "positive")),
    "scitail": LabelTask(_PREMISE, _ENTAILED, {"entails": "entailment", "neutral": "not_entailment"}),
}
"""Tasks by name. GLUE tasks are ``hub:nyu-mll/glue/<name>``. The others are ``hub:stanfordnlp/snli``,
``hub:google-research-datasets/paws/labeled_final`` and ``hub:allenai/scitail/tsv_format``."""


@dataclass(frozen=True)
class LabelNames:
    """Names of the classes."""

    classes: tuple[str, ...]  # in the order of the classifier outputs
    numbers: tuple[str, ...]  # labels of whole numbers from 0, as keys of `written`
    written: Mapping[str, str]  # class by each spelling, in lower case

    def place(self, value: object) -> int | None:
        """Return the index of the class in a cell; ``None`` for a missing label, KeyError for an unknown one."""
        if not isinstance(value, (str, int, float)):
            raise KeyError(value)
        text = str(value).strip().casefold()
        if text in UNLABELLED and text not in self.written:
            return None
        if text not in self.written and re.fullmatch(r"\d{1,9}", text) and int(text) < len(self.numbers):
            text = self.numbers[int(text)]
        return self.classes.index(self.written[text])

    @property
    def known(self) -> str:
        """All accepted spellings, for messages."""
        numbers = f" (or 0 to {len(self.numbers) - 1})" if self.numbers else ""
        return ", ".join(self.written) + numbers


def label_names(task: str | None, labels: Sequence[str] | Mapping[str, str] | None) -> LabelNames:
    """Return the classes of a task, or user-defined ones: in order, or as a mapping of spellings to classes.

    A mapping such as ``{"contradi": "contradiction"}`` extends the spellings of the task and may merge its classes.

    Example:
        >>> joined = {"neutral": "not_entailment", "contradiction": "not_entailment"}
        >>> names = label_names("mnli", joined)
        >>> names.classes, names.place(2), names.place("neutral"), names.place("-1")
        (('entailment', 'not_entailment'), 1, 1, None)
    """
    if task is not None:
        check_choice("task", task, TASKS)
    elif labels is None:
        raise InputError("Expected a `task` or `labels`, to know the classes, but got neither: name one of the two.")
    entry = LabelTask(LabelColumns(), ()) if task is None else TASKS[task]
    if labels is not None and not isinstance(labels, Mapping):
        numbers = classes = tuple(labels)
        written = {name.casefold(): name for name in classes}
        if any(name.strip().lstrip("-").isdecimal() for name in classes):
            numbers = ()  # with classes 1 and 2, the label 0 is an unknown one and not the first
    else:
        by_user = {key.casefold(): name for key, name in (labels or {}).items()}
        numbers = entry.labels
        classes = tuple(dict.fromkeys([*(by_user.get(name, name) for name in numbers), *by_user.values()]))
        spellings = {**dict(zip(numbers, numbers, strict=True)), **entry.written}
        written = {name.casefold(): name for name in classes}
        written |= {spelling: by_user.get(name, name) for spelling, name in spellings.items()} | by_user
    if len({name.casefold() for name in classes}) < max(2, len(classes)):  # case counts for nothing in a table
        raise InputError(f"Expected at least two classes, each named once, but got {', '.join(classes) or 'none'}.")
    return LabelNames(classes, tuple(name.casefold() for name in numbers), written)


@dataclass(frozen=True)
class LabelledText:
    """A text or text pair, and the index of its class."""

    texts: tuple[str, ...]
    label: int
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LabelBatch(Batch):
    """Batch of labelled texts."""

    texts: tuple[TokenBatch, ...]  # B rows each; two batches for text pairs
    labels: Tensor  # class index of each item, int64 [B]


@dataclass
class LabelledSource(Source[LabelledText]):
    """Labelled texts and their class names."""

    batch = LabelBatch
    classes: tuple[str, ...] = ()

    @property
    def pairs(self) -> bool:
        """Return whether the items are text pairs."""
        return len(self.items[0].texts) == 2

    def identity(self, item: LabelledText) -> tuple[Any, ...]:
        """Return the texts and their class."""
        return (*item.texts, item.label)

    def length(self, lengths: Mapping[str, int], item: LabelledText) -> int:
        """Return the tokens of all texts of an item, which may be read as one."""
        return sum(lengths[text] for text in item.texts)

    def columns(self, items: Sequence[LabelledText], tokenize: Tokenize) -> dict[str, Any]:
        """Return the tokenised texts and the labels of items."""
        texts = tuple(tokenize(texts) for texts in zip(*(item.texts for item in items), strict=True))
        return {"texts": texts, "labels": torch.tensor([item.label for item in items])}

    def counts(self, items: Sequence[LabelledText]) -> str:
        """Return the number of items of each class, as text."""
        counted = Counter(item.label for item in items)
        return ", ".join(f"{counted[number]} {name}" for number, name in enumerate(self.classes))


class LabelsDataModule(SourcesDataModule):
    """Labelled texts or text pairs from files or the hub, split for training and validation.

    Without validation files, a share is held back by a hash of the first text, so that the split is reproducible.
    Training items that share a text with it and unlabelled items are excluded and counted on the model card.

    Args:
        train: Training files, or ``hub:owner/name/configuration``.
        task: Task that defines columns and classes of the files, unless ``columns`` and ``labels`` override them.
        columns: Roles of the columns, if they differ from those of the task.
        labels: Classes in the order of their numbers, or class by spelling.
        validation: Validation files; they replace the held-back part.
        split: Split of a hub data set for training; plain files have none.
        validation_split: Split of a hub data set for validation; that of the task if ``None``.
        where: Training rows, as values by group key; all if ``None``.
        validation_where: Validation rows, as values by group key.
        without: Files of text pairs, such as test sets, to exclude from training, in either order.
        held_back: Share of the first texts to hold back if there are no validation files.
        most: Maximum number of training items, chosen by a hash of their texts.
        batch_size: Items per batch over all processes.
        validation_batch_size: Items per validation batch.
        seed: Seed of batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        notice: Caveat about these labels for readers of the results.

    Reference:
        Wang et al. 2018, GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding.
    """

    def __init__(
        self,
        train: list[str],
        task: TaskName | None = None,
        columns: LabelColumns = LabelColumns(),
        labels: list[str] | dict[str, str] | None = None,
        validation: list[str] | None = None,
        split: str = "train",
        validation_split: str | None = None,
        where: dict[str, list[str]] | None = None,
        validation_where: dict[str, list[str]] | None = None,
        without: list[PairFile] | None = None,
        held_back: float = HELD_BACK_SHARE,
        most: int | None = None,
        batch_size: int = 32,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
        notice: str | None = None,
    ) -> None:
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": train}, notice)
        self.names = label_names(task, labels)
        self.columns = filled_columns(task, columns, where, validation_where)
        if self.columns.label is None:
            raise InputError("Expected `columns.label` to name the column of the labels, but got none: name it.")
        check_least(3, most=3 if most is None else most)
        self.validation_files = [] if validation is None else list(named_tables(validation, "validation"))
        self.splits = split, validation_split or ("validation" if task is None else TASKS[task].validation)
        self.where, self.validation_where, self.without = where or {}, validation_where or {}, list(without or [])
        self.held_back, self.most = held_back, most

    def read(self) -> list[Source[Any]]:
        """Read and split the files."""
        about = {"training files": ", ".join(self.files)}
        items, unlabelled = self._read(self.files, self.splits[0], self.where)
        rows = len(items) + unlabelled
        if self.validation_files:
            training = items
            held_back, unlabelled_validation = self._read(self.validation_files, self.splits[1], self.validation_where)
            about["validation files"] = ", ".join(self.validation_files)
            unlabelled += unlabelled_validation
        else:
            held_back = [item for item in items if is_held_back(item.texts[0], self.held_back)]
            held_back_texts = {normalise_reference(text) for item in held_back for text in item.texts}
            # These include held-back first texts. Second texts such as "A man is outside." are often shared.
            training = [item for item in items if held_back_texts.isdisjoint(map(normalise_reference, item.texts))]
            about["held back"] = (
                f"{self.held_back:.0%} by a hash of the first text "
                f"({plural(len(items) - len(training) - len(held_back), 'item')} left out that share a text with them)"
            )
        if unlabelled:
            about["without a label"] = f"{unlabelled} left out"
        (training,), left_out = without_files(
            [training], self.without, lambda item: [normalised_pair(*item.texts)], "item"
        )
        about |= left_out
        training = sample_by_hash(training, self.most, lambda item: item.texts)
        parts = {HELD_BACK: held_back}
        self._check_sizes("items", {"training": training, **parts}, "give more")
        source = self._source(LabelledSource, "labels", training, parts, about=about, classes=self.names.classes)
        if len({item.label for item in training}) < 2:
            raise InputError(
                f"Expected at least two classes to learn, but all items of {', '.join(self.files)} are "
                f"{source.classes[training[0].label]!r}: add items of other classes, or use ParaphrasesDataModule for "
                "paraphrases alone."
            )
        about |= {"classes": source.counts(training), f"{HELD_BACK} classes": source.counts(held_back)}
        lost = rows - len(training) - (0 if self.validation_files else len(held_back))
        logger.info(
            "Labels: %s to train on (%s), %d held back%s",
            f"{len(training):,}", about["classes"], len(held_back), f", {lost:,} left out" if lost else "",
        )  # fmt: skip
        self._check_held_back(source)
        return [source]

    def _check_held_back(self, source: LabelledSource) -> None:
        """Warn of shared first texts, of classes without an item to train on, and of a held-back part of one class."""
        learned = {item.label for item in source.items}
        if missing := ", ".join(name for label, name in enumerate(source.classes) if label not in learned):
            logger.warning(
                "No item to train on is of the class %s, so a classifier will hardly predict it: add some, or leave it "
                "out of `labels`.",
                missing,
            )
        known, held_back = {normalise_reference(item.texts[0]) for item in source.items}, source.parts[HELD_BACK]
        shared = sum(normalise_reference(item.texts[0]) in known for item in held_back)
        overlaps = worth_a_warning({"their first text": (shared, len(held_back))})
        source.about = {**source.about, **warn_of_shared(HELD_BACK, overlaps, given=True, judged="Accuracy")}
        if len({item.label for item in held_back}) < 2:
            logger.warning(
                "All %d items of the %s part are %r: its accuracy cannot tell a trained classifier from one that "
                "always says so. Change `held_back`, or add items of other classes.",
                len(held_back), HELD_BACK, source.classes[held_back[0].label],
            )  # fmt: skip

    def _read(self, files: list[str], split: str, where: dict[str, list[str]]) -> tuple[list[LabelledText], int]:
        texts: list[LabelledText] = []
        unlabelled = 0
        for name in files:
            items, without_label = read_labelled(name, self.columns, self.names, split=split)
            texts += rows_where(items, where, name)
            unlabelled += without_label
        return texts, unlabelled


def filled_columns(task: str | None, columns: LabelColumns, *wheres: Mapping[str, Any] | None) -> LabelColumns:
    """Return the given columns, with the columns of the task as defaults."""
    defaults = LabelColumns() if task is None else TASKS[task].columns
    texts = columns.texts or defaults.texts
    if not texts:
        raise InputError("Expected `columns.texts` to name the columns of the texts, but got none: name one or two.")
    for key in (key for where in wheres for key in where or ()):
        if key not in columns.groups:
            raise InputError(f"Expected `where` to use columns of `columns.groups`, but got {key!r}: add it there.")
    return LabelColumns(tuple(texts), columns.label or defaults.label, tuple(columns.groups))


def read_labelled(
    path: str, columns: LabelColumns, names: LabelNames, *, split: str = "train"
) -> tuple[list[LabelledText], int]:
    """Read the labelled texts of a table or of ``hub:owner/name/configuration``; also return the unlabelled count."""
    label = columns.label or ""
    fields = [("columns.texts", name) for name in columns.texts]
    fields += [("columns.label", label), *(("columns.groups", name) for name in columns.groups)]
    items, unlabelled = [], 0
    for row in usable(row for _, row in read_rows(path, fields, split=split)):
        value = row.cells.get(label)
        try:
            index = names.place(value)
        except KeyError:
            raise InputError(
                f"Expected column {label!r} of {row.name}, {row.unit} {row.number}, to hold one of {names.known}, "
                f"but got {value!r}: correct it, map it to a class with `labels`, or write - to leave the row out."
            ) from None
        if index is None:
            unlabelled += 1
            continue
        texts = tuple(row.text(name) for name in columns.texts)
        items.append(LabelledText(texts, index, {name: row.group(name) for name in columns.groups}))
    return items, unlabelled
