"""Read user-supplied files, YAML and JSON within limits, and convert YAML to dataclasses."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import sys
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean, most_of

Kind = TypeVar("Kind")

FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
TIMESTAMP = "tag:yaml.org,2002:timestamp"
MERGE = "tag:yaml.org,2002:merge"
TEXTS = "tag:yaml.org,2002:str", "tag:yaml.org,2002:binary"
TO_UTF8 = "save it as UTF-8 (from Latin-1: iconv -f LATIN1 -t UTF-8)"


class NotYamlError(InputError):
    """Text is not YAML."""


class NotJsonError(InputError):
    """Text is not JSON."""


class _BadContent(yaml.MarkedYAMLError):
    def __init__(self, expected: str, got: str, way_out: str, mark: yaml.Mark) -> None:
        super().__init__(problem=f"{got}, {expected}", problem_mark=mark)
        self.expected, self.got, self.way_out = expected, got, way_out


class _Loader(yaml.SafeLoader):
    """YAML loader for plain values; 1e-5 is a number, as in YAML 1.2, and dates are text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._level = 0
        self._extents: dict[int, tuple[int, int]] = {}  # number of values and levels of each completed node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node within the limits; aliases count as if expanded."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._extents:
                raise _BadContent("to hold no value that contains itself", "one", "remove the alias", mark)
            values, levels = self._extents[id(node)]
            self._count(values, levels, mark)
            return node
        values_before = self._values
        self._count(1, 1, mark)
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
            self._check_keys(node)
        elif isinstance(node, yaml.ScalarNode) and len(node.value) > most_of("yaml_number") and node.tag not in TEXTS:
            bound = f"numbers of at most {most_of('yaml_number'):,} characters"
            raise _BadContent(f"to hold {bound}", f"one of {len(node.value):,}", "put text in quotation marks", mark)
        levels = 1 + max((self._extents[id(child)][1] for child in children), default=0)
        self._extents[id(node)] = self._values - values_before, levels
        return node

    def _count(self, values: int, levels: int, mark: yaml.Mark) -> None:
        self._values += values
        if self._values > most_of("yaml_values"):
            bound = f"at most {most_of('yaml_values'):,} values, aliases written out"
            raise _BadContent(f"to hold {bound}", "more", "shorten it", mark)
        if self._level + levels > most_of("file_levels"):
            bound = f"at most {most_of('file_levels')} levels of lists and keys"
            raise _BadContent(f"to have {bound}", "more", "nest it less deeply", mark)

    def _check_keys(self, node: yaml.MappingNode) -> None:
        """Raise an error for duplicate keys; merge keys may override."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key = key_node.value if key_node.tag == MERGE else self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if key in seen:
                raise _BadContent("to hold each key once", f"{key!r} again", "remove one of them", key_node.start_mark)
            seen.add(key)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; report a value that does not match its tag as a YAML error."""
        try:
            return super().construct_object(node, deep)  # type: ignore[no-untyped-call]
        except (ValueError, LookupError, AttributeError) as error:
            tag = node.tag.rpartition(":")[2]
            raise yaml.MarkedYAMLError(problem=f"a value that is not {tag}", problem_mark=node.start_mark) from error


_Loader.yaml_implicit_resolvers = {
    first: [one for one in entries if one[0] != TIMESTAMP] for first, entries in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))  # type: ignore[no-untyped-call]


def unreadable(name: str, error: Exception) -> InputError:
    """Build the error for a file that cannot be opened or parsed, with its cause on one line."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"Expected a file at {os.path.abspath(name)}, but there is none: correct the path.")
    if isinstance(error, IsADirectoryError):
        return InputError(f"Expected a file, but got the folder {name}: give the path of a file in it.")
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return InputError(f"Expected to be able to read {name}, but got '{reason}': check the file and its permissions.")


def expanded(path: Path | str) -> Path:
    """Return a path with its home folder in place of ``~``; where there is none, as it is."""
    return Path(os.path.expanduser(path))


def is_pipe(path: Path | str) -> bool:
    """Return whether a path exists and is neither a file nor a folder: a pipe or a device."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def open_input(path: Path | str) -> IO[bytes]:
    """Open a file for reading; for a named pipe, wait a few seconds for its writer."""
    return open(open_pipe(path, os.O_RDONLY) if stat.S_ISFIFO(os.stat(path).st_mode) else path, "rb")


def open_pipe(path: Path | str, flag: int) -> int:
    """Open a named pipe for reading or writing; wait a few seconds for its other end."""
    other, does, do = (os.O_WRONLY, "writes to", "write to") if flag == os.O_RDONLY else (os.O_RDONLY, "reads", "read")
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(os.open, path, flag)
        try:
            return opening.result(most_of("pipe_seconds"))
        except TimeoutError:
            raise InputError(
                f"Expected a program to {do} the pipe {path}, but none opened it within {most_of('pipe_seconds')} "
                f"seconds: start the one that {does} it first."
            ) from None
        finally:
            if not opening.done():
                os.close(os.open(path, other | os.O_NONBLOCK))  # unblocks the waiting thread
                os.close(opening.result())


def read_text(path: Path | str, bound: str = "json_bytes") -> str:
    """Return the text of a UTF-8 file."""
    try:
        with open_input(path) as stream:
            raw = stream.read(most_of(bound) + 1)
    except OSError as error:
        raise unreadable(str(path), error) from error
    check_size(raw, str(path), bound)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(
            f"Expected {path} to be UTF-8, but got the byte 0x{raw[error.start]:02x} in line {line}: {TO_UTF8}."
        ) from error


def check_size(raw: bytes, name: str, bound: str) -> None:
    """Raise an error if content exceeds a size limit; the caller reads one byte more than allowed."""
    if len(raw) > most_of(bound):
        size = most_of(bound) >> 10
        raise InputError(
            f"Expected {name} to have at most {size:,} KiB, but it has more: check that it is the right file."
        )


def read_yaml(path: Path | str) -> Any:
    """Return the value of a YAML file."""
    return load_yaml(read_text(path, "yaml_bytes"), str(path))


def read_json(path: Path | str) -> Any:
    """Return the value of a JSON file."""
    return load_json(read_text(path), str(path))


def load_yaml(text: str, name: str) -> Any:
    """Parse YAML text."""
    try:
        return yaml.load(text, _Loader)
    except _BadContent as error:
        raise InputError(
            f"Expected {name} {error.expected}, but got {error.got}{_line(error)}: {error.way_out}."
        ) from error
    except yaml.YAMLError as error:
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "text that is none"
        raise NotYamlError(f"Expected {name} to be YAML, but got '{reason}'{_line(error)}: correct it.") from error


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" in line {mark.line + 1}"


def load_json(text: str | bytes, name: str) -> Any:
    """Parse JSON text."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            keys = [key for key, _ in pairs]
            duplicate = next(key for key in entries if keys.count(key) > 1)
            raise InputError(f"Expected {name} to hold each key once, but got {duplicate!r} again: remove one of them.")
        return entries

    try:
        value = json.loads(text, object_pairs_hook=without_duplicates)
    except InputError:
        raise
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:
        line, reason = "", "bytes that are not UTF-8, or a number of too many digits"
        if isinstance(error, json.JSONDecodeError):
            line, reason = f" in line {error.lineno}", error.msg
        raise NotJsonError(f"Expected {name} to be JSON, but got '{reason}'{line}: correct it.") from error
    opening = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    levels = most_of("file_levels")
    if sum(map(text.count, opening)) > levels and _is_deeper([value], levels):  # type: ignore[arg-type]
        raise _too_deep(name)
    return value


def _is_deeper(values: Iterable[Any], levels: int) -> bool:
    """Return whether lists and objects are nested more than ``levels`` deep."""
    for _ in range(levels):
        nested = [one for one in values if isinstance(one, (list, dict))]
        values = [inner for one in nested for inner in (one.values() if isinstance(one, dict) else one)]
    return any(isinstance(one, (list, dict)) for one in values)


def _too_deep(name: str) -> InputError:
    levels = most_of("file_levels")
    return InputError(
        f"Expected {name} to have at most {levels} levels of lists and objects, but got more: nest it less deeply."
    )


Words = Annotated[str, "or a number"]  # type of a text field that YAML may parse as a number, such as 1987


class YamlPosition(NamedTuple):
    """Position of a value in a YAML file, for error messages.

    Example:
        >>> str(YamlPosition("a.yaml").inner("rows", 0)), str(YamlPosition("a.yaml"))
        ('`rows.0` of a.yaml', 'a.yaml')
    """

    file: str
    key: str = ""

    def inner(self, *keys: object) -> YamlPosition:
        """Return the position of a value inside this one."""
        return YamlPosition(self.file, ".".join([*([self.key] if self.key else []), *map(str, keys)]))

    def __str__(self) -> str:
        return f"`{self.key}` of {self.file}" if self.key else self.file


def converted(kind: type[Kind], value: object, place: YamlPosition) -> Kind:
    r"""Convert a mapping to a dataclass, checked against the types of its fields.

    A single value is accepted for a tuple field. The field ``origin`` gets the name of the file.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Row:
        ...     name: str
        ...     values: tuple[float, ...] = ()
        >>> converted(Row, {"name": "a", "values": [1, 2.5]}, YamlPosition("a.yaml"))
        Row(name='a', values=(1.0, 2.5))
    """
    if not isinstance(value, dict):
        raise wrong_value(place, "keys with values", value)
    entries = {field.name: field for field in dataclasses.fields(kind) if field.name != "origin"}  # type: ignore[arg-type]
    check_keys(value, list(entries), str(place))
    for name, entry in entries.items():
        if name not in value and entry.default is entry.default_factory is dataclasses.MISSING:
            raise InputError(f"Expected {place} to have the key {name!r}, but it has not: add it.")
    hints = get_type_hints(kind, include_extras=True)
    arguments = {name: _value(hints[name], entry_value, place.inner(name)) for name, entry_value in value.items()}
    return kind(**arguments, **({"origin": place.file} if "origin" in hints else {}))


def check_keys(found: Collection[object], known: Sequence[str], origin: str) -> None:
    """Raise an error for unknown keys."""
    for key in found:
        if key not in known:
            hint = did_you_mean(str(key), known, "remove it.")
            raise InputError(f"Expected the keys of {origin} to be among {', '.join(known)}, but got {key!r}: {hint}")


def check_filled(values: Mapping[Any, Collection[object]], place: YamlPosition) -> None:
    """Raise an error for an empty list or mapping, by its key inside ``place``."""
    for key, entries in values.items():
        if not entries:
            raise InputError(f"Expected {place.inner(key)} to hold something, but got none: add one.")


def _value(hint: Any, value: object, place: YamlPosition) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(next(one for one in inner if one is not type(None)), value, place)
    if hint is Any:
        return value
    if hint in PLAIN:
        return _plain_value(hint, value, place)
    if origin is tuple:
        entries = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], entry, place.inner(index)) for index, entry in enumerate(entries))
    if origin is not None:  # a mapping
        if not isinstance(value, dict):
            raise wrong_value(place, "names with values", value)
        return {_value(inner[0], key, place): _value(inner[1], entry, place.inner(key)) for key, entry in value.items()}
    return converted(hint, value, place)


PLAIN: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    str: ("text", (str,)),
    Words: ("text", (str, int, float)),
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}
"""Name of each type in error messages, and the YAML types it accepts."""


def _plain_value(hint: Any, value: Any, place: YamlPosition) -> Any:
    expected, accepted = PLAIN[hint]
    if type(value) not in accepted:  # isinstance accepts bool as int
        needs_quotes = expected == "text" and isinstance(value, (bool, int, float))
        raise wrong_value(place, expected, value, "put it in quotation marks" if needs_quotes else "correct it")
    if isinstance(value, str):
        if not value.strip():
            raise wrong_value(place, expected, value)
        return value.strip()
    if not abs(value) <= sys.float_info.max:
        raise wrong_value(place, "a finite number", value)
    return str(value) if hint == Words else hint(value)


def wrong_value(place: object, expected: str, value: object, way_out: str = "correct it") -> InputError:
    """Return the error for a value of a YAML file."""
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, Mapping | list):
        shown = "keys with values" if isinstance(value, Mapping) else "a list"
    return InputError(f"Expected {place} to be {expected}, but got {shown}: {way_out}.")
