"""Recipe of a table of ratings, for ``train.py fit --config``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from textmover.data.split import BY_REFERENCE, split_held_back
from textmover.readers.segments import Columns
from textmover.types import Segment

TEMPLATE = Path(__file__).with_name("recipe.yaml")  # of `examples/own_ratings`
LARGE_TEMPLATE = TEMPLATE.with_name("large_recipe.yaml")  # of `configs/wmt_da.yaml`, for more ratings
MARKED_TEMPLATE = TEMPLATE.with_name("marked_recipe.yaml")  # for texts with human error annotations
MOST_RATINGS = 2000  # maximum for the first template, as in `docs/own-ratings.md`
FEWEST = 3  # minimum number of held-back segments, as in :mod:`textmover.data.datamodule`

SHARES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, *(number / 50 for number in range(1, 50)))
"""Shares to hold back in order of preference; the first sufficient one is used. The last ones serve few groups."""


def share_to_hold_back(segments: Sequence[Segment], by: Sequence[str] = BY_REFERENCE) -> float | None:
    """Return the first of :data:`SHARES` that leaves enough segments on both sides; ``None`` if none does."""
    for share in SHARES:
        trained, held_back = split_held_back(segments, share, by)
        if min(len(trained), len(held_back)) >= FEWEST and len({segment.score for segment in trained}) > 1:
            return share
    return None


def template_for(ratings: int) -> Path:
    """Return the recommended recipe template for a number of ratings."""
    return TEMPLATE if ratings <= MOST_RATINGS else LARGE_TEMPLATE


def overrides_for(columns: Columns, *, sources: bool) -> dict[str, Any]:
    """Return the metric options for tables without references (``source``) or with sources (``both``)."""
    if not columns.references:
        return {"encoder": "multilingual", "mode": "source"}
    return {"encoder": "multilingual", "mode": "both", "fallback": True} if sources else {}


def filled_recipe(
    data: Mapping[str, Any], runs: str, metric: str, template: Path, overrides: Mapping[str, Any] | None = None
) -> str:
    """Return the recipe as YAML from data module arguments, output folders and metric options."""
    lines = "".join(f"\n    {name}: {_in_yaml(value)}" for name, value in data.items())
    fields = "".join(f"\n      {name}: {_in_yaml(value)}" for name, value in (overrides or {}).items())
    filled = {"data": lines, "runs": _in_yaml(runs), "metric": _in_yaml(metric), "overrides": fields}
    return Template(template.read_text(encoding="utf-8")).substitute(filled)


def _in_yaml(value: Any) -> str:
    """Return a value as JSON, which is YAML except for pairs of surrogates and bare line separators."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)
