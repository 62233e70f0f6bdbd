"""Agreement between the annotators of a project."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from textmover.annotation.project import Project
from textmover.meta_evaluation.agreement import annotators
from textmover.meta_evaluation.error_spans.span_statistics import figures, segment_sums
from textmover.types import MarkedSegment, TextErrors
from textmover.types.word_splitting import text_words


class Pair(NamedTuple):
    """Two annotators.

    Attributes:
        first: Name of the first annotator.
        second: Name of the second annotator.
        items: Number of items that both rated.
        alpha: Krippendorff's α of the two, ordinal, or interval for slider scales.
    """

    first: str
    second: str
    items: int
    alpha: float


class CriterionAgreement(NamedTuple):
    """Agreement on one criterion.

    Attributes:
        criterion: Name of the criterion.
        statistics: Agreement of all annotators.
        pairs: Agreement of each pair of annotators with a common item.
    """

    criterion: str
    statistics: annotators.AnnotatorAgreement
    pairs: tuple[Pair, ...]


def criterion_agreement(project: Project) -> tuple[CriterionAgreement, ...]:
    """Return the agreement on each criterion of a project, over items that at least two annotators rated."""
    agreements = []
    level: annotators.Level = "interval" if project.scale.slider else "ordinal"
    for criterion in project.criteria:
        names, ratings = project.matrix(criterion.name)
        alphas = annotators.pairwise_agreement(ratings, lambda two: annotators.krippendorff_alpha(two, level))
        shared = annotators.pairwise_agreement(ratings, lambda two: float((~np.isnan(two)).all(axis=0).sum()))
        pairs = tuple(
            Pair(names[first], names[second], int(shared[first, second]), float(alphas[first, second]))
            for first, second in zip(*np.triu_indices(len(names), 1), strict=True)
            if shared[first, second] > 0
        )
        agreements.append(CriterionAgreement(criterion.name, annotators.annotator_agreement(ratings), pairs))
    return tuple(agreements)


class ErrorPair(NamedTuple):
    """Agreement of two annotators on errors."""

    first: str  # name of the first annotator
    second: str  # name of the second annotator
    items: int  # number of texts that both have finished
    span_f1: float  # F1 of the marked characters, half credit if severities differ; NaN if neither marked any
    mcc_words: float  # Matthews correlation of the marked words; NaN if both used only one tag


def error_agreement(project: Project) -> tuple[ErrorPair, ...]:
    """Return the agreement on errors of each pair of annotators who have finished a common text.

    Both figures are symmetric, see :func:`~textmover.meta_evaluation.error_spans.span_statistics.span_f1`.
    """
    done = {
        name: {
            key: one.marks.spans for key, one in project.said(name).items() if one.marks is not None and one.marks.done
        }
        for name in project.annotators()
    }
    pairs = []
    for first, second in itertools.combinations(done, 2):
        sums = []
        for item in project.items:
            both = [done[name][item.key] for name in (first, second) if item.key in done[name]]
            if len(both) == 2:
                text, words = item.hypothesis, text_words(item.hypothesis)
                golds = [MarkedSegment(text, spans, words=words, graded=True) for spans in both]
                sums.append([segment_sums(golds[one], TextErrors(text, both[1 - one])) for one in (0, 1)])
        if sums:  # a direction is NaN if its gold annotator marked nothing
            values = figures(np.sum(sums, axis=0))
            both_ways = [float(np.fmax(*values[name])) for name in ("span_f1", "mcc_words")]
            pairs.append(ErrorPair(first, second, len(sums), *both_ways))
    return tuple(pairs)
