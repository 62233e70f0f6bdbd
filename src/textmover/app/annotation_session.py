"""State and acts of the annotation page, without its widgets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from textmover import annotation
from textmover.annotation import Item, Marks, Project, Rated, clean_name
from textmover.annotation.project import Questions, known_questions
from textmover.annotation.store import as_entry, span_entry, words_and_gaps
from textmover.app.html import notice, shown, text_block
from textmover.safe_reading import load_json
from textmover.types import SEVERITIES, ErrorSpan, InputError, SourcedReferences, plural

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

MOST_SENT = 10_000  # ratings of which it is remembered when they were sent
SOURCE_NAMES = {"mr": "meaning representation"}  # titles of columns on the page that differ from their names

Known = TypeVar("Known")
Save = Callable[[Project, str], tuple[Rated, str]]  # saves a rating, comment or marks; returns it and its name


@dataclass(frozen=True)
class Shown:
    """Contents of the page; ``bar``, ``card`` and ``status`` are HTML."""

    key: str  # of the item
    seen: str  # fingerprint of its texts
    bar: str  # who rates, and how far they are
    card: str
    status: str  # what has just been done
    comment: str
    ratings: tuple[float | None, ...]  # for each criterion
    refused: bool = False  # something could not be saved, and the page is to take it back


class Desk:
    """Annotators at work on the files of items of one folder."""

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
        self.folder, self._items, self._columns = folder, items, columns
        self.suggestions = suggestions or Suggestions()
        self.scale = scale or self._known("the scale", annotation.known_scale) or annotation.Scale()
        known = self._known("the criteria", known_questions)
        self.criteria, self.errors = Questions.asked(known, criteria, errors)
        self._open: dict[str, tuple[tuple[int, int], Project]] = {}
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, str, int], int] = {}
        self._told = 0

    def _known(self, what: str, find: Callable[[Path, str], Known]) -> Known | None:
        """Scale and questions of the existing ratings, the same for all files."""
        known = {name: found for name in self.files() if (found := find(self.folder, name))}
        for name, found in known.items():
            first, other = next(iter(known.items()))
            if found != other:
                raise InputError(
                    f"Expected the files in {self.folder} to have been rated alike, but got {what} {other} for "
                    f"{first} and {found} for {name}: choose one with --items."
                )
        return next(iter(known.values()), None)

    def files(self) -> list[str]:
        """Files of items that may be chosen."""
        return annotation.item_files(self.folder) if self._items is None else [self._items]

    def project(self, name: object) -> Project:
        """The project of a file, which is read again where it has changed."""
        if not isinstance(name, str) or (name not in self._open and name not in self.files()):
            raise InputError(f"Expected a file of items of this folder, but got {str(name)[:60]!r}: choose one.")
        with self._lock:
            try:
                found = (self.folder / name).stat()
            except OSError as error:
                raise InputError(
                    f"Expected the texts in {name}, but got: {error.strerror or error}. Put the file back."
                ) from error
            stamp = (found.st_mtime_ns, found.st_size)
            if name not in self._open or self._open[name][0] != stamp:
                project = annotation.open_project(
                    self.folder,
                    name,
                    criteria=self.criteria,
                    scale=self.scale,
                    columns=self._columns,
                    errors=self.errors,
                )
                self._open[name] = (stamp, project)
            return self._open[name][1]

    # --- what annotators do -------------------------------------------------------------------------------------------

    def start(self, name: object, annotator: object, key: object = None) -> Shown:
        """Begin, or go on, at the item of a key; where there is none, at the first one that is not rated yet."""
        project, who = self.project(name), clean_name(annotator)
        try:
            number = project.find(key)
        except InputError:
            number = project.next_unrated(who) or 0
        return self._show(project, who, number, self._greeting(project, who))

    def move(self, name: object, annotator: object, key: object, step: int) -> Shown:
        """Go to an item so many places further on; it stays at the first and the last one."""
        project, who = self.project(name), clean_name(annotator)
        number = min(max(self._place(project, key) + step, 0), len(project.items) - 1)
        return self._show(project, who, number)

    def go_to(self, name: object, annotator: object, key: object, number: object) -> Shown:
        """Go to the item of a number, from 1."""
        project, who = self.project(name), clean_name(annotator)
        text = str(number).strip()
        wanted = int(text) if text.isascii() and text.isdecimal() else 0
        if not 1 <= wanted <= len(project.items):
            complaint = notice(f"Expected a number from 1 to {len(project.items)}.")
            return self._show(project, who, self._place(project, key), complaint)
        return self._show(project, who, wanted - 1)

    def next_unrated(self, name: object, annotator: object, key: object) -> Shown:
        """Go to the next item that is not rated for every criterion."""
        project, who = self.project(name), clean_name(annotator)
        place = self._place(project, key)
        found = project.next_unrated(who, after=place)
        if found is None:
            return self._show(project, who, place, notice("Everything is rated. Thank you!", "good"))
        return self._show(project, who, found)

    def rate(
        self,
        name: object,
        annotator: object,
        key: object,
        criterion: int,
        value: object,
        order: object = "",
        seen: object = "",
    ) -> Shown | None:
        """Save a rating, and show the same item with what is saved of it."""

        def save(project: Project, who: str) -> tuple[Rated, str]:
            number, one = project.scale.check(value), project.criteria[criterion]
            return project.rate(who, str(key), one.name, number, seen=str(seen)), f"{one.name} {number:g}"

        return self._saved(name, annotator, key, save, order, criterion)

    def _newer(self, order: str, key: str, criterion: int) -> int:
        """Return 1 for something newer than the last arrival, 0 for the same again, and -1 for something older."""
        window, _, sent = order.rpartition(":")
        if not window or not sent.isascii() or not sent.isdecimal():
            return 1
        with self._lock:
            last = self._sent.pop((window, key, criterion), 0)
            self._sent[window, key, criterion] = max(last, int(sent))
            while len(self._sent) > MOST_SENT:
                del self._sent[next(iter(self._sent))]
        return (int(sent) > last) - (int(sent) < last)

    def comment(self, name: object, annotator: object, key: object, text: object, seen: object = "") -> Shown | None:
        """Save a comment, and show the same item with what is saved of it."""

        def save(project: Project, who: str) -> tuple[Rated, str]:
            return project.comment(who, str(key), str(text or ""), seen=str(seen)), "comment"

        found = self._saved(name, annotator, key, save)
        return replace(found, comment=str(text)) if found is not None and found.refused and text else found  # not lost

    def mark(
        self, name: object, annotator: object, key: object, marks: object, order: object = "", seen: object = ""
    ) -> Shown | None:
        """Save the errors of a text, as JSON, and show the same item with what is saved of it."""

        def save(project: Project, who: str) -> tuple[Rated, str]:
            found = annotation.parse_marks(load_json(str(marks), "the marks"), self.suggestions.model)
            suggested, _ = self.suggestions.of(project.items[project.find(key)])
            left = found.undecided(suggested)
            if found.done and left:
                raise InputError(
                    f"Expected each suggestion to be accepted or rejected, but got {left} undecided: decide first."
                )
            return project.mark(who, str(key), found, seen=str(seen)), plural(len(found.errors), "error")

        return self._saved(name, annotator, key, save, order)

    def _saved(
        self, name: object, annotator: object, key: object, save: Save, order: object = "", criterion: int = -1
    ) -> Shown | None:
        newer = self._newer(str(order), str(key), criterion)
        if newer < 0:
            return None
        project, who = self.project(name), clean_name(annotator)
        number = self._place(project, key)
        try:
            rated, what = save(project, who)
        except InputError as error:
            # Where this came before, the annotator may have typed something else by now.
            return replace(self._show(project, who, number, notice(f"Not saved. {error}")), refused=newer > 0)
        left = project.left(rated)
        rest = f"{len(left)} to go" if left else "all rated"
        clock = time.strftime("%H:%M:%S")
        return self._show(project, who, number, notice(f"Saved {clock}: {what}; {rest}.", "good"))

    # --- what they see ------------------------------------------------------------------------------------------------

    def _place(self, project: Project, key: object) -> int:
        """Number of an item; the first one where the file has changed and it is gone."""
        try:
            return project.find(key)
        except InputError:
            return 0

    def _greeting(self, project: Project, who: str) -> str:
        outdated = project.outdated()
        if outdated:
            return notice(
                f"{outdated} saved rating{'s are' if outdated > 1 else ' is'} of texts that have changed or are no "
                f"longer in {project.name}: kept on disk, and left out here.",
                "plain",
            )
        done = project.progress(who).complete
        return notice(f"Welcome back, {who}: {done} rated so far." if done else f"Welcome, {who}.", "plain")

    def _show(self, project: Project, who: str, number: int, status: str = "") -> Shown:
        item = project.items[number]
        rated = project.said(who).get(item.key)
        given = {} if rated is None else rated.ratings
        done = " ".join("1" if one.name in given else "0" for one in project.criteria)
        judged = text_block("Text to rate", item.hypothesis, "tm-judged")
        if project.errors:
            judged = marking_block(item, None if rated is None else rated.marks, *self.suggestions.of(item))
        at = self._now()
        about = f'data-key="{shown(item.key)}" data-at="{at}"'
        return Shown(
            key=item.key,
            seen=item.fingerprint,
            bar=_bar(project, who, project.progress(who), at),
            card=_card(item, number, len(project.items), about, judged),
            status=f'<div class="tm-said" {about} data-rated="{done}">{status}</div>',
            comment="" if rated is None else rated.comment,
            ratings=tuple(given.get(one.name) for one in project.criteria),
        )

    def _now(self) -> int:
        """Time stamp by which the page redraws its parts and keeps the newest, also if a clock is set back."""
        with self._lock:
            self._told = max(time.time_ns(), self._told + 1)
            return self._told


def _bar(project: Project, who: str, progress: annotation.Progress, at: int) -> str:
    share = 100 * progress.complete / progress.items
    begun = f", {progress.begun} begun" if progress.begun else ""
    said = f"{progress.complete} of {progress.items} rated{begun}"
    return (
        f'<div class="tm-bar" data-at="{at}" data-annotator="{shown(who)}" '
        f'data-items="{shown(project.name)}">'
        f'<span class="tm-who" dir="auto">{shown(who)}</span><span class="tm-file">{shown(project.name)}</span>'
        f'<span class="tm-count">{said}</span>'
        f'<div class="tm-track" role="progressbar" aria-valuemin="0" aria-valuemax="{progress.items}" '
        f'aria-valuenow="{progress.complete}" aria-label="{said}"><div style="width:{share:.2f}%"></div></div></div>'
    )


def _card(item: Item, number: int, items: int, about: str, judged: str) -> str:
    """The texts alone: other columns, such as the name of a system, would sway who rates."""
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
    """Errors that a metric marks in texts, each text once; none without a metric."""

    def __init__(self, model: str | None = None, device: str | None = None) -> None:
        self.model, self._device = model or "", device
        self._scorer: Scorer | None = None
        self._found: dict[str, tuple[ErrorSpan, ...]] = {}

    def load(self) -> None:
        """Load the metric now."""
        from textmover.scoring.scorer import Scorer

        if self.model:
            self._scorer = Scorer.from_pretrained(self.model, device=self._device)

    def of(self, item: Item) -> tuple[tuple[ErrorSpan, ...], str]:
        """Return the errors of a text by place, and why there are none where nothing can be compared with it."""
        if self._scorer is None or not item.hypothesis.strip():
            return (), ""
        if item.fingerprint not in self._found:
            given = SourcedReferences(item.references, item.sources.get("source"))
            try:
                self._found[item.fingerprint] = self._scorer.errors([item.hypothesis], [given])[0].spans
            except InputError as error:
                return (), str(error)
        return self._found[item.fingerprint], ""


def marking_block(item: Item, marks: Marks | None, suggestions: Sequence[ErrorSpan], problem: str = "") -> str:
    """The text of an item with its marks and suggestions, below them the tools, and why there are no suggestions.

    Places are those of Python, since browsers count some characters twice.
    """
    text = item.hypothesis
    suggested = [span_entry(one, label=f"{one.severity} {one.confidence:.2f}") for one in suggestions]
    given = {**as_entry(marks or Marks()), "suggested": suggested}
    parts = []
    for number, (start, end) in enumerate(words_and_gaps(text)):
        kind, tag = ("tm-w", "span") if number % 2 else ("tm-g", "i")
        parts.append(f'<{tag} class="{kind}" data-from="{start}" data-to="{end}">{shown(text[start:end])}</{tag}>')
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
    listed = "".join(f'<div class="tm-{row}">{buttons}</div>' for row, buttons in rows.items())
    return (
        f'<section class="tm-text tm-judged"><h3>Mark the errors</h3>'
        f'<p class="tm-words tm-marked" dir="auto" tabindex="0" role="application" aria-label="Text, word by word" '
        f'data-marks="{shown(json.dumps(given))}">{"".join(parts)}</p>'
        f'<p class="tm-hint" role="status"></p><div class="tm-tools">{listed}</div>'
        f'<button type="button" class="tm-done" data-act="done">No errors</button></section>'
        + (notice(f"No suggestions. {problem}", "plain") if problem else "")
    )
