"""Matchings of the transport family, one small class each around :mod:`textmover.functional`."""

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
    """Base of matchings: compute recall, precision and F from the token similarities of text pairs."""

    has_sides: ClassVar[bool] = True
    """False if recall and precision are the same number."""

    debiased: ClassVar[bool] = False
    """True if half the sum of each text's value with itself is subtracted."""

    unit_vectors: ClassVar[bool] = True
    """True if token vectors are scaled to unit length."""

    bounds: tuple[float, float] = (-1.0, 1.0)
    """Lowest and highest possible value."""

    @property
    def nothing(self) -> float:
        """Value of a pair with an empty text: that of orthogonal tokens."""
        return 0.0

    def report(self, value: Tensor) -> Tensor:
        """Convert the computed value into the reported one."""
        return value

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        """Build the matching with its parameters from the metric's configuration."""
        return cls()

    def signature_entries(self) -> dict[str, str]:
        """Return further entries for the signature besides the matching's name."""
        return {}

    def learned_fields(self) -> dict[str, float]:
        """Return the configuration fields that training changed, with their current values."""
        return {}

    @abstractmethod
    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """Match similarities ``[B, M, N]`` (rows: reference tokens)."""


class _Configured(Matching):
    entries: ClassVar[tuple[str, ...]] = ()  # names of its signature entries: keys of :data:`ENTRIES`

    def __init__(self, config: MetricConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_config(cls, config: MetricConfig) -> Matching:
        return cls(config)

    def signature_entries(self) -> dict[str, str]:
        return {name: entry for name in self.entries if (entry := ENTRIES[name](self)) is not None}

    def options(self, *names: str) -> dict[str, Any]:
        """Return fields of the configuration as keyword arguments."""
        return {name: getattr(self.config, name) for name in names}


class _Temperature(nn.Module):
    """Temperature ``T``, fixed or learned (as its logarithm, so that it stays positive)."""

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
        return {"temperature": self.temperature.value} if self.config.learn_temperature else {}


class Twmd(_Tempered):
    """Tempered word mover similarity (:func:`textmover.functional.twmd`)."""

    entries = ("T", "value", "alpha", "norm", "same", "k")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        options = self.options("iterations", "tolerance", "max_iterations", "value", "alpha", "error_norm")
        weights = reference.weights, hypothesis.weights
        return functional.twmd(similarity, *weights, self.temperature(), **options, with_plan=with_plan)


class Trwmd(_Tempered):
    """Tempered relaxed word mover similarity (:func:`textmover.functional.trwmd`)."""

    entries = ("T", "value", "alpha", "norm", "same")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        sides = reference.weights, hypothesis.weights, reference.mask, hypothesis.mask
        options = self.options("value", "alpha", "error_norm")
        return functional.trwmd(similarity, *sides, self.temperature(), **options, with_plan=with_plan)


class Greedy(_Configured):
    """Greedy matching as in BERTScore (:func:`textmover.functional.greedy_matching`)."""

    entries = ("alpha", "norm", "same")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        sides = reference.weights, hypothesis.weights, reference.mask, hypothesis.mask
        return functional.greedy_matching(
            similarity, *sides, **self.options("alpha", "error_norm"), with_plan=with_plan
        )


class MeanCosine(Matching):
    """Mean of all cosines, called SBERT in the TWMD paper (:func:`textmover.functional.mean_cosine`)."""

    has_sides = False
    similarity_of_sets = staticmethod(functional.mean_cosine)

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`; the plan is the product of the weights."""
        value = self.similarity_of_sets(similarity, reference.weights, hypothesis.weights)
        plan = reference.weights[:, :, None] * hypothesis.weights[:, None, :] if with_plan else None
        return MatchResult(value, value, value, plan)


class WordsetCka(MeanCosine):
    """Centred kernel alignment of two sets of words (:func:`textmover.functional.wordset_cka`)."""

    bounds = (0.0, 1.0)
    similarity_of_sets = staticmethod(functional.wordset_cka)


class PooledCosine(MeanCosine):
    """Inner product of mean raw token vectors; their cosine if normalised (sentence-transformers)."""

    unit_vectors = False


class _Distance(_Tempered):
    """Matching that computes a distance ``E``, reported as similarity, inverse or distance."""

    has_sides = False

    def __init__(self, config: MetricConfig) -> None:
        super().__init__(config)
        low, high = sorted(self.report(torch.tensor(end, dtype=torch.float64)).item() for end in self._distances())
        self.bounds = (low, high)

    def report(self, distance: Tensor) -> Tensor:
        if self.config.output == "similarity":
            return 1 - distance
        return 1 / (1 + distance) if self.config.output == "inverse" else distance

    @property
    def nothing(self) -> float:
        """Reported value at the cost of orthogonal vectors."""
        orthogonal = {"cosine": 1.0, "squared-euclidean": 2.0, "euclidean": math.sqrt(2)}[self.config.cost]
        return self.report(torch.tensor(orthogonal)).item()

    def _distances(self) -> tuple[float, float]:
        """Return the smallest and largest possible distance."""
        return (0.0, 4.0 if self.config.cost == "squared-euclidean" else 2.0)

    def _problem(self, similarity: Tensor, reference: Side, hypothesis: Side) -> tuple[Tensor, Tensor, Tensor]:
        cost = functional.pairwise_cost(reference.vectors, hypothesis.vectors, similarity, self.config.cost)
        return cost, reference.weights, hypothesis.weights

    def _stopping(self) -> dict[str, Any]:
        stopping = self.options("iterations", "tolerance", "max_iterations")
        return stopping if self.config.tolerance is None else {**stopping, "iterations": None}


class Emd(_Distance):
    """Exact transport (:func:`textmover.functional.exact_transport`), optionally with WMDo's order penalty."""

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
    """Unbalanced transport, which may leave tokens unmatched (:func:`textmover.functional.lazy_emd`)."""

    entries = ("cost", "output", "lambda", "epsilon", "measure", "k")

    def _distances(self) -> tuple[float, float]:
        # With two soft constraints, a large entropy term creates mass, so the distance is unbounded.
        hard = math.inf in (self.config.hypothesis_penalty, self.config.reference_penalty)
        return super()._distances() if hard else (0.0, math.inf)

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature, without measure and iterations if the temperature is 0."""
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
    r"""Entropic transport minus half the sum of each text's transport to itself.

    :math:`\mathrm{OT}_\varepsilon(X, Y) - \tfrac12(\mathrm{OT}_\varepsilon(X, X) + \mathrm{OT}_\varepsilon(Y, Y))`
    with the values of :func:`textmover.functional.sinkhorn`'s objective: 0 for a text and itself, above otherwise.

    Reference: Genevay, Peyré and Cuturi 2018; Feydy et al. 2019.
    """

    debiased = True
    entries = ("cost", "output", "epsilon", "k")

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`; the value is not debiased and not yet passed to :meth:`_Distance.report`."""
        problem = self._problem(similarity, reference, hypothesis)
        result = functional.sinkhorn(*problem, self.temperature(), **self._stopping())
        value = result.objective
        return MatchResult(value, value, value, result.plan if with_plan else None, result.converged)


def _stopping_entry(matching: Any) -> str:
    """Format the stopping criterion: a number of iterations, or a tolerance and a non-default maximum."""
    config = matching.config
    if config.tolerance is None:
        return str(config.iterations)
    most = "" if config.max_iterations == MetricConfig().max_iterations else f"max{config.max_iterations}"
    return f"to{config.tolerance:g}{most}"


def _temperature_entry(matching: Any) -> str:
    return f"{matching.temperature.value:.6g}"


ENTRIES: dict[str, Callable[[Any], str | None]] = {
    "T": _temperature_entry,
    "epsilon": _temperature_entry,
    "k": _stopping_entry,
    "value": lambda one: one.config.value if one.config.value != "transport" else None,
    "alpha": lambda one: f"{one.config.alpha:g}" if one.config.alpha != 0.5 else None,
    "norm": lambda one: f"{one.config.error_norm:g}" if one.config.error_norm != 1 else None,
    "same": lambda one: f"{one.config.same_token_loss:g}" if one.config.same_token_loss != 1 else None,
    "cost": lambda one: one.config.cost,
    "output": lambda one: one.config.output,
    "order": lambda one: f"{one.config.order_penalty:g}" if one.config.order_penalty else None,
    "lambda": lambda one: f"{one.config.hypothesis_penalty:g}/{one.config.reference_penalty:g}",
    "measure": lambda one: one.config.measure,
}
"""Functions that format the signature entries; ``None`` omits an entry at its default."""

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
    """Build the matching that a configuration names, from this or another package."""
    registered = registered_matching(config.matching) if config.matching not in MATCHINGS else None
    found: Any = MATCHINGS[config.matching] if registered is None else registered.matching
    return found.from_config(config)


def register_matching(name: str, matching: type[Matching], reads: Collection[str] = ()) -> None:
    """Register a matching under a name for use in configurations, presets and checkpoints.

    A registered matching must return similarities: higher is better. Registering a name again replaces the matching,
    so a notebook cell can run twice.

    Args:
        name: Value of ``matching`` in a configuration.
        matching: Subclass of :class:`~textmover.modules.Matching`.
        reads: Optional fields that it reads, such as ``temperature``. Changing an optional field that it does not read
            is an error.

    Raises:
        InputError: If the name is a built-in matching, or a field is unknown.
        TypeError: If ``matching`` is not such a class.
    """
    if not isinstance(name, str) or not name.strip() or name in get_args(Names):
        raise InputError(f"Expected a name for the matching that is not taken, but got {name!r}: give another.")
    if not (isinstance(matching, type) and issubclass(matching, Matching)):
        raise TypeError(f"Expected a subclass of textmover.modules.Matching for {name!r}, but got {matching!r}.")
    for field in reads:
        if field not in READ_BY:
            raise InputError(f"Expected `reads` to be among {', '.join(READ_BY)}, but got {field!r}: leave it out.")
    REGISTERED[name] = Registered(matching, frozenset(reads))
