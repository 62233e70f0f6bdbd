"""Protocols of agreement: a statistic, and its units."""

from __future__ import annotations

from dataclasses import dataclass

from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
from textmover.types import InputError, Judgements

LEVELS = {
    "per-group": "within each group, mean over groups",
    "pooled": "over all segments together, whatever their group",
    "per-item": "over the outputs for each item, mean over the items of a group, then over groups",
    "per-system": "over the outputs of each system, mean over the systems of a group, then over groups",
    "systems": "over the mean scores of the systems of each group, mean over groups",
}
"""Units that a statistic can be computed over."""

_SEGMENTS = ("per-group", "pooled", "per-item", "per-system")

STATISTICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(CORRELATIONS, (*_SEGMENTS, "systems")),
    "acc23": _SEGMENTS,
    "tau23": _SEGMENTS,
    "darr": ("per-group", "pooled"),
    "accuracy": ("systems",),
    "soft-accuracy": ("systems",),
}
"""The statistics, each with the levels at which it has a meaning."""


@dataclass(frozen=True)
class Protocol:
    """Protocol by which agreement is measured.

    Attributes:
        statistic: ``pearson``, ``spearman``, ``kendall`` (τ-b), ``kendall-c``, ``acc23``, ``tau23`` (pairwise agreement
            with calibrated ties), ``darr`` (preferences), ``accuracy`` or ``soft-accuracy`` (pairs of systems).
        level: A key of :data:`LEVELS`.
        pair_rate: Share of the pairs that ties are calibrated on, for ``acc23`` and ``tau23``; 1 is exact.

    Raises:
        InputError: If a name is unknown, the statistic has no meaning at the level, or the share is out of range.

    Example:
        >>> str(Protocol("kendall", "per-item"))
        'kendall per-item'
    """

    statistic: str = "pearson"
    level: str = "per-group"
    pair_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise InputError(
                f"Expected the statistic to be {', '.join(STATISTICS)}, but got {self.statistic!r}: choose one."
            )
        if self.level not in LEVELS:
            raise InputError(f"Expected the level to be {', '.join(LEVELS)}, but got {self.level!r}: choose one.")
        levels = STATISTICS[self.statistic]
        if self.level not in levels:
            raise InputError(
                f"Expected the level of {self.statistic} to be {' or '.join(levels)}, but got {self.level!r}: "
                f"{_WHY.get(self.statistic, 'pairs of systems are the business of accuracy')}."
            )
        if not 0 < self.pair_rate <= 1:
            raise InputError(f"Expected `pair_rate` to be above 0 and at most 1, but got {self.pair_rate}: 1 is exact.")
        if self.pair_rate != 1 and self.statistic not in ("acc23", "tau23"):
            raise InputError(
                f"Expected `pair_rate` to be 1 for {self.statistic}, but got {self.pair_rate}: only acc23 and tau23 "
                "calibrate ties."
            )

    def __str__(self) -> str:
        return f"{self.statistic} {self.level}"

    def check(self, judgements: Judgements) -> None:
        """Make sure that a judgement set has what the protocol needs.

        Args:
            judgements: The set.

        Raises:
            InputError: If it lacks systems, items or preferences.
        """
        needs_items = self.level == "per-item" or self.statistic == "soft-accuracy"
        for needed, field, value in (
            (self.level in ("per-system", "systems"), "systems", judgements.systems),
            (needs_items, "items", judgements.items),
            (self.statistic == "darr", "preferences", judgements.preferences),
        ):
            if needed and value is None:
                raise InputError(
                    f"Expected `{judgements.name}` to have {field} for {self}, but got none: name the column that "
                    "holds them, or choose another statistic or level."
                )


_WHY = {
    "darr": "preferences are counted together (micro average)",
    "accuracy": "it compares systems",
    "soft-accuracy": "it compares systems",
}
