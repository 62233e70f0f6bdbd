"""The rows of the family: one small class each over :mod:`textmover.functional`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from textmover import functional
from textmover.modules.config import MetricConfig
from textmover.modules.matching.names import READ_BY, REGISTERED, Registered, registered_matching
from textmover.modules.matching.names import Matching as Names
from textmover.modules.tokens.weighting import Side
from textmover.types import InputError, MatchResult


class Matching(nn.Module):
    """Base of matchings: from the similarity block of a pair of texts to recall, precision and F."""

    has_sides: ClassVar[bool] = True
    """False where recall and precision are one and the same number."""

    debiased: ClassVar[bool] = False
    """True if the values of each text with itself are subtracted."""

    unit_vectors: ClassVar[bool] = True
    """True if token vectors are scaled to unit length."""

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


class _Configured(Matching):
    """A matching that reads its options from the configuration."""

    entries: ClassVar[tuple[str, ...]] = ()  # names of its entries of the signature: keys of :data:`ENTRIES`

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """See :meth:`Matching.from_config`."""
        return cls(config)

    def signature_entries(self) -> dict[str, str]:
        """Entries that are not left out at their default."""
        return {name: found for name in self.entries if (found := ENTRIES[name](self)) is not None}

    def options(self, *names: str) -> dict[str, Any]:
        """Fields of the configuration, as the functions call them."""
        return {name: getattr(self.config, name) for name in names}


class _Temperature(nn.Module):
    """A temperature ``T``, fixed or learned (as its logarithm, so that it stays positive)."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self.fixed = config.temperature
        self.log_temperature = nn.Parameter(torch.tensor(math.log(self.fixed))) if config.learn_temperature else None

    def forward(self) -> Tensor | float:
        return self.fixed if self.log_temperature is None else self.log_temperature.exp()

    @property
    def value(self) -> float:
        return self.fixed if self.log_temperature is None else self.log_temperature.exp().item()


class _Tempered(_Configured):
    def __init__(self, config: MetricConfig) -> None:
        super().__init__(config)
        self.temperature = _Temperature(config)

    def learned_fields(self) -> dict[str, float]:
        """The temperature, where it is learned."""
        return {"temperature": self.temperature.value} if self.config.learn_temperature else {}


class Twmd(_Tempered):
    """Tempered word mover similarity (:func:`textmover.functional.twmd`)."""

    entries = ("T", "value", "alpha", "k")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        options = self.options("iterations", "tolerance", "max_iterations", "value", "alpha")
        weights = reference.weights, hypothesis.weights
        return functional.twmd(similarity, *weights, self.temperature(), **options, with_plan=with_plan)


class Trwmd(_Tempered):
    """Tempered relaxed word mover similarity (:func:`textmover.functional.trwmd`)."""

    entries = ("T", "value", "alpha")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        sides = reference.weights, hypothesis.weights, reference.mask, hypothesis.mask
        options = self.options("value", "alpha")
        return functional.trwmd(similarity, *sides, self.temperature(), **options, with_plan=with_plan)


class Greedy(_Configured):
    """Greedy matching as in BERTScore (:func:`textmover.functional.greedy_matching`)."""

    entries = ("alpha",)

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        sides = reference.weights, hypothesis.weights, reference.mask, hypothesis.mask
        return functional.greedy_matching(similarity, *sides, **self.options("alpha"), with_plan=with_plan)


class MeanCosine(Matching):
    """Mean of all cosines, SBERT in the TWMD paper (:func:`textmover.functional.mean_cosine`)."""

    has_sides = False
    similarity_of_sets = staticmethod(functional.mean_cosine)

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`; the plan is that of all pairs."""
        value = self.similarity_of_sets(similarity, reference.weights, hypothesis.weights)
        plan = reference.weights[:, :, None] * hypothesis.weights[:, None, :] if with_plan else None
        return MatchResult(value, value, value, plan)


class WordsetCka(MeanCosine):
    """Centred kernel alignment of two sets of words (:func:`textmover.functional.wordset_cka`)."""

    bounds = (0.0, 1.0)
    similarity_of_sets = staticmethod(functional.wordset_cka)


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

    def _distances(self) -> tuple[float, float]:
        """Smallest and largest distance that can occur."""
        return (0.0, 4.0 if self.config.cost == "squared-euclidean" else 2.0)

    def _problem(self, similarity: Tensor, reference: Side, hypothesis: Side) -> tuple[Tensor, Tensor, Tensor]:
        cost = functional.pairwise_cost(reference.vectors, hypothesis.vectors, similarity, self.config.cost)
        return cost, reference.weights, hypothesis.weights

    def _stopping(self) -> dict[str, Any]:
        stopping = self.options("iterations", "tolerance", "max_iterations")
        return stopping if self.config.tolerance is None else {**stopping, "iterations": None}


class Emd(_Distance):
    """Exact transport (:func:`textmover.functional.exact_transport`), with WMDo's penalty on request."""

    entries = ("cost", "output", "order")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        result = functional.exact_transport(*self._problem(similarity, reference, hypothesis))
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

    entries = ("cost", "output", "lambda", "epsilon", "measure", "k")

    def _distances(self) -> tuple[float, float]:
        # Where no side is hard, a large entropy makes mass: there is no bound.
        hard = math.inf in (self.config.hypothesis_penalty, self.config.reference_penalty)
        return super()._distances() if hard else (0.0, math.inf)

    def signature_entries(self) -> dict[str, str]:
        """Without temperature, neither measure nor iterations."""
        entries = super().signature_entries()
        return entries if self.config.temperature else {k: v for k, v in entries.items() if k not in ("measure", "k")}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        sides = *self._problem(similarity, reference, hypothesis), reference.mask, hypothesis.mask
        options = self.options("reference_penalty", "hypothesis_penalty", "measure") | self._stopping()
        result = functional.lazy_emd(*sides, self.temperature(), **options, with_plan=with_plan)
        value = self.report(result.f)
        return MatchResult(value, value, value, result.plan, result.converged)


class SinkhornDivergence(_Distance):
    r"""Entropic transport less that of each side with itself.

    :math:`\mathrm{OT}_\varepsilon(X, Y) - \tfrac12(\mathrm{OT}_\varepsilon(X, X) + \mathrm{OT}_\varepsilon(Y, Y))`
    with the values of :func:`textmover.functional.sinkhorn`'s objective: 0 for a text and itself, above otherwise.

    Reference: Genevay, Peyré and Cuturi 2018; Feydy et al. 2019.
    """

    debiased = True
    entries = ("cost", "output", "epsilon", "k")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`; the value is the biased one, before :meth:`_Distance.report`."""
        problem = self._problem(similarity, reference, hypothesis)
        result = functional.sinkhorn(*problem, self.temperature(), **self._stopping())
        value = result.objective
        return MatchResult(value, value, value, result.plan if with_plan else None, result.converged)


def _stop(matching: Any) -> str:
    """When the iterations stop: after a number, or at a tolerance (within a number that is not the default)."""
    config = matching.config
    if config.tolerance is None:
        return str(config.iterations)
    most = "" if config.max_iterations == MetricConfig().max_iterations else f"max{config.max_iterations}"
    return f"to{config.tolerance:g}{most}"


def _temperature(matching: Any) -> str:
    return f"{matching.temperature.value:.6g}"


ENTRIES: dict[str, Callable[[Any], str | None]] = {
    "T": _temperature,
    "epsilon": _temperature,
    "k": _stop,
    "value": lambda one: one.config.value if one.config.value != "transport" else None,
    "alpha": lambda one: f"{one.config.alpha:g}" if one.config.alpha != 0.5 else None,
    "cost": lambda one: one.config.cost,
    "output": lambda one: one.config.output,
    "order": lambda one: f"{one.config.order_penalty:g}" if one.config.order_penalty else None,
    "lambda": lambda one: f"{one.config.hypothesis_penalty:g}/{one.config.reference_penalty:g}",
    "measure": lambda one: one.config.measure,
}
"""Entries of signatures by name; ``None`` at a default that is left out."""

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


def register_matching(name: str, matching: type[Matching], reads: Collection[str] = ()) -> None:
    """Make a matching known by a name, so that configurations, presets and checkpoints can name it.

    A matching of one's own gives similarities: higher is better. Registering a name again replaces what it stood for,
    as running a cell of a notebook twice does.

    Args:
        name: What ``matching`` in a configuration is to say.
        matching: Subclass of :class:`~textmover.modules.Matching`.
        reads: Fields that it reads of those that not all matchings read, such as ``temperature``; changing another one
            of these is refused.

    Raises:
        InputError: If the name is one of the project's own, or a field does not exist.
        TypeError: If it is not such a class.
    """
    if not isinstance(name, str) or not name.strip() or name in get_args(Names):
        raise InputError(f"Expected a name for the matching that is not taken, but got {name!r}: give another.")
    if not (isinstance(matching, type) and issubclass(matching, Matching)):
        raise TypeError(f"Expected a subclass of textmover.modules.Matching for {name!r}, but got {matching!r}.")
    for field in reads:
        if field not in READ_BY:
            raise InputError(f"Expected `reads` to be among {', '.join(READ_BY)}, but got {field!r}: leave it out.")
    REGISTERED[name] = Registered(matching, frozenset(reads))
