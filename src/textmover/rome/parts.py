"""Parts of RoMe that come from elsewhere: what they must be, and weights that its state leaves out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from textmover.rome.config import FEATURES
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.rome.metric import RomeMetric

logger = logging.getLogger(__name__)

GIVEN = ("reader.", "acceptability.", "others.")
"""Beginnings of the names of weights that come from elsewhere and are named, not stored."""

PARTS = ("encoder", "layer", "parser", "variant", "trees", "acceptability")
"""Entries of the signature that say where values of features lie."""


def check_feature(name: str, part: Any) -> None:
    """Refuse a part that is not a similarity, or needs corpus statistics."""
    if not isinstance(part, nn.Module) or part.needs_fit or part.fits_on_call or not part.higher_is_better:
        raise InputError(
            f"Expected the feature {name!r} to be a similarity that needs no corpus statistics, but it is not: "
            f"choose {', '.join(FEATURES)}, or a metric such as twmd or bertscore-f1."
        )


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Refuse overrides by which a checkpoint would need another scorer."""
    fixed = [name for name in ("kind", "features", "scorer") if name in overrides]
    if fixed:
        raise InputError(
            f"Expected a trained metric to keep the {fixed[0]} of its training, but got `{fixed[0]}`: leave it out, or "
            "take the preset `rome`."
        )


def warn_of_other_parts(metric: RomeMetric) -> None:
    """Warn if the scorer was trained on features of other parts."""
    learned_from = metric.scorer.learned_from if metric.scorer is not None else None
    own = metric.signature.entries if learned_from else {}
    if different := [name for name in PARTS if learned_from and own.get(name) != learned_from.get(name)]:
        logger.warning(
            "The scorer %s was trained with another %s: features may have other values. Take their mean (scorer: "
            "mean), or train a scorer on these features.",
            metric.config.scorer,
            ", ".join(different),
        )


def leave_out(metric: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Keep weights that come from elsewhere out of a state: they are named by the configuration."""
    for name in [one for one in state if one.removeprefix(prefix).startswith(GIVEN)]:
        del state[name]


def forgive(metric: nn.Module, found: Any) -> None:
    """Miss nothing that is kept out of a state, also where the metric is a part of what is loaded."""
    kept_out = tuple(f".{one}" for one in GIVEN)
    found.missing_keys[:] = [name for name in found.missing_keys if not any(one in f".{name}" for one in kept_out)]
