"""Every code block of the documents does what it says.

Python runs in the default tests, the blocks of a page one after another in one namespace; commands are `slow`, those of
a page one after another in a folder with the files of `folder.py`. `blocks.py` says how a page steers it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent

import pytest
import yaml
from blocks import REASONS, ROOT, RUNS_ON, Block, all_blocks
from folder import make_clone

import textmover
from preloaded import offline, write_program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest

PAGES = all_blocks()
PACKAGE = str(Path(textmover.__file__).parent)
RESULTS = "docs/results/"
"""Pages whose blocks say how figures were made; they take hours, so their options alone are checked (test_pages.py)."""

SHELL = ("bash", "sh")
TEXT = ("", "text", "bibtex", "html", "latex", "console")
MOST_UNRUN = 8
LIMIT = 600
"""Seconds for a block."""


def running(page: str, *, commands: bool) -> list[Block]:
    """Blocks of a page that run among the commands, or as Python alone."""

    def belongs(block: Block) -> bool:
        if block.language == "python":
            return block.among_the_commands is commands
        return commands and block.language in SHELL and not block.page.startswith(RESULTS)

    return [block for block in PAGES[page] if belongs(block) and not block.reason]


# --- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if running(page, commands=False)])
def test_python(page, embedded, tmp_path, commands):
    blocks = running(page, commands=False)
    clone = make_clone(tmp_path, "\n".join(one.text for one in blocks))
    script: list[str] = []
    for block in blocks:  # each in its place, so that a traceback names the line of the page
        script += [""] * (block.line - len(script)) + block.text.splitlines()
    (clone / "page.py").write_text("\n".join(script) + "\n", encoding="utf-8")
    shell(blocks[0], "python page.py", clone, commands)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def commands(programs: Path) -> Path:
    """A folder with the programs that the documents call."""
    write_program(programs / "pip", f"#!{sys.executable}\n{PIP}")
    write_program(programs / "pytest", "#!/bin/sh\n# This is the test that runs.\n")
    (programs / "torch-alone").mkdir()
    (programs / "torch-alone" / "sitecustomize.py").write_text(TORCH_ALONE, encoding="utf-8")
    return programs


TORCH_ALONE = """
from importlib import util

find = util.find_spec
util.find_spec = lambda name, *rest: None if name in ("openvino", "onnxruntime") else find(name, *rest)
"""
"""Hides back-ends from processes that are no copies; converting an encoder takes them ten seconds."""


PIP = """
import re, sys
try:
    import tomllib
except ImportError:
    import tomli as tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
assert sys.argv[1] == "install", sys.argv
wanted = [one for given in sys.argv[2:] for found in re.findall(r"\\[(.+)\\]", given) for one in found.split(",")]
assert wanted and set(wanted) <= set(extras), f"Expected extras of pyproject.toml, but got {wanted}."
"""
"""Installs nothing, but knows the extras."""


LONG = {
    "docs/own-ratings.md",
    "docs/training.md",
    "docs/scoring-at-scale.md",
    "docs/checkpoints.md",
    "docs/robustness.md",
    "docs/experiments.md",
    "docs/training-data.md",
}
"""Pages whose commands take longest; recipes of trainings run two steps in tests/training/test_stage_recipes.py."""


def environment(commands: Path, **more: str) -> dict[str, str]:
    """Nothing is fetched, and what back-ends need is kept for all pages (of all workers)."""
    path = f"{commands}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**offline(commands.parents[1] / "documents-cache"), "PATH": path, **more}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long if page in LONG else pytest.mark.slow)
        for page in PAGES
        if running(page, commands=True)
    ],
)
def test_commands(page, embedded, tmp_path, commands):
    blocks = running(page, commands=True)
    assumed = [value for one in blocks for value in one.values("before")]
    clone = make_clone(tmp_path, "\n".join([*(one.text for one in blocks), *assumed]))
    for block in blocks:
        for command in block.values("before"):
            shell(block, command, clone, commands)
        if block.language == "python":
            (clone / "block.py").write_text(block.text, encoding="utf-8")
            said = shell(block, "python block.py", clone, commands)
        elif RUNS_ON in block.text:
            said = interrupted(block, clone, commands)
        else:
            said = shell(block, block.text, clone, commands, " ".join(block.values("run with")))
        if shown := output_of(block, PAGES[page]):
            assert prints(said, shown), f"{block}: Expected to print\n{shown}\nbut it printed\n{said}"


def output_of(block: Block, blocks: list[Block]) -> str:
    """The text that a page shows right below a block as what it prints; empty if there is none."""
    following = block.line + block.text.count("\n") + 3
    return next((one.text for one in blocks if one.language == "text" and one.line == following), "")


NUMBER = r"\d+\.\d{4,}"


def prints(said: str, shown: str) -> bool:
    """Whether a text is among what was printed, apart from the last digits of numbers, which differ by machine."""
    found = re.search(f"({NUMBER})".join(map(re.escape, re.split(NUMBER, shown))), said)
    pairs = zip(found.groups() if found else (), re.findall(NUMBER, shown), strict=False)
    return found is not None and all(abs(float(one) - float(other)) < 1e-4 for one, other in pairs)


def shell(block: Block, text: str, clone: Path, commands: Path, options: str = "") -> str:
    """Run a block as it is written, and return what it prints; every command of ours gets the options."""
    more = {"PRELOADED_OPTIONS": options, "TEXTMOVER_DATA": str(clone.parent / "data")}
    if re.search("openvino|onnxruntime", block.text):
        more["PRELOADED_ALL_BACKENDS"] = "yes"
    elif re.search(r"\bray\b", block.text):  # whose processes are its own
        places = [str(commands / "torch-alone"), *filter(None, [os.environ.get("PYTHONPATH")])]
        more |= {"PRELOADED_ALL_BACKENDS": "yes", "PYTHONPATH": os.pathsep.join(places)}
    command = ["bash", "-euo", "pipefail", "-c", text]
    ran = subprocess.run(
        command, cwd=clone, env=environment(commands, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=LIMIT, check=False,
    )  # fmt: skip
    said = ran.stdout.decode(errors="replace")
    assert ran.returncode == 0, f"{block}: exit code {ran.returncode} of\n{text}\n{said[-3000:]}"
    assert "Traceback (most recent call last)" not in without_workers_of_ray(said), f"{block}\n{said[-3000:]}"
    return said


def without_workers_of_ray(said: str) -> str:
    """What a block said, without the lines of Ray's processes whose traceback holds nothing of ours.

    A thread that Ray lists files with tells that it was interrupted where the data were all read before it
    was done, now and then: the block ran well.
    """
    of_workers = defaultdict(list)
    for line in said.splitlines():
        worker = re.match(r"(?:\x1b\[\d+m)*\((\S+ pid=\d+)\)", line)
        of_workers[worker[1] if worker else ""].append(line)
    kept = [lines for worker, lines in of_workers.items() if not worker or PACKAGE in "".join(lines)]
    return "\n".join(line for lines in kept for line in lines)


def interrupted(block: Block, clone: Path, commands: Path) -> str:
    """Run a block until it says where it can be reached, end it as Ctrl-C would, and return what it prints."""
    said = ""
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block.text], cwd=clone, env=environment(commands), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if re.search(r"https?://[\w.:]+", line):
                break
        else:
            pytest.fail(f"{block}: Expected an address, but the block ended with {process.wait()}.\n{said}")
        os.killpg(process.pid, signal.SIGINT)
        said += process.stdout.read()
        assert process.wait(60) in (0, 130, -signal.SIGINT), f"{block}\n{said}"
    assert "Traceback" not in said, f"{block}\n{said}"
    return said


def test_pages_show_what_blocks_print():
    shown = {page for page in PAGES for one in running(page, commands=True) if output_of(one, PAGES[page])}
    assert shown == {"README.md", "docs/errors.md", "docs/quick-start.md"}
    said = "Loading\n0.123456\na cat 1.5\n"
    for shown, found in {"0.123401\na cat 1.5": True, "0.1231": False, "a cat 1.4": False, "a dog": False}.items():
        assert prints(said, shown) is found


def test_what_goes_wrong_in_a_block_is_found(tmp_path, commands):
    def run(text: str, **options: str) -> None:
        shell(Block("page.md", 7, "bash", text), text, tmp_path, commands, **options)

    (tmp_path / "a.txt").write_text("a cat\n")
    (tmp_path / "pyproject.toml").write_text("[project.optional-dependencies]\nsome = []\n")
    script = "import sys\nprint(sys.argv[1:], file=open('said', 'w'))\nsys.exit(int(sys.argv[1]))\n"
    (tmp_path / "script.py").write_text(script)
    raises = "import traceback\ntry:\n    1 / 0\nexcept ArithmeticError:\n    traceback.print_exc()\n"
    (tmp_path / "raises.py").write_text(raises)
    run("python script.py 0 | cat; python -c 'pass'", options="--more 'one two'")
    assert (tmp_path / "said").read_text() == "['0', '--more', 'one two']\n"
    for text, message in {
        "textmover score -i a.txt none.txt": "page.md:7: exit code 2 of",
        "python script.py 3\ntrue": "exit code 3",
        "textmover score -i none.txt a.txt | cat": "exit code 2",
        "echo $UNSET": "unbound variable",
        "python raises.py": "ZeroDivisionError",
        'pip install "textmover[nothing]"': "Expected extras of pyproject.toml",
    }.items():
        with pytest.raises(AssertionError, match=re.escape(message)):
            run(text)


@pytest.mark.parametrize(("worker", "file", "found"), [
    ("", "elsewhere.py", True),
    ("(ListFiles pid=7)", "elsewhere.py", False),
    ("\x1b[36m(ListFiles pid=7)\x1b[0m", "elsewhere.py", False),
    ("(Map(Score) pid=7)", f"{PACKAGE}/scoring/ray.py", True),
])  # fmt: skip
def test_traceback_of_a_worker_of_ray(tmp_path, commands, worker, file, found):
    lines = ["scored", f"{worker} Traceback (most recent call last):", f'{worker}   File "{file}", line 3, in put']
    text = "\n".join(["cat <<'END'", *lines, "END"])
    with pytest.raises(AssertionError, match="put") if found else nullcontext():
        shell(Block("page.md", 7, "bash", text), text, tmp_path, commands)


# --- YAML and JSON ----------------------------------------------------------------------------------------------------


def of_language(*languages: str) -> list[Block]:
    return [block for blocks in PAGES.values() for block in blocks if block.language in languages]


@pytest.mark.parametrize("block", of_language("yaml", "yml"), ids=str)
def test_yaml(block, tmp_path, monkeypatch):
    content, text = yaml.safe_load(block.text), block.text
    if "class_path" in content:  # of a data module
        content, text = {"data": content}, f"data:\n{indent(text, '  ')}"
    path = tmp_path / "block.yaml"
    path.write_text(text, encoding="utf-8")
    if "trainer" in content or "model" in content or "data" in content:
        recipe(path, monkeypatch)
    elif "tables" in content:
        from textmover.cli.commands.paper_experiment import load_experiment

        assert load_experiment(path).title == content["title"]
    elif set(content) == {"columns"}:
        from textmover.readers.segments import Columns

        Columns(**content["columns"])
    elif all("." in key for key in content):
        from textmover.experiments.search.space import read_space

        assert list(read_space(path)) == list(content)
    else:
        from textmover.readers.error_spans import marked_description
        from textmover.readers.judgements.description import load_description

        assert marked_description(path) or load_description(path)


def recipe(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a recipe, put over a whole one: its classes exist and take these arguments."""
    from textmover.cli.training.train import main

    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as stop:
        main(["fit", "--config", "configs/quickstart.yaml", "--config", str(path), "--print_config"])
    assert not stop.value.code


@pytest.mark.parametrize("block", of_language("json", "toml"), ids=str)
def test_json_and_toml(block):
    {"json": json, "toml": tomllib}[block.language].loads(block.text)


def test_languages_are_known_and_no_command_hides_in_a_block_that_is_not_run():
    known = {*SHELL, *TEXT, "python", "yaml", "yml", "json", "toml"}
    assert [str(one) for blocks in PAGES.values() for one in blocks if one.language not in known] == []
    hidden = [one for one in of_language("", "console") if re.search(r"^(textmover|python) \S", one.text, re.MULTILINE)]
    assert [str(one) for one in hidden] == []


# --- what is not run --------------------------------------------------------------------------------------------------


def test_few_blocks_are_not_run_and_each_says_why(capsys):
    unrun = [block for blocks in PAGES.values() for block in blocks if block.reason]
    with capsys.disabled():
        for block in unrun:
            print(f"\nnot run: {block}: {block.reason}", end="")  # noqa: T201  a list for whoever watches
    assert [str(one) for one in unrun if one.reason not in REASONS] == []
    assert len(unrun) <= MOST_UNRUN
    assert len(unrun) < sum(len(blocks) for blocks in PAGES.values()) / 8


@pytest.mark.parametrize("page", PAGES)
def test_syntax(page):
    for block in PAGES[page]:
        if block.language == "python":
            compile("\n" * block.line + block.text, block.page, "exec")
        elif block.language in SHELL:
            checked = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
            assert checked.returncode == 0, f"{block}: {checked.stderr}"
