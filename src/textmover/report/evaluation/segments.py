"""The segments with the largest disagreements for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textmover.report.evaluation.disagreements import Disagreement
from textmover.report.evaluation.texts import ShownText, shown_alignment, shown_text
from textmover.report.figures.svg import Scale, element, padded, signed, svg
from textmover.types import Judgements


def segment_views(
    disagreements: Sequence[Disagreement],
    names: Sequence[str],
    colours: Mapping[str, int],
    fold: int,
    judgements: Judgements,
) -> list[dict[str, Any]]:
    """By metric, those rated too high and those rated too low.

    Args:
        disagreements: What is shown.
        names: Of the metrics, in the order in which they are shown.
        colours: Number of each metric's colour.
        fold: Characters of a text that may be folded away.
        judgements: The set that the segments are rows of.

    Returns:
        A mapping for each metric that has a segment to show.
    """
    by_metric: dict[str, list[Disagreement]] = {name: [] for name in names}
    for one in disagreements:
        by_metric.setdefault(one.metric, []).append(one)
    return [
        {
            "name": name,
            "colour": colours.get(name, 0),
            "widest": signed(max(abs(one.difference) for one in ones), 1),
            "directions": [
                {
                    "title": title,
                    "segments": [_item(one, fold, judgements) for one in ones if (one.difference > 0) == higher],
                }
                for title, higher in (("Better than people find it", True), ("Worse than people find it", False))
            ],
        }
        for name, ones in by_metric.items()
        if ones
    ]


def _where(one: Disagreement, judgements: Judgements) -> str:
    """What identifies the segment: its group, its item and system where known, and its row."""
    parts = [one.group]
    parts += [f"item {one.item}"] if one.item is not None else []
    parts += [f"system {one.system}"] if one.system is not None else []
    # Rows that the reader left out are not counted, so the row of the file is another one.
    read = f" of the {len(judgements):,} that were read" if judgements.left_out else ""
    return " · ".join([*parts, f"row {one.row + 1:,}{read}"])


def _item(one: Disagreement, fold: int, judgements: Judgements) -> dict[str, Any]:
    number = 0
    if one.alignment is None:
        hypothesis = shown_text(one.hypothesis, fold)
        reference = shown_text(one.references[0], fold) if one.references else ShownText()
    else:
        hypothesis, reference = shown_alignment(one.alignment, fold)
        number = one.alignment.number
    return {
        "where": _where(one, judgements),
        "difference": signed(one.difference, 1, plus=True),
        "metric_z": signed(one.metric_z, 1, plus=True),
        "rating_z": signed(one.rating_z, 1, plus=True),
        "score": signed(one.score, 3),
        "rating": f"{one.rating:.3g}".replace("-", "\N{MINUS SIGN}"),
        "picture": _z_picture(one),
        "aligned": one.alignment is not None,
        "hypothesis": hypothesis,
        "reference": reference if one.references or one.alignment else None,
        "others": [shown_text(text, fold) for place, text in enumerate(one.references) if place != number],
    }


def _z_picture(one: Disagreement) -> str:
    """People (a ring) and metric (a dot) on a line of standard deviations."""
    low, high = padded([-3, 3, one.metric_z, one.rating_z], 0.03)
    scale = Scale(low, high, 4, 136)
    people, metric = scale.at(one.rating_z), scale.at(one.metric_z)
    parts = [
        element("path", class_="axis", d="M2 8H138"),
        element("path", class_="axis", d=f"M{scale.at(0):.1f} 4V12"),
        element("path", class_="line", d=f"M{people:.1f} 8H{metric:.1f}"),
        element("circle", class_="people", cx=people, cy=8, r=3.8),
        element("circle", cx=metric, cy=8, r=4.2),
    ]
    title = f"people {signed(one.rating_z, 1, plus=True)}, metric {signed(one.metric_z, 1, plus=True)}"
    return svg(140, 16, *parts, title=title, class_="interval")
