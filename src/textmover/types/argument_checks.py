"""Validation of arguments: bounds of numbers, choices, and constructor arguments by their annotations."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import asdict, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Literal, Union

from textmover.types.segments import InputError

Position = Literal["penalty", "near", "literal"]
"""Treatment of positions in alignment scores: see :func:`~textmover.functional.word_alignment.alignment_scores`."""

Penalty = Literal["paper", "code", "none"]
"""Treatment of positions in distances: see :func:`~textmover.functional.word_alignment.aligned_distances`."""

ENCODER_BOUNDS: Mapping[str, tuple[int, int]] = {
    "num_hidden_layers": (1, 1_000),
    "hidden_size": (1, 65_536),
    "num_attention_heads": (1, 4_096),
    "intermediate_size": (1, 1_048_576),
    "vocab_size": (1, 16_777_216),
    "num_labels": (0, 1_000_000),
    "max_position_embeddings": (-1, 16_777_216),
}
"""Bounds of an encoder's ``config.json``."""

BOUNDS: Mapping[str, tuple[int, int]] = {
    # Fields and arguments; for a list, its length.
    "iterations": (1, 100_000),
    "max_iterations": (1, 1_000_000),
    "routing_iterations": (1, 100_000),
    "layer": (-1_000, 1_000),
    "last_layers": (1, 1_000),
    "freeze_layers": (0, 1_000),
    "depth": (1, 1_000),
    "max_length": (3, 16_777_216),
    "ngram": (1, 1_000),
    "powers": (1, 100),
    "features": (1, 32),
    "most_nodes": (1, 100_000),
    "hidden": (0, 4_096),
    "activations": (0, 8),
    "rank": (1, 65_536),
    "pairs": (1, 10_000_000),
    "batch_tokens": (1, 100_000_000),
    "workers": (0, 1_000),
    "versions": (1, 1_000),
    "records": (1, 1_000_000),
    "events": (0, 1_000_000),
    "negatives": (0, 1_000),
    "words": (1, 10_000),
    "sentences": (1, 1_000_000_000),
    "shard_size": (1, 10_000_000),
    "most": (1, 1_000_000_000),
    "samples": (1, 1_000_000),
    **ENCODER_BOUNDS,
    # Options of commands that are not fields: larger values cost memory or time without benefit.
    "--adapter": (1, 65_536),
    "--devices": (1, 1_000),
    "--limit": (1, 1_000_000),
    "--num-candidates": (1, 1_000_000),
    "--num-nodes": (1, 10_000),
    "--permutations": (1, 1_000_000),
    "--samples": (20, 1_000_000),
    "--segments": (1, 1_000_000),
    "--shard-size": (1, 10_000_000),
    "--trials": (1, 1_000_000),
    **dict.fromkeys(("--seed", "--seeds", "--sampler-seed"), (0, (1 << 32) - 1)),
    # Files: bytes, nesting levels, values with expanded aliases, characters of a number, seconds.
    "yaml_bytes": (0, 1 << 18),
    "json_bytes": (0, 1 << 28),
    "file_levels": (0, 100),
    "yaml_values": (0, 50_000),
    "yaml_number": (0, 1_000),
    "pipe_seconds": (0, 8),
}
"""Minimum and maximum of each number by its name."""

OTHER_OPTIONS = 1_000_000_000  # maximum of options that are not in the table


def most_of(name: str) -> int:
    """Return the maximum of a number by its name."""
    return BOUNDS[name][1]


def check_whole(
    name: str, value: object, *, least: int | None = None, place: str = "", alternative: str = "", way_out: str = ""
) -> None:
    """Raise an error unless a value is an integer within its bounds.

    Args:
        name: Name of the field in :data:`BOUNDS`.
        value: The value.
        least: Lower bound instead of the table's.
        place: Location of the field, for the message.
        alternative: Other allowed values, for the message.
        way_out: Advice, for the message.

    Raises:
        InputError: If the value is not an integer within the bounds.

    Example:
        >>> check_whole("rank", 16)
    """
    low, most = BOUNDS[name]
    low = low if least is None else least
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= most:
        raise InputError(
            f"Expected `{name}`{place} to be a whole number from {low:,} to {most:,}{alternative}, but got {value!r}"
            f"{way_out}."
        )


def check_share(name: str, value: float) -> float:
    """Return a proportion; raise an :class:`InputError` unless it is between 0 and 1."""
    if not 0 <= value <= 1:
        raise InputError(f"Expected `{name}` to be between 0 and 1, but got {value}.")
    return value


def check_bytes(name: str, value: object) -> None:
    """Raise an :class:`InputError` unless a value is a number of bytes of at least 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) >= 0:
        raise InputError(f"Expected `{name}` to be a number of bytes of at least 0, but got {value!r}: 2**30 is 1 GiB.")


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise an :class:`InputError` that lists the choices unless ``value`` is one of them."""
    if value not in choices or (isinstance(value, bool) and all(one is not value for one in choices)):
        raise InputError(f"Expected `{name}` to be one of {', '.join(map(repr, choices))}, but got {value!r}.")


def check_pairs(hypotheses: Sized, references: Sized) -> None:
    """Raise a :class:`ValueError` unless there are as many hypotheses as references."""
    if len(hypotheses) != len(references):
        raise ValueError(f"Expected as many hypotheses as references, but got {len(hypotheses)} and {len(references)}.")


type_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
NUMBERS: dict[Any, type] = {int: Integral, float: Real}
SHOWN = 80  # characters of a value that an error quotes


class CheckedArguments:
    """Base of classes whose constructors check their arguments and convert mappings to the annotated dataclass.

    An invalid argument raises an :class:`~textmover.types.InputError` that names it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _checked(cls.__init__)  # type: ignore[method-assign]

    def keep_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Hook, called with all arguments, including defaults, after construction."""


def plain(value: Any) -> Any:
    """Convert a value to plain types for a checkpoint: dataclasses to dicts, unknown types to strings."""
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
        hints = type_hints(constructor)
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = _converted(value, hints[name], name)
        constructor(*bound.args, **bound.kwargs)
        if type(self).__init__ is build:
            bound.apply_defaults()
            arguments = {name: value for name, value in bound.arguments.items() if name != "self"}
            for name in arguments.keys() & further:
                arguments |= arguments.pop(name)
            self.keep_arguments(arguments)

    return build


def _unbound(kind: str, known: list[str], named: Mapping[str, Any], error: TypeError) -> InputError:
    unknown = next((name for name in named if name not in known), None)
    if unknown is None:
        return InputError(f"Expected other arguments of `{kind}`, but got '{error}': they are {', '.join(known)}.")
    way_out = did_you_mean(unknown, known, f"name one of {', '.join(known)}.", "`{}`")
    return InputError(f"Expected `{kind}` to have an argument `{unknown}`, but it has none: {way_out}")


def did_you_mean(name: str, known: Iterable[str], otherwise: str, form: str = "{!r}") -> str:
    """Return the advice for an unknown name: the closest known name, or else ``otherwise``."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {form.format(close[0])}?" if close else otherwise


def _converted(value: Any, hint: Any, name: str) -> Any:
    """Check a value against its annotation and convert it if necessary."""
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _converted_union(value, inner, name, hint)
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
        return kind(_converted(item, one, f"{name}[{place}]") for place, item in enumerate(value))
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        one = inner[1] if inner else Any
        return {key: _converted(item, one, f"{name}[{key!r}]") for key, item in value.items()}
    elif isinstance(origin, type) and isinstance(value, (Mapping, origin)) and is_dataclass(origin):
        return _dataclass(value, origin, name)
    else:
        fits = not isinstance(origin, type) or isinstance(value, origin)
    if not fits:
        raise _misfit(value, hint, name)
    return value


def _converted_union(value: Any, choices: Sequence[Any], name: str, hint: Any) -> Any:
    others = [one for one in choices if one is not type(None)]
    if value is not None and len(others) == 1:
        return _converted(value, others[0], name)
    for one in choices:
        with contextlib.suppress(InputError):
            return _converted(value, one, name)
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
    hints = type_hints(kind)
    return kind(**{key: _converted(one, hints[key], f"{name}.{key}") for key, one in value.items()})


def _misfit(value: Any, hint: Any, name: str) -> InputError:
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    return InputError(f"Expected `{name}` to be {_words(hint)}, but got {shown}: give one.")


def _words(hint: Any) -> str:
    """Return an annotation as text."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(one) for one in inner)
    if origin is Literal:
        return " or ".join(map(str, inner))
    if hint is type(None):
        return "None"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{name}[{', '.join(map(_words, inner))}]" if inner else name
