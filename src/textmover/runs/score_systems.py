"""Scores of several systems or a long list of pairs, each different pair scored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from textmover.runs.progress import progress_bar
from textmover.types import SourcedReferences

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer


def score_pairs(
    scorer: Scorer, hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, parts: int, shown: bool
) -> NDArray[np.float64]:
    """Scores of texts behind a progress bar; a pair that occurs twice is scored once, so that equal outputs tie."""
    scorer = scorer.for_call(hypotheses, references)  # with weights of all systems, so that scores can be compared
    places: dict[tuple[str, tuple[str, ...], str | None], int] = {}
    pairs = zip(hypotheses, references, strict=True)
    keys = [(text, tuple(several), getattr(several, "source", None)) for text, several in pairs]
    chosen = [places.setdefault(key, len(places)) for key in keys]
    texts, against = [key[0] for key in places], [SourcedReferences(*key[1:]) for key in places]
    found = []
    finished = 0
    with progress_bar("scoring", shown=shown) as advance:

        def count(pairs: int) -> None:
            nonlocal finished
            finished += pairs
            advance(pairs, finished / len(texts), True)

        for start in range(0, len(texts), parts):
            part = slice(start, start + parts)
            found.append(scorer.score_fitted(texts[part], against[part], count).scores)
    return np.concatenate(found)[chosen]
