"""Explanations as a page that needs nothing else, in which words light up with what they are matched with."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textmover.markdown import one_line
from textmover.report.explanation.grid import blank_words
from textmover.report.explanation.values import ExplainedTrees, ExplanationValues, SideName
from textmover.report.explanation.wording import flag_notes, signed_terms
from textmover.report.figures.colours import SEQUENTIAL
from textmover.report.figures.svg import signed
from textmover.report.templating import render_page
from textmover.types import InputError

MOST_LINES = 200
"""Pairs that a page shows at most."""

WORDS = 60_000
"""Words that a page shows in all; where texts hold more, the rest of each is folded away as plain text."""

LONGEST = 2_000
"""Words of a text that are shown one by one."""

PARTNERS = 4
"""Most words that one lights up with."""

WEAK = 0.05
"""Least part of the strongest partner's mass that another one has to have."""

CELLS = 3_600
"""Most cells of the map of a pair."""

BEGINNING = 60
"""Characters of a text in the list of lines."""

PageView = Mapping[str, Any]
"""View of a pair for the template: plain values, far fewer than the explanation has."""


@dataclass(frozen=True)
class ExplainedLine:
    """An explanation and where it is from.

    Attributes:
        found: The explanation.
        line: Line of a file, from 1; ``None`` for a pair that was given by itself.
    """

    found: ExplanationValues
    line: int | None = None


def render_explanations(lines: Sequence[ExplainedLine], *, remark: str = "") -> str:
    """A page as text; the same explanations give the same page.

    Args:
        lines: At least one, at most :data:`MOST_LINES`.
        remark: What is to be said of their selection.
    """
    views = [line_view(one, of=len(lines)) for one in lines]
    return page_of(views, signature=str(lines[0].found.signature) if lines else "", remark=remark)


def page_of(views: Sequence[PageView], *, signature: str, remark: str = "") -> str:
    """See :func:`render_explanations`."""
    if not 1 <= len(views) <= MOST_LINES:
        raise InputError(f"Expected from 1 to {MOST_LINES} pairs for a page, but got {len(views)}: choose other lines.")
    title = f"Why this text scores {views[0]['score']}"
    if len(views) > 1:
        title = f"What {len(views)} texts score, and why"
    return render_page(
        "explanation.html.j2",
        metrics=1,
        styles=("explanation.css",),
        script="explanation.js",
        views=views,
        signature=signature,
        remark=remark,
        steps=SEQUENTIAL,
        title=title,
    )


def frame(found: ExplanationValues) -> str:
    """The page in a frame, for notebooks and other pages, whose styles it leaves alone.

    Args:
        found: The explanation.

    Returns:
        An ``iframe`` element.
    """
    words = len(found.hypothesis) + len(found.reference)
    height = min(1000, 460 + 4 * words)
    page = html.escape(render_explanations([ExplainedLine(found)]))
    return (
        f'<iframe title="explained score" srcdoc="{page}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:1px solid #8884;border-radius:6px;resize:vertical"></iframe>'
    )


# --- a pair -----------------------------------------------------------------------------------------------------------


def line_view(given: ExplainedLine, *, of: int = 1) -> PageView:
    """View of a pair for the page.

    Args:
        given: The explanation and its line.
        of: Pairs on the page, which share :data:`WORDS` between them.
    """
    found = given.found
    most = max(50, min(LONGEST, WORDS // (2 * of)))
    largest = max((float(abs(found.adds(side)).max(initial=0)) for side in ("hypothesis", "reference")), default=0.0)
    sides = [_side(found, side, most, largest) for side in ("hypothesis", "reference")]
    terms = signed_terms(found)
    reach = max(abs(found.score), *(abs(value) for _, value in terms), 1e-12)
    return {
        "line": given.line,
        "key": f"line-{given.line}" if given.line is not None else "pair",
        "score": signed(found.score, 4),
        "value": found.score,
        "how": found.steps[-1].how,
        "flags": flag_notes(found),
        "beginning": one_line(found.hypothesis.text)[:BEGINNING] or "(empty text)",
        "sides": sides,
        "terms": [
            {"name": name, "value": signed(value, 4, plus=place > 0), "share": round(100 * abs(value) / reach, 1),
             "falls": value < 0, "how": _how(found, place)}
            for place, (name, value) in enumerate(terms)
        ],
        "steps": [(one.name, signed(one.value, 4), one.how) for one in found.steps],
        "others": [signed(value, 4) for value in found.reference_scores] if len(found.reference_scores) > 1 else [],
        "chosen": found.chosen + 1,
        "map": _map(found, most),
        "trees": None if found.trees is None else _trees(found.trees),
    }  # fmt: skip


def _how(found: ExplanationValues, place: int) -> str:
    return "what all words add, of either text" if place == 0 else found.remainders[place - 1].how


def _side(found: ExplanationValues, side: SideName, most: int, largest: float) -> dict[str, Any]:
    text = found.hypothesis if side == "hypothesis" else found.reference
    adds, closeness, lonely = found.adds(side), found.closeness(side), set(found.unmatched(side))
    plan = None
    if found.matches:
        plan = found.matches[-1].plan.T if side == "hypothesis" else found.matches[0].plan
    similarity = found.similarity.T if side == "hypothesis" else found.similarity
    words = []
    for place, word in enumerate(text.words[:most]):
        special, taking = text.spans[place] is None, text.weights[place] > 0
        level = min(SEQUENTIAL - 1, int(max(0.0, closeness[place]) * SEQUENTIAL))
        words.append(
            {
                "text": one_line(word) or "\N{OPEN BOX}",
                "level": level if taking else None,
                "special": special,
                "minor": special or not any(map(str.isalnum, word)),
                "alone": place in lonely,
                "adds": signed(float(adds[place]), 3, plus=True) if abs(adds[place]) >= 0.0005 else "0",
                "bar": round(100 * abs(float(adds[place])) / largest) if largest > 0 else 0,
                "falls": bool(adds[place] < 0),
                "close": signed(float(closeness[place]), 2),
                "links": "" if plan is None or not taking else _links(plan[place, :most], similarity[place, :most]),
            }
        )
    rest = one_line(text.text[_end(text.spans, most) :]) if len(text) > most else ""
    return {
        "kind": side[0],
        "title": side.capitalize(),
        "direction": _direction(text.text),
        "words": words,
        "rest": rest,
        "more": f"{len(text) - most:,} more words" if len(text) > most else "",
        "sum": signed(float(adds.sum()), 4),
    }


def _direction(text: str) -> str:
    """In which direction a text is read: that of its first letter, whatever special tokens stand before it."""
    strong = next((kind for one in text if (kind := unicodedata.bidirectional(one)) in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


def _end(spans: Sequence[tuple[int, int] | None], most: int) -> int:
    """End of the shown words in the text."""
    return max((span[1] for span in spans[:most] if span is not None), default=0)


def _links(plan: np.ndarray, similarity: np.ndarray) -> str:
    """Partners of a word, strongest first: ``"place:share of its mass in percent:cosine"``."""
    mass = float(plan.sum())
    best = np.argsort(-plan, kind="stable")[:PARTNERS]
    kept = [int(one) for one in best if mass > 0 and plan[one] > WEAK * plan[best[0]]]
    return " ".join(f"{one}:{round(100 * float(plan[one]) / mass)}:{float(similarity[one]):.2f}" for one in kept)


def _map(found: ExplanationValues, most: int) -> str | None:
    """Cosines and masses as JSON, both in hundredths, of the largest mass; ``None`` where there are too many cells."""
    rows, columns = found.similarity.shape
    if rows * columns > CELLS or not found.matches or max(rows, columns) > most:
        return None
    largest = max(float(one.plan.max()) for one in found.matches)
    plans = [np.rint(100 * np.sqrt(one.plan / largest)).astype(int).tolist() for one in found.matches]
    cosines = np.rint(100 * found.similarity).astype(int).tolist()
    blank = [np.flatnonzero(blank_words(found, side)).tolist() for side in ("reference", "hypothesis")]
    names = [one.name for one in found.matches]
    return json.dumps({"names": names, "cosines": cosines, "radii": plans, "blank": blank}, separators=(",", ":"))


def _trees(trees: ExplainedTrees) -> dict[str, Any]:
    rows = [
        (
            one.kind,
            "" if one.reference is None else one_line(trees.reference.words[one.reference]),
            "" if one.hypothesis is None else one_line(trees.hypothesis.words[one.hypothesis]),
            signed(one.cost, 2),
        )
        for one in sorted(trees.edits, key=lambda one: one.kind == "kept")
    ]
    return {"rows": rows, "distance": signed(trees.distance, 2), "largest": signed(trees.largest, 2)}
