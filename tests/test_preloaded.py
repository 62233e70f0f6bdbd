"""Scripts in copies of a process with the libraries end, speak and are alone as in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run(programs, tmp_path):
    """Run the text of a script; what it leaves behind is the ended process."""

    def run(text: str, *arguments: str, **how) -> subprocess.CompletedProcess[str]:
        (tmp_path / "script.py").write_text(text, encoding="utf-8")
        how = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False, "timeout": 60, **how}
        return subprocess.run([programs / "python", "script.py", *arguments], **how)

    return run


STATE = """
import json, os, random, sys, tempfile, warnings, logging, signal
import numpy, torch
print(json.dumps({
    "arguments": sys.argv, "folder": os.getcwd(), "first": sys.path[0], "mine": os.environ.get("MINE"),
    "temporary": tempfile.gettempdir(), "random": random.random(), "numpy": numpy.random.rand(),
    "seed": torch.initial_seed() / 2**64, "default": str(torch.get_default_dtype()), "strict": torch.are_deterministic_algorithms_enabled(),
    "handlers": len(logging.getLogger().handlers), "filters": len(warnings.filters), "name": __name__,
    "attribute": hasattr(torch, "left_behind"), "signal": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
}))
"""  # noqa: E501
DRAWN = {"random", "numpy", "seed"}
"""What each process draws again."""

SPOIL = """
import logging, os, random, signal, sys, warnings
import numpy, torch
torch.left_behind, os.environ["MINE"] = True, "spoiled"
random.seed(0), numpy.random.seed(0), torch.manual_seed(5)
torch.set_default_dtype(torch.float64), torch.use_deterministic_algorithms(True)
logging.basicConfig(), warnings.simplefilter("ignore"), signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir("/")
print("spoiled")
"""


def test_a_script_sees_what_a_process_of_its_own_would(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "MINE": "a b", "TMPDIR": str(elsewhere)}
    seen = json.loads(run(STATE, "--x", "y z", env=environment).stdout)
    command = [sys.executable, "script.py", "--x", "y z"]
    own = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    expected = json.loads(own.stdout)
    for one in (seen, expected):
        assert {0 <= one.pop(name) < 1 for name in DRAWN} == {True}
    assert seen.pop("filters") >= expected.pop("filters")  # libraries add some as they are imported
    assert seen == expected
    assert seen["arguments"] == ["script.py", "--x", "y z"]


def test_nothing_of_a_script_reaches_the_next(run):
    before = json.loads(run(STATE).stdout)
    assert run(SPOIL).stdout == "spoiled\n"
    after = json.loads(run(STATE).stdout)
    assert {name for name in before if before[name] != after[name]} == DRAWN


def test_streams_and_codes(run):
    ended = run(
        "import sys; print(sys.stdin.read()); print('e', file=sys.stderr); sys.exit(int(sys.argv[1]))", "7", input="i"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "i\n", "e\n")
    assert run("pass").returncode == 0
    ended = run("raise ValueError('why')")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback (most recent call last):")
    assert ended.stderr.endswith("ValueError: why\n")
    assert run("import sys; sys.exit('a sentence')").stderr == "a sentence\n"
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -signal.SIGKILL
    ended = run("import warnings; warnings.warn('w')", env={**os.environ, "PYTHONWARNINGS": "error"})
    assert ended.returncode == 1
    assert ended.stderr.endswith("UserWarning: w\n")


def test_what_python_reads_at_its_start_is_read(run, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os\ndef said():\n    return os.sep\nos.said = said\n")
    (tmp_path / "site" / "beside.py").write_text("name = 'beside'\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    assert run("import beside, os; print(beside.name, os.said())", env=environment).stdout == f"beside {os.sep}\n"


FAMILY = """
import os, subprocess, sys
if len(sys.argv) == 1:
    import torch
    torch.parent = True
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = "1"
    subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
    subprocess.run([sys.executable, "-c", "import sys; print('torch' in sys.modules)"], check=True)
else:
    from pytorch_lightning.utilities import rank_zero_only
    print("torch" in sys.modules, hasattr(sys.modules["torch"], "parent"), rank_zero_only.rank, flush=True)
"""


def test_processes_that_a_script_starts_are_copies_of_the_server_as_well(run):
    ended = run(FAMILY)
    assert (ended.stdout, ended.returncode) == ("True False 1\nFalse\n", 0), ended.stderr


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_program_ends_the_script(programs, tmp_path, sent):
    (tmp_path / "script.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with subprocess.Popen([programs / "python", tmp_path / "script.py"], stdout=subprocess.PIPE, text=True) as process:
        script = int(process.stdout.readline())
        process.send_signal(sent)
        assert process.wait(60) == -sent
    until = time.monotonic() + 60
    while Path(f"/proc/{script}").exists():
        assert time.monotonic() < until, "the script goes on"
        time.sleep(0.05)


def test_a_command_says_what_it_says_in_a_process_of_its_own(programs, tmp_path):
    """Exit code, output and errors of `textmover`, with back-ends hidden and not."""
    for arguments in (["--version"], ["score", "-i", "none.txt", "none.txt"], ["list", "--nothing"]):
        runs = [
            subprocess.run([*start, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
            for start in ([programs / "textmover"], [sys.executable, "-m", "textmover"])
        ]
        copied, own = ((one.returncode, one.stdout, one.stderr) for one in runs)
        assert copied == own
    script = tmp_path / "script.py"
    script.write_text("from textmover.scoring.backends.names import installed\nprint(*installed())\n")
    said = [
        subprocess.run(
            [programs / "python", script], env={**os.environ, **more}, capture_output=True, text=True, check=True
        ).stdout
        for more in ({}, {"PRELOADED_ALL_BACKENDS": "yes"})
    ]
    assert said == ["torch torch-compile\n", "torch torch-compile openvino onnxruntime\n"]
