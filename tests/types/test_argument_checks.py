"""Arguments of constructors are checked as the command line checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from textmover.types import InputError
from textmover.types.argument_checks import CheckedArguments, plain


@dataclass(frozen=True)
class Size:
    width: int = 1
    names: tuple[str, ...] = ()


class Base(CheckedArguments):
    def __init__(self, number: int = 0) -> None:
        self.number = number

    def keep_arguments(self, arguments: Mapping[str, Any]) -> None:
        self.kept = dict(arguments)


class Thing(Base):
    def __init__(
        self,
        files: list[str],
        share: float = 0.1,
        size: Size = Size(),
        kind: Literal["one", "two"] = "one",
        several: dict[str, Size] | None = None,
        values: Sequence[float] | str = (),
        anything: Any = None,
        number: int = 0,
    ) -> None:
        super().__init__(number)
        self.files, self.share, self.size, self.kind, self.several = files, share, size, kind, several
        self.values, self.anything = values, anything


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("share", 1, 1),
        ("share", np.float32(0.5), 0.5),
        ("number", np.int64(3), 3),
        ("size", {"width": 3, "names": ["a", "b"]}, Size(3, ("a", "b"))),
        ("size", Size(np.int64(3), ["a"]), Size(3, ("a",))),
        ("several", {"x": {"width": 2}, "y": Size(4)}, {"x": Size(2), "y": Size(4)}),
        ("several", None, None),
        ("values", [1, 2.5], [1, 2.5]),
        ("values", "mean", "mean"),
        ("files", [Path("a") / "b"], ["a/b"]),
        ("anything", {"any": object}, {"any": object}),
    ],
)
def test_arguments_that_fit(name, value, expected):
    assert getattr(Thing(**{"files": [], name: value}), name) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("files", "a.tsv", r"`files` to be list\[str\], but got 'a.tsv'"),
        ("files", ["a", 3], r"`files\[1\]` to be str, but got 3"),
        ("share", "half", "`share` to be float, but got 'half'"),
        ("share", True, "`share` to be float, but got True"),
        ("number", 2.5, "`number` to be int, but got 2.5"),
        ("kind", "three", "`kind` to be one or two, but got 'three'"),
        ("size", 3, "`size` to be Size, but got 3"),
        ("size", {"widht": 3}, r"`size` to have fields of Size \(width, names\), but got 'widht'"),
        ("size", {"width": "x"}, "`size.width` to be int, but got 'x'"),
        ("several", {"x": 3}, r"`several\['x'\]` to be Size, but got 3"),
        ("values", 3, r"`values` to be Sequence\[float\] or str, but got 3"),
        ("files", "x" * 500, "x…: give one"),
    ],
)
def test_arguments_that_do_not_fit_are_one_sentence(name, value, message):
    with pytest.raises(InputError, match=message):
        Thing(**{"files": [], name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": [], "sise": 3}, "`Thing` to have an argument `sise`, but it has none: did you mean `size`"),
        ({"files": [], "zzz": 3}, "an argument `zzz`, but it has none: name one of files, share, size"),
        ({}, "other arguments of `Thing`, but got 'missing a required argument: 'files'': they are files, share"),
    ],
)
def test_arguments_that_are_unknown_or_missing(arguments, message):
    with pytest.raises(InputError, match=message):
        Thing(**arguments)


def test_the_arguments_of_the_outermost_class_are_kept():
    kept = Thing(["a"], size={"width": 2}, number=4).kept
    assert kept["files"] == ["a"]
    assert kept["size"] == Size(2)
    assert kept["share"] == 0.1
    assert Base().kept == {"number": 0}


def test_plain_values_hold_no_objects():
    assert plain({"size": Size(1, ("a",)), "path": Path("b"), "list": [Size()]}) == {
        "size": {"width": 1, "names": ["a"]},
        "path": "b",
        "list": [{"width": 1, "names": []}],
    }
