"""Names of matchings, the configuration fields that each reads, and the registry for other packages."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from textmover.types import InputError

if TYPE_CHECKING:
    from torch import nn

Matching = Literal[
    "twmd", "trwmd", "bertscore", "emd", "lazy-emd", "sinkhorn-divergence", "sbert", "sbert-pooled", "wordset-cka"
]

TEMPERED = frozenset({"twmd", "trwmd", "lazy-emd", "sinkhorn-divergence"})
ITERATED = frozenset({"twmd", "lazy-emd", "sinkhorn-divergence"})
COSTS = frozenset({"emd", "lazy-emd", "sinkhorn-divergence"})
SIDES = frozenset({"twmd", "trwmd", "bertscore"})

READ_BY: dict[str, frozenset[str]] = {
    "temperature": TEMPERED,
    "learn_temperature": TEMPERED,
    "iterations": ITERATED,
    "tolerance": ITERATED,
    "max_iterations": ITERATED,
    "value": frozenset({"twmd", "trwmd"}),
    "alpha": SIDES,
    "error_norm": SIDES,
    "same_token_loss": SIDES,
    "score": SIDES,
    "cost": COSTS,
    "output": COSTS,
    "hypothesis_penalty": frozenset({"lazy-emd"}),
    "reference_penalty": frozenset({"lazy-emd"}),
    "measure": frozenset({"lazy-emd"}),
    "order_penalty": frozenset({"emd"}),
}
"""Matchings that read a field, for fields that not all read; changing it is an error with any other matching."""

ENTRY_POINTS = "textmover-matchings"
"""Group of entry points with which an installed package names modules that register matchings."""


class Registered(NamedTuple):
    """Matching registered by another package."""

    matching: type[nn.Module]  # its class
    reads: frozenset[str]  # fields of :data:`READ_BY` that it reads


REGISTERED: dict[str, Registered] = {}


def registered_matching(name: str) -> Registered | None:
    """Return the matching registered under a name, here or by an entry point of a package, or ``None``."""
    try:
        for point in () if name in REGISTERED else entry_points(group=ENTRY_POINTS, name=name):
            point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Expected an installed package to register the matching {name!r}, but loading it ended with '{error}': "
            "repair that package, or uninstall it."
        ) from error
    return REGISTERED.get(name)


def check_matching(name: object) -> None:
    """Raise an :class:`InputError` unless a matching of this name exists."""
    if isinstance(name, str) and (name in get_args(Matching) or registered_matching(name) is not None):
        return
    installed = (point.name for point in entry_points(group=ENTRY_POINTS))
    known = ", ".join(map(repr, dict.fromkeys((*get_args(Matching), *REGISTERED, *installed))))
    raise InputError(
        f"Expected `matching` to be one of {known}, but got {name!r}: correct it, or import what registers it."
    )


def who_reads(field: str) -> frozenset[str] | None:
    """Return the matchings that read a field; ``None`` if all do."""
    if field not in READ_BY:
        return None
    return READ_BY[field] | {name for name, one in REGISTERED.items() if field in one.reads}
