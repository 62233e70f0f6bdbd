"""Agreement between the annotators of a project."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from textmover.annotation.project import Project
from textmover.meta_evaluation.agreement.annotators import (
    AnnotatorAgreement,
    Level,
    annotator_agreement,
    krippendorff_alpha,
    pairwise_agreement,
)


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
    statistics: AnnotatorAgreement
    pairs: tuple[Pair, ...]


def criterion_agreement(project: Project) -> tuple[CriterionAgreement, ...]:
    """Agreement on each criterion, over the items that at least two annotators rated for it.

    Args:
        project: The project.

    Returns:
        One for each criterion, in the project's order.
    """
    found = []
    level: Level = "interval" if project.scale.slider else "ordinal"
    for criterion in project.criteria:
        names, ratings = project.matrix(criterion.name)
        alphas = pairwise_agreement(ratings, lambda two: krippendorff_alpha(two, level))
        shared = pairwise_agreement(ratings, lambda two: float((~np.isnan(two)).all(axis=0).sum()))
        pairs = tuple(
            Pair(names[one], names[other], int(shared[one, other]), float(alphas[one, other]))
            for one, other in zip(*np.triu_indices(len(names), 1), strict=True)
            if shared[one, other] > 0
        )
        found.append(CriterionAgreement(criterion.name, annotator_agreement(ratings), pairs))
    return tuple(found)
