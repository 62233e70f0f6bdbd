"""Largest disagreements between metrics and human ratings, with truncated texts and word alignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.statistics.score_arrays import group_positions, standard_scores
from textmover.report.evaluation.tables import compact
from textmover.report.figures.colours import step_of
from textmover.report.figures.evaluation_plots import shortened
from textmover.report.figures.scales import Scale, padded
from textmover.types import InputError, Judgements, plural


class Link(NamedTuple):
    """Two aligned words.

    Attributes:
        hypothesis: Index of the hypothesis's word, from 0.
        reference: Index of the reference's word, from 0.
        weight: Weight of the link, such as the transported mass; positive.
        similarity: Similarity of the words, at most 1.
    """

    hypothesis: int
    reference: int
    weight: float
    similarity: float


@dataclass(frozen=True)
class Alignment:
    """Word alignment of a hypothesis and a reference.

    Attributes:
        hypothesis: Words of the hypothesis, in order.
        reference: Words of the reference, in order.
        links: Aligned words, in any order.
        number: Index of the reference in its segment, from 0.

    Raises:
        InputError: If a link's word index is out of range, or its weight is not positive.
    """

    hypothesis: tuple[str, ...]
    reference: tuple[str, ...]
    links: tuple[Link, ...]
    number: int = 0

    def __post_init__(self) -> None:
        for link in self.links:
            inside = 0 <= link.hypothesis < len(self.hypothesis) and 0 <= link.reference < len(self.reference)
            if not inside or not 0 < link.weight < float("inf"):
                raise InputError(
                    f"Expected links between {len(self.hypothesis)} and {plural(len(self.reference), 'word')} with "
                    f"positive weights, but got {tuple(link)}: count words from 0, and drop links without "
                    "weight."
                )


@dataclass(frozen=True)
class Disagreement:
    """A segment on which a metric and human raters disagree.

    Attributes:
        metric: Name of the metric.
        row: Index of the segment in its judgement set, from 0.
        metric_z: Standardised score: standard deviations above the mean of its group, higher is better.
        rating_z: Standardised rating.
        score: Original score.
        rating: Original rating.
        group: Group of the segment.
        hypothesis: The rated text.
        references: References of the hypothesis.
        item: Item that the text is an output for, if known.
        system: System that produced the text, if known.
        alignment: Word alignment with a reference, if known.
        source_alignment: Word alignment with the source, if the metric uses it.
    """

    metric: str
    row: int
    metric_z: float
    rating_z: float
    score: float
    rating: float
    group: str
    hypothesis: str
    references: tuple[str, ...]
    item: str | None = None
    system: str | None = None
    alignment: Alignment | None = None
    source_alignment: Alignment | None = None

    @property
    def difference(self) -> float:
        """Standardised score minus standardised rating."""
        return self.metric_z - self.rating_z


def largest_disagreements(
    judgements: Judgements, metrics: Sequence[MetricScores], *, dimension: str, count: int = 3
) -> list[Disagreement]:
    """Return the segments with the largest differences ``z(score) - z(rating)`` within their groups.

    Args:
        judgements: Human ratings.
        metrics: Scores of each metric, ``[n]``. Segments without score or rating are excluded, and groups in which all
            scores or all ratings are equal.
        dimension: Rating dimension.
        count: Maximum number of segments for each metric and direction.

    Returns:
        For each metric, segments rated too high, then segments rated too low, the largest differences first. Fill in
        ``alignment`` with :func:`dataclasses.replace`.

    Raises:
        InputError: If a metric has a wrong number of scores.

    Example:
        >>> judgements = Judgements("a", ("x", "y", "z"), (("r",),) * 3, {"score": np.array([1.0, 2, 3])}, ("all",) * 3)
        >>> metric = MetricScores("m", np.array([3.0, 2, 1]))
        >>> [(one.row, round(one.difference, 1)) for one in
        ...     largest_disagreements(judgements, [metric], dimension="score", count=1)]
        [(0, 2.4), (2, -2.4)]
    """
    ratings = np.asarray(judgements.ratings[dimension], dtype=np.float64)
    groups = group_positions(judgements.groups, len(ratings))
    disagreements = []
    for metric in metrics:
        if len(metric.scores) != len(ratings):
            raise InputError(
                f"Expected {plural(len(ratings), 'score')} of {metric.name!r}, one for each text of {judgements.name}, "
                f"but got {len(metric.scores)}: score the same texts in the same order."
            )
        valid = np.isfinite(metric.scores) & np.isfinite(ratings)
        z = np.full((2, len(ratings)), np.nan)
        for members in groups.values():
            rows = members[valid[members]]
            if len(rows) and min(np.ptp(metric.scores[rows]), np.ptp(ratings[rows])) > 0:
                z[0, rows] = standard_scores(metric.scores[rows]) * (1 if metric.higher_is_better else -1)
                z[1, rows] = standard_scores(ratings[rows])
        difference = np.nan_to_num(z[0] - z[1])
        order = np.argsort(-difference, kind="stable")
        too_high = [row for row in order[:count].tolist() if difference[row] > 0]
        too_low = [row for row in order[::-1][:count].tolist() if difference[row] < 0]
        disagreements += [
            Disagreement(
                metric=metric.name,
                row=row,
                metric_z=float(z[0, row]),
                rating_z=float(z[1, row]),
                score=float(metric.scores[row]),
                rating=float(ratings[row]),
                group=judgements.groups[row],
                hypothesis=judgements.hypotheses[row],
                references=judgements.references[row],
                item=None if judgements.items is None else judgements.items[row],
                system=None if judgements.systems is None else judgements.systems[row],
            )
            for row in (*too_high, *too_low)
        ]
    return disagreements


WORDS = 60  # words of an aligned text that are shown without unfolding
CHARACTERS = 420  # characters of a text without alignment that are shown without unfolding
FOLD_BUDGET = 1_500_000  # maximum characters in all folded texts of a page; beyond it, the longest texts are cut
LONGEST_WORD, LONGEST_PARTNER = 48, 14  # maximum characters of a word, and of its partner shown with it

MIN_WEIGHT_RATIO = 0.1  # hide links whose weight is below this fraction of the word's strongest link
MOST_LINKS = 4  # maximum links of a word
LEVELS = 4  # underline levels for the similarity of a word's partner


class ShownWord(NamedTuple):
    """A displayed word of an alignment."""

    text: str  # the word
    partner: str = ""  # its strongest partner; empty if that is the same word or missing
    similarity: str = ""  # formatted similarity of the strongest partner
    level: int = 0  # from 0 (no partner) to :data:`LEVELS` (most similar)
    links: str = ""  # indices of shown partners with weights in percent of the strongest: ``"3:100 5:20"``


class ShownText(NamedTuple):
    """A displayed text; long texts are folded and cut."""

    words: Sequence[ShownWord] = ()  # displayed words of an aligned text
    start: str = ""  # displayed start of a text without alignment
    rest: str = ""  # folded text
    more: str = ""  # label of the fold, such as ``"120 more words"``; empty without folded text
    lost: int = 0  # number of characters that the page omits


def fold_limit(sizes: Iterable[int], budget: int = FOLD_BUDGET) -> int:
    """Return the maximum characters per folded text so that all texts together stay within a budget."""
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        remaining = len(ordered) - index
        if size * remaining > budget:
            return budget // remaining
        budget -= size
    return ordered[-1] if ordered else 0


def shown_text(text: str, limit: int) -> ShownText:
    """Prepare a text without alignment for display, with at most ``limit`` folded characters.

    Example:
        >>> shown = shown_text("word " * 1000, 49)
        >>> len(shown.start), shown.more, shown.rest, shown.lost
        (419, '916 more words', 'word word word word word word word word word word', 4530)
    """
    text = text.strip()
    if len(text) <= CHARACTERS * 1.15:
        return ShownText(start=text)
    cut = text.rfind(" ", CHARACTERS // 2, CHARACTERS)
    cut = cut if cut > 0 else CHARACTERS
    rest = text[cut:].strip()
    words = len(rest.split())
    more = f"{words:,} more words" if words > 1 else plural(len(rest), "more character")
    return ShownText((), text[:cut], rest[:limit], more, max(0, len(rest) - limit))


def shown_alignment(alignment: Alignment, limit: int) -> tuple[ShownText, ShownText]:
    """Prepare hypothesis and reference for display, each word with its partners."""
    reversed_links = [link._replace(hypothesis=link.reference, reference=link.hypothesis) for link in alignment.links]
    return (
        _side(alignment.hypothesis, alignment.reference, alignment.links, limit),
        _side(alignment.reference, alignment.hypothesis, reversed_links, limit),
    )


def _side(words: Sequence[str], partners: Sequence[str], links: Sequence[Link], limit: int) -> ShownText:
    shown = [
        _word(word, [link for link in links if link.hypothesis == index], partners)
        for index, word in enumerate(words[:WORDS])
    ]
    rest = " ".join(words[WORDS:])
    more = plural(len(words) - WORDS, "more word") if rest else ""
    return ShownText(shown, "", rest[:limit], more, max(0, len(rest) - limit))


def _word(word: str, links: Sequence[Link], partners: Sequence[str]) -> ShownWord:
    text = shortened(word, LONGEST_WORD)
    if not links:
        return ShownWord(text)
    strongest = sorted(links, key=lambda link: (-link.weight, link.reference))[:MOST_LINKS]
    best = strongest[0]
    visible = [link for link in strongest if link.weight >= MIN_WEIGHT_RATIO * best.weight and link.reference < WORDS]
    best_partner = partners[best.reference]
    same = best_partner.casefold() == word.casefold()
    partner = "" if same else shortened(best_partner, LONGEST_PARTNER)
    similarity = "" if same and best.similarity >= 0.995 else compact(best.similarity, 2)
    shares = " ".join(f"{link.reference}:{round(100 * link.weight / best.weight)}" for link in visible)
    return ShownWord(text, partner, similarity, 1 + step_of(best.similarity, LEVELS), shares)


def segment_views(
    disagreements: Sequence[Disagreement], names: Sequence[str], fold: int, judgements: Judgements
) -> list[dict[str, Any]]:
    """Return template values by metric, in the order of names: segments rated too high and too low."""
    by_metric: dict[str, list[Disagreement]] = {name: [] for name in names}
    for one in disagreements:
        by_metric.setdefault(one.metric, []).append(one)
    return [
        {
            "name": name,
            "widest": max(abs(one.difference) for one in segments),
            "directions": {
                title: [_item(one, fold, judgements) for one in segments if (one.difference > 0) == higher]
                for title, higher in (("Better than people find it", True), ("Worse than people find it", False))
            },
        }
        for name, segments in by_metric.items()
        if segments
    ]


def _item(one: Disagreement, fold: int, judgements: Judgements) -> dict[str, Any]:
    aligned = {"Reference": one.alignment, "Source": one.source_alignment}
    pairs: list[tuple[ShownText, ShownText | None, str]] = [
        (*shown_alignment(alignment, fold), title) for title, alignment in aligned.items() if alignment is not None
    ]
    number = one.alignment.number if one.alignment is not None else None
    if not pairs:
        number = 0
        reference = next((shown_text(text, fold) for text in getattr(one.references, "texts", one.references)), None)
        pairs = [(shown_text(one.hypothesis, fold), reference, "Reference" if one.references else "Source")]
    labels = [f"{kind} {name}" for kind, name in (("item", one.item), ("system", one.system)) if name is not None]
    # The row number excludes rows that the reader skipped, so it can differ from the row in the file.
    total = f" of the {len(judgements):,} that were read" if judgements.left_out else ""
    return {
        "segment": one,
        "where": " · ".join([one.group, *labels, f"row {one.row + 1:,}{total}"]),
        "scale": Scale(*padded([-3, 3, one.metric_z, one.rating_z], 0.03), 4, 136),
        "pairs": pairs,
        "aligned": any(aligned.values()),
        "other": "" if number is None else "other ",
        "others": [shown_text(text, fold) for place, text in enumerate(one.references) if place != number],
    }
