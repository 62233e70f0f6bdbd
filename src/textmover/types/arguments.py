"""Arguments of constructors, checked against their annotations and bounds."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Literal, Union

from textmover.types.bounds import BOUNDS, check_whole
from textmover.types.segments import InputError

NUMBERS: dict[Any, type] = {int: Integral, float: Real}

SHOWN = 80
"""Characters of a value that an error quotes."""


class CheckedArguments:
    """Base of classes whose constructors check their arguments; a mapping becomes the dataclass that is expected.

    A wrong argument is an :class:`~textmover.types.InputError` that names it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _checked(cls.__init__)  # type: ignore[method-assign]

    def keep_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Called with the arguments, defaults among them, once the object is built."""


def plain(value: Any) -> Any:
    """A value with its dataclasses as mappings, so that a checkpoint holds nothing but plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _checked(constructor: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(constructor)
    further = {one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD}

    @functools.wraps(constructor)
    def build(self: Any, *values: Any, **named: Any) -> None:
        try:
            bound = signature.bind(self, *values, **named)
        except TypeError as error:
            raise _unbound(type(self).__name__, list(signature.parameters)[1:], named, error) from error
        hints = _hints(constructor)
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = _fitted(value, hints[name], name)
        constructor(*bound.args, **bound.kwargs)
        if type(self).__init__ is build:
            bound.apply_defaults()
            kept = {name: value for name, value in bound.arguments.items() if name != "self"}
            for name in kept.keys() & further:
                kept |= kept.pop(name)
            self.keep_arguments(kept)

    return build


def _unbound(kind: str, known: list[str], named: Mapping[str, Any], error: TypeError) -> InputError:
    """The error of an argument that is unknown, missing or given twice."""
    unknown = next((name for name in named if name not in known), None)
    if unknown is None:
        return InputError(f"Expected other arguments of `{kind}`, but got '{error}': they are {', '.join(known)}.")
    close = difflib.get_close_matches(unknown, known, n=1)
    way_out = f"did you mean `{close[0]}`?" if close else f"name one of {', '.join(known)}."
    return InputError(f"Expected `{kind}` to have an argument `{unknown}`, but it has none: {way_out}")


@functools.cache
def _hints(constructor: Callable[..., None]) -> dict[str, Any]:
    return typing.get_type_hints(constructor)


def _fitted(value: Any, hint: Any, name: str) -> Any:
    """A value as its annotation wants it."""
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _fitted_any(value, inner, name, hint)
    if origin is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if origin is Literal:
        fits = value in inner
    elif origin in NUMBERS:
        fits = isinstance(value, NUMBERS[origin]) and not isinstance(value, bool)
        if fits and origin is int and (field := name.rpartition(".")[2].partition("[")[0]) in BOUNDS:
            check_whole(field, value)
    elif origin in (list, tuple, Sequence) and isinstance(value, (list, tuple)):
        one = inner[0] if inner else Any
        kind = tuple if origin is tuple else type(value)
        return kind(_fitted(item, one, f"{name}[{place}]") for place, item in enumerate(value))
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        one = inner[1] if inner else Any
        return {key: _fitted(item, one, f"{name}[{key!r}]") for key, item in value.items()}
    elif isinstance(origin, type) and isinstance(value, (Mapping, origin)) and is_dataclass(origin):
        return _dataclass(value, origin, name)
    else:
        fits = not isinstance(origin, type) or isinstance(value, origin)
    if not fits:
        raise _misfit(value, hint, name)
    return value


def _fitted_any(value: Any, choices: Sequence[Any], name: str, hint: Any) -> Any:
    """A value as one of several annotations wants it."""
    others = [one for one in choices if one is not type(None)]
    if value is not None and len(others) == 1:
        return _fitted(value, others[0], name)
    for one in choices:
        with contextlib.suppress(InputError):
            return _fitted(value, one, name)
    raise _misfit(value, hint, name)


def _dataclass(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        kind, value = type(value), {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    known = inspect.signature(kind).parameters
    unknown = [str(key) for key in value if key not in known]
    if unknown:
        raise InputError(
            f"Expected `{name}` to have fields of {kind.__name__} ({', '.join(known)}), but got {unknown[0]!r}: name "
            "one of these."
        )
    hints = typing.get_type_hints(kind)
    return kind(**{key: _fitted(one, hints[key], f"{name}.{key}") for key, one in value.items()})


def _misfit(value: Any, hint: Any, name: str) -> InputError:
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    return InputError(f"Expected `{name}` to be {_words(hint)}, but got {shown}: give one.")


def _words(hint: Any) -> str:
    """An annotation as it is written."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(one) for one in inner)
    if origin is Literal:
        return " or ".join(map(str, inner))
    if hint is type(None):
        return "None"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{name}[{', '.join(map(_words, inner))}]" if inner else name
