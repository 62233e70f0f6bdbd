"""Mixtures of several data modules in one run."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.data.datamodule import SourcesDataModule
from textmover.data.leakage import WORTH_A_WARNING
from textmover.data.split import normalise_reference
from textmover.data.training_sources import Source
from textmover.types import InputError

logger = logging.getLogger(__name__)

ROUNDING = 1e-9


class MixtureDataModule(SourcesDataModule):
    r"""Mixture of several data modules; each batch is from one of them.

    An epoch takes a share :math:`p_s \propto w_s\,n_s^{1/\tau}` of its batches from source :math:`s` with :math:`n_s`
    batches. :math:`\tau = 1` mixes by size. Larger values oversample small sources, as in multilingual and multi-task
    training. Shares are rounded by largest remainders to the total number of batches; every source gets at least one.

    Args:
        sources: Data modules by source name. The first source of ratings sets the scale of the scores.
        temperature: :math:`\tau`, at least 1.
        weights: :math:`w_s` by name; default 1.
        batches: Batches per epoch; those of all sources together if None.
        seed: Seed of batch order, and of sources without their own seed.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.

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
        by_member: list[list[Source[Any]]] = []
        for name, module in self.members.items():
            module.draw_with(self.seed)
            logger.info("Source %s:", name)  # the messages that follow, of sizes and shared texts, name none
            module.setup()
            several = len(module.sources) > 1
            sources = module.sources.values()
            by_member.append([replace(one, name=f"{name}-{one.name}" if several else name) for one in sources])
        _warn_of_trained_on(by_member)
        result = [source for sources in by_member for source in sources]
        if self.batches is not None and self.batches < len(result):
            raise InputError(f"Expected `batches` to be at least {len(result)}, one a source, but got {self.batches}.")
        return result

    def batch_counts(self, batches: Sequence[int]) -> list[int]:
        """Return the batches per epoch of each source, at least one; they sum to the configured total."""
        weights = np.array([self.weights.get(name, 1.0) for name in self.sources])
        shares = weights * np.asarray(batches, dtype=np.float64) ** (1 / self.temperature)
        total = sum(batches) if self.batches is None else self.batches
        return _apportioned(total, shares)


def _warn_of_trained_on(by_member: Sequence[Sequence[Source[Any]]]) -> None:
    """Warn of parts whose references another member trains on, too; of items without references, their first text."""

    def references(source: Source[Any], item: Any) -> set[str]:
        texts = source.texts(item)[1:] if hasattr(item, "hypothesis") else source.texts(item)[:1]
        return set(map(normalise_reference, texts))

    trained_on = [
        set().union(*(references(source, item) for source in sources for item in source.items)) for sources in by_member
    ]
    parts = [(at, one, part) for at, sources in enumerate(by_member) for one in sources for part in one.parts]
    for place, source, part in parts:
        kept = [references(source, item) for item in source.parts[part]]
        for other, known in enumerate(trained_on):
            shared = sum(not known.isdisjoint(texts) for texts in kept)
            if other == place or not shared or shared < WORTH_A_WARNING * len(kept):
                continue
            names, note = " and ".join(one.name for one in by_member[other]), f"{shared} of {len(kept)}"
            source.about = {**source.about, f"{part}, references that {names} trains on": note}
            logger.warning(
                "In the %s part of %s, %s share their reference or first text with items that %s trains on. Agreement "
                "on them looks better than on new texts: give both sources the same `held_back` and no `validation`, "
                "or remove these texts from %s.",
                part, source.name, note, names, names,
            )  # fmt: skip


def _apportioned(total: int, shares: NDArray[np.float64]) -> list[int]:
    """Return integers of at least 1 that sum to ``total``, in proportion to ``shares``, by largest remainders."""
    small = np.zeros(len(shares), dtype=bool)
    while True:
        quotas = np.where(small, 1.0, (total - small.sum()) * shares / shares[~small].sum())
        below_one = quotas < 1 - ROUNDING
        if not below_one.any():
            break
        small |= below_one
    counts = np.floor(quotas + ROUNDING).astype(np.int64)
    counts[np.argsort(counts - quotas, kind="stable")[: total - counts.sum()]] += 1
    return [int(count) for count in counts]
