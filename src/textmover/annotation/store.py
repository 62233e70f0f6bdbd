"""Storage of ratings and marked errors: one file per annotator, rewritten after every rating.

Files are written atomically, so that a killed process leaves the ratings either before or after the current one. A lock
keeps several processes from overwriting each other's changes. Of two windows, the later one decides on a rating; a
comment is refused if another window has changed it, and so are marks.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import Timeout

from textmover.files import atomic_file, held_lock
from textmover.readers.segments import quoted_value
from textmover.safe_reading import load_json, unreadable
from textmover.types import SEVERITIES, ErrorSpan, InputError
from textmover.types.word_splitting import text_words

RELOAD = "load the page again"
ADD = "add yours to those shown now"


@dataclass(frozen=True)
class ErrorMark:
    """An error that an annotator marked.

    Attributes:
        span: Place and severity.
        suggested: The accepted suggestion of the metric, unchanged; ``None`` for a mark of the annotator.
    """

    span: ErrorSpan
    suggested: ErrorSpan | None = None


@dataclass(frozen=True)
class Marks:
    """Marks of one annotator in one text.

    Attributes:
        errors: Errors in the order of the text.
        rejected: Suggestions that the annotator rejected.
        done: Whether the annotator has finished the text, with or without errors.
        metric: Name of the metric that made suggestions; empty if none did.
    """

    errors: tuple[ErrorMark, ...] = ()
    rejected: tuple[ErrorSpan, ...] = ()
    done: bool = False
    metric: str = field(default="", compare=False)

    @property
    def spans(self) -> tuple[ErrorSpan, ...]:
        """Errors in the order of the text, including accepted suggestions."""
        return tuple(one.span for one in self.errors)

    def undecided(self, suggestions: Sequence[ErrorSpan]) -> int:
        """Return the number of suggestions that are neither accepted nor rejected."""
        accepted = [one.suggested for one in self.errors if one.suggested is not None]
        decided = {(one.start, one.end) for one in (*accepted, *self.rejected)}
        return sum((one.start, one.end) not in decided for one in suggestions)

    def check(self, text: str) -> Marks:
        """Return the marks sorted by place; raise an error if they overlap or lie outside of the text."""
        errors = tuple(sorted(self.errors, key=lambda one: (one.span.start, one.span.end)))
        for one in (*(mark.span for mark in errors), *self.rejected):
            if one.end > len(text):
                raise InputError(
                    f"Expected marks within the {len(text)} characters of the text, but got one up to {one.end}: "
                    f"{RELOAD}."
                )
        for two in itertools.pairwise(mark.span for mark in errors):
            before, after = two
            if after.start < before.end or (after.start, after.end) == (before.start, before.end):
                both = " and ".join("a gap" if one.missing else repr(text[one.start : one.end][:40]) for one in two)
                raise InputError(f"Expected errors that do not overlap, but got {both}: move or delete one.")
        return Marks(errors, self.rejected, self.done, self.metric)


def as_entry(marks: Marks) -> dict[str, Any]:
    """Return marks as JSON for :func:`parse_marks`."""
    errors = [span_entry(one.span, suggested=one.suggested and span_entry(one.suggested)) for one in marks.errors]
    rejected = list(map(span_entry, marks.rejected))
    return {"errors": errors, "rejected": rejected, "done": marks.done, "metric": marks.metric}


def parse_marks(entry: Any, metric: str | None = None) -> Marks:
    """Parse marks from JSON; ``metric`` replaces the name of the metric there unless it is ``None``.

    Raises:
        InputError: If the JSON is invalid, a span is reversed or starts before the text, or a severity is unknown.

    Example:
        >>> parse_marks({"errors": [{"start": 2, "end": 5, "severity": "minor"}], "done": True}).spans
        (ErrorSpan(start=2, end=5, severity='minor', confidence=1.0),)
    """
    try:
        marked, rejected, done = entry.get("errors", []), entry.get("rejected", []), entry.get("done", False)
        if not (isinstance(marked, list) and isinstance(rejected, list) and isinstance(done, bool)):
            raise TypeError("no marks")
        errors = [ErrorMark(_span(one), _span(one["suggested"]) if one.get("suggested") else None) for one in marked]
        refused = tuple(sorted(map(_span, rejected), key=lambda one: (one.start, one.end)))
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected marks with `start`, `end` and a `severity` among {', '.join(SEVERITIES)}, but got "
            f"{quoted_value(entry)}: {RELOAD}."
        ) from error
    return Marks(tuple(errors), refused, done, str(entry.get("metric", "")) if metric is None else metric)


def words_and_gaps(text: str) -> list[tuple[int, int]]:
    """Return the places of gaps and words in turn. They cover the text, and the first and last are gaps.

    Example:
        >>> words_and_gaps("A cat.")
        [(0, 0), (0, 1), (1, 2), (2, 5), (5, 5), (5, 6), (6, 6)]
    """
    ends = [0, *itertools.chain.from_iterable(text_words(text)), len(text)]
    return list(itertools.pairwise(ends))


def span_entry(span: ErrorSpan, **others: object) -> dict[str, Any]:
    """Return a span as JSON, with all ``others`` that are not empty."""
    extra = {name: one for name, one in others.items() if one}
    return {"start": span.start, "end": span.end, "severity": span.severity, **extra}


def _span(entry: Any) -> ErrorSpan:
    start, end, severity = entry["start"], entry["end"], entry["severity"]
    if type(start) is not int or type(end) is not int or severity not in SEVERITIES:
        raise TypeError("no span")
    return ErrorSpan(start, end, severity)


VERSION = 1  # version of the file format, stored in the first line
LONGEST_NAME = 80  # characters
LONGEST_COMMENT = 2000
WAIT = 10.0  # seconds to wait for the lock of another process


@dataclass(frozen=True)
class Rated:
    """Ratings, comment and marks of an annotator for an item.

    Attributes:
        key: Key of the item.
        fingerprint: Fingerprint of the rated texts.
        ratings: Rating by criterion; unrated criteria are missing.
        comment: Free text; may be empty.
        time: Time of the last change, ISO 8601 in UTC.
        marks: Marked errors; ``None`` if the annotator has not started to mark.
    """

    key: str
    fingerprint: str
    ratings: Mapping[str, float] = field(default_factory=dict)
    comment: str = ""
    time: str = ""
    marks: Marks | None = None


@dataclass(frozen=True)
class Ratings:
    """All ratings of an annotator.

    Attributes:
        annotator: Name of the annotator.
        scale: Rating scale, as text.
        criteria: Last requested criteria, as text; empty in files of older versions.
        rated: Ratings by key of the item, in the order in which items were first rated.
        errors: Whether errors were requested last.
    """

    annotator: str
    scale: str
    criteria: tuple[str, ...] = ()
    rated: Mapping[str, Rated] = field(default_factory=dict)
    errors: bool = False

    @property
    def last(self) -> str:
        """Time of the last change; empty without ratings."""
        return max((one.time for one in self.rated.values()), default="")


def clean_name(name: object) -> str:
    """Return the name of an annotator with normalised Unicode and white space.

    Raises:
        InputError: If it is not text, empty or too long, or contains control characters.

    Example:
        >>> clean_name("  Ada   Lovelace ")
        'Ada Lovelace'
    """
    if not isinstance(name, str):
        raise InputError(f"Expected the annotator's name to be text, but got {type(name).__name__}.")
    cleaned = " ".join(unicodedata.normalize("NFC", name).split())
    if not cleaned:
        raise InputError("Expected an annotator's name, but got none: say who rates.")
    if len(cleaned) > LONGEST_NAME:
        raise InputError(f"Expected a name of at most {LONGEST_NAME} characters, but got {len(cleaned)}: shorten it.")
    # Control characters, surrogates, private use, unassigned. Allow format characters: emoji and scripts need them.
    if any(unicodedata.category(one) in ("Cc", "Cs", "Co", "Cn") for one in cleaned):
        raise InputError("Expected a name without control characters, but got one with them: leave them out.")
    return cleaned


def annotator_key(name: str) -> str:
    """Return a portable file name for an annotator, without suffix; it ignores case and extra spaces."""
    folded = unicodedata.normalize("NFKC", clean_name(name)).casefold()
    readable = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:40].strip("-")
    digest = hashlib.sha256(folded.encode("utf-8")).hexdigest()[:8]
    return f"{readable or 'annotator'}-{digest}"


def inside(folder: Path, path: Path) -> Path:
    """Return a path; raise :class:`InputError` if it leads outside of the folder after resolving links."""
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # circular links, or a null character in the name
        is_inside = False
    if not is_inside:
        raise InputError(f"Expected a path inside the folder, but {path.name!r} leads out of it: choose another one.")
    return path


@dataclass(frozen=True)
class AnnotatorFile:
    """File of one annotator in the folder of a project."""

    folder: Path
    path: Path
    new: Ratings = Ratings("", "")  # header for a new file: annotator, scale and questions

    def read(self) -> Ratings:
        """Read the saved ratings."""
        inside(self.folder, self.path)
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return self.new
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(self.path.name, error) from error
        try:
            head = load_json(lines[0], self.path.name)
            if head["textmover_ratings"] != VERSION:
                raise ValueError("another version")
            rated = [_parse_rated(load_json(line, self.path.name)) for line in lines[1:]]
            criteria = tuple(map(str, head.get("criteria", ())))
            by_key = {one.key: one for one in rated}
            with_errors = bool(head.get("errors", False))
            return Ratings(str(head["annotator"]), str(head["scale"]), criteria, by_key, with_errors)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise InputError(
                f"Expected ratings that this program saved in {self.path.name}, but it holds something else: move the "
                "file away, or restore it."
            ) from error

    def change(
        self,
        key: str,
        fingerprint: str,
        *,
        ratings: Mapping[str, float] | None = None,
        comment: str | None = None,
        marks: Marks | None = None,
        shown: Sequence[str | Marks] | None = None,
    ) -> Rated:
        """Update the ratings of an item and save them; drop earlier ones if the texts of the item have changed.

        A comment, or marks, are refused if the saved ones are not among those ``shown``: another window changed them.
        """
        if comment is not None and len(comment) > LONGEST_COMMENT:
            raise InputError(
                f"Expected a comment of at most {LONGEST_COMMENT} characters, but got {len(comment)}: shorten it."
            )
        now = datetime.datetime.now(datetime.timezone.utc)
        with self._locked():
            saved = self.read()
            before = saved.rated.get(key)
            if before is None or before.fingerprint != fingerprint:
                before = Rated(key, fingerprint)
            old, given = (before.comment, comment) if marks is None else (before.marks or Marks(), marks)
            if shown is not None and old not in (*shown, given):
                it, way_out = ("comment", f"copy yours, and {RELOAD}") if marks is None else ("marks", ADD)
                raise InputError(f"Expected the {it} that the page showed, but another window saved others: {way_out}.")
            after = replace(
                before,
                ratings={**before.ratings, **(ratings or {})},
                comment=before.comment if comment is None else comment,
                time=now.isoformat(timespec="seconds"),
                marks=marks or before.marks,
            )
            new = self.new if self.new.criteria or self.new.errors else saved
            rated = {**saved.rated, key: after}
            if not (after.ratings or after.comment or after.marks):
                del rated[key]
            self._write(replace(saved, criteria=new.criteria, errors=new.errors, rated=rated))
        return after

    def _write(self, ratings: Ratings) -> None:
        head = {"textmover_ratings": VERSION, "annotator": ratings.annotator, "scale": ratings.scale}
        questions = {"criteria": list(ratings.criteria), **({"errors": True} if ratings.errors else {})}
        entries = [{**head, **questions}, *map(_rated_entry, ratings.rated.values())]
        with atomic_file(self.path) as stream:
            stream.writelines(json.dumps(entry, ensure_ascii=True) + "\n" for entry in entries)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = inside(self.folder, self.path.parent / ".lock")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(held_lock(lock, WAIT))
            except Timeout as error:
                raise InputError(
                    f"Expected to save within {WAIT:g} seconds, but another program holds {lock}: end it and try again."
                ) from error
            except OSError as error:
                raise InputError(
                    f"Expected to be able to write into {lock.parent}, but got: {error.strerror or error}. "
                    "Free some space, or check its permissions."
                ) from error
            yield


def _rated_entry(rated: Rated) -> dict[str, Any]:
    return {
        "item": rated.key,
        "texts": rated.fingerprint,
        "ratings": dict(rated.ratings),
        "comment": rated.comment,
        "time": rated.time,
        **({} if rated.marks is None else {"marks": as_entry(rated.marks)}),
    }


def _parse_rated(entry: Mapping[str, Any]) -> Rated:
    ratings = {str(name): float(value) for name, value in entry["ratings"].items()}
    if not all(map(math.isfinite, ratings.values())):
        raise ValueError("a rating that is not a number")
    marks = None if entry.get("marks") is None else parse_marks(entry["marks"])
    comment, time = str(entry.get("comment", "")), str(entry.get("time", ""))
    return Rated(str(entry["item"]), str(entry["texts"]), ratings, comment, time, marks)
