"""Statistics fitted on a corpus: explicit objects that are fitted, saved with the model and named in its signature."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

__all__ = ["CorpusMean"]


class CorpusMean(nn.Module):
    r"""Mean of the token vectors of a corpus, fitted exactly or tracked while the encoder is trained.

    Fitting adds up :math:`\mu = \frac1n \sum_t x_t` over all tokens. Tracking moves the mean towards that of each
    training batch, :math:`\mu \leftarrow m\mu + (1-m)\mu_{batch}`, since the encoder under it moves too; under
    distributed training the batch is the joint one of all ranks.

    Args:
        dimension: Width ``D`` of the vectors.
        momentum: ``m`` in [0, 1).

    Example:
        >>> mean = CorpusMean(2)
        >>> mean.add(torch.tensor([[[1.0, 0.0], [3.0, 2.0]]]), torch.tensor([[True, True]]))
        >>> mean.mean, mean.fitted
        (tensor([2., 1.]), True)
    """

    mean: Tensor
    count: Tensor
    rest: Tensor

    def __init__(self, dimension: int, momentum: float = 0.98) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        # What rounding took from the mean, so that the fit of a large corpus does not drift.
        self.register_buffer("rest", torch.zeros(dimension), persistent=False)

    @property
    def fitted(self) -> bool:
        """Whether anything has been seen."""
        return int(self.count) > 0

    @property
    def fingerprint(self) -> str:
        """First eight digits of a hash of the mean: what the signature names."""
        return hashlib.sha256(self.mean.detach().cpu().numpy().tobytes()).hexdigest()[:8]

    def reset(self) -> None:
        """Forget everything, before a new fit."""
        self.mean.zero_()
        self.count.zero_()
        self.rest.zero_()

    @torch.no_grad()
    def add(self, vectors: Tensor, mask: Tensor) -> None:
        """Take further texts into the fit: vectors ``[B, L, D]``, mask ``[B, L]``."""
        total, tokens = self._sums(vectors, mask)
        self.count += tokens
        # A running update in float64, on the CPU since not every device has it.
        mean = self.mean.cpu().double() + self.rest.cpu().double()
        mean += (total.cpu().double() - int(tokens) * mean) / self.count.clamp(min=1).cpu()
        self.mean.copy_(mean)
        self.rest.copy_(mean - self.mean.cpu().double())

    @torch.no_grad()
    def track(self, vectors: Tensor, mask: Tensor) -> None:
        """Move the mean towards that of a training batch; the first batch sets it."""
        total, tokens = self._sums(vectors, mask)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(total)
            torch.distributed.all_reduce(tokens)
        if int(tokens) == 0:
            return
        batch_mean = total / tokens
        momentum = self.momentum if self.fitted else 0.0
        self.mean.mul_(momentum).add_((1 - momentum) * batch_mean.to(self.mean.dtype))
        self.rest.zero_()
        self.count += tokens

    @staticmethod
    def _sums(vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return (vectors.detach().float() * mask[:, :, None]).sum(dim=(0, 1)), mask.sum()
