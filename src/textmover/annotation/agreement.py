"""Agreement between the annotators of a project."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from textmover.annotation.project import Project
from textmover.meta_evaluation.agreement import annotators
from textmover.meta_evaluation.error_spans.segment_sums import figures, segment_sums
from textmover.types import MarkedSegment, TextErrors
from textmover.types.text_words import text_words


class Pair(NamedTuple):
    """Two annotators.

    Attributes:
        first: Name of the one.
        second: Name of the other.
        items: Items that both rated.
        alpha: Krippendorff's α of the two, at the level of the project's scale.
    """

    first: str
    second: str
    items: int
    alpha: float


class CriterionAgreement(NamedTuple):
    """Agreement on one criterion.

    Attributes:
        criterion: Its name.
        statistics: Of all annotators.
        pairs: Of every two who share an item.
    """

    criterion: str
    statistics: annotators.AnnotatorAgreement
    pairs: tuple[Pair, ...]


def criterion_agreement(project: Project) -> tuple[CriterionAgreement, ...]:
    """Agreement on each criterion of a project in turn, over the items that at least two annotators rated for it."""
    found = []
    level: annotators.Level = "interval" if project.scale.slider else "ordinal"
    for criterion in project.criteria:
        names, ratings = project.matrix(criterion.name)
        alphas = annotators.pairwise_agreement(ratings, lambda two: annotators.krippendorff_alpha(two, level))
        shared = annotators.pairwise_agreement(ratings, lambda two: float((~np.isnan(two)).all(axis=0).sum()))
        pairs = tuple(
            Pair(names[one], names[other], int(shared[one, other]), float(alphas[one, other]))
            for one, other in zip(*np.triu_indices(len(names), 1), strict=True)
            if shared[one, other] > 0
        )
        found.append(CriterionAgreement(criterion.name, annotators.annotator_agreement(ratings), pairs))
    return tuple(found)


class ErrorPair(NamedTuple):
    """Agreement of two annotators on errors."""

    first: str  # name of the one
    second: str  # name of the other
    items: int  # texts that both are done with
    span_f1: float  # F1 of the marked characters, half a point for another severity; NaN where neither marked any
    mcc_words: float  # Matthews correlation of the words that they marked; NaN where both gave one tag alone


def error_agreement(project: Project) -> tuple[ErrorPair, ...]:
    """Agreement on errors of every two annotators who are done with a common text.

    Both figures are the same in both directions, see
    :func:`~textmover.meta_evaluation.error_spans.segment_sums.span_f1`.
    """
    done = {
        name: {
            key: one.marks.spans for key, one in project.said(name).items() if one.marks is not None and one.marks.done
        }
        for name in project.annotators()
    }
    found = []
    for first, second in itertools.combinations(done, 2):
        sums = []
        for item in project.items:
            both = [done[name][item.key] for name in (first, second) if item.key in done[name]]
            if len(both) == 2:
                text, words = item.hypothesis, text_words(item.hypothesis)
                golds = [MarkedSegment(text, spans, words=words, graded=True) for spans in both]
                sums.append([segment_sums(golds[one], TextErrors(text, both[1 - one])) for one in (0, 1)])
        if sums:  # a direction is NaN where the one whose marks count as gold marked nothing
            values = figures(np.sum(sums, axis=0))
            both_ways = [float(np.fmax(*values[name])) for name in ("span_f1", "mcc_words")]
            found.append(ErrorPair(first, second, len(sums), *both_ways))
    return tuple(found)
