"""Runs Python scripts in copies of a process that has imported the libraries, so that each begins at once.

The documents have some eighty commands, and each would spend five seconds on importing torch and transformers. A script
run here is the file itself (`runpy`), in a process, folder and environment of its own; only its imports are done.

    python preloaded.py SOCKET          the server
    python preloaded.py SOCKET SCRIPT … in its place: `client` sends its arguments, folder, environment and streams
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

CLIENT = """#!{python} -SE
import json, os, shlex, signal, socket, sys
argv = {prefix!r} + sys.argv[1:] + shlex.split(os.environ.get("DOCUMENTS_OPTIONS", ""))
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
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""A program that has `prefix` and its own arguments run by the server, with its own streams."""


LIBRARIES = """
    datasets jinja2 jsonargparse matplotlib.pyplot ot pandas pyarrow.parquet pytorch_lightning.cli rich.progress
    sacrebleu scipy.optimize scipy.stats torch torch.distributed.tensor torchmetrics
    transformers.generation transformers.models.auto.modeling_auto transformers.models.bert.modeling_bert
    transformers.models.bert.tokenization_bert textmover.cli.compare textmover.cli.evaluate textmover.cli.experiment
    textmover.cli.explain textmover.cli.export textmover.cli.perturb textmover.cli.score textmover.cli.sweep
    textmover.cli.train textmover.data textmover.scoring.adapter textmover.scoring.lexical textmover.training
"""


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
            if os.fork() == 0:
                listener.close()
                return attend(connection)
            connection.close()


def attend(connection: socket.socket) -> Callable[[], None] | None:
    """Start a job, and tell its caller how it ended; a caller that is gone ends it."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as request:
        job = json.loads(request.read())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        connection.close()
        return lambda: become(job, streams)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(process, process)
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
    os.chdir(job["folder"])
    if not os.environ.get("DOCUMENTS_ALL_BACKENDS"):
        from textmover.scoring.backends import names

        names.installed = lambda: ("torch", "torch-compile")  # converting an encoder takes ten seconds
    sys.argv = job["argv"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    preload()
    todo = serve(sys.argv[1])
    if todo is not None:
        todo()
