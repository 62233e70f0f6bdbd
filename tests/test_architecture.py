"""Imports run one way, importing the package costs nothing, and tests cannot reach the network."""

import ast
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"
PACKAGE = "textmover"

BASE = {
    "_version",
    "csv_cells",
    "files",
    "lazy",
    "markdown_escaping",
    "safe_reading",
    "terminal",
    "types",
}
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


# --- the checker ------------------------------------------------------------------------------------------------------


def unit_of(path: Path, root: Path) -> str:
    first = path.relative_to(root).parts[0]
    return first.removesuffix(".py")


def imported_modules(tree: ast.AST, units: set[str]) -> Iterator[tuple[int, str]]:
    """Line and unit of everything of ours that a file imports, at any depth, by statement or by a dotted string.

    A string that is nothing but a dotted name of ours counts, because that is how lazy imports are written.
    """
    for node in ast.walk(tree):
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


def violations(root: Path, table: Mapping[str, set[str]] = MAY_IMPORT) -> list[str]:
    """One sentence for every import under ``root`` that the table does not allow."""
    paths = sorted(root.rglob("*.py"))
    units = {unit_of(path, root) for path in paths}
    found = []
    for path in paths:
        unit, place = unit_of(path, root), path.relative_to(root).as_posix()
        if unit not in table:
            found.append(f"{place}: `{unit}` is unknown: add it to the table of tests/test_architecture.py")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        found += [
            f"{place}:{node.lineno}: relative import: write `from {PACKAGE}.… import …`"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
        ]
        found += [
            f"{place}:{line}: `{unit}` may not import `{target}`"
            if target in table
            else f"{place}:{line}: `{target}` is unknown: add it to the table of tests/test_architecture.py"
            for line, target in imported_modules(tree, units | set(table))
            if target != unit and target not in table[unit]
        ]
    return found


# --- the package ------------------------------------------------------------------------------------------------------


def test_imports_run_one_way():
    assert list(SOURCE.rglob("*.py")), f"Expected modules under {SOURCE}, but found none."
    assert violations(SOURCE) == []


def test_nothing_but_the_program_itself_imports_the_command_line():
    assert [unit for unit, allowed in MAY_IMPORT.items() if "cli" in allowed] == ["__main__"]


def test_the_table_has_no_cycle():
    remaining = dict(MAY_IMPORT)
    while remaining:
        free = [unit for unit, allowed in remaining.items() if not allowed & set(remaining)]
        assert free, f"Expected an order of imports, but these go in a circle: {sorted(remaining)}."
        for unit in free:
            del remaining[unit]


def test_importing_the_package_loads_the_standard_library_only():
    code = (
        "import json, sys; before = set(sys.modules); import textmover; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout))
    assert not loaded & {"torch", "transformers", "numpy", "scipy"}
    assert loaded - set(sys.stdlib_module_names) == {PACKAGE}


@pytest.mark.parametrize("module", ["modules", "presets", "rome", "types"])
def test_configurations_are_read_without_torch(module):
    code = f"import sys, textmover.{module}; print({{'torch', 'transformers', 'scipy'}} & set(sys.modules) or 'none')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("none\n", "")


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
    },
    "modules/encoder/static_vectors.py": {"np.load"},
    "rome/scorer/network.py": {"torch.load"},
    "rome/parsers/pipelines.py": {"spacy.load", "stanza.Pipeline"},
    "scoring/backends/onnxruntime.py": {"onnxruntime.InferenceSession"},
    "scoring/backends/openvino.py": {"_core().read_model"},
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


def loading_calls(root: Path) -> Iterator[tuple[str, str, str]]:
    """File, function and whole text of every call that loads something."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if (name.rpartition(".")[2] in LOADERS or name in DOTTED) and not OURS.fullmatch(name):
                    yield path.relative_to(root).as_posix(), name, ast.unparse(node)


def test_every_call_that_loads_something_is_known_and_runs_no_code():
    found: dict[str, set[str]] = {}
    for file, name, call in loading_calls(SOURCE):
        found.setdefault(file, set()).add(name)
        needed = SAFE.get(name) or SAFE.get(name.partition(".")[0], "")
        assert needed in call, f"{file}: {call}: add {needed}."
    assert found == MAY_LOAD


# --- the checker checked ----------------------------------------------------------------------------------------------


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
def test_a_violation_is_found_and_named(tmp_path, path, text, message):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (found,) = violations(tmp_path)
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
def test_an_allowed_import_is_not_reported(tmp_path, path, text):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert violations(tmp_path) == []


# --- the fence around the tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
def test_a_connection_to_elsewhere_is_refused_and_noted(network_attempts, host):
    with pytest.raises(OSError, match="Expected tests to stay on this computer"):
        socket.create_connection((host, 80), timeout=1)
    assert network_attempts
    assert host in network_attempts[0]
    network_attempts.clear()  # this one was on purpose


def test_a_connection_to_this_computer_is_open(network_attempts):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port), timeout=5):
            pass
    assert network_attempts == []


def test_shapes_and_dtypes_of_the_kernels_are_checked():
    import torch

    from textmover.functional import mean_cosine

    with pytest.raises(TypeError, match="similarity"):
        mean_cosine(torch.zeros(2, 3, 4), torch.zeros(2, 5), torch.zeros(2, 4))
    with pytest.raises(TypeError, match="similarity"):
        mean_cosine(torch.zeros(2, 3, 4, dtype=torch.long), torch.zeros(2, 3), torch.zeros(2, 4))


# --- the tiny encoder -------------------------------------------------------------------------------------------------


def test_the_tiny_encoder_loads_offline_and_is_the_same_everywhere(tiny_encoder):
    import torch
    from transformers import AutoModel, AutoTokenizer

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in tiny_encoder.iterdir()}
    model, tokenizer = AutoModel.from_pretrained(tiny_encoder), AutoTokenizer.from_pretrained(tiny_encoder)
    model.eval()
    batch = tokenizer(["The cat sat, reading!", "dog"], padding=True, return_tensors="pt")
    pieces = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert pieces == ["[CLS]", "the", "cat", "s", "##a", "##t", ",", "read", "##ing", "!", "[SEP]"]
    assert "[UNK]" not in tokenizer.tokenize("Zwölf ~ Quarks @ $3.50 {x}")
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    assert len(states) == 4
    assert states[0].shape == (2, 11, 32)
