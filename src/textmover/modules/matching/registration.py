"""Matchings of other packages, known by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from textmover.modules.matching.matchings import Matching
from textmover.modules.matching.names import READ_BY, REGISTERED, Registered
from textmover.modules.matching.names import Matching as Names
from textmover.types import InputError


def register_matching(name: str, matching: type[Matching], reads: Collection[str] = ()) -> None:
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
