"""Random matching problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor


class Problem(NamedTuple):
    """``B`` pairs of sets of unit vectors; the first pair fills the block, later ones are shorter if ragged."""

    similarity: Tensor
    a: Tensor
    b: Tensor
    reference_mask: Tensor
    hypothesis_mask: Tensor

    def to(self, dtype: torch.dtype) -> Problem:
        return self._replace(similarity=self.similarity.to(dtype), a=self.a.to(dtype), b=self.b.to(dtype))

    def transposed(self) -> Problem:
        return Problem(self.similarity.transpose(1, 2), self.b, self.a, self.hypothesis_mask, self.reference_mask)

    def permuted(self, seed: int = 0) -> Problem:
        """The same sets in another order of tokens."""
        generator = torch.Generator().manual_seed(seed)
        rows, columns = (torch.randperm(size, generator=generator) for size in self.similarity.shape[1:])
        return Problem(
            self.similarity[:, rows][:, :, columns],
            self.a[:, rows],
            self.b[:, columns],
            self.reference_mask[:, rows],
            self.hypothesis_mask[:, columns],
        )

    def padded(self, rows: int, columns: int, fill: float = 0.7) -> Problem:
        """The same sets with more padding on both axes, over which the similarity has any value."""
        sides, bottom = (0, columns), (0, rows)
        return Problem(
            torch.nn.functional.pad(self.similarity, (*sides, *bottom), value=fill),
            torch.nn.functional.pad(self.a, bottom),
            torch.nn.functional.pad(self.b, sides),
            torch.nn.functional.pad(self.reference_mask, bottom),
            torch.nn.functional.pad(self.hypothesis_mask, sides),
        )

    def singles(self) -> list[Problem]:
        """Each problem alone, without padding."""
        found = []
        for row in range(len(self.a)):
            m, n = self.reference_mask[row], self.hypothesis_mask[row]
            block = self.similarity[row][m][:, n]
            found.append(Problem(block[None], self.a[row, m][None], self.b[row, n][None], m[m][None], n[n][None]))
        return found


def make_problem(
    batch: int = 4,
    rows: int = 6,
    columns: int = 5,
    *,
    ragged: bool = False,
    uniform: bool = False,
    dimensions: int = 8,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    x, y = (
        torch.nn.functional.normalize(
            torch.randn(batch, size, dimensions, generator=generator, dtype=torch.float64), dim=-1
        )
        for size in (rows, columns)
    )
    masks, weights = [], []
    for size in (rows, columns):
        lengths = torch.tensor([max(1, size - (row % size if ragged else 0)) for row in range(batch)])
        mask = torch.arange(size) < lengths[:, None]
        raw = torch.ones(batch, size) if uniform else torch.rand(batch, size, generator=generator) + 0.1
        raw = raw.double() * mask
        masks.append(mask)
        weights.append(raw / raw.sum(dim=1, keepdim=True))
    return Problem(x @ y.transpose(1, 2), *weights, *masks).to(dtype)


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """Maker of random problems: ``problem(batch, rows, columns, ragged=…, uniform=…, dtype=…, seed=…)``."""
    return make_problem


@pytest.fixture
def costs() -> Callable[..., Problem]:
    """Maker of the same problems with costs in place of similarities."""

    def make(*args, **kwargs) -> Problem:
        given = make_problem(*args, **kwargs)
        return given._replace(similarity=1 - given.similarity)

    return make
