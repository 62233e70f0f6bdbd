"""Sizes and order of the package: every figure may fall, none may rise; imports run one way, and few files load.

Each bound is the present figure. A commit that lowers a figure lowers its bound; a commit that raises one says why.
"""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"
PACKAGE = "textmover"


@functools.cache  # read by the tests and not by every worker that collects them
def files() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {place: ast.parse(text) for place, text in files().items()}


@functools.cache
def nodes() -> dict[str, list[ast.AST]]:
    """All nodes of each file but the names that expressions hold, which are most of them."""
    return {
        place: [one for one in ast.walk(tree) if not isinstance(one, ast.Name | ast.expr_context)]
        for place, tree in trees().items()
    }


def of_kind(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    return ((place, one) for place, found in nodes().items() for one in found if isinstance(one, kind))


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Later tests need not look for garbage among the nodes."""
    yield
    trees.cache_clear()
    nodes.cache_clear()


LINES = 63_376
COMMAND_LINES = 3_223
FILE_COUNT = 356
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
        if isinstance(node, ast.expr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
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
        for place, node in of_kind(ast.FunctionDef)
        if node.end_lineno - node.lineno - lines_of_docstring(node) >= LONGEST_FUNCTION
    ]


def openings() -> list[str]:
    """Docstrings, of constants too, that begin with a question word in place of a verb or a noun."""
    return [
        f"{place}:{node.lineno}: {node.value.value.splitlines()[0]}"
        for place, node in of_kind(ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
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


# --- imports run one way ----------------------------------------------------------------------------------------------

BASE = {"_version", "csv_cells", "files", "lazy", "markdown_escaping", "safe_reading", "terminal", "types"}
MODELS = BASE | {"functional", "modules", "rome", "presets"}
TEXTS = BASE | {"readers", "perturbations", "data"}
SCORERS = MODELS | {"readers", "report", "checkpoints", "explaining", "scoring"}
STUDIES = SCORERS | TEXTS | {"meta_evaluation"}
MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "lazy": set(),
    "types": {"lazy"},
    "moved": set(),
    "csv_cells": set(),
    "markdown_escaping": set(),
    "terminal": set(),
    "files": {"safe_reading", "types"},
    "safe_reading": {"types"},
    "functional": {"types"},
    "modules": {"files", "functional", "lazy", "safe_reading", "types"},
    "rome": {"files", "functional", "lazy", "modules", "safe_reading", "types"},
    "presets": {"lazy", "modules", "rome", "types"},
    "readers": {"_version", "csv_cells", "files", "safe_reading", "terminal", "types"},
    "perturbations": {"safe_reading", "types"},
    "data": {"lazy", "perturbations", "readers", "safe_reading", "types"},
    "meta_evaluation": {"types"},
    "report": BASE | {"meta_evaluation", "readers"},
    "checkpoints": MODELS | {"readers"},
    "explaining": {"functional", "modules", "report", "rome", "types"},
    "scoring": SCORERS - {"scoring"},
    "metrics": {"checkpoints", "functional", "meta_evaluation", "modules", "scoring", "types"},
    "training": STUDIES | {"metrics"},
    "runs": BASE | {"modules", "readers", "scoring"},
    "experiments": STUDIES,
    "annotation": {"csv_cells", "data", "files", "meta_evaluation", "readers", "safe_reading", "types"},
    "app": {"annotation", "checkpoints", "meta_evaluation", "modules", "presets", "safe_reading", "scoring", "types"},
    "interfaces": {"modules", "scoring", "types"},
    "__init__": {"_version", "lazy", "moved", "metrics", "modules", "scoring", "types"},
    "cli": STUDIES | {"annotation", "app", "experiments", "runs", "training"},
    "__main__": {"cli"},
}
"""Folder or module directly under the package → those that it may import beside itself; ``__init__`` is the package."""


def unit_of(place: str) -> str:
    return place.partition("/")[0].removesuffix(".py")


def imported_modules(nodes: Iterable[ast.AST], units: set[str]) -> Iterator[tuple[int, str]]:
    """Line and unit of everything of ours that a file imports, at any depth, by statement or by a dotted string.

    A string that is nothing but a dotted name of ours counts, because that is how lazy imports are written.
    """
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module == PACKAGE:
                # `from textmover import scoring` reaches the folder.
                names = [f"{PACKAGE}.{alias.name}" if alias.name in units else PACKAGE for alias in node.names]
            else:
                names = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(rf"{PACKAGE}(\.\w+)+", node.value) else []
        for name in names:
            first, _, rest = name.partition(".")
            if first == PACKAGE:
                yield node.lineno, rest.partition(".")[0] or "__init__"


def violations(walked: Mapping[str, Sequence[ast.AST]]) -> list[str]:
    """One sentence for every import of these files that the table does not allow."""
    units, table = {unit_of(place) for place in walked}, MAY_IMPORT
    unknown = "is unknown: add it to the table of tests/test_house.py"
    found = []
    for place, nodes in walked.items():
        unit = unit_of(place)
        if unit not in table:
            found.append(f"{place}: `{unit}` {unknown}")
            continue
        found += [
            f"{place}:{node.lineno}: relative import: write `from {PACKAGE}.… import …`"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.level
        ]
        found += [
            f"{place}:{line}: `{unit}` may not import `{target}`"
            if target in table
            else f"{place}:{line}: `{target}` {unknown}"
            for line, target in imported_modules(nodes, units | set(table))
            if target != unit and target not in table[unit]
        ]
    return found


def test_imports_run_one_way():
    assert violations(nodes()) == []


def test_nothing_but_the_program_itself_imports_the_command_line():
    assert [unit for unit, allowed in MAY_IMPORT.items() if "cli" in allowed] == ["__main__"]


def test_the_table_has_no_cycle():
    remaining = dict(MAY_IMPORT)
    while remaining:
        free = [unit for unit, allowed in remaining.items() if not allowed & set(remaining)]
        assert free, f"Expected an order of imports, but these go in a circle: {sorted(remaining)}."
        for unit in free:
            del remaining[unit]


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("functional/cost.py", "import textmover.modules.encoder.encoder", "`functional` may not import `modules`"),
        ("functional/cost.py", "from textmover.modules.a import Encoder", "`functional` may not import `modules`"),
        ("functional/cost.py", "from textmover import modules", "`functional` may not import `modules`"),
        ("functional/cost.py", "import torch\nimport textmover", "`functional` may not import `__init__`"),
        ("functional/cost.py", "from textmover import Scorer", "`functional` may not import `__init__`"),
        ("readers/a.py", "def f():\n    from textmover.scoring import engine", "`readers` may not import `scoring`"),
        ("readers/a.py", "if TYPE_CHECKING:\n    import textmover.scoring", "`readers` may not import `scoring`"),
        ("readers/a.py", "import_module('textmover.scoring.engine')", "`readers` may not import `scoring`"),
        ("scoring/deep/er/engine.py", "from textmover.metrics import x", "`scoring` may not import `metrics`"),
        ("training/module.py", "from textmover.cli.main import main", "`training` may not import `cli`"),
        ("__init__.py", "def load():\n    from textmover.cli import main", "`__init__` may not import `cli`"),
        ("__init__.py", "LAZY = {'main': 'textmover.cli.main'}", "`__init__` may not import `cli`"),
        ("types.py", "from textmover.functional import f_score", "`types` may not import `functional`"),
        ("modules/encoder/encoder.py", "from . import layers", "relative import"),
        ("modules/encoder/encoder.py", "from ..functional import cost", "relative import"),
        ("helpers/text.py", "", "`helpers` is unknown: add it to the table"),
        ("helpers.py", "", "`helpers` is unknown: add it to the table"),
        ("scoring/engine/engine.py", "import textmover.helpers", "`helpers` is unknown: add it to the table"),
    ],
)
def test_a_violation_is_found_and_named(path, text, message):
    (found,) = violations({path: list(ast.walk(ast.parse(text)))})
    assert found.startswith(path)
    assert message in found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("functional/cost.py", "import torch\nfrom textmover.functional.a import x\nfrom textmover.types import y"),
        ("scoring/engine/a.py", "from textmover._version import __version__\nfrom textmover.readers.lines import x"),
        ("cli/main.py", "from textmover.scoring import Scorer\nimport textmover.training.callbacks"),
        ("__init__.py", "def __getattr__(name):\n    import textmover.scoring"),
        ("functional/cost.py", "'''Not an import: textmover.cli is only spoken of.'''\nimport textmover_extras.cli"),
    ],
)
def test_an_allowed_import_is_not_reported(path, text):
    assert violations({path: list(ast.walk(ast.parse(text)))}) == []


# --- what loads -------------------------------------------------------------------------------------------------------

LOADERS = {
    "from_config", "from_pretrained", "hf_hub_download", "import_module", "InferenceSession", "load_dataset",
    "load_file", "load_from_disk", "Pipeline", "read_model", "run_module", "run_path", "safe_open", "snapshot_download",
    "Unpickler",
}  # fmt: skip
"""Functions that read models or run code, whatever module they are of."""

DOTTED = {"exec", "eval", "__import__", "point.load"} | {
    f"{module}.{name}"
    for module in ("torch", "torch.jit", "np", "numpy", "pickle", "joblib", "spacy", "marshal")
    for name in ("load", "loads")
}

MAY_LOAD = {
    "cli/main.py": {"import_module"},
    "readers/tables.py": {"datasets.load_dataset", "datasets.load_from_disk"},
    "lazy.py": {"import_module"},
    "modules/encoder/encoder_identity.py": {"safe_open"},
    "modules/encoder/source.py": {"snapshot_download"},
    "modules/matching/names.py": {"point.load"},  # an entry point of an installed package
    "moved.py": {"import_module"},
    "modules/encoder/pretrained.py": {
        "AutoConfig.from_pretrained",
        "AutoModel.from_config",
        "AutoModel.from_pretrained",
        "AutoTokenizer.from_pretrained",
        "safe_open",
    },
    "modules/encoder/static_vectors.py": {"np.load"},
    "modules/tokens/text_flags.py": {"np.load"},
    "rome/scorer/network.py": {"torch.load"},
    "rome/parsers/pipelines.py": {"spacy.load", "stanza.Pipeline"},
    "scoring/backends/onnxruntime.py": {"onnxruntime.InferenceSession"},
    "scoring/backends/openvino.py": {"_core().read_model"},
    "scoring/backends/preparation.py": {"load_file"},
    "scoring/backends/names.py": {"importlib.import_module"},
    "checkpoints/checkpoint_files.py": {"load_file"},
    "checkpoints/loading.py": {"snapshot_download"},
    "checkpoints/lightning_checkpoints.py": {"torch.load"},
    "scoring/cache/state_files.py": {"safe_open"},
    "checkpoints/statistics_files.py": {"safe_open"},
}
"""Every file that loads something, and by which calls. Hugging Face's loaders have one place."""

OURS = re.compile(r"(Scorer|Encoder|MetricModel|WordReader|metric_class|found)\.from_(pretrained|config)")
SAFE = {"torch.load": "weights_only=True", "AutoConfig": "trust_remote_code=False"}
SAFE |= dict.fromkeys(("AutoModel", "AutoTokenizer"), SAFE["AutoConfig"])


def loading_calls() -> Iterator[tuple[str, str, str]]:
    """File, function and whole text of every call that loads something."""
    last = LOADERS | {name.rpartition(".")[2] for name in DOTTED}
    for place, node in of_kind(ast.Call):
        if (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in last:
            name = ast.unparse(node.func)
            if (name.rpartition(".")[2] in LOADERS or name in DOTTED) and not OURS.fullmatch(name):
                yield place, name, ast.unparse(node)


def test_every_call_that_loads_something_is_known_and_runs_no_code():
    found: dict[str, set[str]] = {}
    for file, name, call in loading_calls():
        found.setdefault(file, set()).add(name)
        needed = SAFE.get(name) or SAFE.get(name.partition(".")[0], "")
        assert needed in call, f"{file}: {call}: add {needed}."
    assert found == MAY_LOAD


def test_nothing_else_loads_yaml_or_json_from_files():
    loading = {
        f"{place}: {node.func.value.id}.{node.func.attr}"
        for place, node in of_kind(ast.Call)
        if isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr) not in (("yaml", "safe_dump"), ("json", "dump"), ("json", "dumps"))
        and node.func.value.id in ("yaml", "json")
    }
    own = {  # what this program has just written or sent
        "experiments/search/space.py: json.loads",
        "experiments/search/study.py: json.loads",
        "runs/process_supervision.py: json.loads",
        "runs/shards/score_formats.py: json.loads",
    }
    here = {"safe_reading.py: yaml.load", "safe_reading.py: yaml.MarkedYAMLError", "safe_reading.py: json.loads"}
    assert loading == own | here
