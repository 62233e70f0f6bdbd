"""Centring: the mean subtracted from token vectors before they are scaled to unit length."""

from __future__ import annotations

from torch import Tensor, nn

from textmover.modules.config import Centering as CenteringName
from textmover.modules.tokens.statistics import CorpusMean
from textmover.types import InputError


class Centering(nn.Module):
    """Subtract a mean from token vectors.

    * ``none``: nothing.
    * ``dimension``: of each vector, the mean of its own entries (Wordset-CKA).
    * ``sentence``: the mean of the text's tokens that take part.
    * ``batch``: the mean of all tokens of the batch that take part, as in the TWMD authors' code, which leaves
      [SEP] out before. A score then depends on its batch mates.
    * ``corpus``: a mean fitted on a corpus, tracked in training, and used as it is when scoring. In training, too, it
      is a constant: no gradient flows through it, and no score depends on its batch mates.

    Reference: Chen et al. 2020 (TWMD), section 4.
    """

    def __init__(self, mode: CenteringName, dimension: int) -> None:
        super().__init__()
        self.mode = mode
        self.statistic = CorpusMean(dimension) if mode == "corpus" else None

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Centre vectors ``[B, L, D]``; the tokens that ``mask [B, L]`` marks have a part in a mean."""
        if self.mode == "none":
            return vectors
        if self.mode == "dimension":
            return vectors - vectors.mean(dim=-1, keepdim=True)
        if self.mode == "corpus":
            if self.statistic is None or not self.statistic.fitted:
                raise InputError(
                    "Expected a corpus mean to be fitted, but got a metric with centering='corpus' and none: call "
                    "`fit(texts)` on it, load a checkpoint that holds one, or choose another centering."
                )
            return vectors - self.statistic.mean.to(vectors.dtype)
        weights = mask[:, :, None].to(vectors.dtype)
        dims = (0, 1) if self.mode == "batch" else (1,)
        total = (vectors * weights).sum(dim=dims, keepdim=True)
        return vectors - total / weights.sum(dim=dims, keepdim=True).clamp(min=1)

    def track(self, vectors: Tensor, mask: Tensor) -> None:
        """Let the corpus mean follow a training batch; nothing in other modes."""
        if self.statistic is not None:
            self.statistic.track(vectors, mask)
