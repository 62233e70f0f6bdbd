"""Scores of several systems or a long list of pairs, each different pair scored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from textmover.runs.progress import progress_bar

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer


def score_pairs(
    scorer: Scorer, hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, parts: int, shown: bool
) -> NDArray[np.float64]:
    """Scores of texts behind a progress bar; a pair that occurs twice is scored once, so that equal outputs tie."""
    scorer = scorer.for_call(hypotheses, references)  # with weights of all systems, so that scores can be compared
    pairs = zip(hypotheses, references, strict=True)
    keys = [(text, tuple(several), getattr(several, "source", None)) for text, several in pairs]
    firsts = dict(reversed([(key, row) for row, key in enumerate(keys)]))
    places = {key: place for place, key in enumerate(firsts)}
    chosen = [places[key] for key in keys]
    texts, against = [key[0] for key in firsts], [references[row] for row in firsts.values()]
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
