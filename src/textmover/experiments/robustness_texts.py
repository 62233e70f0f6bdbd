"""Texts of ``textmover robustness`` with what they are scored against, and their changed versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from textmover.experiments.layers import choose_texts
from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.robustness import Versions
from textmover.perturbations.kinds import ALIASES, KINDS, perturb_texts
from textmover.perturbations.parses import Parses
from textmover.perturbations.perturbations import Perturbation
from textmover.perturbations.substitutions import Neighbours
from textmover.readers.judgements import load_description, read_judgements
from textmover.readers.segments import Columns, read_segments, read_texts
from textmover.types import InputError, Judgements

KEEPING = ("synonym", "substitute", "passive", "active")
"""Kinds of change that keep the meaning, or mean to."""

YARDSTICK = "unrelated"
"""The kind that stands for the worst."""

TEXT = "text"
"""What the table of scores calls texts as they are."""

NAMES: Mapping[tuple[str, int], str] = {
    (meant, degree): alias for alias, (meant, degrees) in ALIASES.items() for degree in degrees or ()
}
"""Degrees that have a name of their own, since more is done than at the others: all words in random order."""


@dataclass(frozen=True)
class Subjects:
    """Different texts and what each is scored against.

    Attributes:
        name: What they are called.
        texts: The texts.
        references: For each, one or more.
        among: How many different texts they were chosen from.
        own: Whether each text is its own reference.
        rated: Kinds of human ratings that the texts, not their versions, came with.
    """

    name: str
    texts: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    among: int
    own: bool
    rated: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Changed:
    """Texts with their versions, ready to be scored.

    Attributes:
        judgements: The texts, followed by the versions.
        versions: What the versions are.
        absent: Kinds of change that no text allows.
    """

    judgements: Judgements
    versions: Versions
    absent: tuple[str, ...]

    @property
    def facts(self) -> list[MetricScores]:
        """Degree and severity of texts (0) and versions as columns of a table of scores."""
        columns = {"degree": self.versions.degrees, "severity": self.versions.severities}
        return [
            MetricScores(name, np.concatenate([np.zeros(self.versions.texts), values]), higher_is_better=False)
            for name, values in columns.items()
        ]


def read_subjects(options: argparse.Namespace) -> Subjects:
    """The texts that the options name, a random choice of the different ones, in the order of the file.

    Raises:
        InputError: If the file, a column or the set cannot be used, or there are fewer than two different texts.
    """
    split = options.split or "train"
    rated: tuple[str, ...] = ()
    if options.set is not None:
        if options.column is not None or options.reference_column is not None:
            raise InputError(
                "Expected the meaning of columns from --set or from --column and --reference-column, but got both: "
                "leave one out."
            )
        judged = read_judgements(options.input, load_description(options.set), split=split)
        texts, references, rated = judged.hypotheses, judged.references, tuple(judged.ratings)
    elif options.reference_column is not None:
        columns = Columns(options.column or "hypothesis", tuple(dict.fromkeys(options.reference_column)), score=None)
        segments = read_segments(options.input, columns, split=split)
        texts, references = tuple(one.hypothesis for one in segments), tuple(one.references for one in segments)
    else:
        texts = tuple(read_texts(options.input, options.column, split=split))
        references = tuple((text.strip(),) for text in texts)
    first: dict[str, tuple[str, ...]] = {}
    for text, several in zip(texts, references, strict=True):
        if text.strip():
            first.setdefault(text.strip(), tuple(several))
    if len(first) < 2:
        raise InputError(
            f"Expected at least two different texts in {options.input}, but got {len(first)}: give more of them."
        )
    chosen = choose_texts(list(first), options.limit, options.seed)
    own = options.set is None and options.reference_column is None
    return Subjects(str(options.input), tuple(chosen), tuple(first[one] for one in chosen), len(first), own, rated)


def change(
    subjects: Subjects,
    types: Mapping[str, Sequence[int]],
    *,
    seed: int,
    parses: Parses | None,
    neighbours: Neighbours | None,
    on_progress: Callable[[int], None],
) -> Changed:
    """Every wanted change of every text, where it can be made.

    Args:
        subjects: The texts.
        types: Kinds of change with their degrees.
        seed: Of all choices.
        parses: Parses of the texts, for the kinds that need them.
        neighbours: Search for neighbours, for the kind that needs it.
        on_progress: Called with the number of texts that have been finished since the last call.

    Raises:
        InputError: If no text allows any of the changes.
    """
    owners: list[int] = []
    found: list[Perturbation] = []
    for place, made in perturb_texts(subjects.texts, types, seed=seed, parses=parses, neighbours=neighbours):
        owners += [place] * len(made)
        found += made
        on_progress(1)
    kinds = tuple(NAMES.get((one.type, one.degree), one.type) for one in found)
    wanted = kind_names(types)
    if not set(kinds) - {YARDSTICK} and wanted != [YARDSTICK]:
        raise InputError(
            f"Expected texts that allow {', '.join(name for name in wanted if name != YARDSTICK)}, but got none in "
            f"{subjects.name}: give other texts or kinds."
        )
    references = [subjects.references[place] for place in owners]
    judgements = Judgements(
        subjects.name,
        (*subjects.texts, *(one.text for one in found)),
        (*subjects.references, *references),
        {},
        (*[TEXT] * len(subjects.texts), *kinds),
        items=tuple(str(place + 1) for place in [*range(len(subjects.texts)), *owners]),
    )
    versions = Versions(
        len(subjects.texts),
        np.asarray(owners, dtype=np.int64),
        kinds,
        tuple(one.degree for one in found),
        np.asarray([one.severity for one in found], dtype=np.float64),
    )
    return Changed(judgements, versions, tuple(name for name in wanted if name not in kinds))


def kind_names(types: Mapping[str, Sequence[int]]) -> list[str]:
    """What tables call the kinds of change, in their usual order: those that harm, then those that keep the meaning.

    Example:
        >>> kind_names({"synonym": (1,), "swap": (1, 9), "drop": (1,)})
        ['swap', 'shuffle', 'drop', 'synonym']
    """
    ordered = [name for name in KINDS if name in types]
    names = dict.fromkeys(NAMES.get((name, degree), name) for name in ordered for degree in types[name])
    return sorted(names, key=lambda name: name in KEEPING)
