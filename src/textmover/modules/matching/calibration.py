"""From a metric's own scale to that of human ratings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Calibration(nn.Module):
    r"""Affine map :math:`\hat y = \alpha s + \beta` with learned scale and offset; higher is better behind it."""

    def __init__(self, *, falling: bool = False) -> None:
        super().__init__()
        self.sign = -1.0 if falling else 1.0
        self.scale = nn.Parameter(torch.tensor(self.sign))
        self.offset = nn.Parameter(torch.zeros(()))

    def signature_entries(self) -> dict[str, str]:
        """Entry of the signature."""
        return {"calibration": f"{self.scale.item():.6g}*s{self.offset.item():+.6g}"}

    def forward(self, scores: Tensor) -> Tensor:
        """Scores ``[B]`` on the human scale."""
        return self.scale * scores + self.offset

    @torch.no_grad()
    def fit(self, scores: Tensor, ratings: Tensor) -> None:
        """Least squares over given scores and ratings ``[n]``; a slope of 1 (or -1) where the scores are constant.

        A slope of the wrong sign is not fitted: a head must never turn the order of two texts around.
        """
        x, y = scores.double(), ratings.double()
        spread = (x - x.mean()).square().sum()
        slope = ((x - x.mean()) * (y - y.mean())).sum() / spread if spread > 0 else torch.zeros(())
        slope = slope if slope * self.sign > 0 else torch.tensor(self.sign)
        self.scale.copy_(slope)
        self.offset.copy_(y.mean() - slope * x.mean())
