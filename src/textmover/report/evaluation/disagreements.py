"""Largest disagreements of a metric with people: their texts, cut where long, and the matches of their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.statistics.scores import group_positions, standard_scores
from textmover.report.evaluation.tables import compact
from textmover.report.figures.scales import Scale, padded
from textmover.report.figures.svg import shortened
from textmover.types import InputError, Judgements, plural


class Link(NamedTuple):
    """Two words that a metric holds together.

    Attributes:
        hypothesis: Number of the hypothesis's word, from 0.
        reference: Number of the reference's word.
        weight: How much they count for one another, such as the mass that is moved between them; positive.
        similarity: How alike they are, at most 1.
    """

    hypothesis: int
    reference: int
    weight: float
    similarity: float


@dataclass(frozen=True)
class Alignment:
    """Matches of the words of a hypothesis with those of a reference.

    Attributes:
        hypothesis: Words, in order.
        reference: Words of the reference that it was matched with.
        links: Words that belong together, in any order.
        number: Which of the segment's references it is, from 0.

    Raises:
        InputError: If a link leads to a word that is not there, or its weight is not positive.
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
                    f"positive weights, but got {tuple(link)}: count words from 0, and leave out what carries no "
                    "weight."
                )


@dataclass(frozen=True)
class Disagreement:
    """A segment that a metric judges otherwise than people do.

    Attributes:
        metric: Name of the metric.
        row: Number of the segment in its judgement set, from 0.
        metric_z: Its score in standard deviations above the mean of its group, higher is better.
        rating_z: Its rating likewise.
        score: Its score as it is.
        rating: Its rating as it is.
        group: Its group.
        hypothesis: The text that was judged.
        references: What it was compared with.
        item: What it is an output for, where known.
        system: What produced it, where known.
        alignment: How the metric matched the words with those of a reference, if known.
        source_alignment: How it matched them with those of the source, where it read that.
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
        """Metric minus people, in standard deviations."""
        return self.metric_z - self.rating_z


def largest_disagreements(
    judgements: Judgements, metrics: Sequence[MetricScores], *, dimension: str, count: int = 3
) -> list[Disagreement]:
    """The segments on which each metric and people differ most: ``z(score) - z(rating)`` within the group.

    Args:
        judgements: What people thought.
        metrics: Scores, ``[n]`` each; segments without a score or a rating have no part,
            nor have groups in which either is the same for all.
        dimension: Of the ratings.
        count: How many for each metric and direction, at most.

    Returns:
        For each metric those that it rates too high, then those that it rates too low, the largest differences first.
        Fill in ``alignment`` with :func:`dataclasses.replace`.

    Raises:
        InputError: If a metric has another number of scores.

    Example:
        >>> judgements = Judgements("a", ("x", "y", "z"), (("r",),) * 3, {"score": np.array([1.0, 2, 3])}, ("all",) * 3)
        >>> metric = MetricScores("m", np.array([3.0, 2, 1]))
        >>> [(one.row, round(one.difference, 1)) for one in
        ...     largest_disagreements(judgements, [metric], dimension="score", count=1)]
        [(0, 2.4), (2, -2.4)]
    """
    ratings = np.asarray(judgements.ratings[dimension], dtype=np.float64)
    groups = group_positions(judgements.groups, len(ratings))
    found = []
    for metric in metrics:
        if len(metric.scores) != len(ratings):
            raise InputError(
                f"Expected {plural(len(ratings), 'score')} of {metric.name!r}, one for each text of {judgements.name}, "
                f"but got {len(metric.scores)}: score the same texts in the same order."
            )
        known = np.isfinite(metric.scores) & np.isfinite(ratings)
        z = np.full((2, len(ratings)), np.nan)
        for members in groups.values():
            rows = members[known[members]]
            if len(rows) and min(np.ptp(metric.scores[rows]), np.ptp(ratings[rows])) > 0:
                z[0, rows] = standard_scores(metric.scores[rows]) * (1 if metric.higher_is_better else -1)
                z[1, rows] = standard_scores(ratings[rows])
        difference = np.nan_to_num(z[0] - z[1])
        order = np.argsort(-difference, kind="stable")
        too_high = [row for row in order[:count].tolist() if difference[row] > 0]
        too_low = [row for row in order[::-1][:count].tolist() if difference[row] < 0]
        found += [
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
    return found


WORDS = 60  # words of a text with alignment that are shown at once
CHARACTERS = 420  # characters of a text without alignment that are shown at once
FOLDED = 1_500_000  # characters that a page folds away in all; where texts hold more, the longest are cut
LONGEST_WORD, LONGEST_PARTNER = 48, 14

WEAK = 0.1  # links with less than this share of the weight of a word's strongest link are not shown
MOST_LINKS = 4  # most links of a word
LEVELS = 4  # depths of a word's line below it, for how similar its partner is


class ShownWord(NamedTuple):
    """A word in an alignment."""

    text: str  # the word
    partner: str = ""  # its strongest partner, empty where that is the same word or there is none
    similarity: str = ""  # of that partner, as it is written
    level: int = 0  # from 0 (no partner) to :data:`LEVELS` (as similar as can be)
    links: str = ""  # numbers of all shown partners and the share of the strongest weight in percent: ``"3:100 5:20"``


class ShownText(NamedTuple):
    """A text, cut where it is long."""

    words: Sequence[ShownWord] = ()  # words in an alignment, if there is one
    start: str = ""  # start of the text, if there is none
    rest: str = ""  # what is folded away
    more: str = ""  # what the fold is called, such as ``"120 more words"``; empty without a rest
    lost: int = 0  # characters that the page leaves out


def fold_limit(sizes: Iterable[int], budget: int = FOLDED) -> int:
    """Longest folded text in characters for which all of them together stay within a budget."""
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        left = len(ordered) - index
        if size * left > budget:
            return budget // left
        budget -= size
    return ordered[-1] if ordered else 0


def shown_text(text: str, limit: int) -> ShownText:
    """A text without alignment, of which so many characters may be folded away.

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
    """Hypothesis and reference with each word's partners."""
    back = [link._replace(hypothesis=link.reference, reference=link.hypothesis) for link in alignment.links]
    return (
        _side(alignment.hypothesis, alignment.reference, alignment.links, limit),
        _side(alignment.reference, alignment.hypothesis, back, limit),
    )


def _side(own: Sequence[str], others: Sequence[str], links: Sequence[Link], limit: int) -> ShownText:
    shown = [
        _word(word, [link for link in links if link.hypothesis == index], others)
        for index, word in enumerate(own[:WORDS])
    ]
    rest = " ".join(own[WORDS:])
    more = plural(len(own) - WORDS, "more word") if rest else ""
    return ShownText(shown, "", rest[:limit], more, max(0, len(rest) - limit))


def _word(word: str, links: Sequence[Link], others: Sequence[str]) -> ShownWord:
    text = shortened(word, LONGEST_WORD)
    if not links:
        return ShownWord(text)
    strongest = sorted(links, key=lambda link: (-link.weight, link.reference))[:MOST_LINKS]
    best = strongest[0]
    seen = [link for link in strongest if link.weight >= WEAK * best.weight and link.reference < WORDS]
    partner = others[best.reference]
    same = partner.casefold() == word.casefold()
    return ShownWord(
        text,
        "" if same else shortened(partner, LONGEST_PARTNER),
        "" if same and best.similarity >= 0.995 else compact(best.similarity, 2),
        1 + min(LEVELS - 1, max(0, int(best.similarity * LEVELS))),
        " ".join(f"{link.reference}:{round(100 * link.weight / best.weight)}" for link in seen),
    )


def segment_views(
    disagreements: Sequence[Disagreement], names: Sequence[str], fold: int, judgements: Judgements
) -> list[dict[str, Any]]:
    """By metric in the order of the names, those rated too high and those rated too low; texts are folded."""
    by_metric: dict[str, list[Disagreement]] = {name: [] for name in names}
    for one in disagreements:
        by_metric.setdefault(one.metric, []).append(one)
    return [
        {
            "name": name,
            "widest": max(abs(one.difference) for one in ones),
            "directions": {
                title: [_item(one, fold, judgements) for one in ones if (one.difference > 0) == higher]
                for title, higher in (("Better than people find it", True), ("Worse than people find it", False))
            },
        }
        for name, ones in by_metric.items()
        if ones
    ]


def _item(one: Disagreement, fold: int, judgements: Judgements) -> dict[str, Any]:
    aligned = {"Reference": one.alignment, "Source": one.source_alignment}
    pairs: list[tuple[ShownText, ShownText | None, str]] = [
        (*shown_alignment(found, fold), title) for title, found in aligned.items() if found is not None
    ]
    number = one.alignment.number if one.alignment is not None else None
    if not pairs:
        number = 0
        beside = next((shown_text(text, fold) for text in getattr(one.references, "texts", one.references)), None)
        pairs = [(shown_text(one.hypothesis, fold), beside, "Reference" if one.references else "Source")]
    return {
        "segment": one,
        "where": _where(one, judgements),
        "scale": Scale(*padded([-3, 3, one.metric_z, one.rating_z], 0.03), 4, 136),
        "pairs": pairs,
        "aligned": any(aligned.values()),
        "other": "" if number is None else "other ",
        "others": [shown_text(text, fold) for place, text in enumerate(one.references) if place != number],
    }


def _where(one: Disagreement, judgements: Judgements) -> str:
    known = [f"{kind} {name}" for kind, name in (("item", one.item), ("system", one.system)) if name is not None]
    # Rows that the reader left out are not counted, so the row of the file is another one.
    read = f" of the {len(judgements):,} that were read" if judgements.left_out else ""
    return " · ".join([one.group, *known, f"row {one.row + 1:,}{read}"])
