"""Runs Python scripts in copies of a process that has imported the libraries, so that each begins at once.

The documents have some eighty commands, tests start as many more, and each would spend seven seconds of processor time
on importing torch, transformers and Lightning. A script run here is the file itself (`runpy`), in a process, folder and
environment of its own; only its imports are done. What a library reads from the environment while it is imported is
therefore the server's. Scripts that a script starts with `sys.executable` run in copies too.

    python preloaded.py SOCKET          the server
    python preloaded.py SOCKET SCRIPT … in its place: `client` sends its arguments, folder, environment and streams

`PRELOADED_OPTIONS` in a script's environment are appended to its arguments, in place of those of their names. With
`PRELOADED_ALL_BACKENDS` it sees the back-ends that are installed, otherwise torch alone.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

CLIENT = """#!{python} -SE
import json, os, shlex, signal, socket, sys
argv, more = {prefix!r} + sys.argv[1:], shlex.split(os.environ.get("PRELOADED_OPTIONS", ""))
for option in more:  # in place of one of the same name
    if option.startswith("--") and option in argv:
        at = argv.index(option)
        del argv[at : at + 2]
argv += more
for option, most in (("--num-nodes", 1), ("--devices", 2)):  # two processes of one machine stand for more
    if option in argv:
        at = argv.index(option) + 1
        argv[at] = str(min(int(argv[at]), most))
job = dict(argv=argv, folder=os.getcwd(), environment=dict(os.environ))
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({socket!r})
    socket.send_fds(connection, [b"x"], [0, 1, 2])
    connection.sendall(json.dumps(job).encode())
    connection.shutdown(socket.SHUT_WR)
    answer = connection.makefile()
    group = int(answer.readline())
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, _: os.killpg(group, number))
    code = int(answer.readline())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""A program that has `prefix` and its own arguments run by the server, with its own streams."""

PYTHON = """#!/bin/sh
case "$1" in
  *.py|*/textmover) exec {copied} "$@";;
esac
exec {real} "$@"
"""
"""What has no script to run, such as `python -m`, is Python's own."""


def write_program(path: Path, text: str) -> None:
    """Write a file that can be run."""
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def offline(cache: Path) -> dict[str, str]:
    """The environment where nothing is fetched or shown, with a folder for what libraries keep."""
    fixed = {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "MPLBACKEND": "Agg"}
    return {**os.environ, **fixed, "HF_HOME": str(cache / "huggingface"), "XDG_CACHE_HOME": str(cache)}


@contextlib.contextmanager
def programs_in(folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Put the programs `textmover` and `python` into a folder; they work until the block ends.

    Args:
        folder: Where.
        environment: The server's.
    """
    path, script = str(folder / "socket"), str(Path(sys.executable).with_name("textmover"))
    write_program(folder / "textmover", CLIENT.format(python=sys.executable, socket=path, prefix=[script]))
    write_program(folder / "copied-python", CLIENT.format(python=sys.executable, socket=path, prefix=[]))
    quoted = [shlex.quote(str(one)) for one in (folder / "copied-python", sys.executable)]
    write_program(folder / "python", PYTHON.format(copied=quoted[0], real=quoted[1]))
    command = [sys.executable, __file__, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield folder
        process.stdin.close()


LIBRARIES = """
    datasets fastapi httpx jinja2 jsonargparse matplotlib.pyplot ot pandas pyarrow.parquet pytorch_lightning.cli
    rich.progress sacrebleu scipy.optimize scipy.stats torch torch.distributed.tensor torchmetrics uvicorn
    transformers.generation transformers.models.auto.modeling_auto transformers.models.bert.modeling_bert
    transformers.models.bert.tokenization_bert textmover.cli.commands.compare textmover.cli.commands.evaluate
    textmover.cli.commands.paper_experiment textmover.cli.commands.explain textmover.cli.training.export
    textmover.cli.commands.perturb textmover.cli.commands.score textmover.cli.commands.sweep
    textmover.cli.training.train textmover.data textmover.checkpoints.adapter textmover.scoring.lexical
    textmover.training
"""
LATER = {"app": "textmover.app.interface textmover.app.server"}
"""What is imported for all jobs to come once a command first needs it."""


def preload() -> None:
    """Import what many commands need, as far as it is there."""
    for name in LIBRARIES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def serve(path: str) -> Callable[[], None] | None:
    """Take jobs until standard input ends; returns, in the process of a job, what it has to do."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)  # noqa: T201  to whoever started it
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                return None
            connection, _ = listener.accept()
            _, streams, _, _ = socket.recv_fds(connection, 1, 3)
            job: dict = {}
            with contextlib.suppress(OSError, ValueError), connection.makefile() as request:  # its caller is there
                job = json.loads(request.read())
            for name in LATER.get(" ".join(job.get("argv", ())[1:2]), "").split():
                importlib.import_module(name)
            if job and os.fork() == 0:
                listener.close()
                return attend(connection, job, streams)
            for one in streams:
                os.close(one)
            connection.close()


def attend(connection: socket.socket, job: dict, streams: list[int]) -> Callable[[], None] | None:
    """Start a job, and tell its caller how it ended; a caller that is gone ends it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        connection.close()
        return lambda: become(job, streams)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(process, process)
    with contextlib.suppress(OSError):  # its caller is gone already
        connection.sendall(f"{process}\n".encode())
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(process)
    gone = select.poll()
    gone.register(connection, select.POLLHUP | select.POLLERR)
    gone.register(ended, select.POLLIN)
    while ended not in [one for one, _ in gone.poll()]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(f"{code}\n".encode())
    os._exit(0)


def become(job: dict, streams: list[int]) -> None:
    """Run the script, as `python SCRIPT …` would in the caller's place."""
    import runpy

    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = sys.__stdin__ = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115  they stay open
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(job["environment"])
    os.environ.pop("PRELOADED_OPTIONS", None)  # are among the arguments, which processes of its own get from it
    os.chdir(job["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has its children ignore
    as_if_new()
    if not os.environ.get("PRELOADED_ALL_BACKENDS"):
        from textmover.scoring.backends import names

        names.installed = lambda: ("torch", "torch-compile")  # converting an encoder takes ten seconds
        sys.executable = str(Path(sys.argv[1]).with_name("python"))
    sys.argv = job["argv"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        if not isinstance(stop.code, int | None):
            raise
        leave(stop.code or 0)
    leave(0)


def leave(code: int) -> None:
    """End as Python does, but without putting every module away, which touches all that was imported."""
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 0xFF)


def as_if_new() -> None:
    """Forget what the server's environment and its imports have decided on for good."""
    import tempfile
    import warnings

    import numpy as np
    import torch
    from lightning_fabric.utilities import rank_zero

    tempfile.tempdir = None
    np.random.seed(), torch.seed()  # Python sees to its own
    rank_zero.rank_zero_only.rank = rank_zero._get_rank() or 0
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    places = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.path[1:1] = places
    for place in places:
        if (customs := Path(place, "sitecustomize.py")).is_file():
            exec(compile(customs.read_text(encoding="utf-8"), customs, "exec"), {"__name__": "sitecustomize"})


if __name__ == "__main__":
    gc.set_threshold(20_000, 20, 20)  # what is imported is much to look through
    preload()
    gc.collect()
    gc.freeze()  # nobody looks through the libraries again, which would copy their memory
    todo = serve(sys.argv[1])
    if todo is not None:
        todo()
