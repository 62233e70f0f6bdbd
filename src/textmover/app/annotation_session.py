"""State and actions of the annotation page, without its widgets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from textmover import annotation
from textmover.annotation import Item, Marks, Project, Rated, clean_name
from textmover.annotation.project import Questions, known_questions
from textmover.annotation.store import as_entry, span_entry, words_and_gaps
from textmover.app.html import escape, notice, text_block
from textmover.safe_reading import load_json
from textmover.types import SEVERITIES, ErrorSpan, InputError, SourcedReferences, isolated, plural

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

MOST_SEQUENCES = 10_000  # most sequence numbers kept in memory
SOURCE_NAMES = {"mr": "meaning representation"}  # titles of columns on the page, if not the name

Known = TypeVar("Known")
Save = Callable[[Project, str], tuple[Rated, str]]  # saves ratings, a comment or marks; returns them and a description


@dataclass(frozen=True)
class PageView:
    """Contents of the page; ``bar``, ``card`` and ``status`` are HTML."""

    key: str  # key of the item
    seen: str  # fingerprint of its texts
    bar: str  # annotator and progress
    card: str
    status: str  # confirmation or error of the last action
    comment: str
    ratings: tuple[float | None, ...]  # for each criterion
    refused: bool = False  # whether saving failed, so that the page has to undo the change
    shown: str | None = None  # comment of which the page shows a change; None: `comment`, or an unchanged one


class Session:
    """Annotation of the item files of one folder by one or more annotators."""

    def __init__(
        self,
        folder: Path,
        items: str | None = None,
        *,
        criteria: Sequence[annotation.Criterion] | None = None,
        scale: annotation.Scale | None = None,
        columns: annotation.ItemColumns | None = None,
        errors: bool | None = None,
        suggestions: Suggestions | None = None,
    ) -> None:
        self.folder, self._items = folder, items
        self.suggestions = suggestions or Suggestions()
        self.scale = scale or self._known("the scale", annotation.known_scale) or annotation.Scale()
        known = self._known("the criteria", known_questions)
        self.criteria, self.errors = Questions.asked(known, criteria, errors)
        self._asked: Any = {"criteria": self.criteria, "scale": self.scale, "columns": columns, "errors": self.errors}
        self._projects: dict[str, tuple[tuple[int, int], Project]] = {}
        self._lock = threading.Lock()
        self._last_sent: dict[tuple[str, str, int], int] = {}
        self._last_stamp = 0

    def _known(self, what: str, find: Callable[[Path, str], Known]) -> Known | None:
        """Return the scale or questions of existing ratings; raise an error if they differ between files."""
        by_file = {name: value for name in self.files() if (value := find(self.folder, name))}
        for name, value in by_file.items():
            first, other = next(iter(by_file.items()))
            if value != other:
                raise InputError(
                    f"Expected the files in {self.folder} to have been rated alike, but got {what} {other} for "
                    f"{first} and {value} for {name}: choose one with --items."
                )
        return next(iter(by_file.values()), None)

    def files(self) -> list[str]:
        """Return the files of items to choose from."""
        return annotation.item_files(self.folder) if self._items is None else [self._items]

    def project(self, name: object) -> Project:
        """Return the project of a file; read the file again if it has changed."""
        if not isinstance(name, str) or (name not in self._projects and name not in self.files()):
            raise InputError(f"Expected a file of items of this folder, but got {str(name)[:60]!r}: choose one.")
        with self._lock:
            try:
                stat = (self.folder / name).stat()
            except OSError as error:
                raise InputError(
                    f"Expected the texts in {name}, but got: {error.strerror or error}. Put the file back."
                ) from error
            stamp = (stat.st_mtime_ns, stat.st_size)
            if name not in self._projects or self._projects[name][0] != stamp:
                self._projects[name] = (stamp, annotation.open_project(self.folder, name, **self._asked))
            return self._projects[name][1]

    # --- actions ------------------------------------------------------------------------------------------------------

    def start(self, name: object, annotator: object, key: object = None) -> PageView:
        """Start or resume at the item with a key; if it does not exist, at the first incomplete item."""
        project, who = self.project(name), clean_name(annotator)
        number = self._index(project, key, project.next_unrated(who) or 0)
        return self._show(project, who, number, self._greeting(project, who))

    def move(self, name: object, annotator: object, key: object, step: int) -> PageView:
        """Move by ``step`` items, at most to the first or last one."""
        project, who = self.project(name), clean_name(annotator)
        number = min(max(self._index(project, key) + step, 0), len(project.items) - 1)
        return self._show(project, who, number)

    def go_to(self, name: object, annotator: object, key: object, number: object) -> PageView:
        """Go to the item with a number, from 1."""
        project, who = self.project(name), clean_name(annotator)
        text = str(number).strip()
        target = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        if not 1 <= target <= len(project.items):
            complaint = notice(f"Expected a number from 1 to {len(project.items)}.")
            return self._show(project, who, self._index(project, key), complaint)
        return self._show(project, who, target - 1)

    def next_unrated(self, name: object, annotator: object, key: object) -> PageView:
        """Go to the next incomplete item."""
        project, who = self.project(name), clean_name(annotator)
        place = self._index(project, key)
        number = project.next_unrated(who, after=place)
        if number is None:
            return self._show(project, who, place, notice("Everything is rated. Thank you!", "good"))
        return self._show(project, who, number)

    def rate(
        self,
        name: object,
        annotator: object,
        key: object,
        criterion: int,
        value: object,
        order: object = "",
        seen: object = "",
    ) -> PageView | None:
        """Save a rating and show the item again; return ``None`` for an outdated request."""

        def save(project: Project, who: str) -> tuple[Rated, str]:
            number, chosen = project.scale.check(value), project.criteria[criterion]
            return project.rate(who, str(key), chosen.name, number, seen=str(seen)), f"{chosen.name} {number:g}"

        return self._save_and_show(name, annotator, key, save, order, criterion)

    def _compare_order(self, order: str, key: str, criterion: int) -> int:
        """Compare a sequence number with the last one: 1 for newer or unknown, 0 for equal, -1 for older."""
        window, _, sent = order.rpartition(":")
        if not window or not sent.isascii() or not sent.isdecimal():
            return 1
        with self._lock:
            last = self._last_sent.pop((window, key, criterion), 0)
            self._last_sent[window, key, criterion] = max(last, int(sent))
            while len(self._last_sent) > MOST_SEQUENCES:
                del self._last_sent[next(iter(self._last_sent))]
        return (int(sent) > last) - (int(sent) < last)

    def comment(
        self, name: object, annotator: object, key: object, text: object, seen: object = "", shown: object = None
    ) -> PageView | None:
        """Save a comment and show the item again; return ``None`` if it is still the one that the page ``shown``."""
        comment, before = str(text or ""), None if shown is None else str(shown)
        if comment == before:
            return None

        def save(project: Project, who: str) -> tuple[Rated, str]:
            return project.comment(who, str(key), comment, seen=str(seen), shown=before), "comment"

        page = self._save_and_show(name, annotator, key, save)
        if page is None:
            return None
        return replace(page, comment=comment, shown=before or "") if page.refused else replace(page, shown=page.comment)

    def mark(
        self, name: object, annotator: object, key: object, marks: object, order: object = "", seen: object = ""
    ) -> PageView | None:
        """Save the errors of a text, given as JSON, and show the item again."""

        def save(project: Project, who: str) -> tuple[Rated, str]:
            saved = project.said(who).get(str(key))
            metric = self.suggestions.model or (saved.marks.metric if saved and saved.marks else "")
            given = load_json(str(marks), "the marks")
            parsed = annotation.parse_marks(given, metric)
            shown = list(map(annotation.parse_marks, given["shown"])) if "shown" in given else None
            suggested, _ = self.suggestions.of(project.items[project.find(key)])
            undecided = parsed.undecided(suggested)
            if parsed.done and undecided:
                raise InputError(
                    f"Expected each suggestion to be accepted or rejected, but got {undecided} undecided: decide first."
                )
            return project.mark(who, str(key), parsed, seen=str(seen), shown=shown), plural(len(parsed.errors), "error")

        return self._save_and_show(name, annotator, key, save, order)

    def _save_and_show(
        self, name: object, annotator: object, key: object, save: Save, order: object = "", criterion: int = -1
    ) -> PageView | None:
        newer = self._compare_order(str(order), str(key), criterion)
        if newer < 0:
            return None
        project, who = self.project(name), clean_name(annotator)
        number = self._index(project, key)
        try:
            rated, what = save(project, who)
        except InputError as error:
            # For a repeated request, do not undo: the annotator may have entered something else meanwhile.
            return replace(self._show(project, who, number, notice(f"Not saved. {error}")), refused=newer > 0)
        left = project.left(rated)
        rest = f"{len(left)} to go" if left else "all rated"
        clock = time.strftime("%H:%M:%S")
        saved = isolated(f"Saved {clock}: {what}; {rest}.", [one.name for one in self.criteria])
        return self._show(project, who, number, notice(saved, "good"), saved=str(order))

    # --- views --------------------------------------------------------------------------------------------------------

    def _index(self, project: Project, key: object, otherwise: int = 0) -> int:
        """Return the index of an item, or ``otherwise`` if it is no longer in the file."""
        try:
            return project.find(key)
        except InputError:
            return otherwise

    def _greeting(self, project: Project, who: str) -> str:
        outdated = project.outdated()
        if outdated:
            return notice(
                f"{outdated} saved rating{'s are' if outdated > 1 else ' is'} of texts that have changed or are no "
                f"longer in {project.name}: kept on disk, and left out here.",
                "plain",
            )
        done = project.progress(who).complete
        greeting = f"Welcome back, {who}: {done} rated so far." if done else f"Welcome, {who}."
        return notice(isolated(greeting, [who]), "plain")

    def _show(self, project: Project, who: str, number: int, status: str = "", saved: str = "") -> PageView:
        """Show an item, with the sequence number of what has been ``saved``."""
        item = project.items[number]
        rated = project.said(who).get(item.key)
        ratings = {} if rated is None else rated.ratings
        rated_flags = " ".join("1" if one.name in ratings else "0" for one in project.criteria)
        judged = text_block("Text to rate", item.hypothesis, "tm-judged")
        if project.errors:
            judged = marking_block(item, None if rated is None else rated.marks, *self.suggestions.of(item))
        at = self._now()
        attributes = f'data-key="{escape(item.key)}" data-at="{at}"'
        return PageView(
            key=item.key,
            seen=item.fingerprint,
            bar=_bar(project, who, project.progress(who), at),
            card=_card(item, number, len(project.items), attributes, judged),
            status=f'<div class="tm-said" {attributes} data-rated="{rated_flags}" data-saved="{escape(saved)}">'
            f"{status}</div>",
            comment="" if rated is None else rated.comment,
            ratings=tuple(ratings.get(one.name) for one in project.criteria),
        )

    def _now(self) -> int:
        """Return a strictly increasing time stamp, by which the page keeps the newest of its parts."""
        with self._lock:
            self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
            return self._last_stamp


def _bar(project: Project, who: str, progress: annotation.Progress, at: int) -> str:
    share = 100 * progress.complete / progress.items
    begun = f", {progress.begun} begun" if progress.begun else ""
    label = f"{progress.complete} of {progress.items} rated{begun}"
    return (
        f'<div class="tm-bar" data-at="{at}" data-annotator="{escape(who)}" '
        f'data-items="{escape(project.name)}">'
        f'<span class="tm-who" dir="auto">{escape(who)}</span><span class="tm-file">{escape(project.name)}</span>'
        f'<span class="tm-count">{label}</span>'
        f'<div class="tm-track" role="progressbar" aria-valuemin="0" aria-valuemax="{progress.items}" '
        f'aria-valuenow="{progress.complete}" aria-label="{label}"><div style="width:{share:.2f}%"></div></div></div>'
    )


def _card(item: Item, number: int, items: int, about: str, judged: str) -> str:
    """Return the texts of an item as HTML, without other columns, such as the system, which could bias annotators."""
    blocks = [judged]
    for place, text in enumerate(item.references, start=1):
        blocks.append(text_block(f"Reference {place}" if len(item.references) > 1 else "Reference", text))
    for name, text in item.sources.items():
        blocks.append(text_block(SOURCE_NAMES.get(name, name).replace("_", " ").capitalize(), text, "tm-source"))
    return (
        f'<article class="tm-card" {about}>'
        f'<p class="tm-number">Text {number + 1} of {items}</p>{"".join(blocks)}</article>'
    )


class Suggestions:
    """Errors that a metric marks in texts, cached by text; empty without a metric."""

    def __init__(self, model: str | None = None, device: str | None = None) -> None:
        self.model, self._device = model or "", device
        self._scorer: Scorer | None = None
        self._found: dict[str, tuple[ErrorSpan, ...]] = {}

    def load(self) -> None:
        """Load the metric, if there is one."""
        from textmover.scoring.scorer import Scorer

        if self.model:
            self._scorer = Scorer.from_pretrained(self.model, device=self._device)

    def of(self, item: Item) -> tuple[tuple[ErrorSpan, ...], str]:
        """Return the errors of a text, and the reason if the metric cannot read it."""
        if self._scorer is None or not item.hypothesis.strip():
            return (), ""
        if item.fingerprint not in self._found:
            references = SourcedReferences(item.references, item.sources.get("source"))
            try:
                self._found[item.fingerprint] = self._scorer.errors([item.hypothesis], [references])[0].spans
            except InputError as error:
                return (), str(error)
        return self._found[item.fingerprint], ""


def marking_block(item: Item, marks: Marks | None, suggestions: Sequence[ErrorSpan], problem: str = "") -> str:
    """Return HTML for marking errors: the text with marks and suggestions, the tools, and ``problem`` if any.

    Positions count Unicode code points, as in Python; browsers count some characters twice.
    """
    text = item.hypothesis
    suggested = [span_entry(one, label=f"{one.severity} {one.confidence:.2f}") for one in suggestions]
    data = {**as_entry(marks or Marks()), "suggested": suggested}
    parts = []
    for number, (start, end) in enumerate(words_and_gaps(text)):
        kind, tag = ("tm-w", "span") if number % 2 else ("tm-g", "i")
        parts.append(f'<{tag} class="{kind}" data-from="{start}" data-to="{end}">{escape(text[start:end])}</{tag}>')
    tools = "".join(f'<button type="button" data-severity="{one}">{one}</button>' for one in SEVERITIES)
    edits = (
        ("decide", "accept", "Accept"), ("decide", "reject", "Reject"),
        ("move", "before-more", "+ word before"), ("move", "before-less", "− first word"),
        ("move", "after-less", "− last word"), ("move", "after-more", "+ word after"),
        ("move", "earlier", "One word earlier"), ("move", "later", "One word later"),
        ("grade", "delete", "Delete"),
    )  # fmt: skip
    rows = {"decide": "", "grade": tools, "move": ""}
    for row, act, label in edits:
        rows[row] += f'<button type="button" data-act="{act}">{label}</button>'
    tool_rows = "".join(f'<div class="tm-{row}">{buttons}</div>' for row, buttons in rows.items())
    return (
        f'<section class="tm-text tm-judged"><h3>Mark the errors</h3>'
        f'<p class="tm-words tm-marked" dir="auto" tabindex="0" role="application" aria-label="Text, word by word" '
        f'data-marks="{escape(json.dumps(data))}">{"".join(parts)}</p>'
        f'<p class="tm-hint" role="status"></p><div class="tm-tools">{tool_rows}</div>'
        f'<button type="button" class="tm-done" data-act="done">No errors</button></section>'
        + (notice(f"No suggestions. {problem}", "plain") if problem else "")
    )
