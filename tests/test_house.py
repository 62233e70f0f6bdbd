"""Sizes and order of the package: every figure may fall, none may rise.

Each bound is the present figure. A commit that lowers a figure lowers its bound; a commit that raises one says why.
"""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"


@functools.cache  # read by the tests and not by every worker that collects them
def files() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {place: ast.parse(text) for place, text in files().items()}


LINES = 63_141
COMMAND_LINES = 3_212
FILE_COUNT = 355
LONGEST_FILE, LONGEST_FUNCTION, FULLEST_FOLDER = 400, 60, 16
ALLOWED_LONG_FILES = 0
ALLOWED_LONG_FUNCTIONS = 1  # the loop of Sinkhorn
ALLOWED_FULL_FOLDERS = 0
ALLOWED_CIRCLES = 0
ALLOWED_COMPUTING_COMMANDS = 0
ALLOWED_OPENINGS = 0

COMPUTING = {"numpy", "torch", "csv", "yaml"}
"""Packages that commands leave to the rooms below them."""


def module_of(place: str) -> str:
    return "textmover." + place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules and names that a file imports while it runs, inside functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imports(node)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach one another."""
    reached = {}
    for start in graph:
        found, waiting = set(), [start]
        while waiting:
            fresh = graph.get(waiting.pop(), set()) - found
            found |= fresh
            waiting += fresh
        reached[start] = found
    groups = {frozenset(two for two in reached[one] if one in reached[two]) for one in graph if one in reached[one]}
    return sorted(sorted(group) for group in groups)


def import_graph(trees: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Modules that each module imports; a name counts for the module that it is taken from."""
    modules = {module_of(place) for place in trees}
    graph = {}
    for place, tree in trees.items():
        names = set(imports(tree))
        parents = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module_of(place)] = (parents & modules) - {module_of(place)}
    return graph


def lines_of_docstring(node: ast.FunctionDef) -> int:
    """Users' functions explain their arguments, shapes and errors: that makes none of them harder to follow."""
    first = node.body[0]
    return first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0


def long_functions() -> list[str]:
    return [
        f"{place}:{node.lineno} {node.name}"
        for place, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.end_lineno - node.lineno - lines_of_docstring(node) >= LONGEST_FUNCTION
    ]


def openings() -> list[str]:
    """Docstrings, of constants too, that begin with a question word in place of a verb or a noun."""
    return [
        f"{place}:{node.lineno}: {node.value.value.splitlines()[0]}"
        for place, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if re.match(r"(What|How|Of|Where|Which|Whether)\b", node.value.value)
    ]


FIGURES = {
    "lines": (lambda: sum(len(text.splitlines()) for text in files().values()), LINES),
    "lines of commands": (
        lambda: sum(len(text.splitlines()) for place, text in files().items() if place.startswith("cli/")),
        COMMAND_LINES,
    ),
    "files": (lambda: len(files()), FILE_COUNT),
    "long files": (
        lambda: [place for place, text in files().items() if len(text.splitlines()) > LONGEST_FILE],
        ALLOWED_LONG_FILES,
    ),
    "long functions": (long_functions, ALLOWED_LONG_FUNCTIONS),
    "full folders": (
        lambda: [
            folder
            for folder, count in Counter(str(Path(place).parent) for place in files()).items()
            if count > FULLEST_FOLDER
        ],
        ALLOWED_FULL_FOLDERS,
    ),
    "circles of imports": (lambda: circles(import_graph(trees())), ALLOWED_CIRCLES),
    "commands that compute": (
        lambda: [
            place
            for place, tree in trees().items()
            if place.startswith("cli/") and COMPUTING & {name.partition(".")[0] for name in imports(tree)}
        ],
        ALLOWED_COMPUTING_COMMANDS,
    ),
    "docstrings that open with a question word": (openings, ALLOWED_OPENINGS),
}


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_rises(name):
    measure, bound = FIGURES[name]
    found = measure()
    count = found if isinstance(found, int) else len(found)
    listed = "" if isinstance(found, int) else "\n".join(map(str, found))
    assert count <= bound, f"Expected at most {bound} {name}, but got {count}:\n{listed}"


def test_circles_are_found():
    trees = {
        "a.py": "import textmover.b",
        "b.py": "def f():\n    from textmover.c import x",
        "c.py": "from textmover import a",
    }
    graph = import_graph({place: ast.parse(text) for place, text in trees.items()})
    assert circles(graph) == [["textmover.a", "textmover.b", "textmover.c"]]
    assert circles({**graph, "textmover.c": set()}) == []


def test_imports_for_types_alone_make_no_circle():
    tree = ast.parse("if TYPE_CHECKING:\n    from textmover.b import x")
    assert list(imports(tree)) == []
