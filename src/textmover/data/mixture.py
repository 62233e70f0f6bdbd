"""Mixtures of several data modules in one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.data.datamodule import SourcesDataModule
from textmover.data.mixture_sources import Source
from textmover.types import InputError

ROUNDING = 1e-9


class MixtureDataModule(SourcesDataModule):
    r"""Several data modules mixed: each batch is of one of them.

    An epoch takes a share :math:`p_s \propto w_s\,n_s^{1/\tau}` of its batches from source :math:`s`, which has
    :math:`n_s` batches of its own: :math:`\tau = 1` mixes by size, larger values give small sources more than their
    share (they are gone through several times), as in multilingual and multi-task training. Shares are rounded by the
    largest remainders to as many batches as asked for; a source with less than one gets one at the cost of the others.

    Args:
        sources: Data modules by the name that their source gets. The first one of ratings sets the scale of the scores.
        temperature: :math:`\tau`, at least 1.
        weights: :math:`w_s` by name; 1 where none is given.
        batches: Batches to an epoch; those of all sources together if None.
        seed: Seed of the order of batches, and of sources that have none of their own.
        workers: Processes that tokenise ahead; 0 tokenises in between.

    Reference:
        Arivazhagan et al. 2019 (arXiv:1907.05019), section 4.2, for the temperature.
    """

    def __init__(
        self,
        sources: dict[str, SourcesDataModule],
        temperature: float = 1.0,
        weights: dict[str, float] | None = None,
        batches: int | None = None,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers)
        if not sources:
            raise InputError("Expected `sources` to name at least one data module, but got none: name one.")
        for name in sources:
            if not re.fullmatch(r"[\w-]+", name):
                raise InputError(f"Expected `sources` to have names of letters, digits, - and _, but got {name!r}.")
        if not 1 <= temperature < float("inf"):
            raise InputError(f"Expected `temperature` to be a finite number of at least 1, but got {temperature}.")
        unknown = sorted(set(weights or {}) - set(sources))
        if unknown:
            raise InputError(
                f"Expected `weights` of sources ({', '.join(sources)}), but got {unknown[0]!r}: name one of them."
            )
        if any(not 0 < weight < float("inf") for weight in (weights or {}).values()):
            raise InputError(f"Expected `weights` to be finite numbers above 0, but got {weights}.")
        if batches is not None and batches < len(sources):
            raise InputError(f"Expected `batches` to be at least {len(sources)}, one a source, but got {batches}.")
        self.members, self.temperature, self.weights, self.batches = sources, temperature, weights or {}, batches

    def read(self) -> list[Source[Any]]:
        """Read all sources."""
        found = []
        for name, module in self.members.items():
            module.draw_with(self.seed)
            module.setup()
            for source in module.sources.values():
                own = name if len(module.sources) == 1 else f"{name}-{source.name}"
                found.append(replace(source, name=own))
        if self.batches is not None and self.batches < len(found):
            raise InputError(f"Expected `batches` to be at least {len(found)}, one a source, but got {self.batches}.")
        return found

    def batch_counts(self, batches: Sequence[int]) -> list[int]:
        """Batches of each source to an epoch, at least one; their sum is what was asked for."""
        weights = np.array([self.weights.get(name, 1.0) for name in self.sources])
        shares = weights * np.asarray(batches, dtype=np.float64) ** (1 / self.temperature)
        total = sum(batches) if self.batches is None else self.batches
        return _apportioned(total, shares)


def _apportioned(total: int, shares: NDArray[np.float64]) -> list[int]:
    """Whole numbers of at least 1 with a sum of ``total``, in proportion to ``shares``, by the largest remainders."""
    small = np.zeros(len(shares), dtype=bool)
    while True:
        quotas = np.where(small, 1.0, (total - small.sum()) * shares / shares[~small].sum())
        found = quotas < 1 - ROUNDING
        if not found.any():
            break
        small |= found
    counts = np.floor(quotas + ROUNDING).astype(np.int64)
    counts[np.argsort(counts - quotas, kind="stable")[: total - counts.sum()]] += 1
    return [int(count) for count in counts]
