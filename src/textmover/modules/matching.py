"""The rows of the family: one small class each over :mod:`textmover.functional`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from textmover import functional
from textmover.modules.config import MetricConfig
from textmover.types import MatchResult

__all__ = ["MATCHINGS", "Matching", "Side", "build_matching"]


class Side(NamedTuple):
    """One side of a matching: tokens that may be matched, bool ``[B, L]``, and their weights ``[B, L]``."""

    mask: Tensor
    weights: Tensor


class Matching(nn.Module):
    """How the similarity block of a pair of texts becomes recall, precision and F."""

    has_sides: ClassVar[bool] = True
    """False where recall and precision are one and the same number."""

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """The matching with its parameters from the metric's configuration."""
        return cls()

    def signature_entries(self) -> dict[str, str]:
        """What a score depends on beside the matching's name."""
        return {}

    def learned_fields(self) -> dict[str, float]:
        """Fields of the configuration that training has changed, with their present values."""
        return {}

    @abstractmethod
    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """Match similarities ``[B, M, N]`` (rows: reference tokens)."""


class _Tempered(Matching):
    """A matching with a temperature, fixed or learned (as its logarithm, so that it stays positive)."""

    def __init__(self, temperature: float, *, learn: bool, value: functional.tempered.Value) -> None:
        super().__init__()
        self.value = value
        self._fixed = temperature
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature))) if learn else None

    @property
    def temperature(self) -> Tensor | float:
        """``T``, with gradient where it is learned."""
        return self._fixed if self.log_temperature is None else self.log_temperature.exp()

    def signature_entries(self) -> dict[str, str]:
        """Temperature, and the value where it is not the default."""
        temperature = self.learned_fields().get("temperature", self._fixed)
        return {"T": f"{temperature:.6g}"} | ({"value": self.value} if self.value != "transport" else {})

    def learned_fields(self) -> dict[str, float]:
        """The temperature, where it is learned."""
        return {} if self.log_temperature is None else {"temperature": self.log_temperature.exp().item()}


class Twmd(_Tempered):
    """Tempered word mover similarity (:func:`textmover.functional.twmd`)."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__(config.temperature, learn=config.learn_temperature, value=config.value)
        self.iterations, self.tolerance = config.iterations, config.tolerance

    @classmethod
    def from_config(cls, config: MetricConfig) -> Twmd:
        """See :meth:`Matching.from_config`."""
        return cls(config)

    def signature_entries(self) -> dict[str, str]:
        """Temperature, value, and when the iterations stop."""
        stop = str(self.iterations) if self.tolerance is None else f"to{self.tolerance:g}"
        return super().signature_entries() | {"k": stop}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.twmd(
            similarity,
            reference.weights,
            hypothesis.weights,
            self.temperature,
            iterations=self.iterations,
            tolerance=self.tolerance,
            value=self.value,
            with_plan=with_plan,
        )


class Trwmd(_Tempered):
    """Tempered relaxed word mover similarity (:func:`textmover.functional.trwmd`)."""

    @classmethod
    def from_config(cls, config: MetricConfig) -> Trwmd:
        """See :meth:`Matching.from_config`."""
        return cls(config.temperature, learn=config.learn_temperature, value=config.value)

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.trwmd(
            similarity,
            reference.weights,
            hypothesis.weights,
            reference.mask,
            hypothesis.mask,
            self.temperature,
            value=self.value,
            with_plan=with_plan,
        )


class Greedy(Matching):
    """Greedy matching as in BERTScore (:func:`textmover.functional.greedy_matching`)."""

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.greedy_matching(
            similarity, reference.weights, hypothesis.weights, reference.mask, hypothesis.mask, with_plan=with_plan
        )


class _Symmetric(Matching):
    """A similarity of two sets of tokens that has no sides and no plan but that of all pairs."""

    has_sides = False

    @abstractmethod
    def similarity_of_sets(self, similarity: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """The value ``[B]``."""

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        value = self.similarity_of_sets(similarity, reference.weights, hypothesis.weights)
        plan = reference.weights[:, :, None] * hypothesis.weights[:, None, :] if with_plan else None
        return MatchResult(value, value, value, plan)


class MeanCosine(_Symmetric):
    """Mean of all cosines, SBERT in the TWMD paper (:func:`textmover.functional.mean_cosine`)."""

    def similarity_of_sets(self, similarity: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`_Symmetric`."""
        return functional.mean_cosine(similarity, a, b)


class WordsetCka(_Symmetric):
    """Centred kernel alignment of two sets of words (:func:`textmover.functional.wordset_cka`)."""

    def similarity_of_sets(self, similarity: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`_Symmetric`."""
        return functional.wordset_cka(similarity, a, b)


MATCHINGS: dict[str, type[Matching]] = {
    "twmd": Twmd,
    "trwmd": Trwmd,
    "bertscore": Greedy,
    "sbert": MeanCosine,
    "wordset-cka": WordsetCka,
}
"""Matchings by the names that configurations use."""


def build_matching(config: MetricConfig) -> Matching:
    """The matching that a configuration names."""
    return MATCHINGS[config.matching].from_config(config)
