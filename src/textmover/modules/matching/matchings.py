"""The rows of the family: one small class each over :mod:`textmover.functional`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from textmover import functional
from textmover.modules.config import MetricConfig
from textmover.modules.matching.names import registered_matching
from textmover.modules.tokens.weighting import Side
from textmover.types import MatchResult


class Matching(nn.Module):
    """Base of matchings: from the similarity block of a pair of texts to recall, precision and F."""

    has_sides: ClassVar[bool] = True
    """False where recall and precision are one and the same number."""

    debiased: ClassVar[bool] = False
    """Whether the values of each text with itself are subtracted."""

    unit_vectors: ClassVar[bool] = True
    """Whether token vectors are scaled to unit length."""

    bounds: tuple[float, float] = (-1.0, 1.0)
    """Lowest and highest value that can occur."""

    @property
    def nothing(self) -> float:
        """Value of a pair with an empty side: as if all tokens were orthogonal."""
        return 0.0

    def report(self, value: Tensor) -> Tensor:
        """The number that is asked for, given the one that was computed."""
        return value

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """The matching with its parameters from the metric's configuration."""
        return cls()

    def signature_entries(self) -> dict[str, str]:
        """Entries of the signature beside the matching's name."""
        return {}

    def learned_fields(self) -> dict[str, float]:
        """Fields of the configuration that training has changed, with their present values."""
        return {}

    @abstractmethod
    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """Match similarities ``[B, M, N]`` (rows: reference tokens)."""


class _Temperature(nn.Module):
    """A temperature, fixed or learned (as its logarithm, so that it stays positive)."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self._fixed = config.temperature
        learned = torch.tensor(math.log(config.temperature)) if config.learn_temperature else None
        self.log_temperature = None if learned is None else nn.Parameter(learned)

    def forward(self) -> Tensor | float:
        """``T``, with gradient where it is learned."""
        return self._fixed if self.log_temperature is None else self.log_temperature.exp()

    @property
    def value(self) -> float:
        """The present temperature."""
        return self._fixed if self.log_temperature is None else self.log_temperature.exp().item()

    def learned_fields(self) -> dict[str, float]:
        """The temperature, where it is learned."""
        return {} if self.log_temperature is None else {"temperature": self.value}


class _Tempered(Matching):
    """A matching with a temperature."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self.config = config
        self.temperature = _Temperature(config)

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """See :meth:`Matching.from_config`."""
        return cls(config)

    def learned_fields(self) -> dict[str, float]:
        """The temperature, where it is learned."""
        return self.temperature.learned_fields()

    def _stop(self) -> str:
        """When the iterations stop: after a number, or at a tolerance (within a number that is not the default)."""
        config = self.config
        if config.tolerance is None:
            return str(config.iterations)
        most = "" if config.max_iterations == MetricConfig().max_iterations else f"max{config.max_iterations}"
        return f"to{config.tolerance:g}{most}"


class Twmd(_Tempered):
    """Tempered word mover similarity (:func:`textmover.functional.twmd`)."""

    def signature_entries(self) -> dict[str, str]:
        """Temperature, value and F where they are not the default, and when the iterations stop."""
        return {"T": f"{self.temperature.value:.6g}", **_value(self.config), **_alpha(self.config), "k": self._stop()}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.twmd(
            similarity,
            reference.weights,
            hypothesis.weights,
            self.temperature(),
            iterations=self.config.iterations,
            tolerance=self.config.tolerance,
            max_iterations=self.config.max_iterations,
            value=self.config.value,
            alpha=self.config.alpha,
            with_plan=with_plan,
        )


class Trwmd(_Tempered):
    """Tempered relaxed word mover similarity (:func:`textmover.functional.trwmd`)."""

    def signature_entries(self) -> dict[str, str]:
        """Temperature, value and F where they are not the default."""
        return {"T": f"{self.temperature.value:.6g}", **_value(self.config), **_alpha(self.config)}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.trwmd(
            similarity,
            reference.weights,
            hypothesis.weights,
            reference.mask,
            hypothesis.mask,
            self.temperature(),
            value=self.config.value,
            alpha=self.config.alpha,
            with_plan=with_plan,
        )


class Greedy(Matching):
    """Greedy matching as in BERTScore (:func:`textmover.functional.greedy_matching`)."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """See :meth:`Matching.from_config`."""
        return cls(config)

    def signature_entries(self) -> dict[str, str]:
        """The F, where it is not the harmonic mean."""
        return _alpha(self.config)

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return functional.greedy_matching(
            similarity,
            reference.weights,
            hypothesis.weights,
            reference.mask,
            hypothesis.mask,
            alpha=self.config.alpha,
            with_plan=with_plan,
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

    bounds = (0.0, 1.0)

    def similarity_of_sets(self, similarity: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`_Symmetric`."""
        return functional.wordset_cka(similarity, a, b)


class PooledCosine(MeanCosine):
    """Inner product of the means of raw token vectors, their cosine once normalised (sentence-transformers)."""

    unit_vectors = False


class _Distance(_Tempered):
    """A matching that gives a distance ``E``, reported as similarity, inverse or distance."""

    has_sides = False

    def __init__(self, config: MetricConfig) -> None:
        super().__init__(config)
        low, high = sorted(self.report(torch.tensor(end, dtype=torch.float64)).item() for end in self._distances())
        self.bounds = (low, high)

    def report(self, distance: Tensor) -> Tensor:
        """The number that is asked for."""
        if self.config.output == "similarity":
            return 1 - distance
        return 1 / (1 + distance) if self.config.output == "inverse" else distance

    @property
    def nothing(self) -> float:
        """Value at the cost of orthogonal vectors."""
        orthogonal = {"cosine": 1.0, "squared-euclidean": 2.0, "euclidean": math.sqrt(2)}[self.config.cost]
        return self.report(torch.tensor(orthogonal)).item()

    def signature_entries(self) -> dict[str, str]:
        """Cost and output."""
        return {"cost": self.config.cost, "output": self.config.output}

    def _distances(self) -> tuple[float, float]:
        """Smallest and largest distance that can occur."""
        return (0.0, 4.0 if self.config.cost == "squared-euclidean" else 2.0)

    def _cost(self, similarity: Tensor, reference: Side, hypothesis: Side) -> Tensor:
        return functional.pairwise_cost(reference.vectors, hypothesis.vectors, similarity, self.config.cost)

    def _stopping(self) -> dict[str, int | float | None]:
        stop = self.config.tolerance
        return {
            "iterations": self.config.iterations if stop is None else None,
            "tolerance": stop,
            "max_iterations": self.config.max_iterations,
        }


class Emd(_Distance):
    """Exact transport (:func:`textmover.functional.exact_transport`), with WMDo's penalty on request."""

    def signature_entries(self) -> dict[str, str]:
        """Cost, output, and the order penalty where there is one."""
        penalty = {"order": f"{self.config.order_penalty:g}"} if self.config.order_penalty else {}
        return {**super().signature_entries(), **penalty}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        cost = self._cost(similarity, reference, hypothesis)
        result = functional.exact_transport(cost, reference.weights, hypothesis.weights)
        distance = result.transport
        if self.config.order_penalty:
            broken = functional.fragmentation(result.plan, reference.weights, hypothesis.weights)
            distance = distance + self.config.order_penalty * broken
        value = self.report(distance)
        return MatchResult(value, value, value, result.plan if with_plan else None, result.converged)

    def _distances(self) -> tuple[float, float]:
        low, high = super()._distances()
        return low, high + self.config.order_penalty


class LazyEmd(_Distance):
    """Transport that may leave tokens (:func:`textmover.functional.lazy_emd`)."""

    def _distances(self) -> tuple[float, float]:
        # Where no side is hard, a large entropy makes mass: there is no bound.
        hard = math.inf in (self.config.hypothesis_penalty, self.config.reference_penalty)
        return super()._distances() if hard else (0.0, math.inf)

    def signature_entries(self) -> dict[str, str]:
        """Cost, output, penalties, epsilon, measure, and when the iterations stop."""
        config = self.config
        penalties = f"{config.hypothesis_penalty:g}/{config.reference_penalty:g}"
        entries = {"lambda": penalties, "epsilon": f"{self.temperature.value:.6g}"}
        if config.temperature:
            entries |= {"measure": config.measure, "k": self._stop()}
        return {**super().signature_entries(), **entries}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        result = functional.lazy_emd(
            self._cost(similarity, reference, hypothesis),
            reference.weights,
            hypothesis.weights,
            reference.mask,
            hypothesis.mask,
            self.temperature(),
            reference_penalty=self.config.reference_penalty,
            hypothesis_penalty=self.config.hypothesis_penalty,
            measure=self.config.measure,
            with_plan=with_plan,
            **self._stopping(),  # type: ignore[arg-type]
        )
        value = self.report(result.f)
        return MatchResult(value, value, value, result.plan, result.converged)


class SinkhornDivergence(_Distance):
    r"""Entropic transport less that of each side with itself.

    :math:`\mathrm{OT}_\varepsilon(X, Y) - \tfrac12(\mathrm{OT}_\varepsilon(X, X) + \mathrm{OT}_\varepsilon(Y, Y))`
    with the values of :func:`textmover.functional.sinkhorn`'s objective: 0 for a text and itself, above otherwise.

    Reference: Genevay, Peyré and Cuturi 2018; Feydy et al. 2019.
    """

    debiased = True

    def signature_entries(self) -> dict[str, str]:
        """Cost, output, epsilon, and when the iterations stop."""
        return {**super().signature_entries(), "epsilon": f"{self.temperature.value:.6g}", "k": self._stop()}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`; the value is the biased one, before :meth:`_Distance.report`."""
        result = functional.sinkhorn(
            self._cost(similarity, reference, hypothesis),
            reference.weights,
            hypothesis.weights,
            self.temperature(),
            **self._stopping(),  # type: ignore[arg-type]
        )
        value = result.objective
        return MatchResult(value, value, value, result.plan if with_plan else None, result.converged)


MATCHINGS: dict[str, type[Matching]] = {
    "twmd": Twmd,
    "trwmd": Trwmd,
    "bertscore": Greedy,
    "emd": Emd,
    "lazy-emd": LazyEmd,
    "sinkhorn-divergence": SinkhornDivergence,
    "sbert": MeanCosine,
    "sbert-pooled": PooledCosine,
    "wordset-cka": WordsetCka,
}
"""Matchings by the names that configurations use."""


def build_matching(config: MetricConfig) -> Matching:
    """The matching that a configuration names, which may be another package's."""
    registered = registered_matching(config.matching) if config.matching not in MATCHINGS else None
    found: Any = MATCHINGS[config.matching] if registered is None else registered.matching
    return found.from_config(config)


def _value(config: MetricConfig) -> dict[str, str]:
    return {"value": config.value} if config.value != "transport" else {}


def _alpha(config: MetricConfig) -> dict[str, str]:
    return {"alpha": f"{config.alpha:g}"} if config.alpha != 0.5 else {}
