"""Scoring in two processes through the command line, as users start it: the scores, and every way to end early."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from tests.sentences import sentences

from textmover.cli.main import main
from textmover.runs.shards.folder import locked

PATIENCE = 240  # seconds after which a run is taken to hang

OWN = (sys.executable, "-W", "error", "-m", "textmover")


def slow(*values: object):
    return pytest.param(*values, marks=pytest.mark.slow)


def long(*values: object):
    return pytest.param(*values, marks=pytest.mark.long)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """1,001 pairs, which two processes cannot share evenly."""
    folder = tmp_path_factory.mktemp("texts")
    # Of the first seeds, 6 alone makes no text that repeats a phrase, which would be told.
    return [write(folder / name, sentences(1001, seed)) for seed, name in ((6, "h.txt"), (1, "r.txt"))]


@pytest.fixture(scope="module")
def command(tiny_encoder):
    def command(*arguments: object, program: tuple[object, ...] = OWN) -> list[str]:
        fixed = ["--encoder", tiny_encoder, "--backend", "torch", "--shard-size", 64]
        fixed += [] if "--device" in arguments else ["--device", "cpu"]
        return [str(one) for one in (*program, "score", *fixed, *arguments)]

    return command


def started(arguments: list[str], env: dict[str, str], **how) -> subprocess.Popen:
    """A process with one thread and these variables, whose standard error is read."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=env, **how)


@pytest.fixture(scope="module")
def score(command, programs):
    """Run a command to its end, with warnings as errors; with several processes, if ``--devices`` says so.

    With ``own``, they are processes that import everything themselves.
    """

    def score(
        *arguments: object, own: bool = False, code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            command(*arguments, program=OWN if own else (programs / "textmover",)),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, "OMP_NUM_THREADS": "1", **({} if own else {"PYTHONWARNINGS": "error"}), **environment},
        )
        assert ended.returncode == code, ended.stderr
        return ended

    return score


@pytest.fixture(scope="module")
def whole(score, texts):
    """The scores of a single process."""
    path = texts[0].with_name("whole.txt")
    score("-i", *texts, "--output", path)
    return path.read_bytes()


# --- the scores -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_write_what_one_writes(score, texts, tmp_path, whole):
    path = tmp_path / "scores.txt"
    ended = score("-i", *texts, "--output", path, "--devices", 2, own=True)
    assert path.read_bytes() == whole
    assert whole.count(b"\n") == 1001
    mean, signature, said = ended.stderr.splitlines()  # each once, and nothing else
    assert re.fullmatch(r"Mean: -?0\.\d{4} ± 0\.\d{4} \(standard error\), 1,001 segments", mean)
    assert signature.startswith("Signature: textmover:")
    assert said == f"Written: {path}"
    assert ended.stdout == ""
    assert not path.with_name("scores.txt.parts").exists()


BAR = """
import contextlib, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "textmover.runs.distributed":
            sys.meta_path.remove(self)
            from textmover.runs import progress
            @contextlib.contextmanager
            def progress_bar(name, *, shown):
                def advance(*step):
                    if shown:
                        with open({told!r}, "a") as stream:
                            print(name, *step, sep="|", file=stream)
                yield advance
            progress.progress_bar = progress_bar
sys.meta_path.insert(0, Finder())
"""
"""What writes down what a progress bar is told."""


@pytest.mark.long
def test_the_progress_bar_counts_the_pairs_of_both(score, texts, tmp_path):
    told, site = tmp_path / "told", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BAR.format(told=str(told)))
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    score("-i", *texts, "--output", tmp_path / "scores.txt", "--devices", 2, own=True, PYTHONPATH=path)
    steps = [line.split("|") for line in told.read_text().splitlines()]
    assert {step[0] for step in steps} == {"scoring, 2 processes"}
    assert sum(int(step[1]) for step in steps) == 1001
    assert float(steps[-1][2]) == pytest.approx(1001)
    assert {step[3] for step in steps} == {"True"}


@pytest.mark.slow
def test_parquet_folders_in_and_out(score, texts, tmp_path):
    table = pyarrow.table({name: path.read_text().splitlines() for name, path in zip("hr", texts, strict=True)})
    data = tmp_path / "data"
    data.mkdir()
    for number, (start, count) in enumerate([(0, 400), (400, 1), (401, 600)]):
        parquet.write_table(table.slice(start, count), data / f"{number}.parquet")
    columns = ("--data", data, "--hypothesis-column", "h", "--reference-column", "r")
    for name, more in (("one", ()), ("two", ("--devices", 2))):
        score(*columns, "--output", f"{tmp_path / name}/", *more)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert two == one
    assert len([name for name in one if name.endswith(".parquet")]) == 16
    summary = json.loads(one["_summary.json"])
    assert (summary["n"], summary["shards"]) == (1001, 16)


@pytest.mark.slow
def test_two_processes_share_a_folder_of_states(score, texts, tmp_path, whole):
    path, folder = tmp_path / "scores.txt", tmp_path / "states"
    alone = [float(line) for line in whole.split()]
    for more in ((), ("--overwrite",)):  # the second run reads what the first has kept
        ended = score("-i", *texts, "--output", path, "--devices", 2, "--cache", folder, *more)
        assert [line.split(":")[0] for line in ended.stderr.splitlines()] == ["Mean", "Signature", "Written"]
        assert [float(line) for line in path.read_text().split()] == pytest.approx(alone, abs=1e-6)
    assert sum(one.stat().st_size for one in folder.rglob("*.safetensors")) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "count", "start"),
    [
        (("--model", "bertscore-f1-idf"), 1001, b""),  # idf is that of all texts
        ((), 5, b""),  # the second process has no shard
        (("--on-error", "skip"), 1001, b"nan\n"),  # of rows that are left out, which are told once
    ],
)
def test_two_processes_write_what_one_writes_of_other_texts_and_metrics(score, tmp_path, more, count, start):
    texts = [write(tmp_path / name, sentences(count, seed)) for seed, name in ((6, "h"), (1, "r"))]
    if start:
        texts[0].write_bytes(texts[0].read_bytes().replace(b"\n", b"\xff\n", 1))
    said = [
        score("-i", *texts, *more, "--output", tmp_path / name, *("--devices", 2) * (name == "two")).stderr
        for name in ("one", "two")
    ]
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    assert (tmp_path / "two").read_bytes().startswith(start)
    assert said[1].count("No score (nan): 1 row;") == said[0].count("No score (nan): 1 row;") == len(start) // 4


@pytest.mark.slow
def test_an_input_of_which_every_row_is_left_out_is_refused(score, texts, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff\n" * 1001)
    path = tmp_path / "scores.txt"
    arguments = ("-i", tmp_path / "bad.txt", texts[1], "--output", path, "--devices", 2, "--on-error", "skip")
    ended = score(*arguments, code=2)
    assert ended.stderr.startswith("textmover: Expected rows that can be scored, but got none: all 1001 were left out.")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bad.txt"]


# --- other launchers --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_processes_that_a_launcher_has_started(command, texts, tmp_path, whole):
    path = tmp_path / "scores.txt"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    arguments = command("-i", *texts, "--output", path, "--devices", 2)
    launched = [*launcher, *arguments[arguments.index("textmover") :]]
    process = started(launched, {})
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0, said
    assert path.read_bytes() == whole
    assert said.count("Written:") == 1
    process = started([*launched, "--overwrite", "--num-nodes", "2"], {})
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode
    assert said.count("textmover: Expected a launcher that starts --devices 2 times --num-nodes 2") == 1


@pytest.fixture
def machines(command):
    """Run a command on two machines that are this one; how it ended on each, and what it said."""

    def machines(*arguments: list[object]) -> tuple[list[int], list[str]]:
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        nodes = [
            started(command(*one, "--num-nodes", 2), {**common, "NODE_RANK": str(rank)})
            for rank, one in enumerate(arguments)
        ]
        said = [node.communicate(timeout=PATIENCE)[1] for node in nodes]
        return [node.returncode for node in nodes], said

    return machines


@pytest.mark.long
def test_two_machines_started_by_hand(machines, texts, tmp_path, whole):
    path = tmp_path / "scores.txt"
    codes, said = machines(*[["-i", *texts, "--output", path]] * 2)
    assert codes == [0, 0], said
    assert "Written:" in said[0]
    assert said[1] == ""
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("more", "output", "message"),
    [
        long(["--batch-tokens", 99], "x", "batch tokens is 'None' in the first and '99' in number 1"),
        long([], "y", "y.parts to be in a folder that all machines share, but process 1 does not see it"),
    ],
)
def test_machines_that_do_not_do_the_same(machines, texts, tmp_path, more, output, message):
    common = ["-i", *texts, "--output"]
    codes, said = machines([*common, tmp_path / "x"], [*common, tmp_path / output, *more])
    assert codes == [2, 2], said
    assert message in said[0]
    assert said[0].count("\n") == 1
    assert said[1] == ""


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


# --- early ends -------------------------------------------------------------------------------------------------------


PATCH = """
import sys, time
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "textmover.runs.distributed":
            sys.meta_path.remove(self)
            from textmover.runs.shards import streaming
            original = streaming.score_shard
            def score_shard(scorer, shard, **rest):
                time.sleep({seconds})
                if shard.index == {fails}:
                    {how}
                return original(scorer, shard, **rest)
            streaming.score_shard = score_shard
sys.meta_path.insert(0, Finder())
"""
"""What makes the processes score slowly, or one of them fail."""

WRITES_PID = """
import os
if os.environ.get("LOCAL_RANK", "0") == "{rank}":
    open({pid!r}, "w").write(str(os.getpid()))
"""
"""What says which number the operating system has given a process."""


@pytest.fixture
def patched(tmp_path):
    """Environment of processes whose scoring is patched where Python starts."""

    def patched(seconds: float, fails: int = -1, how: str = "pass") -> dict[str, str]:
        site = tmp_path / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(PATCH.format(seconds=seconds, fails=fails, how=how))
        return {"PYTHONPATH": str(site)}

    return patched


def heed_interruptions() -> None:
    """What shells start in the background ignores them, the tests too, and what is started by these."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def after_shards(parts: Path, count: int, process: subprocess.Popen) -> None:
    """Wait for so many finished shards."""
    wait_for(process, lambda: len(list(parts.glob("_0*.json"))) >= count)


def wait_for(process: subprocess.Popen, done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        long("from textmover.types import InputError; raise InputError('no such luck.')", 2, "no such luck."),
        long("raise OSError(28, 'No space left on device', 'x')", 2, "x: No space left on device"),
        long("raise ZeroDivisionError('a defect')", 1, "ZeroDivisionError: a defect"),
        long("raise KeyboardInterrupt", 130, "interrupted: "),
    ],
)
def test_what_the_second_process_meets_ends_both(score, texts, tmp_path, patched, how, code, message, whole):
    path = tmp_path / "scores.txt"
    arguments = ("-i", *texts, "--output", path, "--devices", 2)
    ended = score(*arguments, own=True, code=code, **patched(0.1, fails=5, how=how))
    assert message in ended.stderr
    if code != 1:
        assert ended.stderr.startswith(f"textmover: {message}")
        assert ended.stderr.count("\n") == 1, ended.stderr
        assert "kept in" in ended.stderr
        assert "continue with --resume" in ended.stderr
    assert not path.exists()
    score(*arguments, "--resume")
    assert path.read_bytes() == whole


@pytest.mark.parametrize("which", [slow("keyboard"), *map(long, ("first", "terminate", "kill first", "kill second"))])
def test_an_interrupted_run_is_resumed(command, score, texts, tmp_path, patched, which, whole):
    path = tmp_path / "scores.txt"
    parts = tmp_path / "scores.txt.parts"
    arguments = ("-i", *texts, "--output", path)
    started_command = command(*arguments, "--devices", 2)
    process = started(started_command, patched(0.5), start_new_session=True, preexec_fn=heed_interruptions)
    after_shards(parts, 3, process)
    (second,) = (pid for pid in children_of(process.pid) if not gone(pid))
    if which == "keyboard":
        os.killpg(process.pid, signal.SIGINT)
    else:
        sent = {"first": signal.SIGINT, "terminate": signal.SIGTERM}.get(which, signal.SIGKILL)
        os.kill(second if which == "kill second" else process.pid, sent)
    _, said = process.communicate(timeout=60)
    until = time.monotonic() + 30
    while not gone(second):
        assert time.monotonic() < until, "the other process goes on"
        time.sleep(0.1)
    kept = len(list(parts.glob("_0*.json")))
    assert 3 <= kept < 16
    code, why = {
        "terminate": (143, "interrupted"),
        "kill first": (-9, "the first process ended without an error message"),
        "kill second": (2, "Expected all processes to go on, but number 1 was ended by SIGKILL"),
    }.get(which, (130, "interrupted"))
    assert process.returncode == code, said
    assert said.startswith(f"textmover: {why}"), said
    assert f"{kept} finished shards are kept in {parts}, continue with --resume" in said
    assert said.count("\n") == 1, said
    assert f"Kept: {kept} shards" in score(*arguments, "--resume").stderr  # by another number of processes
    assert path.read_bytes() == whole


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_whichever_process_is_killed_what_is_kept_is_said(
    command, score, programs, texts, tmp_path, patched, rank, whole
):
    environment = patched(0.1)
    pid = tmp_path / "pid"
    site = tmp_path / "site" / "sitecustomize.py"
    site.write_text(site.read_text() + WRITES_PID.format(rank=rank, pid=str(pid)))
    draw, said_kept = random.Random(f"kills of {rank}"), 0
    for number in range(10):
        path, parts = tmp_path / f"{number}.txt", tmp_path / f"{number}.txt.parts"
        pid.unlink(missing_ok=True)
        arguments = ("-i", *texts, "--output", path, "--devices", 2)
        process = started(command(*arguments, program=(programs / "textmover",)), environment)
        wait_for(process, pid.exists)
        time.sleep(draw.uniform(0, 4))
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)
        said = process.communicate(timeout=PATIENCE)[1]
        kept = len(list(parts.glob("_0*.json"))) if parts.is_dir() else 0
        print(f"process {rank}: {process.returncode}, {kept} kept, done: {path.exists()}")  # noqa: T201  the report
        if not path.exists():
            assert process.returncode == (-signal.SIGKILL if rank == 0 else 2), said
            assert said.count("textmover: ") <= 1, said
            # Where the first process is killed, the other one can say something as long as it has work of its own.
            busy = any(not (parts / f"_{index:06d}.json").exists() for index in range(1, 16, 2))
            if rank or busy:
                assert kept == 0 or f"{parts}, continue with --resume" in said, said
                said_kept += bool(kept)
            assert "textmover: " in said or rank == 0, said
        score("-i", *texts, "--output", path, "--resume")
        assert path.read_bytes() == whole
        assert not parts.exists()
    assert said_kept


@pytest.mark.slow
def test_a_second_run_on_the_same_output_is_refused(score, refused, texts, tmp_path, whole):
    path, parts = tmp_path / "scores.txt", tmp_path / "scores.txt.parts"
    arguments = ("-i", *texts, "--output", path, "--devices", 2)
    with locked(parts, path):
        assert "another run is writing there: wait for it" in refused(*arguments, "--resume")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_one_lock_is_held_for_all_processes(command, score, texts, tmp_path, patched, whole):
    path, parts = tmp_path / "scores.txt", tmp_path / "scores.txt.parts"
    arguments = ("-i", *texts, "--output", path, "--devices", 2)
    with started(command(*arguments, "--resume"), patched(4)) as first:
        after_shards(parts, 1, first)
        assert score(*arguments, "--overwrite", code=2).stderr.count("another run is writing there") == 1
        assert first.wait(PATIENCE) == 0, first.stderr.read()
    assert path.read_bytes() == whole
    assert not parts.exists()
    complete = f"Complete already: {path} (--overwrite computes it again)\n"
    assert score(*arguments, "--resume").stderr == complete
    assert "its signature entry layer is" in score(*arguments, "--resume", "--layer", 1, code=2).stderr


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def refused(command, capsys, monkeypatch):
    """What a command says that is refused before other processes are started."""

    def refused(*arguments: object) -> str:
        monkeypatch.setattr(subprocess, "Popen", None)  # by which Lightning starts them
        argv = command(*arguments)
        assert main(argv[argv.index("score") :]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        assert said.startswith("textmover: Expected ")
        return said

    return refused


def test_options_that_do_not_fit(refused, texts, tmp_path):
    output = ("--output", tmp_path / "x")
    assert "--output FILE or FOLDER/" in refused("-i", *texts, "--devices", 2)
    assert "standard input (-)" in refused("-i", "-", texts[1], *output, "--devices", 2)
    assert "at least 1, but got 0" in refused("-i", *texts, *output, "--devices", 0)
    assert "--precision to be named" in refused("-i", *texts, *output, "--devices", 2, "--precision", "auto")
    assert "cpu or cuda" in refused("-i", *texts, *output, "--devices", 2, "--device", "mps")
    assert "a file at" in refused("-i", texts[0], tmp_path / "none", *output, "--devices", 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rank", "said"), [("0", 1), ("1", 0)])
def test_options_are_refused_without_lightning_and_by_one_process(texts, rank, said):
    script = (
        "import sys; from textmover.cli.main import main; code = main(sys.argv[1:]); "
        "sys.exit(code + 10 * any(one.startswith(('lightning', 'pytorch_lightning')) for one in sys.modules))"
    )
    arguments = [sys.executable, "-c", script, "score", "-i", *map(str, texts), "--devices", "2"]
    process = started(arguments, {"RANK": rank})
    assert process.communicate(timeout=PATIENCE)[1].count("Expected --output FILE or FOLDER/") == said
    assert process.returncode == 2


@pytest.mark.slow
def test_one_process_needs_no_lightning(tiny_encoder, texts):
    code = (
        "import sys; from textmover.cli.main import main; "
        f"code = main(['score', '--encoder', {str(tiny_encoder)!r}, '--device', 'cpu', '--backend', 'torch', "
        f"'--only-mean', '-i', {str(texts[0])!r}, {str(texts[1])!r}]); "
        "assert not {'pytorch_lightning', 'lightning_fabric'} & set(sys.modules); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


# --- machines that never come -----------------------------------------------------------------------------------------


@pytest.fixture
def alone(refused, texts, tmp_path, monkeypatch):
    """Options of a run of two machines, of which only this one is started."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    return ("-i", *texts, "--output", tmp_path / "x", "--num-nodes", 2)


def test_several_machines_without_a_launcher_have_to_be_told_apart(refused, alone, monkeypatch):
    assert "got no MASTER_ADDR and no MASTER_PORT and no NODE_RANK: start the command on each" in refused(*alone)
    monkeypatch.setenv("MASTER_ADDR", "node0")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert "in the environment, for --num-nodes 2, but got no NODE_RANK: " in refused(*alone)
