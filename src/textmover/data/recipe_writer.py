"""A recipe for a table of ratings, as ``train.py fit --config`` reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from textmover.data.split import BY_REFERENCE, split_held_back
from textmover.readers.segments import Columns
from textmover.types import Segment

TEMPLATE = Path(__file__).with_name("recipe.yaml")  # of `examples/own_ratings`
LARGE_TEMPLATE = TEMPLATE.with_name("large_recipe.yaml")  # of `configs/wmt_da.yaml`, for more ratings
MARKED_TEMPLATE = TEMPLATE.with_name("marked_recipe.yaml")  # for texts whose errors people marked
MOST_RATINGS = 2000  # up to which `docs/own-ratings.md` recommends the first of these
FEWEST = 3  # segments that the held-back part must have, as :mod:`textmover.data.datamodule` wants it

SHARES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, *(number / 50 for number in range(1, 50)))
"""Shares to hold back: the first that holds back enough is taken; the last ones part few groups of rows."""


def share_to_hold_back(segments: Sequence[Segment], by: Sequence[str] = BY_REFERENCE) -> float | None:
    """The smallest share that leaves enough on both sides; ``None`` where no share does."""
    for share in SHARES:
        trained, held_back = split_held_back(segments, share, by)
        if min(len(trained), len(held_back)) >= FEWEST and len({one.score for one in trained}) > 1:
            return share
    return None


def template_for(ratings: int) -> Path:
    """The recipe that is recommended for this number of ratings."""
    return TEMPLATE if ratings <= MOST_RATINGS else LARGE_TEMPLATE


def overrides_for(columns: Columns, *, sources: bool) -> dict[str, Any]:
    """Fields by which a metric reads sources, where there are no references or both are to be read."""
    if not columns.references:
        return {"encoder": "multilingual", "mode": "source"}
    return {"encoder": "multilingual", "mode": "both", "fallback": True} if sources else {}


def filled_recipe(
    data: Mapping[str, Any], runs: str, metric: str, template: Path, overrides: Mapping[str, Any] | None = None
) -> str:
    """The recipe as YAML, with arguments of the data module, folders that a run writes, and fields of the metric."""
    lines = "".join(f"\n    {name}: {json.dumps(value)}" for name, value in data.items())  # JSON is YAML
    fields = "".join(f"\n      {name}: {json.dumps(value)}" for name, value in (overrides or {}).items())
    filled = {"data": lines, "runs": json.dumps(runs), "metric": json.dumps(metric), "overrides": fields}
    return Template(template.read_text(encoding="utf-8")).substitute(filled)
