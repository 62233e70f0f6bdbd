"""Corpus statistics, saved with the model and identified in its signature; centring of token vectors."""

from __future__ import annotations

import hashlib
from typing import Literal

import torch
from torch import Tensor, nn

from textmover.functional._arguments import widest_float
from textmover.modules.config import Centering as CenteringName
from textmover.types import InputError


class CorpusMean(nn.Module):
    r"""Mean of a corpus's token vectors, fitted exactly or tracked during training.

    Fitting computes :math:`\mu = \frac1n \sum_t x_t` over all tokens. Since training changes the encoder, tracking
    moves the mean towards that of each training batch, :math:`\mu \leftarrow m\mu + (1-m)\mu_{batch}`. In distributed
    training the batch is the joint one of all ranks.
    """

    mean: Tensor
    count: Tensor
    rest: Tensor

    def __init__(self, dimension: int, momentum: float = 0.98) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        # Rounding error of the mean (compensated summation), so that the fit of a large corpus does not drift.
        self.register_buffer("rest", torch.zeros(dimension), persistent=False)

    @property
    def fitted(self) -> bool:
        """Return whether any token has been added."""
        return int(self.count) > 0

    @property
    def fingerprint(self) -> str:
        """First eight hex digits of a hash of the mean, for the signature."""
        return hashlib.sha256(self.mean.detach().cpu().numpy().tobytes()).hexdigest()[:8]

    @torch.no_grad()
    def add(self, vectors: Tensor, mask: Tensor) -> None:
        """Add texts to the fit: vectors ``[B, L, D]``, mask ``[B, L]``."""
        total, tokens = self._sums(vectors, mask)
        self.count += tokens
        # Running update in float64, on the CPU since not every device supports it.
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


class IdfTable(nn.Module):
    r"""Document frequencies of tokens in a corpus, and their idf weights.

    ``smooth``: :math:`\log\frac{n+1}{df+1}` (BERTScore, MoverScore), 0 for a token in every document.
    ``plus-one``: :math:`\log(1 + \frac{n+1}{df+1})` (YiSi), above 0 for every token. Each copy of a repeated document
    counts; a token counts once per document. A token in no document has df = 0. If every token that occurs is in every
    document, the table is uninformative and all weights are 1.
    """

    counts: Tensor
    documents: Tensor
    from_call: Tensor

    def __init__(self, size: int, formula: Literal["smooth", "plus-one"]) -> None:
        super().__init__()
        self.formula = formula
        # Number of documents per token; int32 suffices for two billion documents.
        self.register_buffer("counts", torch.zeros(size, dtype=torch.int32))
        self.register_buffer("documents", torch.zeros((), dtype=torch.long))
        # True if fitted on the texts of one call; the next call replaces the fit.
        self.register_buffer("from_call", torch.zeros((), dtype=torch.bool))

    @property
    def fitted(self) -> bool:
        """Return whether any document has been added."""
        return int(self.documents) > 0

    @property
    def informative(self) -> bool:
        """Return whether a token occurs in some but not all documents."""
        return bool(((self.counts > 0) & (self.counts < self.documents)).any())

    @property
    def fingerprint(self) -> str:
        """First eight hex digits of a hash of the counts, for the signature."""
        parts = (self.counts, self.documents)
        return hashlib.sha256(b"".join(part.cpu().numpy().tobytes() for part in parts)).hexdigest()[:8]

    @torch.no_grad()
    def add(self, input_ids: Tensor, mask: Tensor) -> None:
        """Add documents to the fit: ids ``[B, L]`` with their mask."""
        rows = torch.arange(len(input_ids), device=input_ids.device)[:, None].expand_as(input_ids)
        size = len(self.counts)
        distinct = torch.unique(rows[mask] * size + input_ids[mask]) % size
        self.counts += torch.bincount(distinct, minlength=size).to(self.counts)
        self.documents += len(input_ids)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return float32 token weights in the shape of the ids; ids below 0 are tokens in no document."""
        if not self.informative:
            return torch.ones_like(input_ids, dtype=torch.float32)
        counts = self.counts[input_ids.clamp(min=0)].masked_fill(input_ids < 0, 0)
        ratio = (self.documents + 1).to(widest_float(counts.device)) / (counts + 1)
        return (ratio.log() if self.formula == "smooth" else (1 + ratio).log()).float()


class Baseline(nn.Module):
    """Mean recall, precision and F of unrelated texts, and rescaling ``(x - b)/(1 - b)`` (Zhang et al. 2020)."""

    values: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("values", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    @property
    def fitted(self) -> bool:
        """Return whether any pair has been added."""
        return int(self.count) > 0

    @torch.no_grad()
    def add(self, scores: Tensor) -> None:
        """Add pairs to the fit: recall, precision and F ``[n, 3]``."""
        if len(scores):
            self.count += len(scores)
            self.values += (scores.to(self.values) - self.values).sum(dim=0) / self.count

    def forward(self, scores: Tensor) -> Tensor:
        """Rescale recall, precision and F ``[B, 3]``."""
        values = self.values.to(scores)
        return (scores - values) / (1 - values)


class Centering(nn.Module):
    """Subtraction of a mean from token vectors.

    * ``none``: nothing.
    * ``dimension``: for each vector, the mean of its own entries (Wordset-CKA).
    * ``sentence``: the mean of the text's selected tokens.
    * ``batch``: the mean of all selected tokens of the batch, as in the TWMD authors' code, which excludes [SEP]. A
      score then depends on the other texts of its batch.
    * ``corpus``: a mean fitted on a corpus or tracked in training, and constant when scoring. In training it is also a
      constant: no gradient flows through it, and no score depends on the other texts of its batch.

    Reference: Chen et al. 2020 (TWMD), section 4.
    """

    def __init__(self, mode: CenteringName, dimension: int) -> None:
        super().__init__()
        self.mode = mode
        self.statistic = CorpusMean(dimension) if mode == "corpus" else None

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Centre vectors ``[B, L, D]``; ``mask`` ``[B, L]`` selects the tokens of a sentence or batch mean."""
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
        """Update the corpus mean with a training batch; do nothing in other modes."""
        if self.statistic is not None:
            self.statistic.track(vectors, mask)
