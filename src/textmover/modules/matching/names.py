"""Names of matchings, which fields of a configuration each of them reads, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.modules.matching.matchings import Matching as MatchingClass

Matching = Literal[
    "twmd",
    "trwmd",
    "bertscore",
    "emd",
    "lazy-emd",
    "sinkhorn-divergence",
    "sbert",
    "sbert-pooled",
    "wordset-cka",
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
    "score": SIDES,
    "cost": COSTS,
    "output": COSTS,
    "hypothesis_penalty": frozenset({"lazy-emd"}),
    "reference_penalty": frozenset({"lazy-emd"}),
    "measure": frozenset({"lazy-emd"}),
    "order_penalty": frozenset({"emd"}),
}
"""The matchings that read a field, where not all do: changing it for another one is refused."""

ENTRY_POINTS = "textmover-matchings"
"""Group of entry points by which an installed package names modules that register matchings."""


class Registered(NamedTuple):
    """A matching that another package brought.

    Attributes:
        matching: Its class.
        reads: The fields it reads of those that not all matchings read.
    """

    matching: type[MatchingClass]
    reads: frozenset[str]


_REGISTERED: dict[str, Registered] = {}


def register_matching(name: str, matching: type[MatchingClass], reads: Collection[str] = ()) -> None:
    """Make a matching known by a name, so that configurations, presets and checkpoints can name it.

    A matching of one's own gives similarities: higher is better. Registering a name again replaces what it stood for,
    as running a cell of a notebook twice does.

    Args:
        name: What ``matching`` in a configuration is to say.
        matching: Subclass of :class:`~textmover.modules.matching.matchings.Matching`.
        reads: Fields that it reads of those that not all matchings read, such as ``temperature``; changing another one
            of these is refused.

    Raises:
        InputError: If the name is one of the project's own, or a field does not exist.
        TypeError: If it is no such class.
    """
    from textmover.modules.matching.matchings import Matching as Base

    if not isinstance(name, str) or not name.strip() or name in get_args(Matching):
        raise InputError(f"Expected a name for the matching that is not taken, but got {name!r}: give another.")
    if not (isinstance(matching, type) and issubclass(matching, Base)):
        raise TypeError(f"Expected a subclass of textmover.modules.Matching for {name!r}, but got {matching!r}.")
    for field in reads:
        if field not in READ_BY:
            raise InputError(f"Expected `reads` to be among {', '.join(READ_BY)}, but got {field!r}: leave it out.")
    _REGISTERED[name] = Registered(matching, frozenset(reads))


def registered_matching(name: str) -> Registered | None:
    """What was registered under a name, here or by the entry point of an installed package; ``None`` if nothing was."""
    if name not in _REGISTERED:
        for point in entry_points(group=ENTRY_POINTS, name=name):
            point.load()
    return _REGISTERED.get(name)


def check_matching(name: object) -> None:
    """Raise an :class:`InputError` unless a matching has this name."""
    if isinstance(name, str) and (name in get_args(Matching) or registered_matching(name) is not None):
        return
    known = ", ".join(map(repr, (*get_args(Matching), *_REGISTERED)))
    raise InputError(
        f"Expected `matching` to be one of {known}, but got {name!r}: correct it, or import what registers it."
    )


def who_reads(field: str) -> frozenset[str] | None:
    """The matchings that read a field; ``None`` where all do.

    Example:
        >>> sorted(who_reads("alpha")), who_reads("layer")
        (['bertscore', 'trwmd', 'twmd'], None)
    """
    if field not in READ_BY:
        return None
    return READ_BY[field] | {name for name, one in _REGISTERED.items() if field in one.reads}
