"""What RoMe remembers while its scorer is trained: features of pairs, and whether texts are acceptable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from textmover.types import TokenBatch

KEPT_PAIRS = 500_000
"""Most pairs whose features are kept while a scorer is trained, and texts whose acceptability is."""


class KeptFeatures:
    """Features of pairs and acceptability of texts, on the CPU; each is computed once until something is cleared."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self._judged: dict[str, float] = {}

    def clear(self) -> None:
        """Forget everything, as encoder or classifier change."""
        self._judged.clear()
        self._pairs.clear()

    def without_pairs(self) -> KeptFeatures:
        """The same texts judged, and no pairs, as weights of words change."""
        found = KeptFeatures()
        found._judged = self._judged
        return found

    def judged(self, texts: Sequence[str], judge: Callable[[list[str]], Tensor]) -> Tensor:
        """What ``judge`` gives of texts ``[n]``; each is judged once, however often it comes back."""
        found = {text: self._judged.get(text) for text in texts}  # another thread may clear it
        missing = [text for text, value in found.items() if value is None]
        new = dict(zip(missing, judge(missing).tolist(), strict=True))
        if len(self._judged) + len(new) > KEPT_PAIRS:
            self._judged.clear()
        self._judged |= new
        known = {**found, **new}
        return torch.tensor([known[text] for text in texts])

    def features(
        self,
        hypotheses: TokenBatch,
        references: TokenBatch,
        compute: Callable[[TokenBatch, TokenBatch], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Features ``[B, F]`` and flags ``[B, 2]`` of pairs; ``compute`` is asked for those not met before."""
        pairs = list(zip(hypotheses.texts, references.texts, strict=True))
        missing = [row for row, pair in enumerate(pairs) if pair not in self._pairs]
        if missing:
            features, flags = compute(hypotheses.select(missing), references.select(missing))
            if len(self._pairs) + len(missing) > KEPT_PAIRS:
                self._pairs = {pair: self._pairs[pair] for pair in pairs if pair in self._pairs}
            for row, *values in zip(missing, features.cpu(), flags.cpu(), strict=True):
                self._pairs[pairs[row]] = (values[0], values[1])
        features, flags = (torch.stack(column) for column in zip(*(self._pairs[pair] for pair in pairs), strict=True))
        return features, flags
