"""Lists everything a user can reach: commands with their options, public names with their signatures, recipe keys.

    python tests/surface.py            print the list
    python tests/surface.py --write    write it to tests/surface.txt, which test_surface.py compares with the code

A change of the list is a change for users: explain it in the commit and in the changelog.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

import textmover
from textmover.cli.main import COMMANDS, _parser

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "surface.txt"
PATH = re.compile(r"\btextmover(?:\.(?!json\b)[A-Za-z_]\w*)+")
NAMED_IN = (
    "README.md",
    "docs/**/*.md",
    "configs/**/*.yaml",
    "examples/**/*",
    "checkpoints/**/*.json",
    "pyproject.toml",
)
"""Files whose import paths users copy."""


def lines() -> list[str]:
    """The list, a line each, in a fixed order."""
    found = [*_commands(), *_public_names(), *_named_paths(), *_recipe_keys(), *_checkpoint_keys()]
    return list(dict.fromkeys(found))


def _commands() -> Iterator[str]:
    for command in COMMANDS:
        if command == "train":  # its options are the recipe's keys
            yield "command train"
            continue
        (subparsers,) = (one for one in _parser(command)._actions if isinstance(one, argparse._SubParsersAction))
        for action in subparsers.choices[command]._actions:
            name = "/".join(action.option_strings) or action.dest
            parts = [f"nargs={action.nargs}"] if action.nargs is not None else []
            parts += [f"choices={sorted(map(str, action.choices))}"] if action.choices is not None else []
            parts += [f"default={_plain(action.default)}"] if action.default not in (None, argparse.SUPPRESS) else []
            yield " ".join(["command", command, name, *parts])


def _public_names() -> Iterator[str]:
    rooms = [one.name for one in pkgutil.iter_modules(textmover.__path__) if one.ispkg and one.name != "cli"]
    packages = ["textmover", "textmover.presets", *(f"textmover.{room}" for room in rooms)]
    for package in packages:
        module = import_module(package)
        for name in sorted(getattr(module, "__all__", ())):
            yield from _described(f"{package}.{name}", getattr(module, name))


def _described(path: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing):
        yield f"class {path}{_signature(thing)}"
        if dataclasses.is_dataclass(thing):
            yield from (f"field {path}.{one.name}" for one in dataclasses.fields(thing))
        ours = [one for one in reversed(thing.__mro__) if one.__module__.startswith("textmover.")]
        for name, member in sorted({name: member for one in ours for name, member in vars(one).items()}.items()):
            if not name.startswith("_"):
                kind, reached = "property" if isinstance(member, property) else "member", getattr(thing, name)
                yield f"{kind} {path}.{name}{_signature(reached) if callable(reached) else ''}"
    elif callable(thing):
        yield f"function {path}{_signature(thing)}"
    else:
        yield f"name {path}"


def _signature(thing: Any) -> str:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # a class of C, a Protocol or an alias of types
        return ""
    return "(" + ", ".join(_parameter(one) for one in parameters) + ")"


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    return f"{stars}{one.name}" + ("" if one.default is inspect.Parameter.empty else f"={_plain(one.default)}")


def _plain(value: Any) -> str:
    """A default without addresses, folders or versions."""
    text = repr(value).replace(textmover.__version__, "VERSION")
    return re.sub(
        r"<(?:function|class|bound method|built-in function) ?'?([\w.]+).*>|<([\w.]+) object at .*>", r"<\1\2>", text
    )


def _named_paths() -> Iterator[str]:
    """Import paths that documents, recipes, examples and checkpoints name, where they lead to something."""
    texts = (
        path.read_text(encoding="utf-8")
        for form in NAMED_IN
        for path in ROOT.glob(form)
        if path.is_file() and path.suffix in (".md", ".yaml", ".json", ".toml", ".py")
    )
    for path in sorted({found.rstrip(".") for text in texts for found in PATH.findall(text)}):
        yield f"path {path}" if _leads_somewhere(path) else f"path {path} (leads nowhere)"


def _leads_somewhere(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def _recipe_keys() -> Iterator[str]:
    recipes = [*(ROOT / "configs").rglob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")]
    found = {key for path in recipes for key in _keys(yaml.safe_load(path.read_text(encoding="utf-8")))}
    yield from (f"recipe {key}" for key in sorted(found))


def _checkpoint_keys() -> Iterator[str]:
    for path in sorted((ROOT / "checkpoints").rglob("config.json")):
        keys = sorted(set(_keys(json.loads(path.read_text(encoding="utf-8")))))
        yield from (f"checkpoint {path.relative_to(ROOT).as_posix()} {key}" for key in keys if key.count(".") < 2)


def _keys(value: Any, before: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{before}{key}"
            yield from _keys(inner, f"{before}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, before)


if __name__ == "__main__":
    text = "\n".join(lines()) + "\n"
    if "--write" in sys.argv[1:]:
        LIST.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
