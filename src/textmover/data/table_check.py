"""Check of a table of ratings: all problems at once, how training handles each, and a recipe for the table."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from textmover.data.leakage import HOLDS_TOGETHER, shared_with_training
from textmover.data.rating_scales import narrow_scale_of, over_annotators, scale_of, split_by_range
from textmover.data.recipe_writer import FEWEST, filled_recipe, overrides_for, share_to_hold_back, template_for
from textmover.data.split import BY_REFERENCE, split_held_back
from textmover.readers.lines import refuse_read_once
from textmover.readers.segments import Columns, check_columns, numbered_segments
from textmover.readers.tables import MemoryTable, open_tables
from textmover.types import InputError, Segment, Shown, View, plural

ROLES = {
    "hypothesis": r"hypothes[ie]s|outputs?|predictions?|responses?|answers?|candidate|translation|mt|summary|generated",
    "references": r".*(reference|ref|gold|target|expected|truth)s?([ _-]?\d+)?",
    "score": r".*(score|rating|stars|quality|label)s?([ _-]?(mean|avg|average))?",
    "annotator": r"(annotator|rater|worker|judge|user)s?([ _-]?(id|name))?",
    "source": r"source|src",
}
"""Name patterns by which columns are found."""

FEW_RATINGS = 100  # minimum for training a metric
EMPTY = "kept: remove it, unless the rating judges an empty answer"  # advice for rated empty texts
BEYOND = "rating beyond"  # problem of ratings outside their scale
NO_NUMBER = "rating is not a number"

UNUSABLE = (
    ("no reference", r"Expected a reference"),
    ("no source", r"Expected a source"),
    ("no rating", r"Expected a finite number .* got (nothing|'\s*')"),
    ("rating with a decimal comma", r"Expected a finite number .*: write it with a point"),
    (NO_NUMBER, r"Expected a finite number"),
    ("no text", r"Expected text in .* got nothing"),
    ("row not in UTF-8 (if it is Latin-1: iconv -f LATIN1 -t UTF-8)", r"Expected .* to be UTF-8"),
    ("row with other fields than the header (a text with a tab or line break)", r"Expected \d+ fields .* hold tabs"),
    ("row with other fields than the header (quote commas)", r"Expected \d+ fields as in the header"),
    ("row cannot be read", r""),
)
"""Problems of unusable rows, by pattern of the error that training would raise."""

FLAGGED = {
    "unknown": (
        "over a tenth of the tokens are unknown",
        "kept, though scores mean little: set `encoder` for this script",
    ),
    "script": ("script that the metric does not read", "kept: set `encoder`, such as multilingual"),
    "language": ("text that does not look English", "kept: set `encoder`, such as multilingual"),
    "truncated": ("longer than the encoder reads", "the end is cut; `long_texts: window` reads it"),
    "look-alikes": ("signs that only look like plain text", "kept: write plain letters"),
    "repetition": ("one phrase repeated", "kept"),
}
"""Problem of each text flag, and how training handles it."""

# Note on averaged ratings by method.
JOINED = {"mean": ", after averaging", "standardised": ", after standardising and averaging"}

Flags = Callable[[Sequence[str]], Mapping[str, Any]]  # texts to flags by name, bool ``[n]`` each


class TableProblem(NamedTuple):
    """Problem of a table."""

    problem: str
    rows: int
    first: str  # position of the first occurrence
    training: str  # how training with the recipe handles it


@dataclass(frozen=True, repr=False)
class CheckedTable(Shown):
    """Table of ratings with its problems."""

    name: str
    rows: int
    segments: list[Segment]  # as used for training
    scale: str
    findings: list[TableProblem]
    recipe: str | None  # YAML; ``None`` if the table cannot be trained on
    refusal: str = ""  # why there is no recipe, and what to do
    columns: str = ""  # columns by role

    def view(self) -> View:
        """Show the problems."""
        headline = f"{self.name}: {plural(self.rows, 'row')}, {len(self.segments):,} usable; {self.scale}"
        headline += f"\nColumns: {self.columns}" if self.columns else ""
        return View(headline, ("problem", "rows", "first met", "training"), self.findings)


def check_table(
    path: str | MemoryTable,
    given: Mapping[str, Any] | None = None,
    flags: Flags | None = None,
    *,
    scale: Sequence[float] | None = None,
    runs: str = "runs/mine",
) -> CheckedTable:
    """Find all problems of a table of ratings.

    Args:
        path: The table.
        given: Columns by role: ``hypothesis``, ``references``, ``score``, ``source``, ``annotator`` and ``groups`` to
            hold back by; missing ones are found by name. A ``source`` is used if given, or if there are no references.
        flags: Function that flags texts as the default metric does.
        scale: Lowest and highest rating; inferred from the ratings if missing.
        runs: Output folder for runs of the recipe.
    """
    if scale and (len(scale) != 2 or not scale[0] < scale[1]):
        got = " ".join(f"{value:g}" for value in scale)
        raise InputError(f"Expected `scale` to be the lowest and the highest rating, as in 1 5, but got {got}.")
    columns, annotator, unit, doubtful = _columns(path, {role: name for role, name in (given or {}).items() if name})
    rows = [(f"{unit} {number}", row) for number, row in numbered_segments(path, columns)]

    def done(usable: list[Segment], summary: str, recipe: str | None, refusal: str = "") -> CheckedTable:
        return CheckedTable(str(path), len(rows), usable, summary, findings, recipe, refusal, _column_summary(columns))

    read = [(place, row) for place, row in rows if isinstance(row, Segment)]
    findings = list(_unusable(rows))
    roles = {name: value for name, value in asdict(columns).items() if value is not None}
    data: dict[str, Any] = {"train": [str(path)], "columns": {**roles, "references": columns.reference_columns}}
    segments = [row for _, row in read]
    bounds = tuple(scale) if scale else scale_of(np.array([row.score for row in segments], dtype=np.float64))
    if bounds is not None:
        segments, beyond = split_by_range(segments, bounds)
        if beyond:
            places = [place for place, row in read if not bounds[0] <= (row.score or 0) <= bounds[1]]
            way_out = "the row is left out" + ("" if scale else ", unless the scale is given")
            findings += _found(f"{BEYOND} {bounds[0]:g} to {bounds[1]:g}", places, way_out, f"{beyond[0].score:g}")
            data["rating_range"] = list(bounds)
    data |= {"unusable": "leave-out"} if findings else {}
    findings += [item._replace(rows=len(rows)) for item in doubtful]
    findings += _repeated(read, annotator) if segments else []
    if unfit := _nothing_to_learn(path, segments, findings):
        return done([], unfit[0], None, unfit[1])
    if annotator is not None:
        found, how = _annotators(read, segments, annotator)
        findings += found
        data |= {"annotator": annotator, "annotators": how}
        segments = over_annotators(segments, annotator, how)
    overrides = overrides_for(columns, sources=bool((given or {}).get("source")))
    findings += _flagged(read, flags, chosen="encoder" in overrides)
    side = BY_REFERENCE[0] if columns.references else "source"
    by = list(dict.fromkeys([side, *(name for name in columns.groups if name != annotator)]))
    found, share = _held_back(segments, by)
    reached = np.array([row.score for row in segments])
    findings += [*found, *_two_scales(read, reached)]
    data |= {"held_back_by": by} if by != [*BY_REFERENCE] else {}
    summary = f"ratings from {round(reached.min(), 2):g} to {round(reached.max(), 2):g}, mean {reached.mean():.3g}"
    summary += JOINED.get(data.get("annotators", ""), "")
    if (count := len(segments)) < FEW_RATINGS:
        way_out = f"fewer than {FEW_RATINGS} ratings gain little: use a released metric"
        findings.append(TableProblem("few ratings", count, "", way_out))
    if share is None:
        finding, refusal = _no_split(segments, by, path, "unusable" in data)
        findings.append(finding)
        return done(segments, summary, None, refusal)
    recipe = filled_recipe({**data, "held_back": share}, runs, f"{runs}/metric", template_for(count), overrides)
    trained, held = map(len, split_held_back(segments, share, by))
    return done(segments, f"{trained:,} to train on, {held:,} held back; {summary}", recipe)


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(path: str | MemoryTable, given: Mapping[str, Any]) -> tuple[Columns, str | None, str, list[TableProblem]]:
    """Return columns by role, the annotator's, which is also a group, the unit of row numbers, and findings."""
    refuse_read_once([str(path)], "where a table is checked, which reads it twice", "write it to a file first")
    with contextlib.closing(open_tables(path)) as tables:
        table = next(tables)
        rows = [row for _, row in islice(table.rows, 100)]
        unreadable = [row for row in rows if isinstance(row, InputError)]
        names = list(table.columns or dict.fromkeys(name for row in rows if isinstance(row, Mapping) for name in row))
        if unreadable and not names:
            raise unreadable[0]
    if len(names) == 1:  # perhaps a header with other separators
        check_columns(table.name, names, (("hypothesis", given.get("hypothesis", "hypothesis")),))
    assigned = {name: role for role, value in given.items() for name in ([value] if isinstance(value, str) else value)}
    used, roles, doubtful = set(assigned), dict(given), list[TableProblem]()
    for role in ("references", "hypothesis", "annotator", "source", "score"):
        free = [name for name in names if name not in used and re.fullmatch(ROLES[role], name, re.IGNORECASE)]
        if role not in roles and free:
            roles[role] = tuple(free) if role == "references" else free[0]
            used |= set(free) if role == "references" else {free[0]}
            if len(free) > 1 and role not in ("references", "source"):
                way_out = f"{free[0]} is taken: name another with `{role}`"
                doubtful.append(TableProblem(f"several columns may hold the {role}", 0, ", ".join(free), way_out))
    for role, flag in (("hypothesis", "texts"), ("references", "references"), ("score", "ratings")):
        if role not in roles and (role != "references" or "source" not in roles):
            close = difflib.get_close_matches(role, [name for name in names if name not in used], n=1)
            taking = {name: f"`{taker}`" for name, taker in assigned.items() if name in names}
            left = ", ".join(repr(name) for name in names if name not in taking)
            got, way_out = "got", "name it"
            if taking:
                got = f"{' and '.join(f'{taker} takes {name!r}' for name, taker in taking.items())}, which leaves"
                out = " and ".join(dict.fromkeys(taking.values()))
                way_out = f"leave {out} out, or, if another column holds the {flag}, name it"
            raise InputError(
                f"Expected a column of the {flag} in {path}, but {got} {left}: {way_out} with `{role}`"
                f"{', or that of the sources with `source`' if role == 'references' else ''}"
                f"{f', such as {close[0]!r}' if close else ''}."
            )
    holding = roles.get("groups") or [name for name in names if name not in used and HOLDS_TOGETHER.fullmatch(name)]
    annotator = roles.get("annotator")
    if annotator:  # the annotator column is also one of the groups
        check_columns(table.name, names, (("annotator", annotator),))
    groups = (*holding, *([annotator] if annotator else ()))
    learned = roles if "references" not in roles else given  # with references, use a source only on request
    columns = Columns(roles["hypothesis"], roles.get("references", ()), roles["score"], learned.get("source"), groups)
    return columns, annotator, table.unit, doubtful


def _column_summary(columns: Columns) -> str:
    roles = {
        "hypothesis": columns.hypothesis,
        "reference": ", ".join(columns.reference_columns),
        "rating": columns.score,
        "source": columns.source,
        "groups": ", ".join(columns.groups),
    }
    return "; ".join(f"{role} = {name}" for role, name in roles.items() if name)


# --- problems ---------------------------------------------------------------------------------------------------------


def _found(problem: str, places: Sequence[str], training: str, value: str = "") -> list[TableProblem]:
    """Return the finding of a problem at some rows, if any, with the first value."""
    if not places:
        return []
    first = f"{places[0]}: {value}" if value else places[0]
    return [TableProblem(problem, len(places), first, training)]


def _unusable(rows: Sequence[tuple[str, Segment | InputError]]) -> Iterator[TableProblem]:
    errors: dict[str, list[tuple[str, str]]] = {problem: [] for problem, _ in UNUSABLE}
    for place, row in rows:
        if isinstance(row, InputError):
            problem = next(name for name, pattern in UNUSABLE if re.match(pattern, str(row), re.DOTALL))
            errors[problem].append((place, str(row)))
    for problem, several in errors.items():
        got = re.search(r"got '([^']*\S[^']*)'", several[0][1]) if several else None
        yield from _found(problem, [place for place, _ in several], "the row is left out", got[1] if got else "")


def _repeated(read: Sequence[tuple[str, Segment]], annotator: str | None) -> Iterator[TableProblem]:
    """Yield findings of duplicate rows, texts with several ratings, empty texts and copies."""
    again: list[str] = []
    rated: dict[tuple[str, tuple[str, ...]], set[float | None]] = {}
    seen = set()
    for place, row in read:
        key = (row.hypothesis, row.compared.texts, row.score, *row.groups.items())
        if key in seen:
            again.append(place)
        seen.add(key)
        rated.setdefault((row.hypothesis, row.compared.texts), set()).add(row.score)
    way_out = "the row counts twice" if annotator is None else "the rating counts twice in the mean of its text"
    yield from _found("the same row again", again, f"{way_out}: remove one")
    if annotator is None:
        several = [place for place, row in read if len(rated[row.hypothesis, row.compared.texts]) > 1]
        way_out = "each rating counts: name the annotator's column to average them"
        yield from _found("the same text with several ratings", several, way_out)
    for problem, places, training in (
        ("empty text", [place for place, row in read if not row.hypothesis.strip()], EMPTY),
        ("text is its reference", [place for place, row in read if row.hypothesis in row.references], "kept"),
        ("text is its source", [place for place, row in read if row.source and row.hypothesis == row.source], "kept"),
    ):
        yield from _found(problem, places, "nothing to learn" if len(places) == len(read) else training)


def _annotators(
    read: Sequence[tuple[str, Segment]], segments: Sequence[Segment], column: str
) -> tuple[list[TableProblem], Any]:
    """Return findings on missing annotators and their differences, and how to join their ratings."""
    by: dict[str, list[float]] = {}
    for row in segments:
        by.setdefault(row.groups[column], []).append(row.score or 0.0)
    constant = [name for name, values in by.items() if len(values) >= 3 and len(set(values)) == 1]
    means = [float(np.mean(values)) for values in by.values() if len(values) >= 10]
    spread = float(np.std([row.score or 0.0 for row in segments]))
    strict = len(means) > 1 and spread > 0 and max(means) - min(means) > spread / 2
    how = "standardised" if constant or strict else "mean"
    texts = len({(row.hypothesis, row.compared.texts) for row in segments})
    first = f"{plural(sum(bool(name.strip()) for name in by), 'annotator')}, {plural(texts, 'text')}"
    found = [TableProblem("several annotators", len(segments), first, f"ratings are averaged ({how})")]
    unnamed = [place for place, row in read if not row.groups[column].strip()]
    found += _found("no annotator", unnamed, "kept, as of one more annotator")
    if constant:
        rows, training = sum(len(by[name]) for name in constant), "their ratings count as the mean"
        found.append(TableProblem("annotators who give one rating", rows, constant[0], training))
    return found, how


def _two_scales(read: Sequence[tuple[str, Segment]], ratings: np.ndarray) -> list[TableProblem]:
    if (narrow := narrow_scale_of(ratings)) is None:
        return []
    low, high = narrow
    places = [place for place, row in read if low <= (row.score or 0) <= high]
    way_out = "kept as one scale: put each scale into a file of its own, and set `scales: per-file`"
    return _found(f"ratings from {low:g} to {high:g} among far higher ones", places, way_out)


def _flagged(read: Sequence[tuple[str, Segment]], flags: Flags | None, *, chosen: bool) -> Iterator[TableProblem]:
    texts = list(dict.fromkeys(text for _, row in read for text in (row.hypothesis, *row.references)))
    found = {} if flags is None else flags(texts)
    for name, (problem, training) in FLAGGED.items():
        bad = {text for text, flag in zip(texts, found.get(name, ()), strict=False) if flag}
        places = [place for place, row in read if bad & {row.hypothesis, *row.references}]
        if not (chosen and "`encoder`" in training):
            yield from _found(problem, places, training)


def _nothing_to_learn(
    path: object, segments: Sequence[Segment], findings: Sequence[TableProblem]
) -> tuple[str, str] | None:
    """Return a headline and an error if no row is left or each text equals its reference."""
    if not segments:
        way_out = "correct what is listed"
        if any(item.problem == NO_NUMBER for item in findings):
            way_out += ", name the column of the ratings with `score`, or write words as numbers (bad = 1, good = 2)"
        elif any(item.problem.startswith(BEYOND) for item in findings):
            way_out += ", or set `scale` to another"
        return "no row can be used", f"Expected a row to train on in {path}, but got none: {way_out}."
    if all(row.hypothesis in row.references for row in segments):
        return "each text is its reference", (
            f"Expected texts in {path} that differ from their references, but all {len(segments)} equal them: set "
            "`hypothesis` or `references` to another column, or add rows that differ."
        )
    return None


def _held_back(segments: list[Segment], by: Sequence[str]) -> tuple[list[TableProblem], float | None]:
    """Return findings on values shared between held-back and training rows, and the share to hold back."""
    share = share_to_hold_back(segments, by)
    if share is None:
        return [], None
    findings = []
    left = shared_with_training(*split_held_back(segments, share, by))
    for what, (number, total) in left.items():
        problem, more = f"held-back rows share {what} with training", "another" if len(by) > 1 else "a"
        way_out = f"agreement will look too good: keep such rows together by {more} group column"
        findings.append(TableProblem(problem, number, f"of {total} held back", way_out))
    plain = share_to_hold_back(segments)
    for what in () if plain is None else shared_with_training(*split_held_back(segments, plain)):
        if what not in left:
            together = f"kept together: rows are held back by {' and '.join(by)}"
            findings.append(TableProblem(f"rows that share {what}", len(segments), "", together))
    return findings, share


def _no_split(segments: list[Segment], by: Sequence[str], path: object, left_out: bool) -> tuple[TableProblem, str]:
    """Return a finding and an error for ratings that cannot be split into training and held-back parts."""
    size, ratings = len(segments), {row.score for row in segments}
    if len(ratings) == 1:
        problem, got = "all ratings are equal", f"all are {ratings.pop():g}"
        way_out = "set `score` to the ratings' column"
        if size == 1:
            problem, got, way_out = "a single rating", "only 1 row is usable", "add rows"
        way_out = "correct the rows that are left out" if left_out else way_out
        refusal = f"Expected ratings that differ in {path}, but {got}: {way_out}."
        return TableProblem(problem, size, "", "not possible"), refusal
    few = by[1:] if share_to_hold_back(segments) else by[:1]
    values = [[row.groups.get(name) or row.references or row.source for row in segments] for name in few]
    counts = " and ".join(plural(len({*map(str, column)}), name) for column, name in zip(values, few, strict=True))
    only, reason = counts, f"rows of one {' or '.join(few)} stay together"
    got = f"{reason}, and all {plural(size, 'rating')} are of {counts}"
    if size < 2 * FEWEST:
        got = f"got {plural(size, 'rating')}, and {reason}"
        only, reason = plural(size, "row"), f"{FEWEST} to train on and {FEWEST} to hold back are needed"
    refusal = (
        f"Expected at least {FEWEST} ratings to train on and {FEWEST} to hold back in {path}, but {got}: add "
        f"rows whose {few[-1]} is not yet in the table ({FEWEST} are enough)."
    )
    return TableProblem(f"only {only}", size, "", f"no recipe: {reason}"), refusal
