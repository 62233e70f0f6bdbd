"""Descriptions of judgement tables: YAML files that define the role of each column."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from textmover.readers.csv_and_jsonl import named
from textmover.readers.segments import quoted_value
from textmover.safe_reading import check_keys, load_yaml, read_yaml, wrong_value
from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean

Choice = Literal["error", "keep", "leave out"]

BUILT_IN = "the built-in description "  # prefix of the origin of a built-in description
UNWRITTEN = "the description"  # origin of a description without a file


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise wrong_value(place, "text", value)


def _texts(value: object, place: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(_text(entry, place) for entry in entries)


def _filters(value: object, place: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise wrong_value(place, "columns with their values", value)
    return {
        _text(column, place): tuple(
            _filter_value(entry, f"the values of {column!r} in {place}")
            for entry in (values if isinstance(values, list) else [values])
        )
        for column, values in value.items()
    }


def _filter_value(value: object, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    raise wrong_value(place, "text or numbers", value, "put it in quotation marks if it is meant as text")


@dataclass(frozen=True)
class SetDescription:
    """Column roles of a judgement table.

    A column name may be a path into nested JSON such as ``annotations.expert.fluency``. ``*`` stands for every entry of
    a list: ``annotations.*.fluency`` is the mean for numbers, and the list of all entries for references. A column
    whose own name contains the dots takes precedence.

    Attributes:
        name: Name of the set in reports; the file name if ``None``.
        about: One-line summary of the set.
        hypothesis: Column of the texts that were judged.
        references: Reference columns; a cell may hold a list.
        ratings: Column of each rating dimension.
        lower_is_better: Dimensions whose ratings are negated, so that higher is better.
        groups: Columns of the group, joined by `` / ``; without them, all rows are in the group ``all``.
        item: Column of the item that a text is an output for, if any.
        system: Column of the system that produced a text, if any.
        source: Column of the text that was translated, summarised or described, if any.
        scores: Column of each metric whose scores the file contains; the word nan marks a missing score.
        where: Allowed values by column; other rows are excluded.
        leave_out: Excluded values by column.
        optional: Columns among those of groups, item, system, source and scores that may be missing.
        missing_ratings: ``"keep"`` reads an empty or NaN rating as NaN.
        missing_references: ``"leave out"`` excludes and counts rows without references.
        duplicates: ``"keep"`` allows several rows with the same group, item and system.
        origin: Name of the description in errors.
        flags: Command-line flag of each key that has one, for errors.

    Raises:
        InputError: If a name is empty or refers to a missing field, or neither rating nor reference columns are named.

    Example:
        >>> SetDescription(ratings={"fluency": "flu", "errors": "err"}, lower_is_better=("errors",)).columns
        {'hypothesis': 'hypothesis', 'reference': 'references', 'flu': 'ratings', 'err': 'ratings'}
    """

    name: str | None = None
    about: str = ""
    hypothesis: str = "hypothesis"
    references: tuple[str, ...] = ("reference",)
    ratings: Mapping[str, str] = field(default_factory=lambda: {"score": "score"})
    lower_is_better: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    item: str | None = None
    system: str | None = None
    source: str | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leave_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    missing_ratings: Choice = "error"
    missing_references: Choice = "error"
    duplicates: Choice = "error"
    origin: str = field(default=UNWRITTEN, compare=False, repr=False)
    flags: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for key in ("references", "ratings"):
            if not getattr(self, key) and not (key == "references" and self.source):
                raise self._error(key, "name at least one column", "none", "name one")
        for key, choices in CHOICES.items():
            if getattr(self, key) not in choices:
                raise self._error(key, f"be {' or '.join(map(repr, choices))}", repr(getattr(self, key)), "choose one")
        for column, key in self.columns.items():
            if not column or not all(column.split(".")):
                raise self._error(key, "name columns", repr(column), "write names without empty parts")
            if "*" in column.split(".") and key not in ("ratings", "references", "scores"):
                raise self._error(
                    key, "be one value", repr(column), "a star stands for several, in ratings, references and scores"
                )
        self._check_known("lower_is_better", self.lower_is_better, list(self.ratings), "a dimension of `ratings`")
        may_lack = (*self.groups, *self.scores.values(), *(one for one in (self.item, self.system, self.source) if one))
        scopes = "a column of `groups`, `item`, `system`, `source` or `scores`"
        self._check_known("optional", self.optional, may_lack, scopes)

    @property
    def columns(self) -> dict[str, str]:
        """All columns to read, with the first field that names each."""
        first_field: dict[str, str] = {}
        for key in ROLES:
            value = getattr(self, key)
            several = value.values() if key in ("ratings", "scores") else value or ()
            for column in [value] if isinstance(value, str) else several:
                first_field.setdefault(column, key)
        return first_field

    def place(self, key: str, value: str | None = None) -> str:
        """Return where to change a key, for errors: a flag, a YAML file, or a new one for built-in descriptions."""
        written = key if value is None else f"{key}: {value}"
        built_in = self.origin.startswith(BUILT_IN)
        if built_in:
            based_on = self.origin.removeprefix(BUILT_IN)
            in_file = f"`{written}` in a YAML file of your own that says `based_on: {based_on}`"
        else:
            in_file = f"`{written}` {'of' if value is None else 'in'} {self.origin}"
        if key not in self.flags:
            return in_file
        flag = self.flags[key] if value is None else f"{self.flags[key]} {value.replace(' ', '-')}"
        return f"`{flag}`" if built_in or self.origin == UNWRITTEN else f"`{flag}`, or {in_file}"

    def _check_known(self, key: str, names: Collection[str], valid: Collection[str], what: str) -> None:
        for name in names:
            if name not in valid:
                raise self._error(key, f"name {what}", repr(name), f"choose among {named(valid) or 'none'}")

    def _error(self, key: str, expected: str, got: str, way_out: str) -> InputError:
        return InputError(f"Expected `{key}` of {self.origin} to {expected}, but got {got}: {way_out}.")


ROLES = ("hypothesis", "references", "ratings", "groups", "item", "system", "source", "scores", "where", "leave_out")
"""Fields that name columns."""

CHOICES: Mapping[str, tuple[str, str]] = {
    "missing_ratings": ("error", "keep"),
    "missing_references": ("error", "leave out"),
    "duplicates": ("error", "keep"),
}

FIELDS = {item.name: str(item.type) for item in dataclasses.fields(SetDescription) if item.repr}
"""Fields that a file may set, with their types."""

KEYS = (*FIELDS, "based_on")


def load_description(name: str | Path) -> SetDescription:
    r"""Load a description by its built-in name or from a YAML file.

    Args:
        name: One of :func:`built_in_descriptions`, or a file whose keys are the fields of :class:`SetDescription`.
            Fields of several columns also accept a single one; ``ratings`` and ``scores`` also accept a list of
            columns, which then name the dimensions and metrics. ``based_on`` names a built-in description that
            provides the other keys.

    Raises:
        InputError: If the description does not exist, is not YAML, or has an unknown key or a value of the wrong type.

    Example:
        >>> path = getfixture("tmp_path") / "mine.yaml"
        >>> _ = path.write_text("hypothesis: output\nratings: stars\nwhere: {split: test}\n")
        >>> load_description(path).where
        {'split': ('test',)}
    """
    built_in = built_in_files()
    if str(name) in built_in:
        return _parsed(load_yaml(built_in[str(name)].read_text(encoding="utf-8"), str(name)), f"{BUILT_IN}{name}")
    path = Path(name)
    if not path.exists():
        hint = did_you_mean(str(name), built_in, "correct the name or the path.")
        raise InputError(
            f"Expected a built-in description ({', '.join(built_in)}) or a YAML file, but got {str(name)!r}: {hint}"
        )
    return _parsed(read_yaml(path), str(path))


def built_in_descriptions() -> dict[str, SetDescription]:
    """Return the built-in descriptions by name.

    Example:
        >>> built_in_descriptions()["wmt-da"].groups
        ('lp',)
    """
    return {name: load_description(name) for name in built_in_files()}


def built_in_files() -> dict[str, Any]:
    """Return the files of the built-in descriptions by name."""
    folder = files("textmover.readers.judgements") / "sets"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".yaml")), key=lambda path: path.name)
    return {path.name.removesuffix(".yaml"): path for path in paths}


def _parsed(data: object, origin: str) -> SetDescription:
    if not isinstance(data, dict):
        raise InputError(
            f"Expected {origin} to hold keys with values, but got {quoted_value(data)}: write lines such as "
            "`hypothesis: output`."
        )
    check_keys(data, KEYS, origin)
    base, built_in = data.pop("based_on", None), built_in_files()
    if base is not None and (not isinstance(base, str) or base not in built_in):
        raise InputError(f"Expected `based_on` of {origin} to be {', '.join(built_in)}, but got {base!r}: choose one.")
    fields = {key: read_field(key, value, f"`{key}` of {origin}") for key, value in data.items()}
    if base is None:
        return SetDescription(**fields, origin=origin)
    based_on = load_description(base)
    if "optional" not in fields:  # optional columns of the base that are still columns
        new_columns = dataclasses.replace(based_on, optional=(), **fields, origin=origin).columns
        fields["optional"] = tuple(column for column in based_on.optional if column in new_columns)
    return dataclasses.replace(based_on, **fields, origin=origin)


def read_field(key: str, value: object, place: str, types: Mapping[str, str] = FIELDS) -> Any:
    """Return the value of a field from its YAML value; ``place`` names the field in errors."""
    if key in ("where", "leave_out"):
        return _filters(value, place)
    if key in ("ratings", "scores"):  # a mapping of names to columns, or a list of columns
        if key == "ratings" and isinstance(value, str) and value:
            return {"score": value}
        if isinstance(value, dict):
            return {_text(name, place): _text(column, place) for name, column in value.items()}
        return {column: column for column in _texts(value, place)}
    if "tuple" in types[key]:
        return _texts(value, place)
    return None if value is None and types[key].endswith("None") else _text(value, place)
