"""Descriptions of judgement files: a YAML file that names the role of each column."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from textmover.readers.csv_and_jsonl import named
from textmover.safe_reading import check_keys, load_yaml, read_yaml
from textmover.types import InputError
from textmover.types.arguments import did_you_mean

Choice = Literal["error", "keep", "leave out"]

BUILT_IN = "the built-in description "  # begins the origin of a built-in description
UNWRITTEN = "the description"  # the origin of one that stands in no file


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise _wrong(place, "text", value)


def _texts(value: object, place: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(_text(entry, place) for entry in entries)


def _filters(value: object, place: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _wrong(place, "columns with their values", value)
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
    raise _wrong(place, "text or numbers", value, "put it in quotation marks if it is meant as text")


def _wrong(place: str, expected: str, value: object, way_out: str = "correct it") -> InputError:
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return InputError(f"Expected {place} to be {expected}, but got {shown}: {way_out}.")


@dataclass(frozen=True)
class SetDescription:
    """Roles of the columns of a file of judgements.

    The name of a column may be a path into nested JSON, ``annotations.expert.fluency``, where ``*`` stands for every
    entry of a list: ``annotations.*.fluency`` is their mean where a number is wanted, and all of them where references
    are. A column that has the dots in its name comes first.

    Attributes:
        name: What tables call the set; the name of the file where it is ``None``.
        about: What the set is, in a line.
        hypothesis: Column of the texts that were judged.
        references: Columns of the references; a cell may hold a list.
        ratings: Column of each dimension of the ratings.
        lower_is_better: Dimensions whose ratings are negated, so that higher is better.
        groups: Columns that make the group, joined by `` / ``; none puts all rows into the group ``all``.
        item: Column of what a text is an output for; ``None`` where there is none.
        system: Column of what produced a text; ``None`` where there is none.
        source: Column of what was translated, summarised or described; ``None`` where there is none.
        scores: Column of each metric whose scores the file brings along; only the word nan stands for none.
        where: Values of a column of which a row must have one.
        leave_out: Values of a column with which a row is left out.
        optional: Columns among those of groups, item, system, source and scores that a file may lack.
        missing_ratings: ``"keep"`` reads an empty or NaN rating as NaN.
        missing_references: ``"leave out"`` leaves out and counts the rows that have none.
        duplicates: ``"keep"`` lets the same group, item and system stand in several rows.
        origin: What errors call the description.
        flags: Flag of a command behind each key that has one: errors name it as the way out.

    Raises:
        InputError: If a name is empty or refers to a missing field, or no rating or reference column is named.

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
        known = "a column of `groups`, `item`, `system`, `source` or `scores`"
        self._check_known("optional", self.optional, may_lack, known)

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is read, and the first field that names it."""
        found: dict[str, str] = {}
        for key in ROLES:
            value = getattr(self, key)
            several = value.values() if key in ("ratings", "scores") else value or ()
            for column in [value] if isinstance(value, str) else several:
                found.setdefault(column, key)
        return found

    def place(self, key: str, value: str | None = None) -> str:
        """Place to change a key, for errors: a flag or a file; a built-in description takes a file based on it."""
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

    def _check_known(self, key: str, names: Collection[str], known: Collection[str], what: str) -> None:
        for name in names:
            if name not in known:
                raise self._error(key, f"name {what}", repr(name), f"choose among {named(known) or 'none'}")

    def _error(self, key: str, expected: str, got: str, way_out: str) -> InputError:
        return InputError(f"Expected `{key}` of {self.origin} to {expected}, but got {got}: {way_out}.")


ROLES = ("hypothesis", "references", "ratings", "groups", "item", "system", "source", "scores", "where", "leave_out")
"""Fields that name columns."""

CHOICES: Mapping[str, tuple[str, str]] = {
    "missing_ratings": ("error", "keep"),
    "missing_references": ("error", "leave out"),
    "duplicates": ("error", "keep"),
}

FIELDS = {one.name: str(one.type) for one in dataclasses.fields(SetDescription) if one.repr}
"""Fields that a file may give, with their types."""

KEYS = (*FIELDS, "based_on")


def load_description(name: str | Path) -> SetDescription:
    r"""Load a description by its built-in name or from a YAML file.

    Args:
        name: One of :func:`built_in_descriptions`, or a file whose keys are the fields of :class:`SetDescription`.
            Where a field takes several columns, one alone may stand without a list; ``ratings`` and ``scores`` may
            also list columns that give the dimensions and metrics their names. With ``based_on``, the name of a
            built-in description, keys that are not given are those of that description.

    Raises:
        InputError: If there is no such description, the file is not YAML, or a key is unknown or of the wrong type.

    Example:
        >>> path = getfixture("tmp_path") / "mine.yaml"
        >>> _ = path.write_text("hypothesis: output\nratings: stars\nwhere: {split: test}\n")
        >>> load_description(path).where
        {'split': ('test',)}
    """
    built_in = _built_in_files()
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
    """The descriptions that the package ships, by name.

    Example:
        >>> built_in_descriptions()["wmt-da"].groups
        ('lp',)
    """
    return {name: load_description(name) for name in _built_in_files()}


def _built_in_files() -> dict[str, Any]:
    folder = files("textmover.readers.judgements") / "sets"
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return {one.name.removesuffix(".yaml"): one for one in found}


def _parsed(found: object, origin: str) -> SetDescription:
    if not isinstance(found, dict):
        raise InputError(
            f"Expected {origin} to hold keys with values, but got {type(found).__name__}: write lines such as "
            "`hypothesis: output`."
        )
    check_keys(found, KEYS, origin)
    base, known = found.pop("based_on", None), _built_in_files()
    if base is not None and (not isinstance(base, str) or base not in known):
        raise InputError(f"Expected `based_on` of {origin} to be {', '.join(known)}, but got {base!r}: choose one.")
    fields = {key: read_field(key, value, f"`{key}` of {origin}") for key, value in found.items()}
    if base is None:
        return SetDescription(**fields, origin=origin)
    based_on = load_description(base)
    if "optional" not in fields:  # those of the base, as far as they are still columns
        kept = dataclasses.replace(based_on, optional=(), **fields, origin=origin).columns
        fields["optional"] = tuple(column for column in based_on.optional if column in kept)
    return dataclasses.replace(based_on, **fields, origin=origin)


def read_field(key: str, value: object, place: str, types: Mapping[str, str] = FIELDS) -> Any:
    """The value of a field from that of its key; ``place`` is its name in errors."""
    if key in ("where", "leave_out"):
        return _filters(value, place)
    if key in ("ratings", "scores"):  # names with their columns, or columns that are their own names
        if key == "ratings" and isinstance(value, str) and value:
            return {"score": value}
        if isinstance(value, dict):
            return {_text(name, place): _text(column, place) for name, column in value.items()}
        return {column: column for column in _texts(value, place)}
    if "tuple" in types[key]:
        return _texts(value, place)
    return None if value is None and types[key].endswith("None") else _text(value, place)
