"""Explanations as a self-contained HTML page that highlights the matches of each word."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from textmover.markdown_escaping import one_line
from textmover.report.error_spans import shown_pieces
from textmover.report.explanation.parts import SIDES, SideName, blank_words, flag_notes, tree_rows
from textmover.report.figures.colours import SEQUENTIAL, step_of
from textmover.report.figures.scales import signed
from textmover.report.table_formats import pick
from textmover.report.templating import render_page
from textmover.types import InputError, fixed, plural

if TYPE_CHECKING:
    from textmover.report.explanation.explanations import ExplainedLine, Explanation

MOST_LINES = 200  # maximum pairs of a page
WORDS = 60_000  # maximum interactive words of a page; the rest of longer texts is folded as plain text
LONGEST = 2_000  # maximum interactive words of a text
PARTNERS = 4  # maximum highlighted partners of a word
MIN_MASS_RATIO = 0.05  # minimum mass of a partner, as a fraction of the strongest partner's
CELLS = 3_600  # maximum cells of a pair's heat map
BEGINNING = 60  # maximum characters of a text in the list of lines


def render_explanations(lines: Iterable[ExplainedLine], *, expected: int = 1, remark: str = "") -> str:
    """Render a page of 1 to :data:`MOST_LINES` explanations, which are read one at a time."""
    views, signature, count = [], "", 0
    for count, one in enumerate(lines, start=1):  # noqa: B007
        views.append(line_view(one, of=expected))
        signature = str(one.found.signature)
        if one.found.source is not None:
            source_view = line_view(one._replace(found=one.found.source), of=expected)
            views.append({**source_view, "beside": True, "key": f"{source_view['key']}-source"})
    if not 1 <= count <= MOST_LINES:
        raise InputError(f"Expected from 1 to {MOST_LINES} pairs for a page, but got {count}: choose other lines.")
    title = f"Why this text scores {signed(views[0]['score'], 4)}"
    return render_page(
        "explanation.html.j2",
        metrics=1,
        styles=("explanation.css", "marks.css"),
        script="explanation.js",
        views=views,
        signature=signature,
        remark=remark,
        steps=SEQUENTIAL,
        lines=count,
        title=title if count == 1 else f"What {count} texts score, and why",
    )


def frame(found: Explanation) -> str:
    """Return the page in an ``iframe`` for notebooks, isolated from the styles of the surrounding page."""
    explanations = [one for one in (found, found.source) if one is not None]
    height = sum(min(1000, 460 + 4 * (len(one.hypothesis) + len(one.reference))) for one in explanations)
    return (
        f'<iframe title="explained score" srcdoc="{html.escape(found.to_html())}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:1px solid #8884;border-radius:6px;resize:vertical"></iframe>'
    )


def line_view(given: ExplainedLine, *, of: int = 1) -> dict[str, Any]:
    """Return template values of a pair on a page of ``of`` pairs, which share the limit :data:`WORDS`."""
    found = given.found
    most = max(50, min(LONGEST, WORDS // (2 * of)))
    reach = max(abs(found.score), *(abs(term.value) for term in found.terms), 1e-12)
    return {
        **pick(found, "score", "unknown_words", "reference_scores", "chosen", "steps", "trees"),
        "line": given.line,
        "beside": False,
        "key": f"line-{given.line}" if given.line is not None else "pair",
        "flags": flag_notes(found),
        "beginning": one_line(found.hypothesis.text)[:BEGINNING] or "(empty text)",
        "sides": [_side(found, side, most) for side in SIDES],
        "terms": [(term, round(100 * abs(term.value) / reach, 1)) for term in found.terms],
        "map": _map(found, most),
        "errors": shown_pieces(found.errors) if found.errors else [],
        "tree_rows": [] if found.trees is None else tree_rows(found.trees, kept_first=False),
    }


def _side(found: Explanation, side: SideName, most: int) -> dict[str, Any]:
    text, adds, closeness = found.text(side), found.adds(side), found.closeness(side)
    unmatched, plan = set(found.unmatched(side)), None
    if found.matches:
        plan = found.matches[-1].plan.T if side == "hypothesis" else found.matches[0].plan
    similarity = found.similarity.T if side == "hypothesis" else found.similarity
    largest = max(float(abs(found.adds(one)).max(initial=0)) for one in ("hypothesis", "reference"))
    words = []
    for place, word in enumerate(text.words[:most]):
        special, weighted = text.spans[place] is None, text.weights[place] > 0
        words.append(
            {
                "text": one_line(word) or "\N{OPEN BOX}",
                "level": step_of(closeness[place]) if weighted else None,
                "special": special,
                "minor": special or not any(map(str.isalnum, word)),
                "alone": place in unmatched,
                "adds": signed(float(adds[place]), 3, plus=True) if abs(adds[place]) >= 0.0005 else "0",
                "bar": round(100 * abs(float(adds[place])) / largest) if largest > 0 else 0,
                "falls": adds[place] < 0,
                "close": closeness[place],
                "links": "" if plan is None or not weighted else _links(plan[place, :most], similarity[place, :most]),
            }
        )
    # The first letter sets the text direction; special tokens before it do not count.
    first = next((kind for kind in map(unicodedata.bidirectional, text.text) if kind in ("L", "R", "AL")), "L")
    end = max((span[1] for span in text.spans[:most] if span is not None), default=0)
    return {
        "key": side[0],
        "title": (found.compared_with if side == "reference" else side).capitalize(),
        "direction": "ltr" if first == "L" else "rtl",
        "words": words,
        "rest": one_line(text.text[end:]) if len(text) > most else "",
        "more": plural(len(text) - most, "more word") if len(text) > most else "",
        "sum": adds.sum(),
    }


def _links(plan: np.ndarray, similarity: np.ndarray) -> str:
    """Return the partners of a word, strongest first: ``"index:mass in percent:cosine"``."""
    mass = float(plan.sum())
    best = np.argsort(-plan, kind="stable")[:PARTNERS]
    partners = [int(one) for one in best if mass > 0 and plan[one] > MIN_MASS_RATIO * plan[best[0]]]
    return " ".join(f"{one}:{round(100 * float(plan[one]) / mass)}:{fixed(similarity[one], 2)}" for one in partners)


def _map(found: Explanation, most: int) -> str | None:
    rows, columns = found.similarity.shape
    if rows * columns > CELLS or not found.matches or max(rows, columns) > most:
        return None
    largest = max(float(one.plan.max()) for one in found.matches)
    cells = {
        "names": [one.name for one in found.matches],
        "compared": found.compared_with,
        "cosines": np.rint(100 * found.similarity).astype(int).tolist(),
        "radii": [np.rint(100 * np.sqrt(one.plan / largest)).astype(int).tolist() for one in found.matches],
        "blank": [np.flatnonzero(blank_words(found, side)).tolist() for side in ("reference", "hypothesis")],
    }
    return json.dumps(cells, separators=(",", ":"))
